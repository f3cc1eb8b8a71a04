"""What a segment says when it is read from its beginning: after a crash, without its index, or to be verified."""

from collections.abc import Sequence

from msgspec import Struct, field

from holdfast.storage.stores.segment_index import LOST, SegmentIndex, StreamIndex
from holdfast.storage.stores.segment_records import (
    CommitRecord,
    Harmed,
    Placed,
    RecordKind,
    SegmentRecord,
    commit_of,
    placed_of,
    records,
)
from holdfast.storage.stores.store import Damage

HARMED_MESSAGES = "the messages do not have the checksum with which they were stored"
LOST_RECORD = "the record of these messages is harmed"


class Contents(Struct):
    """Everything that a segment says."""

    index: SegmentIndex = field(default_factory=dict)
    pairs: dict[str, bytes] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)
    next: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)
    """Of entries that are known to have been there."""
    harmed: list[Harmed] = field(default_factory=list)
    """Bytes that are no record, and of which no commit says what they were."""
    blank: list[SegmentRecord] = field(default_factory=list)
    """Commits that cannot be read any more."""
    end: int = 0
    """The byte behind the last commit."""
    records: int = 0
    """How many entries and commits there are."""


class _Waiting(Struct, frozen=True):
    placed: Placed
    record: SegmentRecord


def scan(data: bytes, number: int, synced: int = 0) -> Contents:
    """Read a segment. What was synced up to a byte was committed, whatever has become of its commit since."""
    found = Contents()
    waiting: list[_Waiting] = []
    harmed: list[Harmed] = []
    for item in records(data, number):
        found.records += 1
        if isinstance(item, Harmed):
            harmed.append(item)
        elif item.kind is RecordKind.ENTRY:
            placed = placed_of(item)
            if placed is not None:
                waiting.append(_Waiting(placed, item))
        else:
            _settle(found, waiting, harmed, item)
            waiting, harmed = [], []
            found.end = item.end
    if found.end < synced:
        _settle_the_end(found, waiting, synced)
    return found


def _settle(found: Contents, waiting: list[_Waiting], harmed: Sequence[Harmed], record: SegmentRecord) -> None:
    """A commit has come: what it says is so, and what stood before it and is not in it was in an earlier one."""
    commit = commit_of(record)
    seen = {(one.placed.stream, one.placed.head.first): one.record for one in waiting}
    for placed in commit.entries if commit else ():
        _add(found, placed, seen.pop((placed.stream, placed.head.first), None))
    for one in waiting:
        if (one.placed.stream, one.placed.head.first) in seen:
            _add(found, one.placed, one.record)
    if commit is None:
        found.blank.append(record)
    else:
        _take(found, record.kind, commit)
    if harmed and not any(damage.what == LOST_RECORD for damage in found.damages):
        found.harmed += harmed


def _settle_the_end(found: Contents, waiting: list[_Waiting], synced: int) -> None:
    for one in waiting:
        if one.record.end <= synced:
            _add(found, one.placed, one.record)
            found.end = one.record.end
    if found.end < synced:
        found.harmed.append(Harmed(found.end, synced))
        found.end = synced


def _add(found: Contents, placed: Placed, record: SegmentRecord | None) -> None:
    stream, head = placed.stream, placed.head
    index = found.index.get(stream)
    if index is None:
        index = found.index[stream] = StreamIndex()
    index.add(head, record.at if record else LOST, record.end - record.at if record else 0)
    found.next[stream] = max(found.next.get(stream, 1), head.last + 1)
    if record is None or not record.is_sound:
        what = HARMED_MESSAGES if record else LOST_RECORD
        found.damages.append(
            Damage(stream=stream, first=head.first, last=head.last, what=what, publisher=head.publisher, cat=head.cat)
        )


def _take(found: Contents, kind: RecordKind, commit: CommitRecord) -> None:
    if kind is RecordKind.SNAPSHOT:
        found.pairs, found.notes = {}, []
    if commit.mended:
        found.notes = []
    for key, value in commit.pairs.items():
        if value:
            found.pairs[key] = value
        else:
            found.pairs.pop(key, None)
    found.kept |= commit.kept
    for stream, following in commit.next.items():
        found.next[stream] = max(found.next.get(stream, 1), following)
    found.notes += commit.notes
