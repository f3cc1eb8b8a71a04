"""Which durable subscriptions are over, and since when, as a repository remembers it."""

import msgspec

from holdfast.model.checksums import crc32

FORGOTTEN_MAX = 1024

End = tuple[str, int, int]
"""The name of a subscription, when it ended (in nanoseconds), and the token of whoever said so."""
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[End])


class Ends:
    """Which subscriptions are over, and since when."""

    def __init__(self) -> None:
        self._ends: dict[str, tuple[int, int]] = {}
        self.digest = 0
        """The same at two repositories that have forgotten the same; 0 if that is nothing."""

    def ends(self) -> tuple[End, ...]:
        return tuple((name, *self._ends[name]) for name in sorted(self._ends))

    def at(self, name: str, token: int, now_ns: int) -> int:
        """When the end that this token stands for was: now, unless it is known already."""
        known = self._ends.get(name)
        return known[0] if known is not None and known[1] == token else now_ns

    def add(self, name: str, end_ns: int, token: int) -> bool:
        """Learn of an end; whether that is news."""
        if (end_ns, token) <= self._ends.get(name, (0, 0)):
            return False
        self._ends[name] = (end_ns, token)
        if len(self._ends) > FORGOTTEN_MAX:
            del self._ends[min(self._ends, key=lambda one: (self._ends[one], one))]
        self.digest = crc32(self.save())
        return True

    def is_over(self, name: str, since_ns: int) -> bool:
        """Whether a subscription that began then has ended."""
        return name in self._ends and since_ns <= self._ends[name][0]

    def beginning(self, name: str, now_ns: int) -> int:
        """When a subscription of that name begins that begins now: after the last of that name, whatever clocks say."""
        return max(now_ns, self._ends[name][0] + 1) if name in self._ends else now_ns

    def save(self) -> bytes:
        return _encoder.encode(self.ends())

    def restore(self, value: bytes) -> None:
        for end in _decoder.decode(value):
            self.add(*end)
