"""The durable subscriptions that have ended, each with the time of its end, as a repository remembers them."""

import msgspec

from holdfast.model.checksums import crc32

FORGOTTEN_MAX = 1024

End = tuple[str, int, int]
"""The name of a subscription, the time of its end in nanoseconds, and the token of the client that ended it."""
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[End])


class EndedSubscriptions:
    """The ended subscriptions of one stream, by name."""

    def __init__(self) -> None:
        self._ends: dict[str, tuple[int, int]] = {}
        self.digest = 0
        """A checksum: equal at two repositories that remember the same ends; 0 if there is none."""

    def ends(self) -> tuple[End, ...]:
        return tuple((name, *self._ends[name]) for name in sorted(self._ends))

    def at(self, name: str, token: int, now_ns: int) -> int:
        """The time of the end with this token: the remembered time, or now if the end is new."""
        known = self._ends.get(name)
        return known[0] if known is not None and known[1] == token else now_ns

    def add(self, name: str, end_ns: int, token: int) -> bool:
        """Remember an end; whether it is new."""
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
        """The begin time of a new subscription: later than the last end of that name, whatever clocks say."""
        return max(now_ns, self._ends[name][0] + 1) if name in self._ends else now_ns

    def save(self) -> bytes:
        return _encoder.encode(self.ends())

    def restore(self, value: bytes) -> None:
        for end in _decoder.decode(value):
            self.add(*end)
