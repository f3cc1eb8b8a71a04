"""What Holdfast has to reach, as ratios between measurements of one run.

Absolute figures move with the machine and its mood; these ratios do not. The numbers are those that the project set
itself after measuring its peers.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from holdfast.cluster.bench.cells import Cell, Sample

Figure = Literal["delivered_per_s", "p50_us"]


class Goal(Struct, frozen=True):
    """`measured` over `against` must be at least, or at most, the bound."""

    title: str
    measured: Cell
    against: Cell
    figure: Figure
    bound: float

    @property
    def at_least(self) -> bool:
        return self.figure == "delivered_per_s"


class Reached(Struct, frozen=True):
    """What became of a goal. `met` is null when one of the two was not measured."""

    title: str
    wanted: str
    ratio: float | None
    met: bool | None


def _rate(hops: int, size_bytes: int, guarantee: str = "causal", subscribers: int = 1) -> Cell:
    return Cell("holdfast", hops, size_bytes, guarantee, subscribers)


def _latency(hops: int, guarantee: str) -> Cell:
    return Cell("holdfast", hops, 1024, guarantee, paced=True)


GOALS: tuple[Goal, ...] = (
    Goal("one broker, 32 B, against NATS", _rate(1, 32), Cell("nats", 1, 32), "delivered_per_s", 2.0),
    Goal("one broker, 1 KiB, against NATS", _rate(1, 1024), Cell("nats", 1, 1024), "delivered_per_s", 1.5),
    Goal("one broker, 8 KiB, against NATS", _rate(1, 8192), Cell("nats", 1, 8192), "delivered_per_s", 1.0),
    Goal(
        "one broker, 1 KiB, four subscribers, against NATS",
        _rate(1, 1024, subscribers=4),
        Cell("nats", 1, 1024, subscribers=4),
        "delivered_per_s",
        1.5,
    ),
    Goal("one broker, 32 B, against the relay", _rate(1, 32), Cell("floor", 1, 32), "delivered_per_s", 0.25),
    Goal("one broker, 1 KiB, against the relay", _rate(1, 1024), Cell("floor", 1, 1024), "delivered_per_s", 0.4),
    Goal("one broker, 8 KiB, against the relay", _rate(1, 8192), Cell("floor", 1, 8192), "delivered_per_s", 0.6),
    Goal("three brokers, 32 B, against three relays", _rate(3, 32), Cell("floor", 3, 32), "delivered_per_s", 0.3),
    Goal("three brokers, 1 KiB, against three relays", _rate(3, 1024), Cell("floor", 3, 1024), "delivered_per_s", 0.3),
    Goal(
        "latency (p50) through one broker, against NATS",
        _latency(1, "causal"),
        Cell("nats", 1, 1024, paced=True),
        "p50_us",
        1.25,
    ),
    Goal(
        "latency (p50) through three brokers, against three relays",
        _latency(3, "causal"),
        Cell("floor", 3, 1024, paced=True),
        "p50_us",
        2.4,
    ),
    Goal(
        "latency (p50) of total through three brokers, against causal",
        _latency(3, "total"),
        _latency(3, "causal"),
        "p50_us",
        4.0,
    ),
)

CELLS: tuple[Cell, ...] = (
    *(
        cell
        for size_bytes in (32, 1024, 8192)
        for cell in (
            Cell("floor", 1, size_bytes),
            Cell("nats", 1, size_bytes),
            _rate(1, size_bytes),
            _rate(1, size_bytes, "fifo"),
            Cell("floor", 3, size_bytes),
            _rate(3, size_bytes),
        )
    ),
    *(
        cell
        for size_bytes in (32, 1024)
        for cell in (_rate(3, size_bytes, "fifo"), _rate(1, size_bytes, "total"), _rate(3, size_bytes, "total"))
    ),
    *(Cell("holdfast", 1, size_bytes, "causal", in_batches=True) for size_bytes in (32, 1024)),
    Cell("nats", 1, 1024, subscribers=4),
    _rate(1, 1024, subscribers=4),
    Cell("floor", 1, 1024, paced=True),
    Cell("nats", 1, 1024, paced=True),
    _latency(1, "causal"),
    _latency(1, "total"),
    Cell("floor", 3, 1024, paced=True),
    _latency(3, "causal"),
    _latency(3, "total"),
)
"""Everything that is measured, with those that are compared close to each other in time."""


def reached(goal: Goal, samples: Mapping[Cell, Sample]) -> Reached:
    """What became of a goal, given what was measured."""
    wanted = f"{'≥' if goal.at_least else '≤'} {goal.bound:g}"
    measured, against = samples.get(goal.measured), samples.get(goal.against)
    if measured is None or against is None or not getattr(against, goal.figure):
        return Reached(goal.title, wanted, None, None)
    ratio = getattr(measured, goal.figure) / getattr(against, goal.figure)
    return Reached(goal.title, wanted, round(ratio, 3), ratio >= goal.bound if goal.at_least else ratio <= goal.bound)
