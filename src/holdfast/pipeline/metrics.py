"""Figures of a run, from its trace, as DataFrames: latencies, throughput, repairs, header bytes, load of the brokers.

All functions take the frame of `trace_frames.read_events`, and most take what `timed_deliveries` makes of it. Times are
nanoseconds on the clock that the nodes of a run share as well as they can. Who was attached to which broker, and what
the tree was at every moment, is in `trees`; a repair lasts from `repair_start` to the next `repair_end` of its broker.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls them

from holdfast.pipeline.trees import homes, with_ways

PERCENTILES = (0.5, 0.9, 0.99, 0.999)
ACCURACY = 10_000
"""Of percentiles: one in so many."""
NS_PER_MS, NS_PER_S = 1_000_000, 1_000_000_000
CALM, REPAIR = "calm", "repair"


def timed_deliveries(events: DataFrame, hops: bool = True) -> DataFrame:
    """Each first delivery with its publication.

    Columns: `run, publisher, seq, topic, guarantee, client, published_ns, delivered_ns, latency_ms, size, overhead`,
    `phase` (`repair` if a repair was under way at some time between the two, else `calm`), `repair` (which fault window
    of the run that was, from 1), `way` and `hops` (the brokers on the way, and how many: `trees.with_ways`; null where
    the tree changed meanwhile, and where it was not reported). Without `hops` these two are left out, which is quicker.
    """
    published = events.where(F.col("event") == "publish").groupBy("run", "publisher", "seq")
    sent = published.agg(
        F.min_by(F.struct("node", "time", "topic", "guarantee", "size", "overhead"), "time").alias("sent")
    )
    arrived = (
        events.where(F.col("event") == "deliver")
        .groupBy("run", "publisher", "seq", F.col("node").alias("client"))
        .agg(F.min("time").alias("delivered_ns"))
    )
    both = arrived.join(sent, ["run", "publisher", "seq"]).select(
        *("run", "publisher", "seq", "sent.topic", "sent.guarantee", "client"),
        F.col("sent.node").alias("origin"),
        F.col("sent.time").alias("published_ns"),
        "delivered_ns",
        ((F.col("delivered_ns") - F.col("sent.time")) / NS_PER_MS).alias("latency_ms"),
        *("sent.size", "sent.overhead"),
    )
    timed = _with_phase(both, fault_windows(events))
    return with_ways(timed, events).drop("origin") if hops else timed.drop("origin")


def latencies(timed: DataFrame, by: Sequence[str] = ("guarantee",)) -> DataFrame:
    """How long deliveries took, grouped by some columns of `timed_deliveries`.

    Columns: those of `by`, `deliveries, p50_ms, p90_ms, p99_ms, p999_ms, max_ms`.
    """
    found = F.percentile_approx("latency_ms", [float(one) for one in PERCENTILES], ACCURACY)
    names = [f"p{str(one * 100).rstrip('0').replace('.', '')}_ms" for one in PERCENTILES]
    grouped = timed.where(F.col(by[-1]).isNotNull()).groupBy(*by)
    sums = grouped.agg(F.count("*").alias("deliveries"), found.alias("found"), F.max("latency_ms").alias("max_ms"))
    picked = [F.round(F.col("found")[at], 3).alias(name) for at, name in enumerate(names)]
    return sums.select(*by, "deliveries", *picked, F.round("max_ms", 3).alias("max_ms")).orderBy(*by)


def throughput(events: DataFrame, every_s: float = 1.0) -> DataFrame:
    """What happened in each interval, counted from the first publication of its run.

    Columns: `run, at_s, publications, deliveries, payload_bytes` (delivered).
    """
    messages = events.where(F.col("event").isin("publish", "deliver"))
    first = messages.groupBy("run").agg(F.min(F.when(F.col("event") == "publish", F.col("time"))).alias("first"))
    width = max(int(every_s * NS_PER_S), 1)
    at = F.floor((F.col("time") - F.col("first")) / width) * F.lit(width / NS_PER_S)
    delivered = F.col("event") == "deliver"
    return (
        messages.join(F.broadcast(first), "run")
        .groupBy("run", F.round(at, 6).alias("at_s"))
        .agg(
            F.count_if(F.col("event") == "publish").alias("publications"),
            F.count_if(delivered).alias("deliveries"),
            F.coalesce(F.sum(F.when(delivered, F.col("size"))), F.lit(0)).alias("payload_bytes"),
        )
        .orderBy("run", "at_s")
    )


def overheads(events: DataFrame) -> DataFrame:
    """What publications cost on the wire beside their payload.

    Columns: `guarantee, publications, payload_bytes, header_bytes, header_bytes_each, header_bytes_max`.
    """
    return (
        events.where(F.col("event") == "publish")
        .groupBy("guarantee")
        .agg(
            F.count("*").alias("publications"),
            F.sum("size").alias("payload_bytes"),
            F.sum("overhead").alias("header_bytes"),
            F.round(F.avg("overhead"), 1).alias("header_bytes_each"),
            F.max("overhead").alias("header_bytes_max"),
        )
        .orderBy("guarantee")
    )


# ----------------------------------------------------------------------------------------------------------- repairs


def repairs(events: DataFrame) -> DataFrame:
    """Every repair that a broker began.

    Columns: `run, node, failed, suspected_ns` (when the first broker suspected it), `start_ns, end_ns, repair_ms`,
    `felt_ms` (from the first suspicion); the last three are null if it never ended.
    """
    about = events.where(F.col("event").isin("repair_start", "repair_end"))
    later = Window.partitionBy("run", "node").orderBy("index").rowsBetween(1, Window.unboundedFollowing)
    ends = F.first(F.when(F.col("event") == "repair_end", F.col("time")), ignorenulls=True).over(later)
    begun = about.withColumn("end_ns", ends).where(F.col("event") == "repair_start")
    suspected = (
        events.where(F.col("event") == "suspect")
        .groupBy("run", F.col("peer").alias("failed"))
        .agg(F.min("time").alias("suspected_ns"))
    )
    told = begun.select("run", "node", F.col("peer").alias("failed"), F.col("time").alias("start_ns"), "end_ns")
    since = F.least(F.coalesce("suspected_ns", "start_ns"), F.col("start_ns"))
    return (
        told.join(F.broadcast(suspected), ["run", "failed"], "left")
        .select("run", "node", "failed", since.alias("suspected_ns"), "start_ns", "end_ns")
        .withColumn("repair_ms", F.round((F.col("end_ns") - F.col("start_ns")) / NS_PER_MS, 3))
        .withColumn("felt_ms", F.round((F.col("end_ns") - F.col("suspected_ns")) / NS_PER_MS, 3))
        .orderBy("run", "start_ns", "node")
    )


def fault_windows(events: DataFrame) -> DataFrame:
    """The times in which some repair was under way; repairs that overlap are one window.

    Columns: `run, repair` (from 1), `failed` (brokers), `start_ns, end_ns` (the run's last row if it never ended).
    """
    last = events.groupBy("run").agg(F.max("time").alias("last"))
    spans = repairs(events).join(F.broadcast(last), "run")
    spans = spans.withColumn("until", F.coalesce("end_ns", "last"))
    in_order = Window.partitionBy("run").orderBy("suspected_ns", "until")
    reached = F.max("until").over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    opens = (reached.isNull() | (F.col("suspected_ns") > reached)).cast("int")
    numbered = spans.withColumn("opens", opens).withColumn("repair", F.sum("opens").over(in_order))
    return (
        numbered.groupBy("run", "repair")
        .agg(
            F.array_join(F.array_sort(F.collect_set("failed")), ", ").alias("failed"),
            F.min("suspected_ns").alias("start_ns"),
            F.max("until").alias("end_ns"),
        )
        .orderBy("run", "repair")
    )


def _with_phase(timed: DataFrame, windows: DataFrame) -> DataFrame:
    spans = windows.groupBy("run").agg(F.collect_list(F.struct("start_ns", "end_ns", "repair")).alias("spans"))
    touched = F.filter(
        "spans", lambda one: (one["start_ns"] <= F.col("delivered_ns")) & (one["end_ns"] >= F.col("published_ns"))
    )
    number = F.element_at(F.transform(touched, lambda one: one["repair"]), 1)
    joined = timed.join(F.broadcast(spans), "run", "left")
    return (
        joined.withColumn("repair", F.when(F.size(F.coalesce(touched, F.array())) > 0, number))
        .withColumn("phase", F.when(F.col("repair").isNotNull(), REPAIR).otherwise(CALM))
        .drop("spans")
    )


# ----------------------------------------------------------------------------------------------------------- brokers


def broker_load(events: DataFrame, timed: DataFrame) -> DataFrame:
    """What each broker took in from its clients, handed out to them, and passed on.

    Columns: `run, broker, clients, publications, deliveries, payload_bytes` (of both), `routed` (deliveries, anywhere,
    whose way is known and led over this broker). `timed` is of `timed_deliveries`, with ways.
    """
    messages = events.where(F.col("event").isin("publish", "deliver")).withColumnRenamed("node", "client")
    then = (F.col("time") >= F.col("from_ns")) & (F.col("to_ns").isNull() | (F.col("time") < F.col("to_ns")))
    own = (
        messages.join(F.broadcast(homes(events)), ["run", "client"])
        .where(then)
        .groupBy("run", "broker")
        .agg(
            F.count_distinct("client").alias("clients"),
            F.count_if(F.col("event") == "publish").alias("publications"),
            F.count_if(F.col("event") == "deliver").alias("deliveries"),
            F.sum("size").alias("payload_bytes"),
        )
    )
    routed = timed.select("run", F.explode("way").alias("broker")).groupBy("run", "broker")
    both = own.join(routed.agg(F.count("*").alias("routed")), ["run", "broker"], "full")
    counts = [F.coalesce(name, F.lit(0)).alias(name) for name in (*own.columns[2:], "routed")]
    return both.select("run", "broker", *counts).orderBy("run", "broker")


# ------------------------------------------------------------------------------------------------------------- all


@contextmanager
def all_metrics(events: DataFrame, every_s: float = 1.0) -> Iterator[dict[str, DataFrame]]:
    """Every table of `holdfast pipeline metrics`, by its name, for as long as the context lasts.

    `latency_by_guarantee`, `latency_by_topic`, `latency_by_phase`, `latency_by_window`, `latency_by_hops`,
    `throughput`, `repairs`, `fault_windows`, `overheads`, `brokers`.
    """
    # What is read again and again: the trace (decoded from lines, perhaps), and deliveries with their publications.
    kept = events.persist(StorageLevel.MEMORY_AND_DISK)
    timed = timed_deliveries(kept).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield {
            "latency_by_guarantee": latencies(timed, ("guarantee",)),
            "latency_by_topic": latencies(timed, ("topic",)),
            "latency_by_phase": latencies(timed, ("phase", "guarantee")),
            "latency_by_window": latencies(timed, ("run", "repair")),
            "latency_by_hops": latencies(timed, ("phase", "hops")),
            "throughput": throughput(kept, every_s),
            "repairs": repairs(kept),
            "fault_windows": fault_windows(kept),
            "overheads": overheads(kept),
            "brokers": broker_load(kept, timed),
        }
    finally:
        timed.unpersist()
        kept.unpersist()


def rows_of(frame: DataFrame, limit: int) -> list[dict[str, Any]]:
    """The first rows of one of these tables: figures, not data."""
    return [row.asDict() for row in frame.limit(limit).collect()]
