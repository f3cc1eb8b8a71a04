"""Frames of a recording: messages as columns, behind a header that says how long they are and whether they are whole.

Columns of numbers are little-endian and lie as they are, so that a reader which thinks in columns (Arrow) takes them
without looking at each message; topics and publishers are a list of texts and an index a message.
"""

from array import array
from collections.abc import Callable, Sequence
from struct import Struct as Layout
from sys import byteorder

import msgspec
from msgspec import Struct

from holdfast.model.batches import Attributes, Keys, Message
from holdfast.model.checksums import crc32
from holdfast.model.errors import LocalMisuse
from holdfast.model.guarantees import RANKS

MAGIC = b"HFR1"
HEADER = Layout("<4sIIIQ")
"""Magic, bytes of the body, checksum, messages, position of the first."""

Read = Callable[[int], bytes]


class FrameError(LocalMisuse, ValueError):
    """Raised when the body of a frame is sound but is not what this version writes."""


class Columns(Struct, frozen=True, array_like=True):
    """The messages of a frame. `keys` and `attributes` are empty if no message has any, else one entry a message."""

    topics: list[str]
    topic_at: bytes
    """int32: which of the topics."""
    publishers: list[str]
    publisher_at: bytes
    """int32: which of the publishers."""
    seqs: bytes
    """int64."""
    guarantees: bytes
    """int8: the rank, from 0 for eventual to 3 for total."""
    times: bytes
    """int64: when the message was received, in nanoseconds since 1970 UTC."""
    offsets: bytes
    """int32: where each payload begins, and where the last ends."""
    payloads: bytes
    keys: Sequence[Keys] = ()
    attributes: Sequence[Attributes] = ()


class Frame(Struct, frozen=True):
    """Messages `first .. first + count - 1` of a recording."""

    first: int
    count: int
    columns: Columns


class Header(Struct, frozen=True, gc=False):
    """What stands before a body."""

    body_bytes: int
    checksum: int
    count: int
    first: int

    def fits(self, body: bytes) -> bool:
        """Whether this is the whole body, unharmed."""
        return len(body) == self.body_bytes and _checksum(self.first, self.count, body) == self.checksum


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Columns)


def encode_frame(first: int, count: int, columns: Columns) -> bytes:
    body = _encoder.encode(columns)
    return HEADER.pack(MAGIC, len(body), _checksum(first, count, body), count, first) + body


def read_header(data: bytes) -> Header | None:
    """The header in these bytes, or None if there is none."""
    if len(data) < HEADER.size:
        return None
    magic, body_bytes, checksum, count, first = HEADER.unpack(data)
    return Header(body_bytes, checksum, count, first) if magic == MAGIC else None


def decode_frame(first: int, count: int, body: bytes) -> Frame:
    try:
        return Frame(first, count, _decoder.decode(body))
    except msgspec.DecodeError as error:
        raise FrameError(f"the frame at position {first} was written by another version: {error}.") from None


def _checksum(first: int, count: int, body: bytes) -> int:
    return crc32(body, crc32(HEADER.pack(MAGIC, len(body), 0, count, first)))


class FrameBuilder:
    """Collects messages until they are a frame."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._topics: dict[str, int] = {}
        self._publishers: dict[str, int] = {}
        self._topic_at, self._publisher_at = array("i"), array("i")
        self._seqs, self._guarantees, self._times = array("q"), array("b"), array("q")
        self._offsets = array("i", (0,))
        self._payloads: list[bytes] = []
        self._keys: list[Keys] = []
        self._attributes: list[Attributes] = []
        self.count = self.payload_bytes = 0

    def add(self, message: Message, time_ns: int) -> None:
        self._topic_at.append(self._topics.setdefault(message.topic, len(self._topics)))
        self._publisher_at.append(self._publishers.setdefault(message.publisher, len(self._publishers)))
        self._seqs.append(message.seq)
        self._guarantees.append(RANKS[message.guarantee])
        self._times.append(time_ns)
        self._payloads.append(message.payload)
        self.payload_bytes += len(message.payload)
        self._offsets.append(self.payload_bytes)
        self._keys.append(message.keys)
        self._attributes.append(message.attributes)
        self.count += 1

    def take(self) -> Columns:
        """The columns of what was added; the next message begins another frame."""
        columns = Columns(
            list(self._topics),
            _little(self._topic_at),
            list(self._publishers),
            _little(self._publisher_at),
            _little(self._seqs),
            self._guarantees.tobytes(),
            _little(self._times),
            _little(self._offsets),
            b"".join(self._payloads),
            self._keys if any(self._keys) else (),
            self._attributes if any(self._attributes) else (),
        )
        self._begin()
        return columns


def _little(column: "array[int]") -> bytes:
    if byteorder == "big":
        column.byteswap()
    return column.tobytes()
