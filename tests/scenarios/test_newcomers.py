"""Brokers that join a tree while those whom they ask are lost."""

import pytest

from holdfast.simulation.faults import Attach, Crash, Join, Recover, Subscribe, When
from tests.scenarios.repairs import SEEDS, at, listen, run_until, say, slow, tree


@pytest.mark.parametrize("seed", SEEDS)
def test_a_newcomer_whose_first_address_dies_before_it_lets_it_in_turns_to_the_next(seed: int):
    sim = tree("0-1 0-2", slow("0", "1", 200.0), seed=seed)
    listen(sim, c_2="t")
    # 1 lets nobody in before 0 has acknowledged that it knows of it, and that takes longer than 1 has to live.
    at(sim, 0.0, Join("new", "1"))
    at(sim, 0.1, Crash("1"))
    at(sim, 6.0, Attach("late@new"), Subscribe("late@new", "t"))
    say(sim, 9.0, "c@2", "t:a")
    sim.run_until_quiet(60.0)
    assert (sim.failures(), sim.unrepaired()) == ([], [])
    assert [report.peer for _, node, report in sim.reports if node == "new" and report.event == "joining"] == ["", "0"]
    assert sim.delivered("late", "t") == [b"a"]


def test_a_newcomer_that_knows_nobody_else_asks_again_until_somebody_is_there():
    sim = tree("0")
    at(sim, 0.0, When("0", "View", Crash("0")), Join("new", "0"))
    run_until(sim, 5.0)
    assert [report.event for _, node, report in sim.reports if node == "new"][-1] == "joining"
    at(sim, 6.0, Recover("0"), Attach("c@new"), Subscribe("c@new", "t"))
    say(sim, 9.0, "c@new", "t:a")
    sim.run_until_quiet(60.0)
    assert sim.delivered("c", "t") == [b"a"]
    assert [node for _, node, report in sim.reports if report.event == "root"] == []
