"""Where the entries of a segment are: by sequence number, by identity, by time.

The index of the segment that is being written is in memory. When a segment is full its index is written beside it: a
summary in front, which is all that opening a store reads, and columns behind it, which are read when something in the
segment is asked for. An index that is missing or harmed is made again from its segment.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path
from struct import Struct as Layout

import msgspec
from msgspec import Struct

from holdfast.model.checksums import crc32
from holdfast.model.ranges import Range
from holdfast.storage.frames import Read
from holdfast.storage.stores.rows import StoredHead

MAGIC = b"HFX1"
PART = Layout("<4sII")
"""Magic, bytes, checksum: before the summary, and before the columns."""

LOST = -1
"""Where an entry is whose record cannot be found any more."""


class Slot(Struct, frozen=True, gc=False, order=True):
    """Where an entry is; slots are ordered as their sequence numbers are."""

    first: int
    last: int
    cat: int
    time_ns: int
    at: int
    size: int

    @property
    def cat_last(self) -> int:
        return self.cat + self.last - self.first


class StreamSummary(Struct, frozen=True, array_like=True):
    """What a segment has of a stream, at a glance."""

    first: int
    last: int
    time_first_ns: int
    time_last_ns: int
    messages: int
    bytes: int
    cats: dict[str, Range]


class _Sorted:
    """Slots in the order of one of their numbers."""

    __slots__ = ("numbers", "slots")

    def __init__(self) -> None:
        self.numbers: array[int] = array("q")
        self.slots: array[int] = array("q")

    @classmethod
    def loaded(cls, slots: bytes, column: "array[int]") -> "_Sorted":
        made = cls()
        made.slots.frombytes(slots)
        made.numbers = array("q", map(column.__getitem__, made.slots))
        return made

    def insert(self, number: int, slot: int) -> None:
        if not self.numbers or number > self.numbers[-1]:
            self.numbers.append(number)
            self.slots.append(slot)
            return
        at = bisect_right(self.numbers, number)
        self.numbers.insert(at, number)
        self.slots.insert(at, slot)

    def meeting(self, first: int, last: int) -> "array[int]":
        """Those that begin within first..last, and the one before them, which may reach into it."""
        start = max(bisect_right(self.numbers, first) - 1, 0)
        return self.slots[start : bisect_right(self.numbers, last)]

    def remove(self, slot: int) -> None:
        at = self.slots.index(slot)
        del self.numbers[at], self.slots[at]


class StreamIndex:
    """The entries of one stream in one segment: columns in the order of the log, and who is where in other orders."""

    COLUMNS = ("firsts", "counts", "cats", "times", "lates", "ats", "sizes", "publisher_at")

    def __init__(self) -> None:
        self.firsts, self.counts, self.cats = array("q"), array("q"), array("q")
        self.times, self.lates = array("q"), array("q")
        self.ats, self.sizes, self.publisher_at = array("q"), array("q"), array("q")
        self.publishers: dict[str, int] = {}
        self._by_seq = _Sorted()
        self._by_cat: dict[int, _Sorted] = {}
        self._in_order = _Sorted()

    def columns(self) -> list[bytes]:
        """All columns, and the orders, so that nothing need be sorted by whoever reads them."""
        cats = [self._by_cat.get(number) or _Sorted() for number in range(len(self.publishers))]
        orders = [self._by_seq.slots, self._in_order.slots, *(one.slots for one in cats)]
        return [column.tobytes() for column in (*(getattr(self, name) for name in self.COLUMNS), *orders)]

    @classmethod
    def loaded(cls, publishers: list[str], columns: list[bytes]) -> "StreamIndex":
        made = cls()
        made.publishers = {name: number for number, name in enumerate(publishers)}
        for name, data in zip(cls.COLUMNS, columns, strict=False):
            getattr(made, name).frombytes(data)
        seqs, times, *cats = columns[len(cls.COLUMNS) :]
        made._by_seq = _Sorted.loaded(seqs, made.firsts)
        made._in_order = _Sorted.loaded(times, made.times)
        made._by_cat = {number: _Sorted.loaded(data, made.cats) for number, data in enumerate(cats)}
        return made

    def add(self, head: StoredHead, at: int, size: int) -> None:
        slot = len(self.firsts)
        publisher = self.publishers.setdefault(head.publisher, len(self.publishers))
        self.firsts.append(head.first)
        self.counts.append(head.count)
        self.cats.append(head.cat)
        self.times.append(head.time_ns)
        self.lates.append(head.late)
        self.ats.append(at)
        self.sizes.append(size)
        self.publisher_at.append(publisher)
        self._by_seq.insert(head.first, slot)
        self._sorted_cats(publisher).insert(head.cat, slot)
        if not head.late:
            self._in_order.insert(head.time_ns, slot)

    def _sorted_cats(self, publisher: int) -> _Sorted:
        found = self._by_cat.get(publisher)
        if found is None:
            found = self._by_cat[publisher] = _Sorted()
        return found

    def remove(self, slot_first: int, at: int) -> None:
        """Forget the entry that begins at this sequence number and stands there in the log."""
        for slot in self._by_seq.meeting(slot_first, slot_first):
            if self.firsts[slot] == slot_first and self.ats[slot] == at:
                self._by_seq.remove(slot)
                self._by_cat[self.publisher_at[slot]].remove(slot)
                if not self.lates[slot]:
                    self._in_order.remove(slot)
                return

    def slot(self, at: int) -> Slot:
        first, count = self.firsts[at], self.counts[at]
        return Slot(first, first + count - 1, self.cats[at], self.times[at], self.ats[at], self.sizes[at])

    def meeting(self, first: int, last: int) -> Iterator[Slot]:
        """The entries that hold some sequence number of first..last, in order."""
        found = (self.slot(at) for at in self._by_seq.meeting(first, last))
        return (slot for slot in found if slot.last >= first)

    def entries_of(self, publisher: str, cat_first: int, cat_last: int) -> Iterator[Slot]:
        """The entries that hold some message of cat_first..cat_last of a publisher, in that order."""
        mine = self._by_cat.get(self.publishers.get(publisher, -1)) or _Sorted()
        found = (self.slot(at) for at in mine.meeting(cat_first, cat_last))
        return (slot for slot in found if slot.cat_last >= cat_first)

    def at_time(self, time_ns: int, kept: int) -> int | None:
        """The lowest sequence number from `kept` on that was stored at or after a time."""
        # Among those that are not late, sequence numbers grow as times do.
        order = self._in_order
        at = bisect_left(order.numbers, time_ns)
        at = bisect_left(order.slots, kept, lo=at, key=self._last)
        found = [max(self.firsts[slot], kept) for slot in order.slots[at : at + 1]]
        if len(order.slots) < len(self._by_seq.slots):
            found += [
                max(self.firsts[slot], kept)
                for slot in self._by_seq.slots
                if self.lates[slot] and self.times[slot] >= time_ns and self._last(slot) >= kept
            ]
        return min(found, default=None)

    def _last(self, slot: int) -> int:
        return self.firsts[slot] + self.counts[slot] - 1

    def all(self) -> Iterator[Slot]:
        return (self.slot(at) for at in self._by_seq.slots)

    def entries(self) -> Iterator[tuple[StoredHead, int, int]]:
        """Heads, places and sizes in the order of the log, without what was removed."""
        names = list(self.publishers)
        for slot in sorted(self._by_seq.slots):
            yield (
                StoredHead(
                    self.firsts[slot],
                    self.counts[slot],
                    names[self.publisher_at[slot]],
                    self.cats[slot],
                    self.times[slot],
                    self.lates[slot],
                ),
                self.ats[slot],
                self.sizes[slot],
            )

    def highest_cat(self, publisher: str) -> int:
        mine = self._by_cat.get(self.publishers.get(publisher, -1))
        return self.slot(mine.slots[-1]).cat_last if mine and mine.slots else 0

    @property
    def high_ns(self) -> int:
        """The latest time of an entry that was not late."""
        return self._in_order.numbers[-1] if self._in_order.numbers else 0

    def summary(self) -> StreamSummary | None:
        slots = self._by_seq.slots
        if not slots:
            return None
        cats: dict[str, Range] = {}
        for publisher, number in self.publishers.items():
            mine = self._by_cat.get(number)
            if mine and mine.slots:
                cats[publisher] = (mine.numbers[0], self.highest_cat(publisher))
        return StreamSummary(
            self._by_seq.numbers[0],
            max(self.firsts[slot] + self.counts[slot] - 1 for slot in slots[-2:]),
            min(self.times[slot] for slot in slots),
            max(self.times[slot] for slot in slots),
            sum(self.counts[slot] for slot in slots),
            sum(self.sizes[slot] for slot in slots),
            cats,
        )


SegmentIndex = dict[str, StreamIndex]
Summaries = dict[str, StreamSummary]


class _Columns(Struct, frozen=True, array_like=True):
    publishers: list[str]
    columns: list[bytes]


_summaries = msgspec.msgpack.Decoder(Summaries)
_columns = msgspec.msgpack.Decoder(dict[str, _Columns])


def summaries_of(index: SegmentIndex) -> Summaries:
    found = {stream: one.summary() for stream, one in index.items()}
    return {stream: summary for stream, summary in found.items() if summary is not None}


def write_index(path: Path, index: SegmentIndex) -> None:
    """Write an index aside, and then in the place of whatever was there."""
    columns = {}
    for stream, whole in index.items():
        # What was removed is left out for good.
        one = StreamIndex()
        for head, at, size in whole.entries():
            one.add(head, at, size)
        columns[stream] = _Columns(list(one.publishers), one.columns())
    draft = path.with_suffix(".draft")
    draft.write_bytes(_part(summaries_of(index)) + _part(columns))
    # If a machine loses power and with it this file, it is made again.
    draft.replace(path)


def _part(value: object) -> bytes:
    body = msgspec.msgpack.encode(value)
    return PART.pack(MAGIC, len(body), crc32(body)) + body


def read_summaries(path: Path) -> Summaries | None:
    """What a segment has, if the summary is there and sound."""
    try:
        with path.open("rb") as file:
            body = _read_part(file.read)
    except OSError:
        return None
    return None if body is None else _summaries.decode(body)


def read_index(path: Path) -> SegmentIndex | None:
    """The whole index, if it is there and sound."""
    try:
        with path.open("rb") as file:
            summary, body = _read_part(file.read), _read_part(file.read)
            left = file.read(1)
    except OSError:
        return None
    if summary is None or body is None or left:
        return None
    return {stream: StreamIndex.loaded(one.publishers, one.columns) for stream, one in _columns.decode(body).items()}


def _read_part(read: Read) -> bytes | None:
    head = read(PART.size)
    if len(head) < PART.size:
        return None
    magic, size, total = PART.unpack(head)
    body = read(size) if magic == MAGIC else b""
    return body if magic == MAGIC and len(body) == size and crc32(body) == total else None
