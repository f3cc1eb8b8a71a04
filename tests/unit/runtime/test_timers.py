"""Named timers: one of the loop's for each name, whatever is done with it."""

from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Any, cast

from holdfast.runtime.timers import Timers


class Handle:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Clock:
    """A loop that only has timers, and the time that they are about."""

    def __init__(self) -> None:
        self.now = 100.0
        self.rang: list[tuple[str, float]] = []
        self._calls: list[tuple[float, Handle, Callable[..., None], tuple[Any, ...]]] = []
        self.timers = Timers(cast("AbstractEventLoop", self), self._ring, lambda: self.now)

    def _ring(self, name: str) -> None:
        self.rang.append((name, round(self.now - 100.0, 3)))

    def call_later(self, delay: float, callback: Callable[..., None], *args: Any) -> Handle:
        handle = Handle()
        self._calls.append((self.now + delay, handle, callback, args))
        return handle

    @property
    def armed(self) -> int:
        return sum(not handle.cancelled for _, handle, _, _ in self._calls)

    def run_to(self, time_s: float) -> None:
        while due := [call for call in self._calls if call[0] <= 100.0 + time_s]:
            first = min(due, key=lambda call: call[0])
            self._calls.remove(first)
            if not first[1].cancelled:
                self.now = max(self.now, first[0])
                first[2](*first[3])
        self.now = 100.0 + time_s


def test_a_timer_rings_once_at_its_time():
    clock = Clock()
    clock.timers.set("a", 1.0)
    clock.run_to(5)
    assert clock.rang == [("a", 1.0)]


def test_setting_a_timer_again_replaces_it_later_and_earlier():
    clock = Clock()
    clock.timers.set("later", 1.0)
    clock.timers.set("later", 3.0)
    clock.timers.set("earlier", 3.0)
    clock.timers.set("earlier", 2.0)
    clock.run_to(5)
    assert clock.rang == [("earlier", 2.0), ("later", 3.0)]


def test_a_timer_that_is_set_a_thousand_times_takes_one_of_the_loops():
    clock = Clock()
    for number in range(1000):
        clock.timers.set("a", 1.0 + number)
    assert clock.armed == 1
    clock.run_to(999.9)
    assert clock.rang == []
    clock.run_to(1000)
    assert clock.rang == [("a", 1000.0)]


def test_a_cancelled_timer_does_not_ring_and_can_be_set_again():
    clock = Clock()
    clock.timers.set("a", 1.0)
    clock.timers.cancel("a")
    clock.timers.set("b", 1.0)
    clock.timers.cancel("b")
    clock.timers.set("b", 2.0)
    clock.run_to(5)
    assert clock.rang == [("b", 2.0)]


def test_a_timer_that_is_set_while_it_rings_rings_again():
    clock = Clock()
    again = Timers(cast("AbstractEventLoop", clock), lambda name: again.set(name, 1.0), lambda: clock.now)
    again.set("beat", 1.0)
    clock.run_to(3.5)
    assert clock.armed == 1


def test_after_closing_nothing_rings():
    clock = Clock()
    clock.timers.set("a", 1.0)
    clock.timers.close()
    clock.run_to(5)
    assert clock.rang == []
    assert clock.armed == 0
