"""The trials of the Ginger experiments: which there are, and one very small run."""

import pickle

import msgspec
import pytest

from holdfast.experiments.ginger import (
    APART_MS,
    BEGIN_S,
    FAULTS,
    KEYS,
    ORPHANING,
    THESIS_MS,
    GingerRow,
    GingerTrial,
    expected_deliveries,
    run,
    scenario,
    trials,
)
from holdfast.model.errors import ConfigError
from holdfast.simulation.faults import Crash
from holdfast.simulation.scenarios import Timed


def test_no_trial_is_run_twice():
    for quick in (True, False):
        assert len(set(trials(quick))) == len(trials(quick))


def test_every_bar_of_the_figures_has_trials():
    for quick in (True, False):
        found = {(one.interval_ms, one.keys, one.victims) for one in trials(quick) if one.tolerance == 1}
        assert {(pace, keys, victims) for pace in (THESIS_MS, APART_MS) for keys in KEYS for victims in FAULTS} <= found
        assert {one.victims for one in trials(quick) if one.tolerance == len(one.victims)} >= set(ORPHANING)


def test_what_has_run_before_an_interruption_is_a_whole():
    seeds = [one.seed for one in trials(quick=False)]
    assert seeds == sorted(seeds)
    first = {(one.interval_ms, one.keys, one.victims) for one in trials(quick=False) if one.seed == 1}
    assert first == {(one.interval_ms, one.keys, one.victims) for one in trials(quick=False)}


def test_a_full_run_has_the_operations_and_repetitions_of_the_thesis():
    found = [one for one in trials(quick=False) if one.interval_ms == THESIS_MS and one.victims == ("1",)]
    assert {one.operations for one in found} == {500}
    assert [one.seed for one in found if one.keys == 1] == [1, 2, 3, 4, 5]


def test_a_trial_survives_the_way_to_another_process():
    assert pickle.loads(pickle.dumps(run)) is run
    for trial in trials(quick=True):
        assert msgspec.json.decode(msgspec.json.encode(trial), type=GingerTrial) == trial
        assert pickle.loads(pickle.dumps(trial)) == trial


def test_a_trial_that_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="all 0"):
        run(GingerTrial(eventual=0.0, causal=0.0, total=0.0))
    with pytest.raises(ConfigError, match="no broker or client 'nobody'"):
        run(GingerTrial(victims=("nobody",)))


def test_the_victims_die_together_in_the_middle_of_the_publishing():
    trial = GingerTrial(operations=100, interval_ms=1000, victims=("1", "2"))
    crashes = [timed for timed in scenario(trial).timetable if isinstance(timed.command, Crash)]
    assert crashes == [Timed(BEGIN_S + 50, Crash("1")), Timed(BEGIN_S + 50, Crash("2"))]


def test_everybody_on_a_topic_gets_what_anybody_on_it_publishes():
    assert expected_deliveries(GingerTrial(operations=10)) == 10 * (3 * 3 + 2 * 2)


def test_a_small_run_without_faults_takes_as_long_as_the_paths():
    row = run(GingerTrial(operations=4, interval_ms=2000.0, eventual=0.5, causal=0.5, total=0.0))
    assert (row.kept, row.complaint, row.deliveries) == (True, "", 4 * 13)
    assert row.repairs == []
    assert sum(one.count for one in row.latency.values()) == 4 * 13
    # The longest way is from broker 4, or back to where a message came from, by way of its top; nothing waits.
    assert max(one.max_ms for one in row.latency.values()) == 556.0


def test_a_small_run_with_a_fault_measures_its_repair_and_is_the_same_every_time():
    trial = GingerTrial(operations=6, interval_ms=500.0, victims=("1",))
    row = run(trial)
    assert (row.kept, row.complaint, row.deliveries) == (True, "", 6 * 13)
    assert sorted((one.broker, one.parent, one.rounds) for one in row.repairs) == [("4", "0", 1), ("5", "0", 1)]
    for one in row.repairs:
        # At least the question and the answer, between America and Europe.
        assert one.reconfiguration_ms >= 2 * 115
        assert one.since_fault_ms >= one.doubt_ms + one.reconfiguration_ms
    assert run(trial) == row
    assert msgspec.json.decode(msgspec.json.encode(row), type=GingerRow) == row
