"""From the one stream of a session to the subscriptions of its client.

A client finds the subscriptions that want a batch as a broker finds its destinations, in a routing table: the cost
grows with the subscriptions that match, and not with those that exist. In that table the destination of a subscription
is its number, in sixteen digits, so that the table's order is the order in which the application subscribed.
"""

from collections.abc import Callable, Iterable, Iterator

from holdfast.client.errors import Gap, SessionLost
from holdfast.client.subscriptions import Delivery, Shared, Subscription
from holdfast.model.batches import Batch
from holdfast.model.errors import HoldfastError
from holdfast.model.plurals import counted
from holdfast.protocols.routing import RoutingTable
from holdfast.runtime.logs import ProcessLog

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
        log: ProcessLog,
    ) -> None:
        self._consumed, self._read, self._on_gap, self._log = consumed, read, on_gap, log
        self._count = 0
        self._subscriptions: dict[Subscription, str] = {}
        self._by_number: dict[str, Subscription] = {}
        self._table = RoutingTable()

    def __iter__(self) -> Iterator[Subscription]:
        return iter(tuple(self._subscriptions))

    def __contains__(self, subscription: object) -> bool:
        return subscription in self._subscriptions

    def add(self, subscription: Subscription) -> None:
        self._count += 1
        number = self._subscriptions[subscription] = f"{self._count:016}"
        self._by_number[number] = subscription
        self._table.add(subscription.pattern, subscription.where, number)

    def remove(self, subscription: Subscription) -> None:
        number = self._subscriptions.pop(subscription)
        del self._by_number[number]
        self._table.remove(subscription.pattern, subscription.where, number)

    def arrive(self, batch: Batch) -> None:
        """Hand a batch to every subscription that wants something of it."""
        by_number = self._by_number
        takers = self._table.takers(batch)
        if len(takers) == 1:
            # By far the most common, and the cheapest if the only taker wants all of it.
            [(number, choice)] = takers.items()
            if choice is None:
                by_number[number].arrive(batch, Shared(batch, 1, 1))
                return
        wanted = [(by_number[number], part) for number, choice in takers.items() for part in batch.chosen(choice)]
        delivery = Shared(batch, len(wanted), len(wanted))
        for taker, part in wanted:
            taker.arrive(part, delivery)
        if not wanted:
            self._consumed(batch)
            self._read(batch)

    def skip(self, missed: Iterable[tuple[str, str, int]], reason: str) -> None:
        """The broker has dropped so many messages of these subscriptions, behind what has arrived."""
        counts = {(pattern, where): count for pattern, where, count in missed}
        for subscription in self:
            count = counts.get((subscription.pattern, subscription.where))
            gap = None if count is None else subscription.skip(count, reason)
            if gap is not None:
                self._on_gap(gap)
        self._log.warning("dropped", messages=sum(counts.values()), subscriptions=len(counts), reason=reason)

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
