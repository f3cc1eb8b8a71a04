"""A store in memory: for simulations, which also crash it, and as the measure of the others."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from holdfast.model.ranges import Range
from holdfast.model.reliable import Entry, Level
from holdfast.storage.stores.buffered import BufferedChange, BufferedStore, Cursor, cut, cut_cats
from holdfast.storage.stores.store import Damage, StreamInfo


class _Column:
    """Entries in the order of one of their numbers."""

    __slots__ = ("entries", "numbers")

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.entries: list[Entry] = []

    def copy(self) -> "_Column":
        made = _Column()
        made.numbers, made.entries = self.numbers.copy(), self.entries.copy()
        return made

    def insert(self, number: int, entry: Entry) -> None:
        at = len(self.numbers)
        if at and number < self.numbers[-1]:
            at = bisect_left(self.numbers, number)
        self.numbers.insert(at, number)
        self.entries.insert(at, entry)

    def remove(self, number: int) -> None:
        at = bisect_left(self.numbers, number)
        del self.numbers[at], self.entries[at]

    def meeting(self, first: int, last: int) -> list[Entry]:
        """Those that begin within first..last, and the one before them, which may reach into it."""
        start = max(bisect_right(self.numbers, first) - 1, 0)
        return self.entries[start : bisect_right(self.numbers, last)]


class _Stream:
    """What there is of one stream."""

    def __init__(self) -> None:
        self.kept = self.next = 1
        self.high_ns = 0
        self.by_seq = _Column()
        self.by_cat: dict[str, _Column] = {}
        self.messages = self.bytes = 0

    def copy(self) -> "_Stream":
        made = _Stream()
        made.kept, made.next, made.high_ns = self.kept, self.next, self.high_ns
        made.by_seq = self.by_seq.copy()
        made.by_cat = {publisher: column.copy() for publisher, column in self.by_cat.items()}
        made.messages, made.bytes = self.messages, self.bytes
        return made

    def add(self, entry: Entry, late: bool) -> None:
        self.by_seq.insert(entry.first, entry)
        self.by_cat.setdefault(entry.publisher, _Column()).insert(entry.cat, entry)
        self.next = max(self.next, entry.last + 1)
        self.messages += entry.count
        self.bytes += entry.batch.cost_bytes
        if not late:
            self.high_ns = entry.time_ns

    def forget(self, before: int) -> None:
        self.kept = max(self.kept, before)
        gone = [entry for entry in self.by_seq.meeting(0, before - 1) if entry.last < before]
        del self.by_seq.numbers[: len(gone)], self.by_seq.entries[: len(gone)]
        for entry in gone:
            self.by_cat[entry.publisher].remove(entry.cat)
            self.messages -= entry.count
            self.bytes -= entry.batch.cost_bytes


class _Contents:
    """Streams and pairs, as some commits have left them."""

    def __init__(self) -> None:
        self.streams: dict[str, _Stream] = {}
        self.pairs: dict[str, bytes] = {}

    def copy(self) -> "_Contents":
        made = _Contents()
        made.streams = {name: stream.copy() for name, stream in self.streams.items()}
        made.pairs = self.pairs.copy()
        return made

    def carry_out(self, change: BufferedChange) -> None:
        for appended in change.entries:
            stream = self.streams.get(appended.stream)
            if stream is None:
                stream = self.streams[appended.stream] = _Stream()
            stream.add(appended.entry, appended.late)
        for name, before in change.kept.items():
            self.streams[name].forget(before)
        for key, value in change.pairs.items():
            if value:
                self.pairs[key] = value
            else:
                self.pairs.pop(key, None)


class MemoryStore(BufferedStore):
    """Keeps everything in memory. A simulated crash (`crash`) loses what was not committed as `fsynced`."""

    def __init__(self) -> None:
        super().__init__()
        self._live, self._synced = _Contents(), _Contents()
        self._unsynced: list[BufferedChange] = []

    def crash(self, surviving: int = 0) -> None:
        """The machine goes down: of the commits that were not synced, the first so many survive."""
        changes, self._unsynced = self._unsynced[:surviving], []
        for change in changes:
            self._synced.carry_out(change)
        # The two must not share what changes, or the next crash would find what it should have lost.
        self._live = self._synced.copy()
        self._begin()

    def kill(self) -> None:
        """Only the process goes down: everything that was committed is there, and a crash may still lose it."""
        self._begin()

    @property
    def unsynced(self) -> int:
        """How many commits a crash may lose."""
        return len(self._unsynced)

    # --------------------------------------------------------------------------------------------------- for the base

    def _carry_out(self, change: BufferedChange, level: Level) -> None:
        if not change.is_empty():
            self._live.carry_out(change)
            self._unsynced.append(change)
        if level is Level.FSYNCED:
            for synced in self._unsynced:
                self._synced.carry_out(synced)
            self._unsynced.clear()

    def _cursor(self, stream: str) -> Cursor | None:
        found = self._live.streams.get(stream)
        return Cursor(found.kept, found.next, found.high_ns) if found else None

    def _highest_cat(self, stream: str, publisher: str) -> int:
        column = self._column(stream, publisher)
        return column.entries[-1].cat_last if column.entries else 0

    def _spans(self, stream: str, first: int, last: int) -> list[Range]:
        found = self._live.streams.get(stream)
        entries = found.by_seq.meeting(first, last) if found else []
        return [(entry.first, entry.last) for entry in entries if entry.last >= first]

    def _has_cats(self, stream: str, publisher: str, cat_first: int, cat_last: int) -> bool:
        return any(
            entry.cat_last >= cat_first for entry in self._column(stream, publisher).meeting(cat_first, cat_last)
        )

    def _column(self, stream: str, publisher: str) -> _Column:
        found = self._live.streams.get(stream)
        return (found.by_cat.get(publisher) if found else None) or _Column()

    # --------------------------------------------------------------------------------------------------------- reading

    def read(self, stream: str, first: int, last: int, bytes_max: int) -> list[Entry]:
        found = self._live.streams.get(stream)
        if found is None:
            return []
        return cut(found.by_seq.meeting(first, last), max(first, found.kept), last, bytes_max)

    def by_identity(self, stream: str, publisher: str, cat_first: int, cat_last: int, bytes_max: int) -> list[Entry]:
        found = self._live.streams.get(stream)
        if found is None:
            return []
        return cut_cats(
            self._column(stream, publisher).meeting(cat_first, cat_last), found.kept, cat_first, cat_last, bytes_max
        )

    def at_time(self, stream: str, time_ns: int) -> int:
        found = self._live.streams.get(stream)
        if found is None:
            return 1
        for entry in found.by_seq.entries:
            if entry.time_ns >= time_ns:
                return max(entry.first, found.kept)
        return found.next

    def info(self, stream: str) -> StreamInfo:
        found = self._live.streams.get(stream) or _Stream()
        return StreamInfo(found.kept, found.next, found.messages, found.bytes)

    def streams(self) -> list[str]:
        return sorted(self._live.streams)

    def items(self, prefix: str = "") -> Iterator[tuple[str, bytes]]:
        return iter(sorted(pair for pair in self._live.pairs.items() if pair[0].startswith(prefix)))

    def _oldest(self, stream: str) -> Iterator[tuple[int, int]]:
        found = self._live.streams.get(stream) or _Stream()
        return ((entry.last, entry.batch.cost_bytes) for entry in found.by_seq.entries)

    # ---------------------------------------------------------------------------------------------------- housekeeping

    def compact(self) -> None:
        """Nothing to do: what is forgotten is gone at once."""

    def verify(self) -> list[Damage]:
        return []

    def repair(self) -> None:
        """Nothing to do: nothing is damaged."""

    def close(self) -> None:
        """Whoever simulates may go on with it, as if it were opened again."""
        self._begin()
