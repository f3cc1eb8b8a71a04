"""The audit as a Spark job: a survey, one pass that judges every client, and one more where keys are in dispute."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls them

from holdfast.model.trace import TraceError
from holdfast.model.verdicts import EXAMPLES_MAX, KINDS, Verdict
from holdfast.pipeline.audit import disputes, judging
from holdfast.pipeline.audit.blocks import unpacked
from holdfast.pipeline.audit.examples import explained
from holdfast.pipeline.audit.rows import RowLayout, Sender, placed, renumbered, survey
from holdfast.pipeline.trace_frames import read_events, refuse_malformed

SLOTS_PER_CORE = 2
DELIVERIES_PER_SLOT_MAX = 8_000_000
"""What one task holds in memory, at about a hundred bytes each."""
CLOCK_BYTES_MAX = 1 << 30
"""What the clocks of one run may take in every task."""
CLOCK_NUMBER_BYTES = 4
BLOCK_BYTES_AT_ONCE = 32 << 20

_BLOCKS = {"spark.sql.execution.arrow.maxBytesPerBatch": str(BLOCK_BYTES_AT_ONCE)}
"""Rows that are blocks are handed to Python by their bytes, not by the number of rows."""
_PLANNED_ONCE = {"spark.sql.adaptive.enabled": "false"}
"""How the work is divided is decided here: that Spark thinks about it after every stage costs more than it gains."""

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Audit:
    """The verdict over everything, and that of each run."""

    verdict: Verdict
    runs: dict[str, Verdict] = field(default_factory=dict)


def _silent(phase: str, done: int, total: int) -> None:
    """Shows nothing."""


def audit(
    spark: SparkSession,
    trace: Path | str | DataFrame,
    examples_max: int = EXAMPLES_MAX,
    progress: Progress = _silent,
    spread: bool | None = None,
    clock_bytes_max: int = CLOCK_BYTES_MAX,
) -> Audit:
    """Judge a trace: a file, a directory, a URI, or a frame that `read_events` made.

    Every run is judged apart from the others. The verdict explains at most `examples_max` faults of each kind. Raises
    `TraceError` if a row is malformed. `spread` says whether the clients of one run are divided among all tasks;
    without it they are if some run is larger than a task should be. `clock_bytes_max` bounds what the causal pasts of
    a run take in a task: if they take more they are not spread, and looked at in several parts.
    """
    events = trace if isinstance(trace, DataFrame) else read_events(spark, trace)
    # Lines are decoded once. Parquet is read again by every pass: each needs other columns of it.
    kept = not events.inputFiles()
    if kept:
        events = events.persist(StorageLevel.MEMORY_AND_DISK)
    judge = partial(
        _audited, spark, examples_max=examples_max, progress=progress, spread=spread, clock_bytes_max=clock_bytes_max
    )
    try:
        with _with(spark, _PLANNED_ONCE):
            found = judge(events)
            # Some node has two rows with the same index: they are put in the order in which they were given.
            again = None if found else judge(renumbered(events))
        return found or again or _disordered()
    finally:
        if kept:
            events.unpersist()


def _disordered() -> Audit:
    raise AssertionError("rows that were numbered one by one have different numbers")


def _audited(
    spark: SparkSession,
    events: DataFrame,
    examples_max: int,
    progress: Progress,
    spread: bool | None,
    clock_bytes_max: int,
) -> Audit | None:
    progress("audit", 0, 4)
    surveyed = survey(events).persist()
    try:
        return _judged(spark, events, _Survey(events, surveyed, spread, clock_bytes_max), examples_max, progress)
    finally:
        surveyed.unpersist()


class _Survey:
    """How much there is of everything, by run."""

    def __init__(self, events: DataFrame, frame: DataFrame, spread: bool | None, clock_bytes_max: int) -> None:
        self.frame, self.clock_bytes_max = frame, clock_bytes_max
        self._spread = spread
        summed = ("deliveries", "publications", "promises", "causal", "crossed", "filters", "malformed")
        sums = [F.sum(name).alias(name) for name in summed]
        lanes = F.count_if(F.col("causal") > 0).alias("lanes")
        rows = frame.groupBy("run").agg(*sums, lanes).collect()  # One row a run: this is a part of the result.
        if any(row["malformed"] for row in rows):
            refuse_malformed(events)
        self.deliveries: dict[str, int] = {row["run"]: row["deliveries"] for row in rows if row["promises"]}
        self._promises = [row["promises"] for row in rows]
        self._clock_bytes = max((row["publications"] * row["lanes"] * CLOCK_NUMBER_BYTES for row in rows), default=0)
        self.causal = any(row["causal"] for row in rows)
        self.filtered = any(row["filters"] for row in rows)
        self.crossed = any(row["crossed"] for row in rows)

    def layout(self, cores: int) -> RowLayout:
        deliveries = sum(self.deliveries.values())
        slots = max(SLOTS_PER_CORE * cores, -(-deliveries // DELIVERIES_PER_SLOT_MAX))
        large = max(self._promises, default=0) * slots > sum(self._promises)
        spread = large if self._spread is None else self._spread
        # Clocks can be sent to every task only if they fit into each. Else a run stays in one task, which computes
        # them as it needs them, for some publishers at a time.
        return RowLayout(slots, spread=spread and self._clock_bytes <= self.clock_bytes_max)


def _judged(
    spark: SparkSession, events: DataFrame, counted: _Survey, examples_max: int, progress: Progress
) -> Audit | None:
    """The audit; None if the order of some rows is not known."""
    progress("audit", 1, 4)
    layout = counted.layout(spark.sparkContext.defaultParallelism)
    sender = Sender(events, counted.frame, layout, counted.filtered, counted.crossed)
    try:
        sender.pack()
        progress("audit", 2, 4)
        told = _told(spark, sender, layout, counted, examples_max, progress)
    finally:
        sender.close()
    verdict = _verdict(events, counted, told, examples_max) if told is not None else None
    progress("audit", 4, 4)
    return verdict


def _told(
    spark: SparkSession, sender: Sender, layout: RowLayout, counted: _Survey, examples_max: int, progress: Progress
) -> list[Any] | None:
    """The number of faults by run and kind, and some of each kind; None if the order of some rows is not known."""
    judge = partial(_judge, examples_max=examples_max, clock_bytes_max=counted.clock_bytes_max)
    sent = sender.everything()
    if counted.causal and layout.spread:
        sent = sent.union(sender.clocks())
    found = placed(sent, layout.slots).mapInArrow(judge, judging.SCHEMA).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        with _with(spark, _BLOCKS):
            told = found.where(F.col("what") != judging.PRINT).collect()  # Counts by run, and a few examples.
        if any(row["what"] == judging.TIES for row in told):
            return None
        _raise_refusals(told)
        progress("audit", 3, 4)
        suspects = _suspects(found).persist()
        try:
            disputed = not suspects.isEmpty()
            return [*told, *(_total_faults(spark, sender, suspects, layout, examples_max) if disputed else ())]
        finally:
            suspects.unpersist()
    finally:
        found.unpersist()


def _judge(batches: Iterable[pa.RecordBatch], examples_max: int, clock_bytes_max: int) -> Iterator[pa.RecordBatch]:
    return judging.judge(unpacked(batches), examples_max, clock_bytes_max)


def _arrivals(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return judging.arrivals(unpacked(batches))


@contextmanager
def _with(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """The session with other settings for a while."""
    before = {name: str(spark.conf.get(name)) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def _raise_refusals(told: list[Row]) -> None:
    refused = sorted(row["detail"] for row in told if row["what"] == judging.REFUSED)
    if refused:
        raise TraceError(refused[0])


def _suspects(found: DataFrame) -> DataFrame:
    """The groups of which clients have different prints."""
    prints = found.where(F.col("what") == judging.PRINT).groupBy("group")
    differ = (F.min("first_print") != F.max("first_print")) | (F.min("second_print") != F.max("second_print"))
    return prints.agg(differ.alias("differ")).where("differ").select("group")


def _total_faults(
    spark: SparkSession, sender: Sender, suspects: DataFrame, layout: RowLayout, examples_max: int
) -> list[dict[str, Any]]:
    """By run the number of total messages that a client has on the wrong side of another, and some of them."""
    arrived = placed(sender.of_groups(suspects), layout.slots).mapInArrow(_arrivals, disputes.ARRIVALS)
    offences = arrived.repartition(layout.slots, "group").mapInArrow(disputes.judge_groups, disputes.SCHEMA)
    # A message with two keys may be at fault with both; it is counted once at a client.
    once = offences.dropDuplicates(["run", "node", "publisher", "seq"]).persist()
    try:
        with _with(spark, _BLOCKS):
            counts = once.groupBy("run").agg(F.count("*").alias("count")).collect()  # One row a run.
        examples = once.orderBy("run", "publisher", "seq", "node").limit(examples_max).collect() if counts else []
    finally:
        once.unpersist()
    told = [{"what": judging.COUNT, "run": row["run"], "kind": "total", "count": row["count"]} for row in counts]
    return told + [{"what": judging.EXAMPLE, "kind": "total", "index": -1, **row.asDict()} for row in examples]


def _verdict(events: DataFrame, counted: _Survey, told: list[Any], examples_max: int) -> Audit:
    counts: dict[str, dict[str, int]] = {run: dict.fromkeys(KINDS, 0) for run in counted.deliveries}
    for row in told:
        if row["what"] == judging.COUNT:
            counts[row["run"]][row["kind"]] += row["count"]
    sentences = explained(events, [row for row in told if row["what"] == judging.EXAMPLE], examples_max)
    runs = {
        run: Verdict(counted.deliveries[run], **counts[run], examples=[said for of, said in sentences if of == run])
        for run in sorted(counts)
    }
    sums = {kind: sum(getattr(verdict, kind) for verdict in runs.values()) for kind in KINDS}
    several = len(runs) > 1
    examples = [f"run {run}: {said}" if several else said for run, said in sentences]
    return Audit(Verdict(sum(counted.deliveries.values()), **sums, examples=examples), runs)
