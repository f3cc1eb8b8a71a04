"""The map of one node: every link of the tree within delta+1 hops (4.6), clients among them, and ways along it.

Brokers form the tree; a client is a leaf at its *home*. A node of either kind has a map, which begins at `centre`: the
broker itself, or a client's home. A link is *marked* until its join is confirmed. What lies further away than delta+1
is not kept.
"""

from collections.abc import Iterable

from holdfast.model.delta_messages import Place
from holdfast.protocols.neighbourhoods import Edge, Neighbourhood


class TopologyMap:
    """The tree around one node."""

    def __init__(self, name: str, centre: str, radius: int, edges: Iterable[Edge] = ()) -> None:
        self.name, self.centre, self.radius = name, centre, radius
        self.homes: dict[str, str] = {}
        """Each client that is near, and its home."""
        self.guests: dict[str, dict[str, None]] = {}
        self.addresses: dict[str, str] = {}
        self.marked: set[str] = set()
        """Those whose join below their parent is not confirmed yet."""
        self._edges: dict[str, str] = {}
        self._near = Neighbourhood(centre, ())
        self._set({child: parent for parent, child in edges})

    def _set(self, edges: dict[str, str]) -> None:
        """Keep those of these links that hang together with the centre and are near enough."""
        near: dict[str, list[str]] = {}
        for child, parent in edges.items():
            near.setdefault(child, []).append(parent)
            near.setdefault(parent, []).append(child)
        hops = self.radius if self.name == self.centre else self.radius - 1
        seen, ring = {self.centre}, [self.centre]
        for _ in range(hops):
            ring = [one for here in ring for one in near.get(here, ()) if one not in seen]
            seen.update(ring)
        self._edges = {child: parent for child, parent in edges.items() if child in seen and parent in seen}
        self._near = Neighbourhood(self.centre, sorted((parent, child) for child, parent in self._edges.items()))
        for client in [one for one, home in self.homes.items() if home not in seen]:
            self._forget_client(client)

    # ------------------------------------------------------------------------------------------------------ changes

    def add(self, place: Place) -> bool:
        """Whether that link is new."""
        parent, child, client, address = place
        if address:
            self.addresses[child] = address
        if client:
            if self.homes.get(child) == parent or parent not in self._near:
                return False
            self._forget_client(child)
            if self.distance(parent) < self.radius:
                self.homes[child] = parent
                self.guests.setdefault(parent, {})[child] = None
            return True
        if self._edges.get(child) == parent or self._edges.get(parent) == child:
            return False
        self._set({**self._edges, child: parent})
        return True

    def remove(self, child: str) -> bool:
        """Whether that node was known."""
        self.marked.discard(child)
        if child in self.homes:
            self._forget_client(child)
            return True
        if child not in self._edges:
            return False
        self._set({one: parent for one, parent in self._edges.items() if one != child})
        return True

    def _forget_client(self, client: str) -> None:
        home = self.homes.pop(client, None)
        if home is not None:
            self.guests[home].pop(client, None)
            if not self.guests[home]:
                del self.guests[home]

    def learn(self, places: Iterable[Place]) -> None:
        """Add these links, which may hang together only as a whole."""
        links = list(places)
        edges = {child: parent for parent, child, client, _ in links if not client}
        self.addresses.update({child: address for _, child, _, address in links if address})
        if any(self._edges.get(child) != parent for child, parent in edges.items()):
            self._set({**self._edges, **edges})
        for link in links:
            if link[2]:
                self.add(link)

    def replace(self, places: Iterable[Place]) -> None:
        """Begin anew with these links."""
        self.homes, self.guests = {}, {}
        links = list(places)
        self._set({child: parent for parent, child, client, _ in links if not client})
        for link in links:
            if link[2]:
                self.add(link)
            elif link[3]:
                self.addresses[link[1]] = link[3]

    # --------------------------------------------------------------------------------------------------------- ways

    def __contains__(self, name: str) -> bool:
        return name in self._near or name in self.homes or name == self.name

    def has_broker(self, name: str) -> bool:
        """Whether that node is on the map, and a broker: any peer may name a client as the parent of something."""
        return name in self._near or name == self.centre

    def is_client(self, name: str) -> bool:
        return name in self.homes

    def parent_of(self, name: str) -> str | None:
        return self._edges.get(name) or self.homes.get(name)

    def brokers(self) -> list[str]:
        """Every broker on the map, sorted."""
        return sorted({self.centre, *self._edges, *self._edges.values()})

    def neighbours(self, name: str) -> list[str]:
        """The brokers one link away from a broker."""
        return self._near.neighbours(name) if name in self._near else []

    def path(self, other: str) -> tuple[str, ...]:
        """From this node to the other: the nodes on the way, the end included; empty if that is unknown."""
        home = self.homes.get(other, other)
        if home not in self._near:
            return ()
        start = () if self.name == self.centre else (self.centre,)
        there = self._near.paths(self.centre)[home]
        return (*start, *there, other) if home != other else (*start, *there)

    def distance(self, other: str) -> int:
        return len(self.path(other))

    def towards(self, other: str) -> str:
        """The first node on the way to the other; empty if that is unknown."""
        path = self.path(other)
        return path[0] if path else ""

    def apart(self, one: str, other: str) -> int:
        """How many links are between two brokers."""
        return self._near.distance(one, other)

    def beyond(self, name: str) -> list[str]:
        """The brokers next to that one, and further away from here."""
        path = self.path(name)
        before = path[-2] if len(path) > 1 else self.name
        return [one for one in self.neighbours(name) if one not in (before, self.name)]

    def between(self, other: str) -> tuple[str, ...]:
        return self.path(other)[:-1]

    def places(self, clients: bool = True, marked: bool = False) -> list[Place]:
        """Every link that is confirmed, and if `marked` those of joins under way, sorted."""
        found = [
            (parent, child, False, self.addresses.get(child, ""))
            for child, parent in self._edges.items()
            if marked or child not in self.marked
        ]
        if clients:
            found += [(home, one, True, "") for one, home in self.homes.items() if marked or one not in self.marked]
        return sorted(found)
