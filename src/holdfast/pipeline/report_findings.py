"""What a report shows of a run, as figures: plain values, so that pages are made and tested without Spark."""

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, convert
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls them

from holdfast.cluster.demo import RECORDINGS, DemoSummary
from holdfast.model.verdicts import Verdict
from holdfast.pipeline import metrics, state

QUANTILES = {"low": 0.01, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "p99": 0.99, "highest": 1.0}
INTERVALS_WANTED = 100
INTERVALS_S = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Widths of an interval of the timeline: the first that gives no more than the intervals wanted."""
INTERVALS_MAX = 2_000
REPAIRS_MAX = 200
BALANCES_MAX = 20_000
BROKERS_MAX = 500
"""What a page can show; a report is about runs that a person started, and says when it leaves something out."""

_T = TypeVar("_T", bound=Struct)


class Spread(Struct, frozen=True):
    """How long deliveries of one guarantee took, in milliseconds, while the tree was whole or under repair."""

    guarantee: str
    phase: str
    deliveries: int
    low: float
    p25: float
    p50: float
    p75: float
    p90: float
    p99: float
    highest: float


class HopSpread(Struct, frozen=True):
    """The same, by the number of brokers on the way."""

    hops: int
    phase: str
    deliveries: int
    low: float
    p25: float
    p50: float
    p75: float
    p90: float
    p99: float
    highest: float


class LoadFindings(Struct, frozen=True):
    """What one broker had to do: for its own clients, and for deliveries anywhere whose way led over it."""

    broker: str
    clients: int
    publications: int
    deliveries: int
    routed: int


class Rate(Struct, frozen=True):
    """One interval, in seconds after the first publication."""

    at_s: float
    publications_per_s: float
    deliveries_per_s: float


class Fault(Struct, frozen=True):
    """A broker that was killed, and when the last path that this broke delivered again (None: none was broken)."""

    broker: str
    role: str
    at_s: float
    felt_ms: float | None


class BrokerRepair(Struct, frozen=True):
    """What one broker did about the loss of another; `end_s` is None if it did not come to its end."""

    node: str
    failed: str
    start_s: float
    end_s: float | None


class ReplicaFindings(Struct, frozen=True):
    """A bank as one replica has it."""

    topic: str
    name: str
    applied: int
    refused: int
    balances: dict[str, int]
    """Cents by account."""


class Overhead(Struct, frozen=True):
    """What ordering cost on a link beside the payload, for messages of one guarantee."""

    guarantee: str
    publications: int
    payload_bytes: int
    header_bytes_each: float


class ReportFindings(Struct, frozen=True):
    """All that a page shows."""

    summary: DemoSummary
    verdict: Verdict
    """Of the Spark audit; that of the checkers in memory is in the summary."""
    spreads: Sequence[Spread]
    every_s: float
    rates: Sequence[Rate]
    faults: Sequence[Fault]
    repairs: Sequence[BrokerRepair]
    replicas: Sequence[ReplicaFindings]
    overheads: Sequence[Overhead]
    versions: dict[str, str]
    hops: Sequence[HopSpread] = ()
    loads: Sequence[LoadFindings] = ()

    @property
    def ok(self) -> bool:
        return self.summary.ok and self.verdict.ok


def gather(
    spark: SparkSession, events: DataFrame, summary: DemoSummary, verdict: Verdict, directory: Path
) -> ReportFindings:
    """Compute the figures of a demonstration from its trace (`events`) and the recordings in its directory."""
    began_ns, ended_ns = _published(events)
    every_s = interval_s((ended_ns - began_ns) / metrics.NS_PER_S)
    timed = metrics.timed_deliveries(events).persist()
    found = ReportFindings(
        summary,
        verdict,
        spreads(timed),
        every_s,
        _rates(events, every_s),
        _faults(summary, began_ns),
        _repairs(events, set(summary.kills), began_ns),
        _replicas(spark, directory / RECORDINGS),
        _rows(metrics.overheads(events), Overhead, 10),
        versions(spark),
        hop_spreads(timed),
        _rows(metrics.broker_load(events, timed), LoadFindings, BROKERS_MAX),
    )
    timed.unpersist()
    return found


def interval_s(seconds: float) -> float:
    """How wide an interval of the timeline is."""
    return next((width for width in INTERVALS_S if seconds / width <= INTERVALS_WANTED), INTERVALS_S[-1])


def _published(events: DataFrame) -> tuple[int, int]:
    """When the first message was published and the last one delivered."""
    first = F.min(F.when(F.col("event") == "publish", F.col("time")))
    last = F.max(F.when(F.col("event") == "deliver", F.col("time")))
    row = events.agg(F.coalesce(first, F.lit(0)).alias("first"), F.coalesce(last, F.lit(0)).alias("last")).first()
    return (row["first"], row["last"]) if row is not None else (0, 0)


def spreads(timed: DataFrame) -> list[Spread]:
    """How long deliveries took, by guarantee and phase."""
    return _rows(_spread(timed, "guarantee"), Spread, 100)


def hop_spreads(timed: DataFrame) -> list[HopSpread]:
    """How long deliveries took whose way is known, by hops and phase."""
    return _rows(_spread(timed.where(F.col("hops").isNotNull()), "hops").orderBy("hops", "phase"), HopSpread, 100)


def _spread(timed: DataFrame, by: str) -> DataFrame:
    found = F.percentile_approx("latency_ms", list(QUANTILES.values()), metrics.ACCURACY)
    grouped = timed.groupBy(by, "phase").agg(F.count("*").alias("deliveries"), found.alias("found"))
    picked = [F.col("found")[at].alias(name) for at, name in enumerate(QUANTILES)]
    return grouped.select(by, "phase", "deliveries", *picked)


def _rates(events: DataFrame, every_s: float) -> list[Rate]:
    rows = metrics.rows_of(metrics.throughput(events, every_s), INTERVALS_MAX)
    return [Rate(row["at_s"], row["publications"] / every_s, row["deliveries"] / every_s) for row in rows]


def _faults(summary: DemoSummary, began_ns: int) -> list[Fault]:
    repaired = {one.broker: one for one in summary.repairs}
    found = []
    for broker, time in zip(summary.kills, summary.kill_times_ns, strict=True):
        one = repaired.get(broker)
        at_s = (time - began_ns) / metrics.NS_PER_S
        found.append(Fault(broker, one.role if one else "", at_s, one.all_ms if one else None))
    return found


def _repairs(events: DataFrame, killed: set[str], began_ns: int) -> list[BrokerRepair]:
    """The repairs after the kills; brokers that take their leave at the end of a run are nothing to show."""

    def after_s(time: int) -> float:
        return (time - began_ns) / metrics.NS_PER_S

    rows = metrics.rows_of(metrics.repairs(events).where(F.col("failed").isin(*killed, "")), REPAIRS_MAX)
    return [
        BrokerRepair(
            row["node"],
            row["failed"],
            after_s(row["start_ns"]),
            None if row["end_ns"] is None else after_s(row["end_ns"]),
        )
        for row in rows
    ]


def _replicas(spark: SparkSession, recordings: Path) -> list[ReplicaFindings]:
    rows = metrics.rows_of(state.balances(state.read_replicas(spark, recordings)), BALANCES_MAX)
    by_replica: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        by_replica.setdefault((row["topic"], row["replica"]), []).append(row)
    return [
        ReplicaFindings(topic, name, of[0]["applied"], of[0]["refused"], {row["account"]: row["cents"] for row in of})
        for (topic, name), of in sorted(by_replica.items())
    ]


def _rows(frame: DataFrame, kind: type[_T], limit: int) -> list[_T]:
    return [convert(row, kind) for row in metrics.rows_of(frame, limit)]


def versions(spark: SparkSession) -> dict[str, str]:
    """What the figures were made with."""
    try:
        ours = version("holdfast")
    except PackageNotFoundError:
        ours = "from a source tree"
    return {"Holdfast": ours, "Python": platform.python_version(), "Spark": spark.version}
