"""Clients that were busy when their broker died: within the time of a session they lose nothing."""

import pytest

from holdfast.protocols.config import BrokerConfig, LinkConfig
from holdfast.protocols.ginger import RepairingBroker
from holdfast.simulation.faults import Confirm, Crash, Freeze, Recover, Thaw
from holdfast.simulation.world import Simulation
from tests.scenarios.repairs import BOOT_S, SEEDS, at, finish, got, listen, reported, run_until, say, slow, tree

seeds = pytest.mark.parametrize("seed", SEEDS)


def status(sim: Simulation, broker: str) -> dict[str, object]:
    node = sim.node(broker)
    assert isinstance(node, RepairingBroker)
    return node.status()


@seeds
@pytest.mark.parametrize("guarantee", ["fifo", "causal", "total"])
def test_a_client_that_was_busy_for_ten_seconds_while_its_broker_died_loses_nothing(seed: int, guarantee: str):
    sim = tree("P-B B-C", slow("B", "c1", 5.0), seed=seed)
    listen(sim, c1_B="t", c2_C="t", p_P="t")
    for step in range(100):
        for name in ("c2@C", "p@P", "c1@B"):
            if name != "c1@B" or step < 5 or step > 75:
                say(sim, 0.2 * step, name, f"t:{name[:2]}{step}", guarantee=guarantee, key="k")
    at(sim, 1.0, Freeze("c1"))
    at(sim, 1.02, Crash("B"))
    at(sim, 11.0, Thaw("c1"))
    run_until(sim, 10.0)
    assert [*status(sim, "P")["late"]] == ["c1"]  # type: ignore[misc]  # by client
    finish(sim)
    assert reported(sim, "late") == ["P"]
    assert status(sim, "P")["late"] == {}
    assert len(got(sim, "c1")) == len(got(sim, "c2")) == len(got(sim, "p")) == 229


@seeds
def test_the_repair_does_not_wait_for_it(seed: int):
    sim = tree("P-B B-C", seed=seed)
    listen(sim, c1_B="t", c2_C="t", p_P="t")
    at(sim, 1.0, Freeze("c1"))
    at(sim, 1.02, Crash("B"))
    say(sim, 6.0, "c2@C", "t:x", guarantee="total", key="k")
    at(sim, 20.0, Thaw("c1"))
    run_until(sim, 6.5)
    assert got(sim, "p") == got(sim, "c2") == ["x"]
    finish(sim)
    assert got(sim, "c1") == ["x"]


@seeds
def test_several_late_clients_come_one_after_the_other_and_have_the_same_order(seed: int):
    sim = tree("P-B B-C", slow("B", "c1", 5.0), slow("B", "c3", 9.0), seed=seed)
    listen(sim, c1_B="t", c3_B="t", c2_C="t")
    for step in range(60):
        say(sim, 0.2 * step, "c2@C", f"t:x{step}", guarantee=("causal", "total")[step % 2], key="k")
    say(sim, 0.99, "c1@B", "t:own", guarantee="causal", key="k")
    for name, until_s in (("c1", 8.0), ("c3", 9.5)):
        at(sim, 1.0, Freeze(name))
        at(sim, until_s, Thaw(name))
    at(sim, 1.01, Crash("B"))
    finish(sim)
    assert len(got(sim, "c1")) == len(got(sim, "c3")) == len(got(sim, "c2")) == 61


@seeds
def test_what_only_the_late_client_has_comes_behind_all_that_was_ordered_meanwhile(seed: int):
    # c1's message is on its way when B dies. Everybody gets it behind the total ones that were released since, c1, too.
    sim = tree("P-B B-C", slow("c1", "B"), seed=seed)
    listen(sim, c1_B="t", c2_C="t")
    say(sim, 0.99, "c1@B", "t:own", key="k")
    at(sim, 1.0, Freeze("c1"))
    at(sim, 1.01, Crash("B"))
    for step in range(5):
        say(sim, 6.0 + step, "c2@C", f"t:x{step}", guarantee="total", key="k")
    at(sim, 12.0, Thaw("c1"))
    finish(sim)
    assert got(sim, "c1") == got(sim, "c2") == ["x0", "x1", "x2", "x3", "x4", "own"]


def test_a_publisher_is_answered_when_the_late_client_has_the_message():
    sim = tree("P-B B-C", seed=3)
    listen(sim, c1_B="t", p_P="u")
    at(sim, 1.0, Freeze("c1"))
    at(sim, 1.02, Crash("B"))
    say(sim, 6.0, "p@P", "t:x")
    at(sim, 6.1, Confirm("p", "t"))
    at(sim, 12.0, Thaw("c1"))
    run_until(sim, 11.9)
    assert not any(isinstance(one, Confirm) for one in sim.completed("p"))
    finish(sim)
    assert any(isinstance(one, Confirm) for one in sim.completed("p"))
    assert got(sim, "c1") == ["x"]


def test_the_lost_broker_may_be_back_before_its_late_client():
    sim = tree("P-B B-C", seed=5)
    listen(sim, c1_B="t", c2_C="t")
    at(sim, 1.0, Freeze("c1"))
    at(sim, 1.02, Crash("B"))
    at(sim, 5.0, Recover("B"))
    for step in range(30):
        say(sim, 0.5 * step, "c2@C", f"t:x{step}")
    at(sim, 10.0, Thaw("c1"))
    finish(sim)
    assert len(got(sim, "c1")) == 30


def bounded(keep_s: float, bytes_max: int) -> Simulation:
    broker = BrokerConfig("*", link=LinkConfig(away_bytes_max=bytes_max), session_keep_s=keep_s)
    sim = Simulation("P-B B-C", RepairingBroker, 7, broker=broker, tolerance=1, check_invariants=True)
    listen(sim, c1_B="t", c2_C="t")
    at(sim, 1.0, Freeze("c1"))
    at(sim, 1.02, Crash("B"))
    for step in range(40):
        say(sim, 4.0 + 0.2 * step, "c2@C", "t:" + "x" * 200)
    return sim


@pytest.mark.parametrize(("keep_s", "bytes_max"), [(6.0, 1 << 20), (60.0, 2000)], ids=["time", "bytes"])
def test_beyond_either_bound_nothing_is_kept_and_the_client_is_told(keep_s: float, bytes_max: int):
    sim = bounded(keep_s, bytes_max)
    at(sim, 15.0, Thaw("c1"))
    run_until(sim, 14.0)
    assert status(sim, "P")["late"] == {}
    assert reported(sim, "gap") == ["P"]
    sim.run_for(BOOT_S + 40.0)
    assert reported(sim, "gap")[-1] == "c1"
    assert sim.failures("c1")
