"""The bench of what is kept, in one run: receipts beside bare loops and peers, and the medians against the goals.

Peers that are not installed are left out, with a sentence.
"""

import os
import platform
import tempfile
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from holdfast.cluster.bench.durable_cells import DurableCell, DurableSample, measure, missing_peer
from holdfast.cluster.bench.goals import Reached
from holdfast.cluster.bench.plan import BenchPlan, Progress
from holdfast.cluster.bench.samples import middle
from holdfast.model.errors import ConfigError

BARE_RATIO = 0.6
KIB, EIGHT_KIB = 1024, 8192
STORES = ("segments", "sqlite")
FSYNCED, REDIS = DurableCell("holdfast", store="segments", delivered=True), DurableCell("redis", delivered=True)
JETSTREAM = DurableCell("jetstream", delivered=True)
HELD, REPLICATED = DurableCell("holdfast", "held", delivered=True), DurableCell("jetstream", "held", delivered=True)

CELLS: tuple[DurableCell, ...] = (
    *(FSYNCED, REDIS, JETSTREAM),
    *(HELD, REPLICATED),
    *(
        DurableCell("holdfast", kept, size_bytes, store)
        for size_bytes in (KIB, EIGHT_KIB)
        for store in STORES
        for kept in ("fsynced", "written", "memory")
    ),
)
"""Everything that is measured, with those that are compared close to each other in time."""
PEER_GOALS: tuple[tuple[str, DurableCell, DurableCell, float], ...] = (
    ("fsynced, 1 KiB, against Redis Streams with fsync", FSYNCED, REDIS, 1.5),
    ("fsynced, 1 KiB, against JetStream with fsync", FSYNCED, JETSTREAM, 10.0),
    ("held by two brokers, 1 KiB, against JetStream with three replicas", HELD, REPLICATED, 3.0),
)


class DurableResult(Struct, frozen=True):
    """A measurement: medians, and what they are the medians of."""

    title: str
    cell: DurableCell
    per_s: float
    commit_messages: float
    bare_per_s: float
    of_bare: float | None
    samples: list[DurableSample]


class DurableBench(Struct, frozen=True):
    """Everything that one run found."""

    python: str
    cores: int
    plan: BenchPlan
    cells: list[DurableResult]
    goals: list[Reached]
    notes: list[str]


async def run_durable_bench(plan: BenchPlan, progress: Progress = lambda _phase, _done, _total: None) -> DurableBench:
    """Measure everything; nothing is left running or lying about, whatever happens."""
    chosen = [cell for cell in CELLS if plan.only in cell.title]
    if not chosen:
        raise ConfigError(f"no measurement has {plan.only!r} in its title; try 'fsynced', 'segments' or 'redis'.")
    lacking = dict.fromkeys(filter(None, map(missing_peer, chosen)))
    notes = [f"not measured, since there is no {what}" for what in lacking]
    cells = [cell for cell in chosen if not missing_peer(cell)]
    samples: dict[DurableCell, list[DurableSample]] = {cell: [] for cell in cells}
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as directory:
        total = len(cells) * plan.repetitions
        for done in range(total):
            progress("measurements", done, total)
            cell = cells[done % len(cells)]
            place = Path(directory) / str(done)
            samples[cell].append(await measure(cell, plan.seconds, place))
        progress("measurements", total, total)
    results = [result_of(cell, found) for cell, found in samples.items()]
    return DurableBench(platform.python_version(), os.cpu_count() or 1, plan, results, goals_of(results), notes)


def result_of(cell: DurableCell, samples: list[DurableSample]) -> DurableResult:
    ratios = [one.of_bare for one in samples if one.of_bare is not None]
    return DurableResult(
        cell.title,
        cell,
        round(middle([one.per_s for one in samples]), 1),
        round(middle([one.commit_messages for one in samples]), 1),
        round(middle([one.bare_per_s for one in samples]), 1),
        round(middle(ratios), 3) if ratios else None,
        samples,
    )


def goals_of(results: Sequence[DurableResult]) -> list[Reached]:
    found = {one.cell: one for one in results}
    goals = []
    for title, ours, peer, least in PEER_GOALS:
        if ours in found and peer in found:
            ratio = found[ours].per_s / found[peer].per_s
            goals.append(Reached(title, f"≥ {least:g}", round(ratio, 3), ratio >= least))
    for one in results:
        if one.of_bare is not None and not one.cell.delivered:
            title = f"{one.cell.kept} in {one.cell.store}, {one.cell.size_bytes // 1024} KiB, against the bare loop"
            goals.append(Reached(title, f"≥ {BARE_RATIO:g}", one.of_bare, one.of_bare >= BARE_RATIO))
    return goals
