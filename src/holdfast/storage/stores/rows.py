"""An entry as a row, with two checksums: one of the entry as it was encoded, one of the columns beside it.

The encoded entry holds everything that the columns say. So whichever half of a row is harmed, the other one says what
the row was: a sound entry is enough to write the columns again, and sound columns name the messages to ask a sibling
for.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.model.checksums import crc32
from holdfast.model.reliable import Entry
from holdfast.storage.stores.store import Damage

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Entry)


class StoredHead(Struct, frozen=True, array_like=True, gc=False):
    """What is known of an entry without decoding it."""

    first: int
    count: int
    publisher: str
    cat: int
    time_ns: int
    late: int

    @property
    def last(self) -> int:
        return self.first + self.count - 1

    @property
    def cat_last(self) -> int:
        return self.cat + self.count - 1


class StoredRow(Struct, frozen=True, array_like=True, gc=False):
    """A head, its checksum with the name of the stream, the checksum of the entry, and the entry itself."""

    head: StoredHead
    head_sum: int
    body_sum: int
    body: bytes


def head_of(entry: Entry, late: bool) -> StoredHead:
    return StoredHead(entry.first, entry.count, entry.publisher, entry.cat, entry.time_ns, int(late))


def encode_entry(entry: Entry) -> bytes:
    return _encoder.encode(entry)


def checksum(*values: Any) -> int:
    """Of a few plain values."""
    return crc32(_encoder.encode(values))


def row_of(stream: str, entry: Entry, late: bool) -> StoredRow:
    head, body = head_of(entry, late), _encoder.encode(entry)
    return StoredRow(head, checksum(stream, head), crc32(body), body)


def columns_of(row: StoredRow) -> tuple[Any, ...]:
    """A row as databases take it."""
    head = row.head
    return (
        head.first,
        head.count,
        head.publisher,
        head.cat,
        head.time_ns,
        head.late,
        row.head_sum,
        row.body_sum,
        row.body,
    )


def decoded(body: Any, body_sum: Any) -> Entry | None:
    """The entry in these bytes, if they are what was written."""
    if not isinstance(body, bytes) or crc32(body) != body_sum:
        return None
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError:
        return None


def entry_of(columns: Sequence[Any]) -> Entry | None:
    """The entry of a row as a database gave it, if it is what was written and stands where it was written."""
    first, count, publisher, cat, _, _, _, body_sum, body = columns
    entry = decoded(body, body_sum)
    if entry is None or entry.first != first or entry.cat != cat:
        return None
    return entry if entry.batch.count == count and entry.batch.publisher == publisher else None


def sound_head(stream: str, columns: Sequence[Any]) -> StoredHead | None:
    """The columns of a row, if they are what was written."""
    head = columns[:6]
    if checksum(stream, head) != columns[6]:
        return None
    return StoredHead(*head)


def damage_of(stream: str, columns: Sequence[Any]) -> Damage | None:
    """What is wrong with a row, and what it was as far as that can be made out."""
    head, entry = sound_head(stream, columns), decoded(columns[8], columns[7])
    if head is not None and entry is not None and head == head_of(entry, bool(head.late)):
        return None
    if head is not None:
        return _damage(stream, head, "the messages do not have the checksum with which they were stored")
    if entry is not None:
        return _damage(stream, head_of(entry, False), "the columns beside the messages are not what was stored")
    return Damage(stream=stream, first=0, last=0, what="a row is harmed beyond recognition")


def _damage(stream: str, head: StoredHead, what: str) -> Damage:
    return Damage(stream=stream, first=head.first, last=head.last, publisher=head.publisher, cat=head.cat, what=what)
