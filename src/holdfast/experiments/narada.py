"""The measurements of NaradaBrokering's reliable delivery (section 5): Table 1 and figures 3 to 6, on real processes.

What is measured, where and with what is a trial; every trial starts its own brokers, repositories and clients on
loopback, and ends them. Twenty clients and messages of 8 KiB, as in the paper; the payload sweep is ours, since the
figures were printed without their numbers. Unlike the experiments in virtual time these give other figures on another
machine, and on a busy one: they run one after the other, and only what was measured in one run compares.
"""

from collections.abc import Sequence
from statistics import mean, median, stdev
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from holdfast.model.reliable import Level

Kind = Literal["delivery", "restart", "recovery", "storage", "responses"]
Topology = Literal["A", "B", "C"]

CLIENTS = 20
MISSED = 1000
PAPER_BYTES = 8192
SIZES = (512, 1024, 2048, 4096, 8192, 16384, 32768)
QUICK_SIZES = (1024, 8192, 32768)
TOPOLOGIES: tuple[Topology, ...] = ("A", "B", "C")
LEVELS = (Level.WRITTEN, Level.FSYNCED)
STORES = ("sqlite", "segments")


class NaradaTrial(Struct, frozen=True, forbid_unknown_fields=True):
    """One measurement."""

    kind: Kind
    topology: Topology = "A"
    level: Level = Level.WRITTEN
    store: str = "sqlite"
    sizes: tuple[int, ...] = (PAPER_BYTES,)
    samples: int = 200
    interval_ms: float = 20.0
    """Between two messages, so that each is under way alone."""
    clients: Annotated[int, Meta(ge=3)] = CLIENTS
    """Of a delivery: a publisher, a subscriber that measures, and others."""
    stored: Annotated[int, Meta(ge=0)] = 0
    """Of a recovery: how many small messages are in the store before anything is missed."""

    @property
    def title(self) -> str:
        return f"{self.kind} in topology {self.topology}, {self.store}, {self.level}"

    def replay(self) -> str:
        return f"holdfast experiment narada --point '{msgspec.json.encode(self).decode()}'"


class NaradaSummary(Struct, frozen=True):
    """Microseconds: of how many samples, and what they come to."""

    count: int
    mean_us: float
    deviation_us: float
    error_us: float
    """The standard error of the mean."""
    p50_us: float
    p99_us: float


class NaradaRow(Struct, frozen=True):
    """What came of a trial: summaries by name, such as `reliable 8192`."""

    trial: NaradaTrial
    complaint: str
    figures: dict[str, NaradaSummary]


def summed_up(samples_us: Sequence[float]) -> NaradaSummary:
    """What some samples come to."""
    many, ordered = len(samples_us), sorted(samples_us)
    deviation = stdev(ordered) if many > 1 else 0.0
    return NaradaSummary(
        many,
        round(mean(ordered), 2),
        round(deviation, 2),
        round(deviation / many**0.5, 2),
        round(median(ordered), 2),
        round(ordered[min(many - 1, int(0.99 * many))], 2),
    )


def trials(quick: bool) -> list[NaradaTrial]:
    """Every trial; quick ones have fewer sizes and samples."""
    sizes, samples = (QUICK_SIZES, 50) if quick else (SIZES, 200)
    repeats = 2 if quick else 5
    found = [
        NaradaTrial("delivery", topology, level, sizes=sizes, samples=samples)
        for level in LEVELS
        for topology in TOPOLOGIES
    ]
    found += [NaradaTrial("storage", level=level, store=store, samples=samples) for store in STORES for level in LEVELS]
    found += [NaradaTrial("responses", samples=samples)]
    found += [NaradaTrial("restart", samples=repeats)]
    found += [NaradaTrial("recovery", "C", level, store, samples=repeats) for store in STORES for level in LEVELS]
    return [one for one in found if not (quick and one.kind == "recovery" and one.store == "segments")]
