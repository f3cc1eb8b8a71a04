"""What the stores on databases share: the tables, the questions, and how a change is carried out.

```
streams (id, name, kept, next, messages, bytes, sum)     where each stream stands
entries (id, stream, first, count, publisher, cat, time_ns, late, head_sum, body_sum, entry)
pairs   (key, value, sum)                                metadata
```

Entries are found by (stream, first), by (stream, publisher, cat) and by (stream, late, time_ns, first). No index is
unique: what would overlap is refused before it is written, and a harmed row must not stand in the way of its repair.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.model.ranges import Range
from holdfast.model.reliable import Entry, Level
from holdfast.storage.stores.buffered import EVERYTHING, BufferedChange, BufferedStore, Cursor, cat_part
from holdfast.storage.stores.rows import checksum, columns_of, damage_of, entry_of, row_of
from holdfast.storage.stores.store import Damage, StreamInfo

COLUMNS = "first, count, publisher, cat, time_ns, late, head_sum, body_sum, entry"
PAGE_ROWS_MIN, PAGE_ROWS_MAX = 8, 2048
"""How many rows are asked for at once: as many as should be wanted, by the size of those before."""
VERIFY_ROWS = 256

Part = Callable[[Entry], Entry | None]
"""What of an entry is wanted."""

_BY_SEQ = "FROM entries WHERE stream = ?"
_BY_CAT = "FROM entries WHERE stream = ? AND publisher = ?"


class StreamRow(Struct, frozen=True, gc=False):
    """Where a stream stands, as its row says."""

    id: int
    kept: int = 1
    next: int = 1
    messages: int = 0
    bytes: int = 0

    def sum(self, name: str) -> int:
        return checksum(name, self.kept, self.next, self.messages, self.bytes)


class SqlStore(BufferedStore):
    """A store on a database, which the subclass opens, asks and writes to."""

    name: str
    """What people call it: the path or the address."""
    _write: bool

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[str, StreamRow] = {}
        self._stray: list[Damage] = []
        # Whoever had it before may have left something that is not on disk yet.
        self._unsynced = True

    # -------------------------------------------------------------------------------------------------- for a database

    @abstractmethod
    def _ask(self, question: str, values: Sequence[Any] = ()) -> Iterable[Sequence[Any]]:
        """Rows; values stand for the question marks."""

    @abstractmethod
    def _do(self, statement: str, values: Sequence[Any] = ()) -> None: ...

    @abstractmethod
    def _do_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """The same for each row; nothing if there is none."""

    @abstractmethod
    def _insert_entries(self, rows: list[Sequence[Any]]) -> None:
        """Rows of `stream` and then `COLUMNS`."""

    @abstractmethod
    def _transaction(self, level: Level, rows: int) -> AbstractContextManager[None]:
        """What happens inside is done altogether, as safely as the level says, or not at all.

        So many entries are to be inserted.
        """

    def _settle(self) -> None:
        """Whatever was lost was mended: pairs that are harmed say nothing any more."""
        self._do_many("DELETE FROM pairs WHERE key = ?", [(key,) for key in self._harmed_pairs()])

    def _harmed_pairs(self) -> list[str]:
        return [
            str(key)
            for key, value, total in self._ask("SELECT key, value, sum FROM pairs")
            if checksum(key, value) != total
        ]

    def lost(self) -> list[str]:
        return [_harmed_pair(key) for key in self._harmed_pairs()]

    @abstractmethod
    def _sync(self) -> None:
        """Make everything safe that was committed before."""

    @abstractmethod
    def _snapshot(self) -> AbstractContextManager[None]:
        """What is asked inside is answered from one state of the database, whoever writes meanwhile."""

    # ------------------------------------------------------------------------------------------------------ the change

    def _load(self) -> None:
        """Read where the streams stand."""
        self._known, self._stray = {}, []
        for number, name, *values, total in self._ask(
            "SELECT id, name, kept, next, messages, bytes, sum FROM streams ORDER BY id"
        ):
            if checksum(name, *values) == total:
                self._known[name] = StreamRow(number, *values)
            else:
                self._stray.append(_lost_stream(name))
                self._known[name] = self._counted(number)

    def _counted(self, number: int) -> StreamRow:
        """Where a stream stands, by what there is of it."""
        [(first, following, messages, weight)] = self._ask(
            "SELECT min(first), max(first + count), sum(count), sum(length(entry)) FROM entries WHERE stream = ?",
            (number,),
        )
        return StreamRow(number, first or 1, following or 1, int(messages or 0), int(weight or 0))

    def _carry_out(self, change: BufferedChange, level: Level) -> None:
        if change.is_empty():
            if level is Level.FSYNCED and self._unsynced:
                self._sync()
                self._unsynced = False
            return
        known = self._known.copy()
        with self._transaction(level, len(change.entries)):
            self._drop(change.dropped, known)
            self._add(change, known)
            for stream in sorted(change.mended & known.keys()):
                known[stream] = self._recounted(stream, known[stream])
            if change.mended:
                self._settle()
            for stream, before in change.kept.items():
                known[stream] = self._without(known[stream], before)
            self._put_pairs(change.pairs)
            self._save({stream: row for stream, row in known.items() if row != self._known.get(stream)})
        self._known = known
        self._unsynced = level is not Level.FSYNCED

    def _add(self, change: BufferedChange, known: dict[str, StreamRow]) -> None:
        rows: list[Sequence[Any]] = []
        for appended in change.entries:
            stream, entry = appended.stream, appended.entry
            state = known.get(stream)
            if state is None:
                state = StreamRow(1 + max((row.id for row in known.values()), default=0))
            row = row_of(stream, entry, appended.late)
            rows.append((state.id, *columns_of(row)))
            known[stream] = StreamRow(
                state.id,
                state.kept,
                max(state.next, entry.last + 1),
                state.messages + entry.count,
                state.bytes + len(row.body),
            )
        if rows:
            self._insert_entries(rows)

    def _recounted(self, stream: str, state: StreamRow) -> StreamRow:
        """After something was mended: what had been lost was counted before, what fills a place was not."""
        counted, before = self._counted(state.id), self._known.get(stream)
        messages = max(counted.messages, before.messages if before else 0)
        return replace(state, messages=messages, bytes=counted.bytes)

    def _drop(self, dropped: list[tuple[str, int]], known: dict[str, StreamRow]) -> None:
        for stream, first in dropped:
            self._do("DELETE FROM entries WHERE stream = ? AND first = ?", (known[stream].id, first))

    def _without(self, state: StreamRow, before: int) -> StreamRow:
        removed = self._removed(state, "first < ? AND first + count <= ?", (before, before))
        return replace(removed, kept=max(state.kept, before))

    def _removed(self, state: StreamRow, where: str, values: tuple[int, ...]) -> StreamRow:
        [(messages, weight)] = self._ask(
            f"SELECT sum(count), sum(length(entry)) FROM entries WHERE stream = ? AND {where}", (state.id, *values)
        )
        self._do(f"DELETE FROM entries WHERE stream = ? AND {where}", (state.id, *values))
        return replace(state, messages=state.messages - int(messages or 0), bytes=state.bytes - int(weight or 0))

    def _put_pairs(self, pairs: dict[str, bytes]) -> None:
        self._do_many(
            "INSERT INTO pairs (key, value, sum) VALUES (?, ?, ?) "
            "ON CONFLICT (key) DO UPDATE SET value = excluded.value, sum = excluded.sum",
            [(key, value, checksum(key, value)) for key, value in pairs.items() if value],
        )
        self._do_many("DELETE FROM pairs WHERE key = ?", [(key,) for key, value in pairs.items() if not value])

    def _save(self, changed: dict[str, StreamRow]) -> None:
        self._do_many(
            "INSERT INTO streams (id, name, kept, next, messages, bytes, sum) VALUES (?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET kept = excluded.kept, next = excluded.next, "
            "messages = excluded.messages, bytes = excluded.bytes, sum = excluded.sum",
            [
                (row.id, stream, row.kept, row.next, row.messages, row.bytes, row.sum(stream))
                for stream, row in changed.items()
            ],
        )

    # --------------------------------------------------------------------------------------------------- for the base

    def _cursor(self, stream: str) -> Cursor | None:
        state = self._known.get(stream)
        if state is None:
            return None
        [(high_ns,)] = self._ask("SELECT max(time_ns) FROM entries WHERE stream = ? AND late = 0", (state.id,))
        return Cursor(state.kept, state.next, high_ns or 0)

    def _highest_cat(self, stream: str, publisher: str) -> int:
        # The highest first one is the highest altogether: they do not overlap.
        found = self._ask(
            "SELECT cat + count - 1 FROM entries WHERE stream = ? AND publisher = ? ORDER BY cat DESC LIMIT 1",
            (self._id(stream), publisher),
        )
        return next((int(highest) for (highest,) in found), 0)

    def _spans(self, stream: str, first: int, last: int) -> list[Range]:
        key = (self._id(stream),)
        rows = self._ask(
            f"SELECT first, first + count - 1 {_BY_SEQ} AND first >= ? AND first <= ? ORDER BY first",
            (*key, self._beginning(_BY_SEQ, "first", key, first), last),
        )
        return [(begin, end) for begin, end in rows if end >= first]

    def _has_cats(self, stream: str, publisher: str, cat_first: int, cat_last: int) -> bool:
        key = (self._id(stream), publisher)
        rows = self._ask(
            f"SELECT cat + count - 1 {_BY_CAT} AND cat >= ? AND cat <= ?",
            (*key, self._beginning(_BY_CAT, "cat", key, cat_first), cat_last),
        )
        return any(end >= cat_first for (end,) in rows)

    def _id(self, stream: str) -> int:
        state = self._known.get(stream)
        return state.id if state else 0

    # --------------------------------------------------------------------------------------------------------- reading

    def _state(self, stream: str) -> StreamRow | None:
        self._look_again()
        return self._known.get(stream)

    def _look_again(self) -> None:
        """Whoever writes knows where the streams stand; whoever only reads has to ask."""
        if not self._write:
            self._load()

    def read(self, stream: str, first: int, last: int, bytes_max: int) -> list[Entry]:
        state = self._state(stream)
        if state is None or last < max(first, state.kept):
            return []
        first, last = max(first, state.kept), min(last, EVERYTHING)

        def part(entry: Entry) -> Entry | None:
            return entry.part(first, last) if entry.last >= first else None

        return self._collected(_BY_SEQ, "first", (state.id,), (first, last), part, bytes_max)

    def by_identity(self, stream: str, publisher: str, cat_first: int, cat_last: int, bytes_max: int) -> list[Entry]:
        state = self._state(stream)
        if state is None:
            return []
        cat_last = min(cat_last, EVERYTHING)

        def part(entry: Entry) -> Entry | None:
            return cat_part(entry, state.kept, cat_first, cat_last)

        return self._collected(_BY_CAT, "cat", (state.id, publisher), (cat_first, cat_last), part, bytes_max)

    def _beginning(self, those: str, column: str, key: tuple[Any, ...], number: int) -> int:
        """Where the entry begins that may hold this number: the last that begins at or before it."""
        # Not max(): PostgreSQL, as long as it has not counted its rows, would look at all that begin before it.
        found = self._ask(f"SELECT {column} {those} AND {column} <= ? ORDER BY {column} DESC LIMIT 1", (*key, number))
        return next((int(begin) for (begin,) in found), number)

    def _collected(
        self, those: str, column: str, key: tuple[Any, ...], span: Range, part: Part, bytes_max: int
    ) -> list[Entry]:
        """The parts of sound entries in the order of a column, page by page, until they weigh enough."""
        question = f"SELECT {COLUMNS}, {column} {those} AND {column} >= ? AND {column} <= ? ORDER BY {column} LIMIT ?"
        low, high = self._beginning(those, column, key, span[0]), span[1]
        taken: list[Entry] = []
        weight, rows = 0, PAGE_ROWS_MIN
        while True:
            page = list(self._ask(question, (*key, low, high, rows)))
            for *columns, number in page:
                low = number + 1
                entry = entry_of(columns)
                wanted = part(entry) if entry is not None else None
                if wanted is not None:
                    taken.append(wanted)
                    weight += len(wanted.batch.payloads)
                    if weight >= bytes_max:
                        return taken
            if len(page) < rows:
                return taken
            rows = _rows_wanted(len(taken), weight, bytes_max)

    def at_time(self, stream: str, time_ns: int) -> int:
        state = self._state(stream)
        if state is None:
            return 1
        where = "FROM entries WHERE stream = ? AND late = ? AND time_ns >= ?"
        in_order = self._ask(f"SELECT first {where} ORDER BY time_ns, first LIMIT 1", (state.id, 0, time_ns))
        late = self._ask(f"SELECT min(first) {where}", (state.id, 1, time_ns))
        found = [first for (first,) in (*in_order, *late) if first is not None]
        return max(min(found), state.kept) if found else state.next

    def info(self, stream: str) -> StreamInfo:
        state = self._state(stream) or StreamRow(0)
        return StreamInfo(state.kept, state.next, state.messages, state.bytes)

    def streams(self) -> list[str]:
        self._look_again()
        return sorted(self._known)

    def items(self, prefix: str = "") -> Iterator[tuple[str, bytes]]:
        pairs = [
            (key, value)
            for key, value, total in self._ask("SELECT key, value, sum FROM pairs")
            if key and key.startswith(prefix) and checksum(key, value) == total
        ]
        return iter(sorted(pairs))

    def _oldest(self, stream: str) -> Iterator[tuple[int, int]]:
        low, number = 0, self._id(stream)
        while page := list(
            self._ask(
                "SELECT first, first + count - 1, length(entry) FROM entries WHERE stream = ? AND first >= ? "
                "ORDER BY first LIMIT ?",
                (number, low, PAGE_ROWS_MAX),
            )
        ):
            yield from ((last, size) for _, last, size in page)
            low = page[-1][0] + 1

    # ------------------------------------------------------------------------------------------------------- verifying

    def _verify_rows(self) -> Iterator[Damage]:
        """What is wrong with rows, one by one and counted together; in a snapshot, or a writer spoils the count."""
        self._look_again()
        yield from self._stray
        names = {state.id: name for name, state in self._known.items()}
        counted = dict.fromkeys(names, 0)
        ends = dict.fromkeys(names, 0)
        for number, *columns in self._all_rows():
            stream = names.get(number)
            if stream is None:
                yield Damage(stream="", first=0, last=0, what=f"a row belongs to a stream {number} that is not there")
                continue
            counted[number] += columns[1] if isinstance(columns[1], int) else 0
            damage = damage_of(stream, columns)
            if damage is not None:
                yield damage
            elif columns[0] <= ends[number]:
                yield Damage(stream=stream, first=columns[0], last=ends[number], what="two entries overlap")
            else:
                ends[number] = columns[0] + columns[1] - 1
        for number, stream in names.items():
            yield from _miscounted(stream, self._known[stream].messages, counted[number])
        for key in self._harmed_pairs():
            yield Damage(stream="", first=0, last=0, what=_harmed_pair(key))

    def _all_rows(self) -> Iterator[Sequence[Any]]:
        for state in list(self._known.values()):
            low = -EVERYTHING
            question = f"SELECT stream, {COLUMNS} FROM entries WHERE stream = ? AND first >= ? ORDER BY first LIMIT ?"
            while page := list(self._ask(question, (state.id, low, VERIFY_ROWS))):
                yield from page
                low = page[-1][1] + 1


def _rows_wanted(count: int, weight: int, bytes_max: int) -> int:
    """How many rows more should bring the weight to `bytes_max`, by those before."""
    if not weight:
        return PAGE_ROWS_MAX
    return min(PAGE_ROWS_MAX, max(PAGE_ROWS_MIN, 1 + (bytes_max - weight) * count // weight))


def _harmed_pair(key: str) -> str:
    return f"the pair {key!r} is not what was stored"


def _lost_stream(name: str) -> Damage:
    return Damage(
        stream=name, first=0, last=0, what="what was written about the stream is harmed; it was counted again"
    )


def _miscounted(stream: str, expected: int, found: int) -> Iterator[Damage]:
    if found != expected:
        what = f"{found:,} messages are there where {expected:,} were stored"
        yield Damage(stream=stream, first=0, last=0, what=what)
