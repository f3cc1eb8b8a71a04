"""Named timers on the event loop, cheap to set again.

A node moves its timers far more often than one fires. So setting a timer to a later time, or cancelling it, only
notes that; the loop's own timer fires when it was first due, and is armed again if there is still time to wait.
There is never more than one timer of the loop for a name.
"""

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from time import monotonic

RESOLUTION_S = 0.001
"""The loop counts in milliseconds: a timer armed with less than this would spin."""


class Timers:
    """The timers of one node. `ring` is called with the name of each that is due."""

    __slots__ = ("_armed", "_clock", "_due", "_loop", "_ring")

    def __init__(
        self, loop: AbstractEventLoop, ring: Callable[[str], None], clock: Callable[[], float] = monotonic
    ) -> None:
        self._loop, self._ring, self._clock = loop, ring, clock
        self._due: dict[str, float] = {}
        self._armed: dict[str, tuple[float, TimerHandle]] = {}

    def set(self, name: str, after_s: float) -> None:
        now = self._clock()
        due = self._due[name] = now + after_s
        armed = self._armed.get(name)
        if armed is not None:
            if armed[0] <= due:
                return
            armed[1].cancel()
        self._arm(name, due, now)

    def cancel(self, name: str) -> None:
        self._due.pop(name, None)

    def close(self) -> None:
        self._due.clear()
        for _, handle in self._armed.values():
            handle.cancel()
        self._armed.clear()

    def _arm(self, name: str, due: float, now: float) -> None:
        handle = self._loop.call_later(max(due - now, RESOLUTION_S), self._wake, name)
        self._armed[name] = (due, handle)

    def _wake(self, name: str) -> None:
        del self._armed[name]
        due = self._due.get(name)
        if due is None:
            return
        now = self._clock()
        if due > now:
            self._arm(name, due, now)
            return
        del self._due[name]
        self._ring(name)
