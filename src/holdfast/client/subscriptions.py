"""Messages as they arrive: one by one, or batch by batch.

What has arrived lies here in the batches in which it came, and is cut into messages only when it is taken. For a
subscription that blocks, taking a batch is what lets the broker send more: an application that does not read is not
sent more than a window. For the others the client takes what comes, and so much may lie here as they say: see
`client.slow` for what happens then.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from threading import get_ident
from types import TracebackType
from typing import ClassVar, Protocol, Self

from msgspec import Struct

from holdfast.client.arguments import patience
from holdfast.client.errors import ClientClosed, Gap, SessionLost
from holdfast.client.homes import Home
from holdfast.client.internals import PublicMembers
from holdfast.client.slow import BLOCK, Allowance, Slowness
from holdfast.model.batches import Batch, Message, make_batch
from holdfast.model.identities import name_of

PUBLISHERS_MAX = 10_000
"""Of how many publishers a subscription remembers how far it is; the one that was heard of first is forgotten first."""
TURN_BYTES = 1 << 18
"""After taking this much without a pause the loop gets a turn: reading must not keep the client from answering."""


class Delivery(Struct, gc=False):
    """A batch that the machine handed over, and by how many subscriptions it is still to be taken."""

    batch: Batch
    left: int


class Shared(Delivery, gc=False):
    """The same, with the number of subscriptions whose applications have yet to get some of its messages."""

    unread: int = 0


class Hole(Delivery, gc=False):
    """Nothing that the machine handed over: the place in the stream where something is missing, or may be."""

    gap: Gap | None = None
    reason: str = ""
    """Why something may be missing here; empty if it is known how much."""
    dropped: int = 0
    dropped_because: str = ""


NOTHING = make_batch("-", 1, "-", 0, [b""])


def nothing_came(pattern: str, timeout_s: float | None) -> TimeoutError:
    """What `get` raises when its time is up."""
    return TimeoutError(f"no message to the subscription to {pattern!r} came within {timeout_s or 0:g} s; it goes on")


class Source(Protocol):
    """What a subscription asks of its client."""

    def batch_taken(self, delivery: Delivery) -> None: ...

    def batch_read(self, delivery: Delivery) -> None: ...

    def batch_dropped(self, subscription: "Subscription", batch: Batch, delivery: Delivery, reason: str) -> None: ...

    def end_slow(self, subscription: "Subscription", gap: Gap) -> None: ...

    async def end_subscription(self, subscription: "Subscription") -> None: ...


class Subscription(metaclass=PublicMembers):
    """A confirmed subscription: iterate over it with `async for`.

    Any number of tasks may iterate over one subscription, together or one after the other; each message goes to one of
    them. An iteration that is cancelled has taken no message that it did not hand out. The iteration ends after
    `unsubscribe`, when the messages that had arrived are read. It raises `Gap`

    - behind the messages that had arrived, if the session is lost: no message before it is missing, all later ones are;
    - once, and continues with the next iteration, where a broker had to let messages go that may be missing, and where
      the subscription has dropped messages that were not read in time (`gap.dropped`).
    """

    _internal: ClassVar[tuple[str, ...]] = (
        *("__init__", "take_into", "give_back"),
        *("arrive", "miss", "skip", "lose", "end", "detach", "spills", "awaits_confirmation"),
    )

    spills = False
    """Whether the broker may leave out what is not taken in time: somebody else has it for us."""
    awaits_confirmation = False
    """Whether it was asked for, and not every broker concerned has confirmed it."""

    def __init__(self, source: Source, pattern: str, where: str, slowness: Slowness = BLOCK) -> None:
        self.pattern, self.where, self.slowness = pattern, where, slowness
        self._source = source
        self._allowance = None if slowness.policy == "block" else Allowance(slowness)
        self._slow_timer: asyncio.TimerHandle | None = None
        self._ready: list[Message] = []
        self._arrived: deque[tuple[Batch, Delivery]] = deque()
        self._waiters: list[asyncio.Future[None]] = []
        self._readers = 0
        """How many tasks wait for a message at this moment, or for their turn to take one."""
        self._taken_bytes = 0
        self._unread: list[Delivery] = []
        """What was taken and the application has yet to get some messages of."""
        self._received: dict[str, int] = {}
        self._end: BaseException | None = None
        self.ended = False
        self._home = Home(f"the subscription to {pattern!r}")

    def __repr__(self) -> str:
        where = f" where {self.where}" if self.where else ""
        return f"Subscription({self.pattern!r}{where})"

    # ------------------------------------------------------------------------------------------------- reading

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        ready = self._ready
        if self._readers:
            await self._give_way()
        while not ready:
            if await self._pause():
                continue  # Another task that waited may have left some of its batch: that comes first.
            batch = await self._take()
            if batch is None:
                raise StopAsyncIteration
            ready.extend(reversed(batch.messages()))
        message = ready.pop()
        if not ready:
            self._all_read()
        return message

    async def get(self, timeout_s: float | None = None) -> Message:
        """The next message. Raises `TimeoutError` if none comes in time; the subscription goes on."""
        limit_s = patience("get", timeout_s)
        if self._ready and not self._readers:
            return await self.__anext__()  # A message that is here, and that nobody else waits for, needs no clock.
        try:
            async with asyncio.timeout(limit_s):
                return await self.__anext__()
        except StopAsyncIteration:
            raise ClientClosed(f"the subscription to {self.pattern!r} has ended: subscribe again") from None
        except TimeoutError:
            raise nothing_came(self.pattern, limit_s) from None

    async def batches(self) -> AsyncIterator[list[Message]]:
        """Iterate by lists of messages, as they arrived: the cheapest way to read a lot."""
        while True:
            if self._ready:
                ready = self._ready[::-1]
                self._ready.clear()
                self._all_read()
                yield ready
            batch = await self._take()
            if batch is None:
                return
            self._all_read()
            yield batch.messages()

    async def take_into(self, messages: deque[Message], bytes_max: int) -> bool:
        """Wait for a batch and append its messages, and those of what else has arrived up to that size.

        Returns whether there was one: `False` when none will come. Whoever takes like this has read, when it comes
        back for more, what it took before.
        """
        if not self._ready:
            self._all_read()
        if self._ready:
            messages.extend(reversed(self._ready))
            self._ready.clear()
            return True
        batch = await self._take()
        while batch is not None:
            messages.extend(batch.messages())
            if not self._arrived or self._taken_bytes >= bytes_max or self._gap_is_next():
                return True
            batch = self._pop()
        return False

    def give_back(self, messages: Iterable[Message]) -> None:
        """These were taken from here, the next to be handed out first, and nobody had them."""
        self._ready.extend(reversed(list(messages)))

    async def _take(self) -> Batch | None:
        """The next batch; `None` when there is none and none will come. All waiting stands before the taking."""
        while await self._pause():
            pass
        if self._arrived:
            return self._pop()
        if self._end is not None:
            if isinstance(self._end, Gap):
                self._end.received = dict(self._received)
            raise self._end
        return None

    async def _pause(self) -> bool:
        """Let the loop have a turn, or wait for an arrival, if it is time for that; whether it was."""
        if self._home.thread != get_ident():
            self._home.check()
        if self._taken_bytes >= TURN_BYTES:
            self._taken_bytes = 0
            await asyncio.sleep(0)
        elif not self._arrived and not self.ended:
            await self._arrival()
        else:
            return False
        return True

    def _gap_is_next(self) -> bool:
        return isinstance(self._arrived[0][1], Hole)

    def _pop(self) -> Batch:
        batch, delivery = self._arrived.popleft()
        if type(delivery) is Hole:
            raise self._gap_at(delivery)
        self._taken_bytes += len(batch.payloads) + 64
        if self._allowance is None:
            self._source.batch_taken(delivery)
        else:
            self._free(self._allowance, batch.cost_bytes)
        self._unread.append(delivery)
        self._received[name_of(batch.publisher)] = batch.last
        if len(self._received) > PUBLISHERS_MAX:
            del self._received[next(iter(self._received))]
        return batch

    def _gap_at(self, hole: Hole) -> Gap:
        if hole.gap is not None:
            hole.gap.received = dict(self._received)
            return hole.gap
        said = []
        if hole.dropped:
            messages = "1 message" if hole.dropped == 1 else f"{hole.dropped} messages"
            verb = "was" if hole.dropped == 1 else "were"
            said.append(
                f"{messages} to the subscription to {self.pattern!r} {verb} dropped here: {hole.dropped_because}"
            )
        if hole.reason:
            said.append(f"messages to the subscription to {self.pattern!r} may be missing here: {hole.reason}")
        sentence = f"{'; '.join(said)}; reading goes on"
        return Gap(sentence, self.pattern, self.where, self._received, goes_on=True, dropped=hole.dropped)

    def _all_read(self) -> None:
        """The application has every message that was taken."""
        if self._unread:
            unread, self._unread = self._unread, []
            for delivery in unread:
                self._source.batch_read(delivery)

    async def _arrival(self) -> None:
        # Everybody who waits is woken: one of them may have been cancelled in the same turn.
        self._home.check()
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._taken_bytes = 0
        self._readers += 1
        try:
            await waiter
        finally:
            self._readers -= 1
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    async def _give_way(self) -> None:
        """Other tasks want the next message, too: those that have waited for longer come first.

        1. A batch of nine arrives, and three tasks are woken. 2. The first takes a message, and asks for the next one
        before the others have run. Without this it would find eight that are ready, and take them all.
        """
        self._readers += 1
        try:
            await asyncio.sleep(0)
        finally:
            self._readers -= 1

    # ------------------------------------------------------------------------------------------------ the client

    def arrive(self, batch: Batch, delivery: Delivery) -> None:
        """Messages for this subscription are here."""
        allowance = self._allowance
        if allowance is not None:
            # Nobody waits for the application: the broker may send more, whether it reads or not.
            self._source.batch_taken(delivery)
            if not allowance.add(batch.cost_bytes) and not self._make_room(allowance, batch, delivery):
                return
        self._arrived.append((batch, delivery))
        if self._waiters:
            self._wake()
        if allowance is not None and self._slow_timer is not None and allowance.is_far_too_much:
            self._end_slow(f"{allowance.bytes} bytes of messages waited to be read")

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def miss(self, reason: str) -> Gap | None:
        """Something may be missing here: whoever reads learns it, once, behind what had arrived, and reads on.

        Where nothing has arrived since the last such place, that one says it.
        """
        hole = None if self.ended else self._last_hole()
        if hole is None or hole.reason:
            return None
        hole.reason = reason
        return self._gap_at(hole)

    def skip(self, count: int, reason: str) -> Gap | None:
        """The broker has dropped so many messages here; 0: some, perhaps."""
        if not count:
            return self.miss(reason)
        if self.ended:
            return None
        hole = self._last_hole()
        hole.dropped, hole.dropped_because = hole.dropped + count, reason
        return self._gap_at(hole)

    def _last_hole(self) -> Hole:
        """The place in the stream behind all that has arrived."""
        if self._arrived:
            last = self._arrived[-1][1]
            if isinstance(last, Hole) and last.gap is None:
                return last
        hole = Hole(NOTHING, 0)
        self._arrived.append((NOTHING, hole))
        self._wake()
        return hole

    # -------------------------------------------------------------------------------- applications that do not read

    def _make_room(self, allowance: Allowance, batch: Batch, delivery: Delivery) -> bool:
        """More has arrived than may wait; whether this batch is still to be appended."""
        policy = allowance.slowness.policy
        if policy == "drop-newest":
            allowance.remove(batch.cost_bytes)
            allowance.dropping = True
            self._drop(self._last_hole(), batch, delivery, allowance.reason)
            return False
        if policy == "drop-oldest":
            self._drop_oldest(allowance)
        elif self._slow_timer is None:
            seconds = allowance.slowness.seconds
            reason = f"more than {allowance.slowness.bytes_max} bytes of messages waited to be read for {seconds:g} s"
            self._slow_timer = asyncio.get_running_loop().call_later(seconds, self._end_slow, reason)
        return True

    def _drop_oldest(self, allowance: Allowance) -> None:
        """Drop what arrived first until half of what may wait is left; one place in the stream says so."""
        hole = Hole(NOTHING, 0)
        while self._arrived and not allowance.is_half_empty:
            batch, delivery = self._arrived.popleft()
            if isinstance(delivery, Hole):
                hole.dropped, hole.dropped_because = hole.dropped + delivery.dropped, delivery.dropped_because
                hole.reason = hole.reason or delivery.reason
            else:
                allowance.remove(batch.cost_bytes)
                self._drop(hole, batch, delivery, allowance.reason)
        if hole.dropped or hole.reason:
            self._arrived.appendleft((NOTHING, hole))

    def _drop(self, hole: Hole, batch: Batch, delivery: Delivery, reason: str) -> None:
        self._source.batch_dropped(self, batch, delivery, "" if hole.dropped_because else reason)
        hole.dropped, hole.dropped_because = hole.dropped + batch.count, reason

    def _free(self, allowance: Allowance, size: int) -> None:
        allowance.remove(size)
        if self._slow_timer is not None and allowance.is_half_empty:
            self._slow_timer.cancel()
            self._slow_timer = None

    def _end_slow(self, reason: str) -> None:
        sentence = (
            f"the subscription to {self.pattern!r} was ended, since its application does not keep up: {reason}; what "
            "was published from here on is missing. Read faster and subscribe again; slow='block' makes publishers "
            "wait, and 'drop-oldest' or 'drop-newest' drop what was not read"
        )
        self._source.end_slow(self, Gap(sentence, self.pattern, self.where, self._received))

    def lose(self, lost: SessionLost) -> Gap | None:
        """The session is lost for good: whoever reads learns it behind what had arrived."""
        sentence = f"{lost}; what the subscription to {self.pattern!r} was owed from here on is missing"
        gap = Gap(sentence, self.pattern, self.where, self._received)
        self.end(gap)
        return gap

    def end(self, error: BaseException | None) -> None:
        """Nothing more will arrive; what is here can still be read, and takes up no room at the broker any more."""
        if self.ended:
            return
        self.ended, self._end = True, error
        if self._slow_timer is not None:
            self._slow_timer.cancel()
            self._slow_timer = None
        self.detach()
        self._wake()

    def detach(self) -> None:
        """What has arrived can still be read, and is of no interest any more to the session that brought it."""
        for _, delivery in self._arrived:
            if not isinstance(delivery, Hole):
                if self._allowance is None:
                    self._source.batch_taken(delivery)
                self._source.batch_read(delivery)
        self._all_read()
        self._arrived = deque(
            (batch, delivery if isinstance(delivery, Hole) else Delivery(delivery.batch, 0))
            for batch, delivery in self._arrived
        )

    async def unsubscribe(self) -> None:
        """End the subscription; returns when every broker concerned knows. Doing it again does nothing."""
        await self._source.end_subscription(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.unsubscribe()
