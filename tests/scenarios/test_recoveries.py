"""Brokers that come back after a crash with what they wrote down, and with nothing else."""

import pytest

from holdfast.protocols.config import BrokerConfig, ClientConfig, LinkConfig
from holdfast.protocols.durable import kept_in
from holdfast.protocols.ginger import RepairingBroker
from holdfast.simulation.disk import DiskConfig
from holdfast.simulation.faults import Attach, Crash, Detach, Recover, Subscribe
from holdfast.simulation.latencies import Constant
from holdfast.simulation.network import NetworkConfig
from holdfast.simulation.world import Simulation
from tests.scenarios.repairs import SEEDS, at, finish, got, listen, run_until, say

LINK = LinkConfig(heartbeat_s=0.3)
seeds = pytest.mark.parametrize("seed", SEEDS[:4])


def remembering(edges: str, seed: int = 0, durable: bool = True, write_ms: float = 0.2) -> Simulation:
    return Simulation(
        edges,
        RepairingBroker,
        seed,
        network=NetworkConfig(latency=Constant(2.0), client_latency=Constant(0.1)),
        disk=DiskConfig(write_ms=write_ms),
        broker=BrokerConfig("*", link=LINK, durable=durable),
        client=ClientConfig("*", link=LINK),
        tolerance=1,
        check_invariants=True,
    )


def known(sim: Simulation, name: str) -> set[str]:
    return {one.name for one in kept_in(sim.host(name)._disk.pairs).tree}


def epoch(sim: Simulation, name: str) -> int:
    return kept_in(sim.host(name)._disk.pairs).epoch


@seeds
def test_a_broker_whose_parent_is_gone_finds_the_tree_by_what_it_wrote_down(seed: int):
    sim = remembering("0-1 0-2 1-3", seed)
    listen(sim, a_0="t", b_3="t")
    say(sim, 0.5, "a", "t:before")
    at(sim, 1.0, Crash("3"))
    at(sim, 3.0, Crash("1"))
    at(sim, 6.0, Recover("3"), Attach("c@3"), Subscribe("c@3", "t"))
    say(sim, 9.0, "a", "t:after")
    run_until(sim, 0.9)
    assert {"0", "1"} <= known(sim, "3")
    earlier = epoch(sim, "3")
    finish(sim)
    assert sim.host("3").node.parent == "0"  # type: ignore[attr-defined]
    assert epoch(sim, "3") > earlier
    assert (got(sim, "b"), got(sim, "c")) == (["before", "after"], ["after"])


@seeds
def test_of_all_whom_it_was_told_of_a_single_one_need_be_left(seed: int):
    """Its parent, and the parent of that, are lost one after the other; the one that is left it knows by hearsay."""
    sim = remembering("0-1 0-2 1-3 2-4", seed)
    listen(sim, a_2="t", b_4="t")
    at(sim, 1.0, Crash("3"))
    at(sim, 3.0, Crash("1"))
    at(sim, 6.0, Crash("0"))
    at(sim, 9.0, Recover("3"), Attach("c@3"), Subscribe("c@3", "t"))
    say(sim, 12.0, "a", "t:x")
    finish(sim)
    assert sim.host("3").node.parent == "2"  # type: ignore[attr-defined]
    assert got(sim, "c") == ["x"]


@seeds
def test_a_root_that_comes_back_is_no_second_root(seed: int):
    sim = remembering("0-1 0-2", seed)
    listen(sim, a_1="t", b_2="t")
    at(sim, 1.0, Crash("0"))
    at(sim, 4.0, Recover("0"), Attach("c@0"), Subscribe("c@0", "t"))
    say(sim, 7.0, "b", "t:x")
    finish(sim)
    assert sim.host("0").node.parent in {"1", "2"}  # type: ignore[attr-defined]
    assert (got(sim, "a"), got(sim, "c")) == (["x"], ["x"])


@seeds
@pytest.mark.parametrize("durable", [True, False], ids=["durable", "forgetful"])
def test_a_publisher_that_returns_to_a_broker_that_crashed_repeats_no_number(seed: int, durable: bool):
    """1. p publishes #1 and leaves. 2. Its broker crashes and comes back. 3. p returns and publishes something new.

    If the broker has forgotten p, that is #1 again: everybody else takes it for a repeat.
    """
    sim = remembering("0-1", seed, durable)
    listen(sim, a_0="t")
    say(sim, 0.5, "p@1", "t:old")
    at(sim, 1.0, Detach("p@1"))
    at(sim, 2.0, Crash("1"))
    at(sim, 4.0, Recover("1"))
    at(sim, 6.0, Attach("p@1"))
    say(sim, 7.0, "p@1", "t:new")
    sim.run_until_quiet(limit_s=60, quiet_s=3.0)
    assert got(sim, "a") == (["old", "new"] if durable else ["old"])
    if durable:
        finish(sim)


@seeds
def test_a_crash_while_it_writes_leaves_a_broker_that_comes_back_all_the_same(seed: int):
    """Writes take a second here: it dies in the midst of one, and again as soon as it has begun anew."""
    sim = remembering("0-1 0-2 1-3", seed, write_ms=1000.0)
    listen(sim, a_0="t", b_2="t")
    at(sim, 6.3, Crash("3"), Recover("3"))
    at(sim, 6.8, Crash("3"))
    at(sim, 8.0, Recover("3"))
    at(sim, 20.0, Attach("c@3"), Subscribe("c@3", "t"))
    say(sim, 30.0, "a", "t:x")
    finish(sim)
    assert (got(sim, "b"), got(sim, "c")) == (["x"], ["x"])
