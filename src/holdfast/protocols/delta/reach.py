"""Who is reached over whom: nodes held FAILED, and the nearest others behind them (section 5).

`FAILED` is this node's own view of another one (alpha in the paper). It begins *soft*: nothing was done without the
other yet, and a link that comes back goes on as if nothing had happened. It becomes *hard* once a link past the other
was opened, or something was confirmed without it: then the other has to recover before it counts again.

Two nodes connect past others only if both hold all of these FAILED. So a suspicion that is false, of a node that one
of them still reaches, skips nobody: it waits.
"""

from collections.abc import Container, Iterable

from holdfast.protocols.delta.topology import TopologyMap


class Reach:
    """Nodes held failed, as one node sees it."""

    def __init__(self, places: TopologyMap) -> None:
        self._map = places
        self.failed: dict[str, None] = {}
        self.hard: dict[str, None] = {}
        """Those that were skipped, and have not come back to recover since."""
        self.told: dict[str, None] = {}
        """Those that others have skipped, as these say, and that have not recovered since.

        1. A broker is frozen, and a neighbour confirms a subscription without it. 2. The neighbour dies. 3. The first
        runs again, and connects past that one: whoever it meets must know that it has missed something.
        """

    def fail(self, name: str) -> None:
        self.failed[name] = None

    def harden(self, name: str) -> bool:
        """Whether that node is skipped for the first time."""
        if name not in self.failed or name in self.hard:
            return False
        self.hard[name] = None
        return True

    def back(self, name: str) -> None:
        """That node is there again, and has been told what it missed, or is about to be."""
        self.failed.pop(name, None)
        self.hard.pop(name, None)
        self.told.pop(name, None)

    def hear(self, name: str) -> bool:
        """Whether it is new that somebody else has skipped that broker."""
        if name in self.told or name in self.hard or not self._map.has_broker(name):
            return False
        self.told[name] = None
        return True

    def was_skipped(self, name: str) -> bool:
        return name in self.hard or name in self.told

    def doubt(self, connected: Iterable[str]) -> None:
        """We were skipped, so it was us: hold failed only brokers with somebody behind them who agrees.

        1. Two go past each other, both to the edge of the tree. 2. They meet, and hear of it. 3. Each would take the
        other for failed still, and recover without it.
        """
        agreed = {between for name in connected for between in self._map.between(name)}
        for name in list(self.failed):
            if name not in agreed and not self._map.is_client(name):
                del self.failed[name]

    @property
    def skipped(self) -> tuple[str, ...]:
        return tuple(sorted(self.hard))

    def prune(self, connected: Container[str]) -> None:
        """Forget suspicions of nodes that lie behind somebody who is there; that one was told if they were skipped."""
        for name in list(self.failed):
            if name not in self._map or not self.is_open_to(name):
                del self.failed[name]
        for name in list(self.hard):
            if name not in self._map or (not self.is_open_to(name) and self.hop(name) in connected):
                del self.hard[name]

    def is_open_to(self, name: str) -> bool:
        """Whether everybody between is held failed: then that node is one to connect with."""
        return all(one in self.failed for one in self._map.between(name))

    def hop(self, target: str) -> str:
        """The first node on the way that is not held failed; empty if there is none."""
        for one in self._map.path(target):
            if one not in self.failed:
                return one
        return ""

    def nearest(self, root: str) -> list[str]:
        """That broker, or, if it is held failed, the nearest others behind it."""
        if root not in self.failed:
            return [root]
        return [one for behind in self._map.beyond(root) for one in self.nearest(behind)]

    def passed(self, root: str) -> list[str]:
        """The brokers there that are held failed, up to the nearest others."""
        if root not in self.failed:
            return []
        return [root, *(one for behind in self._map.beyond(root) for one in self.passed(behind))]

    def is_blocked(self, root: str) -> bool:
        """Whether so many are failed there in a row that it is not known who is behind them."""
        if root not in self.failed:
            return False
        if self._map.distance(root) >= self._map.radius:
            return True
        return any(self.is_blocked(one) for one in self._map.beyond(root))

    def wanted(self) -> dict[str, None]:
        """The nodes to be connected with: in each direction the nearest that are not held failed."""
        if self._map.name != self._map.centre:
            return dict.fromkeys(self.nearest(self._map.centre))
        found = dict.fromkeys(self._map.guests.get(self._map.name, ()))
        for root in self._map.neighbours(self._map.name):
            self._collect(root, found)
        return {name: None for name in found if name not in self.failed}

    def _collect(self, root: str, found: dict[str, None]) -> None:
        found[root] = None
        if root in self.failed:
            found.update(dict.fromkeys(self._map.guests.get(root, ())))
            for one in self._map.beyond(root):
                self._collect(one, found)
