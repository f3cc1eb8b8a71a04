"""Rows of trials that were never run, for tests of what is made of them."""

from msgspec.structs import replace

from holdfast.experiments.ginger import ORPHANING, GingerRow, GingerTrial, Latency, trials
from holdfast.experiments.repairs import RepairTrial


def latency(mean_ms: float) -> Latency:
    return Latency(10, mean_ms, mean_ms, 2 * mean_ms, 3 * mean_ms)


def row(trial: GingerTrial, eventual: float = 200.0, causal: float = 220.0, total: float = 800.0) -> GingerRow:
    found = {"eventual": latency(eventual), "causal": latency(causal), "total": latency(total)}
    if not trial.total:
        del found["total"]
    repairs = [repaired(len(trial.victims))] if trial.victims in ORPHANING else []
    return GingerRow(trial, True, "", 10, 60.0, found, found, repairs)


def repaired(rounds: int, settling_ms: float = 1000.0) -> RepairTrial:
    return RepairTrial("4", "0", rounds, 500.0, 300.0 * (rounds - 1), settling_ms, 2000.0)


def all_rows() -> list[GingerRow]:
    """A row for every trial of a quick run, each with the same latencies."""
    return [row(trial) for trial in trials(quick=True)]


def broken(one: GingerRow) -> GingerRow:
    return replace(one, kept=False, complaint="lost 3")
