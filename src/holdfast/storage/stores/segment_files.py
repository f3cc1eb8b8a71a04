"""The segments of a store that are full, and how entries are found in them and in the one that is being written.

Everywhere here `active` is the index of the segment that is being written; its entries bear the number 0.
"""

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from heapq import heappop, heappush
from pathlib import Path

from holdfast.model.reliable import Entry
from holdfast.storage.files import sync_directory
from holdfast.storage.stores.segment_index import (
    LOST,
    SegmentIndex,
    Slot,
    StreamIndex,
    StreamSummary,
    Summaries,
    read_index,
    read_summaries,
    summaries_of,
    write_index,
)
from holdfast.storage.stores.segment_records import (
    CommitRecord,
    Placed,
    RecordKind,
    encode_commit_record,
    encode_record,
    entry_of,
    record_at,
)
from holdfast.storage.stores.segment_scan import Contents, scan

INDEXES_MAX = 16
DESCRIPTORS_MAX = 64
"""How many indexes are in memory and how many files are open at once: those that were asked last."""
AHEAD_BYTES = 1 << 17
"""How much is read at once by whoever reads one record after the other."""
COMMIT_LOOKS_MAX, COMMIT_LOOK_S = 50, 0.02
"""How often, and how long apart, a reader looks at a last commit that cannot be read: its writer may be writing it."""
LIVE_SHARE_MIN = 0.5
"""Compaction rewrites a segment of which less than this is kept."""

Found = Iterator[tuple[int, Slot]]
"""Numbers of segments and slots in them."""
_Candidate = tuple[int, int, Callable[[], Iterator[Slot]]]
"""From which number on a segment has something, which segment it is, and how to get it."""


class SegmentFiles:
    """The files of a directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._summaries: dict[int, Summaries] = {}
        self._indexes: OrderedDict[int, SegmentIndex] = OrderedDict()
        self._descriptors: OrderedDict[int, int] = OrderedDict()
        self._ahead = (0, 0, b"")
        self._last = (0, 0)

    # ----------------------------------------------------------------------------------------------------------- files

    def numbers(self) -> list[int]:
        return sorted(int(file.stem) for file in self.path.glob("*.log") if file.stem.isdecimal())

    def missing(self) -> dict[int, Summaries]:
        """What the segments had of which there is only an index."""
        there = set(self.numbers())
        alone = {int(file.stem) for file in self.path.glob("*.index") if file.stem.isdecimal()} - there
        # In this order: whoever removes a segment removes its index first, and may be about to.
        alone = {number for number in alone if not self._log(number).exists() and self.index_path(number).exists()}
        return {number: read_summaries(self.index_path(number)) or {} for number in sorted(alone)}

    def forget_missing(self) -> None:
        for number in self.missing():
            self.index_path(number).unlink(missing_ok=True)

    def full(self) -> list[int]:
        return sorted(self._summaries)

    def name(self, number: int) -> str:
        return f"{number:020d}.log"

    def _log(self, number: int) -> Path:
        return self.path / self.name(number)

    def index_path(self, number: int) -> Path:
        return self._log(number).with_suffix(".index")

    def data(self, number: int) -> bytes:
        return self._log(number).read_bytes()

    def last_contents(self, number: int, synced: int) -> Contents:
        """What the last segment says to a reader while another process may be writing it.

        A write is not one step to a reader. Without the wait: (1) the writer writes a commit that crosses a page, (2)
        the system takes the processor from the writer between the two pages, (3) the reader sees the prefix of the
        commit with half of its body and calls the commit harmed.
        """
        contents = scan(self.data(number), number, synced)
        for _ in range(COMMIT_LOOKS_MAX):
            if not contents.blank or not synced < contents.end == contents.blank[-1].end:
                break
            time.sleep(COMMIT_LOOK_S)
            contents = scan(self.data(number), number, synced)
        return contents

    def open_for_writing(self, number: int) -> int:
        return os.open(self._log(number), os.O_RDWR | os.O_CREAT, 0o644)

    def sync(self, number: int) -> None:
        descriptor = self.open_for_writing(number)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def load(self, numbers: list[int]) -> None:
        """Learn what the full segments have."""
        for number in numbers:
            summaries = read_summaries(self.index_path(number))
            self._summaries[number] = summaries_of(self._made(number)) if summaries is None else summaries

    def seal(self, number: int, index: SegmentIndex) -> None:
        """A segment is full: write its index."""
        write_index(self.index_path(number), index)
        self.sealed(number, index)

    def sealed(self, number: int, index: SegmentIndex) -> None:
        """A segment is full, and its index is written."""
        self._summaries[number] = summaries_of(index)
        self._remember(number, index)

    def remove(self, number: int) -> None:
        self._let_go(number)
        self._summaries.pop(number, None)
        # In this order: an index without its segment says that a segment is missing.
        self.index_path(number).unlink(missing_ok=True)
        self._log(number).unlink(missing_ok=True)

    def _let_go(self, number: int) -> None:
        self._ahead = (0, 0, b"")
        self._indexes.pop(number, None)
        descriptor = self._descriptors.pop(number, None)
        if descriptor is not None:
            os.close(descriptor)

    def close(self) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()

    # --------------------------------------------------------------------------------------------------------- indexes

    def index(self, number: int) -> SegmentIndex:
        found = self._indexes.get(number)
        if found is not None:
            self._indexes.move_to_end(number)
            return found
        found = read_index(self.index_path(number))
        return self._remember(number, self._made(number) if found is None else found)

    def _made(self, number: int) -> SegmentIndex:
        """The index again, from the segment itself."""
        return self.contents(number).index

    def contents(self, number: int) -> Contents:
        """What a full segment says: nobody is writing to it, so whatever stands in it was committed."""
        data = self.data(number)
        return scan(data, number, synced=len(data))

    def _remember(self, number: int, index: SegmentIndex) -> SegmentIndex:
        self._indexes[number] = index
        if len(self._indexes) > INDEXES_MAX:
            self._indexes.popitem(last=False)
        return index

    def drop(self, active: SegmentIndex, active_number: int, stream: str, first: int) -> None:
        """Leave the harmed entry out that begins at this sequence number."""
        for number in (active_number, *self._having(stream, first, first)):
            index = active if number == active_number else self.index(number)
            one = index.get(stream) or StreamIndex()
            harmed = [
                slot for slot in one.meeting(first, first) if slot.first == first and self.entry(number, slot) is None
            ]
            for slot in harmed:
                one.remove(first, slot.at)
            if harmed and number != active_number:
                self.seal(number, index)

    def repair(self) -> None:
        """Write the indexes again that cannot be read."""
        for number in self.full():
            if read_index(self.index_path(number)) is None:
                self.seal(number, self._made(number))
        self.forget_missing()

    # --------------------------------------------------------------------------------------------------------- finding

    def _having(self, stream: str, first: int, last: int) -> list[int]:
        return [
            number
            for number, summaries in self._summaries.items()
            if (summary := summaries.get(stream)) is not None and summary.first <= last and summary.last >= first
        ]

    def _segments_with(self, stream: str) -> Iterator[tuple[int, StreamSummary]]:
        for number, summaries in self._summaries.items():
            if stream in summaries:
                yield number, summaries[stream]

    def _stream(self, number: int, stream: str) -> StreamIndex:
        return self.index(number).get(stream) or StreamIndex()

    def by_seq(self, active: SegmentIndex, stream: str, first: int, last: int) -> Found:
        """Where the entries are that hold some of first..last, in order; damaged ones too."""
        if first > last:
            return iter(())
        candidates: list[_Candidate] = [
            (self._summaries[number][stream].first, number, partial(self._seqs, number, stream, first, last))
            for number in self._having(stream, first, last)
        ]
        if stream in active:
            candidates.append((0, 0, lambda: active[stream].meeting(first, last)))
        return _merged(candidates, lambda slot: slot.first)

    def by_cat(self, active: SegmentIndex, stream: str, publisher: str, cat_first: int, cat_last: int) -> Found:
        """The same for messages of a publisher, in the order of catenation numbers."""
        candidates: list[_Candidate] = []
        for number, summary in self._segments_with(stream):
            begin, end = summary.cats.get(publisher, (1, 0))
            if begin <= cat_last and end >= cat_first:
                of = partial(self._cats, number, stream, publisher, cat_first, cat_last)
                candidates.append((begin, number, of))
        if stream in active:
            candidates.append((0, 0, lambda: active[stream].entries_of(publisher, cat_first, cat_last)))
        return _merged(candidates, lambda slot: slot.cat)

    # The index of a segment is not read before something of it is wanted, and these are called only then.

    def _seqs(self, number: int, stream: str, first: int, last: int) -> Iterator[Slot]:
        return self._stream(number, stream).meeting(first, last)

    def _cats(self, number: int, stream: str, publisher: str, cat_first: int, cat_last: int) -> Iterator[Slot]:
        return self._stream(number, stream).entries_of(publisher, cat_first, cat_last)

    def at_time(self, active: SegmentIndex, stream: str, time_ns: int, kept: int) -> int | None:
        best = active[stream].at_time(time_ns, kept) if stream in active else None
        for number, summary in sorted(self._segments_with(stream), key=lambda one: one[1].first):
            if best is not None and summary.first >= best:
                break
            if summary.time_last_ns >= time_ns and summary.last >= kept:
                found = self._stream(number, stream).at_time(time_ns, kept)
                best = found if best is None else min(best, best if found is None else found)
        return best

    def highest_cat(self, active: SegmentIndex, stream: str, publisher: str) -> int:
        own = active[stream].highest_cat(publisher) if stream in active else 0
        return max([own, *(summary.cats.get(publisher, (0, 0))[1] for _, summary in self._segments_with(stream))])

    def time_last_ns(self, stream: str) -> int:
        return max((summary.time_last_ns for _, summary in self._segments_with(stream)), default=0)

    def counted(self, active: SegmentIndex, stream: str, kept: int) -> tuple[int, int]:
        """How many messages are kept, and what their records weigh."""
        messages = size = 0
        partly = [active[stream]] if stream in active else []
        for number, summary in self._segments_with(stream):
            if summary.first >= kept:
                messages, size = messages + summary.messages, size + summary.bytes
            elif summary.last >= kept:
                partly.append(self._stream(number, stream))
        for index in partly:
            for slot in index.all():
                if slot.last >= kept:
                    messages, size = messages + slot.last - slot.first + 1, size + slot.size
        return messages, size

    def below(self, kept: dict[str, int]) -> list[int]:
        """Segments of which everything was forgotten."""
        return [
            number
            for number, summaries in self._summaries.items()
            if all(summary.last < kept.get(stream, 1) for stream, summary in summaries.items())
        ]

    def is_forgotten(self, number: int, kept: dict[str, int]) -> bool:
        """Whether a segment is gone by now, or about to be."""
        return number in self.below(kept) or not self._log(number).exists()

    # --------------------------------------------------------------------------------------------------------- entries

    def entry(self, number: int, slot: Slot) -> Entry | None:
        """What stands there, if it is what was written."""
        if slot.at == LOST:
            return None
        for data, begin in self._read(number, slot):
            record = record_at(data, begin, number, slot.at)
            entry = entry_of(record) if record is not None else None
            if entry is not None and entry.first == slot.first and entry.cat == slot.cat:
                return entry
        return None

    def _read(self, number: int, slot: Slot) -> Iterator[tuple[bytes, int]]:
        """The bytes of a record and where it begins in them: what was read ahead, then those of the file as it is."""
        (last_number, last_end), self._last = self._last, (number, slot.at + slot.size)
        ahead_number, ahead_at, ahead = self._ahead
        begin = slot.at - ahead_at
        if number == ahead_number and 0 <= begin <= len(ahead) - slot.size:
            yield ahead, begin
        # Whoever reads on behind the last record will go on: then one call reads many.
        goes_on = number == last_number and 0 <= slot.at - last_end <= AHEAD_BYTES
        data = os.pread(self._descriptor(number), max(slot.size, AHEAD_BYTES if goes_on else 0), slot.at)
        self._ahead = (number, slot.at, data)
        yield data, 0

    def _descriptor(self, number: int) -> int:
        found = self._descriptors.get(number)
        if found is None:
            found = self._descriptors[number] = os.open(self._log(number), os.O_RDONLY)
            if len(self._descriptors) > DESCRIPTORS_MAX:
                os.close(self._descriptors.popitem(last=False)[1])
        return found

    # ------------------------------------------------------------------------------------------------------ compaction

    def rewrite(self, kept: dict[str, int]) -> None:
        """Write segments anew of which most was forgotten, without that."""
        for number in self.full():
            index = self.index(number)
            live = sum(
                slot.size for stream, one in index.items() for slot in one.all() if slot.last >= kept.get(stream, 1)
            )
            if live < LIVE_SHARE_MIN * self._log(number).stat().st_size:
                self._rewrite(number, index, kept)

    def _rewrite(self, number: int, index: SegmentIndex, kept: dict[str, int]) -> None:
        data = self.data(number)
        pieces: list[bytes] = []
        made: SegmentIndex = {}
        entries: list[Placed] = []
        at = 0
        for stream, one in index.items():
            for head, old, size in one.entries():
                record = record_at(data, old, number, old) if old != LOST else None
                if head.last < kept.get(stream, 1) or record is None:
                    continue
                piece = encode_record(
                    number, at, RecordKind.ENTRY, bytes(record.head), bytes(record.body), record.body_sum
                )
                made.setdefault(stream, StreamIndex()).add(head, at, size)
                entries.append(Placed(stream, head))
                pieces += piece
                at += size
        pieces += encode_commit_record(number, at, RecordKind.COMMIT, CommitRecord(entries))
        self._put_in_place(number, b"".join(pieces), made)

    def _put_in_place(self, number: int, data: bytes, index: SegmentIndex) -> None:
        draft = self._log(number).with_suffix(".draft")
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self._let_go(number)
        # An index says where entries are in the file beside it: between the two there is none rather than a wrong one.
        self.index_path(number).unlink(missing_ok=True)
        draft.replace(self._log(number))
        sync_directory(self.path)
        self.seal(number, index)


def _merged(candidates: list[_Candidate], key: Callable[[Slot], int]) -> Found:
    """The slots of several segments in one order; a segment is not looked into before something of it may be next."""
    candidates.sort(key=lambda one: one[:2], reverse=True)
    heap: list[tuple[int, int, int, Slot, Iterator[Slot]]] = []
    while candidates or heap:
        while candidates and (not heap or candidates[-1][0] <= heap[0][0]):
            _, number, begin = candidates.pop()
            _push(heap, number, begin(), key)
        if heap:
            _, number, _, slot, slots = heappop(heap)
            yield number, slot
            _push(heap, number, slots, key)


def _push(
    heap: list[tuple[int, int, int, Slot, Iterator[Slot]]],
    number: int,
    slots: Iterator[Slot],
    key: Callable[[Slot], int],
) -> None:
    slot = next(slots, None)
    if slot is not None:
        heappush(heap, (key(slot), number, slot.at, slot, slots))
