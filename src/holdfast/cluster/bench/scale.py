"""The bench of scale: what thousands of connections, subscriptions and filters cost one broker or one client.

Each part of the bench is a function that measures and yields its rows one after the other. A row is a figure with its
unit and, where the project set itself one, its goal. A row without a goal is there to compare another row with.
"""

import os
import platform
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Literal

from msgspec import Struct

from holdfast.model.errors import ConfigError

Progress = Callable[[str, int, int], None]
Rows = Callable[[bool], Iterator["ScaleRow"]]
"""Measures a part of the bench, quickly or thoroughly, and yields its rows."""


class ScaleRow(Struct, frozen=True):
    """One figure of the bench. `goal` is empty, and `met` null, where there is no goal."""

    label: str
    figure: float
    unit: str
    goal: str = ""
    met: bool | None = None


class ScaleResult(Struct, frozen=True):
    """Everything that one run found."""

    python: str
    cores: int
    quick: bool
    rows: list[ScaleRow]


def at_most(label: str, figure: float, unit: str, bound: float) -> ScaleRow:
    """A row whose figure has to be that or less."""
    return ScaleRow(label, rounded(figure), unit, f"≤ {bound:g}", figure <= bound)


def compared(label: str, figure: float, unit: str) -> ScaleRow:
    """A row without a goal."""
    return ScaleRow(label, rounded(figure), unit)


def rounded(figure: float) -> float:
    """The figure with three digits that count; more of them are noise."""
    return float(f"{figure:.3g}") if abs(figure) < 1000 else float(round(figure))


# ------------------------------------------------------------------------------------------------------ the parts

PartName = Literal["connections", "filters"]
PARTS: dict[PartName, tuple[str, str]] = {
    "connections": ("holdfast.cluster.bench.scale_connections", "connection_rows"),
    "filters": ("holdfast.cluster.bench.scale_filters", "filter_rows"),
}
"""The parts of the bench: the module of each, and the function in it that yields the rows."""


def parts() -> dict[str, Rows]:
    """The parts that are installed, by name."""
    return {name: getattr(import_module(module), entry) for name, (module, entry) in PARTS.items() if find_spec(module)}


def run_scale(
    quick: bool = False,
    only: str = "",
    progress: Progress = lambda _phase, _done, _total: None,
    found: Callable[[ScaleRow], None] = lambda _row: None,
) -> ScaleResult:
    """Measure the parts whose names have the text `only` in them; `found` is called with each row as it comes."""
    chosen = {name: rows for name, rows in parts().items() if only in name}
    if not chosen:
        raise ConfigError(f"no part of the bench of scale has {only!r} in its name; try {', '.join(parts())}.")
    collected: list[ScaleRow] = []
    for name, rows in chosen.items():
        done = 0
        progress(name, done, done + 1)
        for row in rows(quick):
            collected.append(row)
            found(row)
            done += 1
            progress(name, done, done + 1)
        progress(name, done, done)
    return ScaleResult(platform.python_version(), os.cpu_count() or 1, quick, collected)
