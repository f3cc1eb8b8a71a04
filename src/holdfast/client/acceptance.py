"""How far a client's publications have come: which the broker has, which it refused, who waits to know."""

import asyncio
from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush

from holdfast.client.past_sessions import PastSessions
from holdfast.client.receipts import Level
from holdfast.model.errors import HoldfastError, Refused

REFUSALS_KEPT_MAX = 1024
"""How many refusals are remembered for receipts; older ones are still counted for the next flush."""


class Acceptance:
    """`accepted` is the number up to which the broker has everything."""

    def __init__(
        self,
        publisher: str,
        accepted: Callable[[], int],
        backlog_bytes: Callable[[], int],
        hurry: Callable[[int | None], None],
    ) -> None:
        """`hurry` is called with the number that somebody begins to wait for, or `None` for all that was published."""
        self._publisher, self._accepted, self._backlog_bytes, self._hurry = publisher, accepted, backlog_bytes, hurry
        self.past = PastSessions()
        self._end: HoldfastError | None = None
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._room_waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._refusals: deque[tuple[int, int, str]] = deque(maxlen=REFUSALS_KEPT_MAX)
        self._refusals_unsaid = 0

    def level_of(self, seq: int) -> Level:
        if self._refusal_of(seq):
            return "refused"
        return "accepted" if seq <= self._accepted() and self.past.doubt_about(seq) is None else "sent"

    async def wait_for(self, seq: int) -> None:
        """Wait until the broker has every publication of its session up to `seq`."""
        doubt = self.past.doubt_about(seq)
        if doubt is not None:
            raise doubt
        if seq <= self._accepted():
            return
        if self._end is not None:
            raise self._end
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiters, (seq, id(waiter), waiter))
        self._hurry(seq)
        await waiter

    async def wait_for_room(self, backlog_bytes_max: int) -> None:
        """Wait until no more than this is not accepted yet."""
        while self._backlog_bytes() > backlog_bytes_max and self._end is None:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._room_waiters.append((backlog_bytes_max, waiter))
            self._hurry(None)
            await waiter

    def check_not_refused(self, seq: int) -> None:
        reason = self._refusal_of(seq)
        if reason:
            raise Refused(f"the broker refused {self._publisher}#{seq}: {reason}")

    def check_nothing_refused(self) -> None:
        """Raise `Refused` if something was refused since this was asked last."""
        if self._refusals_unsaid:
            count, self._refusals_unsaid = self._refusals_unsaid, 0
            first, _, reason = self._refusals[-1]
            raise Refused(f"the broker refused {count} publications of {self._publisher}, #{first} because {reason}")

    def check_nothing_in_doubt(self) -> None:
        """Raise `SessionLost` if a loss has left something in doubt since this was asked last."""
        unsaid, self.past.unsaid = self.past.unsaid, None
        if unsaid is not None:
            raise unsaid

    def _refusal_of(self, seq: int) -> str:
        return next((reason for first, last, reason in self._refusals if first <= seq <= last), "")

    # ----------------------------------------------------------------------------------------------- what happens

    def advanced(self, seq: int) -> None:
        """The broker has everything up to `seq`."""
        if self._room_waiters:
            self._let_in()
        waiters = self._waiters
        while waiters and waiters[0][0] <= seq:
            _answer(heappop(waiters)[2], None)

    def _let_in(self) -> None:
        backlog_bytes = self._backlog_bytes()
        waiting = self._room_waiters
        self._room_waiters = [entry for entry in waiting if entry[0] < backlog_bytes]
        for bound, waiter in waiting:
            if bound >= backlog_bytes:
                _answer(waiter, None)

    def suspend(self) -> None:
        """The session is lost, and there will be another: whoever waits for what is in doubt learns it now."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            doubt = self.past.doubt_about(waiter[0])
            if doubt is None:
                heappush(self._waiters, waiter)
            else:
                _answer(waiter[2], doubt)
        self._let_in()

    def resume(self) -> None:
        """There is a session again, in which some numbers may be others."""
        self._waiters = [(self.past.present(seq), place, waiter) for seq, place, waiter in self._waiters]
        heapify(self._waiters)
        if self._waiters:
            self._hurry(max(seq for seq, _, _ in self._waiters))

    def refused(self, first: int, last: int, reason: str) -> None:
        self._refusals.append((first, last, reason))
        self._refusals_unsaid += last - first + 1

    def finish(self, end: HoldfastError) -> None:
        """Nothing more will be accepted: whoever waits learns why."""
        self._end = end
        for _, _, waiter in self._waiters:
            _answer(waiter, end)
        for _, waiter in self._room_waiters:
            _answer(waiter, None)
        self._waiters.clear()
        self._room_waiters.clear()


def _answer(waiter: "asyncio.Future[None]", error: HoldfastError | None) -> None:
    if waiter.done():
        return
    if error is None:
        waiter.set_result(None)
    else:
        waiter.set_exception(error)
        # Somebody who stopped waiting does not make this an error that nobody handled.
        waiter.exception()
