"""Runs as Spark tasks: the same results as one after the other, and failures that can be repeated."""

from functools import partial

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from holdfast.cluster.campaign import Kind, Result, run_seed
from holdfast.experiments.registry import EXPERIMENTS
from holdfast.pipeline.errors import PipelineError
from holdfast.pipeline.sweeps import failures, run_sweep, sweep
from tests.unit.cli.command_line import CommandLine

SEEDS = range(1, 6)


def test_a_campaign_gives_the_same_results_as_tasks_as_one_run_after_the_other(spark: SparkSession):
    kind = Kind("ginger")
    found: list[tuple[int, Result]] = []
    run_sweep(spark, partial(run_seed, kind), SEEDS, Result, lambda at, result: found.append((at, result)))
    assert found == [(at, run_seed(kind, seed)) for at, seed in enumerate(SEEDS)]
    assert all(result.deliveries for _, result in found)


def test_a_run_that_fails_says_which_and_leaves_the_others_alone(spark: SparkSession):
    # A function that every worker can import, and that fails for some of what it is given.
    frame = sweep(spark, int, ["1", "2", "x", "4"], slices=2)
    rows = {row["position"]: (row["ok"], row["result"]) for row in frame.collect()}
    assert rows == {0: (True, "1"), 1: (True, "2"), 2: (False, None), 3: (True, "4")}
    [failed] = failures(frame).collect()
    assert (failed["position"], failed["description"]) == (2, '"x"')
    assert failed["error"].startswith("ValueError: invalid literal for int()")
    with pytest.raises(PipelineError, match='the run of "x" failed: ValueError'):
        run_sweep(spark, int, ["1", "x"], int, lambda *_: None)


def test_nothing_to_run_is_no_error(spark: SparkSession):
    assert sweep(spark, int, []).isEmpty()
    run_sweep(spark, int, [], int, lambda *_: pytest.fail("there is nothing"))


@pytest.mark.usefixtures("spark")
def test_an_experiment_as_tasks_prints_what_it_prints_as_processes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    # The command finds the session that is there, and takes it.
    known = EXPERIMENTS["ginger"]
    few = [replace(point, operations=6) for point in known.points(True)[:3]]
    monkeypatch.setitem(EXPERIMENTS, "ginger", replace(known, points=lambda _: few))
    holdfast = CommandLine(monkeypatch, capsys)
    on_spark = holdfast("experiment", "ginger", "--json", "--spark")
    assert '"experiment": "ginger"' in on_spark.out
    assert on_spark == holdfast("experiment", "ginger", "--json", "--workers", 1)
