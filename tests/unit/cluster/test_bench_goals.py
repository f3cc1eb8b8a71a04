"""Goals are ratios between what was measured in one run."""

from holdfast.cluster.bench.cells import Cell, Sample
from holdfast.cluster.bench.goals import CELLS, GOALS, Goal, reached
from holdfast.cluster.bench.samples import percentile, stamped, warmed_up

OURS, THEIRS = Cell("holdfast", 1, 32, "causal"), Cell("nats", 1, 32)


def test_a_rate_must_be_at_least_its_share():
    goal = Goal("g", OURS, THEIRS, "delivered_per_s", 2.0)
    assert reached(goal, {OURS: Sample(200.0), THEIRS: Sample(100.0)}).met is True
    missed = reached(goal, {OURS: Sample(199.0), THEIRS: Sample(100.0)})
    assert (missed.met, missed.ratio, missed.wanted) == (False, 1.99, "≥ 2")


def test_a_latency_must_be_at_most_its_share():
    goal = Goal("g", OURS, THEIRS, "p50_us", 1.25)
    assert reached(goal, {OURS: Sample(1, 125.0), THEIRS: Sample(1, 100.0)}).met is True
    missed = reached(goal, {OURS: Sample(1, 126.0), THEIRS: Sample(1, 100.0)})
    assert (missed.met, missed.wanted) == (False, "≤ 1.25")


def test_a_goal_that_was_not_measured_is_neither_met_nor_missed():
    goal = Goal("g", OURS, THEIRS, "delivered_per_s", 2.0)
    assert reached(goal, {OURS: Sample(200.0)}).met is None


def test_everything_that_a_goal_compares_is_measured():
    for goal in GOALS:
        assert {goal.measured, goal.against} <= set(CELLS), goal.title


def test_no_two_measurements_are_the_same():
    assert len(set(CELLS)) == len(CELLS)
    assert len({(cell.title, cell.paced) for cell in CELLS}) == len(CELLS)


def test_percentiles_are_values_that_occurred():
    values = [float(value) for value in range(1, 101)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile(values, 1.0)) == (51.0, 100.0, 100.0)


def test_the_first_tenth_is_warming_up():
    assert warmed_up([9.0] * 10 + [1.0] * 90) == [1.0] * 90


def test_a_stamped_payload_has_the_size_that_was_asked_for():
    assert (len(stamped(1024)), len(stamped(32))) == (1024, 32)
