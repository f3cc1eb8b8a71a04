"""How often a node says something that may wait, such as which of its records are stable.

The problem: each message changes what is stable at every node that it passes, several times, and a frame about each
change weighs more than a small message. Where messages are rare nobody minds, and whoever waits for the news (a
publisher for `held`) has it soonest so; where they are many, one frame can speak of all of them. So the first few
times are free, and they come back one by one: a node that says little says it at once, one that has much to say says it
at regular intervals.
"""

ROUNDING = 1e-6
"""A timer that was set for the right moment may find itself a little before it."""


class Pace:
    """At most `at_once` times in a row, and one more every `interval_s`."""

    __slots__ = ("_as_of", "_at_once", "_interval_s", "_left")

    def __init__(self, interval_s: float, at_once: int) -> None:
        self._interval_s, self._at_once = interval_s, at_once
        self._left = float(at_once)
        self._as_of = 0.0

    def take(self, now: float) -> bool:
        """Whether it may be said now; then it counts as said."""
        self._catch_up(now)
        if self._left < 1.0 - ROUNDING:
            return False
        self._left -= 1.0
        return True

    def wait_s(self, now: float) -> float:
        """How long until it may be said again."""
        self._catch_up(now)
        return max(1.0 - self._left, 0.0) * self._interval_s

    def _catch_up(self, now: float) -> None:
        passed_s = max(now - self._as_of, 0.0)
        self._left = min(self._left + passed_s / self._interval_s, float(self._at_once))
        self._as_of = now
