"""Points are run here or in other processes, and the rows are the same."""

import pytest

from holdfast.experiments.ginger import GingerRow, GingerTrial
from holdfast.experiments.registry import EXPERIMENTS, find_experiment
from holdfast.experiments.running import run_points
from holdfast.model.errors import ConfigError

POINTS = [GingerTrial(operations=1, interval_ms=100.0, total=0.0, seed=seed) for seed in (1, 2, 3)]


def test_rows_come_in_the_order_of_their_points_whoever_ran_them():
    experiment, seen = find_experiment("ginger"), []
    alone = run_points(experiment, POINTS, 1, lambda at, _: seen.append(at))
    together = run_points(experiment, POINTS, 2, lambda at, _: seen.append(at))
    assert [one.trial for one in alone] == POINTS
    assert together == alone
    assert all(isinstance(one, GingerRow) for one in together)
    assert (seen[:3], sorted(seen[3:])) == ([0, 1, 2], [0, 1, 2])


def test_no_points_give_no_rows():
    assert run_points(find_experiment("ginger"), [], 2, lambda _, __: None) == []


def test_an_unknown_experiment_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=f"'gigner'.*{', '.join(EXPERIMENTS)}"):
        find_experiment("gigner")
