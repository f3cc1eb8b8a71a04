"""A hole that a broker announces reaches every subscriber, in its place in the stream, whatever fails meanwhile."""

from collections.abc import Collection

import pytest

from holdfast.protocols.edges import EdgeBroker
from holdfast.protocols.ginger import RepairingBroker
from holdfast.simulation.faults import Attach, Crash, Heal, Part, Subscribe, When
from holdfast.simulation.world import Simulation
from tests.scenarios.repairs import BOOT_S, SEEDS, at, finish, got, listen, run_until, say, tree
from tests.scenarios.test_partitions import parted

seeds = pytest.mark.parametrize("seed", SEEDS)


def announce(sim: Simulation, time_s: float, broker: str, towards: Collection[str] | None = None) -> None:
    """Let that broker say that it has let something go."""

    def act(_: object) -> None:
        host = sim.host(broker)
        node = host.node
        assert isinstance(node, EdgeBroker)
        node.settle(host.now)  # So that it knows the time.
        node.holes.announce("a test let something go", towards=towards)
        host.enter(node.hub.take())

    sim.kernel.at(BOOT_S + time_s, lambda _: sim.host(broker).when_free(act))


def story(sim: Simulation, client: str) -> list[str]:
    """What a client was handed, with its gaps in their places."""
    seen = [event for event in sim.events if event.node == client and event.event in ("deliver", "gap")]
    return ["gap" if event.event == "gap" else f"{event.publisher}{event.seq}" for event in seen]


@pytest.mark.parametrize("tolerance", [0, 1, 2])
def test_a_hole_stands_in_every_stream_between_what_was_published_before_and_after_it(tolerance: int):
    sim = tree("A-B B-C B-D", tolerance=tolerance, make=RepairingBroker) if tolerance else Simulation("A-B B-C B-D")
    listen(sim, a_A="t", c_C="t", d_D="t")
    say(sim, 1.0, "p@A", "t:1")
    announce(sim, 1.1, "A")
    say(sim, 1.1, "p", "t:2")
    finish(sim)
    for client in ("a", "c", "d"):
        assert story(sim, client) == ["p1", "gap", "p2"]
        assert [reason for _, reason in sim.client(client).gaps] == ["a test let something go"]
    assert sim.client("p").gaps == []


def test_one_direction_alone_may_be_concerned():
    sim = tree("A-B B-C B-D", make=RepairingBroker)
    listen(sim, a_A="t", b_B="t", c_C="t", d_D="t")
    announce(sim, 1.0, "B", towards=["C"])
    finish(sim)
    assert {client: len(sim.client(client).gaps) for client in "abcd"} == {"a": 0, "b": 0, "c": 1, "d": 0}


@seeds
@pytest.mark.parametrize("kind", ["Hole", "Data"])
def test_a_notice_is_not_lost_with_the_broker_that_was_to_pass_it_on(seed: int, kind: str):
    sim = tree("A-B B-C C-D", seed=seed, make=RepairingBroker)
    listen(sim, a_A="t", d_D="t", c_C="t")
    at(sim, 1.0, When("B", kind, Crash("B"), 1, within_s=0.2))
    announce(sim, 1.0, "A")
    at(sim, 1.2, Crash("B"))
    say(sim, 9.0, "p@A", "t:x")
    finish(sim)
    for client in ("a", "c", "d"):
        assert story(sim, client) == ["gap", "p1"]


@seeds
def test_two_adjacent_brokers_that_die_do_not_take_it_along(seed: int):
    sim = tree("A-B B-C C-D D-E", tolerance=2, seed=seed, make=RepairingBroker)
    listen(sim, a_A="t", d_D="t", e_E="t")
    at(sim, 1.0, When("C", "Hole", Crash("C"), 1))
    at(sim, 1.0, When("B", "Hole", Crash("B"), 1))
    announce(sim, 1.0, "A")
    at(sim, 1.1, Crash("B"))
    at(sim, 1.1, Crash("C"))
    finish(sim)
    for client in ("a", "d", "e"):
        assert story(sim, client) == ["gap"]


@seeds
def test_those_who_were_out_of_reach_are_told_when_they_are_back(seed: int):
    sim = parted(seed=seed)
    listen(sim, a_A="t", e_E="t")
    at(sim, 2.0, Part(("A", "B")))
    announce(sim, 8.0, "E")
    run_until(sim, 9.0)
    assert story(sim, "a") == []
    assert story(sim, "e") == ["gap"]
    at(sim, 14.0, Heal())
    finish(sim)
    assert story(sim, "a") == ["gap"]
    assert story(sim, "e") == ["gap"]


def test_a_client_that_came_later_is_not_told_of_holes_before_it_when_it_moves():
    sim = tree("A-B B-C", make=RepairingBroker)
    listen(sim, a_A="t")
    announce(sim, 1.0, "A")
    at(sim, 2.0, Attach("c@C"))
    at(sim, 2.0, Subscribe("c@C", "t"))
    at(sim, 4.0, Crash("C"))
    say(sim, 12.0, "p@A", "t:x")
    finish(sim)
    assert story(sim, "c") == ["p1"]
    assert got(sim, "a") == ["x"]
    assert story(sim, "a") == ["gap", "p1"]


@seeds
def test_a_client_whose_broker_dies_with_the_notice_is_told_by_the_next(seed: int):
    sim = tree("A-B B-C", seed=seed, make=RepairingBroker)
    listen(sim, c_C="t")
    at(sim, 1.0, When("C", "Hole", Crash("C"), 1, within_s=0.2))
    announce(sim, 1.0, "A")
    at(sim, 1.2, Crash("C"))
    finish(sim)
    assert story(sim, "c") == ["gap"]
