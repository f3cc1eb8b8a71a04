"""The experiment on sites: points that can be run alone, and a report of rows."""

from msgspec.structs import replace

from holdfast.experiments.sesdad import Point, points, run
from holdfast.experiments.sesdad_report import report


def test_filtering_sends_less_than_flooding_where_few_are_interested_and_as_much_where_all_are():
    few = {policy: run(Point("routing", policy, 0, operations=20)) for policy in ("flooding", "filtering")}
    assert all(row.kept for row in few.values())
    assert few["flooding"].messages_per_delivery == 6 * few["filtering"].messages_per_delivery
    assert few["filtering"].replicate_per_unit == 2


def test_a_last_message_comes_sooner_with_adaptive_timers():
    took = {timers: run(Point("recovery", timers=timers, seed=1)).recovery_ms for timers in ("report", "adaptive")}
    assert took["adaptive"] < took["report"]


def test_a_report_is_made_of_rows_and_names_broken_runs():
    rows = [run(replace(point, operations=5)) for point in points(quick=True) if point.what == "routing"][:4]
    rows += [run(Point("recovery", timers="report")), run(Point("recovery"))]
    made = report([*rows, replace(rows[0], kept=False, complaint="lost")])
    assert [table.name for table in made.tables] == ["routing", "load", "recovery"]
    assert len(made.broken) == 1
    assert made.figures[0].svg.startswith("<svg")
