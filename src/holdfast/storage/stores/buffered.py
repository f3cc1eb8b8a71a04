"""What stores have in common: buffering until a commit, and refusing what would overlap.

A backend says what it holds (`_cursor`, `_spans`, `_cats`, …) and carries out one `BufferedChange` at a time.
"""

from abc import abstractmethod
from collections.abc import Sequence

from msgspec import Struct, field

from holdfast.model.ranges import Range, joined, without
from holdfast.model.reliable import Entry, Level
from holdfast.protocols.trackers import RangeTracker
from holdfast.storage.stores.store import Store, StoreError

EVERYTHING = 1 << 62
"""More bytes than anything weighs."""
BUFFERED_RANGES_MAX = 1 << 62
"""What is buffered is bounded by the commits; its ranges need no bound of their own."""


class Cursor(Struct, gc=False):
    """Where a stream stands, what is buffered included."""

    kept: int = 1
    next: int = 1
    high_ns: int = 0
    """The latest time of an entry that was not late."""


class Appended(Struct, frozen=True):
    """An entry on its way into the store.

    It is `late` if it fills a place, or if the clock went back: among the others times grow with sequence numbers.
    """

    stream: str
    entry: Entry
    late: bool


class BufferedChange(Struct):
    """Everything since the last commit."""

    entries: list[Appended] = field(default_factory=list)
    pairs: dict[str, bytes] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)
    """Up to where streams are to be forgotten."""
    dropped: list[tuple[str, int]] = field(default_factory=list)
    """Damaged entries that give way to mended ones: the stream, and the sequence number under which it is found."""
    mended: set[str] = field(default_factory=set)
    """The streams into which something was put that may have been counted when it was stored first."""

    def is_empty(self) -> bool:
        return not (self.entries or self.pairs or self.kept or self.dropped or self.mended)


class BufferedStore(Store):
    """Buffers, checks, and commits by handing the whole change to the backend."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        """Know nothing: neither of what was buffered, nor of where the streams stand."""
        self._change = BufferedChange()
        self._cursors: dict[str, Cursor] = {}
        self._highest: dict[tuple[str, str], int] = {}
        self._buffered_seqs: dict[str, RangeTracker] = {}
        self._buffered_cats: dict[tuple[str, str], RangeTracker] = {}

    # ------------------------------------------------------------------------------------------------ for the backend

    @abstractmethod
    def _cursor(self, stream: str) -> Cursor | None:
        """Where a stream stands, or None if nothing was ever stored of it."""

    @abstractmethod
    def _highest_cat(self, stream: str, publisher: str) -> int:
        """The highest catenation number that is stored of a publisher; 0 if none is."""

    @abstractmethod
    def _spans(self, stream: str, first: int, last: int) -> list[Range]:
        """The sequence numbers of entries that meet first..last, damaged ones too, uncut and in order."""

    @abstractmethod
    def _has_cats(self, stream: str, publisher: str, cat_first: int, cat_last: int) -> bool:
        """Whether some entry, be it damaged, has one of these identities."""

    @abstractmethod
    def _carry_out(self, change: BufferedChange, level: Level) -> None:
        """Store a change, all or nothing; an empty one makes what was stored before as safe as the level says."""

    # ------------------------------------------------------------------------------------------------------- buffering

    def append(self, stream: str, entries: Sequence[Entry]) -> None:
        cursor = self._cursor_of(stream)
        for whole in entries:
            if whole.first < cursor.kept:
                if whole.last < cursor.kept:
                    continue
                entry = whole.part(cursor.kept, whole.last)
            else:
                entry = whole
            self._check(stream, cursor, entry)
            self._take(stream, cursor, entry)

    def put(self, key: str, value: bytes) -> None:
        self._change.pairs[key] = value

    def forget(self, stream: str, before: int) -> None:
        cursor = self._cursor_of(stream)
        before = min(before, cursor.next)
        if before > cursor.kept:
            cursor.kept = before
            self._change.kept[stream] = before

    def mend(self, stream: str, entries: Sequence[Entry]) -> None:
        self._change.mended.add(stream)
        cursor = self._cursor_of(stream)
        offered = joined((entry.first, entry.last) for entry in entries)
        taken: list[Range] = []
        for first, last in offered:
            sound = [(entry.first, entry.last) for entry in self.read(stream, first, last, EVERYTHING)]
            for span in self._spans(stream, first, last):
                if not without(span, sound) or without(span, offered):
                    # It is sound, or what was offered does not make up for all of it: it stays as it is.
                    taken.append(span)
                else:
                    self._change.dropped.append((stream, span[0]))
        taken.sort()
        for entry in entries:
            for first, last in without((entry.first, entry.last), taken):
                self._mend_part(stream, cursor, entry.part(first, last))

    def _mend_part(self, stream: str, cursor: Cursor, entry: Entry) -> None:
        seqs = self._buffered_seqs.get(stream)
        has = self.by_identity(stream, entry.publisher, entry.cat, entry.cat_last, 1)
        if entry.first >= cursor.kept and not has and not (seqs and seqs.meets(entry.first, entry.last)):
            self._take(stream, cursor, entry)

    def commit(self, level: Level) -> None:
        change = self._change
        self._change = BufferedChange()
        self._buffered_seqs.clear()
        self._buffered_cats.clear()
        try:
            self._carry_out(change, level)
        except BaseException:
            # Nothing of it is stored, so nothing that was concluded from it is true.
            self._begin()
            raise

    # -------------------------------------------------------------------------------------------------------- checking

    def _cursor_of(self, stream: str) -> Cursor:
        cursor = self._cursors.get(stream)
        if cursor is None:
            if not stream:
                raise StoreError("a stream needs a name; give the topic or pattern that it covers.")
            cursor = self._cursors[stream] = self._cursor(stream) or Cursor()
        return cursor

    def _check(self, stream: str, cursor: Cursor, entry: Entry) -> None:
        """Raise `StoreError` if a sequence number or an identity of the entry is taken."""
        first, last = entry.first, entry.last
        if first < cursor.next:
            seqs = self._buffered_seqs.get(stream)
            if (seqs is not None and seqs.meets(first, last)) or self._spans(stream, first, last):
                raise StoreError(
                    f"{stream} has something under a sequence number of {first}..{last} already; append behind "
                    f"{cursor.next - 1}, or into a place that is free. Nothing of this entry was buffered."
                )
        who = (stream, entry.publisher)
        highest = self._highest.get(who)
        if highest is None:
            highest = self._highest[who] = self._highest_cat(*who)
        if entry.cat <= highest:
            cats = self._buffered_cats.get(who)
            if (cats is not None and cats.meets(entry.cat, entry.cat_last)) or self._has_cats(
                stream, entry.publisher, entry.cat, entry.cat_last
            ):
                raise StoreError(
                    f"{stream} has a message of {entry.cat}..{entry.cat_last} of {entry.publisher} already; the same "
                    "message is stored once. Nothing of this entry was buffered."
                )

    def _take(self, stream: str, cursor: Cursor, entry: Entry) -> None:
        last, who = entry.last, (stream, entry.publisher)
        late = entry.first < cursor.next or entry.time_ns < cursor.high_ns
        self._change.entries.append(Appended(stream, entry, late))
        seqs = self._buffered_seqs.get(stream)
        if seqs is None:
            seqs = self._buffered_seqs[stream] = RangeTracker(ranges_max=BUFFERED_RANGES_MAX)
        seqs.add(entry.first, last)
        cats = self._buffered_cats.get(who)
        if cats is None:
            cats = self._buffered_cats[who] = RangeTracker(ranges_max=BUFFERED_RANGES_MAX)
        cats.add(entry.cat, entry.cat_last)
        if not late:
            cursor.high_ns = entry.time_ns
        if last >= cursor.next:
            cursor.next = last + 1
        if entry.cat_last > self._highest.get(who, 0):
            self._highest[who] = entry.cat_last


def cut(entries: list[Entry], first: int, last: int, bytes_max: int) -> list[Entry]:
    """Entries in order, cut to first..last, up to the one that brings their payloads to `bytes_max`."""
    taken, weight = [], 0
    for entry in entries:
        if entry.last < first or entry.first > last or first > last:
            continue
        part = entry.part(first, last)
        taken.append(part)
        weight += len(part.batch.payloads)
        if weight >= bytes_max:
            break
    return taken


def cut_cats(entries: list[Entry], kept: int, cat_first: int, cat_last: int, bytes_max: int) -> list[Entry]:
    """Entries of one publisher, cut to cat_first..cat_last and to what is kept, up to `bytes_max`."""
    taken, weight = [], 0
    for entry in entries:
        part = cat_part(entry, kept, cat_first, cat_last)
        if part is not None:
            taken.append(part)
            weight += len(part.batch.payloads)
            if weight >= bytes_max:
                break
    return taken


def cat_part(entry: Entry, kept: int, cat_first: int, cat_last: int) -> Entry | None:
    """What of an entry is kept and lies within cat_first..cat_last."""
    if entry.cat_last < cat_first or entry.cat > cat_last or entry.last < kept:
        return None
    part = entry.cat_part(cat_first, cat_last)
    if part.first >= kept:
        return part
    return part.part(kept, part.last) if part.last >= kept else None
