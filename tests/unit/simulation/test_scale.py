"""Large trees: they come up, carry a broadcast, and no broker knows more in them than in small ones."""

from functools import cache

from holdfast.experiments.locamu_worlds import LocamuWorld
from holdfast.protocols.config import BrokerConfig, ClientConfig, LinkConfig
from holdfast.simulation.faults import Publish, Subscribe
from holdfast.simulation.latencies import Constant
from holdfast.simulation.network import NetworkConfig
from holdfast.simulation.states import count_entries
from holdfast.simulation.world import Simulation

SIZES = (63, 511, 4095)
SUBSCRIBERS = ("0", "7", "20", "31", "62")
"""Brokers that every one of these trees has, with a client each."""
INSIDE = ("3", "4", "5", "6")
"""Brokers with two levels above them and, in every one of these trees, at least three below."""
QUIET = LinkConfig(heartbeat_s=60.0, silence_s=300.0)


@cache
def ginger(brokers: int) -> Simulation:
    """A binary tree that has carried three messages to subscribers at both its ends."""
    tree = " ".join(f"{(one - 1) // 2}-{one}" for one in range(1, brokers))
    network = NetworkConfig(latency=Constant(1.0), client_latency=Constant(0.1))
    config = BrokerConfig("*", link=QUIET, tolerance=1)
    sim = Simulation(tree, "ginger", network=network, broker=config, client=ClientConfig("*", link=QUIET))
    for broker in (*SUBSCRIBERS, str(brokers - 1)):
        sim.at(0.0, Subscribe(f"c{broker}@{broker}", "news"))
    sim.run_until_quiet(60.0)
    for number in range(3):
        sim.at(sim.now + 0.1 + 0.01 * number, Publish("c31", "news", b"x", "causal"))
    sim.run_until_quiet(60.0)
    return sim


@cache
def locamu(brokers: int) -> Simulation:
    return LocamuWorld("locamu", brokers, 2, 1, subtrees=False, seed=1).sim


def test_a_tree_of_four_thousand_brokers_carries_a_broadcast_and_none_of_them_remembers_more_for_it():
    sim = ginger(4095)
    for broker in (*SUBSCRIBERS, "4094"):
        assert len(sim.delivered(f"c{broker}")) == 3
    assert sim.check().ok
    for broker in INSIDE:
        counts = {brokers: count_entries(ginger(brokers).node(broker)) for brokers in SIZES}
        assert len(set(counts.values())) == 1, f"broker {broker}, by size of the tree: {counts}"


def test_a_broker_of_locamu_remembers_as_much_in_a_tree_of_any_size():
    for broker in INSIDE:
        counts = {brokers: count_entries(locamu(brokers).node(broker)) for brokers in (127, 511)}
        assert len(set(counts.values())) == 1, f"broker {broker}, by size of the tree: {counts}"


def test_what_a_node_remembers_is_counted_wherever_it_is():
    class Cell:
        __slots__ = ("kept",)

        def __init__(self) -> None:
            self.kept = {"a": [1, 2, 3], "b": {4}}

    class Holder:
        def __init__(self) -> None:
            self.cell, self.again = Cell(), None

    holder = Holder()
    assert count_entries(holder) == 2 + 3 + 1
    holder.again = holder.cell  # type: ignore[assignment]
    assert count_entries(holder) == 2 + 3 + 1, "what is held twice is one thing"
