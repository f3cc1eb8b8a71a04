"""From the trace to what the tasks of the audit are sent: native expressions only.

There are as many slots as tasks. Everything about one client goes to one slot: by the hash of its run if there are many
runs, else by its own, and then the publications of the run, and whatever belongs to them, go to all slots.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls them

from holdfast.model.guarantees import GUARANTEES, Guarantee
from holdfast.model.trace import CROSSED
from holdfast.pipeline.audit import blocks, pasts
from holdfast.pipeline.audit.blocks import EVERYWHERE
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
    wanted,
)
from holdfast.pipeline.trace_frames import PROMISES, SUBSCRIPTIONS, is_malformed

_RARE = (
    *("run", "node", "index", "time", "event", "publisher", "seq"),
    *("topic", "where", "attributes", "guarantee", "keys", "past"),
)
_TYPES = {
    "kind": "tinyint",
    "keys": "array<bigint>",
    "past": "array<bigint>",
    "clock": "binary",
    "text": "string",
    "more": "string",
}


@dataclass(frozen=True)
class RowLayout:
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
        F.count_if(is_crossed()).alias("crossed"),
        F.count_if(F.col("event").isin(*SUBSCRIPTIONS) & (F.col("where") != "")).alias("filters"),
        F.count_if(is_malformed()).alias("malformed"),
    )


def is_crossed() -> Column:
    """Whether a row says of its message that it has crossed a total one: a report, or a delivery with that word."""
    flagged = (F.col("event") == "deliver") & (F.col("detail") == CROSSED)
    return (F.col("event") == CROSSED) | flagged


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


def _value(name: str, columns: dict[str, Column]) -> Column:
    if name not in columns:
        return F.lit(0 if name in NUMBERS else None)
    # Coalesced so that Spark knows it is never null: Arrow then hands it to numpy without looking.
    return F.coalesce(columns[name], F.lit(0)) if name in NUMBERS else columns[name]


def _rows(frame: DataFrame, names: Sequence[str], slot: Column, home: Column, **columns: Column) -> DataFrame:
    made = [_value(name, columns).cast(_TYPES.get(name, "bigint")).alias(name) for name in names]
    return frame.select(slot.alias("slot"), home.alias("home"), *made)


class Sender:
    """Makes what the tasks of one trace are sent, for one layout."""

    def __init__(
        self, events: DataFrame, surveyed: DataFrame, layout: RowLayout, filtered: bool, crossed: bool
    ) -> None:
        """`filtered` says whether some subscription has a filter, so that attributes are needed; `crossed` whether some
        message is reported to have crossed another.
        """
        self._events, self._surveyed, self._layout = events, surveyed, layout
        self._filtered, self._crossed = filtered, crossed
        # What is not a delivery is little, and asked for several times.
        self._rare = events.where(F.col("event").isin("publish", *SUBSCRIPTIONS)).select(*_RARE)
        self._rare = self._rare.persist(StorageLevel.MEMORY_AND_DISK)
        told = self._names().union(self._topics()).union(self._subscriptions()).union(self._publications())
        self._told, self._delivered = (
            rows.mapInArrow(blocks.pack, blocks.SCHEMA).persist(StorageLevel.DISK_ONLY)
            for rows in (told, self._deliveries())
        )

    def pack(self) -> None:
        """Do the work: what is asked for later is ready."""
        done(self._told.union(self._delivered))

    def close(self) -> None:
        for frame in (self._told, self._delivered, self._rare):
            frame.unpersist()

    def everything(self) -> DataFrame:
        """All that can be said about every client, as blocks by `slot`."""
        return self._everywhere(self._told.union(self._delivered))

    def of_groups(self, suspects: DataFrame) -> DataFrame:
        """The same, and the groups (of topic and key) whose messages are to be looked at: `suspects`.`group`."""
        columns = ("kind", *wanted(SUSPECT))
        rows = _rows(suspects, columns, F.lit(EVERYWHERE), F.lit(0), kind=F.lit(SUSPECT), topic=F.col("group"))
        return self.everything().union(self._everywhere(rows.mapInArrow(blocks.pack, blocks.SCHEMA)))

    def clocks(self) -> DataFrame:
        """The causal past of every causal-or-stronger publication, as blocks by `slot`, for clients that are spread."""
        homes = self._told.union(self._delivered).withColumn("slot", F.col("home"))
        found = placed(homes, self._layout.slots).mapInArrow(pasts.find_clocks, pasts.SCHEMA)
        return self._everywhere(found.withColumn("slot", F.lit(EVERYWHERE)))

    def _everywhere(self, packed: DataFrame) -> DataFrame:
        """Blocks by the slots that want them."""
        all_of_them = F.sequence(F.lit(0), F.lit(self._layout.slots - 1))
        wanted = F.when(F.col("slot") == EVERYWHERE, all_of_them).otherwise(F.array("slot"))
        return packed.select(F.explode(wanted).alias("slot"), "block")

    # ------------------------------------------------------------------------------------------------ kinds of rows

    def _home(self) -> Column:
        return F.pmod(named("run"), F.lit(self._layout.slots)).cast("int")

    def _slot_of_client(self) -> Column:
        if not self._layout.spread:
            return self._home()
        return F.pmod(named("run", "node"), F.lit(self._layout.slots)).cast("int")

    def _slot_of_run(self) -> Column:
        return F.lit(EVERYWHERE) if self._layout.spread else self._home()

    def _deliveries(self) -> DataFrame:
        return _rows(
            self._events.where(F.col("event") == "deliver"),
            ("kind", *wanted(DELIVER)),
            self._slot_of_client(),
            self._home(),
            kind=F.lit(DELIVER),
            node=named("run", "node"),
            index=F.col("index"),
            publisher=named("run", "publisher"),
            seq=F.col("seq"),
            content=_content(),
        )

    def _publications(self) -> DataFrame:
        """What is reported to have crossed a total message takes no part in the order of its keys.

        Each given past is publisher, seq, publisher, seq and so on.
        """
        keys = F.transform(F.array_distinct(_sorted_keys()), lambda key: F.xxhash64(F.col("run"), F.col("topic"), key))
        published = self._rare.where(F.col("event") == "publish")
        if self._crossed:
            identity = ["run", "publisher", "seq"]
            crossed = self._events.where(is_crossed()).select(*identity).distinct()
            published = published.join(F.broadcast(crossed.withColumn("crossed", F.lit(True))), identity, "left")
            exempt = F.col("crossed").isNotNull() & (F.col("guarantee") != Guarantee.TOTAL.value)
            keys = F.when(exempt, F.array().cast("array<bigint>")).otherwise(keys)
        rank = F.array_position(F.array(*[F.lit(guarantee.value) for guarantee in GUARANTEES]), F.col("guarantee"))
        past = F.flatten(
            F.transform(
                F.map_entries("past"), lambda pair: F.array(F.xxhash64(F.col("run"), pair["key"]), pair["value"])
            )
        )
        return _rows(
            published,
            COLUMNS,
            self._slot_of_run(),
            self._home(),
            kind=F.lit(PUBLISH - 1) + rank,
            node=named("run", "node"),
            index=F.col("index"),
            publisher=named("run", "publisher"),
            seq=F.col("seq"),
            content=_content(),
            time=F.col("time"),
            topic=named("run", "topic"),
            keys=keys,
            past=past,
            text=F.to_json("attributes") if self._filtered else F.lit(None),
        )

    def _subscriptions(self) -> DataFrame:
        kind = F.when(F.col("event") == "subscribe", SUBSCRIBE).otherwise(UNSUBSCRIBE)
        return _rows(
            self._rare.where(F.col("event").isin(*SUBSCRIPTIONS)),
            COLUMNS,
            self._slot_of_client(),
            self._home(),
            kind=kind,
            node=named("run", "node"),
            index=F.col("index"),
            time=F.col("time"),
            text=F.col("topic"),
            more=F.col("where"),
        )

    def _names(self) -> DataFrame:
        """Every client and publisher once."""
        told = self._surveyed.where(F.col("promises") > 0)
        both = told.select("run", F.explode(F.array("node", "publisher")).alias("name"))
        return _rows(
            both.where(F.col("name").isNotNull()).distinct(),
            COLUMNS,
            self._slot_of_run(),
            self._home(),
            kind=F.lit(NAME),
            node=named("run", "name"),
            text=F.col("name"),
            more=F.col("run"),
        )

    def _topics(self) -> DataFrame:
        return _rows(
            self._rare.where(F.col("event") == "publish").select("run", "topic").distinct(),
            COLUMNS,
            self._slot_of_run(),
            self._home(),
            kind=F.lit(TOPIC),
            topic=named("run", "topic"),
            text=F.col("topic"),
            more=F.col("run"),
        )


def _content() -> Column:
    return F.xxhash64(F.col("topic"), F.col("guarantee"), _sorted_keys())


def done(frame: DataFrame) -> None:
    """Compute all rows of a frame, which is persisted."""
    frame.write.format("noop").mode("overwrite").save()


def placed(rows: DataFrame, slots: int) -> DataFrame:
    """The rows, each in the partition of its slot."""
    return rows.repartitionById(slots, F.col("slot")).drop("slot")
