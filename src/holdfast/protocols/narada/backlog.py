"""What a subscriber knows of the order of its steering repository, from the next message to be released on.

Rows say what lies under which sequence numbers; entries are messages that came out of the repository's store. Both are
bounded: beyond the bound the highest rows go, since the lowest are due first, and entries are not taken.
"""

from bisect import bisect_left, bisect_right, insort

from holdfast.model.reliable import Entry
from holdfast.protocols.narada.events import FORGOTTEN, MESSAGES, SET_ASIDE, Cut, Row
from holdfast.protocols.narada.message_buffer import MessageBuffer

Range = tuple[int, int]


class Backlog:
    """Rows and entries at or above `position`."""

    __slots__ = (
        "_bytes",
        "_bytes_max",
        "_entries",
        "_entry_firsts",
        "_firsts",
        "_gone",
        "_rows",
        "_rows_max",
        "end",
        "position",
    )

    def __init__(self, rows_max: int, bytes_max: int) -> None:
        self._rows_max, self._bytes_max = rows_max, bytes_max
        self.begin(0)

    def begin(self, position: int) -> None:
        """Forget everything, and go on there: with another repository, all numbers are different."""
        self.position = position
        self.end = position - 1 if position else 0
        """The highest sequence number that the repository has given, as far as is known."""
        self._rows: dict[int, Row] = {}
        self._firsts: list[int] = []
        self._entries: dict[int, Entry] = {}
        self._entry_firsts: list[int] = []
        self._bytes = 0
        self._gone: dict[int, Cut] = {}
        """By the first number of what retention has taken: up to where each life was forgotten with it."""

    def add_row(self, row: Row, forgotten: Cut = ()) -> None:
        """Learn what lies there; if that is forgotten, `forgotten` says what is."""
        if row.last < self.position or row.kind == SET_ASIDE:
            return
        if row.kind == FORGOTTEN:
            self._gone.setdefault(row.first, forgotten)
        if row.kind != MESSAGES:
            # What was said to be stored there is lost: a crash came, and the repository did not wait for its disk.
            for first in [one for one in self._firsts if row.first <= one <= row.last]:
                del self._rows[first]
                self._firsts.remove(first)
        if row.first in self._rows:
            return
        self._rows[row.first] = row
        insort(self._firsts, row.first)
        self.end = max(self.end, row.last)
        if len(self._firsts) > self._rows_max:
            del self._rows[self._firsts.pop()]

    def add_entry(self, entry: Entry) -> None:
        size = entry.batch.cost_bytes
        due = entry.first <= self.position <= entry.last
        if entry.last < self.position or entry.first in self._entries:
            return
        if self._bytes + size > self._bytes_max and not due:
            return
        self._entries[entry.first] = entry
        insort(self._entry_firsts, entry.first)
        self._bytes += size
        self.end = max(self.end, entry.last)

    def entry(self) -> Entry | None:
        """The entry that is due, if it is there."""
        at = bisect_right(self._entry_firsts, self.position) - 1
        found = self._entries[self._entry_firsts[at]] if at >= 0 else None
        return found if found is not None and found.last >= self.position else None

    def row(self) -> Row | None:
        """The row that is due, if it is known."""
        return self._row_at(self.position)

    def _row_at(self, number: int) -> Row | None:
        at = bisect_right(self._firsts, number) - 1
        found = self._rows[self._firsts[at]] if at >= 0 else None
        return found if found is not None and found.last >= number else None

    def gone(self, row: Row) -> Cut:
        """What was forgotten, and lay there."""
        found = ((row.publisher, row.cat + row.count - 1),) if row.publisher else self._gone.get(row.first, ())
        self._gone = {first: cut for first, cut in self._gone.items() if first > row.last}
        return found

    def advance(self, position: int) -> None:
        """Everything below was dealt with."""
        self.position = position
        while self._firsts and self._rows[self._firsts[0]].last < position:
            del self._rows[self._firsts.pop(0)]
        while self._entry_firsts and self._entries[self._entry_firsts[0]].last < position:
            gone = self._entries.pop(self._entry_firsts.pop(0))
            self._bytes -= gone.batch.cost_bytes

    def missing(self, pieces: MessageBuffer, ranges_max: int) -> list[Range]:
        """Which messages of known rows, from the one that is due on, were neither heard nor fetched."""
        ranges: list[Range] = []
        start = max(0, bisect_right(self._firsts, self.position) - 1)
        for first in self._firsts[start:]:
            row = self._rows[first]
            # Whatever we heard under the number that is due, it is not what we wait for, or not all of it.
            heard = row.first > self.position and pieces.has(row.publisher, row.seq)
            if row.kind != MESSAGES or self._has(max(row.first, self.position)) or heard:
                continue
            if ranges and ranges[-1][1] + 1 == row.first:
                ranges[-1] = (ranges[-1][0], row.last)
            elif len(ranges) < ranges_max:
                ranges.append((max(row.first, self.position), row.last))
            else:
                break
        return ranges

    def _has(self, number: int) -> bool:
        at = bisect_right(self._entry_firsts, number) - 1
        return at >= 0 and self._entries[self._entry_firsts[at]].last >= number

    def __len__(self) -> int:
        return len(self._firsts)

    def unknown(self) -> bool:
        """Whether something is due of which nothing is known but that it exists."""
        return self.position <= self.end and self.entry() is None and self.row() is None

    def check(self) -> None:
        assert self._firsts == sorted(self._rows), "rows and their order differ"
        assert self._entry_firsts == sorted(self._entries), "entries and their order differ"
        assert bisect_left(self._firsts, 0) == 0, "a row begins below 0"
