"""The whole bench in one run: every measurement several times, interleaved, and the medians against the goals.

Repetitions go round all measurements, so that a machine that is slow for a while is slow for all of them.
"""

import os
import platform
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from holdfast.cluster.bench.cells import Cell, Sample, measure
from holdfast.cluster.bench.goals import CELLS, GOALS, Reached, reached
from holdfast.cluster.bench.memory import FEW, MANY, RATIO_MAX, Memory, measure_memory
from holdfast.cluster.bench.nats_core import find_server
from holdfast.cluster.bench.samples import middle
from holdfast.model.errors import ConfigError

MEMORY = "memory"
Progress = Callable[[str, int, int], None]


class BenchPlan(Struct, frozen=True):
    """How thoroughly to measure. `only` keeps the measurements with that text in their titles."""

    seconds: float = 2.0
    repetitions: int = 3
    only: str = ""
    few: int = FEW
    many: int = MANY


QUICK = BenchPlan(seconds=0.5, repetitions=1, many=100_000)


class CellResult(Struct, frozen=True):
    """A measurement: medians, and what they are the medians of."""

    title: str
    cell: Cell
    median: Sample
    samples: list[Sample]
    of_floor: float | None
    of_nats: float | None


class BenchResult(Struct, frozen=True):
    """Everything that one run of the bench found."""

    python: str
    cores: int
    plan: BenchPlan
    cells: list[CellResult]
    goals: list[Reached]
    memory: Memory | None
    notes: list[str]


async def run_bench(plan: BenchPlan, progress: Progress = lambda _phase, _done, _total: None) -> BenchResult:
    """Measure everything; nothing is left running or lying about, whatever happens."""
    notes = []
    cells = [cell for cell in CELLS if plan.only in cell.title]
    if any(cell.system == "nats" for cell in cells) and find_server() is None:
        notes.append("NATS was not measured: install the extra `bench` (make setup-bench) for nats-server and nats-py.")
        cells = [cell for cell in cells if cell.system != "nats"]
    with_memory = plan.only in MEMORY
    if not cells and not with_memory:
        raise ConfigError(
            f"no measurement has {plan.only!r} in its title; try 'floor', 'holdfast', '1 KiB' or 'memory'."
        )
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as directory:
        samples = await _rounds(cells, plan, Path(directory), progress)
        memory = None
        if with_memory:
            progress(MEMORY, 0, 1)
            memory = await measure_memory(Path(directory), plan.few, plan.many)
            progress(MEMORY, 1, 1)
    return _summed_up(plan, samples, memory, notes)


async def _rounds(
    cells: Sequence[Cell], plan: BenchPlan, directory: Path, progress: Progress
) -> dict[Cell, list[Sample]]:
    samples: dict[Cell, list[Sample]] = {cell: [] for cell in cells}
    total = len(cells) * plan.repetitions
    for done in range(total):
        progress("measurements", done, total)
        cell = cells[done % len(cells)]
        samples[cell].append(await measure(cell, plan.seconds, directory))
    progress("measurements", total, total)
    return samples


def _summed_up(
    plan: BenchPlan, samples: dict[Cell, list[Sample]], memory: Memory | None, notes: list[str]
) -> BenchResult:
    medians = {cell: _median(found) for cell, found in samples.items()}
    results = [
        CellResult(
            cell.title,
            cell,
            medians[cell],
            found,
            _ratio(cell, Cell("floor", cell.hops, cell.size_bytes, "", cell.subscribers, cell.paced), medians),
            _ratio(cell, Cell("nats", 1, cell.size_bytes, "", cell.subscribers, cell.paced), medians),
        )
        for cell, found in samples.items()
    ]
    goals = [reached(goal, medians) for goal in GOALS]
    if memory is not None:
        title = f"memory of a broker after {memory.many:,} messages, against after {memory.few:,}"
        goals.append(Reached(title, f"≤ {RATIO_MAX:g}", round(memory.ratio, 3), memory.ratio <= RATIO_MAX))
    return BenchResult(platform.python_version(), os.cpu_count() or 1, plan, results, goals, memory, notes)


def _median(samples: Sequence[Sample]) -> Sample:
    return Sample(
        round(middle([one.delivered_per_s for one in samples]), 1),
        round(middle([one.p50_us for one in samples]), 1),
        round(middle([one.p99_us for one in samples]), 1),
    )


def _ratio(cell: Cell, against: Cell, medians: dict[Cell, Sample]) -> float | None:
    """How the cell's figure compares with the other's: a rate, or the middle latency of a paced one."""
    other = medians.get(against)
    if other is None or cell == against:
        return None
    if cell.paced:
        return round(medians[cell].p50_us / other.p50_us, 3)
    return round(medians[cell].delivered_per_s / other.delivered_per_s, 3)
