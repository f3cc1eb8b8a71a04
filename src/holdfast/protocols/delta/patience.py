"""How long one broker waits for another before it holds that failed (section 5 takes detectors that do not err).

A connection that is gone is missed for `suspect_s`. A broker that is expected past a failed one needs a few round
trips, and may hold that one failed later than we do. A broker that stood still itself has lost everybody at a time: it
is itself whom the others have lost, and it gives them half of that time to come back. Where nobody listens at an
address, nobody is there who could be slow.
"""

from holdfast.protocols.config import BrokerConfig

EXPECTED_SHARE = 0.05
"""The share of `join_s` that a node may take to connect past a failed one before it is held failed as well."""


class Patience:
    """Waits of one broker."""

    def __init__(self, config: BrokerConfig) -> None:
        self.suspect_s = config.suspect_s
        self.recovering_s = max(config.suspect_s, config.join_s)
        self._share_s = max(config.suspect_s, config.join_s * EXPECTED_SHARE)
        link = config.link
        self._pause_s = max(link.silence_s - link.heartbeat_s, config.suspect_s)
        self._settled_at = self._sure_at = 0.0
        self._refusing: set[str] = set()
        self.awaited: set[str] = set()
        """Nodes that will be held failed unless they come."""

    def settle(self, now: float) -> None:
        """A turn is over."""
        if self.stood_still(now) and now >= self._sure_at:
            self._sure_at = now + self._share_s
        self._settled_at = now

    def stood_still(self, now: float) -> bool:
        """Whether we stood still ourselves just now."""
        return now - self._settled_at > self._pause_s or now < self._sure_at

    def lost_s(self, now: float) -> float:
        """How long to wait for somebody whose connection is gone."""
        return max(self.suspect_s, self._share_s / 2) if self.stood_still(now) else self.suspect_s

    def expected_s(self, name: str, passed: int, operational: bool) -> float:
        """How long to wait for somebody who is to connect with us past so many others.

        1. Two are failed between us. 2. We have lost one of them, and need to find out that the other does not come.
        3. So must the one that we expect, from its side, which may begin later. Who recovers has more patience.
        """
        self._refusing.discard(name)
        return self._share_s * max(1, 2 * passed - 1) if operational else self.recovering_s

    def is_refused(self, name: str) -> bool:
        """Whether that is the first time that nobody listens where that broker is expected."""
        if name in self._refusing:
            return False
        self._refusing.add(name)
        return True
