"""`holdfast experiment`: what it prints, what it writes, and what its exit code says."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.experiments.registry import EXPERIMENTS
from tests.unit.cli.command_line import CommandLine
from tests.unit.experiments.rows import broken, row

POINT = '{"operations":1,"interval_ms":100,"total":0}'


@pytest.fixture
def instant(monkeypatch: pytest.MonkeyPatch) -> None:
    """The experiment with all its points, whose runs take no time."""
    monkeypatch.setitem(EXPERIMENTS, "ginger", replace(EXPERIMENTS["ginger"], run=row))


def test_tables_and_differences_are_printed(holdfast: CommandLine, instant: None):
    ran = holdfast("experiment", "ginger", "--quick", "--workers", 1)
    assert ran.code == 0
    assert "figure 5.3" in ran.out
    assert "as in the thesis" in ran.out
    assert "DIFFERS" in ran.out


def test_everything_is_written_into_the_directory(holdfast: CommandLine, instant: None, tmp_path: Path):
    ran = holdfast("experiment", "ginger", "--quick", "--workers", 1, "--out", tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"figure-5.3.svg", "figure-5.5.csv", "report.md"}
    assert "report.md" in ran.err


def test_as_json_it_is_one_value(holdfast: CommandLine, instant: None):
    said = json.loads(holdfast("experiment", "ginger", "--quick", "--workers", 1, "--json").out)
    assert (said["ok"], said["experiment"], said["broken"]) == (True, "ginger", [])
    assert said["tables"]["figure-5.3"][0]["rounds"] == 1
    assert {"figure", "says", "ours", "agrees", "why"} == set(said["claims"][0])


def test_a_broken_promise_is_exit_code_1_and_says_how_to_see_it_again(
    holdfast: CommandLine, monkeypatch: pytest.MonkeyPatch
):
    first_only: Sequence[Any] = EXPERIMENTS["ginger"].points(True)[:1]
    changed = replace(EXPERIMENTS["ginger"], points=lambda _: first_only, run=lambda point: broken(row(point)))
    monkeypatch.setitem(EXPERIMENTS, "ginger", changed)
    ran = holdfast("experiment", "ginger", "--workers", 1)
    assert ran.code == 1
    assert "holdfast experiment ginger --point" in ran.out


def test_one_point_is_run_alone_and_its_row_printed(holdfast: CommandLine):
    ran = holdfast("experiment", "ginger", "--point", POINT)
    assert ran.code == 0
    assert json.loads(ran.out)["deliveries"] == 13


@pytest.mark.parametrize("point", ["{", '{"keys":"many"}', '{"colour":1}'])
def test_a_point_that_cannot_be_is_refused(holdfast: CommandLine, point: str):
    ran = holdfast("experiment", "ginger", "--point", point)
    assert ran.code == 2
    assert "is no point of ginger" in ran.err


def test_an_unknown_experiment_is_refused(holdfast: CommandLine):
    ran = holdfast("experiment", "gigner")
    assert ran.code == 2
    assert "choose one of ginger" in ran.err


def test_an_interrupted_run_goes_on_where_it_ended(
    holdfast: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    points, ran = EXPERIMENTS["ginger"].points(True)[:4], []

    def run(point: Any) -> Any:
        ran.append(point)
        return row(point)

    monkeypatch.setitem(EXPERIMENTS, "ginger", replace(EXPERIMENTS["ginger"], points=lambda _: points, run=run))
    assert holdfast("experiment", "ginger", "--workers", 1, "--out", tmp_path).code == 0
    rows = tmp_path / "rows.jsonl"
    whole = rows.read_text()
    # The machine stopped in the midst of the third row.
    rows.write_text("".join(whole.splitlines(keepends=True)[:2]) + '{"trial"')
    ran.clear()
    assert holdfast("experiment", "ginger", "--workers", 1, "--out", tmp_path, "--resume").code == 0
    assert ran == points[2:]
    assert rows.read_text() == whole


def test_without_resume_a_run_begins_anew(holdfast: CommandLine, instant: None, tmp_path: Path):
    (tmp_path / "rows.jsonl").write_text("no row\n")
    assert holdfast("experiment", "ginger", "--quick", "--workers", 1, "--out", tmp_path).code == 0
    assert "no row" not in (tmp_path / "rows.jsonl").read_text()


def test_rows_of_something_else_are_not_gone_on_with(holdfast: CommandLine, instant: None, tmp_path: Path):
    (tmp_path / "rows.jsonl").write_text("{}\n")
    ran = holdfast("experiment", "ginger", "--quick", "--workers", 1, "--out", tmp_path, "--resume")
    assert ran.code == 2
    assert "other rows" in ran.err


def test_resume_needs_a_directory(holdfast: CommandLine):
    assert holdfast("experiment", "ginger", "--resume").code == 2


@pytest.mark.parametrize(
    ("asked", "master"), [(("--spark",), "local[*]"), (("--master", "spark://host:7077"), "spark://host:7077")]
)
def test_on_spark_the_tables_are_the_same(
    asked: tuple[str, ...], master: str, holdfast: CommandLine, instant: None, monkeypatch: pytest.MonkeyPatch
):
    masters: list[str] = []

    def swept(function: Any, points: Sequence[Any], kind: type, on_result: Any) -> None:
        for at, point in enumerate(points):
            result = function(point)
            assert isinstance(result, kind)
            on_result(at, result)

    @contextmanager
    def sweeping(master: str) -> Iterator[Any]:
        masters.append(master)
        yield swept

    monkeypatch.setattr("holdfast.cli.experiments.sweeping", sweeping)
    on_spark = holdfast("experiment", "ginger", "--quick", "--json", *asked)
    assert on_spark.out == holdfast("experiment", "ginger", "--quick", "--json", "--workers", 1).out
    assert masters == [master]
