"""What the rows of the experiment on sites come to."""

from collections.abc import Callable, Sequence
from statistics import mean, median

from msgspec.structs import asdict

from holdfast.experiments.charts import Chart, Series, draw
from holdfast.experiments.experiment import Cell, ExperimentReport, Figure, PaperClaim, ReportTable
from holdfast.experiments.sesdad import PACES_MS, PROTOCOLS, SITES, Row

POLICIES = ("flooding", "filtering")
TIMERS = ("report", "adaptive")
Measure = Callable[[Row], float]


def report(rows: Sequence[Row]) -> ExperimentReport:
    """Tables, drawings, and what the report claims in words held against them."""
    kept = [row for row in rows if row.kept]
    routing, throughput, agreement, loss, recovery = (
        [row for row in kept if row.point.what == what]
        for what in ("routing", "throughput", "agreement", "loss", "recovery")
    )
    broken = tuple(f"{row.complaint}: {row.point.replay()}" for row in rows if not row.kept)
    tables = (
        _routing_table(routing, throughput),
        _load_table(routing),
        _agreement_table(agreement),
        _loss_table(loss),
        _recovery_table(recovery),
        _details(rows),
    )
    figures = (
        Figure("sesdad-routing", "Flooding and filtering", draw(_routing_charts(routing, throughput))),
        Figure("sesdad-agreement", "With and without agreement", draw(_agreement_charts(agreement, loss))),
        Figure("sesdad-recovery", "A last message", draw([_recovery_chart(recovery)])),
    )
    return ExperimentReport(
        "SESDAD: sites of three brokers",
        tables,
        figures,
        tuple(_claims(routing, throughput, agreement, loss, recovery)),
        broken,
        source="report",
        remark="The report has no figures of its own: it evaluates the protocol in words. All figures are ours.",
    )


def _mean(rows: Sequence[Row], value: Measure) -> float:
    return round(mean(map(value, rows)), 3) if rows else 0.0


def _at(rows: Sequence[Row], policy: str, interested: int) -> list[Row]:
    return [row for row in rows if (row.point.routing, row.point.interested) == (policy, interested)]


def _shares(rows: Sequence[Row]) -> list[int]:
    return sorted({row.point.interested for row in rows})


def _paced(rows: Sequence[Row], protocol: str, every_ms: float, replicas: int = 3) -> list[Row]:
    wanted = (protocol, every_ms, replicas)
    return [row for row in rows if (row.point.protocol, row.point.every_ms, row.point.replicas) == wanted]


def _latency_ms(row: Row) -> float:
    return row.latency_ms


def _messages(row: Row) -> float:
    return row.messages_per_delivery


def _per_s(row: Row) -> float:
    return row.per_s


def _within(row: Row) -> float:
    return row.within_per_unit


# ------------------------------------------------------------------------------------------------------------- tables


def _routing_table(rows: Sequence[Row], throughput: Sequence[Row]) -> ReportTable:
    lines = tuple(
        (
            f"{interested} of {len(SITES)}",
            policy,
            _mean(_at(rows, policy, interested), _messages),
            _mean(_at(rows, policy, interested), _latency_ms),
            _mean(_at(throughput, policy, interested), _per_s),
        )
        for interested in _shares(rows)
        for policy in POLICIES
    )
    columns = ("interested sites", "routing", "messages a delivery", "mean latency, ms", "publications/s at 1 Mbit/s")
    return ReportTable("routing", "Flooding against filtering", columns, lines)


def _load_table(rows: Sequence[Row]) -> ReportTable:
    lines = tuple(
        (f"a.{number + 1}", _mean(rows, lambda row, at=number: 100 * row.shares[at]))  # type: ignore[misc]
        for number in range(3)
    )
    return ReportTable("load", "Load over the three brokers of the root site", ("broker", "sent on by it, %"), lines)


def _agreement_table(rows: Sequence[Row]) -> ReportTable:
    lines = tuple(
        (
            replicas,
            every_ms,
            protocol,
            _mean(found, _latency_ms),
            _mean(found, _within),
            _mean(found, _per_s),
            _mean(found, lambda row: 100 * row.busiest_share),
        )
        for replicas in sorted({row.point.replicas for row in rows})
        for every_ms in PACES_MS
        for protocol in PROTOCOLS
        if (found := _paced(rows, protocol, every_ms, replicas))
    )
    columns = (
        *("brokers a site", "apart, ms", "protocol", "mean latency, ms", "messages in a site"),
        *("publications/s", "bytes sent by the first broker, %"),
    )
    return ReportTable("agreement", "With and without agreement on every message", columns, lines)


def _loss_table(rows: Sequence[Row]) -> ReportTable:
    lines = []
    for protocol in PROTOCOLS:
        gaps = [row.gap_ms for row in rows if row.point.protocol == protocol]
        lines.append((protocol, len(gaps), round(median(gaps), 1) if gaps else None, round(max(gaps, default=0.0), 1)))
    columns = ("protocol", "runs", "median, ms", "longest, ms")
    return ReportTable(
        "loss", "Longest pause when the designated broker dies, a publication every 5 ms", columns, tuple(lines)
    )


def _recovery_table(rows: Sequence[Row]) -> ReportTable:
    lines = []
    for timers in TIMERS:
        took = [row.recovery_ms for row in rows if row.point.timers == timers]
        lines.append((timers, len(took), round(median(took), 1) if took else None, round(max(took, default=0.0), 1)))
    columns = ("timers", "runs", "median, ms", "longest, ms")
    return ReportTable("recovery", "How long a last message took, two of three links silent", columns, tuple(lines))


def _details(rows: Sequence[Row]) -> ReportTable:
    lines: list[tuple[Cell, ...]] = []
    columns: tuple[str, ...] = ()
    for row in rows:
        told = {**asdict(row.point), **asdict(row)}
        del told["point"]
        told["shares"] = " ".join(f"{share:.4f}" for share in row.shares)
        columns = tuple(told)
        lines.append(tuple(told.values()))
    return ReportTable("results", "Every run", columns, tuple(lines), detail=True)


# ------------------------------------------------------------------------------------------------------------ figures


def _routing_charts(routing: Sequence[Row], throughput: Sequence[Row]) -> list[Chart]:
    places = tuple(str(interested) for interested in _shares(routing))

    def chart(title: str, rows: Sequence[Row], value: Measure, unit: str) -> Chart:
        series = tuple(
            Series(policy, tuple(_mean(_at(rows, policy, int(place)), value) for place in places))
            for policy in POLICIES
        )
        return Chart(title, places, series, f"interested sites of {len(SITES)}", unit, "lines")

    return [
        chart("Messages a delivery", routing, _messages, "messages"),
        chart("Publications/s, brokers of 1 Mbit/s", throughput, _per_s, "a second"),
    ]


def _agreement_charts(rows: Sequence[Row], loss: Sequence[Row]) -> list[Chart]:
    places = tuple(f"{every_ms:g}" for every_ms in PACES_MS)

    def chart(title: str, value: Measure, unit: str) -> Chart:
        series = tuple(
            Series(protocol, tuple(_mean(_paced(rows, protocol, every_ms), value) for every_ms in PACES_MS))
            for protocol in PROTOCOLS
        )
        return Chart(title, places, series, "ms between publications", unit, "bars")

    gaps = tuple(
        Series(name, (round(max((row.gap_ms for row in loss if row.point.protocol == name), default=0.0), 1),))
        for name in PROTOCOLS
    )
    return [
        chart("Mean latency", _latency_ms, "ms"),
        chart("Messages in a site for a publication", _within, "messages"),
        Chart("Longest pause", ("designated broker dies",), gaps, "", "ms"),
    ]


def _recovery_chart(rows: Sequence[Row]) -> Chart:
    longest = tuple(max((row.recovery_ms for row in rows if row.point.timers == name), default=0.0) for name in TIMERS)
    return Chart("Longest last message", TIMERS, (Series("ms", longest),), "timers", "ms")


# ------------------------------------------------------------------------------------------------------------- claims


def _claims(
    routing: Sequence[Row],
    throughput: Sequence[Row],
    agreement: Sequence[Row],
    loss: Sequence[Row],
    recovery: Sequence[Row],
) -> list[PaperClaim]:
    copies = _mean(routing, lambda row: row.replicate_per_unit)
    few = _shares(routing)[0] if routing else 0
    flooding, filtering = (_mean(_at(routing, policy, few), _messages) for policy in POLICIES)
    flooded, filtered = (_mean(_at(throughput, policy, few), _per_s) for policy in POLICIES)
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
            "section 3.1",
            "flooding decreases the throughput",
            f"{flooded:.0f} against {filtered:.0f} publications a second with {few} interested sites",
            flooded < filtered,
        ),
        PaperClaim(
            "section 8", "the load is spread", ", ".join(f"{100 * one:.0f} %" for one in spread), min(spread) > 0.2
        ),
        *_agreement_claims(agreement, loss),
        PaperClaim(
            "section 6",
            "waits may be set; 1.5 s and 3 s are the report's",
            f"a last message takes up to {report_ms:.0f} ms with these, {adaptive_ms:.0f} ms with ours",
            adaptive_ms <= report_ms,
        ),
    ]


def _agreement_claims(agreement: Sequence[Row], loss: Sequence[Row]) -> list[PaperClaim]:
    slow, fast = PACES_MS[0], PACES_MS[-1]
    took = [_mean(_paced(agreement, protocol, fast), _latency_ms) for protocol in PROTOCOLS]
    said = [_mean(_paced(agreement, protocol, slow), _within) for protocol in PROTOCOLS]
    shares = [_mean(_paced(agreement, protocol, slow), lambda row: 100 * row.busiest_share) for protocol in PROTOCOLS]
    gaps = [max((row.gap_ms for row in loss if row.point.protocol == name), default=0.0) for name in PROTOCOLS]
    return [
        PaperClaim(
            "section 8",
            "without agreement the wait within a site is shorter",
            f"{took[0]:.1f} against {took[1]:.1f} ms on average, a publication every {fast:g} ms",
            took[0] < took[1],
        ),
        PaperClaim(
            "section 8",
            "agreement costs more messages",
            f"{said[0]:.2f} against {said[1]:.2f} in a site, a publication every {slow:g} ms",
            said[0] < said[1],
            "Little more, as the designated broker orders and copies at once; in a hurry it needs fewer, since what "
            "waits gets its places together.",
        ),
        PaperClaim(
            "section 8",
            "agreement has no load-balancing",
            f"the designated broker sends {shares[0]:.0f} against {shares[1]:.0f} % of a site's bytes",
            shares[0] < shares[1],
        ),
        PaperClaim(
            "section 8",
            "a lost broker is waited for by its own messages alone",
            f"the longest pause when the designated broker dies: {gaps[0]:.0f} against {gaps[1]:.0f} ms",
            gaps[0] < gaps[1],
            "This one is ours: the report does not speak of it.",
        ),
    ]
