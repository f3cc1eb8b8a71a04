"""A LoCaMu tree whose copies between brokers can be read one by one."""

from collections.abc import Iterable

from msgspec import Struct

from holdfast.protocols.config import BrokerConfig, LinkConfig
from holdfast.protocols.locamu import LocamuBroker
from holdfast.protocols.locamu.copies import Copy, Marks, Pair
from holdfast.protocols.locamu.exchange import Exchange
from holdfast.protocols.locamu.peers import LinkedBroker
from holdfast.simulation.faults import Command, Subscribe
from holdfast.simulation.latencies import Constant
from holdfast.simulation.network import NetworkConfig
from holdfast.simulation.world import Simulation

SETTLED_S = 2.0
"""By then all brokers are connected and all subscriptions are confirmed."""
SILENCE_S = 0.4
IDENTIFIERS = b"(identifiers)"
"""In the place of the payload, where a copy only tells of identifiers."""


class Sent(Struct, frozen=True):
    """One copy as its receiver reads it, if it arrives."""

    sender: str
    receiver: str
    payload: bytes
    marks: Marks
    """The identifiers that those gave it who forwarded this copy. Without the sender's, it is passed on as it came."""
    merged: Marks = {}
    """Those that are known of other copies."""


class Tree:
    """A simulation, and every copy that a broker sent.

    Each of the `members` has a client, named like it with the case swapped, that wants `g`. Numbers in marks count from
    when all this was settled.
    """

    def __init__(self, tree: str, tolerance: int, members: Iterable[str], others: Iterable[Subscribe] = ()) -> None:
        self._sent: list[Sent] = []
        sent, base = self._sent, dict[Pair, int]()

        class Watched(Exchange):
            def _relay(self, peer: LinkedBroker, copy: Copy) -> None:
                if copy.notice is None:
                    what = copy.batch.payloads if copy.batch else IDENTIFIERS
                    marks, merged = (_told(one, copy.path, peer, base) for one in (copy.marks, copy.extra))
                    sent.append(Sent(self.name, peer.name, what, marks, merged))
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
        wanted = [*(Subscribe(f"{name.swapcase()}@{name}", "g") for name in members), *others]
        self._clients = [command.client for command in wanted]
        for command in wanted:
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

    def sent(self) -> list[Sent]:
        """Every copy that was sent since this was asked before, in order."""
        found = self._sent[:]
        self._sent.clear()
        return found

    def delivered(self) -> dict[str, list[bytes]]:
        """By broker, what its client was given, in order."""
        return {client.partition("@")[2]: self.sim.delivered(client) for client in self._clients}


def _told(marks: Marks, path: tuple[str, ...], peer: LinkedBroker, base: dict[Pair, int]) -> Marks:
    """What a header says of these marks: what is too far from either end of the link is left out."""
    found = {
        node: {
            target: number - base.get((node, target), 0)
            for target, number in marks.get(node, {}).items()
            if (node, target) in peer.encoder.terms.pair_index
        }
        for node in path
    }
    return {node: numbers for node, numbers in found.items() if numbers}
