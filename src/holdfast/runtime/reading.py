"""Cutting frames out of a stream without copying it first.

All connections of a driver read into one buffer: the loop reads them one after the other, and what is complete is
decoded at once. Only the beginning of a frame that is not complete yet is kept aside for its connection, and put back
before the rest of it is read. So a connection that is silent costs no memory, and a busy one no allocation a read.
"""

from holdfast.model.messages import LAP, Frame
from holdfast.model.wire import (
    FRAME_BYTES_MIN,
    HEAD,
    HEADER_BYTES,
    NO_FRAME,
    WireError,
    check_form,
    is_meant,
    measured,
    no_frame,
    publication,
    verified,
)

SHOWN_BYTES = 64
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
    """The incoming half of one connection: give `room` to whoever reads, then say how much came.

    The beginning of a frame is put aside once, for most frames are complete with the next read. One that is not gets a
    buffer of its own, which grows with it: each byte is copied a constant number of times, however small the pieces.

    What came before bytes that are no frame counts: otherwise a network that alters something in every few reads would
    bring nothing at all, since both ends would begin with the same frames over each connection.
    """

    __slots__ = ("_filled", "_need", "_own", "_rest", "_shared", "failure", "strict")

    def __init__(self, shared: ReadBuffer) -> None:
        self._shared = shared
        self._rest = b""
        self._own: memoryview | None = None
        self._filled = 0
        """How much of our own buffer holds bytes of the frame."""
        self._need = 0
        """How many bytes it takes before the beginning that we have can become a frame, or tell how long it is."""
        self.failure: WireError | None = None
        """Why nothing more can be made of the stream, once that is so."""
        self.strict = False
        """Whether publications are taken only in the bytes in which we would say them: see `wire.check_form`."""

    @property
    def pending_bytes(self) -> int:
        """Bytes of a frame that is not complete yet."""
        return self._filled if self._own is not None else len(self._rest)

    @property
    def rest(self) -> bytes:
        """The beginning of what could not be cut into frames."""
        return bytes(self._own[: min(self._filled, SHOWN_BYTES)]) if self._own is not None else self._rest[:SHOWN_BYTES]

    @property
    def announced_bytes(self) -> int:
        """How long the frame that is not complete yet will be; 0 if that is not known."""
        return self._need

    def room(self) -> memoryview:
        """Where the next bytes are to be put."""
        rest, own = self._rest, self._own
        if own is None:
            if not rest:
                return self._shared.view
            if self._shared.size_bytes - len(rest) >= READ_BYTES_MIN:
                self._shared.view[: len(rest)] = rest
                return self._shared.view[len(rest) :]
            own = self._keep_in_own(memoryview(rest))
        elif len(own) - self._filled < READ_BYTES_MIN:
            own = self._keep_in_own(own[: self._filled])
        return own[self._filled :]

    def _keep_in_own(self, beginning: memoryview) -> memoryview:
        own = memoryview(bytearray(2 * (len(beginning) + READ_BYTES_MIN)))
        own[: len(beginning)] = beginning
        self._own, self._filled, self._rest = own, len(beginning), b""
        return own

    def advance(self, count: int) -> list[Frame]:
        """That many bytes came; the frames that are complete now. Then look at `failure`."""
        view = self._own if self._own is not None else self._shared.view
        end = count + self.pending_bytes
        if end < self._need:
            # A piece in the middle of a frame: there is nothing to look at.
            if self._own is None:
                self._keep_in_own(view[:end])
            self._filled = end
            return []
        frames, at = self._cut(view, end)
        self._own, self._filled = None, 0
        self._rest = bytes(view[at:end]) if at < end else b""
        return frames

    def _cut(self, view: memoryview, end: int) -> tuple[list[Frame], int]:
        """The frames in so much of the view, and where the next one begins."""
        frames: list[Frame] = []
        at = start = check = self._need = 0
        try:
            while end - at >= FRAME_BYTES_MIN:
                high, low, check, number = HEAD.unpack_from(view, at)
                size = (high & 0x3F) << 16 | low
                if high >> 6 != size % 3 or not size:
                    measured(high, low)
                start = at + HEADER_BYTES
                if start + size > end:
                    self._need = HEADER_BYTES + size
                    break
                at = start + size
                if number < LAP:
                    said = view[start + 1 : at]
                    frame = publication(number, said, check)
                    if self.strict:
                        check_form(frame, said)
                    frames.append(frame)
                else:
                    frames.append(verified(view[start:at], check))
        except NO_FRAME as error:
            self.failure = no_frame(at - start, error, is_meant(view[start:at], check))
        except WireError as error:
            self.failure = error
        return frames, at
