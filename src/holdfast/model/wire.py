"""Frames as bytes: four bytes of length, big-endian, then one message as MessagePack.

The decoder returns frames or raises `WireError`, whatever bytes it is given, in time and memory bounded by
`FRAME_BYTES_MAX` and the bytes fed so far.
"""

from struct import Struct as Layout

import msgspec

from holdfast.model.batches import Batch
from holdfast.model.errors import PeerViolation
from holdfast.model.messages import Data, Frame, Publish

FRAME_BYTES_MAX = 1 << 22
LENGTH = Layout(">I")
HEADER_BYTES = LENGTH.size
COPIED_BYTES_MAX = 1 << 13
"""Below this size, one piece that was copied costs less than three that were not."""
SHORT_BYTES, LONG_BYTES, NO_BYTES = Layout(">BH"), Layout(">BI"), b"\xc4\x00"
"""How MessagePack begins a byte string of two or four bytes of length, and one that is empty."""


class WireError(PeerViolation):
    """The peer sent bytes that are no frame of ours; the connection cannot go on."""


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)


def encode(frame: Frame) -> bytes:
    """One frame with its length in front."""
    body = _encoder.encode(frame)
    return _length(len(body)) + body


def pieces(frame: Frame) -> list[bytes]:
    """The same bytes in the pieces in which they lie in memory: a large column of payloads is not copied."""
    if isinstance(frame, Data) and isinstance(frame.message, Publish):
        batch = frame.message.batch
        if len(batch.payloads) >= COPIED_BYTES_MAX:
            return _around(frame.seq, batch)
    return [encode(frame)]


def _around(seq: int, batch: Batch) -> list[bytes]:
    """What stands before the payloads of a batch in its frame, the payloads, and what stands behind them."""
    bare = Batch(
        batch.publisher,
        batch.first,
        batch.count,
        batch.topic,
        batch.guarantee,
        b"",
        batch.lengths,
        batch.keys,
        batch.attributes,
    )
    behind = _encoder.encode((batch.lengths, batch.keys, batch.attributes))[1:]
    size = len(batch.payloads)
    header = SHORT_BYTES.pack(0xC5, size) if size <= 0xFFFF else LONG_BYTES.pack(0xC6, size)
    before = _encoder.encode(Data(seq, Publish(bare)))[: -len(NO_BYTES) - len(behind)] + header
    return [_length(len(before) + size + len(behind)) + before, batch.payloads, behind]


def header_bytes(batch: Batch, seq: int = 1) -> int:
    """What a frame with this batch weighs beyond its topic, payloads, keys and attributes.

    That is everything that carries and orders them: the frame's length and number, whose messages they are, their own
    numbers, the guarantee, and how it is all told apart. What `seq` a link gives the frame counts if it is known.
    """
    bare = Batch(batch.publisher, batch.first, batch.count, "-", batch.guarantee, b"", batch.lengths)
    return len(encode(Data(seq, Publish(bare)))) - len(bare.topic)


def _length(size: int) -> bytes:
    if size > FRAME_BYTES_MAX:
        raise WireError(f"a frame of {size} bytes exceeds the limit of {FRAME_BYTES_MAX}: publish smaller batches")
    return LENGTH.pack(size)


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
        while end - at >= HEADER_BYTES:
            size: int = LENGTH.unpack_from(data, at)[0]
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
            known = end - at >= HEADER_BYTES
            self._need = HEADER_BYTES + LENGTH.unpack_from(rest)[0] if known else HEADER_BYTES
        return frames
