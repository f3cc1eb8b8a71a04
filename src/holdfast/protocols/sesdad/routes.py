"""Who wants what of a stream: the state of the routing table in force, and what does not count yet for a stream.

The table holds the interests of subscribers and, with filtering, of the sites next to this one. A change counts for
each stream from a number on; where a stream has not come to that number, what the change touches is looked up as it
was before.
"""

from collections.abc import Iterable, Mapping

from holdfast.model.batches import Batch, Choice
from holdfast.model.messages import Interest
from holdfast.model.site_messages import Change, Pending
from holdfast.protocols.routing import RoutingTable

ADDING = ("s", "a")
REMOVING = ("u", "r")


class Routes:
    """The routing table of a site."""

    def __init__(self) -> None:
        self.table = RoutingTable()
        self.done: dict[str, int] = {}
        """The last request of each subscriber, or site, that was carried out."""

    def apply(self, change: Change) -> list[Change]:
        """Carry a change out; which single changes of interests that made."""
        if change.token:
            self.done[change.subscriber] = max(change.token, self.done.get(change.subscriber, 0))
        table, interest = self.table, (change.pattern, change.where)
        if change.what in ADDING:
            return [change] if table.add(*interest, change.subscriber) else []
        if change.what in REMOVING:
            return [change] if table.remove(*interest, change.subscriber) else []
        if change.what == "g":
            removed = table.remove_destination(change.subscriber)
            self.done.pop(change.subscriber, None)
            return [Change("u", change.subscriber, 0, pattern, where) for pattern, where in removed]
        return []

    def replace(self, entries: Iterable[tuple[str, str, str]], done: Iterable[tuple[str, int]]) -> None:
        """Another broker's table is in force."""
        self.table, self.done = RoutingTable(), dict(done)
        for destination, pattern, where in entries:
            self.table.add(pattern, where, destination)

    def entries(self) -> list[tuple[str, str, str]]:
        return [
            (source, pattern, where)
            for pattern, where in self.table.distinct()
            for source in self.table.sources(pattern, where)
        ]

    def takers(self, batch: Batch, pending: list[Pending]) -> Mapping[str, Choice]:
        """The destinations of a batch of a stream for which these changes do not count yet."""
        takers = self.table.takers(batch)
        if not pending:
            return takers
        touched = {one.change.subscriber for one in pending}
        before = RoutingTable()
        for destination in touched:
            for interest in self._interests_before(destination, pending):
                before.add(*interest, destination)
        others = {name: choice for name, choice in takers.items() if name not in touched}
        return dict(sorted({**others, **before.takers(batch)}.items()))

    def _interests_before(self, destination: str, pending: list[Pending]) -> set[Interest]:
        """What a destination wanted before these changes, the last of which is undone first."""
        interests = set(self.table.interests(destination))
        ordered = sorted(pending, key=lambda one: one.version)
        for one in ordered[::-1]:
            interest = (one.change.pattern, one.change.where)
            if one.change.subscriber != destination:
                continue
            if one.change.what in ADDING:
                interests.discard(interest)
            else:
                interests.add(interest)
        return interests
