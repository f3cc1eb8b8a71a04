"""The records of a segment file: what they look like, and how they are found again in a file that is harmed.

A commit is a run of `ENTRY` records and one `COMMIT` record behind them, written at once. The commit says again which
entries it has, so that whichever record is harmed, another one knows what it was. A record's checksum depends on where
it stands: bytes that look like a record and stand elsewhere, in a payload or left over, are none.
"""

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct as Layout
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.model.checksums import crc32
from holdfast.model.reliable import Entry
from holdfast.storage.stores.rows import StoredHead, decoded

MAGIC = b"HFS1"
PREFIX = Layout("<4sIIII")
"""Magic, kind and bytes of the head, bytes of the body, checksum of the body, checksum of all that stands before it."""
_PLACE = Layout("<QQ")
_SUMMED_BYTES = PREFIX.size - 4
HEAD_BYTES_MAX = 1 << 20
Bytes = bytes | memoryview


class RecordKind(IntEnum):
    """What a record is."""

    ENTRY = 1
    COMMIT = 2
    SNAPSHOT = 3


_KINDS = {int(kind): kind for kind in RecordKind}


class Placed(Struct, frozen=True, array_like=True, gc=False):
    """The head of an entry, and the stream it belongs to."""

    stream: str
    head: StoredHead


class CommitRecord(Struct, frozen=True, array_like=True):
    """What a commit says beside its entries. A snapshot is one that says everything, and stands first in a segment."""

    entries: list[Placed] = []
    pairs: dict[str, bytes] = {}
    kept: dict[str, int] = {}
    next: dict[str, int] = {}
    notes: list[str] = []
    mended: bool = False
    """Notes that were written before are settled."""


class SegmentRecord(Struct, frozen=True, gc=False):
    """A record whose prefix and head are sound; its body may not be."""

    kind: RecordKind
    at: int
    end: int
    head: Bytes
    body: Bytes
    body_sum: int

    @property
    def is_sound(self) -> bool:
        return crc32(self.body) == self.body_sum


class Harmed(Struct, frozen=True, gc=False):
    """Bytes that are no record."""

    at: int
    end: int


_encoder = msgspec.msgpack.Encoder()
_placed = msgspec.msgpack.Decoder(Placed)
_commit = msgspec.msgpack.Decoder(CommitRecord)


def encode_record(
    number: int, at: int, kind: RecordKind, head: bytes, body: bytes, body_sum: int
) -> tuple[bytes, bytes]:
    """What stands before a body at this byte of this segment, and the body."""
    start = PREFIX.pack(MAGIC, kind << 24 | len(head), len(body), body_sum, 0)[:_SUMMED_BYTES]
    total = crc32(head, crc32(start, _seed(number, at)))
    return b"".join((start, total.to_bytes(4, "little"), head)), body


def encode_entry_record(number: int, at: int, placed: Placed, body: bytes, body_sum: int) -> tuple[bytes, bytes]:
    return encode_record(number, at, RecordKind.ENTRY, _encoder.encode(placed), body, body_sum)


def encode_commit_record(number: int, at: int, kind: RecordKind, commit: CommitRecord) -> tuple[bytes, bytes]:
    body = _encoder.encode(commit)
    return encode_record(number, at, kind, b"", body, crc32(body))


def _seed(number: int, at: int) -> int:
    return crc32(_PLACE.pack(number, at))


def record_at(data: Bytes, begin: int, number: int, at: int) -> SegmentRecord | None:
    """The record that stands at `begin` of these bytes and at `at` of its segment, if its prefix and head are sound."""
    if len(data) - begin < PREFIX.size:
        return None
    magic, kind_and_head, body_bytes, body_sum, total = PREFIX.unpack_from(data, begin)
    kind, head_bytes = kind_and_head >> 24, kind_and_head & 0xFFFFFF
    middle = begin + PREFIX.size + head_bytes
    if magic != MAGIC or head_bytes > HEAD_BYTES_MAX or kind not in _KINDS or middle + body_bytes > len(data):
        return None
    head = data[begin + PREFIX.size : middle]
    if crc32(head, crc32(data[begin : begin + _SUMMED_BYTES], _seed(number, at))) != total:
        return None
    end = middle + body_bytes
    return SegmentRecord(_KINDS[kind], at, at + end - begin, head, data[middle:end], body_sum)


def records(data: bytes, number: int) -> Iterator[SegmentRecord | Harmed]:
    """Everything in the bytes of a segment, up to what no record follows any more."""
    # Whoever reads a whole segment need not have it twice.
    view, at = memoryview(data), 0
    while True:
        record = record_at(view, at, number, at)
        if record is None:
            following = _next_record(data, number, at + 1)
            if following < 0:
                return
            yield Harmed(at, following)
            at = following
        else:
            yield record
            at = record.end


def _next_record(data: bytes, number: int, at: int) -> int:
    while (at := data.find(MAGIC, at)) >= 0:
        if record_at(data, at, number, at) is not None:
            return at
        at += 1
    return -1


def placed_of(record: SegmentRecord) -> Placed | None:
    found: Placed | None = _decode(_placed, record.head)
    return found


def commit_of(record: SegmentRecord) -> CommitRecord | None:
    return _decode(_commit, record.body) if record.is_sound else None


def entry_of(record: SegmentRecord) -> Entry | None:
    return decoded(bytes(record.body), record.body_sum)


def _decode(decoder: Any, data: Bytes) -> Any:
    try:
        return decoder.decode(data)
    except msgspec.DecodeError:
        return None
