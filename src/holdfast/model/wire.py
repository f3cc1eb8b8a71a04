"""Frames as bytes: three bytes of length, big-endian, then one message as MessagePack.

A struct travels as an array of its fields. Of a batch, what stands at the end and is as in a message by itself (no
keys, no attributes, a count of one) is left away; the decoder fills it in. That is what makes a short header.

The decoder returns frames or raises `WireError`, whatever bytes it is given, in time and memory bounded by
`FRAME_BYTES_MAX` and the bytes fed so far.
"""

from struct import Struct as Layout
from typing import NoReturn

import msgspec
from msgspec.structs import astuple

from holdfast.model.batches import Batch
from holdfast.model.direct_messages import Barred, Cast, Passed
from holdfast.model.errors import PeerViolation
from holdfast.model.messages import Data, Frame, Publish, TotalProcessed, TotalRequest

FRAME_BYTES_MAX = 1 << 22
HEADER_BYTES = 3
FRAME_BYTES_MIN = HEADER_BYTES + 1
LENGTH = Layout(">I")
"""The shortest frame: `unpack_from(data, at)[0] >> 8` is the length that stands there."""
DATA_TAG, PUBLISH_TAG, REQUEST_TAG, PROCESSED_TAG = 4, 20, 30, 33
DIRECT_TAGS: dict[type, int] = {Cast: 76, Barred: 80, Passed: 81}
"""Messages whose last field is a batch."""
COPIED_BYTES_MAX = 1 << 13
"""Below this size, one piece that was copied costs less than three that were not."""
SHORT_BYTES, LONG_BYTES, NO_BYTES = Layout(">BH"), Layout(">BI"), b"\xc4\x00"
"""How MessagePack begins a byte string of two or four bytes of length, and one that is empty."""


class WireError(PeerViolation):
    """The peer sent bytes that are no frame of ours; the connection cannot go on."""


_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)
raw_decode = _decoder.decode
"""`decode` for whoever cuts many frames out of one buffer, and turns the errors of all of them into ours at once."""
NO_FRAME = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def encode(frame: Frame) -> bytes:
    """One frame with its length in front."""
    return b"".join(pieces(frame))


def pieces(frame: Frame) -> list[bytes]:
    """The same bytes in the pieces in which they lie in memory: a large column of payloads is not copied."""
    if type(frame) is not Data:
        body = _encode(frame)
    elif type(frame.message) is Publish:
        batch = frame.message.batch
        if len(batch.payloads) >= COPIED_BYTES_MAX:
            return _around(frame.seq, batch)
        if batch.count != 1 or batch.lengths:
            body = _encode(frame)
        elif batch.keys or batch.attributes:
            body = _encode((DATA_TAG, frame.seq, (PUBLISH_TAG, _said(batch))))
        else:
            # Every message by itself passes here, so what `_said` would say of it is written out.
            said = batch.publisher, batch.first, batch.topic, batch.guarantee, batch.payloads
            body = _encode((DATA_TAG, frame.seq, (PUBLISH_TAG, said)))
    else:
        body = _encode(_ordered(frame))
    size = len(body)
    return [(size if size <= FRAME_BYTES_MAX else _refused(size)).to_bytes(HEADER_BYTES, "big") + body]


def _said(batch: Batch) -> Batch | tuple[object, ...]:
    """What is said of a batch: its fields, without those at the end that need not be said."""
    if batch.count != 1 or batch.lengths:
        return batch
    keys, attributes = batch.keys, batch.attributes
    if attributes:
        return batch.publisher, batch.first, batch.topic, batch.guarantee, batch.payloads, keys, attributes
    if keys:
        return batch.publisher, batch.first, batch.topic, batch.guarantee, batch.payloads, keys
    return batch.publisher, batch.first, batch.topic, batch.guarantee, batch.payloads


def _ordered(frame: Data) -> Frame | tuple[object, ...]:
    """Batches on their way through a total order, or with a header of their protocol, are said in short, too."""
    message = frame.message
    if type(message) is TotalRequest:
        return DATA_TAG, frame.seq, (REQUEST_TAG, _said(message.batch))
    if type(message) is TotalProcessed and message.batch is not None:
        return DATA_TAG, frame.seq, (PROCESSED_TAG, message.publisher, message.first, _said(message.batch))
    if type(message) in DIRECT_TAGS:
        *header, batch = astuple(message)
        return DATA_TAG, frame.seq, (DIRECT_TAGS[type(message)], *header, _said(batch))
    return frame


def _around(seq: int, batch: Batch) -> list[bytes]:
    """What stands before the payloads of a batch in its frame, the payloads, and what stands behind them."""
    size, columns = len(batch.payloads), _columns(batch)
    said = batch.publisher, batch.first, batch.topic, batch.guarantee, b"", *columns
    bare = _encode((DATA_TAG, seq, (PUBLISH_TAG, said)))
    behind = _encode(columns)[1:] if columns else b""
    header = SHORT_BYTES.pack(0xC5, size) if size <= 0xFFFF else LONG_BYTES.pack(0xC6, size)
    before = bare[: len(bare) - len(behind) - len(NO_BYTES)] + header
    whole = len(before) + size + len(behind)
    length = (whole if whole <= FRAME_BYTES_MAX else _refused(whole)).to_bytes(HEADER_BYTES, "big")
    return [length + before, batch.payloads, behind] if columns else [length + before, batch.payloads]


def _columns(batch: Batch) -> tuple[object, ...]:
    """What is said of a batch behind its payloads."""
    if batch.count != 1 or batch.lengths:
        return batch.keys, batch.attributes, batch.count, batch.lengths
    if batch.attributes:
        return batch.keys, batch.attributes
    return (batch.keys,) if batch.keys else ()


def header_bytes(batch: Batch) -> int:
    """What a frame with this batch weighs beyond its topic, payloads, keys and attributes.

    That is everything that carries and orders them: the frame's length and number, whose messages they are, their own
    numbers, the guarantee, and how it is all told apart.
    """
    bare = Batch(batch.publisher, batch.first, "-", batch.guarantee, b"", count=batch.count, lengths=batch.lengths)
    return len(encode(Data(1, Publish(bare)))) - len(bare.topic)


def _refused(size: int) -> NoReturn:
    raise WireError(f"a frame of {size} bytes exceeds the limit of {FRAME_BYTES_MAX}: publish smaller batches")


def decode(body: bytes | memoryview) -> Frame:
    """The frame that a body (without its length) holds."""
    try:
        return raw_decode(body)
    except NO_FRAME as error:
        raise no_frame(len(body), error) from None


def no_frame(size: int, error: Exception) -> WireError:
    """What to raise when `raw_decode` raised one of `NO_FRAME` at so many bytes."""
    return WireError(f"the peer sent {size} bytes that are no Holdfast frame: {error}")


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
        while end - at >= FRAME_BYTES_MIN:
            size: int = LENGTH.unpack_from(data, at)[0] >> 8
            if size > FRAME_BYTES_MAX:
                raise WireError(f"the peer announced a frame of {size} bytes; the limit is {FRAME_BYTES_MAX}")
            stop = at + HEADER_BYTES + size
            if stop > end:
                break
            frames.append(decode(view[at + HEADER_BYTES : stop]))
            at = stop
        if data is rest:
            view.release()
            del rest[:at]
        elif at < end:
            rest += view[at:]
        if at < end:
            known = end - at >= FRAME_BYTES_MIN
            self._need = HEADER_BYTES + (LENGTH.unpack_from(rest)[0] >> 8) if known else FRAME_BYTES_MIN
        return frames
