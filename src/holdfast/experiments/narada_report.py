"""What the trials come to: Table 1 and figures 3 to 6 beside the paper's, and which goals are met."""

from collections.abc import Iterable, Sequence

from msgspec.structs import astuple

from holdfast.experiments.charts import Chart, Series, draw
from holdfast.experiments.experiment import Cell, ClaimReached, ExperimentReport, Figure, PaperClaim, ReportTable
from holdfast.experiments.narada import LEVELS, PAPER_BYTES, TOPOLOGIES, NaradaRow, NaradaSummary
from holdfast.experiments.narada_paper import GOALS, TABLE, PaperGoal, Printed
from holdfast.model.reliable import Level

COLORS = {"best effort": "#6b7785", "reliable, written": "#0b5394", "reliable, fsynced": "#d9822b"}
FIGURE_OF = {"A": "figure 3", "B": "figure 4", "C": "figure 5"}
TABLE_COLUMNS = ("operation", "with", "paper", "± paper", "mean", "±", "median", "p99", "paper / median")
DELIVERY_COLUMNS = ("topology", "level", "bytes", "best effort", "reliable", "overhead", "p99", "reliable p99")


def report(rows: Sequence[NaradaRow]) -> ExperimentReport:
    """Tables, drawings and goals of the rows that are in order, and a complaint for every one that is not."""
    good = [row for row in rows if not row.complaint]
    return ExperimentReport(
        "Reliable delivery: Table 1 and figures 3 to 6 of the NaradaBrokering paper, on processes of this machine",
        tuple(_tables(good)),
        tuple(_figures(good)),
        tuple(_claims(good)),
        tuple(f"{row.complaint}\nto see it again: {row.trial.replay()}" for row in rows if row.complaint),
        "paper",
        tuple(_reached(goal, good) for goal in GOALS),
    )


# ----------------------------------------------------------------------------------------------------------- tables


def _tables(rows: Sequence[NaradaRow]) -> Iterable[ReportTable]:
    lines = [line for printed in TABLE for line in _beside(printed, rows)]
    yield ReportTable(
        "table-1", "Table 1: the paper's means and standard deviations, and ours", TABLE_COLUMNS, tuple(lines)
    )
    yield ReportTable(
        "delivery",
        "End-to-end delivery, medians in microseconds (figures 3 to 6)",
        DELIVERY_COLUMNS,
        tuple(_delivery_lines(rows)),
    )
    yield ReportTable(
        "amortised",
        "Storing and retrieving in commits and reads of 64 messages of 8 KiB, microseconds a message",
        ("store", "level", "storing", "retrieving"),
        tuple(_amortised_lines(rows)),
    )
    yield _details(rows)


def _beside(printed: Printed, rows: Sequence[NaradaRow]) -> Iterable[tuple[Cell, ...]]:
    for row in rows:
        trial, found = row.trial, row.figures.get(printed.figure)
        if found is None or trial.kind != printed.kind or printed.topology not in ("", trial.topology):
            continue
        shares_store = printed.kind not in ("restart", "responses")
        times = (printed.mean_us, printed.deviation_us, found.mean_us, found.deviation_us, found.p50_us, found.p99_us)
        yield (
            printed.operation,
            f"{trial.store}, {trial.level}" if shares_store else "",
            *map(_time_text, times),
            round(printed.mean_us / found.p50_us, 1),
        )


def _delivery_lines(rows: Sequence[NaradaRow]) -> Iterable[tuple[Cell, ...]]:
    for row in _rows_with(rows, "delivery"):
        for size in row.trial.sizes:
            plain, kept = row.figures[f"best-effort {size}"], row.figures[f"reliable {size}"]
            overhead = round(kept.p50_us - plain.p50_us, 1)
            place = (row.trial.topology, row.trial.level.value, size)
            yield (*place, plain.p50_us, kept.p50_us, overhead, plain.p99_us, kept.p99_us)


def _amortised_lines(rows: Sequence[NaradaRow]) -> Iterable[tuple[Cell, ...]]:
    for row in _rows_with(rows, "storage"):
        figures = (row.figures["storing amortised"].p50_us, row.figures["finding amortised"].p50_us)
        yield (row.trial.store, row.trial.level.value, *figures)


def _details(rows: Sequence[NaradaRow]) -> ReportTable:
    columns = ("kind", "topology", "store", "level", "figure", "count", "mean", "deviation", "error", "p50", "p99")
    lines = [
        (trial.kind, trial.topology, trial.store, trial.level.value, name, *astuple(one))
        for row in rows
        for trial in (row.trial,)
        for name, one in row.figures.items()
    ]
    return ReportTable("all", "Everything that was measured, in microseconds", columns, tuple(lines), detail=True)


# --------------------------------------------------------------------------------------------------------- drawings


def _figures(rows: Sequence[NaradaRow]) -> Iterable[Figure]:
    for topology in TOPOLOGIES:
        found = _by_mode(rows, topology)
        if found:
            name = FIGURE_OF[topology]
            title = f"Costs of reliable delivery in topology {topology} ({name})"
            yield Figure(name.replace(" ", "-"), title, draw([_chart(title, found)]))
    overhead = {
        f"topology {topology}": kept
        for topology in TOPOLOGIES
        if (kept := _by_mode(rows, topology).get("reliable, written"))
    }
    if overhead:
        title = "Reliable delivery by payload in the topologies (figure 6)"
        yield Figure("figure-6", title, draw([_chart(title, overhead)]))


def _by_mode(rows: Sequence[NaradaRow], topology: str) -> dict[str, dict[int, NaradaSummary]]:
    """Summaries by size, for best effort and for both levels of reliable delivery."""
    found: dict[str, dict[int, NaradaSummary]] = {}
    for level in LEVELS:
        for row in _rows_with(rows, "delivery", topology, level):
            for size in row.trial.sizes:
                found.setdefault("best effort", {}).setdefault(size, row.figures[f"best-effort {size}"])
                found.setdefault(f"reliable, {level}", {})[size] = row.figures[f"reliable {size}"]
    return found


def _chart(title: str, found: dict[str, dict[int, NaradaSummary]]) -> Chart:
    sizes = sorted({size for one in found.values() for size in one})
    series = tuple(
        Series(
            name,
            tuple(one[size].p50_us / 1000 if size in one else None for size in sizes),
            color=COLORS.get(name, ""),
        )
        for name, one in found.items()
    )
    return Chart(title, tuple(f"{size:,}" for size in sizes), series, "payload bytes", "median ms", kind="lines")


# ------------------------------------------------------------------------------------------------- claims and goals


def _claims(rows: Sequence[NaradaRow]) -> Iterable[PaperClaim]:
    medians = {
        (topology, mode): one[PAPER_BYTES].p50_us / 1000
        for topology in TOPOLOGIES
        for mode, one in _by_mode(rows, topology).items()
        if PAPER_BYTES in one
    }
    kept = [medians.get((topology, "reliable, written")) for topology in TOPOLOGIES]
    plain = [medians.get((topology, "best effort")) for topology in TOPOLOGIES]
    if None in kept or None in plain:
        return
    a, b, c = (one or 0.0 for one in kept)
    yield PaperClaim(
        "figures 3 to 5",
        "reliable delivery costs more than best effort: the storing, and the waiting for it.",
        "; ".join(
            f"{name}: {best:.2f} and {one:.2f} ms" for name, best, one in zip(TOPOLOGIES, plain, kept, strict=True)
        ),
        all((one or 0) > (best or 0) for best, one in zip(plain, kept, strict=True)),
    )
    yield PaperClaim(
        "figure 6",
        "costs grow with the number of brokers and repositories, slightly from one repository to three.",
        f"A {a:.2f}, B {b:.2f}, C {c:.2f} ms",
        a < b <= 1.5 * c,
        "Every repository shares the two cores with everything else here; in the paper each had a machine of its own.",
    )


def _reached(goal: PaperGoal, rows: Sequence[NaradaRow]) -> ClaimReached:
    """The worst of the trials that the goal is meant for."""
    found = [
        row.figures[goal.figure].p50_us
        for row in rows
        if row.trial.kind == goal.kind
        and goal.figure in row.figures
        and goal.topology in ("", row.trial.topology)
        and goal.level in (None, row.trial.level)
    ]
    worst = max(found, default=None)
    shown = "" if worst is None else _time_text(worst)
    return ClaimReached(
        goal.title, f"≤ {_time_text(goal.most_us)}", shown, None if worst is None else worst <= goal.most_us
    )


def _time_text(micros: float) -> str:
    if micros < 1000:
        return f"{micros:.3g} µs"
    return f"{micros / 1000:.3g} ms" if micros < 1_000_000 else f"{micros / 1000:,.0f} ms"


def _rows_with(rows: Sequence[NaradaRow], kind: str, topology: str = "", level: Level | None = None) -> list[NaradaRow]:
    return [
        row
        for row in rows
        if row.trial.kind == kind and topology in ("", row.trial.topology) and level in (None, row.trial.level)
    ]
