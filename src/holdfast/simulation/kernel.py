"""The virtual clock and the queue of what will happen.

Everything that happens is an entry `(time, number, action, argument)` in one heap. Numbers are given in the order of
insertion, so what falls on one time happens in the order in which it was asked for, and nothing depends on how actions
compare or hash. An *instant* is all that happens at one time; what was asked for its end (`at_end`) happens once
nothing more is due at that time, and may make more due.

This loop runs a few times a simulated message: entries are plain tuples, and the network pushes them itself.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from random import Random
from typing import Any

from holdfast.model.errors import LocalMisuse

Action = Callable[[Any], None]
Entry = tuple[float, int, Action, Any]

EVENTS_MAX = 100_000_000
"""More in one call of `run` is taken for a circle of nodes that answer each other without end."""


class Runaway(LocalMisuse):
    """Raised when far more happens than any simulation means to let happen."""


def stream(seed: int, purpose: str) -> Random:
    """The source of chance for one purpose: a new consumer gets its own and disturbs no other.

    The seed is a string, which `Random` digests by SHA-512: the same everywhere, whatever the interpreter's hash seed.
    """
    return Random(f"holdfast/{seed}/{purpose}")


class Kernel:
    """A clock in seconds that only `run` moves, and what is due on it."""

    __slots__ = ("cancelled", "endings", "events", "next_number", "now", "queue")

    def __init__(self) -> None:
        self.now = 0.0
        self.queue: list[Entry] = []
        self.next_number = count().__next__
        self.cancelled: set[int] = set()
        self.events = 0
        self.endings: list[Action] = []

    def at(self, time_s: float, action: Action, argument: Any = None) -> int:
        """Call `action(argument)` at that time, or at once if it has passed; the number cancels it."""
        number = self.next_number()
        heappush(self.queue, (max(time_s, self.now), number, action, argument))
        return number

    def after(self, delay_s: float, action: Action, argument: Any = None) -> int:
        """Call `action(argument)` that much later."""
        return self.at(self.now + delay_s, action, argument)

    def cancel(self, number: int) -> None:
        """Let an entry that has not happened yet never happen."""
        self.cancelled.add(number)

    def at_end(self, action: Action) -> None:
        """Call `action(None)` when nothing more is due at this time."""
        self.endings.append(action)

    def remove(self, unwanted: Callable[[Entry], bool]) -> None:
        """Take entries out of the queue. Costs a walk through it: for faults, not for traffic."""
        queue = self.queue
        queue[:] = [entry for entry in queue if not unwanted(entry)]
        heapify(queue)

    def run(self, until_s: float, events_max: int = EVENTS_MAX) -> None:
        """Let everything happen that is due up to that time; the clock stands there afterwards."""
        queue, cancelled, endings = self.queue, self.cancelled, self.endings
        now, done = self.now, 0
        try:
            while True:
                if not queue or queue[0][0] != now:
                    if endings:
                        # What an ending makes due at this time happens before the instant ends again. Mostly there
                        # is one, since few things happen at exactly the same time.
                        if len(endings) == 1:
                            endings.pop()(None)
                        else:
                            actions = endings[:]
                            endings.clear()
                            for action in actions:
                                action(None)
                        continue
                    if not queue or queue[0][0] > until_s:
                        break
                    self.now = now = queue[0][0]
                    if done > events_max:
                        raise Runaway(f"{done} events and no end at {now:.6f} s: some node never comes to rest")
                _, number, action, argument = heappop(queue)
                if cancelled and number in cancelled:
                    cancelled.discard(number)
                    continue
                done += 1
                action(argument)
        finally:
            self.events += done
        self.now = max(now, until_s)
