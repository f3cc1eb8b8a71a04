"""Schedules that the campaigns found to break a promise, shrunk; each tells its story at the top of its file."""

from pathlib import Path

import pytest

from holdfast.simulation.scenarios import load_scenario
from holdfast.simulation.workloads import judge

FOUND = sorted(Path(__file__).with_name("found").glob("*.toml"))


@pytest.mark.parametrize("path", FOUND, ids=[path.stem for path in FOUND])
def test_what_a_campaign_has_found_is_survived(path: Path):
    outcome = judge(load_scenario(path), f"holdfast simulate {path}", check_invariants=True)
    assert outcome.ok, outcome.complaint()
