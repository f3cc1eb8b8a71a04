"""What the rows of the experiment on sites come to."""

from collections.abc import Callable, Sequence
from statistics import mean, median

from holdfast.experiments.charts import Chart, Series, draw
from holdfast.experiments.experiment import ExperimentReport, Figure, PaperClaim, ReportTable
from holdfast.experiments.sesdad import SITES, Row

POLICIES = ("flooding", "filtering")


def report(rows: Sequence[Row]) -> ExperimentReport:
    """Tables, drawings, and what the report claims in words held against them."""
    routing = [row for row in rows if row.point.what == "routing"]
    recovery = [row for row in rows if row.point.what == "recovery"]
    broken = tuple(f"{row.complaint}: {row.point.replay()}" for row in rows if not row.kept)
    return ExperimentReport(
        "SESDAD: sites of three brokers",
        (_routing_table(routing), _load_table(routing), _recovery_table(recovery)),
        _figures(routing, recovery),
        tuple(_claims(routing, recovery)),
        broken,
        source="report, which has no figures of its own",
    )


def _mean(rows: Sequence[Row], value: Callable[[Row], float]) -> float:
    return round(mean(map(value, rows)), 3) if rows else 0.0


def _at(rows: Sequence[Row], policy: str, interested: int) -> list[Row]:
    return [row for row in rows if (row.point.routing, row.point.interested) == (policy, interested)]


def _shares(rows: Sequence[Row]) -> list[int]:
    return sorted({row.point.interested for row in rows})


def _routing_table(rows: Sequence[Row]) -> ReportTable:
    lines = tuple(
        (
            f"{interested} of {len(SITES)}",
            policy,
            _mean(_at(rows, policy, interested), lambda row: row.messages_per_delivery),
            _mean(_at(rows, policy, interested), lambda row: row.latency_ms),
        )
        for interested in _shares(rows)
        for policy in POLICIES
    )
    columns = ("interested sites", "routing", "messages a delivery", "mean latency, ms")
    return ReportTable("routing", "Flooding against filtering", columns, lines)


def _load_table(rows: Sequence[Row]) -> ReportTable:
    lines = tuple(
        (f"a.{number + 1}", _mean(rows, lambda row, at=number: 100 * row.shares[at]))  # type: ignore[misc]
        for number in range(3)
    )
    return ReportTable("load", "Load over the three brokers of the root site", ("broker", "sent on by it, %"), lines)


def _recovery_table(rows: Sequence[Row]) -> ReportTable:
    lines = []
    for timers in ("report", "adaptive"):
        took = [row.recovery_ms for row in rows if row.point.timers == timers]
        lines.append((timers, len(took), round(median(took), 1) if took else None, round(max(took, default=0.0), 1)))
    columns = ("timers", "runs", "median, ms", "longest, ms")
    return ReportTable("recovery", "How long a last message took, two of three links silent", columns, tuple(lines))


def _figures(routing: Sequence[Row], recovery: Sequence[Row]) -> tuple[Figure, ...]:
    places = tuple(str(interested) for interested in _shares(routing))
    series = tuple(
        Series(
            policy,
            tuple(_mean(_at(routing, policy, int(place)), lambda row: row.messages_per_delivery) for place in places),
        )
        for policy in POLICIES
    )
    charts = [Chart("Messages a delivery", places, series, "interested sites of 6", "messages", "lines")]
    timers = ("report", "adaptive")
    longest = tuple(
        max((row.recovery_ms for row in recovery if row.point.timers == name), default=0.0) for name in timers
    )
    charts.append(Chart("Longest last message", timers, (Series("ms", longest),), "timers", "ms"))
    return (Figure("sesdad", "Routing and recovery", draw(charts)),)


def _claims(routing: Sequence[Row], recovery: Sequence[Row]) -> list[PaperClaim]:
    copies = _mean(routing, lambda row: row.replicate_per_unit)
    few = _shares(routing)[0] if routing else 0
    flooding, filtering = (
        _mean(_at(routing, policy, few), lambda row: row.messages_per_delivery) for policy in POLICIES
    )
    spread = [_mean(routing, lambda row, at=number: row.shares[at]) for number in range(3)]  # type: ignore[misc]
    report_ms = max((row.recovery_ms for row in recovery if row.point.timers == "report"), default=0.0)
    adaptive_ms = max((row.recovery_ms for row in recovery if row.point.timers == "adaptive"), default=0.0)
    return [
        PaperClaim(
            "section 8", "two copies of a publication in a site of three", f"{copies:g} copies", 1.9 < copies < 2.3
        ),
        PaperClaim(
            "section 3",
            "filtering sends less than flooding",
            f"{filtering:g} against {flooding:g} messages a delivery with {few} interested sites",
            filtering < flooding,
        ),
        PaperClaim(
            "section 8", "the load is spread", ", ".join(f"{100 * one:.0f} %" for one in spread), min(spread) > 0.2
        ),
        PaperClaim(
            "section 6",
            "waits may be set; 1.5 s and 3 s are the report's",
            f"a last message takes up to {report_ms:.0f} ms with these, {adaptive_ms:.0f} ms with ours",
            adaptive_ms <= report_ms,
        ),
    ]
