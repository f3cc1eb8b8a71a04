"""The audit as a Spark job: a survey, one pass that judges every client, and one more where keys are in dispute."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial, reduce
from pathlib import Path
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls them

from holdfast.model.trace import TraceError
from holdfast.model.verdicts import EXAMPLES_MAX, KINDS, Verdict
from holdfast.pipeline.audit import disputes, judging
from holdfast.pipeline.audit.examples import explained
from holdfast.pipeline.audit.rows import Layout, Sender, placed, renumbered, survey
from holdfast.pipeline.trace_frames import read_events, refuse_malformed

SLOTS_PER_CORE = 2
DELIVERIES_PER_SLOT_MAX = 8_000_000
"""What one task holds in memory, at about a hundred bytes each."""

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
) -> Audit:
    """Judge a trace: a file, a directory, a URI, or a frame that `read_events` made.

    Every run is judged apart from the others. The verdict explains at most `examples_max` faults of each kind. Raises
    `TraceError` if a row is malformed. `spread` says whether the clients of one run are divided among all tasks;
    without it they are if some run is larger than a task should be.
    """
    events = trace if isinstance(trace, DataFrame) else read_events(spark, trace)
    # Lines are decoded once. Parquet is read again by every pass: each needs other columns of it.
    kept = not events.inputFiles()
    if kept:
        events = events.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        found = _audited(spark, events, examples_max, progress, spread)
        # Some node has two rows with the same index: they are put in the order in which they were given.
        again = None if found else _audited(spark, renumbered(events), examples_max, progress, spread)
        return found or again or _disordered()
    finally:
        if kept:
            events.unpersist()


def _disordered() -> Audit:
    raise AssertionError("rows that were numbered one by one have different numbers")


def _audited(
    spark: SparkSession, events: DataFrame, examples_max: int, progress: Progress, spread: bool | None
) -> Audit | None:
    progress("audit", 0, 3)
    surveyed = survey(events).persist()
    try:
        return _judged(spark, events, _Survey(events, surveyed, spread), examples_max, progress)
    finally:
        surveyed.unpersist()


class _Survey:
    """How much there is of everything, by run."""

    def __init__(self, events: DataFrame, frame: DataFrame, spread: bool | None = None) -> None:
        self.frame, self._spread = frame, spread
        sums = [F.sum(name).alias(name) for name in ("deliveries", "promises", "causal", "filters", "malformed")]
        rows = frame.groupBy("run").agg(*sums).collect()  # One row a run: this is a part of the result.
        if any(row["malformed"] for row in rows):
            refuse_malformed(events)
        self.deliveries: dict[str, int] = {row["run"]: row["deliveries"] for row in rows if row["promises"]}
        self._promises = [row["promises"] for row in rows]
        self.causal = any(row["causal"] for row in rows)
        self.filtered = any(row["filters"] for row in rows)

    def layout(self, cores: int) -> Layout:
        deliveries = sum(self.deliveries.values())
        slots = max(SLOTS_PER_CORE * cores, -(-deliveries // DELIVERIES_PER_SLOT_MAX))
        large = max(self._promises, default=0) * slots > sum(self._promises)
        return Layout(slots, spread=large if self._spread is None else self._spread)


def _judged(
    spark: SparkSession, events: DataFrame, counted: _Survey, examples_max: int, progress: Progress
) -> Audit | None:
    """The audit; None if the order of some rows is not known."""
    progress("audit", 1, 3)
    layout = counted.layout(spark.sparkContext.defaultParallelism)
    sender = Sender(events, counted.frame, layout, counted.filtered)
    try:
        told = _told(sender, layout, counted, examples_max, progress)
    finally:
        sender.close()
    verdict = _verdict(events, counted, told, examples_max) if told is not None else None
    progress("audit", 3, 3)
    return verdict


def _told(sender: Sender, layout: Layout, counted: _Survey, examples_max: int, progress: Progress) -> list[Any] | None:
    """The number of faults by run and kind, and some of each kind; None if the order of some rows is not known."""
    parts = [sender.names(), sender.topics(), sender.subscriptions(), sender.publications(), sender.deliveries()]
    clocks = [sender.clocks()] if counted.causal else []
    judge = partial(judging.judge, examples_max=examples_max)
    sent = placed(_union([*parts, *clocks]), layout.slots)
    found = sent.mapInArrow(judge, judging.SCHEMA).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        told = found.where(F.col("what") != judging.PRINT).collect()  # Counts by run, and a few examples.
        if any(row["what"] == judging.TIES for row in told):
            return None
        _raise_refusals(told)
        progress("audit", 2, 3)
        offences = _disputed(_union(parts), sender, found, layout)
        return [*told, *_total_faults(offences, sender.names_of_runs(), examples_max)]
    finally:
        found.unpersist()


def _union(parts: list[DataFrame]) -> DataFrame:
    return reduce(DataFrame.union, parts)


def _raise_refusals(told: list[Row]) -> None:
    refused = sorted(row["detail"] for row in told if row["what"] == judging.REFUSED)
    if refused:
        raise TraceError(refused[0])


def _disputed(parts: DataFrame, sender: Sender, found: DataFrame, layout: Layout) -> DataFrame | None:
    """Every offence against a total order; None if all prints are equal."""
    prints = found.where(F.col("what") == judging.PRINT).groupBy("group")
    differ = (F.min("first_print") != F.max("first_print")) | (F.min("second_print") != F.max("second_print"))
    suspects = prints.agg(differ.alias("differ")).where("differ").select("group")
    if suspects.isEmpty():
        return None
    arrived = placed(parts.union(sender.suspects(suspects)), layout.slots).mapInArrow(
        judging.arrivals, disputes.ARRIVALS
    )
    return arrived.repartition(layout.slots, "group").mapInArrow(disputes.judge_groups, disputes.SCHEMA)


def _total_faults(offences: DataFrame | None, names: DataFrame, examples_max: int) -> list[dict[str, Any]]:
    """By run the number of total messages that a client has on the wrong side of another, and some of them."""
    if offences is None:
        return []
    # A message with two keys may be at fault with both; it is counted once at a client.
    once = offences.dropDuplicates(["client", "publisher", "seq"]).persist()
    try:
        named = once
        for column in ("client", "publisher", "other_publisher", "rightful"):
            known = names.select(F.col("hash").alias(column), F.col("name").alias(f"{column}_name"), "run")
            named = named.join(F.broadcast(known if column == "client" else known.drop("run")), column)
        counts = named.groupBy("run").agg(F.count("*").alias("count")).collect()
        examples = named.orderBy("run", "publisher_name", "seq", "client_name").limit(examples_max).collect()
    finally:
        once.unpersist()
    told: list[dict[str, Any]] = [
        {"what": judging.COUNT, "run": row["run"], "kind": "total", "count": row["count"]} for row in counts
    ]
    return told + [
        {
            "what": judging.EXAMPLE,
            "kind": "total",
            "run": row["run"],
            "node": row["client_name"],
            "index": -1,
            "publisher": row["publisher_name"],
            "seq": row["seq"],
            "other_publisher": row["other_publisher_name"],
            "other_seq": row["other_seq"],
            "rightful": row["rightful_name"],
            "other_first": row["other_first"],
        }
        for row in examples
    ]


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
