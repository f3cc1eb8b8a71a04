"""The worlds of the LoCaMu thesis' section 5.3: a tree of brokers with a client each, and groups of subtrees.

Groups stand from the beginning, as in the thesis. LoCaMu is told of them before it starts, since confirming thousands
of subscriptions at every broker takes longer than the run itself; the others are subscribed to in the usual way.
CBCAST and causal barriers run on the tree, too: an underlay carries their messages along its edges.
"""

from holdfast.experiments.scales import Scale
from holdfast.protocols.config import BrokerConfig, ClientConfig, LinkConfig
from holdfast.protocols.locamu import LocamuBroker
from holdfast.protocols.locamu.copies import Copy
from holdfast.protocols.locamu.exchange import Exchange
from holdfast.protocols.locamu.groups import GroupsImage, Want
from holdfast.protocols.locamu.headers import HeaderSize
from holdfast.protocols.locamu.peers import LinkedBroker
from holdfast.protocols.neighbourhoods import children_of
from holdfast.protocols.registry import find_protocol
from holdfast.simulation.carriers import Underlay, spans, wire_weight
from holdfast.simulation.disk import DiskConfig
from holdfast.simulation.faults import Subscribe
from holdfast.simulation.latencies import Constant
from holdfast.simulation.network import NetworkConfig
from holdfast.simulation.trees import Parents, print_tree
from holdfast.simulation.world import BrokerFactory, Simulation

EDGE_MS = 1.0
"""The latency of every link (5.3)."""
CLIENT_MS = 0.001
"""A broker and its client are one node of the thesis."""
QUIET_LINKS = LinkConfig(heartbeat_s=60.0, silence_s=300.0)
FAULTY_LINKS = LinkConfig()
NO_DISK = DiskConfig(write_ms=0.0, bytes_per_s=1e15)
"""The thesis' brokers keep everything in memory."""
WHOLE = "all"
BOOT_LIMIT_S = 600.0


def complete_tree(brokers: int, fan_out: int) -> Parents:
    """The first so many brokers of a tree in which everybody has `fan_out` children."""
    return {str(one): str((one - 1) // fan_out) if one else None for one in range(brokers)}


def groups_of(broker: int, fan_out: int, brokers: int, subtrees: bool) -> list[str]:
    """The groups that a broker is in: one, or one for every subtree of two or more that it belongs to."""
    if not subtrees:
        return [WHOLE]
    tops = [broker] if broker * fan_out + 1 < brokers else []
    while broker:
        broker = (broker - 1) // fan_out
        tops.append(broker)
    return [f"below/{top}" for top in tops]


def client(broker: int) -> str:
    return f"c{broker}"


Span = tuple[int, int]
"""Where the brokers of a subtree stand when the tree is walked."""


class LocamuWorld:
    """A simulated world that has come to rest."""

    def __init__(
        self,
        protocol: str,
        brokers: int,
        fan_out: int,
        tolerance: int,
        subtrees: bool,
        seed: int,
        faulty: bool = False,
        standing: bool = True,
    ) -> None:
        """`faulty`: brokers have to notice that others are gone; `standing`: LoCaMu is told of groups beforehand."""
        self.tree, self.subtrees, self.fan_out = complete_tree(brokers, fan_out), subtrees, fan_out
        self.scale = Scale()
        self._spans = spans(children_of(self.tree), "0")
        self._names = list(dict.fromkeys(group for one in range(brokers) for group in self.groups(one)))
        meshed, link = find_protocol(protocol).meshed, FAULTY_LINKS if faulty else QUIET_LINKS
        self.sim = Simulation(
            print_tree(self.tree),
            self._standing_locamu() if protocol == "locamu" and standing else protocol,
            seed,
            network=NetworkConfig(latency=Constant(EDGE_MS), client_latency=Constant(CLIENT_MS)),
            disk=NO_DISK,
            broker=BrokerConfig("*", link=link, tolerance=0 if meshed else tolerance),
            client=ClientConfig("*", link=link),
        )
        if meshed:
            self.sim.network.lie_above(Underlay(self.sim.kernel, self.tree, EDGE_MS / 1000, wire_weight))
        for broker in range(brokers):
            for group in self.groups(broker):
                self.sim.at(0.0, Subscribe(f"{client(broker)}@{broker}", group))
        self.sim.run_until_quiet(BOOT_LIMIT_S)

    def groups(self, broker: int) -> list[str]:
        return groups_of(broker, self.fan_out, len(self.tree), self.subtrees)

    def members(self, group: str) -> int:
        """How many brokers a group has."""
        first, last = self._span(group)
        return last - first

    def _span(self, group: str) -> Span:
        return self._spans["0" if group == WHOLE else group.rpartition("/")[2]]

    def limit(self, bytes_per_s: float, as_thesis: bool) -> None:
        """From now on brokers have so much bandwidth each, and frames weigh what they do on our wire or there."""
        self.scale.begin(as_thesis)
        self.sim.network.limit_brokers(bytes_per_s, self.scale)

    def _standing_locamu(self) -> BrokerFactory:
        """LoCaMu with groups that stand from the beginning, and with its headers weighed."""
        world, scale = self, self.scale

        class Weighed(Exchange):
            def weighed(self, peer: LinkedBroker, copy: Copy, size: HeaderSize) -> None:
                if copy.batch is not None:
                    scale.note(self.name, peer.name, size.thesis_bytes)

        class StandingLocamu(LocamuBroker):
            exchanging = Weighed

            def __init__(self, config: BrokerConfig, incarnation: int) -> None:
                super().__init__(config, incarnation)
                self.durable.core.groups.restore(world.standing_groups(self))

        return StandingLocamu

    def standing_groups(self, broker: LocamuBroker) -> GroupsImage:
        """What a broker knows when every member has told everybody: how many there are behind each one nearby."""
        core = broker.durable.core
        near = [name for name in core.near.within(core.reach.marks) if name != core.name]
        behind = {name: self._behind(core.name, name) for name in near}
        counts = []
        for group in self._names:
            first, last = self._span(group)
            found = {}
            for name, (is_outside, low, high) in behind.items():
                inside = max(0, min(last, high) - max(first, low))
                found[name] = last - first - inside if is_outside else inside
            if any(found.values()):
                counts.append(((group, ""), {name: count for name, count in found.items() if count}))
        own = [((group, ""), Want(0, True, [])) for group in self.groups(int(core.name))]
        return GroupsImage(own, counts)

    def _behind(self, broker: str, name: str) -> tuple[bool, int, int]:
        """Who is behind a broker nearby: everybody in a span, or everybody outside of one."""
        first, last = self._spans[name]
        if not first <= self._spans[broker][0] < last:
            return False, first, last
        below = broker
        while self.tree[below] != name:
            below = self.tree[below] or name
        return True, *self._spans[below]
