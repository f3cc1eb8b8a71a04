"""A LoCaMu tree whose copies between brokers can be read one by one."""

from collections.abc import Iterable

from holdfast.protocols.config import BrokerConfig, LinkConfig
from holdfast.protocols.locamu import LocamuBroker
from holdfast.protocols.locamu.copies import Copy
from holdfast.protocols.locamu.exchange import Exchange
from holdfast.protocols.locamu.peers import Peer
from holdfast.simulation.faults import Command, Subscribe
from holdfast.simulation.latencies import Constant
from holdfast.simulation.network import NetworkConfig
from holdfast.simulation.world import Simulation

SETTLED_S = 2.0
"""By then all brokers are connected and all subscriptions are confirmed."""
SILENCE_S = 0.4
IDENTIFIERS = b"(identifiers)"
"""In the place of the payload, where a copy only tells of identifiers."""


class Tree:
    """A simulation, and every copy that a broker sent: who sent it to whom, its payload, and whose marks it carried.

    Each of the `members` has a client, named like it with the case swapped, that wants `g`. Numbers in marks count from
    when all this was settled.
    """

    def __init__(self, tree: str, tolerance: int, members: Iterable[str], others: Iterable[Subscribe] = ()) -> None:
        self.copies: list[tuple[str, str, bytes, dict[str, dict[str, int]]]] = []
        sent, base = self.copies, dict[tuple[str, str], int]()

        class Watched(Exchange):
            def _relay(self, peer: Peer, copy: Copy) -> None:
                if copy.notice is None:
                    marks = {node: _since(base, node, copy.marks[node]) for node in copy.path if node in copy.marks}
                    sent.append((self.name, peer.name, copy.batch.payloads if copy.batch else IDENTIFIERS, marks))
                super()._relay(peer, copy)

        class WatchedBroker(LocamuBroker):
            exchanging = Watched

        link = LinkConfig(heartbeat_s=0.1, silence_s=SILENCE_S, redial_max_s=0.05)
        self.sim = Simulation(
            tree,
            WatchedBroker,
            network=NetworkConfig(latency=Constant(1.0), client_latency=Constant(0.1)),
            broker=BrokerConfig("*", tolerance=tolerance, link=link, suspect_s=0.02),
            check_invariants=True,
        )
        for command in [*(Subscribe(f"{name.swapcase()}@{name}", "g") for name in members), *others]:
            self.sim.at(0.0, command)
        self.sim.run_for(SETTLED_S)
        for name in self.sim.tree:
            past = self.broker(name).durable.core.past
            base.update({pair: number for pair, number in past.items() if pair[0] == name})

    def at(self, *timetable: tuple[float, Command]) -> None:
        """What happens, in seconds after everything was set up."""
        for time_s, command in timetable:
            self.sim.at(SETTLED_S + time_s, command)

    def run(self) -> None:
        self.sim.run_until_quiet(limit_s=60)
        assert self.sim.check().ok, str(self.sim.check())
        assert not self.sim.failures()

    def run_for(self, seconds: float) -> None:
        self.sim.run_for(SETTLED_S + seconds - self.sim.now)

    def broker(self, name: str) -> LocamuBroker:
        node = self.sim.node(name)
        assert isinstance(node, LocamuBroker)
        return node

    def hops(self, payload: bytes) -> list[tuple[str, str]]:
        """Between whom copies of that message went, in order."""
        return [(sender, receiver) for sender, receiver, what, _ in self.copies if what == payload]

    def marks(self, payload: bytes, sender: str, receiver: str) -> list[dict[str, dict[str, int]]]:
        """The marks of the copies of that message from the one to the other, in order."""
        return [marks for one, other, what, marks in self.copies if (one, other, what) == (sender, receiver, payload)]


def _since(base: dict[tuple[str, str], int], node: str, numbers: dict[str, int]) -> dict[str, int]:
    return {target: number - base.get((node, target), 0) for target, number in numbers.items()}
