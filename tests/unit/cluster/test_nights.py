"""Nights: what is run, where seeds go on, and what is kept of a broken run."""

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.cluster.campaign import Kind, RunResult, run_seed
from holdfast.cluster.nights import FIRST_SEED, Night, NightRow, NightTable, commit_of, kinds
from holdfast.model.errors import ConfigError
from holdfast.simulation.scenarios import load_scenario
from holdfast.simulation.workloads import judge


def alone(kind: Kind, seeds: range, on_result: Callable[[RunResult], None]) -> None:
    for seed in seeds:
        on_result(run_seed(kind, seed))


def result(seed: int, ok: bool = True) -> RunResult:
    return RunResult(seed, ok, "", "" if ok else "lost", f"replay {seed}", 1, 2, 3)


def night(
    table: NightTable, directory: Path, make_runs: Callable[..., None], block: int = 2
) -> tuple[Night, list[NightRow]]:
    rows: list[NightRow] = []
    return Night(table, "abc", directory / "found", make_runs, lambda row, _: rows.append(row), block), rows


def test_every_protocol_that_is_meant_to_hold_is_run_with_both_tolerances():
    names = [name for name, _ in kinds()]
    assert {"ginger calm", "ginger links", "ginger crash f=1", "ginger crash f=2", "ginger adjacent f=2"} <= set(names)
    assert "ginger adjacent f=1" not in names
    assert "narada retention" in names
    assert not [name for name in names if name.startswith("ginger-locks")]
    assert len(names) == len(set(names))


def test_an_unknown_protocol_is_refused():
    with pytest.raises(ConfigError, match="unknown protocol 'gossip'"):
        kinds(["gossip"])


def test_seeds_go_on_where_the_table_ends(tmp_path: Path):
    asked: list[range] = []

    def make_runs(_: Kind, seeds: range, on_result: Callable[[RunResult], None]) -> None:
        asked.append(seeds)
        for seed in seeds:
            on_result(result(seed))

    path = tmp_path / "nights" / "table.jsonl"
    made, _ = night(NightTable(path), tmp_path, make_runs)
    made.block("ginger calm", Kind("ginger"))
    again, _ = night(NightTable(path), tmp_path, make_runs)
    again.block("ginger calm", Kind("ginger"))
    again.block("ginger links", Kind("ginger"))
    assert [seeds[0] for seeds in asked] == [FIRST_SEED, FIRST_SEED + 2, FIRST_SEED]
    assert NightTable(path).summary() == [("abc", "ginger calm", 4, 8, 0), ("abc", "ginger links", 2, 4, 0)]


def test_a_night_begins_with_the_kinds_that_were_run_least(tmp_path: Path):
    order: list[str] = []

    def make_runs(kind: Kind, seeds: range, on_result: Callable[[RunResult], None]) -> None:
        order.append(kind.protocol)
        if len(order) == 5:
            raise KeyboardInterrupt
        for seed in seeds:
            on_result(result(seed))

    made, _ = night(NightTable(tmp_path / "table.jsonl"), tmp_path, make_runs)
    made.block("ginger calm", Kind("ginger"))
    every = [(f"{name} calm", Kind(name)) for name in ("ginger", "cbcast", "locamu")]
    with pytest.raises(KeyboardInterrupt):
        made.run(every, 3600)
    assert order == ["ginger", "cbcast", "locamu", "ginger", "cbcast"]


def test_a_night_of_no_hours_makes_no_runs(tmp_path: Path):
    made, rows = night(NightTable(tmp_path / "table"), tmp_path, alone)
    assert made.run(kinds(["ginger"]), 0) == 0
    assert rows == []


def test_a_broken_run_is_kept_as_a_small_scenario_that_is_still_broken(tmp_path: Path):
    made, _ = night(NightTable(tmp_path / "table"), tmp_path, alone, block=12)
    row = made.block("ginger-locks calm", Kind("ginger-locks"))
    assert row.broken
    for seed in row.broken:
        kept = tmp_path / "found" / f"ginger-locks-calm-{seed}.toml"
        assert f"# holdfast campaign --protocol ginger-locks --seeds {seed}..{seed}" in kept.read_text()
        assert not judge(load_scenario(kept), "").ok


def test_a_table_with_a_line_that_is_no_row_is_refused_with_its_number(tmp_path: Path):
    path = tmp_path / "table"
    path.write_text("{}\n")
    with pytest.raises(ConfigError, match=r"table:1 is no row"):
        NightTable(path)


def test_the_commit_outside_of_a_checkout_is_unknown(tmp_path: Path):
    assert commit_of(tmp_path) == "unknown"
