"""What the rows of the experiment on the delta-fault-tolerant tree come to."""

from collections.abc import Callable, Sequence

from holdfast.experiments.charts import Chart, Series, draw
from holdfast.experiments.delta import NODES, DeltaRow
from holdfast.experiments.experiment import Cell, ExperimentReport, Figure, PaperClaim, ReportTable

PRINTED = {
    "P1": ("N1", "N2 N3", "S1 S4", "S1 S4"),
    "N1": ("N2 N3", "S1 S4", "S1 S4", "S1 S4"),
    "N2": ("N1 S1", "N3 S1", "S1 S4", "S1 S4"),
    "N3": ("N1 S4", "N1 S4", "S1 S4", "S1 S4"),
    "S1": ("N2 S1", "N1 S1", "N3 S1", "S1 S4"),
    "S2": ("N1", "N1 S1", "N3 S1", "S1 S4"),
    "S3": ("N3", "N1 S4", "N2 S4", "S1 S4"),
    "S4": ("N3 S4", "N1 S4", "N2 S4", "S1 S4"),
}
"""Table 1 as the paper has it, for a tolerance of 0 to 3."""
SLIPS = (("N3", 1), ("S2", 0))


def report(rows: Sequence[DeltaRow]) -> ExperimentReport:
    """Tables, drawings, and what the paper says held against them."""
    broken = tuple(f"{row.complaint}: {row.point.replay()}" for row in rows if not row.kept)
    good = [row for row in rows if row.kept]
    return ExperimentReport(
        "The delta-fault-tolerant tree",
        (_sets(good), _cost(good), _latency(good), _state(good), _recovery(good), _filters(good), _everything(rows)),
        (Figure("delta", "Costs of the delta-fault-tolerant tree", draw(_charts(good))),),
        tuple(_claims(good)),
        broken,
        source="paper",
    )


def _of(rows: Sequence[DeltaRow], what: str) -> list[DeltaRow]:
    return [row for row in rows if row.point.what == what]


def _sets(rows: Sequence[DeltaRow]) -> ReportTable:
    found = {row.point.tolerance: dict(zip(NODES, row.sets, strict=True)) for row in _of(rows, "sets")}
    lines = []
    for node in NODES:
        cells = []
        for tolerance in sorted(found):
            ours, theirs = found[tolerance][node], PRINTED[node][tolerance]
            cells.append(ours if ours == theirs else f"{ours} (paper: {theirs})")
        lines.append((node, *cells))
    columns = ("node", *(f"tolerance {tolerance}" for tolerance in sorted(found)))
    return ReportTable("table-1", "Table 1: recipient sets in the network of Figure 5", columns, tuple(lines))


def _cost(rows: Sequence[DeltaRow]) -> ReportTable:
    lines: list[tuple[Cell, ...]] = []
    for row in _of(rows, "cost"):
        lines.append((row.point.protocol, row.point.tolerance, row.copies, row.frames))
        if row.point.protocol == "delta" and row.point.tolerance:
            paths = row.point.tolerance + 1
            lines.append((f"{paths} disjoint paths (computed)", row.point.tolerance, paths * row.copies, None))
    columns = ("protocol", "tolerance", "copies a publication", "frames a publication")
    return ReportTable("cost", "Messages a publication, nobody failed", columns, tuple(lines))


def _latency(rows: Sequence[DeltaRow]) -> ReportTable:
    lines = tuple(
        (row.point.size, row.point.tolerance, round(row.milliseconds, 1))
        for row in sorted_by_size(_of(rows, "latency"))
    )
    columns = ("links between publisher's and subscriber's broker", "tolerance", "until confirmed, ms")
    return ReportTable("latency", "Confirmation by depth, 1 ms a link", columns, lines)


def _state(rows: Sequence[DeltaRow]) -> ReportTable:
    lines = tuple(
        (row.point.size, row.point.tolerance, row.links, row.map_bytes, row.header_bytes)
        for row in sorted_by_size(_of(rows, "state"))
    )
    columns = ("brokers", "tolerance", "links known at most", "bytes of the map", "bytes of a header")
    return ReportTable("state", "State and headers by the size of a binary tree", columns, lines)


def _recovery(rows: Sequence[DeltaRow]) -> ReportTable:
    lines = tuple((row.point.size, round(row.milliseconds)) for row in sorted_by_size(_of(rows, "recovery")))
    return ReportTable("recovery", "Until a broker is operational again", ("filters", "ms"), lines)


def _filters(rows: Sequence[DeltaRow]) -> ReportTable:
    lines = tuple(
        (
            *(row.point.shape, row.point.mode, found.known, found.matched, round(found.evaluated, 2)),
            *(round(found.microseconds, 1), round(found.adding_us)),
        )
        for row in _of(rows, "filters")
        if (found := row.matching) is not None
    )
    columns = ("filters", "covering", "known", "matched", "evaluated a message", "us a message", "us to add one")
    return ReportTable("filters", "Filters matched, covering off and on", columns, lines)


def sorted_by_size(rows: Sequence[DeltaRow]) -> list[DeltaRow]:
    return sorted(rows, key=lambda row: (row.point.size, row.point.tolerance))


def _everything(rows: Sequence[DeltaRow]) -> ReportTable:
    lines = tuple(
        (
            *(row.point.what, row.point.protocol, row.point.tolerance, row.point.size, row.kept, " | ".join(row.sets)),
            *(row.copies, row.frames, row.milliseconds, row.links, row.map_bytes, row.header_bytes),
            *(row.point.shape, row.point.mode, row.matching.matched if row.matching is not None else 0),
        )
        for row in rows
    )
    columns = ("what", "protocol", "tolerance", "size", "kept", "sets", "copies", "frames", "milliseconds")
    return ReportTable(
        "rows",
        "All rows",
        (*columns, "links", "map_bytes", "header_bytes", "shape", "mode", "matched"),
        lines,
        detail=True,
    )


def _charts(rows: Sequence[DeltaRow]) -> list[Chart]:
    def lines(what: str, title: str, axis: str, unit: str, value: Callable[[DeltaRow], float]) -> Chart:
        found = sorted_by_size(_of(rows, what))
        sizes = sorted({row.point.size for row in found})
        series = tuple(
            Series(
                f"tolerance {tolerance}",
                tuple(
                    next(
                        (value(row) for row in found if (row.point.size, row.point.tolerance) == (size, tolerance)),
                        None,
                    )
                    for size in sizes
                ),
            )
            for tolerance in sorted({row.point.tolerance for row in found})
        )
        return Chart(title, tuple(map(str, sizes)), series, axis, unit, "lines")

    charts = [
        lines("latency", "Until a publication is confirmed", "links", "ms", lambda row: row.milliseconds),
        lines("state", "Links that a broker knows", "brokers", "links", lambda row: float(row.links)),
        lines("recovery", "Until a broker is operational again", "filters", "ms", lambda row: row.milliseconds),
    ]
    return [chart for chart in charts if chart.places]


def _claims(rows: Sequence[DeltaRow]) -> list[PaperClaim]:
    found: list[PaperClaim] = []
    sets = {row.point.tolerance: dict(zip(NODES, row.sets, strict=True)) for row in _of(rows, "sets")}
    if sets:
        differ = [
            (node, tolerance)
            for node in NODES
            for tolerance in sets
            if sets[tolerance][node] != PRINTED[node][tolerance]
        ]
        ours = f"{len(NODES) * len(sets) - len(differ)} of {len(NODES) * len(sets)} cells are the same"
        why = "by the paper's own rule these cells are wrong: " + ", ".join(f"{node} at {at}" for node, at in differ)
        found.append(PaperClaim("Table 1", "the recipient sets of Figure 5", ours, not differ, why))
    cost = [row for row in _of(rows, "cost") if row.point.protocol == "delta"]
    if cost:
        copies = {row.copies for row in cost}
        last = cost[-1].point.tolerance
        ours = f"{min(copies):g} to {max(copies):g} copies with a tolerance of {cost[0].point.tolerance} to {last}"
        found.append(PaperClaim("section 7", "without failures one path to each subscriber", ours, len(copies) == 1))
    state = [row for row in _of(rows, "state") if row.point.tolerance == 1]
    if state:
        most = max(row.links for row in state)
        ours = f"at most {most} links with a tolerance of 1, up to {max(row.point.size for row in state):,} brokers"
        found.append(PaperClaim("section 4.3", "no node needs global information", ours, most < 32))
    return found
