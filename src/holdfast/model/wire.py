"""Frames as bytes: how long, a checksum, then one message as MessagePack.

    2 bits   the length modulo 3         a length of which a bit was flipped is known at once
   22 bits   the length of the body
   32 bits   the checksum                CRC-32
    8 bits.. the body

A struct travels as an array of its fields. A publication, which is most of what travels, has a body of its own: the
link number, in one byte that begins no array, and the batch. Of a batch, what stands at the end and is as in a message
by itself (no keys, no attributes, a count of one) is left away; the decoder fills it in. That is what makes a short
header.

The checksum of a frame is that of its body, begun with the checksum of the batch that it carries; of a publication, in
which there is nothing else, that of the batch and that of the number, one on the other. A batch's checksum is that of
its bytes, which the publisher's client has computed and a sender has kept beside the batch; a receiver computes it from
the batch that came. So a frame proves two things in four bytes: nothing was altered on the wire, and nothing in the
sender's memory.

The decoder returns frames or raises `WireError`, whatever bytes it is given, in time and memory bounded by
`FRAME_BYTES_MAX` and the bytes fed so far.
"""

from struct import Struct as Layout
from typing import NoReturn

import msgspec
from msgspec.structs import astuple, force_setattr

from holdfast.model.batches import COPIED_BYTES_MAX, Batch
from holdfast.model.checksums import crc32
from holdfast.model.delta_messages import Multicast
from holdfast.model.direct_messages import Barred, Cast, Copied, Passed
from holdfast.model.errors import PeerViolation
from holdfast.model.messages import (
    LAP,
    Climb,
    Data,
    Frame,
    Publish,
    SessionMessage,
    TotalProcessed,
    TotalRequest,
    Unstable,
)
from holdfast.model.relay_messages import Relay
from holdfast.model.site_messages import Forward, Offer, Owed, Replicate

FRAME_BYTES_MAX = (1 << 22) - 1
HEADER_BYTES = 7
FRAME_BYTES_MIN = HEADER_BYTES + 1
"""The shortest frame."""
HEAD = Layout(">BHIB")
"""A frame up to the first byte of its body: what is above 65,535 of its length, and below, checksum, that byte."""
DATA_TAG, PUBLISH_TAG, REQUEST_TAG, PROCESSED_TAG, CLIMB_TAG, UNSTABLE_TAG, RELAY_TAG, COPIED_TAG = (
    *(4, 20, 30, 33, 38, 40, 60),
    77,
)
Direct = Cast | Barred | Passed | Offer | Forward | Replicate | Owed
DIRECT_TAGS: dict[type, int] = {
    Cast: 76,
    Barred: 80,
    Passed: 81,
    Offer: 101,
    Forward: 102,
    Replicate: 103,
    Owed: 121,
    Multicast: 130,
}
"""Messages whose last field is a batch."""
CARRIERS = frozenset((Publish, Climb, TotalRequest, TotalProcessed, Unstable, Relay, *DIRECT_TAGS))
"""Messages with a field `batch`."""
MARKS = tuple(crc32(bytes([number])) for number in range(LAP))
"""What a link number does to the checksum of a publication."""


class WireError(PeerViolation):
    """The peer sent bytes that are no frame of ours; the connection cannot go on."""


class UnreadableError(WireError):
    """The bytes came as the peer sent them, with the right checksum, and are no message: the network did not do that.

    Over the next connection the peer would send the same again."""


_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)
_raw_decode = _decoder.decode
_batch_decoder: msgspec.msgpack.Decoder[Batch] = msgspec.msgpack.Decoder(Batch)
_decode_batch = _batch_decoder.decode
NO_FRAME = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _Last:
    """The batch that was encoded last, and its bytes: it goes to the next subscriber with another number."""

    __slots__ = ("batch", "body", "large", "pieces")

    def __init__(self) -> None:
        self.batch: Batch | None = None
        """A small one."""
        self.body = b""
        self.large: Batch | None = None
        """One whose payloads are not copied."""
        self.pieces = b"", b"", b""

    def pieces_of(self, batch: Batch) -> tuple[bytes, bytes, bytes]:
        """See `Batch.pieces`."""
        if batch is not self.large:
            self.large, self.pieces = batch, batch.pieces()
        return self.pieces


_last = _Last()


def encode(frame: Frame) -> bytes:
    """One frame with its length in front."""
    return b"".join(pieces(frame))


def pieces(frame: Frame) -> list[bytes]:
    """The same bytes in the pieces in which they lie in memory: a large column of payloads is not copied."""
    if type(frame) is not Data:
        body = _encode(frame)
        return [head(len(body), crc32(body)) + body]
    message = frame.message
    if type(message) is not Publish:
        body = _encode(_ordered(frame))
        batch_within = carried(message)
        return [head(len(body), crc32(body, _sealed(batch_within)) if batch_within is not None else crc32(body)) + body]
    batch, seq = message.batch, frame.seq
    if batch is _last.batch:
        body = _last.body
    elif len(batch.payloads) >= COPIED_BYTES_MAX:
        return _large(seq, batch)
    else:
        if batch.count != 1 or batch.lengths or batch.keys or batch.attributes or batch.crossed:
            body = _encode(batch.said())
        else:
            # Every message by itself passes here, so what `said` would say of it is written out.
            body = _encode((batch.publisher, batch.first, batch.topic, batch.guarantee, batch.payloads))
        _last.batch, _last.body = batch, body
    check = (batch.checksum or batch.seal(crc32(body))) ^ MARKS[seq]
    size = len(body) + 1
    return [HEAD.pack(size % 3 << 6 | size >> 16, size & 0xFFFF, check, seq) + body]


def _large(seq: int, batch: Batch) -> list[bytes]:
    """A publication whose payloads are worth not being copied."""
    before, payloads, behind = _last.pieces_of(batch)
    check = (batch.checksum or batch.seal(crc32(behind, crc32(payloads, crc32(before))))) ^ MARKS[seq]
    size = 1 + len(before) + len(payloads) + len(behind)
    if size > FRAME_BYTES_MAX:
        _refuse(size)
    before = HEAD.pack(size % 3 << 6 | size >> 16, size & 0xFFFF, check, seq) + before
    return [before, payloads, behind] if behind else [before, payloads]


def head(size: int, check: int) -> bytes:
    """What stands before a body of that length and checksum."""
    if size > FRAME_BYTES_MAX:
        _refuse(size)
    return ((size % 3 << 22 | size) << 32 | check).to_bytes(HEADER_BYTES, "big")


def _sealed(batch: Batch) -> int:
    """The checksum that the batch has had since it was made or came; one that has none gets it now."""
    return batch.checksum or batch.seal()


def carried(message: SessionMessage) -> Batch | None:
    """The batch in a message, if there is one."""
    if type(message) in CARRIERS:
        return message.batch  # type: ignore[union-attr]
    return message.cast.batch if isinstance(message, Copied) else None


def _ordered(frame: Data) -> Frame | tuple[object, ...]:
    """Batches on their way through a total order or a repair, or with a header of their protocol, are said so, too."""
    message = frame.message
    said: tuple[object, ...]
    if isinstance(message, Climb):
        said = (CLIMB_TAG, message.batch.said())
    elif isinstance(message, TotalRequest):
        said = (REQUEST_TAG, message.batch.said())
    elif isinstance(message, TotalProcessed) and message.batch is not None:
        said = (PROCESSED_TAG, message.publisher, message.first, message.batch.said())
    elif isinstance(message, Unstable):
        said = (UNSTABLE_TAG, message.flag, message.batch.said(), message.after, message.number)
    elif isinstance(message, Relay) and message.batch is not None:
        said = (RELAY_TAG, message.header, message.batch.said(), message.notice)
    elif isinstance(message, Direct) or (isinstance(message, Multicast) and message.batch is not None):
        said = _direct(message)
    elif isinstance(message, Copied):
        said = (COPIED_TAG, message.sender, _direct(message.cast))
    else:
        return frame
    return DATA_TAG, frame.seq, said


def _direct(message: Direct | Multicast) -> tuple[object, ...]:
    *header, batch = astuple(message)
    return (DIRECT_TAGS[type(message)], *header, batch.said())


def header_bytes(batch: Batch) -> int:
    """What a frame with this batch weighs beyond its topic, payloads, keys and attributes.

    That is everything that carries and orders them: the frame's length and number, whose messages they are, their own
    numbers, the guarantee, and how it is all told apart.
    """
    bare = Batch(batch.publisher, batch.first, "-", batch.guarantee, b"", count=batch.count, lengths=batch.lengths)
    return len(encode(Data(1, Publish(bare)))) - len(bare.topic)


def _refuse(size: int) -> NoReturn:
    raise WireError(f"a frame of {size} bytes exceeds the limit of {FRAME_BYTES_MAX}: publish smaller batches")


def decode(body: bytes | memoryview) -> Frame:
    """The frame that a body (what stands behind length and checksum) holds, whatever its checksum is."""
    try:
        return _decode(body)
    except NO_FRAME as error:
        raise no_frame(len(body), error) from None


def _decode(body: bytes | memoryview) -> Frame:
    if len(body) and body[0] < LAP:
        return Data(body[0], Publish(_decode_batch(memoryview(body)[1:])))
    return _raw_decode(body)


def verified(body: memoryview, check: int) -> Frame:
    """The frame in a body with that checksum. Raises one of `NO_FRAME` if it is none, `WireError` if it was altered."""
    if body[0] < LAP:
        return publication(body[0], body[1:], check)
    frame = _raw_decode(body)
    batch = carried(frame.message) if type(frame) is Data else None
    if crc32(body, batch.seal() if batch is not None else 0) != check:
        _refuse_altered(len(body))
    return frame


def publication(seq: int, said: memoryview, check: int) -> Data:
    """The same for the number and the batch of a publication."""
    checksum = crc32(said)
    if checksum ^ MARKS[seq] != check:
        _refuse_altered(len(said) + 1)
    batch = _decode_batch(said)
    force_setattr(batch, "checksum", checksum)
    return Data(seq, Publish(batch))


def check_form(frame: Frame, said: memoryview) -> None:
    """Raise `WireError` unless a publication came in the very bytes in which we would say it.

    There are others that mean the same, such as a longer form of a number. 1. A client sends such a batch, with a
    checksum that is right. 2. Its broker passes the batch on in our bytes with the checksum of the client's. 3. The
    next broker takes that for an alteration, again and again, and the link between two honest brokers is of no use.
    """
    if type(frame) is Data and type(frame.message) is Publish:
        batch = frame.message.batch
        if len(batch.payloads) < COPIED_BYTES_MAX:
            # Bytes that have the checksum with which ours go on will do; they are what goes on next, as a rule.
            _last.batch, _last.body = batch, _encode(batch.said())
            same = crc32(_last.body) == batch.checksum
        else:
            before, payloads, behind = _last.pieces_of(batch)
            # A memoryview is compared byte by byte, thirty times as slowly.
            same = bytes(said[: len(before)]) == before and bytes(said[len(before) + len(payloads) :]) == behind
        if not same:
            raise UnreadableError("the peer sent a batch in other bytes than the shortest that say the same")


def _refuse_altered(size: int) -> NoReturn:
    raise WireError(
        f"a frame of {size} bytes does not have the checksum that it came with: it was altered on the way, or the peer "
        "speaks another version of the wire. What was not acknowledged is sent again over the next connection"
    )


def measured(high: int, low: int) -> int:
    """The length of a body, from the first two fields of `HEAD`."""
    size = (high & 0x3F) << 16 | low
    if high >> 6 != size % 3 or not size:
        raise WireError(
            f"the peer sent {high:02x}{low:04x} where the length of a frame should be, and that is none: it was "
            "altered on the way, or the peer does not speak this version of the wire"
        )
    return size


def no_frame(size: int, error: Exception, meant: bool = False) -> WireError:
    """What to raise when something raised one of `NO_FRAME` at so many bytes; `meant` if they were not altered."""
    kind = UnreadableError if meant else WireError
    return kind(f"the peer sent {size} bytes that are no Holdfast frame: {error}")


def is_meant(body: memoryview, check: int) -> bool:
    """Whether a body that cannot be read has the checksum that its sender gave it."""
    # That of a publication was compared before it was decoded; what carries a batch beside other things is not known.
    return bool(body) and (body[0] < LAP or crc32(body) == check)


class FrameReader:
    """Cuts a byte stream into frames. Feed it what arrives, in any pieces.

    The beginning of a frame is kept in one buffer that grows with its pieces, so each byte of a frame is copied a
    constant number of times however small the pieces are; what arrives whole is not copied at all.
    """

    __slots__ = ("_need", "_rest")

    def __init__(self) -> None:
        self._rest = bytearray()
        self._need = 0
        """How many bytes it takes before the beginning that we have can become a frame, or tell how long it is."""

    @property
    def pending_bytes(self) -> int:
        """Bytes of a frame that is not complete yet."""
        return len(self._rest)

    def feed(self, data: bytes | bytearray) -> list[Frame]:
        """The frames that are complete now. After a `WireError` nothing more can be made of the stream."""
        rest = self._rest
        if rest:
            rest += data
            if len(rest) < self._need:
                return []
            data = rest
        frames: list[Frame] = []
        at, end = 0, len(data)
        view = memoryview(data)
        self._need = FRAME_BYTES_MIN
        while end - at >= FRAME_BYTES_MIN:
            high, low, check, _ = HEAD.unpack_from(data, at)
            stop = at + HEADER_BYTES + measured(high, low)
            if stop > end:
                self._need = stop - at
                break
            frames.append(self._take(view[at + HEADER_BYTES : stop], check))
            at = stop
        if data is rest:
            view.release()
            del rest[:at]
        elif at < end:
            rest += view[at:]
        return frames

    def _take(self, body: memoryview, check: int) -> Frame:
        try:
            return verified(body, check)
        except NO_FRAME as error:
            raise no_frame(len(body), error) from None
