"""Frames as bytes: three bytes of length, big-endian, then one message as MessagePack.

A struct travels as an array of its fields. Of a batch, what stands at the end and is as in a message by itself (no
keys, no attributes, a count of one) is left away; the decoder fills it in. That is what makes a short header.

The decoder returns frames or raises `WireError`, whatever bytes it is given, in time and memory bounded by
`FRAME_BYTES_MAX` and the bytes fed so far.
"""

from struct import Struct as Layout

import msgspec

from holdfast.model.batches import Batch
from holdfast.model.errors import PeerViolation
from holdfast.model.messages import Data, Frame, Publish, TotalProcessed, TotalRequest

FRAME_BYTES_MAX = 1 << 22
HEADER_BYTES = 3
FRAME_BYTES_MIN = HEADER_BYTES + 1
LENGTH = Layout(">I")
"""The shortest frame: `unpack_from(data, at)[0] >> 8` is the length that stands there."""
PUBLICATION = Layout(">Q")
"""How a frame with a publication begins: its length, an array of three, the tag of `Data`, the link's number, an array
of two, the tag of `Publish`. The batch follows."""
PUBLICATION_START, PUBLICATION_BYTES = 0x93_04_00_92_14, 5
DATA_TAG, REQUEST_TAG, PROCESSED_TAG = 4, 30, 33
LENGTH_SHIFT, SEQ_SHIFT = 40, 16
BATCH_FRONT, BATCH_START = 5, 0x90
"""How many fields of a batch are always said, and how an array of less than 16 fields begins."""
COPIED_BYTES_MAX = 1 << 13
"""Below this size, one piece that was copied costs less than three that were not."""
SHORT_BYTES, LONG_BYTES = Layout(">BH"), Layout(">BI")
"""How MessagePack begins a byte string of two or four bytes of length."""


class WireError(PeerViolation):
    """The peer sent bytes that are no frame of ours; the connection cannot go on."""


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)


def encode(frame: Frame) -> bytes:
    """One frame with its length in front."""
    if type(frame) is Data:
        message = frame.message
        if type(message) is Publish:
            body = _encoder.encode(_said(message.batch))
            return _publication(frame.seq, len(body)) + body
        body = _encoder.encode(_data(frame))
    else:
        body = _encoder.encode(frame)
    return _length(len(body)) + body


def _said(batch: Batch) -> Batch | tuple[object, ...]:
    """What is said of a batch: its fields, without those at the end that need not be said."""
    if batch.count != 1 or batch.lengths:
        return batch
    if batch.keys or batch.attributes:
        return batch.publisher, batch.first, batch.topic, batch.guarantee, batch.payloads, *_behind(batch)
    return batch.publisher, batch.first, batch.topic, batch.guarantee, batch.payloads


def _behind(batch: Batch) -> tuple[object, ...]:
    """What is said of a batch behind its payloads."""
    if batch.count != 1 or batch.lengths:
        return batch.keys, batch.attributes, batch.count, batch.lengths
    if batch.attributes:
        return batch.keys, batch.attributes
    return (batch.keys,) if batch.keys else ()


def _data(frame: Data) -> Frame | tuple[object, ...]:
    """Batches on their way through a total order are said in short, too."""
    message = frame.message
    if type(message) is TotalRequest:
        return DATA_TAG, frame.seq, (REQUEST_TAG, _said(message.batch))
    if type(message) is TotalProcessed and message.batch is not None:
        return DATA_TAG, frame.seq, (PROCESSED_TAG, message.publisher, message.first, _said(message.batch))
    return frame


def pieces(frame: Frame) -> list[bytes]:
    """The same bytes in the pieces in which they lie in memory: a large column of payloads is not copied."""
    if type(frame) is Data and type(frame.message) is Publish:
        batch = frame.message.batch
        if len(batch.payloads) >= COPIED_BYTES_MAX:
            return _around(frame.seq, batch)
    return [encode(frame)]


def _around(seq: int, batch: Batch) -> list[bytes]:
    """What stands before the payloads of a batch in its frame, the payloads, and what stands behind them."""
    columns, size = _behind(batch), len(batch.payloads)
    front = _encoder.encode((batch.publisher, batch.first, batch.topic, batch.guarantee))[1:]
    header = SHORT_BYTES.pack(0xC5, size) if size <= 0xFFFF else LONG_BYTES.pack(0xC6, size)
    before = bytes((BATCH_START + BATCH_FRONT + len(columns),)) + front + header
    if not columns:
        return [_publication(seq, len(before) + size) + before, batch.payloads]
    behind = _encoder.encode(columns)[1:]
    return [_publication(seq, len(before) + size + len(behind)) + before, batch.payloads, behind]


def header_bytes(batch: Batch) -> int:
    """What a frame with this batch weighs beyond its topic, payloads, keys and attributes.

    That is everything that carries and orders them: the frame's length and number, whose messages they are, their own
    numbers, the guarantee, and how it is all told apart.
    """
    bare = Batch(batch.publisher, batch.first, "-", batch.guarantee, b"", count=batch.count, lengths=batch.lengths)
    return len(encode(Data(1, Publish(bare)))) - len(bare.topic)


def _length(size: int) -> bytes:
    return _checked(size).to_bytes(HEADER_BYTES, "big")


def _publication(seq: int, batch_bytes: int) -> bytes:
    """What stands before the batch in the frame of a publication."""
    size = _checked(batch_bytes + PUBLICATION_BYTES)
    return PUBLICATION.pack(size << LENGTH_SHIFT | PUBLICATION_START | seq << SEQ_SHIFT)


def _checked(size: int) -> int:
    if size > FRAME_BYTES_MAX:
        raise WireError(f"a frame of {size} bytes exceeds the limit of {FRAME_BYTES_MAX}: publish smaller batches")
    return size


def decode(body: bytes | memoryview) -> Frame:
    """The frame that a body (without its length) holds."""
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(f"the peer sent {len(body)} bytes that are no Holdfast frame: {error}") from None


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
