"""Runs as Spark tasks: the same results as one after the other, and failures that can be repeated."""

from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from holdfast.cluster.campaign import Kind, RunResult, run_seed
from holdfast.experiments import locamu
from holdfast.experiments.registry import EXPERIMENTS
from holdfast.pipeline.errors import PipelineError
from holdfast.pipeline.sweeps import failures, run_sweep, sweep
from tests.unit.cli.command_line import CommandLine

SEEDS = range(1, 6)


def test_a_campaign_gives_the_same_results_as_tasks_as_one_run_after_the_other(spark: SparkSession):
    kind = Kind("ginger")
    found: list[tuple[int, RunResult]] = []
    run_sweep(spark, partial(run_seed, kind), SEEDS, RunResult, lambda at, result: found.append((at, result)))
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


def few_points(name: str) -> list[object]:
    """Some points of an experiment, as small as they can be."""
    if name == "locamu":
        return [
            locamu.LocamuPoint(protocol, 7, loads=(locamu.LocamuLoad(7, 2, 10.0),)) for protocol in locamu.PROTOCOLS
        ]
    return [replace(point, operations=6) for point in EXPERIMENTS[name].points(True)[:3]]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", ["ginger", "locamu"])
def test_an_experiment_as_tasks_makes_what_it_makes_as_processes(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    # The command finds the session that is there, and takes it.
    few = few_points(name)
    monkeypatch.setitem(EXPERIMENTS, name, replace(EXPERIMENTS[name], points=lambda _: few))
    holdfast = CommandLine(monkeypatch, capsys)
    here, there = tmp_path / "processes", tmp_path / "tasks"
    on_spark = holdfast("experiment", name, "--json", "--spark", "--out", there)
    assert f'"experiment": "{name}"' in on_spark.out
    assert on_spark.out == holdfast("experiment", name, "--json", "--workers", 1, "--out", here).out
    made = {path.relative_to(here): path.read_bytes() for path in here.rglob("*") if path.is_file()}
    assert made == {path.relative_to(there): path.read_bytes() for path in there.rglob("*") if path.is_file()}
    assert len((here / "rows.jsonl").read_text().splitlines()) == len(few)
