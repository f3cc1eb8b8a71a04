"""What a node that recovers has been told so far (section 6): a part from each synchronisation point, and changes.

A direction is a neighbour in the tree with all that lies behind it. It is complete when every nearest live node there
has told its part. Changes that come meanwhile are logged, and applied behind the part, in their order. Of a direction
in which nobody is left that could tell anything, what the other directions have heard is taken.
"""

from holdfast.model.delta_messages import Change, Entry, Place, RoutingPart


class Part:
    """What one synchronisation point tells."""

    __slots__ = ("complete", "entries", "links")

    def __init__(self) -> None:
        self.links: list[Place] = []
        self.entries: list[Entry] = []
        self.complete = False


class Recovery:
    """Parts and logged changes of one recovery."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forget everything that was told."""
        self.parts: dict[str, Part] = {}
        self.complete: dict[str, None] = {}
        """Directions of which everything is known."""
        self.heard: list[Entry] = []
        """All entries that were told, for directions in which nobody is left."""
        self.before: list[Entry] = []
        """What was known before, for directions in which nobody is left."""
        self.links: dict[Place, None] = {}
        self._log: dict[str, list[Change]] = {}
        self.remembered: set[str] = set()
        """Clients nearby that were there before, and of which nothing was heard since."""

    def take(self, peer: str, part: RoutingPart) -> bool:
        """Whether that was the last of it."""
        kept = self.parts.setdefault(peer, Part())
        kept.links += part.links
        kept.entries += part.entries
        kept.complete = part.complete
        return part.complete

    def forget(self, peer: str, direction: str) -> None:
        """That one is gone, or recovers itself: what it has told may be outdated, and its direction is open again."""
        self.parts.pop(peer, None)
        self.complete.pop(direction, None)

    def has_part(self, peer: str) -> bool:
        return peer in self.parts and self.parts[peer].complete

    def log(self, direction: str, change: Change) -> None:
        self._log.setdefault(direction, []).append(change)

    def finish(self, direction: str, peers: list[str]) -> tuple[list[Entry], list[Change]]:
        """The direction is complete: its entries, and the changes to apply behind them."""
        self.complete[direction] = None
        entries: list[Entry] = []
        for peer in peers:
            entries += self.parts[peer].entries
            self.heard += self.parts[peer].entries
            self.links.update(dict.fromkeys(self.parts[peer].links))
        return entries, self._log.pop(direction, [])
