"""What the trials come to: the tables and drawings of figures 5.3 to 5.5, and where they differ from the thesis'.

The thesis prints its figures without their numbers, so what is compared is what its text says of them.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from statistics import mean

from msgspec.structs import astuple

from holdfast.experiments.charts import Chart, Series, draw
from holdfast.experiments.experiment import Cell, ExperimentReport, Figure, ReportTable
from holdfast.experiments.ginger import APART_MS, FAULTS, FELT_S, KEYS, PACES_MS, THESIS_KEYS, THESIS_MS, GingerRow
from holdfast.experiments.ginger_claims import claims
from holdfast.experiments.ginger_rows import (
    GUARANTEES,
    Pick,
    all_messages,
    averages_ms,
    by_rounds,
    felt_messages,
    matching,
    means_ms,
    orphaning,
)
from holdfast.experiments.repairs import RepairTrial

COLORS = {"eventual": "#6b7785", "causal": "#0b5394", "total": "#d9822b"}
FAULT_COLORS = ("#14212e", "#5b9bd5", "#d9822b", "#b8373d")
REPAIR_COLUMNS = ("repairs", "mean", "least", "most", "asking", "settling", "doubt before", "since fault")
DETAIL_COLUMNS = (
    *("interval_ms", "keys", "victims", "tolerance", "operations", "seed", "which", "guarantee"),
    *("deliveries", "mean_ms", "p50_ms", "p99_ms", "max_ms"),
)
PACE_NAMES = {THESIS_MS: "every 50 ms, as in the thesis", APART_MS: "every second"}
PACE_UNITS = {THESIS_MS: ("s", 0.001), APART_MS: ("ms", 1.0)}
"""What latencies are drawn in, and how many of it a millisecond is."""

Measure = Callable[[Sequence[GingerRow], str], list[float]]


def report(rows: Sequence[GingerRow]) -> ExperimentReport:
    """Tables, drawings and claims of the rows that are in order, and a complaint for every one that is not."""
    good = [row for row in rows if row.kept]
    return ExperimentReport(
        "Ginger: the experiments of the thesis' section 5.4 in the simulator",
        tuple(_tables(good)),
        tuple(_figures(good)),
        tuple(claims(good)),
        tuple(f"{row.complaint}\nto see it again: {row.trial.replay()}" for row in rows if row.complaint),
    )


# ----------------------------------------------------------------------------------------------------------- tables


def _tables(rows: Sequence[GingerRow]) -> Iterable[ReportTable]:
    yield _rounds_table(rows)
    yield _victims_table(rows)
    yield _latency_table(rows, "figure-5.4", "Mean latency in ms by faults (figure 5.4)", (THESIS_KEYS,), felt=True)
    yield _latency_table(rows, "figure-5.5", "Mean latency in ms by keys and faults (figure 5.5)", KEYS)
    yield _pace_table(rows)
    yield _details_table(rows)


def _rounds_table(rows: Sequence[GingerRow]) -> ReportTable:
    lines = tuple((rounds, *_repair_cells(repairs)) for rounds, repairs in by_rounds(rows).items())
    return ReportTable("figure-5.3", "Reconfiguration in ms by rounds (figure 5.3)", ("rounds", *REPAIR_COLUMNS), lines)


def _victims_table(rows: Sequence[GingerRow]) -> ReportTable:
    found: dict[tuple[str, str, int], list[RepairTrial]] = {}
    for row in orphaning(rows):
        for one in row.repairs:
            found.setdefault((" ".join(row.trial.victims), f"{one.broker} to {one.parent}", one.rounds), []).append(one)
    ordered = sorted(found.items(), key=lambda item: (len(item[0][0]), item[0]))
    lines = tuple((*place, *_repair_cells(repairs)) for place, repairs in ordered)
    columns = ("victims", "who", "rounds", *REPAIR_COLUMNS)
    return ReportTable("figure-5.3-by-victims", "Reconfiguration in ms by who died", columns, lines, detail=True)


def _repair_cells(repairs: Sequence[RepairTrial]) -> tuple[Cell, ...]:
    whole = [one.reconfiguration_ms for one in repairs]
    parts = ("asking_ms", "settling_ms", "doubt_ms", "since_fault_ms")
    means = (_ms(mean(getattr(one, part) for one in repairs)) for part in parts)
    return (len(repairs), _ms(mean(whole)), _ms(min(whole)), _ms(max(whole)), *means)


def _latency_table(
    rows: Sequence[GingerRow], name: str, title: str, keys: Sequence[int], felt: bool = False
) -> ReportTable:
    picks = (all_messages, felt_messages) if felt else (all_messages,)
    lines: list[tuple[Cell, ...]] = []
    for pace_ms, key_count, victims in product(PACE_NAMES, keys, FAULTS):
        runs = matching(rows, pace_ms, key_count, victims)
        if runs:
            lines.append((_ms(pace_ms), key_count, len(victims), len(runs), *_means(runs, picks)))
    columns = ("apart", "keys", "faults", "runs", *GUARANTEES, *(f"felt {one}" for one in GUARANTEES if felt))
    return ReportTable(name, title, columns, tuple(lines))


def _means(runs: Sequence[GingerRow], picks: Sequence[Pick] = (all_messages,)) -> Iterable[Cell]:
    for pick in picks:
        found = averages_ms(runs, pick)
        yield from (_ms(found[name]) if name in found else None for name in GUARANTEES)


def _pace_table(rows: Sequence[GingerRow]) -> ReportTable:
    groups = [(pace_ms, "yes", matching(rows, pace_ms, THESIS_KEYS, ())) for pace_ms in PACES_MS]
    groups.append((THESIS_MS, "no", [row for row in rows if row.trial.total == 0]))
    lines = tuple((_ms(pace_ms), total, len(runs), *_means(runs)) for pace_ms, total, runs in groups if runs)
    columns = ("apart", "total messages", "runs", *GUARANTEES)
    return ReportTable("pace", "Mean latency in ms by the interval between publications, no faults", columns, lines)


def _details_table(rows: Sequence[GingerRow]) -> ReportTable:
    lines = []
    for row in rows:
        trial = row.trial
        for which, found in (("all", row.latency), ("felt", row.felt)):
            for guarantee, one in found.items():
                setting = (trial.interval_ms, trial.keys, " ".join(trial.victims), trial.tolerance, trial.operations)
                lines.append((*setting, trial.seed, which, guarantee, *astuple(one)))
    return ReportTable("latencies", "Latency of every run", DETAIL_COLUMNS, tuple(lines), detail=True)


def _ms(value: float) -> float:
    return round(value, 1)


# --------------------------------------------------------------------------------------------------------- drawings


def _figures(rows: Sequence[GingerRow]) -> Iterable[Figure]:
    if by_rounds(rows):
        title = "Reconfiguration time by rounds, as the thesis defines it and with what comes before"
        yield Figure("figure-5.3", title, draw(_round_charts(by_rounds(rows))))
    for name, title, charts in (
        ("figure-5.4", "Latency by guarantee for 0 to 3 faults", _fault_charts(rows)),
        ("figure-5.5", "Latency by number of keys for 0 to 3 faults", _key_charts(rows)),
        ("pace", "Latency by the interval between publications, without faults", _pace_charts(rows)),
    ):
        if charts:
            yield Figure(name, title, draw(charts))


def _round_charts(found: dict[int, list[RepairTrial]]) -> list[Chart]:
    places = tuple(map(str, found))
    whole = [[one.reconfiguration_ms for one in repairs] for repairs in found.values()]
    bars = Series("mean, least and most", tuple(map(mean, whole)), tuple((min(one), max(one)) for one in whole))
    parts = (
        ("doubt", "doubt_ms", "#b7c3cf"),
        ("asking", "asking_ms", "#d9822b"),
        ("settling", "settling_ms", "#0b5394"),
    )
    stack = tuple(
        Series(name, tuple(mean(getattr(one, part) for one in repairs) for repairs in found.values()), color=color)
        for name, part, color in parts
    )
    return [
        Chart("Suspicion to last missed message", places, (bars,), "rounds", "ms"),
        Chart("Where the time goes, from the lost connection on", places, stack, "rounds", "ms", "stack"),
    ]


def _series(name: str, runs: Iterable[Sequence[float]], color: str, scale: float = 1.0) -> Series:
    """Means over runs."""
    return Series(name, tuple(scale * mean(one) if one else None for one in runs), color=color)


def _fault_charts(rows: Sequence[GingerRow]) -> list[Chart]:
    asked: tuple[tuple[str, float, Measure], ...] = (
        ("all messages", THESIS_MS, _mean_ms),
        ("all messages", APART_MS, _mean_ms),
        (f"published up to {FELT_S:g} s after the faults", APART_MS, _felt_ms),
        ("99th percentile", APART_MS, _p99_ms),
    )
    charts = [_fault_chart(rows, *one) for one in asked]
    return [chart for chart in charts if _has_values(chart)]


def _fault_chart(rows: Sequence[GingerRow], which: str, pace_ms: float, measure: Measure) -> Chart:
    unit, scale = PACE_UNITS[pace_ms]
    series = []
    for guarantee in GUARANTEES:
        runs = [measure(matching(rows, pace_ms, THESIS_KEYS, victims), guarantee) for victims in FAULTS]
        series.append(_series(guarantee, runs, COLORS[guarantee], scale))
    places = tuple(str(len(victims)) for victims in FAULTS)
    title = f"{PACE_NAMES[pace_ms].capitalize()}: {which}"
    return Chart(title, places, tuple(series), "faults", f"latency, {unit}")


def _mean_ms(runs: Sequence[GingerRow], guarantee: str) -> list[float]:
    return means_ms(runs, guarantee)


def _felt_ms(runs: Sequence[GingerRow], guarantee: str) -> list[float]:
    return means_ms(runs, guarantee, felt_messages)


def _p99_ms(runs: Sequence[GingerRow], guarantee: str) -> list[float]:
    return [row.latency[guarantee].p99_ms for row in runs if guarantee in row.latency]


def _key_charts(rows: Sequence[GingerRow]) -> list[Chart]:
    charts = [_key_chart(rows, guarantee, pace_ms) for guarantee in GUARANTEES for pace_ms in PACE_NAMES]
    return [chart for chart in charts if _has_values(chart)]


def _key_chart(rows: Sequence[GingerRow], guarantee: str, pace_ms: float) -> Chart:
    unit, scale = PACE_UNITS[pace_ms]
    series = []
    for victims, color in zip(FAULTS, FAULT_COLORS, strict=True):
        runs = [means_ms(matching(rows, pace_ms, keys, victims), guarantee) for keys in KEYS]
        name = "1 fault" if len(victims) == 1 else f"{len(victims)} faults"
        series.append(_series(name, runs, color, scale))
    title = f"{guarantee}, {PACE_NAMES[pace_ms]}"
    return Chart(title, tuple(map(str, KEYS)), tuple(series), "keys", f"mean latency, {unit}", "lines")


def _pace_charts(rows: Sequence[GingerRow]) -> list[Chart]:
    series = tuple(
        _series(
            guarantee,
            [means_ms(matching(rows, pace_ms, THESIS_KEYS, ()), guarantee) for pace_ms in PACES_MS],
            COLORS[guarantee],
        )
        for guarantee in GUARANTEES
    )
    places = tuple(f"{pace_ms:g}" for pace_ms in PACES_MS)
    chart = Chart(
        "100 keys, no faults",
        places,
        series,
        "ms between two publications of a client",
        "mean latency, ms",
        "lines",
        logarithmic=True,
    )
    return [chart] if _has_values(chart) else []


def _has_values(chart: Chart) -> bool:
    return any(value is not None for one in chart.series for value in one.values)
