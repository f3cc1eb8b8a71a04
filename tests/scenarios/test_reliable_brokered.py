"""Reliable topics above the clients of a cluster: brokers die, connections reset, and nothing is lost."""

import pytest

from holdfast.model.topics import EVERYTHING
from holdfast.protocols.narada import PublisherConfig
from holdfast.simulation.faults import Crash, Part, Reset, Subscribe
from holdfast.simulation.faults import Heal as HealAll
from holdfast.simulation.reliable.brokered import BrokeredWorld
from holdfast.simulation.world import Simulation
from tests.support.reliable import STEERING, numbers, publish, stored, subscriber

PLACES = {"r1": "1", "r2": "2", "alice": "3", "bob": "4", "carol": "0"}
TREE = "0-1 0-2 1-3 2-4"


def _world(tolerance: int = 0, protocol: str = "ginger") -> BrokeredWorld:
    sim = Simulation(tree=TREE, protocol=protocol, seed=5, tolerance=tolerance or None)
    return BrokeredWorld(sim).put(**PLACES)


def _cast(world: BrokeredWorld):
    world.run(5.0)
    world.repository("r1")
    world.repository("r2")
    world.subscriber("bob", subscriber("bob", remember=True))
    world.subscriber("carol", subscriber("carol", remember=True))
    return world.publisher("alice", PublisherConfig("alice", "orders", steering=STEERING))


def test_everything_is_stored_everywhere_and_released_once():
    world = _world()
    publish(world, _cast(world), 1, 40, 8.0)
    world.run_until_drained(60.0)
    assert [stored(world, name) for name in ("r1", "r2")] == [numbers(1, 40)] * 2
    assert world.payloads("bob") == world.payloads("carol") == numbers(1, 40)
    assert world.check().ok


def test_a_repository_crashes_with_its_session_and_comes_back():
    world = _world()
    publish(world, _cast(world), 1, 60, 8.0)
    world.at(8.2, world.crash("r1"))
    world.at(9.5, world.recover("r1"))
    world.run_until_drained(60.0)
    assert stored(world, "r1") == stored(world, "r2") == numbers(1, 60)
    assert world.payloads("bob") == numbers(1, 60)


def test_who_asks_for_all_topics_does_not_hear_what_the_layer_says_to_itself():
    world = _world()
    for name, pattern in (("dave@4", "#"), ("erin@0", "+/#"), ("frank@3", EVERYTHING)):
        world.sim.at(1.0, Subscribe(name, pattern))
    publish(world, _cast(world), 1, 10, 8.0)
    world.run_until_drained(60.0)
    assert world.sim.delivered("dave") == world.sim.delivered("erin") == numbers(1, 10)
    assert len(world.sim.delivered("frank")) > 50


@pytest.mark.parametrize("fault", [Crash("1"), Crash("0"), Reset("3", "1")])
def test_brokers_die_and_connections_reset_underneath(fault: Crash | Reset):
    world = _world(tolerance=1)
    publish(world, _cast(world), 1, 60, 8.0)
    world.sim.at(8.25, fault)
    world.run_until_drained(90.0)
    assert world.payloads("bob") == numbers(1, 60)
    assert world.check().ok


def test_a_parted_network_stores_on_both_sides_and_agrees_when_it_is_whole():
    world = _world(tolerance=1)
    publish(world, _cast(world), 1, 60, 8.0)
    world.sim.at(8.25, Part(("2", "4")))
    world.at(16.0, lambda: world.sim.do(HealAll()))
    world.run_until_drained(120.0)
    assert stored(world, "r1") == stored(world, "r2") == numbers(1, 60)
    assert world.payloads("bob") == world.payloads("carol") == numbers(1, 60)
