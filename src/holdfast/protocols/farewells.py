"""Clients whose session their broker has ended, and which may not know it yet.

A client that was away for too long comes back and wants to go on: its broker has to tell it that its session is over,
rather than that it knows nothing of it. That would mean that the broker has begun anew, and the client would look for
somebody who repairs its loss, and for as long as it has patience.

A client that does not come back within the time that a session is kept has given up itself, or finds it out by asking
around, so the word is kept for that long, and for no more than `FAREWELLS_MAX` clients, the latest ones.
"""

FAREWELLS_MAX = 1000


class Farewells:
    """What one broker has yet to tell to clients that it serves no more."""

    def __init__(self, keep_s: float, farewells_max: int = FAREWELLS_MAX) -> None:
        self._keep_s, self._farewells_max = keep_s, farewells_max
        self._ended: dict[str, tuple[int, float]] = {}
        """By client: the epoch that is over, and when it ended; the latest last."""

    def __len__(self) -> int:
        return len(self._ended)

    def add(self, client: str, epoch: int, now: float) -> None:
        """That client's session, begun in that epoch, is over."""
        ended = self._ended.pop(client, None)
        self._ended[client] = (epoch if ended is None else max(epoch, ended[0]), now)
        if len(self._ended) > self._farewells_max:
            del self._ended[next(iter(self._ended))]

    def covers(self, client: str, epoch: int) -> bool:
        return client in self._ended and epoch <= self._ended[client][0]

    def expire(self, now: float) -> None:
        """Forget those that ended long ago."""
        while self._ended:
            client = next(iter(self._ended))
            if now - self._ended[client][1] < self._keep_s:
                return
            del self._ended[client]
