"""The tree of brokers as it was at every moment of a run, from what brokers reported, and the way of each delivery.

Both ends of a link report it (`attach`, `resume`) and its end (`detach`, `end`, or that the other is `suspect`); it is
there as long as both say so. Whoever crashes or stops has no links. Between two changes there is one *tree* (or what
is left of it), numbered from 0. The way of a message is known if the tree was the same from its publication to its
delivery, and its client stayed where it was: then there is only one. Otherwise nobody can say, and nobody does.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls them

BEGINS, ENDS, GONE = ("attach", "resume"), ("detach", "end", "suspect"), ("crash", "stopped", "restart")
_CLIENT, _FIRST = "client", "first"
_COLUMNS = ("run", "node", "peer", "event", "time", "index")

Link = tuple[str, str]


def homes(events: DataFrame) -> DataFrame:
    """To which broker each client was attached, and when.

    Columns: `run, client, broker, from_ns, to_ns` (null for the last).
    """
    attached = events.where(F.col("event") == "attach").join(
        F.broadcast(_clients(events)), ["run", "node"], "left_semi"
    )
    following = Window.partitionBy("run", "node").orderBy("index")
    return attached.select(
        "run",
        F.col("node").alias("client"),
        F.col("peer").alias("broker"),
        F.col("time").alias("from_ns"),
        F.lead("time").over(following).alias("to_ns"),
    )


def _clients(events: DataFrame) -> DataFrame:
    return events.where(F.col("event").isin("publish", "deliver", "subscribe")).select("run", "node").distinct()


def with_ways(timed: DataFrame, events: DataFrame) -> DataFrame:
    """With `way`, the brokers from the one that took the message to the one that delivered it, and `hops`: how many.

    Both are null where the way is not known. `timed` has `run, origin, client, published_ns, delivered_ns`.
    """
    changes = _changes(events)
    placed = _with_trees(_with_brokers(timed, homes(events)), changes)
    # Under another name: Spark cannot tell two frames apart that have a column of the same origin.
    asked = placed.where(F.col("tree").isNotNull()).select(F.col("run").alias("of"), "tree", "one", "other").distinct()
    found = (
        asked.groupBy("of")
        .cogroup(changes.groupBy("run"))
        .applyInArrow(_ways, "run string, tree bigint, one string, other string, way array<string>")
    )
    joined = placed.join(F.broadcast(found), ["run", "tree", "one", "other"], "left").drop("tree", "one", "other")
    return joined.withColumn("hops", F.when(F.col("way").isNotNull(), F.size("way").cast("bigint")))


def _with_brokers(timed: DataFrame, homes: DataFrame) -> DataFrame:
    """With the brokers `one` of the publisher when it published, and `other` of the client all the while."""
    stays = homes.groupBy("run", "client").agg(F.collect_list(F.struct("broker", "from_ns", "to_ns")).alias("stays"))

    def broker_during(end: str) -> Column:
        def lasted(stay: Column) -> Column:
            return (stay["from_ns"] <= F.col("published_ns")) & F.coalesce(stay["to_ns"] > F.col(end), F.lit(True))

        return F.get(F.filter("stays", lasted), F.lit(0))["broker"]

    of_origin = stays.withColumnRenamed("client", "origin")
    published = timed.join(F.broadcast(of_origin), ["run", "origin"], "left")
    published = published.withColumn("one", broker_during("published_ns")).drop("stays")
    delivered = published.join(F.broadcast(stays), ["run", "client"], "left")
    return delivered.withColumn("other", broker_during("delivered_ns")).drop("stays")


def _with_trees(timed: DataFrame, changes: DataFrame) -> DataFrame:
    """With `tree`, which of the run's trees there was from publication to delivery; null if there were several."""
    times = changes.groupBy("run").applyInArrow(_starts, "run string, starts array<bigint>")

    def tree_at(time: str) -> Column:
        return F.size(F.filter("starts", lambda start: start <= F.col(time))).cast("bigint")

    before, after = tree_at("published_ns"), tree_at("delivered_ns")
    known = F.col("one").isNotNull() & F.col("other").isNotNull() & (before == after)
    return timed.join(F.broadcast(times), "run", "left").withColumn("tree", F.when(known, before)).drop("starts")


def _changes(events: DataFrame) -> DataFrame:
    """All that trees are made of: reports of links, who is a client, and when the first message was published."""
    reports = events.where(F.col("event").isin(*BEGINS, *ENDS, *GONE)).select(*_COLUMNS)
    nothing = [F.lit(0).cast("bigint").alias(name) for name in ("time", "index")]
    clients = _clients(events).select("run", "node", F.lit("").alias("peer"), F.lit(_CLIENT).alias("event"), *nothing)
    first = events.where(F.col("event") == "publish").groupBy("run").agg(F.min("time").alias("time"))
    firsts = first.select(
        "run", F.lit("").alias("node"), F.lit("").alias("peer"), F.lit(_FIRST).alias("event"), "time", nothing[1]
    )
    return reports.union(clients).union(firsts)


# ------------------------------------------------------------------------------------------------------------- trees


class Trees:
    """The trees of one run, one after the other."""

    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        self._clients = {row["node"] for row in rows if row["event"] == _CLIENT}
        self._halves: set[Link] = set()
        self._links: set[Link] = set()
        first = min((row["time"] for row in rows if row["event"] == _FIRST), default=0)
        self.starts: list[int] = []
        """When each tree but the first began. What changed before anything was published makes no tree of its own."""
        self._trees: list[frozenset[Link]] = [frozenset()]
        self._near: dict[int, dict[str, list[str]]] = {}
        for row in sorted(rows, key=lambda row: (row["time"], row["node"], row["index"])):
            if self._change(row) and self._links != self._trees[-1]:
                if row["time"] > first:
                    self.starts.append(row["time"])
                    self._trees.append(frozenset(self._links))
                else:
                    self._trees[-1] = frozenset(self._links)

    def _change(self, row: dict[str, Any]) -> bool:
        """Take in one report; whether it may have changed the tree."""
        node, peer, event = row["node"], row["peer"], row["event"]
        if event in GONE:
            for half in [half for half in self._halves if half[0] == node]:
                self._end(half)
            return True
        if event not in BEGINS + ENDS or node in self._clients or peer in self._clients:
            return False
        if event in ENDS:
            self._end((node, peer))
            return True
        self._halves.add((node, peer))
        if (peer, node) in self._halves:
            self._links.add((min(node, peer), max(node, peer)))
        return True

    def _end(self, half: Link) -> None:
        self._halves.discard(half)
        self._links.discard((min(half), max(half)))

    def way(self, tree: int, one: str, other: str) -> list[str] | None:
        """The brokers from one to another in a tree; None if there is no way."""
        near = self._near.get(tree)
        if near is None:
            near = self._near[tree] = {}
            for a, b in sorted(self._trees[tree]):
                near.setdefault(a, []).append(b)
                near.setdefault(b, []).append(a)
        came_from: dict[str, str | None] = {one: None}
        edge = [one]
        while edge and other not in came_from:
            edge = [broker for at in edge for broker in _stepped(near.get(at, ()), at, came_from)]
        if other not in came_from:
            return None
        way = [other]
        while (before := came_from[way[-1]]) is not None:
            way.append(before)
        return way[::-1]


def _stepped(near: Sequence[str], at: str, came_from: dict[str, str | None]) -> Iterator[str]:
    for broker in near:
        if broker not in came_from:
            came_from[broker] = at
            yield broker


def _starts(changes: pa.Table) -> pa.Table:
    rows = changes.to_pylist()
    columns = {"run": pa.array([rows[0]["run"]]), "starts": pa.array([Trees(rows).starts], pa.list_(pa.int64()))}
    return pa.table(columns)


def _ways(asked: pa.Table, changes: pa.Table) -> pa.Table:
    trees = Trees(changes.to_pylist())
    rows = [
        {**row, "run": row["of"], "way": trees.way(row["tree"], row["one"], row["other"])} for row in asked.to_pylist()
    ]
    names = [("run", pa.string()), ("tree", pa.int64()), ("one", pa.string()), ("other", pa.string())]
    return pa.Table.from_pylist(rows, pa.schema([*names, ("way", pa.list_(pa.string()))]))
