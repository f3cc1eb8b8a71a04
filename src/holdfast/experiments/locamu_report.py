"""What the points come to: the tables and drawings of figures 5.1 to 5.4, and where they differ from the thesis'.

The thesis prints its figures without their numbers, so what is compared is what its text says of them. Every figure is
shown twice: with frames as our wire writes them, and with frames that weigh what the thesis counts.
"""

from collections.abc import Callable, Iterable, Sequence

from holdfast.experiments.charts import Chart, Series, draw
from holdfast.experiments.experiment import Cell, ExperimentReport, Figure, ReportTable
from holdfast.experiments.locamu import LocamuLoad, LocamuResult, LocamuRow
from holdfast.experiments.locamu_bounds import DEGREES, SIZES, TOLERANCES, header_bytes, locamu_bound, memory_bytes
from holdfast.experiments.locamu_claims import claims
from holdfast.experiments.locamu_points import (
    BOTH,
    CAUSAL,
    CROWD_MBPS,
    FULL,
    LOCALIZED,
    PACED_MBPS,
    PRESSED,
    PRESSED_BROKERS,
    PRESSED_MBPS,
    QUICK,
    Shape,
    crowd,
    everybody,
    pace,
    pressed,
    steady,
)
from holdfast.experiments.locamu_rows import Found

COLORS = {
    "locamu": "#0b5394",
    "delta-neighbourhood": "#6b7785",
    "cbcast": "#d9822b",
    "barriers": "#b8373d",
    "ginger": "#3d8b5f",
}
SCALES = {False: "our wire", True: "as the thesis counts"}
METADATA = "bytes of metadata a message"
DEPICTED = {"5.2": (False, "one group"), "5.3": (True, "a group a subtree")}

Measure = Callable[[LocamuResult], float]
Values = Callable[[str, bool], list[float | None]]
"""By protocol and scale, a value for each place."""


class Panel:
    """One part of a figure: what is measured, over what, by whom."""

    def __init__(self, name: str, title: str, x: str, places: Sequence[float | str], protocols: Sequence[str]) -> None:
        self.name, self.title, self.x, self.protocols = name, title, x, tuple(protocols)
        self.places = tuple(place if isinstance(place, str) else f"{place:,g}" for place in places)
        self.y, self.factors = "deliveries a second", False
        self.values: dict[tuple[str, bool], list[float | None]] = {}
        self.scales: tuple[bool, ...] = BOTH

    def fill(self, values: Values) -> "Panel":
        for protocol in self.protocols:
            for as_thesis in self.scales:
                self.values[protocol, as_thesis] = values(protocol, as_thesis)
        return self

    @property
    def is_empty(self) -> bool:
        return not any(value for one in self.values.values() for value in one)

    def table(self) -> ReportTable:
        columns = [f"{protocol}, {SCALES[scale]}" for scale in self.scales for protocol in self.protocols]
        rows: list[tuple[Cell, ...]] = []
        for at, place in enumerate(self.places):
            cells = [self.values[protocol, scale][at] for scale in self.scales for protocol in self.protocols]
            rows.append((place, *cells))
        return ReportTable(
            f"figure-{self.name}", f"{self.title} (figure {self.name}): {self.y}", (self.x, *columns), tuple(rows)
        )

    def charts(self) -> list[Chart]:
        found = []
        for scale in self.scales:
            series = tuple(
                Series(protocol, tuple(value or None for value in self.values[protocol, scale]), color=COLORS[protocol])
                for protocol in self.protocols
            )
            if any(value for one in series for value in one.values):
                title = f"{self.name}: {self.title}" + (f", {SCALES[scale]}" if len(self.scales) > 1 else "")
                found.append(Chart(title, self.places, series, self.x, self.y, "lines", logarithmic=self.factors))
        return found


def report(rows: Sequence[LocamuRow]) -> ExperimentReport:
    """Tables, drawings and claims of the rows that are in order, and a complaint for every one that is not."""
    found = Found(rows)
    of = FULL if found.brokers == FULL.brokers else QUICK
    panels = [
        panel for panel in (*_localized(found, of), *_causal(found, of), *_sizes(found, of)) if not panel.is_empty
    ]
    bounds = _bounds()
    return ExperimentReport(
        "LoCaMu and its rivals: the experiments of the thesis' chapter 5 in the simulator",
        (*(panel.table() for panel in (*panels, *bounds)), *_ratio_tables(found, of), _details(rows)),
        tuple(_figures([*panels, *bounds])),
        tuple(claims(found, of)),
        tuple(f"{row.complaint}\nto see it again: {row.point.replay()}" for row in rows if row.complaint),
    )


# ----------------------------------------------------------------------------------------------------------- panels


def _localized(found: Found, of: Shape) -> Iterable[Panel]:
    """Figure 5.1: one publisher is as fast as possible, and something is varied."""
    one = of.alone

    def alone(as_thesis: bool) -> LocamuLoad:
        return LocamuLoad(messages=one, as_thesis=as_thesis)

    def single(protocol: str, load: LocamuLoad, **world: int | bool) -> float | None:
        result = found.get(protocol, load, **world)
        return round(result.per_s / (world.get("brokers") or found.brokers), 1) if result else None

    yield _individual(Panel("5.1a", "Size of the tree", "brokers", of.sizes, LOCALIZED)).fill(
        lambda protocol, scale: [single(protocol, alone(scale), brokers=brokers) for brokers in of.sizes]
    )
    title = f"Publishers as fast as possible, {CROWD_MBPS:g} Mbps"
    yield Panel("5.1b", title, "publishers", of.crowd, LOCALIZED).fill(
        lambda protocol, scale: found.per_s(protocol, crowd(of, scale))
    )
    yield _individual(Panel("5.1c", "Bandwidth", "Mbps", of.mbps, LOCALIZED)).fill(
        lambda protocol, scale: [
            single(protocol, LocamuLoad(messages=one, mbps=mbps, as_thesis=scale)) for mbps in of.mbps
        ]
    )
    yield _individual(Panel("5.1d", "Payload", "bytes", of.payloads, LOCALIZED)).fill(
        lambda protocol, scale: [
            single(protocol, LocamuLoad(messages=one, payload_bytes=payload, as_thesis=scale))
            for payload in of.payloads
        ]
    )
    yield _individual(Panel("5.1e", f"Tolerance, {of.tolerance_brokers} brokers", "f", of.tolerances, LOCALIZED)).fill(
        lambda protocol, scale: [
            single(protocol, alone(scale), brokers=of.tolerance_brokers, tolerance=tolerance)
            for tolerance in of.tolerances
        ]
    )
    degrees = [f"{fan_out + 1} ({brokers})" for fan_out, brokers in of.degrees]
    yield _individual(Panel("5.1f", "Degree", "neighbours of a broker (brokers)", degrees, LOCALIZED)).fill(
        lambda protocol, scale: [
            single(protocol, alone(scale), brokers=brokers, fan_out=fan_out) for fan_out, brokers in of.degrees
        ]
    )


def _individual(panel: Panel) -> Panel:
    panel.y, panel.factors = "messages a second", True
    return panel


def _causal(found: Found, of: Shape) -> Iterable[Panel]:
    """Figures 5.2 and 5.3: more and more publishers, 100 messages a second each."""
    loads = {scale: pace(of, scale) for scale in BOTH}
    for figure, (subtrees, groups) in DEPICTED.items():

        def carried(protocol: str, scale: bool, mbps: float, subtrees: bool = subtrees) -> list[float | None]:
            return found.sustained(protocol, loads[scale], mbps, subtrees=subtrees)

        def weighed(protocol: str, scale: bool, subtrees: bool = subtrees) -> list[float | None]:
            return found.header_bytes(protocol, loads[scale], subtrees=subtrees)

        for letter, mbps in zip("ac", PACED_MBPS, strict=True):
            throughput = Panel(figure + letter, f"{groups}, {mbps:g} Mbps", "publishers", of.publishers, CAUSAL)
            throughput.factors = True
            throughput.y = "sustainable deliveries a second"
            yield throughput.fill(lambda protocol, scale, mbps=mbps: carried(protocol, scale, mbps))  # type: ignore[misc]
        metadata = Panel(f"{figure}b", groups, "publishers", of.publishers, CAUSAL)
        metadata.y, metadata.factors = METADATA, True
        yield metadata.fill(weighed)
        yield from _pressed(found, figure, subtrees, groups)


def _pressed(found: Found, figure: str, subtrees: bool, groups: str) -> Iterable[Panel]:
    """More is published than fits: what is delivered meanwhile, and what headers come to."""
    where, x = f"{groups}, full", f"publishers, {PRESSED_BROKERS} brokers of {PRESSED_MBPS:g} Mbps"
    world: dict[str, int | bool] = {"brokers": PRESSED_BROKERS, "subtrees": subtrees}
    delivered = Panel(f"{figure}c-full", where, x, PRESSED, CAUSAL)
    delivered.factors = True
    yield delivered.fill(lambda protocol, scale: found.per_s(protocol, pressed(scale), **world))
    metadata = Panel(f"{figure}d", where, x, PRESSED, CAUSAL)
    metadata.y, metadata.factors = METADATA, True
    yield metadata.fill(lambda protocol, scale: found.header_bytes(protocol, pressed(scale), **world))


def _sizes(found: Found, of: Shape) -> Iterable[Panel]:
    """Beside figure 5.4: what headers come to when everybody publishes, measured."""
    for which, pick in (("mean", "header_bytes"), ("most", "header_bytes_max")):
        panel = Panel(f"5.4-{which}", "Everybody publishes", "brokers", of.everybody, CAUSAL)
        panel.y, panel.factors = f"bytes of metadata a message, {which}", True

        def measured(protocol: str, scale: bool, pick: str = pick) -> list[float | None]:
            results = [found.get(protocol, everybody(one)[scale], brokers=one) for one in of.everybody]
            return [float(getattr(one, pick)) if one else None for one in results]

        yield panel.fill(measured)


def _bounds() -> list[Panel]:
    """Figure 5.4: worst cases, counted."""
    base = locamu_bound(1, 2)
    by_tolerance = [locamu_bound(tolerance, 2) for tolerance in TOLERANCES]
    by_degree = [locamu_bound(1, degree - 1) for degree in DEGREES]
    largest = SIZES[-1]
    asked: tuple[tuple[str, str, str, str, Sequence[int], Callable[[str], list[float | None]]], ...] = (
        (
            *("5.4a", "Largest header, f = 1, degree 3", "brokers", "bytes", SIZES),
            lambda protocol: [header_bytes(protocol, size, base) for size in SIZES],
        ),
        (
            *("5.4b", "Memory of a broker, f = 1, degree 3", "brokers", "bytes", SIZES),
            lambda protocol: [memory_bytes(protocol, size, 3, base) for size in SIZES],
        ),
        (
            *("5.4c", f"Largest header, degree 3, {largest:,} brokers", "f", "bytes", TOLERANCES),
            lambda protocol: [header_bytes(protocol, largest, bound) for bound in by_tolerance],
        ),
        (
            *("5.4d", f"Largest header, f = 1, {largest:,} brokers", "neighbours of a broker", "bytes", DEGREES),
            lambda protocol: [header_bytes(protocol, largest, bound) for bound in by_degree],
        ),
    )
    panels = []
    for name, title, x, y, places, values in asked:
        panel = Panel(name, title, x, places, CAUSAL)
        panel.y, panel.factors, panel.scales = y, True, (True,)
        panels.append(panel.fill(lambda protocol, _, values=values: values(protocol)))  # type: ignore[misc]
    return panels


# ---------------------------------------------------------------------------------------------- tables and drawings


def _ratio_tables(found: Found, of: Shape) -> Iterable[ReportTable]:
    """Ginger beside LoCaMu under one load, with and without a broker that is away for a second."""
    asked: list[tuple[str, LocamuLoad, bool, Sequence[tuple[str, Measure]]]] = [
        ("1 Mbps, nobody is away", steady()[0], False, RATIOS),
        ("1 Mbps, a child of the root is away for a second", steady()[0], True, RATIOS),
    ]
    for as_thesis in BOTH:
        load, mbps = pace(of, as_thesis)[-1], PACED_MBPS[-1]
        can: Measure = lambda one, mbps=mbps: one.sustained_per_s(mbps)  # type: ignore[misc]  # noqa: E731
        both = (("sustainable deliveries a second", can), RATIOS[1])
        asked.append((f"everybody publishes, {mbps:g} Mbps, {SCALES[as_thesis]}", load, False, both))
    rows: list[tuple[Cell, ...]] = []
    for name, load, absent, measures in asked:
        locamu, ginger = (found.get(protocol, load, absent=absent) for protocol in ("locamu", "ginger"))
        for label, pick in measures if locamu and ginger else ():
            theirs, ours = pick(locamu), pick(ginger)  # type: ignore[arg-type]  # both are there
            rows.append((name, label, round(theirs, 2), round(ours, 2), round(ours / theirs, 3) if theirs else None))
    if rows:
        columns = ("load", "measure", "locamu", "ginger", "ginger / locamu")
        title = f"Causal order of Ginger and of LoCaMu under the same load, {found.brokers} brokers"
        yield ReportTable("ratio", title, columns, tuple(rows))


RATIOS: tuple[tuple[str, Measure], ...] = (
    ("deliveries a second, middle half", lambda one: one.per_s),
    ("bytes of metadata a message and link", lambda one: one.header_bytes),
    ("bytes of other frames a message and link", lambda one: one.beside_bytes),
    ("deliveries a second, first publication to last delivery", lambda one: one.deliveries / one.span_s),
    ("longest silence at the average subscriber, ms", lambda one: one.gap_ms),
    ("longest silence at any subscriber, ms", lambda one: one.gap_ms_max),
)


def _details(rows: Sequence[LocamuRow]) -> ReportTable:
    columns = (
        *("protocol", "brokers", "fan_out", "tolerance", "subtrees", "absent", "publishers", "messages", "interval_ms"),
        *("mbps", "payload_bytes", "as_thesis", "warm", "deliveries", "per_s", "header_bytes", "header_bytes_max"),
        *("beside_bytes", "span_s", "gap_ms", "gap_ms_max", "busiest_bytes"),
        *("seed", "kept", "complaint", "point_events", "point_virtual_s"),
    )
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        point = row.point
        for one in row.results:
            load = one.load
            world = (point.protocol, point.brokers, point.fan_out, point.tolerance, point.subtrees, point.absent)
            asked = (load.publishers, load.messages, load.interval_ms, load.mbps, load.payload_bytes)
            how = (load.as_thesis, load.warm)
            came = (one.deliveries, one.per_s, one.header_bytes, one.header_bytes_max, one.beside_bytes)
            spans = (one.span_s, one.gap_ms, one.gap_ms_max, one.busiest_bytes)
            judged = (point.seed, row.kept, row.complaint, row.events, row.virtual_s)
            lines.append((*world, *asked, *how, *came, *spans, *judged))
    return ReportTable("results", "Every load of every point", columns, tuple(lines), detail=True)


def _figures(panels: Sequence[Panel]) -> Iterable[Figure]:
    for number, title in (
        ("5.1", "LoCaMu, delta-neighbourhood and Ginger"),
        ("5.2", "The causal protocols with one group"),
        ("5.3", "The causal protocols with a group for every subtree"),
        ("5.4", "Metadata and memory"),
    ):
        charts = [chart for panel in panels if panel.name.startswith(number) for chart in panel.charts()]
        if charts:
            yield Figure(f"locamu-{number}", f"Figure {number}: {title}", draw(charts))
