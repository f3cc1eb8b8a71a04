"""Bits that flip on their way: what a stream of frames becomes if some of its bytes are not those that were sent.

A stream that this happens to is one of bytes: every frame is encoded, and what the receiver makes of the bytes is what
its reader makes of them, whole frames or the end of the connection. A frame whose length was altered may swallow those
behind it, as on a real wire.
"""

from random import Random

from holdfast.model.messages import Frame
from holdfast.model.wire import FrameReader, WireError, encode

BITS = (1, 1, 1, 2, 5)
"""How many bits flip in a frame, within a few bytes of each other."""
BURST_BYTES = 4


class Flips:
    """One direction of a connection, in bytes."""

    __slots__ = ("_chance", "_reader")

    def __init__(self, chance: Random) -> None:
        self._chance, self._reader = chance, FrameReader()

    @property
    def pending_bytes(self) -> int:
        """Bytes of a frame that the receiver waits for the rest of."""
        return self._reader.pending_bytes

    def passed(self, frame: Frame, share: float) -> list[Frame] | None:
        """What the receiver has when this was sent too; `None` if it cannot go on."""
        data = bytearray(encode(frame))
        if self._chance.random() < share:
            self._flip(data)
        try:
            return self._reader.feed(data)
        except WireError:
            return None

    def _flip(self, data: bytearray) -> None:
        start = self._chance.randrange(len(data))
        for _ in range(self._chance.choice(BITS)):
            at = min(len(data) - 1, start + self._chance.randrange(BURST_BYTES))
            data[at] ^= 1 << self._chance.randrange(8)
