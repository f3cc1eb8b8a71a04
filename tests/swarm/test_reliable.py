"""Random runs of reliable topics, a few of each class; `holdfast campaign --protocol narada` makes more."""

import os

import pytest

from holdfast.simulation.reliable.swarm import RELIABLE_CLASSES, ReliableClass, run_reliable

RUNS = int(os.environ.get("SWARM_RUNS", "200")) // len(RELIABLE_CLASSES) + 1


@pytest.mark.parametrize("failure", RELIABLE_CLASSES)
def test_nothing_is_lost_repeated_or_out_of_order(failure: ReliableClass):
    broken = [outcome for seed in range(1, RUNS + 1) if not (outcome := run_reliable(seed, failure)).ok]
    assert not broken, broken[0].complaint()


def test_invariants_hold_at_every_step():
    for failure in RELIABLE_CLASSES:
        outcome = run_reliable(7, failure, check_invariants=True)
        assert outcome.ok, outcome.complaint()


def test_one_seed_gives_one_run():
    first, second = (run_reliable(11, "storm") for _ in range(2))
    assert (first.events, first.messages, first.virtual_s) == (second.events, second.messages, second.virtual_s)
    assert first.judgement == second.judgement
