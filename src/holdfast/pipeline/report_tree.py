"""The tree of brokers as a drawing: who is below whom, where the clients are, who was killed and who moved."""

from collections.abc import Iterator, Mapping, Sequence

from holdfast.cluster.demo import Tree
from holdfast.pipeline.report_marks import line, svg, text

SLOT_PX, LEVEL_PX, RADIUS, CLIENT_PX = 62, 78, 19, 30
MARGIN = 34


class Layout:
    """Where every broker stands: leaves side by side, everybody else above the middle of those below."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.below: dict[str | None, list[str]] = {}
        for broker, parent in tree.parents.items():
            self.below.setdefault(parent if parent in tree.parents else None, []).append(broker)
        self.guests: dict[str, list[str]] = {}
        for client, broker in tree.clients.items():
            self.guests.setdefault(broker, []).append(client)
        self.places: dict[str, tuple[float, int]] = {}
        self._taken = 0.0
        for top in self.below.get(None, []):
            self._place(top, 0)
        self.width = max(self._taken, 1.0)
        self.depth = max([depth for _, depth in self.places.values()], default=0)

    def _place(self, broker: str, depth: int) -> float:
        """A broker is as wide as what hangs below it: brokers and its own clients."""
        # Its depth is known before it is itself, so that a parent that is its own descendant cannot go round for ever.
        self.places[broker] = (self._taken, depth)
        begin, children = self._taken, self.below.get(broker, [])
        for child in children:
            self._place(child, depth + 1)
        own = float(max(len(self.guests.get(broker, [])), 1)) * (0.85 if self.guests.get(broker) else 1.0)
        self._taken = max(self._taken, begin + max(own, 1.0))
        middles = [self.places[child][0] for child in children]
        middle = (middles[0] + middles[-1]) / 2 if middles else (begin + self._taken) / 2
        self.places[broker] = (middle, depth)
        return middle

    def point(self, broker: str) -> tuple[float, float]:
        middle, depth = self.places[broker]
        return MARGIN + middle * SLOT_PX, MARGIN + depth * LEVEL_PX


def tree_drawing(tree: Tree, killed: Sequence[str] = (), before: Tree | None = None) -> str:
    """`killed` brokers, if they are in it, are marked with their turn; links that `before` had not, too."""
    layout = Layout(tree)
    height = 2 * MARGIN + layout.depth * LEVEL_PX + (CLIENT_PX + 22 if tree.clients else 0)
    width = 2 * MARGIN + layout.width * SLOT_PX
    parts = [*_links(layout, before), *_clients(layout), *_brokers(layout, killed, before)]
    return svg(width, height, _in_words(tree, killed), parts)


def _links(layout: Layout, before: Tree | None) -> Iterator[str]:
    for broker, parent in layout.tree.parents.items():
        if parent in layout.places and broker in layout.places:
            moved = before is not None and not _linked(before.parents, broker, parent)
            yield line(layout.point(parent), layout.point(broker), "link moved" if moved else "link")


def _linked(parents: Mapping[str, str | None], one: str, other: str) -> bool:
    return parents.get(one) == other or parents.get(other) == one


def _clients(layout: Layout) -> Iterator[str]:
    for broker, clients in layout.guests.items():
        if broker not in layout.places:
            continue
        x, y = layout.point(broker)
        for number, client in enumerate(clients):
            middle = x + (number - (len(clients) - 1) / 2) * SLOT_PX * 0.8
            top = y + RADIUS + CLIENT_PX
            yield line((x, y), (middle, top), "guest")
            yield f'<rect x="{middle - 20:.1f}" y="{top - 11:.1f}" width="40" height="22" rx="6" class="client"/>'
            yield text((middle, top + 5), client, "mid small")


def _brokers(layout: Layout, killed: Sequence[str], before: Tree | None) -> Iterator[str]:
    for broker in layout.tree.parents:
        x, y = layout.point(broker)
        dead = broker in killed
        new = before is not None and layout.tree.parents[broker] is None and before.parents.get(broker) is not None
        kind = "broker dead" if dead else "broker new" if new else "broker"
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS}" class="{kind}"/>'
        yield text((x, y + 5), broker, "mid strong")
        if dead:
            yield text((x + RADIUS + 4, y - 8), f"✕ {_ordinal(killed.index(broker) + 1)}", "fault")
        elif new:
            yield text((x + RADIUS + 5, y - 8), "new root", "small")


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number if number < 20 else number % 10, "th")
    return f"{number}{ending}"


def _in_words(tree: Tree, killed: Sequence[str]) -> str:
    said = [
        f"{broker} below {parent}" if parent else f"{broker} is the root" for broker, parent in tree.parents.items()
    ]
    dead = f"; killed: {', '.join(killed)}" if killed else ""
    return ", ".join(said) + dead
