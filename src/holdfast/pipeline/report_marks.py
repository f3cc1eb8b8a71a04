"""What the drawings of a report have in common: colours that can be told apart without seeing red and green, and axes.

The colours are those that Okabe and Ito proposed (jfly.uni-koeln.de/color). What is text or line rather than data takes
its colour from the page, which knows whether it is light or dark.
"""

from collections.abc import Sequence
from html import escape
from math import ceil, floor, log10

from holdfast.experiments.charts import Scale, figure_text

COLORS = {"eventual": "#56B4E9", "fifo": "#CC79A7", "causal": "#009E73", "total": "#0072B2"}
OTHER_COLOR = "#999999"
FAULT_COLOR, REPAIR_COLOR = "#D55E00", "#E69F00"

Point = tuple[float, float]


def svg(width: float, height: float, label: str, parts: Sequence[str]) -> str:
    """A drawing as wide as its place; `label` is what a screen reader says."""
    head = f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(label)}">'
    return "\n".join([head, *parts, "</svg>"])


def text(at: Point, said: str, kind: str = "", turned: bool = False) -> str:
    """`kind` names classes of the page's style."""
    x, y = at
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}"{turn}>{escape(said)}</text>'


def line(start: Point, end: Point, kind: str) -> str:
    return f'<line x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}" class="{kind}"/>'


def box(corner: Point, size: Point, color: str, said: str = "", more: str = "") -> str:
    """A rectangle that says something when it is pointed at."""
    (x, y), (width, height) = corner, size
    shape = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{max(height, 0.5):.1f}"'
    return f'<rect {shape} fill="{color}" {more}><title>{escape(said)}</title></rect>'


def factor_ticks(lowest: float, highest: float) -> list[float]:
    """All powers of ten around the values, which are above 0."""
    first, last = floor(log10(lowest)), ceil(log10(highest))
    return [10.0**power for power in range(first, max(last, first + 1) + 1)]


def even_ticks(highest: float) -> list[float]:
    """From 0 in round steps to the first that is not below the highest value."""
    return Scale(0.0, highest, logarithmic=False).ticks


def tick_text(value: float) -> str:
    """As short as it says something; thousandths are written out."""
    return figure_text(value)
