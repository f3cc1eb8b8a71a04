"""What the rows of the Narada experiment come to; the rows themselves need processes and time."""

from itertools import pairwise

from holdfast.experiments.narada import NaradaRow, NaradaSummary, NaradaTrial, summed_up, trials
from holdfast.experiments.narada_report import report
from holdfast.experiments.reports import markdown
from holdfast.model.reliable import Level


def some(p50_us: float) -> NaradaSummary:
    return NaradaSummary(10, p50_us, 1.0, 0.3, p50_us, 2 * p50_us)


def row(kind: str, topology: str = "A", level: Level = Level.WRITTEN, **figures: float) -> NaradaRow:
    trial = NaradaTrial(kind, topology, level)  # type: ignore[arg-type]
    return NaradaRow(trial, "", {name.replace("_", " "): some(value) for name, value in figures.items()})


def delivery(topology: str, plain: float, kept: float, level: Level = Level.WRITTEN) -> NaradaRow:
    made = row("delivery", topology, level)
    return NaradaRow(made.trial, "", {"best-effort 8192": some(plain), "reliable 8192": some(kept)})


def test_a_summary_has_the_standard_error_of_its_mean():
    found = summed_up([1.0, 2.0, 3.0, 4.0])
    assert (found.count, found.mean_us, found.p50_us, found.p99_us) == (4, 2.5, 2.5, 4.0)
    assert found.deviation_us == 1.29
    assert found.error_us == 0.65


def test_every_row_of_the_papers_table_is_among_the_trials():
    kinds = {trial.kind for trial in trials(quick=True)}
    assert kinds == {"delivery", "storage", "responses", "restart", "recovery"}
    assert len(trials(quick=False)) == len(set(trials(quick=False)))


def test_our_figures_stand_beside_the_papers():
    made = report([delivery("C", 400.0, 1_500.0)])
    table = next(one for one in made.tables if one.name == "table-1")
    operation, *figures = table.rows[0]
    assert operation == "delivery, 3 brokers, 3 repositories"
    assert figures == ["sqlite, written", "10.5 ms", "930 µs", "1.5 ms", "1 µs", "1.5 ms", "3 ms", 7.0]
    assert len(table.rows) == 1


def test_a_goal_is_judged_by_the_worst_trial_that_it_is_meant_for():
    made = report([delivery("C", 400.0, 1_500.0), delivery("C", 400.0, 9_000.0, Level.FSYNCED), row("recovery", "C")])
    goals = {one.title: one for one in made.goals}
    fast = goals["reliable delivery in topology C, 8 KiB, without fsync"]
    assert (fast.wanted, fast.ours, fast.met) == ("≤ 2 ms", "1.5 ms", True)
    slow = report([delivery("C", 400.0, 2_500.0)]).goals[0]
    assert (slow.ours, slow.met) == ("2.5 ms", False)
    assert goals["recovery of a repository, 1,000 missed, 20 clients"].met is None


def test_the_papers_claims_are_held_against_all_three_topologies():
    rows = [delivery("A", 300.0, 900.0), delivery("B", 400.0, 1_000.0), delivery("C", 400.0, 1_100.0)]
    made = report(rows)
    assert [claim.agrees for claim in made.claims] == [True, True]
    assert [figure.name for figure in made.figures] == ["figure-3", "figure-4", "figure-5", "figure-6"]
    assert not report(rows[:2]).claims


def test_a_trial_that_failed_is_told_with_the_command_that_repeats_it_and_is_in_no_table():
    failed = NaradaRow(NaradaTrial("restart"), "broker b0 ended", {})
    made = report([failed])
    assert "broker b0 ended" in made.broken[0]
    assert """holdfast experiment narada --point '{"kind":"restart",""" in made.broken[0]
    assert not any(table.rows for table in made.tables)


def test_the_page_says_which_goals_are_met():
    page = markdown(
        report([delivery("C", 400.0, 1_500.0), row("storage", storing_amortised=300.0, finding_amortised=9.0)])
    )
    assert "| reliable delivery in topology C, 8 KiB, without fsync | ≤ 2 ms | 1.5 ms | met |" in page
    assert "| storing a message, amortised, without fsync | ≤ 100 µs | 300 µs | missed |" in page


def test_the_payloads_of_a_sweep_grow():
    for trial in trials(quick=False):
        assert all(before < after for before, after in pairwise(trial.sizes))
