"""From the trace to what the tasks of the audit are sent: native expressions only.

There are as many slots as tasks. Everything about one client goes to one slot: by the hash of its run if there are many
runs, else by its own, and then the publications of the run, and whatever belongs to them, go to all slots.
"""

from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls them

from holdfast.model.guarantees import GUARANTEES, Guarantee
from holdfast.pipeline.audit import pasts
from holdfast.pipeline.audit.inbox import (
    COLUMNS,
    DELIVER,
    NAME,
    NUMBERS,
    PUBLISH,
    SUBSCRIBE,
    SUSPECT,
    TOPIC,
    UNSUBSCRIBE,
)
from holdfast.pipeline.trace_frames import PROMISES, SUBSCRIPTIONS, is_malformed

CROSSED = "crossed"
_RARE = (
    *("run", "node", "index", "time", "event", "publisher", "seq"),
    *("topic", "where", "attributes", "guarantee", "keys", "past"),
)
_TYPES = {"kind": "tinyint", "keys": "array<bigint>", "clock": "binary", "text": "string", "more": "string"}


@dataclass(frozen=True)
class Layout:
    """How the work is divided."""

    slots: int
    spread: bool
    """Whether the clients of one run are spread over all slots."""


def survey(events: DataFrame) -> DataFrame:
    """By run, node and (of its publications) publisher: how much there is, and how many rows are malformed."""
    is_publish = F.col("event") == "publish"
    causal = is_publish & F.col("guarantee").isin("causal", "total")
    return events.groupBy("run", "node", F.when(is_publish, F.col("publisher")).alias("publisher")).agg(
        F.count_if(F.col("event") == "deliver").alias("deliveries"),
        F.count_if(is_publish).alias("publications"),
        F.count_if(F.col("event").isin(*PROMISES)).alias("promises"),
        F.count_if(causal).alias("causal"),
        F.count_if(is_publish & F.col("past").isNull()).alias("without_past"),
        F.max(F.when(is_publish, F.col("index"))).alias("last_publish"),
        F.count_if(F.col("event").isin(*SUBSCRIPTIONS) & (F.col("where") != "")).alias("filters"),
        F.count_if(is_malformed()).alias("malformed"),
    )


def renumbered(events: DataFrame) -> DataFrame:
    """The rows that carry a promise with indexes of their own, where two rows of a node have the same.

    Such rows are in the order in which they were given: by file, and by their place in it.
    """
    history = Window.partitionBy("run", "node").orderBy("index", "source", "place")
    promised = events.where(F.col("event").isin(*PROMISES))
    return promised.withColumn("index", (F.row_number().over(history) - 1).cast("bigint"))


# --------------------------------------------------------------------------------------------------------- the rows


def named(*columns: str) -> Column:
    """What stands for a name of a run, in the rows."""
    return F.xxhash64(*columns)


def _sorted_keys() -> Column:
    keys = F.coalesce(F.col("keys"), F.array().cast("array<string>"))
    return F.when(F.size(keys) < 2, keys).otherwise(F.array_sort(F.array_distinct(keys)))


def _row(frame: DataFrame, slot: Column, **columns: Column) -> DataFrame:
    made = []
    for name in COLUMNS:
        kind = _TYPES.get(name, "bigint")
        empty = F.lit(0) if name in NUMBERS else F.lit(None)
        # Coalesced so that Spark knows it is never null: Arrow then hands it to numpy without looking.
        value = F.coalesce(columns[name], F.lit(0)) if name in columns and name in NUMBERS else columns.get(name, empty)
        made.append(value.cast(kind).alias(name))
    return frame.select(*made, slot.alias("slot"))


class Sender:
    """Makes the rows of one trace for one layout."""

    def __init__(self, events: DataFrame, surveyed: DataFrame, layout: Layout, filtered: bool) -> None:
        """`filtered` says whether some subscription has a filter, so that attributes are needed."""
        self._events, self._surveyed, self._layout, self._filtered = events, surveyed, layout, filtered
        # What is not a delivery is little, and asked for four times.
        self._rare = events.where(F.col("event").isin("publish", CROSSED, *SUBSCRIPTIONS)).select(*_RARE)
        self._rare = self._rare.persist(StorageLevel.MEMORY_AND_DISK)

    def close(self) -> None:
        self._rare.unpersist()

    def _of_event(self, event: str) -> DataFrame:
        return (self._events if event == "deliver" else self._rare).where(F.col("event") == event)

    def _slot_of_client(self) -> Column:
        name = named("run", "node") if self._layout.spread else named("run")
        return F.pmod(name, F.lit(self._layout.slots)).cast("int")

    def _slots_of_run(self) -> Column:
        if self._layout.spread:
            return F.explode(F.sequence(F.lit(0), F.lit(self._layout.slots - 1)))
        return self._slot_of_client()

    def deliveries(self) -> DataFrame:
        return _row(
            self._of_event("deliver"),
            self._slot_of_client(),
            kind=F.lit(DELIVER),
            node=named("run", "node"),
            index=F.col("index"),
            publisher=named("run", "publisher"),
            seq=F.col("seq"),
            content=F.xxhash64(F.col("topic"), F.col("guarantee"), _sorted_keys()),
        )

    def publications(self) -> DataFrame:
        """What is reported to have crossed a total message takes no part in the order of its keys."""
        keys = F.transform(F.array_distinct(_sorted_keys()), lambda key: F.xxhash64(F.col("run"), F.col("topic"), key))
        identity = ["run", "publisher", "seq"]
        crossed = self._of_event(CROSSED).select(*identity).distinct().withColumn("crossed", F.lit(True))
        published = self._of_event("publish").join(F.broadcast(crossed), identity, "left")
        exempt = F.col("crossed").isNotNull() & (F.col("guarantee") != Guarantee.TOTAL.value)
        none = F.array().cast("array<bigint>")
        return self._publish_rows(published, self._slots_of_run(), F.when(exempt, none).otherwise(keys))

    def publications_with_pasts(self) -> DataFrame:
        """For the search of causal pasts: whole runs, and each given past as publisher, seq, publisher, seq, ..."""
        past = F.flatten(
            F.transform(
                F.map_entries("past"), lambda pair: F.array(F.xxhash64(F.col("run"), pair["key"]), pair["value"])
            )
        )
        return self._publish_rows(self._of_event("publish"), self._slot_of_run(), past)

    def _slot_of_run(self) -> Column:
        return F.pmod(named("run"), F.lit(self._layout.slots)).cast("int")

    def _publish_rows(self, published: DataFrame, slot: Column, keys: Column) -> DataFrame:
        rank = F.array_position(F.array(*[F.lit(guarantee.value) for guarantee in GUARANTEES]), F.col("guarantee"))
        return _row(
            published,
            slot,
            kind=F.lit(PUBLISH - 1) + rank,
            node=named("run", "node"),
            index=F.col("index"),
            publisher=named("run", "publisher"),
            seq=F.col("seq"),
            content=F.xxhash64(F.col("topic"), F.col("guarantee"), _sorted_keys()),
            time=F.col("time"),
            topic=named("run", "topic"),
            keys=keys,
            text=F.to_json("attributes") if self._filtered else F.lit(None),
        )

    def subscriptions(self) -> DataFrame:
        kind = F.when(F.col("event") == "subscribe", SUBSCRIBE).otherwise(UNSUBSCRIBE)
        return _row(
            self._rare.where(F.col("event").isin(*SUBSCRIPTIONS)),
            self._slot_of_client(),
            kind=kind,
            node=named("run", "node"),
            index=F.col("index"),
            time=F.col("time"),
            text=F.col("topic"),
            more=F.col("where"),
        )

    def names(self, everywhere: bool = True) -> DataFrame:
        slot = self._slots_of_run() if everywhere else self._slot_of_run()
        return _row(
            self.names_of_runs(), slot, kind=F.lit(NAME), node=F.col("hash"), text=F.col("name"), more=F.col("run")
        )

    def names_of_runs(self) -> DataFrame:
        """Every client and publisher once: `run`, `name`, `hash`, and (for slots) `node`."""
        told = self._surveyed.where(F.col("promises") > 0)
        nodes = told.select("run", F.col("node").alias("name"))
        publishers = told.where(F.col("publisher").isNotNull()).select("run", F.col("publisher").alias("name"))
        both = nodes.union(publishers).distinct()
        return both.select("run", "name", F.col("name").alias("node"), F.xxhash64("run", "name").alias("hash"))

    def topics(self) -> DataFrame:
        return _row(
            self._of_event("publish").select("run", "topic").distinct().withColumn("node", F.lit("")),
            self._slots_of_run(),
            kind=F.lit(TOPIC),
            topic=named("run", "topic"),
            text=F.col("topic"),
            more=F.col("run"),
        )

    def clocks(self) -> DataFrame:
        """The causal past of every causal-or-stronger publication."""
        sent = self.publications_with_pasts().union(self._heard()).union(self.names(everywhere=False))
        found = placed(sent, self._layout.slots).mapInArrow(pasts.find_clocks, pasts.SCHEMA)
        return _row(
            found.withColumn("node", F.lit("")),
            self._slots_of_run(),
            kind=F.col("kind"),
            publisher=F.col("publisher"),
            seq=F.col("seq"),
            clock=F.col("clock"),
        )

    def _heard(self) -> DataFrame:
        """What clients that publish delivered before their last publication, in runs where pasts are to be found."""
        told = self._surveyed.groupBy("run", "node").agg(F.max("last_publish").alias("last_publish"))
        lacking = self._surveyed.groupBy("run").agg(
            F.sum("without_past").alias("lack"), F.sum("causal").alias("causal")
        )
        runs = lacking.where((F.col("lack") > 0) & (F.col("causal") > 0)).select("run")
        nodes = told.where(F.col("last_publish").isNotNull()).join(F.broadcast(runs), "run", "left_semi")
        delivered = self._of_event("deliver").join(F.broadcast(nodes), ["run", "node"])
        return _row(
            delivered.where(F.col("index") < F.col("last_publish")),
            self._slot_of_run(),
            kind=F.lit(DELIVER),
            node=named("run", "node"),
            index=F.col("index"),
            publisher=named("run", "publisher"),
            seq=F.col("seq"),
        )

    def suspects(self, groups: DataFrame) -> DataFrame:
        everywhere = F.explode(F.sequence(F.lit(0), F.lit(self._layout.slots - 1)))
        return _row(groups, everywhere, kind=F.lit(SUSPECT), topic=F.col("group"))


def placed(rows: DataFrame, slots: int) -> DataFrame:
    """The rows, each in the partition of its slot."""
    return rows.repartitionById(slots, F.col("slot")).drop("slot")
