"""Schedules that the campaigns found to break a promise, shrunk; each tells its story at the top of its file."""

from pathlib import Path

import pytest

from holdfast.simulation.faults import Crash
from holdfast.simulation.scenarios import load_scenario
from holdfast.simulation.workloads import judge
from tests.scenarios.repairs import SEEDS, at, finish, got, listen, say, slow, tree

FOUND = sorted(Path(__file__).with_name("found").glob("*.toml"))


@pytest.mark.parametrize("path", FOUND, ids=[path.stem for path in FOUND])
def test_what_a_campaign_has_found_is_survived(path: Path):
    outcome = judge(load_scenario(path), f"holdfast simulate {path}", check_invariants=True)
    assert outcome.ok, outcome.complaint()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_total_message_of_which_only_the_broker_that_asked_for_it_is_left_is_not_lost(seed: int):
    # B is the root of the topic's subtree: it releases m, and dies when C has heard that m is done, and c1 has nothing.
    sim = tree("P-B B-C", slow("B", "c1"), seed=seed)
    listen(sim, c1_B="t")
    say(sim, 0.0, "c2@C", "t:m", guarantee="total", key="k")
    say(sim, 0.0, "c2@C", "t:n")
    at(sim, 0.0045, Crash("B"))
    finish(sim)
    assert got(sim, "c1") == ["m", "n"]
