"""Filters and where their messages go: the paper's SUBS_SET and `from` (4.7), and the changes that keep them alike.

An entry is a filter with the node towards which its messages go: the subscriber, if that is within delta+1 hops, else
the broker that is delta+1 hops on the way. Seen from another node the same subscription has another `from`: `seen_from`
(the paper's make_copy_send, with the index (delta+1) - d(N, M)).

Several subscriptions may look alike to a node further away; it has one entry for them. So a change is told to a node
only if it agrees with what we know now: a filter is announced while some entry looks like that from there, and taken
back when none does any more. Changes are sets of facts, not counts, and may be told again without harm.
"""

from holdfast.model.batches import Batch
from holdfast.model.delta_messages import Change, Entry
from holdfast.protocols.delta.fewer_filters import FewerFilters
from holdfast.protocols.delta.topology import TopologyMap
from holdfast.protocols.routing import RoutingTable, Takers


class Subscriptions:
    """The filters that one broker knows."""

    def __init__(self, places: TopologyMap, fewer: bool = True) -> None:
        """`fewer`: whether filters that others cover are left out of matching, and those that are alike are merged."""
        self._map = places
        self.table: RoutingTable | FewerFilters = FewerFilters() if fewer else RoutingTable()

    @property
    def matched(self) -> int:
        """How many filters are looked at for messages."""
        return len(self.table.matched if isinstance(self.table, FewerFilters) else self.table)

    def takers(self, batch: Batch) -> Takers:
        """RCPT of the paper: the nodes to which a publication goes from here, as far as they are known."""
        return self.table.takers(batch)

    def apply(self, what: str, pattern: str, where: str, node: str) -> bool:
        """Whether a change changed anything."""
        if what == "s":
            return self.table.add(pattern, where, node)
        return self.table.remove(pattern, where, node)

    def seen_from(self, node: str, other: str) -> str:
        """What stands in the entry of the other node for an entry of ours that points to `node`."""
        there, here = self._map.path(other), self._map.path(node)
        away = len(there) + len(here)
        if away <= self._map.radius or not here:
            return node
        # The way from the other one to here and on: its place number delta+1.
        way = (*reversed(there[:-1]), self._map.name, *here)
        return way[self._map.radius - 1]

    def is_announced(self, pattern: str, where: str, seen: str, other: str, without: str = "") -> bool:
        """Whether some entry of this filter that is not on the other's side looks from there like `seen`."""
        side = self._map.towards(other)
        for node in self.table.sources(pattern, where):
            if node != without and self._map.towards(node) != side and self.seen_from(node, other) == seen:
                return True
        return False

    def is_known(self, change: Change, other: str) -> bool:
        """Whether somebody else wants the same, so that it looks alike from there."""
        seen = self.seen_from(change.node, other)
        return self.is_announced(change.pattern, change.where, seen, other, change.node)

    def agrees(self, change: Change, other: str) -> bool:
        """Whether the other node still has to be told a change that is put as it looks from there."""
        announced = self.is_announced(change.pattern, change.where, change.node, other)
        return announced == (change.what == "s")

    def projection(self, other: str) -> list[Entry]:
        """What a node that recovers, next to us, needs of this: also what is said to lie on its own other sides."""
        side = self._map.towards(other)
        seen: dict[str, str] = {}
        found: dict[Entry, None] = {}
        for pattern, where in self.table.distinct():
            for node in self.table.sources(pattern, where):
                if node not in seen:
                    mine = self._map.towards(node) != side
                    seen[node] = self.seen_from(node, other) if mine else node
                if seen[node] != other:
                    found[pattern, where, seen[node]] = None
        return list(found)
