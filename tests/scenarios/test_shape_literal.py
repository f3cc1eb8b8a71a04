"""Moves without one of their rules lose messages: the checkers see each of them."""

from random import Random

import pytest

from holdfast.model.messages import Move
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.ginger import RepairingBroker
from holdfast.protocols.ginger.departure import Departure
from holdfast.protocols.ginger.tree_shape import TreeShape
from holdfast.protocols.ginger.wards import Ward, Wards
from holdfast.simulation.faults import Publish as Say
from holdfast.simulation.faults import Subscribe
from holdfast.simulation.latencies import Uniform
from holdfast.simulation.network import NetworkConfig
from holdfast.simulation.world import BrokerFactory, Simulation
from tests.support.parts import with_parts

BEGIN_S = 3.0
SEEDS = range(10)


class TellsNoInterests(TreeShape):
    """The new parent is not sent what the child wants before it has asked for it itself."""

    def _freeze_link(self, departure: Departure) -> None:
        super()._freeze_link(departure)
        self._interests.take_back(departure.lent, departure.target)
        departure.lent = set()


class ForgetsWhatCrosses(Wards):
    """What the new parent had passed up, and the old one had not taken yet, is nobody's to hand over."""

    def _owe_what_crosses(self, parent: str, move: Move) -> None:
        """Nothing crosses."""


class KeepsNothing(Wards):
    """The new parent begins with what comes next, not with what it has kept."""

    def _take_ward_in(self, ward: Ward) -> None:
        self._log.unlink(ward.name)
        self._log.link(ward.name)
        super()._take_ward_in(ward)


def lively(make: BrokerFactory, seed: int) -> Simulation:
    """One child too many, and everybody talks while it is moved; only the child's own clients want `far`."""
    sim = Simulation(
        "0-1 0-2 0-3 0-4",
        make,
        seed,
        network=NetworkConfig(latency=Uniform(2.0, 12.0), client_latency=Uniform(0.1, 1.0)),
        broker=BrokerConfig("*", degree_max=3, move_pause_s=BEGIN_S),
        tolerance=1,
    )
    chance, clients = Random(seed), [f"c{broker}@{broker}" for broker in sim.tree]
    for client in clients:
        sim.at(0.0, Subscribe(client, "near"))
        sim.at(0.0, Subscribe(client, f"far/{client[1]}"))
    for number in range(120):
        topic = chance.choice(("near", "far/1", "far/2", "far/3", "far/4"))
        guarantee = chance.choice(("eventual", "fifo", "causal"))
        sim.at(BEGIN_S - 0.1 + number / 200, Say(chance.choice(clients), topic, b"%d" % number, guarantee))
    sim.run_for(BEGIN_S + 3.0)
    return sim


def is_broken(make: BrokerFactory, seed: int) -> bool:
    try:
        return not lively(make, seed).check().ok
    except (AssertionError, LookupError):
        return True


def test_with_every_rule_nothing_is_broken():
    moves = 0
    for seed in SEEDS:
        sim = lively(RepairingBroker, seed)
        assert sim.check().ok, str(sim.check())
        moves += sum(report.event == "move_end" for _, _, report in sim.reports)
    assert moves > 1


@pytest.mark.parametrize(
    "make",
    [with_parts(tree_shape=TellsNoInterests), with_parts(wards=ForgetsWhatCrosses), with_parts(wards=KeepsNothing)],
)
def test_without_one_of_them_something_is(make: BrokerFactory):
    assert any(is_broken(make, seed) for seed in SEEDS)
