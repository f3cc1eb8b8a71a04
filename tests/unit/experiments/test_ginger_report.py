"""What rows become: tables, drawings and claims that follow them, and complaints about those that are not in order."""

import pytest

from holdfast.experiments.experiment import PaperClaim
from holdfast.experiments.ginger import APART_MS, FAULTS, KEYS, THESIS_MS, GingerRow, GingerTrial
from holdfast.experiments.ginger_claims import claims
from holdfast.experiments.ginger_report import report
from holdfast.experiments.ginger_rows import by_rounds, matching
from tests.unit.experiments.rows import all_rows, broken, latency, repaired, row


def claim(rows: list[GingerRow], figure: str, says: str, ours: str = "") -> PaperClaim:
    [found] = [one for one in claims(rows) if one.figure == figure and says in one.says and one.ours.startswith(ours)]
    return found


def test_every_figure_has_a_table_and_a_drawing():
    found = report(all_rows())
    assert [one.name for one in found.figures] == ["figure-5.3", "figure-5.4", "figure-5.5", "pace"]
    assert {one.name for one in found.figures} <= {one.name for one in found.tables}
    lengths = {one.name: len(one.rows) for one in found.tables}
    assert lengths["figure-5.3"] == 4
    assert lengths["figure-5.4"] == 2 * len(FAULTS)
    assert lengths["figure-5.5"] == 2 * len(FAULTS) * len(KEYS)
    for one in found.tables:
        assert all(len(line) == len(one.columns) for line in one.rows)


def test_averages_are_over_the_runs_that_share_everything_but_the_seed():
    rows = [
        row(GingerTrial(interval_ms=APART_MS, seed=1), total=700.0),
        row(GingerTrial(interval_ms=APART_MS, seed=2), total=900.0),
    ]
    rows.append(row(GingerTrial(interval_ms=APART_MS, victims=("1",)), total=5000.0))
    [table] = [one for one in report(rows).tables if one.name == "figure-5.4"]
    by_faults = {line[2]: dict(zip(table.columns, line, strict=True)) for line in table.rows}
    assert (by_faults[0]["runs"], by_faults[0]["total"]) == (2, 800.0)
    assert (by_faults[1]["runs"], by_faults[1]["total"]) == (1, 5000.0)


def test_trials_of_a_higher_tolerance_belong_to_figure_5_3_alone():
    rows = [
        row(GingerTrial(victims=("1",))),
        row(GingerTrial(victims=("1", "0"), tolerance=2)),
        row(GingerTrial(victims=("1", "2"))),
    ]
    assert matching(rows, THESIS_MS, 100, ("1",)) == rows[:1]
    assert matching(rows, THESIS_MS, 100, ("1", "0")) == []
    assert {rounds: len(repairs) for rounds, repairs in by_rounds(rows).items()} == {1: 1, 2: 1}


def test_a_run_that_broke_a_promise_is_in_no_figure_and_has_a_command_that_repeats_it():
    good, bad = row(GingerTrial(seed=1), total=800.0), broken(row(GingerTrial(seed=2), total=9999.0))
    found = report([good, bad])
    [table] = [one for one in found.tables if one.name == "figure-5.4"]
    assert [line[table.columns.index("total")] for line in table.rows] == [800.0]
    [complaint] = found.broken
    assert "lost 3" in complaint
    assert f"holdfast experiment ginger --point '{bad.trial.replay().split(chr(39))[1]}'" in complaint


def test_nothing_is_claimed_and_nothing_drawn_without_rows():
    found = report([])
    assert (found.figures, found.claims, found.broken) == ((), (), ())


def test_more_rounds_taking_longer_is_as_in_the_thesis():
    assert claim(all_rows(), "figure 5.3", "more rounds").agrees


def test_more_rounds_taking_shorter_is_a_difference():
    rows = [row(GingerTrial(victims=("1",))), row(GingerTrial(victims=("1", "0"), tolerance=2))]
    rows[1].repairs[:] = [repaired(2, settling_ms=100.0)]
    found = claim(rows, "figure 5.3", "more rounds")
    assert not found.agrees
    assert found.why
    assert found.ours == "by rounds 1: 1,000 ms, 2: 400 ms."


@pytest.mark.parametrize(("total", "agrees"), [(800.0, True), (220.0, False), (100.0, False)])
def test_whether_total_messages_are_slower_is_read_from_the_rows(total: float, agrees: bool):
    rows = [row(GingerTrial(interval_ms=APART_MS), total=total)]
    assert claim(rows, "figure 5.4", "faster than total", "at 1 s").agrees is agrees


@pytest.mark.parametrize(("step", "agrees"), [(100.0, True), (0.0, False), (-20.0, False)])
def test_whether_faults_cost_is_read_from_the_rows(step: float, agrees: bool):
    rows = []
    for faults, victims in enumerate(FAULTS):
        means = [200.0 + faults * step, 220.0 + faults * step, 800.0 + faults * step]
        rows.append(row(GingerTrial(interval_ms=APART_MS, victims=victims), *means))
    assert claim(rows, "figure 5.4", "more faults", "at 1 s, for").agrees is agrees
    assert claim(rows, "figure 5.4", "more faults", "at 1 s, published").agrees is agrees


@pytest.mark.parametrize(("means", "agrees"), [((900, 850, 820, 800), True), ((800, 820, 850, 900), False)])
def test_whether_keys_help_is_read_from_the_rows(means: tuple[float, ...], agrees: bool):
    rows = [row(GingerTrial(keys, interval_ms=APART_MS), one, one, one) for keys, one in zip(KEYS, means, strict=True)]
    assert claim(rows, "figure 5.5", "more keys").agrees is agrees


def test_a_missing_guarantee_leaves_an_empty_cell():
    lone = row(GingerTrial())
    lone.latency.clear()
    lone.latency["causal"] = latency(5.0)
    [table] = [one for one in report([lone]).tables if one.name == "figure-5.5"]
    assert table.rows[0][-3:] == (None, 5.0, None)
