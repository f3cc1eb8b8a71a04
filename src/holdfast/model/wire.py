"""Frames as bytes: four bytes of length, big-endian, then one message as MessagePack.

The decoder returns frames or raises `WireError`, whatever bytes it is given, in time and memory bounded by
`FRAME_BYTES_MAX` and the bytes fed so far.
"""

from struct import Struct as Layout

import msgspec

from holdfast.model.errors import PeerViolation
from holdfast.model.messages import Frame

FRAME_BYTES_MAX = 1 << 22
LENGTH = Layout(">I")
HEADER_BYTES = LENGTH.size


class WireError(PeerViolation):
    """The peer sent bytes that are no frame of ours; the connection cannot go on."""


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)


def encode(frame: Frame) -> bytes:
    """One frame with its length in front."""
    buffer = bytearray(HEADER_BYTES)
    _encoder.encode_into(frame, buffer, HEADER_BYTES)
    size = len(buffer) - HEADER_BYTES
    if size > FRAME_BYTES_MAX:
        raise WireError(f"a frame of {size} bytes exceeds the limit of {FRAME_BYTES_MAX}: publish smaller batches")
    LENGTH.pack_into(buffer, 0, size)
    return bytes(buffer)


def decode(body: bytes | memoryview) -> Frame:
    """The frame that a body (without its length) holds."""
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(f"the peer sent {len(body)} bytes that are no Holdfast frame: {error}") from None


class FrameReader:
    """Cuts a byte stream into frames. Feed it what arrives, in any pieces."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    @property
    def pending_bytes(self) -> int:
        """Bytes of a frame that is not complete yet."""
        return len(self._rest)

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are complete now."""
        if self._rest:
            data = self._rest + data
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
        self._rest = data[at:] if at else data
        return frames
