"""Cutting frames out of a stream without copying it first.

All connections of a driver read into one buffer: the loop reads them one after the other, and what is complete is
decoded at once. Only the beginning of a frame that is not complete yet is kept aside for its connection, and put back
before the rest of it is read. So a connection that is silent costs no memory, and a busy one no allocation a read.
"""

from holdfast.model.messages import Frame
from holdfast.model.wire import FRAME_BYTES_MAX, HEADER_BYTES, LENGTH, WireError, decode

READ_BYTES = 1 << 18
READ_BYTES_MIN = 1 << 15
"""A read is worth its cost only if there is room for this much."""


class ReadBuffer:
    """The buffer that the connections of one driver share."""

    __slots__ = ("size_bytes", "view")

    def __init__(self, size_bytes: int = READ_BYTES) -> None:
        self.size_bytes = size_bytes
        self.view = memoryview(bytearray(size_bytes))


class FrameStream:
    """The incoming half of one connection: give `room` to whoever reads, then say how much came."""

    __slots__ = ("_own", "_rest", "_shared", "_view")

    def __init__(self, shared: ReadBuffer) -> None:
        self._shared = shared
        self._rest = b""
        self._own: memoryview | None = None
        self._view = shared.view

    @property
    def pending_bytes(self) -> int:
        """Bytes of a frame that is not complete yet."""
        return len(self._rest)

    def room(self) -> memoryview:
        """Where the next bytes are to be put."""
        rest = self._rest
        if not rest:
            self._view = self._shared.view
            return self._view
        view = self._own if self._own is not None else self._shared.view
        if len(view) - len(rest) < READ_BYTES_MIN:
            # A frame that does not fit gets a buffer of its own, until it is complete. The header has been checked.
            view = self._own = memoryview(bytearray(2 * len(rest) + READ_BYTES_MIN))
        view[: len(rest)] = rest
        self._view = view
        return view[len(rest) :]

    def advance(self, count: int) -> list[Frame]:
        """That many bytes came; the frames that are complete now."""
        view, at, end = self._view, 0, len(self._rest) + count
        frames: list[Frame] = []
        while end - at >= HEADER_BYTES:
            size: int = LENGTH.unpack_from(view, at)[0]
            if size > FRAME_BYTES_MAX:
                raise WireError(f"the peer announced a frame of {size} bytes; the limit is {FRAME_BYTES_MAX}")
            start = at + HEADER_BYTES
            if start + size > end:
                break
            at = start + size
            frames.append(decode(view[start:at]))
        self._rest = bytes(view[at:end]) if at < end else b""
        if at:
            self._own = None
        return frames
