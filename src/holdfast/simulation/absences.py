"""Random absences for protocols whose brokers always come back: as many at once as the model allows, and false alarms.

LoCaMu (thesis 003, section 3.2.3) survives f absent brokers among any 2f+1 on a path, at any time. Here brokers crash,
in the midst of what they send or not, or stand still, and are back after a while; links that stay silent, break or slow
down make brokers suspect each other that are there. Everything is over at the end, so everything has to drain.
"""

from collections.abc import Iterator
from itertools import combinations
from random import Random

from holdfast.protocols.neighbourhoods import Neighbourhood
from holdfast.simulation.faults import Command, Crash, Cut, Freeze, Heal, Recover, Reset, Slow, Thaw, When
from holdfast.simulation.trees import Parents

AWAY_S = (0.02, 0.2, 1.0, 2.0, 4.0)
ALARM_S = (0.1, 0.5, 1.5, 3.0)
MOMENT_S = 1e-5
"""Times of a timetable are rounded to less."""
MIDST = ("Relay", "Relay", "Standing", "Publish", "SubscribeAck", "Hello", "Welcome")
Timed = tuple[float, Command]


class AbsenceAuthor:
    """Makes up who is away when, in one scenario."""

    def __init__(
        self, chance: Random, tree: Parents, tolerance: int, begin_s: float, span_s: float, crashes: bool = True
    ) -> None:
        """Without `crashes`, whoever is away stands still and keeps what it knew."""
        self.chance, self.tree, self.tolerance, self.crashes = chance, tree, tolerance, crashes
        self.begin_s, self.span_s = begin_s, span_s
        edges = [(parent, name) for name, parent in tree.items() if parent is not None]
        self._near = Neighbourhood(next(iter(tree)), edges)
        self._away: list[tuple[str, float, float]] = []

    def entries(self) -> Iterator[Timed]:
        """What happens, in no particular order."""
        for _ in range(self.chance.randint(1, 6 + len(self.tree) // 2)):
            node, start_s = self.chance.choice(list(self.tree)), self._moment()
            end_s = start_s + self.chance.choice(AWAY_S) * self.chance.uniform(0.5, 1.5)
            if self._allowed(node, start_s, end_s):
                self._away.append((node, start_s, end_s))
                yield from self._absence(node, start_s, end_s)
        for _ in range(self.chance.choice((0, 2, 4, 8, 16))):
            yield from self._alarm()

    def _moment(self) -> float:
        return self.begin_s + self.span_s * self.chance.uniform(-0.2, 1.2)

    def _allowed(self, node: str, start_s: float, end_s: float) -> bool:
        """Whether no path of 2f+1 brokers has more than f away at once, even if all that overlap do so at one time."""
        others = {one for one, since_s, until_s in self._away if since_s < end_s and start_s < until_s}
        if node in others:
            return False
        close = [one for one in others if self._near.distance(one, node) <= 2 * self.tolerance]
        return not any(self._on_a_path((node, *some)) for some in combinations(sorted(close), self.tolerance))

    def _on_a_path(self, nodes: tuple[str, ...]) -> bool:
        """Whether these lie on one path of 2f+1 brokers."""
        one, other = max(combinations(nodes, 2), key=lambda ends: self._near.distance(*ends), default=(nodes[0],) * 2)
        path = {one, *self._near.paths(one)[other]}
        return len(path) <= 2 * self.tolerance + 1 and path.issuperset(nodes)

    def _absence(self, node: str, start_s: float, end_s: float) -> Iterator[Timed]:
        kind = self.chance.choice(("crash", "crash", "midst", "freeze"))
        if not self.crashes:
            kind = "freeze"
        if kind == "freeze":
            yield start_s, Freeze(node)
            yield end_s, Thaw(node)
            return
        if kind == "midst":
            # Before its return, or not at all: later there may be others away, and nobody to bring it back.
            within_s = max(0.0, end_s - max(0.0, start_s) - MOMENT_S)
            yield start_s, When(node, self.chance.choice(MIDST), Crash(node), self.chance.randint(1, 8), within_s)
        else:
            yield start_s, Crash(node)
        yield end_s, Recover(node)

    def _alarm(self) -> Iterator[Timed]:
        """Two that are connected lose sight of each other for a while."""
        one = self.chance.choice(list(self.tree))
        near = self._near.within(self.tolerance + 1, one)
        if not near:
            return
        other, time_s = self.chance.choice(near), self._moment()
        end_s = time_s + self.chance.choice(ALARM_S)
        kind = self.chance.choice(("cut", "cut", "reset", "slow"))
        if kind == "reset":
            yield time_s, Reset(one, other)
        elif kind == "slow":
            yield time_s, Slow(one, other, self.chance.choice((5.0, 30.0)))
            yield end_s, Slow(one, other, 1.0)
        else:
            yield time_s, Cut(one, other)
            yield end_s, Heal(one, other)
