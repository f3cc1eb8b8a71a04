"""A store in append-only segment files, for where there is no database.

```
orders/
  00000000000000000001.log     commits one behind the other; space for them is set aside beforehand
  00000000000000000001.index   where the entries of a full segment are; made again if it is missing or harmed
  synced                       up to where the disk has surely got everything: more than that may be torn
  lock                         held by whoever writes
```

A commit is one write, and as `fsynced` one `fdatasync`; `memory` is as safe as `written`. Pairs, retention and numbers
are in the same log, and every segment begins with all of them, twice, so that older segments are only needed for their
entries. Whoever is killed while writing leaves at most one commit that is not whole, at the end of the last segment;
the next writer cuts it off. Opening a store reads the last segment and the summaries of the others.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct as Layout
from typing import Any, TypeVar

from holdfast.model.checksums import crc32
from holdfast.model.ranges import Range
from holdfast.model.reliable import Entry, Level
from holdfast.storage.files import sync_directory, write_pieces_at
from holdfast.storage.locks import Locked, hold
from holdfast.storage.stores.buffered import BufferedChange, BufferedStore, Cursor, cat_part
from holdfast.storage.stores.rows import row_of
from holdfast.storage.stores.segment_files import SegmentFiles
from holdfast.storage.stores.segment_index import StreamIndex, write_index
from holdfast.storage.stores.segment_records import (
    CommitRecord,
    Placed,
    RecordKind,
    encode_commit_record,
    encode_entry_record,
)
from holdfast.storage.stores.segment_scan import Contents, scan
from holdfast.storage.stores.segment_verify import damages_of
from holdfast.storage.stores.store import Damage, StoreAway, StoreError, StoreFailed, StreamInfo

T = TypeVar("T")

SEGMENT_BYTES = 32 << 20
"""A repository under load writes some hundreds of MB a second, and beginning a segment costs as much as a few MB."""
RECORDS_MAX = 8192
"""With so many entries and commits a segment is full at a quarter of its size: who opens the store looks at each."""
GROWTH = 4
"""Without entries a segment is full when it has so many times the bytes that it began with, and its size."""
RECORD_BYTES = 1 << 16
"""More than what stands around the entries of a commit that is light."""
FULL_MAX = 8
"""How many full segments are held open for somebody who wants them synced; of those before, the numbers are known."""
LOOKS_MAX = 20
"""How often somebody who only reads begins anew because a segment went away meanwhile."""
_MARK = Layout("<4sQQI")
_MARK_MAGIC = b"HFY1"


class SegmentStore(BufferedStore):
    """Keeps streams in the segment files of a directory, which is made if it is not there."""

    def __init__(self, path: Path | str, write: bool = True, segment_bytes: int = SEGMENT_BYTES) -> None:
        """Open the directory; one process at a time may write.

        Any number may read meanwhile: they see what there was when they opened it, or, once a segment that they want
        was forgotten, what there is then.
        """
        super().__init__()
        self.path = Path(path)
        self._segment_bytes = segment_bytes
        self._write = write
        self._lock: Any = None
        self._mark = self._broken = 0
        self._synced = (0, 0)
        self._full: list[tuple[int, int]] = []
        """Full segments that were not synced: their numbers and descriptors."""
        self._left: list[int] = []
        """Those before them, or of somebody who wrote before and may not have synced them."""
        self._records = self._begun = 0
        """How many the segment has that is being written, and the bytes of what it began with."""
        # Nor the directory.
        self._is_new = True
        if write:
            self._lock = self._locked()
        elif not self.path.is_dir():
            raise StoreError(f"there is no store in {self.path}; name a directory that a repository has written.")
        self._files = SegmentFiles(self.path)
        try:
            self._asked(self._open)
        except BaseException:
            self.close()
            raise

    def _locked(self) -> Any:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            return hold(self.path / "lock")
        except OSError as error:
            raise StoreError(
                f"cannot keep a store in {self.path}: {error.strerror or error}; name a directory that can be made."
            ) from None
        except Locked:
            raise StoreError(
                f"{self.path} is being written by another process; end it first, or name another directory."
            ) from None

    # --------------------------------------------------------------------------------------------------------- opening

    def _open(self) -> None:
        numbers = self._files.numbers()
        synced_number, synced = self._read_mark()
        self._state, self._active = Contents(), 0
        while numbers:
            number = numbers.pop()
            state = self._last_contents(number, synced if number == synced_number else 0)
            if state.end or not numbers:
                # A segment in which nothing was committed was about to be begun: the one before it goes on.
                self._state, self._active = state, number
                break
            if self._write:
                self._files.remove(number)
        self._files.load(numbers)
        if not self._write:
            return
        self._left = [number for number in numbers if number >= synced_number]
        if self._active:
            self._go_on()
        else:
            self._begin_segment(1, self._files.open_for_writing(1))

    def _last_contents(self, number: int, synced: int) -> Contents:
        # Whoever holds the lock has nobody to wait for: a commit that is not whole will never be.
        return (
            scan(self._files.data(number), number, synced) if self._write else self._files.last_contents(number, synced)
        )

    def _asked(self, work: Callable[[], T]) -> T:
        """What the files answer. Retention may remove one under whoever only reads: then it looks what is left."""
        for again in range(1 if self._write else LOOKS_MAX):
            try:
                if again:
                    self._files.close()
                    self._files = SegmentFiles(self.path)
                    self._open()
                return work()
            except FileNotFoundError:
                continue
            except OSError as error:
                raise StoreFailed(f"{self.path} cannot be read: {error.strerror or error}.") from None
        raise StoreAway(f"segments of {self.path} go away faster than they can be read; ask again.")

    def _go_on(self) -> None:
        """Write behind the last commit: what stands there was never finished."""
        self._fd = self._files.open_for_writing(self._active)
        self._end = self._state.end
        self._records = self._state.records
        os.ftruncate(self._fd, self._end)
        self._set_aside()
        if self._state.harmed and self._state.harmed[-1].end == self._end:
            note = f"{self._files.name(self._active)} lost what was synced behind byte {self._state.harmed[-1].at:,}"
            self._append_commit(CommitRecord(notes=[note]))
            self._state.notes.append(note)

    def _begin_segment(self, number: int, descriptor: int) -> None:
        self._fd = descriptor
        self._active, self._end, self._records = number, 0, 0
        self._state.index = {}
        self._set_aside()
        state = self._state
        # Twice, because nobody else could say it again.
        for _ in range(2):
            commit = CommitRecord(pairs=state.pairs, kept=state.kept, next=state.next, notes=state.notes)
            self._append_commit(commit, RecordKind.SNAPSHOT)
        self._begun = self._end
        self._is_new = True

    def _set_aside(self) -> None:
        """Ask for the whole segment at once: a file that grows costs more to sync."""
        try:
            os.posix_fallocate(self._fd, 0, max(self._segment_bytes, self._end + 1))
        except OSError:
            # Some file systems cannot; then the file grows.
            return

    def _append_commit(self, commit: CommitRecord, kind: RecordKind = RecordKind.COMMIT) -> None:
        self._end = write_pieces_at(self._fd, encode_commit_record(self._active, self._end, kind, commit), self._end)

    def _roll(self) -> None:
        """Close the segment, write its index, and begin the next."""
        os.ftruncate(self._fd, self._end)
        index, number = self._state.index, self._active
        # Before there is another segment: to whoever looks in between, a full one without an index is harmed.
        write_index(self._files.index_path(number), index)
        descriptor = self._files.open_for_writing(number + 1)
        # Whatever fails from here on, each descriptor has one owner: one that is closed twice may be somebody else's.
        self._full.append((number, self._fd))
        self._begin_segment(number + 1, descriptor)
        self._files.sealed(number, index)
        if len(self._full) > FULL_MAX:
            # Nobody has asked to have it synced yet, and who only writes does not wait for the disk.
            oldest, unsynced = self._full.pop(0)
            self._left.append(oldest)
            os.close(unsynced)

    def _sync_full(self) -> None:
        while self._left:
            self._files.sync(self._left[0])
            self._left.pop(0)
        while self._full:
            os.fsync(self._full[0][1])
            os.close(self._full.pop(0)[1])

    # ------------------------------------------------------------------------------------------------------- the change

    def _carry_out(self, change: BufferedChange, level: Level) -> None:
        if not self._write:
            raise StoreError(f"{self.path} was opened for reading only; open it for writing to change it.")
        if self._broken:
            raise StoreFailed(f"{self.path} could not be written before; close it and open it again.")
        try:
            if not change.is_empty():
                self._write_change(change)
            if level is Level.FSYNCED and self._synced != (self._active, self._end):
                self._sync()
            if change.kept:
                self._remove_forgotten()
        except OSError as error:
            self._broken = 1
            raise StoreFailed(
                f"{self.path} cannot be written: {error.strerror or error}; make room, and open it again."
            ) from None

    def is_light(self, size_bytes: int) -> bool:
        # Another segment is begun before it is full.
        return self._has_room_for(2 * size_bytes + RECORD_BYTES)

    def _has_room_for(self, size_bytes: int) -> bool:
        full_at = self._segment_bytes if self._records < RECORDS_MAX else self._segment_bytes // 4
        return self._end + size_bytes <= full_at

    def _write_change(self, change: BufferedChange) -> None:
        rows = [(one.stream, row_of(one.stream, one.entry, one.late)) for one in change.entries]
        size = sum(len(row.body) + 128 + 2 * len(stream) for stream, row in rows)
        # What takes the place of something harmed, or lost, stands in another segment: the one before is closed, with
        # an index that says what is sound in it.
        makes_up = change.dropped or (change.mended and self._state.notes)
        if self._state.index and (makes_up or not self._has_room_for(size)):
            self._roll()
        elif not self._state.index and not self._has_room_for(0) and self._end > GROWTH * self._begun:
            # Pairs alone: the next segment begins with what they come to, and this one has nothing that is wanted.
            self._roll()
            self._remove_forgotten()
        pieces: list[bytes] = []
        places: list[tuple[Placed, int, int]] = []
        at = self._end
        for stream, row in rows:
            placed = Placed(stream, row.head)
            record = encode_entry_record(self._active, at, placed, row.body, row.body_sum)
            pieces += record
            length = len(record[0]) + len(record[1])
            places.append((placed, at, length))
            at += length
        commit = CommitRecord(
            [placed for placed, _, _ in places], change.pairs, change.kept, mended=bool(change.mended)
        )
        pieces += encode_commit_record(self._active, at, RecordKind.COMMIT, commit)
        self._end = write_pieces_at(self._fd, pieces, self._end)
        self._records += len(places) + 1
        self._apply(change, places)

    def _apply(self, change: BufferedChange, places: list[tuple[Placed, int, int]]) -> None:
        state = self._state
        for stream, first in change.dropped:
            self._files.drop(state.index, self._active, stream, first)
        for placed, at, length in places:
            stream, head = placed.stream, placed.head
            index = state.index.get(stream)
            if index is None:
                index = state.index[stream] = StreamIndex()
            index.add(head, at, length)
            if head.last >= state.next.get(stream, 1):
                state.next[stream] = head.last + 1
        for key, value in change.pairs.items():
            if value:
                state.pairs[key] = value
            else:
                state.pairs.pop(key, None)
        state.kept |= change.kept
        if change.mended:
            state.notes = []

    def _sync(self) -> None:
        self._sync_full()
        os.fdatasync(self._fd)
        if self._is_new:
            sync_directory(self.path)
            self._is_new = False
        # The mark is not synced itself: it must never say more than is true, and may say less.
        body = _MARK.pack(_MARK_MAGIC, self._active, self._end, 0)[:-4]
        if not self._mark:
            self._mark = os.open(self.path / "synced", os.O_RDWR | os.O_CREAT, 0o644)
        os.pwrite(self._mark, body + crc32(body).to_bytes(4, "little"), 0)
        self._synced = (self._active, self._end)

    def _read_mark(self) -> tuple[int, int]:
        try:
            data = (self.path / "synced").read_bytes()
        except OSError:
            return 0, 0
        if len(data) != _MARK.size or crc32(data[:-4]) != int.from_bytes(data[-4:], "little"):
            return 0, 0
        _, number, synced, _ = _MARK.unpack(data)
        return number, synced

    def _remove_forgotten(self) -> None:
        dead = self._files.below(self._state.kept)
        if dead:
            # That it was forgotten must be known for good before it is gone for good.
            self._sync()
            for number in dead:
                self._files.remove(number)

    # --------------------------------------------------------------------------------------------------- for the base

    def _cursor(self, stream: str) -> Cursor | None:
        following = self._state.next.get(stream)
        if following is None:
            return None
        active = self._state.index.get(stream)
        # Without entries of its own the segment knows no time; then that of the ones before counts.
        high_ns = active.high_ns if active and active.high_ns else self._files.time_last_ns(stream)
        return Cursor(self._state.kept.get(stream, 1), following, high_ns)

    def _highest_cat(self, stream: str, publisher: str) -> int:
        return self._files.highest_cat(self._state.index, stream, publisher)

    def _spans(self, stream: str, first: int, last: int) -> list[Range]:
        return [(slot.first, slot.last) for _, slot in self._files.by_seq(self._state.index, stream, first, last)]

    def _has_cats(self, stream: str, publisher: str, cat_first: int, cat_last: int) -> bool:
        return any(self._files.by_cat(self._state.index, stream, publisher, cat_first, cat_last))

    # --------------------------------------------------------------------------------------------------------- reading

    def read(self, stream: str, first: int, last: int, bytes_max: int) -> list[Entry]:
        return self._asked(lambda: self._read(stream, first, last, bytes_max))

    def _read(self, stream: str, first: int, last: int, bytes_max: int) -> list[Entry]:
        first = max(first, self._state.kept.get(stream, 1))
        taken: list[Entry] = []
        weight = 0
        for number, slot in self._files.by_seq(self._state.index, stream, first, last):
            entry = self._files.entry(number or self._active, slot)
            if entry is not None:
                taken.append(entry.part(first, last))
                weight += len(taken[-1].batch.payloads)
                if weight >= bytes_max:
                    break
        return taken

    def by_identity(self, stream: str, publisher: str, cat_first: int, cat_last: int, bytes_max: int) -> list[Entry]:
        return self._asked(lambda: self._by_identity(stream, publisher, cat_first, cat_last, bytes_max))

    def _by_identity(self, stream: str, publisher: str, cat_first: int, cat_last: int, bytes_max: int) -> list[Entry]:
        kept = self._state.kept.get(stream, 1)
        taken: list[Entry] = []
        weight = 0
        for number, slot in self._files.by_cat(self._state.index, stream, publisher, cat_first, cat_last):
            entry = self._files.entry(number or self._active, slot)
            part = cat_part(entry, kept, cat_first, cat_last) if entry is not None else None
            if part is not None:
                taken.append(part)
                weight += len(part.batch.payloads)
                if weight >= bytes_max:
                    break
        return taken

    def at_time(self, stream: str, time_ns: int) -> int:
        return self._asked(lambda: self._at_time(stream, time_ns))

    def _at_time(self, stream: str, time_ns: int) -> int:
        kept, following = self.bounds(stream)
        found = self._files.at_time(self._state.index, stream, time_ns, kept)
        return following if found is None else max(found, kept)

    def bounds(self, stream: str) -> tuple[int, int]:
        return self._state.kept.get(stream, 1), self._state.next.get(stream, 1)

    def info(self, stream: str) -> StreamInfo:
        return self._asked(lambda: self._info(stream))

    def _info(self, stream: str) -> StreamInfo:
        kept, following = self.bounds(stream)
        messages, size = self._files.counted(self._state.index, stream, kept)
        return StreamInfo(kept, following, messages, size)

    def streams(self) -> list[str]:
        return sorted(self._state.next)

    def items(self, prefix: str = "") -> Iterator[tuple[str, bytes]]:
        return iter(sorted(pair for pair in self._state.pairs.items() if pair[0].startswith(prefix)))

    def _oldest(self, stream: str) -> Iterator[tuple[int, int]]:
        kept, following = self.bounds(stream)
        slots = self._files.by_seq(self._state.index, stream, kept, following)
        return ((slot.last, slot.size) for _, slot in slots)

    # ---------------------------------------------------------------------------------------------------- housekeeping

    def compact(self) -> None:
        if self._state.index:
            self._roll()
        self._sync()
        self._remove_forgotten()
        self._files.rewrite(self._state.kept)

    def verify(self) -> list[Damage]:
        return damages_of(self._files, self._active, self._state, self._read_mark(), self._kept_now)

    def _kept_now(self) -> dict[str, int]:
        """Up to where streams were forgotten: whoever only reads has to ask, since that may have been a moment ago."""
        if self._write:
            return self._state.kept
        with SegmentStore(self.path, write=False) as store:
            return store._state.kept

    def lost(self) -> list[str]:
        return list(self._state.notes)

    def repair(self) -> None:
        if self._state.index:
            self._roll()
        self._files.repair()

    def close(self) -> None:
        self._files.close()
        if getattr(self, "_fd", -1) > 0 and not self._broken:
            # What was set aside and not used is given back, and need not be read by whoever opens it next.
            os.ftruncate(self._fd, self._end)
        for descriptor in (getattr(self, "_fd", -1), self._mark, *(one for _, one in self._full)):
            if descriptor > 0:
                os.close(descriptor)
        self._fd, self._mark, self._full = -1, 0, []
        if self._lock is not None:
            self._lock.close()
