"""Who gets what arrives: from the one stream of a session to the subscriptions of its client."""

from collections.abc import Callable, Iterator

from holdfast.client.errors import Gap, SessionLost
from holdfast.client.subscriptions import Delivery, Shared, Subscription
from holdfast.model.batches import Batch
from holdfast.model.errors import HoldfastError
from holdfast.model.plurals import counted
from holdfast.model.topics import CHECKED_MAX, matches
from holdfast.runtime.logs import Log

PATTERNS_SHOWN_MAX = 10
"""How many subscriptions a line of the log names."""


class Deliveries:
    """The subscriptions of one client.

    `consumed` is called with each batch that has left the buffers of all its takers, `read` with each of which their
    applications have every message.
    """

    def __init__(
        self,
        consumed: Callable[[Batch], None],
        read: Callable[[Batch], None],
        on_gap: Callable[[Gap], None],
        log: Log,
    ) -> None:
        self._consumed, self._read, self._on_gap, self._log = consumed, read, on_gap, log
        self._subscriptions: list[Subscription] = []
        self._takers: dict[str, tuple[Subscription, ...]] = {}

    def __iter__(self) -> Iterator[Subscription]:
        return iter(tuple(self._subscriptions))

    def __contains__(self, subscription: object) -> bool:
        return subscription in self._subscriptions

    def add(self, subscription: Subscription) -> None:
        self._subscriptions.append(subscription)
        self._takers.clear()

    def remove(self, subscription: Subscription) -> None:
        self._subscriptions.remove(subscription)
        self._takers.clear()

    def arrive(self, batch: Batch) -> None:
        """Hand a batch to every subscription that wants something of it."""
        takers = self._takers.get(batch.topic)
        if takers is None:
            takers = self._find_takers(batch.topic)
        if len(takers) == 1 and takers[0].takes_all:
            takers[0].arrive(batch, Shared(batch, 1, 1))
            return
        wanted = [(taker, part) for taker in takers for part in taker.parts_wanted(batch)]
        delivery = Shared(batch, len(wanted), len(wanted))
        for taker, part in wanted:
            taker.arrive(part, delivery)
        if not wanted:
            self._consumed(batch)
            self._read(batch)

    def miss(self, reason: str) -> None:
        """Something may be missing to every subscription, behind what has arrived."""
        self._warn("messages to {count} may be missing here, and reading goes on", reason)
        for subscription in self:
            if subscription.awaits_confirmation:
                continue  # It is owed nothing yet.
            gap = subscription.miss(reason)
            if gap is not None:
                self._on_gap(gap)

    def detach(self) -> None:
        """The session that brought what is here is over; the subscriptions go on in another one."""
        for subscription in self:
            subscription.detach()

    def finish(self, end: HoldfastError) -> None:
        """The session is over: lost, or closed."""
        if isinstance(end, SessionLost):
            self._warn("the session is lost, and with it {count}", str(end))
        for subscription in self:
            if isinstance(end, SessionLost):
                gap = subscription.lose(end)
                if gap is not None:
                    self._on_gap(gap)
            else:
                subscription.end(None)

    def _warn(self, what: str, reason: str) -> None:
        """One sentence for all subscriptions, however many there are. Those of Holdfast itself do not count."""
        patterns = [one.pattern for one in self._subscriptions if not one.spills]
        if patterns:
            event = what.format(count=counted(len(patterns), "subscription"))
            self._log.warning(f"gap: {event}: {reason}", patterns=patterns[:PATTERNS_SHOWN_MAX], reason=reason)

    def taken(self, delivery: Delivery) -> None:
        delivery.left -= 1
        if delivery.left == 0:
            self._consumed(delivery.batch)

    def read(self, delivery: Delivery) -> None:
        if isinstance(delivery, Shared):
            delivery.unread -= 1
            if delivery.unread == 0:
                self._read(delivery.batch)

    def _find_takers(self, topic: str) -> tuple[Subscription, ...]:
        if len(self._takers) >= CHECKED_MAX:
            self._takers.clear()
        takers = tuple(one for one in self._subscriptions if matches(one.pattern, topic))
        self._takers[topic] = takers
        return takers
