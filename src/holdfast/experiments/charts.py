"""Charts as SVG text: grouped bars, stacked bars and lines over a few named places, with whiskers and a legend.

    svg = draw([Chart("Latency", ("0", "1"), (Series("causal", (220.0, 236.0)),), "faults", "ms")])

The same values give the same bytes, so a drawing can be kept beside its numbers and compared. Nothing is fetched and
nothing runs: a file is whole by itself, and every mark says its value when pointed at.
"""

from collections.abc import Sequence
from html import escape
from math import ceil, floor, log10
from typing import Literal

from msgspec import Struct

from holdfast.model.errors import LocalMisuse

Kind = Literal["bars", "stack", "lines"]
Spread = tuple[float, float] | None

PALETTE = ("#0b5394", "#d9822b", "#3d8b5f", "#8e4585", "#6b7785", "#b8373d")
"""The colours of series that name none, in this order; they can be told apart without seeing red and green."""

PANEL_WIDTH, PANEL_HEIGHT = 520, 320
LEFT, RIGHT, TOP, BOTTOM = 72, 14, 66, 48
GAP_SHARE = 0.24
"""How much of the width of a place is left empty beside its bars."""
BARS_LABELLED_MAX = 16
"""With more bars their labels would run into each other."""
GRID_LINES = 5
LEGEND_LETTER_PX = 6.6
TICK_SHORTENED_FROM = 100_000
STYLE = (
    "text{font-family:system-ui,sans-serif;font-size:12px;fill:#40566b}"
    ".title{font-size:14px;font-weight:600;fill:#14212e}"
    ".value{font-size:10px;text-anchor:middle}"
    ".end{text-anchor:end}.mid{text-anchor:middle}"
    ".grid{stroke:#dde3e9;stroke-width:1}"
    ".axis{stroke:#33475b;stroke-width:1.2}"
    ".whisker{stroke:#14212e;stroke-width:1;fill:none}"
)


class ChartError(LocalMisuse, ValueError):
    """Raised when a chart cannot be drawn: it says what does not fit together."""


class Series(Struct, frozen=True):
    """One value for each place; `None` where there is none. `spread` are the ends of its whiskers."""

    name: str
    values: tuple[float | None, ...]
    spread: tuple[Spread, ...] = ()
    color: str = ""


class Chart(Struct, frozen=True):
    """One panel. `places` name the positions on the horizontal axis, which are evenly apart."""

    title: str
    places: tuple[str, ...]
    series: tuple[Series, ...]
    x_label: str = ""
    y_label: str = ""
    kind: Kind = "bars"
    logarithmic: bool = False
    """Whether the vertical axis grows by factors; then every value is above 0."""


def draw(charts: Sequence[Chart], columns: int = 2) -> str:
    """The charts side by side, `columns` in a row, as one SVG document."""
    if not charts:
        raise ChartError("draw: there is no chart; give at least one.")
    across = min(columns, len(charts))
    width, height = across * PANEL_WIDTH, ceil(len(charts) / across) * PANEL_HEIGHT
    panels = [
        f'<g transform="translate({at % across * PANEL_WIDTH},{at // across * PANEL_HEIGHT})">{_Panel(chart).svg()}</g>'
        for at, chart in enumerate(charts)
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    title = escape("; ".join(chart.title for chart in charts))
    background = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    return "\n".join([head, f"<title>{title}</title><style>{STYLE}</style>", background, *panels, "</svg>", ""])


class Scale:
    """The vertical axis: where a value stands, and which values get a line."""

    def __init__(self, lowest: float, highest: float, logarithmic: bool) -> None:
        self.logarithmic = logarithmic
        self.ticks = _factor_ticks(lowest, highest) if logarithmic else _even_ticks(highest)
        self.low, self.high = self.ticks[0], self.ticks[-1]

    def share(self, value: float) -> float:
        """How far up the axis the value stands, from 0 to 1."""
        if self.logarithmic:
            return (log10(value) - log10(self.low)) / (log10(self.high) - log10(self.low))
        return (value - self.low) / (self.high - self.low)


def _even_ticks(highest: float) -> list[float]:
    """From 0 in round steps to the first that is not below the highest value."""
    if highest <= 0:
        return [0.0, 1.0]
    magnitude = 10.0 ** floor(log10(highest / GRID_LINES))
    step = next(magnitude * factor for factor in (1, 2, 2.5, 5, 10) if magnitude * factor * GRID_LINES >= highest)
    return [step * number for number in range(ceil(highest / step - 1e-9) + 1)]


def _factor_ticks(lowest: float, highest: float) -> list[float]:
    """1, 2, 5, 10, ... around all values; decades alone if these would be too many."""
    first, last = floor(log10(lowest)), ceil(log10(highest))
    factors = (1, 2, 5) if last - first <= 2 else (1,)
    ladder = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
    begin = max((at for at, value in enumerate(ladder) if value <= lowest), default=0)
    end = next((at for at, value in enumerate(ladder) if value >= highest), len(ladder) - 1)
    return ladder[begin : max(end, begin + 1) + 1] if begin + 1 < len(ladder) else [ladder[begin] / 10, ladder[begin]]


class _Panel:
    """One chart at its place on the page."""

    def __init__(self, chart: Chart) -> None:
        _check(chart)
        self.chart = chart
        self.colors = [one.color or PALETTE[at % len(PALETTE)] for at, one in enumerate(chart.series)]
        self.width, self.height = PANEL_WIDTH - LEFT - RIGHT, PANEL_HEIGHT - TOP - BOTTOM
        self.scale = Scale(*_range(chart), chart.logarithmic)
        self.place_px = self.width / len(chart.places)

    def svg(self) -> str:
        marks = {"bars": self._bars, "stack": self._stack, "lines": self._lines}[self.chart.kind]
        return "\n".join(["", *self._frame(), *self._legend(), *marks(), *self._axis(), ""])

    # -------------------------------------------------------------------------------------------------- positions

    def _y(self, value: float) -> float:
        return TOP + self.height * (1 - self.scale.share(value))

    def _middle(self, place: int) -> float:
        return LEFT + (place + 0.5) * self.place_px

    # ------------------------------------------------------------------------------------------------------ around

    def _frame(self) -> list[str]:
        chart = self.chart
        lines = [f'<text class="title" x="{LEFT}" y="22">{escape(chart.title)}</text>']
        for tick in self.scale.ticks:
            y = self._y(tick)
            lines.append(f'<line class="grid" x1="{LEFT}" x2="{LEFT + self.width}" y1="{y:.1f}" y2="{y:.1f}"/>')
            lines.append(f'<text class="end" x="{LEFT - 8}" y="{y + 4:.1f}">{tick_text(tick)}</text>')
        middle = TOP + self.height / 2
        turned = f'transform="rotate(-90 14 {middle:.1f})"'
        lines.append(f'<text class="mid" x="14" y="{middle:.1f}" {turned}>{escape(chart.y_label)}</text>')
        return lines

    def _axis(self) -> list[str]:
        bottom = TOP + self.height
        lines = [f'<line class="axis" x1="{LEFT}" x2="{LEFT + self.width}" y1="{bottom}" y2="{bottom}"/>']
        for at, place in enumerate(self.chart.places):
            lines.append(f'<text class="mid" x="{self._middle(at):.1f}" y="{bottom + 17}">{escape(place)}</text>')
        x = LEFT + self.width / 2
        lines.append(f'<text class="mid" x="{x:.1f}" y="{bottom + 37}">{escape(self.chart.x_label)}</text>')
        return lines

    def _legend(self) -> list[str]:
        lines, x = [], float(LEFT)
        for one, color in zip(self.chart.series, self.colors, strict=True):
            lines.append(f'<rect x="{x:.0f}" y="34" width="11" height="11" rx="2" fill="{color}"/>')
            lines.append(f'<text x="{x + 16:.0f}" y="44">{escape(one.name)}</text>')
            x += 32 + LEGEND_LETTER_PX * len(one.name)
        return lines

    # ------------------------------------------------------------------------------------------------------- marks

    def _bars(self) -> list[str]:
        series = self.chart.series
        bar_px = self.place_px * (1 - GAP_SHARE) / len(series)
        labelled = len(series) * len(self.chart.places) <= BARS_LABELLED_MAX
        marks = []
        for number, one in enumerate(series):
            for place, value in enumerate(one.values):
                if value is None:
                    continue
                x = self._middle(place) + (number - len(series) / 2) * bar_px
                marks.append(self._bar(one.name, place, x, bar_px, self.scale.low, value, self.colors[number]))
                spread = one.spread[place] if one.spread else None
                marks += self._whisker(x + bar_px / 2, spread)
                if labelled:
                    y = self._y(max(value, spread[1]) if spread else value) - 4
                    text = f'<text class="value" x="{x + bar_px / 2:.1f}" y="{y:.1f}">{figure_text(value)}</text>'
                    marks.append(text)
        return marks

    def _stack(self) -> list[str]:
        marks, width = [], self.place_px * (1 - GAP_SHARE) * 0.7
        for place in range(len(self.chart.places)):
            base = 0.0
            for number, one in enumerate(self.chart.series):
                value = one.values[place]
                if value is not None:
                    x = self._middle(place) - width / 2
                    marks.append(self._bar(one.name, place, x, width, base, base + value, self.colors[number]))
                    base += value
            y = self._y(base) - 4
            marks.append(f'<text class="value" x="{self._middle(place):.1f}" y="{y:.1f}">{figure_text(base)}</text>')
        return marks

    def _bar(self, name: str, place: int, x: float, width: float, low: float, high: float, color: str) -> str:
        top, bottom = self._y(high), self._y(low)
        value = high if self.chart.kind == "bars" else high - low
        return (
            f'<rect x="{x + 0.5:.1f}" y="{top:.1f}" width="{max(width - 1, 1):.1f}" height="{bottom - top:.1f}" '
            f'fill="{color}">{self._said(name, place, value)}</rect>'
        )

    def _lines(self) -> list[str]:
        marks = []
        for one, color in zip(self.chart.series, self.colors, strict=True):
            known = [(place, value) for place, value in enumerate(one.values) if value is not None]
            points = " ".join(f"{self._middle(place):.1f},{self._y(value):.1f}" for place, value in known)
            marks.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>')
            for place, value in known:
                x, y = self._middle(place), self._y(value)
                marks += self._whisker(x, one.spread[place] if one.spread else None)
                marks.append(
                    f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{color}">'
                    f"{self._said(one.name, place, value)}</circle>"
                )
        return marks

    def _whisker(self, x: float, spread: Spread) -> list[str]:
        if spread is None:
            return []
        low, high = (self._y(max(value, self.scale.low)) for value in spread)
        path = f"M{x - 3:.1f} {high:.1f}h6M{x:.1f} {high:.1f}V{low:.1f}M{x - 3:.1f} {low:.1f}h6"
        return [f'<path class="whisker" d="{path}"/>']

    def _said(self, name: str, place: int, value: float) -> str:
        return f"<title>{escape(name)}, {escape(self.chart.places[place])}: {figure_text(value)}</title>"


def _check(chart: Chart) -> None:
    if not chart.places or not chart.series:
        raise ChartError(f"chart {chart.title!r}: it has no places or no series; give at least one of each.")
    many = len(chart.places)
    for one in chart.series:
        if len(one.values) != many or len(one.spread) not in (0, many):
            raise ChartError(
                f"chart {chart.title!r}: series {one.name!r} has {len(one.values)} values and {len(one.spread)} "
                f"whiskers for {many} places; it takes one value a place, and as many whiskers or none."
            )
    if chart.kind == "stack" and chart.logarithmic:
        raise ChartError(f"chart {chart.title!r}: parts add up on an even axis only; leave out `logarithmic`.")
    if chart.logarithmic and any(value <= 0 for value in _all_values(chart)):
        raise ChartError(f"chart {chart.title!r}: a logarithmic axis has no place for values of 0 and below.")


def _all_values(chart: Chart) -> list[float]:
    values = [value for one in chart.series for value in one.values if value is not None]
    return values + [spread[1] for one in chart.series for spread in one.spread if spread is not None]


def _range(chart: Chart) -> tuple[float, float]:
    if chart.kind == "stack":
        return 0.0, max(sum(one.values[at] or 0.0 for one in chart.series) for at in range(len(chart.places)))
    values = _all_values(chart)
    return (min(values), max(values)) if values else (1.0, 10.0)


def tick_text(value: float) -> str:
    """The same beside the axis, where there is little room."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= max(unit, TICK_SHORTENED_FROM):
            return f"{value / unit:g}{name}"
    return figure_text(value)


def figure_text(value: float) -> str:
    """As short as it says something: 0.25, 2.5, 37.5, 1,234."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"
