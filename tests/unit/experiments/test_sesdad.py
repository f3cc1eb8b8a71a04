"""The experiment on sites: points that can be run alone, and a report of rows."""

from statistics import mean

from msgspec.structs import replace

from holdfast.experiments.reports import markdown
from holdfast.experiments.sesdad import PROTOCOLS, Point, points, run
from holdfast.experiments.sesdad_report import report


def test_filtering_sends_less_than_flooding_where_few_are_interested_and_as_much_where_all_are():
    few = {policy: run(Point("routing", policy, 0, operations=20)) for policy in ("flooding", "filtering")}
    assert all(row.kept for row in few.values())
    assert few["flooding"].messages_per_delivery == 6 * few["filtering"].messages_per_delivery
    assert few["filtering"].replicate_per_unit == 2


def test_a_last_message_comes_sooner_with_adaptive_timers():
    took = {timers: run(Point("recovery", timers=timers, seed=1)).recovery_ms for timers in ("report", "adaptive")}
    assert took["adaptive"] < took["report"]


def test_brokers_that_flood_get_fewer_publications_through_where_few_are_interested():
    flooding, filtering = (
        Point("throughput", policy, 0, operations=60, every_ms=0.1) for policy in ("flooding", "filtering")
    )
    assert run(flooding).per_s < run(filtering).per_s


def test_agreement_on_every_message_is_waited_for_and_led_by_one_broker():
    alone, agreed = (
        run(Point("agreement", interested=2, protocol=one, every_ms=2.0, operations=40)) for one in PROTOCOLS
    )
    assert alone.kept
    assert agreed.kept
    assert (alone.within_per_unit, agreed.replicate_per_unit < 1) == (4.0, True)
    assert alone.latency_ms < agreed.latency_ms
    assert alone.busiest_share < agreed.busiest_share


def test_the_loss_of_the_designated_broker_stops_a_site_that_agrees_for_longer():
    """On average: in a single run either may be lucky, as the seed decides for which publications it was chosen."""
    means = [
        mean(
            run(Point("loss", interested=0, protocol=one, every_ms=5.0, operations=60, seed=seed)).gap_ms
            for seed in range(6)
        )
        for one in PROTOCOLS
    ]
    assert means[0] < means[1]


def test_a_report_is_made_of_rows_and_names_broken_runs():
    chosen = [point for point in points(quick=True) if point.what != "recovery" and point.interested < 3]
    rows = [run(replace(point, operations=5)) for point in chosen][:4]
    rows += [run(Point("agreement", interested=0, protocol=one, every_ms=50.0, operations=5)) for one in PROTOCOLS]
    rows += [run(Point("recovery", timers="report")), run(Point("recovery"))]
    made = report([*rows, replace(rows[0], kept=False, complaint="lost")])
    assert [table.name for table in made.tables] == ["routing", "load", "agreement", "loss", "recovery", "results"]
    assert len(made.broken) == 1
    assert made.figures[0].svg.startswith("<svg")
    page = markdown(made)
    assert page.startswith("# SESDAD: sites of three brokers\n\nThe report has no figures of its own")
    assert "as in the report. The report: two copies of a publication in a site of three. Here: " in page
