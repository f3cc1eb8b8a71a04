"""Clients that share a name, at random: two at once, one after the other, from broker to broker.

Each session has an identity of its own, as `holdfast.connect` gives it one, and begins with the question which numbers
were used under its name. Sessions begin in the same instant, within what a message takes, or while brokers fail, and in
parts of the tree that do not reach each other. Some leave before the next one comes: a name that moves.
"""

from collections.abc import Iterator
from random import Random

from holdfast.model.guarantees import GUARANTEES
from holdfast.model.identities import CHANCE_BITS, make_identity
from holdfast.simulation.failures import FLAPPING, MOVING, NAMES, FailureClass, classes_for, tolerance_min
from holdfast.simulation.faults import Attach, Command, Detach, Publish, Subscribe, Unsubscribe

NAMES_MAX = 3
SESSIONS_MAX = 4
GAPS_S = (0.0, 0.0, 0.0005, 0.003, 0.02, 0.3, 1.5, 4.0)
"""How long after one session the next one under its name begins."""
QUIET_TOO = 0.3
"""How often nothing happens to brokers meanwhile."""


def background_of(protocol: str, tolerance: int, chance: Random) -> FailureClass | None:
    """What happens to the brokers while clients share names: something that the protocol survives, or nothing."""
    legal = [
        one
        for one in classes_for(protocol)
        if one not in (NAMES, *MOVING, *FLAPPING) and tolerance_min(protocol, one) <= tolerance
    ]
    return None if not legal or chance.random() < QUIET_TOO else chance.choice(legal)


class NamesakeAuthor:
    """Makes up the sessions that share names, in one scenario."""

    def __init__(
        self,
        chance: Random,
        brokers: list[str],
        topics: list[str],
        ranks: tuple[int, ...],
        begin_s: float,
        span_s: float,
    ) -> None:
        self.chance, self.brokers, self.topics = chance, brokers, topics
        self.guarantees = tuple(GUARANTEES[rank].value for rank in ranks)
        self.begin_s, self.span_s = begin_s, span_s

    def entries(self) -> Iterator[tuple[float, Command]]:
        """What they do, and when, in no particular order."""
        for number in range(self.chance.randint(1, NAMES_MAX)):
            time_s = max(0.0, self.begin_s + self.span_s * self.chance.uniform(-0.1, 0.9))
            for _ in range(self.chance.randint(2, SESSIONS_MAX)):
                yield from self._session(f"same{number}", time_s)
                time_s += self.chance.choice(GAPS_S) * self.chance.uniform(0.5, 1.5)

    def _session(self, name: str, time_s: float) -> Iterator[tuple[float, Command]]:
        chance = self.chance
        identity = make_identity(name, int(time_s * 1000), chance.getrandbits(CHANCE_BITS))
        client, pattern = f"{identity}@{chance.choice(self.brokers)}", chance.choice((*self.topics, "#"))
        wants = chance.random() < 0.4
        yield time_s, Attach(client)
        if wants:
            yield time_s, Subscribe(client, pattern)
        at_s = time_s
        for _ in range(chance.randint(1, 8)):
            at_s += chance.choice((0.0, 0.0, 0.001, 0.01, 0.1)) * chance.random()
            guarantee = chance.choice(self.guarantees)
            yield at_s, Publish(client, chance.choice(self.topics), b"", guarantee, ("k0",))
        if chance.random() < 0.3:
            if wants:
                yield at_s, Unsubscribe(client, pattern)
            yield at_s, Detach(client)
