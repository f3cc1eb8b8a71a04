"""The repository table: under which sequence number of a repository which message lies, as ranges.

One table for each repository of the bundle, the owner's own included. Rows that continue each other are one, so that a
publisher by itself costs one row however much it publishes. A table is a memory of the recent past: at its bound the
lowest rows go, and whoever needs them asks the repository or reads the store.
"""

from bisect import bisect_left, bisect_right

from holdfast.protocols.narada.events import MESSAGES, Row, life_of

Range = tuple[int, int]


class RowTable:
    """Rows of one repository, sorted by sequence number, and where each publisher's messages are among them."""

    __slots__ = ("_cats", "_firsts", "_rows", "dropped", "lost_high", "needed_from", "rows_max")

    def __init__(self, rows_max: int) -> None:
        self.rows_max = rows_max
        self.dropped = 0
        """The highest sequence number of a row that had to go."""
        self.needed_from = 1 << 62
        """What lies here or above has a use to come: if only such rows are left, the highest go first."""
        self.lost_high = False
        self._firsts: list[int] = []
        self._rows: list[Row] = []
        self._cats: dict[tuple[str, int], list[Range]] = {}
        """By publisher and life: catenation number and first sequence number of each row of messages, sorted."""

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def low(self) -> int:
        """The lowest sequence number that the table knows of; 0 if it is empty."""
        return self._firsts[0] if self._firsts else 0

    def add(self, row: Row) -> None:
        """Learn a row; of what is known already nothing is taken twice.

        A row without messages takes the place of others: a repository that did not wait for its disk has lost them.
        """
        if row.kind != MESSAGES:
            self._clear(row.first, row.last)
        first = row.first
        for known in self.between(row.first, row.last):
            if known.first > first:
                self._insert(row.part(first, known.first - 1))
            first = known.last + 1
        if first <= row.last:
            self._insert(row.part(first, row.last))

    def _clear(self, first: int, last: int) -> None:
        start = max(0, bisect_right(self._firsts, first) - 1)
        stop = bisect_right(self._firsts, last)
        met = [row for row in self._rows[start:stop] if row.last >= first and row.kind == MESSAGES]
        for row in met:
            at = bisect_left(self._firsts, row.first)
            self._drop(at, at + 1)
            if row.first < first:
                self._insert(row.part(row.first, first - 1))
            if row.last > last:
                self._insert(row.part(last + 1, row.last))

    def _insert(self, row: Row) -> None:
        at = bisect_right(self._firsts, row.first)
        before = self._rows[at - 1] if at else None
        if before is not None and _continues(before, row):
            self._rows[at - 1] = Row(before.first, before.count + row.count, before.publisher, before.cat, before.kind)
            return
        self._firsts.insert(at, row.first)
        self._rows.insert(at, Row(row.first, row.count, row.publisher, row.cat, row.kind))
        if row.kind == MESSAGES:
            column = self._cats.setdefault((row.publisher, life_of(row.cat)), [])
            column.insert(bisect_left(column, (row.cat, row.first)), (row.cat, row.first))
        if len(self._rows) > self.rows_max:
            count = max(1, self.rows_max // 8)
            if self._rows[count - 1].last < self.needed_from:
                self.dropped = max(self.dropped, self._rows[count - 1].last)
                self._drop(0, count)
            else:
                self.lost_high = True
                self._drop(len(self._rows) - count, len(self._rows))

    def _drop(self, start: int, stop: int) -> None:
        for row in self._rows[start:stop]:
            if row.kind == MESSAGES:
                key = (row.publisher, life_of(row.cat))
                column = self._cats[key]
                column.remove((row.cat, row.first))
                if not column:
                    del self._cats[key]
        del self._rows[start:stop], self._firsts[start:stop]

    def ranges(self) -> list[Range]:
        """Which sequence numbers the table knows."""
        return [(row.first, row.last) for row in self._rows]

    def known(self, first: int, last: int) -> bool:
        """Whether every number of first..last lies in some row."""
        for row in self.between(first, last):
            if row.first > first:
                return False
            first = row.last + 1
        return first > last

    def between(self, first: int, last: int) -> list[Row]:
        """The rows that meet first..last, cut to it."""
        start = max(0, bisect_right(self._firsts, first) - 1)
        found = self._rows[start : bisect_right(self._firsts, last)]
        return [row.part(first, last) for row in found if row.last >= first]

    def places_of(self, publisher: str, cat_first: int, cat_last: int) -> list[tuple[int, int, int]]:
        """Under which sequence numbers these messages lie: `(cat, first, count)` for each run that is known."""
        column = self._cats.get((publisher, life_of(cat_first)))
        if not column:
            return []
        found = []
        start = max(0, bisect_right(column, (cat_first, 1 << 62)) - 1)
        for cat, first in column[start : bisect_right(column, (cat_last, 1 << 62))]:
            row = self._rows[bisect_left(self._firsts, first)]
            low, high = max(cat, cat_first), min(cat + row.count - 1, cat_last)
            if low <= high:
                found.append((low, first + low - cat, high - low + 1))
        return found


def _continues(before: Row, row: Row) -> bool:
    return (
        before.kind == row.kind == MESSAGES
        and before.last + 1 == row.first
        and before.publisher == row.publisher
        and before.cat + before.count == row.cat
    )


def merged(rows: list[Row]) -> list[Row]:
    """The same rows, those that continue each other as one."""
    made: list[Row] = []
    for row in sorted(rows, key=lambda one: one.first):
        before = made[-1] if made else None
        if (
            before is not None
            and before.kind == row.kind == MESSAGES
            and before.publisher == row.publisher
            and before.last + 1 == row.first
            and before.cat + before.count == row.cat
        ):
            count = before.count + row.count
            made[-1] = Row(before.first, count, before.publisher, before.cat, before.kind, after=before.after)
        else:
            made.append(row)
    return made
