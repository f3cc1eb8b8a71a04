"""With filtering, what a site wants is told to the sites next to it, each of which passes it on (report, section 3.2).

The designated broker announces: to each site whatever somebody else than that site wants, a change at a time. The next
announcement to a site waits for the answer to the last one, and what was not answered is said again to another broker
of that site. A new designated broker does not know what was heard, so its first announcement to each site is whole.

A request is answered when every announcement that it needs was answered: then every site knows.
"""

from collections.abc import Callable, Iterable

from holdfast.model.messages import Interest
from holdfast.model.site_messages import Announce, Announced
from holdfast.protocols.routing import RoutingTable


class _Neighbour:
    """What one site was told."""

    __slots__ = ("acked_version", "dirty", "outstanding", "said_version", "told")

    def __init__(self) -> None:
        self.told: set[Interest] | None = None
        """Nothing is known: it has to be told everything."""
        self.dirty: set[Interest] = set()
        self.outstanding: Announce | None = None
        self.said_version = self.acked_version = -1


class Announcements:
    """What the sites next to this one are told, by its designated broker."""

    def __init__(self, site: str, neighbours: Iterable[str], send: Callable[[str, Announce], None]) -> None:
        self._site, self._send = site, send
        self._neighbours = {name: _Neighbour() for name in neighbours}
        self._epoch = self._number = 0
        self.version = 0
        """The last state that has changed the routing table, or with which we have begun."""

    def begin(self, epoch: int, table: RoutingTable, version: int) -> None:
        """We are designated from now on."""
        self._epoch, self._number = epoch, 0
        for name in self._neighbours:
            self._neighbours[name] = _Neighbour()
        self.changed(table, (), version)

    def changed(self, table: RoutingTable, interests: Iterable[Interest], version: int) -> None:
        """That state of the table is in force; these interests have changed with it."""
        self.version = version
        interests = list(interests)
        for name, neighbour in self._neighbours.items():
            neighbour.dirty.update(interests)
            self._say(name, neighbour, table)

    def replaced(self, table: RoutingTable, version: int) -> None:
        """Another broker's table is in force, which differs from the one that was announced.

        1. Broker 1 has put a subscription in force, and nobody else has that state. 2. Broker 2 takes over, as broker 3
        yields to it, and tells all sites what it knows. 3. Broker 1 yields, too, and tells what it has: the
        subscription is in force at broker 2, comes again as one that is done, and no site has been told of it.
        """
        for neighbour in self._neighbours.values():
            neighbour.dirty.update(neighbour.told or ())
        self.changed(table, table.distinct(), version)

    def _say(self, name: str, neighbour: _Neighbour, table: RoutingTable) -> None:
        if neighbour.outstanding is not None:
            return
        whole = neighbour.told is None
        if neighbour.told is None:
            neighbour.told, neighbour.dirty = set(), set(table.distinct())
        told = neighbour.told
        wanted = {one for one in neighbour.dirty if any(source != name for source in table.sources(*one))}
        new, over = sorted(wanted - told), sorted((neighbour.dirty - wanted) & told)
        neighbour.dirty.clear()
        if not (new or over or whole):
            neighbour.acked_version = self.version
            return
        told.update(new)
        told.difference_update(over)
        self._number += 1
        neighbour.said_version = self.version
        neighbour.outstanding = Announce(self._site, self._epoch, self._number, whole, tuple(new), tuple(over))
        self._send(name, neighbour.outstanding)

    def on_announced(self, name: str, message: Announced, table: RoutingTable) -> None:
        """A site has answered."""
        neighbour = self._neighbours.get(name)
        said = neighbour.outstanding if neighbour is not None else None
        if neighbour is None or said is None or (message.epoch, message.number) != (said.epoch, said.number):
            return
        neighbour.outstanding, neighbour.acked_version = None, neighbour.said_version
        self._say(name, neighbour, table)

    def say_again(self, name: str) -> None:
        """The broker that was told may be lost, or another one is there."""
        neighbour = self._neighbours.get(name)
        if neighbour is not None and neighbour.outstanding is not None:
            self._send(name, neighbour.outstanding)

    def known_everywhere(self, version: int, source: str) -> bool:
        """Whether all sites but the source know what is wanted in that state of the table."""
        return all(one.acked_version >= version for name, one in self._neighbours.items() if name != source)

    def waiting_for(self) -> list[str]:
        return [
            f"{name} to answer announcement {one.outstanding.number}"
            for name, one in self._neighbours.items()
            if one.outstanding is not None
        ]
