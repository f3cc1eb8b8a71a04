"""The tree around a LoCaMu broker as leaves join and leave (beyond the thesis, section 6.2).

Everybody hears of it by notices, in causal order with everything else. A newcomer says nothing before all brokers have
processed the notice of it, and whoever leaves is forgotten only when all have processed everything that it ever said.
So no message is under way whose path some broker cannot place. A leaf changes no distance between others; inner brokers
stay where they are.

A newcomer goes on from what its sponsor has processed: see `protocols.locamu.newcomer_state`.
"""

from msgspec import Struct

from holdfast.protocols.locamu.copies import Reaches
from holdfast.protocols.locamu.headers import LinkTerms
from holdfast.protocols.neighbourhoods import Edge, Neighbourhood


class LocalTreeImage(Struct):
    """All of it, for the disk, and for a newcomer."""

    edges: list[Edge] = []
    changes: int = 0
    newcomers: list[str] = []
    gone: list[str] = []
    places: dict[str, str] = {}
    expected: list[str] = []
    joined: bool = False
    leaving: bool = False
    births: dict[str, int] = {}


class LocalTree:
    """What one broker knows of the tree."""

    def __init__(self, near: Neighbourhood, reach: Reaches) -> None:
        self.near, self.base, self._reach = near, near, reach
        self._terms: dict[str, tuple[LinkTerms, LinkTerms]] = {}
        self.changes = 0
        """How often it has changed since the broker was told of it; 0: both ends of a link know the same."""
        self.newcomers: list[str] = []
        """Those near us who came to a tree that was there."""
        self.gone: dict[str, None] = {}
        """Those who were near and left: their names are not given again. Why that has no bound is in the docs."""
        self.places: dict[str, str] = {}
        """Addresses, as far as they were told."""
        self.expected: list[str] = []
        """Those below us that have not been told yet with what they begin: what we process until then is in that."""
        self.births: dict[str, int] = {}
        """Our birth and those of the brokers that we are connected with: see `protocols.locamu.journal_identity`."""
        self.joined = False
        """Whether we came to a tree that was there."""
        self.leaving = False
        self.retiring: list[str] = []
        """Those below us of whom we have heard that they are about to leave."""

    def dials(self, other: str) -> bool:
        """Whether we are the one of the two who dials."""
        if self.joined is not (other in self.newcomers):
            # Whoever came later knows where those are who were there.
            return self.joined
        return self.near.name > other

    def grow(self, parent: str, child: str, place: str) -> bool:
        """There is a new leaf; whether it is near."""
        near = self.near
        if child in near or parent not in near or near.distance(near.name, parent) >= self._reach.safe:
            return False
        self.newcomers.append(child)
        self.places[child] = place
        if parent == near.name:
            self.expected.append(child)
        self._draw((*near.edges, (parent, child)))
        return True

    def shrink(self, child: str) -> bool:
        """A leaf is gone; whether it was near."""
        if not self.may_leave(child):
            return False
        self.newcomers = [name for name in self.newcomers if name != child]
        self.gone[child] = None
        self.retiring = [name for name in self.retiring if name != child]
        self.places.pop(child, None)
        self.births.pop(child, None)
        self._draw(tuple(edge for edge in self.near.edges if child not in edge))
        return True

    def retire(self, name: str) -> None:
        """That one is about to leave."""
        if name == self.near.name:
            self.leaving = True
        elif (self.near.name, name) in self.near.edges and name not in self.retiring:
            self.retiring.append(name)

    def _draw(self, edges: tuple[Edge, ...]) -> None:
        self.near = Neighbourhood(self.near.name, edges)
        self.changes += 1
        self._terms.clear()

    def terms_with(self, name: str) -> tuple[LinkTerms, LinkTerms]:
        """Of what we send to that one, and of what we get from it as long as we are not told otherwise."""
        found = self._terms.get(name)
        if found is None:
            outgoing = incoming = LinkTerms(self.near, self.near.name, name, self._reach)
            if self.changes and name in self.base:
                incoming = LinkTerms(self.base, self.near.name, name, self._reach)
            found = self._terms[name] = outgoing, incoming
        return found

    def may_leave(self, name: str) -> bool:
        """Whether that one is near, and a leaf below somebody."""
        return [below for above, below in self.near.edges if name in (above, below)] == [name]

    def may_be_released(self, name: str) -> bool:
        """Whether that one is a leaf below us that was about to leave: everybody knows if it says so."""
        return name in self.retiring and self.may_leave(name)

    def sponsors(self, name: str) -> bool:
        """Whether that one is a leaf below us that came later."""
        return name in self.newcomers and (self.near.name, name) in self.near.edges

    def is_taken(self, name: str) -> bool:
        """Whether a newcomer cannot have that name: somebody has, or had it, who is not waiting to be taken in here.

        Whoever was taken in has told us its birth. If it asks again, it has lost what it had written down since.
        """
        return name in self.gone or name in self.births or (name in self.near and not self.sponsors(name))

    def seen_from(self, heir: str) -> LocalTreeImage:
        """The same for a leaf below us."""
        near, paths = self.near, self.near.paths(heir)
        edges = [edge for edge in near.edges if all(len(paths[name]) <= self._reach.safe for name in edge)]
        places = {name: place for name, place in self.places.items() if name in paths and name != heir}
        newcomers = [name for name in self.newcomers if name in paths and name != heir]
        if self.joined:
            newcomers.append(near.name)
        births = {name: self.births[name] for name in near.within(self._reach.links, heir) if name in self.births}
        return LocalTreeImage(edges, 1, newcomers, list(self.gone), places, joined=True, births=births)

    def image(self) -> LocalTreeImage:
        return LocalTreeImage(
            list(self.near.edges),
            self.changes,
            self.newcomers,
            list(self.gone),
            self.places,
            self.expected,
            self.joined,
            self.leaving,
            self.births,
        )

    def restore(self, image: LocalTreeImage) -> None:
        """Go on from an image; where the tree has not changed, what we were told counts."""
        self.places = {**image.places, **self.places}
        if image.changes:
            self.near, self.changes = Neighbourhood(self.near.name, image.edges), image.changes
            self._terms.clear()
        self.newcomers, self.gone, self.expected = image.newcomers, dict.fromkeys(image.gone), image.expected
        self.joined, self.leaving, self.births = image.joined, image.leaving, image.births
