"""Where a message would go: what each node of a cluster file computes, and the way from one of them.

For `delta` these are the paper's recipient sets (RCPT, 4.8): every subscriber within tolerance+1 hops, and for those
further away the broker that is tolerance+1 hops on the way; clients are nodes of the tree. For other protocols, whose
brokers know their neighbours alone, it is the same with one hop.
"""

from collections import deque
from collections.abc import Mapping

from msgspec import Struct

from holdfast.cluster.config import Cluster
from holdfast.cluster.sections import listed, meant
from holdfast.model.errors import ConfigError
from holdfast.model.filters import Value
from holdfast.model.topics import check_topic
from holdfast.protocols.delta.reach import Reach
from holdfast.protocols.delta.topology import TopologyMap
from holdfast.protocols.routing import RoutingTable


class NodeRoute(Struct, frozen=True):
    """What one node computes for a message, and to whom it gives it."""

    recipients: tuple[str, ...]
    next: tuple[str, ...]


class Routes:
    """The nodes of one cluster, each with its own map and table."""

    def __init__(self, cluster: Cluster, failed: tuple[str, ...] = ()) -> None:
        self.radius = cluster.tolerance + 1 if cluster.protocol == "delta" else 1
        self.homes = {client.name: client.broker for client in cluster.clients}
        self.brokers = [broker.name for broker in cluster.brokers]
        self._edges = [(broker.parent, broker.name) for broker in cluster.brokers if broker.parent is not None]
        self._wants = {client.name: client.wants for client in cluster.clients}
        for name in failed:
            self.check(name, "--failed")
        self.failed = failed

    @property
    def names(self) -> list[str]:
        return [*self.brokers, *self.homes]

    def check(self, name: str, option: str) -> None:
        if name not in self.names:
            raise ConfigError(
                f"{option}: there is no node {name!r}{meant(name, self.names)}; expected {listed(self.names)}."
            )

    def _whole(self, name: str) -> TopologyMap:
        """The whole tree as that node would see it if it saw all of it."""
        places = TopologyMap(name, self.homes.get(name, name), len(self.names) + 1, self._edges)
        for client, home in self.homes.items():
            if client != name:
                places.add((home, client, True, ""))
        return places

    def recipients(self, name: str, topic: str, attributes: Mapping[str, Value]) -> tuple[str, ...]:
        """The recipient set of that node, sorted; a subscriber that computes it is in its own."""
        places, table = self._whole(name), RoutingTable()
        for client, wanted in self._wants.items():
            way = (name,) if client == name else places.path(client)
            for one in wanted:
                table.add(one.pattern, one.where, way[min(len(way), self.radius) - 1])
        return tuple(sorted(table.takers_of(topic, dict(attributes))))

    def next_of(self, name: str, recipients: tuple[str, ...], came: str = "") -> tuple[str, ...]:
        """To whom that node gives the message, which came from there: the first on each way that is not failed."""
        places = self._whole(name)
        reach = Reach(places)
        for one in self.failed:
            reach.fail(one)
        back = places.towards(came) if came else ""
        hops = {reach.hop(one) for one in recipients if one != name and (not back or places.towards(one) != back)}
        return tuple(sorted(hops - {""}))

    def for_topic(self, topic: str, attributes: Mapping[str, Value], at: str = "") -> dict[str, NodeRoute]:
        """What each node computes; with `at`, the way of a message that is published there."""
        check_topic(topic)
        found = {name: () if name in self.failed else self.recipients(name, topic, attributes) for name in self.names}
        if not at:
            return {
                name: NodeRoute(sets, () if name in self.failed else self.next_of(name, sets))
                for name, sets in found.items()
            }
        self.check(at, "--at")
        ways: dict[str, tuple[str, ...]] = {}
        queue = deque([(at, "")] if at not in self.failed else [])
        while queue:
            name, came = queue.popleft()
            ways[name] = self.next_of(name, found[name], came)
            queue.extend((one, name) for one in ways[name] if one not in ways)
        return {name: NodeRoute(sets, ways.get(name, ())) for name, sets in found.items()}
