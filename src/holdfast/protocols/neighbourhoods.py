"""The part of a tree that a broker knows: who is how far away, and on which way.

Protocols that keep state about brokers nearby alone are told the edges around them, and nothing else. Distances are
counted in edges of the tree (the *base graph* of LoCaMu); everything here follows from the edges and never changes.
"""

from collections import deque
from collections.abc import Iterable, Mapping

from holdfast.model.errors import ConfigError

Edge = tuple[str, str]
"""Parent and child."""


def edges_around(
    parents: Mapping[str, str | None], children: Mapping[str, list[str]], name: str, hops: int
) -> list[Edge]:
    """The edges of the tree between brokers that are at most `hops` away from this one, sorted."""
    seen, ring = {name}, [name]
    for _ in range(hops):
        further = [near for one in ring for near in (parents[one], *children[one]) if near is not None]
        ring = [near for near in dict.fromkeys(further) if near not in seen]
        seen.update(ring)
    return sorted((above, one) for one in seen if (above := parents[one]) is not None and above in seen)


def children_of(parents: Mapping[str, str | None]) -> dict[str, list[str]]:
    """Everybody's children."""
    children: dict[str, list[str]] = {name: [] for name in parents}
    for name, parent in parents.items():
        if parent is not None:
            children[parent].append(name)
    return children


class Neighbourhood:
    """A tree, as seen by one of its brokers."""

    def __init__(self, name: str, edges: Iterable[Edge]) -> None:
        self.name, self.edges = name, tuple(edges)
        self.parent: str | None = None
        self._near: dict[str, list[str]] = {name: []}
        for above, below in self.edges:
            self._near.setdefault(above, []).append(below)
            self._near.setdefault(below, []).append(above)
            if below == name:
                self.parent = above
        self._paths: dict[str, dict[str, tuple[str, ...]]] = {}
        if len(self.reached(name, len(self.edges))) < len(self._near):
            raise ConfigError(f"broker {name} was told of edges of a tree that do not hang together with it.")

    def __contains__(self, name: str) -> bool:
        return name in self._near

    @property
    def size(self) -> int:
        """How many brokers there are in it."""
        return len(self._near)

    def neighbours(self, name: str) -> list[str]:
        """Those one edge away."""
        return sorted(self._near[name])

    def reached(self, start: str, hops: int) -> set[str]:
        """Everybody at most so far away from there, itself included; it takes as long as these are many."""
        found, ring = {start}, [start]
        while ring and hops:
            further = dict.fromkeys(near for one in ring for near in self._near[one])
            ring = [near for near in further if near not in found]
            found.update(ring)
            hops -= 1
        return found

    def paths(self, start: str) -> dict[str, tuple[str, ...]]:
        """From there to everybody that is known: the brokers on the way, the end included."""
        found = self._paths.get(start)
        if found is None:
            found = self._paths[start] = {start: ()}
            queue = deque([start])
            while queue:
                one = queue.popleft()
                for near in sorted(self._near[one]):
                    if near not in found:
                        found[near] = (*found[one], near)
                        queue.append(near)
        return found

    def distance(self, one: str, other: str) -> int:
        return len(self.paths(one)[other])

    def between(self, one: str, other: str) -> tuple[str, ...]:
        """Those strictly between the two."""
        return self.paths(one)[other][:-1]

    def towards(self, one: str, other: str) -> str:
        """The first broker on the way from the one to the other."""
        return self.paths(one)[other][0]

    def within(self, hops: int, centre: str | None = None) -> list[str]:
        """Everybody at most so far away, the centre left out, sorted."""
        centre = self.name if centre is None else centre
        return sorted(name for name, path in self.paths(centre).items() if 0 < len(path) <= hops)
