"""The peer of `benchmarks/audit.py`: the same checks without Spark, in one process and its memory.

What Spark does natively (reading, hashing, dividing) Polars does here; what tasks do in numpy is the same code, in one
task. It knows what the made-up traces have: one run, no pasts or filters, at most one key for a message.

    python benchmarks/audit_polars.py TRACE
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa

from holdfast.pipeline.audit import disputes, judging
from holdfast.pipeline.audit.inbox import DELIVER, NAME, PUBLISH, SUBSCRIBE, SUSPECT, TOPIC, wanted

BATCH_ROWS = 100_000
CLOCK_BYTES_MAX = 1 << 30
_ZEROS = ("node", "index", "publisher", "seq", "content", "time", "topic")
_LISTS = pa.list_(pa.int64())
_SCHEMA = pa.schema(
    [
        ("kind", pa.int8()),
        *[(name, pa.int64()) for name in _ZEROS],
        ("keys", _LISTS),
        ("past", _LISTS),
        ("clock", pa.binary()),
        ("text", pa.string()),
        ("more", pa.string()),
    ]
)


def audit(directory: Path) -> dict[str, int]:
    """The number of deliveries and of faults of each kind."""
    events = pl.read_parquet(directory / "*.parquet", columns=[*_COLUMNS])
    names = pl.concat([events["node"].unique(), events["publisher"].unique()]).unique().drop_nulls().sort()
    topics = events["topic"].unique().sort()
    joined = pl.col("keys").list.sort().list.join(",")
    ids = events.with_columns(
        node=_number(pl.col("node"), names),
        publisher=_number(pl.col("publisher"), names),
        topic_id=_number(pl.col("topic"), topics),
        content=pl.concat_str("topic", "guarantee", joined).hash().reinterpret(signed=True),
    )
    published = ids.filter(pl.col("event") == "publish")
    delivered = ids.filter(pl.col("event") == "deliver")
    sent = [_names(names), *_publications(published), _topics(topics), *_subscriptions(ids), _rows(delivered, DELIVER)]
    counts: Counter[str] = Counter(deliveries=len(delivered))
    prints: dict[int, set[tuple[int, int]]] = {}
    for batch in judging.judge(_batches(sent), 5, CLOCK_BYTES_MAX):
        for row in batch.select(["what", "kind", "count", "group", "first_print", "second_print"]).to_pylist():
            if row["what"] == judging.COUNT:
                counts[row["kind"]] += row["count"]
            elif row["what"] == judging.PRINT:
                prints.setdefault(row["group"], set()).add((row["first_print"], row["second_print"]))
    suspects = [group for group, found in prints.items() if len(found) > 1]
    if suspects:
        arrived = judging.arrivals(_batches([*sent, _table({"topic": suspects}, SUSPECT)]))
        offences = {
            (row["node"], row["publisher"], row["seq"])
            for batch in disputes.judge_groups(arrived)
            for row in batch.to_pylist()
        }
        counts["total"] += len(offences)
    return dict(counts)


_COLUMNS = ("node", "index", "time", "event", "publisher", "seq", "topic", "guarantee", "keys")


def _number(column: pl.Expr, values: pl.Series) -> pl.Expr:
    return column.replace_strict(values, range(len(values)), default=-1, return_dtype=pl.Int64)


def _table(columns: dict[str, object], kind: int) -> pa.Table:
    size = len(next(iter(columns.values())))  # type: ignore[arg-type]
    made = []
    for field in _SCHEMA:
        if field.name == "kind":
            made.append(pa.array([kind] * size, pa.int8()))
        elif field.name in columns:
            given = columns[field.name]
            made.append(
                given.to_arrow().cast(field.type) if isinstance(given, pl.Series) else pa.array(given, field.type)
            )
        else:
            made.append(pa.array([0] * size, field.type) if field.name in _ZEROS else pa.nulls(size, field.type))
    return pa.table(made, schema=_SCHEMA)


def _rows(frame: pl.DataFrame, kind: int) -> pa.Table:
    return _table({name: frame[name] for name in wanted(kind) if name in frame.columns}, kind)


def _names(names: pl.Series) -> pa.Table:
    return _table({"node": list(range(len(names))), "text": names, "more": ["big"] * len(names)}, NAME)


def _topics(topics: pl.Series) -> pa.Table:
    return _table({"topic": list(range(len(topics))), "text": topics, "more": ["big"] * len(topics)}, TOPIC)


def _publications(published: pl.DataFrame) -> list[pa.Table]:
    tables = []
    for rank, guarantee in enumerate(("eventual", "fifo", "causal", "total")):
        part = published.filter(pl.col("guarantee") == guarantee)
        hashes = part.select(pl.concat_str("topic", pl.lit("/"), pl.col("keys").list.first()))
        held = hashes.to_series().is_not_null().to_numpy()
        offsets = pa.array(np.concatenate([[0], np.cumsum(held)]).astype(np.int32))
        values = hashes.to_series().drop_nulls().hash().reinterpret(signed=True)
        keys = pa.ListArray.from_arrays(offsets, values.to_arrow())
        columns = {name: part[name] for name in ("node", "index", "publisher", "seq", "content", "time")}
        tables.append(_table({**columns, "topic": part["topic_id"], "keys": keys}, PUBLISH + rank))
    return tables


def _subscriptions(ids: pl.DataFrame) -> list[pa.Table]:
    subscribed = ids.filter(pl.col("event") == "subscribe")
    columns = {name: subscribed[name] for name in ("node", "index", "time")}
    return [_table({**columns, "text": subscribed["topic"]}, SUBSCRIBE)]


def _batches(tables: list[pa.Table]) -> list[pa.RecordBatch]:
    return [batch for table in tables for batch in table.to_batches(BATCH_ROWS)]


if __name__ == "__main__":
    sys.stdout.write(msgspec.json.encode(audit(Path(sys.argv[1]))).decode() + "\n")
