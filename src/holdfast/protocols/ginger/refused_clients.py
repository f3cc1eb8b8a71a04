"""Clients that ask a broker to take them in, and are sent on to others, again and again.

A client that has lost its broker asks all whom it knows, until one of them has repaired that loss or the time of its
session is over. If nobody has repaired it for a client's own part of the tree, the session is lost, and with it what
the client has published and no other broker has:
1. 3 and 5 are out of reach, and 3 has accepted c3#1. 3 dies, and 5 finds a way back by itself.
2. Nobody repairs the loss of 3, so nobody takes c3 in, and c3 ends. c5, which was owed c3#1, hears nothing.
So a broker that has sent such a client on for half of a session's time announces a hole, once.

Bounds: `CLIENTS_MAX` clients are remembered; one that has not asked for as long as a session is kept asks anew.
"""

CLIENTS_MAX = 1000
SHARE = 0.5


class RefusedClients:
    """The clients that one broker has sent on: since when, when last, and whether a hole was announced."""

    def __init__(self, session_keep_s: float) -> None:
        self._keep_s = session_keep_s
        self._clients: dict[str, tuple[float, float, bool]] = {}

    def again(self, client: str, now: float) -> bool:
        """That client is sent on; returns whether this has lasted so long, for the first time, that it may be lost."""
        since, last, told = self._clients.pop(client, (now, now, False))
        if now - last > self._keep_s:
            since, told = now, False
        is_lost = not told and now - since >= SHARE * self._keep_s
        self._clients[client] = (since, now, told or is_lost)
        if len(self._clients) > CLIENTS_MAX:
            del self._clients[next(iter(self._clients))]
        return is_lost
