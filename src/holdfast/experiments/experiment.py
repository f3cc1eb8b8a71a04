"""What an experiment is: points that can be run anywhere, and what becomes of the rows.

A point is a plain value, made of numbers and texts; `run(point)` is a pure function that returns a row of the same
kind. So points can be run here, in other processes or on other machines, in any order, and give the same rows. Those of
an experiment that is `timed` measure the machine they run on, and have it to themselves.
"""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

Cell = str | int | float | None


class ReportTable(Struct, frozen=True):
    """Figures with a title. `name` is that of the file they are written to."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    detail: bool = False
    """Whether it is for programs: written to a file, and not shown to people."""


class Figure(Struct, frozen=True):
    """A drawing as SVG text. `name` is that of the file it is written to."""

    name: str
    title: str
    svg: str


class PaperClaim(Struct, frozen=True):
    """What the paper says of a figure, what our rows say, and why the two differ where they do."""

    figure: str
    says: str
    ours: str
    agrees: bool
    why: str = ""


class ClaimReached(Struct, frozen=True):
    """What became of a goal that we set ourselves. `met` is null when it was not measured."""

    title: str
    wanted: str
    ours: str
    met: bool | None


class ExperimentReport(Struct, frozen=True):
    """What the rows of an experiment come to."""

    title: str
    tables: tuple[ReportTable, ...]
    figures: tuple[Figure, ...]
    claims: tuple[PaperClaim, ...]
    broken: tuple[str, ...] = ()
    """Runs that broke a promise, or did not come to rest, each with the command that repeats it."""
    source: str = "thesis"
    """What the claims are taken from."""
    goals: tuple[ClaimReached, ...] = ()
    remark: str = ""
    """A sentence about the source, for everybody who compares the figures."""


class Experiment(Struct, frozen=True):
    """One experiment on the bench. Points and rows are structs of these kinds."""

    name: str
    summary: str
    point_kind: type[Any]
    row_kind: type[Any]
    points: Callable[[bool], Sequence[Any]]
    """All points; if its argument is true, those of a first impression."""
    run: Callable[[Any], Any]
    point_of: Callable[[Any], Any]
    """The point that a row came of."""
    report: Callable[[Sequence[Any]], ExperimentReport]
    timed: bool = False
    """Whether points measure this machine: they run here, one after the other, and not twice with the same result."""
