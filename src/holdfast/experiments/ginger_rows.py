"""Choosing among the rows of trials: those that share everything but the seed, and their repairs."""

from collections.abc import Callable, Iterable, Sequence
from statistics import mean

from holdfast.experiments.ginger import ORPHANING, SIBLINGS_TOLERANCE, THESIS_KEYS, THESIS_MS, GingerRow, Latency
from holdfast.experiments.repairs import RepairTrial

GUARANTEES = ("eventual", "causal", "total")
"""Those of the thesis: its service publishes nothing that is merely fifo."""

Pick = Callable[[GingerRow], dict[str, Latency]]


def matching(rows: Iterable[GingerRow], pace_ms: float, keys: int, victims: tuple[str, ...]) -> list[GingerRow]:
    """The trials of figures 5.4 and 5.5 that share everything but the seed."""
    return [
        row
        for row in rows
        if (row.trial.interval_ms, row.trial.keys, row.trial.victims) == (pace_ms, keys, victims)
        and row.trial.tolerance == SIBLINGS_TOLERANCE
        and row.trial.total > 0
    ]


def all_messages(row: GingerRow) -> dict[str, Latency]:
    return row.latency


def felt_messages(row: GingerRow) -> dict[str, Latency]:
    return row.felt


def averages_ms(runs: Sequence[GingerRow], pick: Pick = all_messages) -> dict[str, float]:
    """The mean of the runs' means, by guarantee."""
    return {name: mean(found) for name in GUARANTEES if (found := means_ms(runs, name, pick))}


def means_ms(rows: Iterable[GingerRow], guarantee: str, pick: Pick = all_messages) -> list[float]:
    """The mean of each run that has any."""
    return [pick(row)[guarantee].mean_ms for row in rows if guarantee in pick(row)]


def orphaning(rows: Iterable[GingerRow]) -> list[GingerRow]:
    """The trials of figure 5.3."""
    return [
        row
        for row in rows
        if (row.trial.interval_ms, row.trial.keys) == (THESIS_MS, THESIS_KEYS)
        and row.trial.victims in ORPHANING
        and row.trial.tolerance == len(row.trial.victims)
    ]


def by_rounds(rows: Iterable[GingerRow]) -> dict[int, list[RepairTrial]]:
    """Their repairs, by how many brokers were asked."""
    found: dict[int, list[RepairTrial]] = {}
    for row in orphaning(rows):
        for repair in row.repairs:
            found.setdefault(repair.rounds, []).append(repair)
    return dict(sorted(found.items()))
