"""The sink of `format("holdfast")`: each row of a DataFrame becomes a publication, once.

```python
frame.write.format("holdfast").mode("append").option("address", "holdfast://127.0.0.1:7400").save()
frame.writeStream.format("holdfast").option("address", ...).option("checkpointLocation", "checkpoints/q").start()
```

Columns: `topic` (STRING), `payload` (BINARY or STRING), and if wanted `guarantee` (STRING), `keys` (ARRAY<STRING>) and
`attributes` (MAP<STRING, STRING>: values that read as JSON numbers, booleans or strings are those, others are text).
The other columns of a recording are ignored; any other name is refused, lest a slip of the pen weaken a guarantee.

Every partition publishes under a name of its own, `publisher-QUERY-PARTITION`, and row n of a query's partition has the
number n of that publisher. Brokers take each number once, and tell a publisher that comes back how many they have: a
task that is repeated leaves out what is already there. This holds as long as

- a repeated task has the same rows in the same order: so it is with map-like queries on a source that repeats; behind a
  shuffle name columns in `orderBy`;
- the broker remembers the publisher: the sink comes back to the first address that answers. A broker that was started
  anew has forgotten, and the sink stops with a sentence rather than repeat what may be out.

Options: `address` (several with commas); `cluster`; `guarantee` (of rows without one, else `causal`); `publisher` (the
first part of the names, else `spark`); `orderBy` (columns, with commas, by which each task orders its rows first); of a
batch `id`: who gives the same id again goes on with the same write; of a stream `ledger`: a directory, by default
within the checkpoint. A batch may be `durable`: every row is stored by a repository of its topic before the write is
done. Numbers of the session say nothing of what is stored, so a durable write that was interrupted is not gone on with:
it ends with a sentence.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType

from holdfast.client import SyncClient, SyncReceipt, connect_sync
from holdfast.model.errors import Indefinite
from holdfast.model.guarantees import check_guarantee
from holdfast.pipeline import ledger as ledgers
from holdfast.pipeline.logs import LogError, local_path
from holdfast.pipeline.values import decode_value

CLUSTER = "holdfast"
LEDGER = "holdfast-sink"
QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
"""Under which names Spark tells a task whose it is."""
PAYLOAD_TYPES = (BinaryType, StringType)
IGNORED = frozenset({"position", "publisher", "seq", "time", "received", "day"})
"""What a recording or an archive says of a message besides: it gets its own from being published."""


class SinkError(Indefinite):
    """Raised when publishing cannot go on without the risk of publishing something twice or under another number."""


@dataclass(frozen=True)
class PublishedRow(WriterCommitMessage):
    """What one task has published: its rows are the numbers after `before`, up to `last`, of its publisher."""

    query: str
    batch: int
    partition: int
    before: int
    last: int


class PublishedRows:
    """From Arrow batches to publications of one publisher. It is pickled on its way to the workers."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        address = options.get("address")
        if not address:
            raise LogError("say where to publish: the option address, such as holdfast://127.0.0.1:7400.")
        self._address, self._cluster = address, options.get("cluster", CLUSTER)
        self._guarantee = check_guarantee(options.get("guarantee", "causal"))
        self.prefix = options.get("publisher", "spark")
        self._durable = options.get("durable", "false").lower() == "true"
        self._order = [name.strip() for name in options.get("orderBy", "").split(",") if name.strip()]
        _check_columns(schema, self._order)

    def publish(self, name: str, before: int, batches: Iterator[pa.RecordBatch]) -> int:
        """Publish the rows under this name, numbered after `before`, save those that are out; the last number."""
        batches = self._ordered(batches)
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return before
        with connect_sync(self._address, name=name, cluster=self._cluster) as client:
            taken = client.next_seq - 1
            if self._durable:
                return self._publish_durably(client, name, taken, _chained(first, batches))
            if taken < before or not client.numbers_known:
                knows = f"{taken} messages" if client.numbers_known else "not how many messages"
                raise SinkError(
                    f"broker {client.broker} knows {knows} of {name}, which has published {before}: it was "
                    "started anew, or is not the broker of before. Name that one first in `address`; if it is gone for "
                    "good, begin a new query, which may repeat the rows of its last micro-batch."
                )
            last = before
            for batch in _chained(first, batches):
                out = min(max(taken - last, 0), batch.num_rows)
                last += batch.num_rows
                self._publish_rows(client, batch.slice(out))
            if taken > last:
                raise SinkError(
                    f"{name} has published {taken} messages, and there are rows for {last} only: this is not the write "
                    "that was begun under this name. Give it another `id`, or a new checkpoint."
                )
            client.flush()
        return last

    def _publish_durably(self, client: SyncClient, name: str, taken: int, batches: Iterator[pa.RecordBatch]) -> int:
        """The same for what repositories are to keep: it returns when they do."""
        if taken:
            raise SinkError(
                f"{name} has published before, and how much of that is stored its numbers do not say: a durable write "
                "that was interrupted is not gone on with. See what is there, and begin another one for the rest."
            )
        last, stored = 0, dict[str, SyncReceipt]()
        for batch in batches:
            last += batch.num_rows
            stored |= self._publish_rows(client, batch)
        for receipt in stored.values():
            receipt.stored()
        return last

    def _ordered(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if not self._order:
            return batches
        collected = list(batches)
        if not collected:
            return iter(())
        table = pa.Table.from_batches(collected).sort_by([(name, "ascending") for name in self._order])
        return iter(table.to_batches())

    def _publish_rows(self, client: SyncClient, batch: pa.RecordBatch) -> dict[str, SyncReceipt]:
        """Publish them; the receipt of the last on each topic."""
        publish, default, durable, receipts = client.publish, self._guarantee, self._durable, dict[str, SyncReceipt]()
        topics, payloads = batch.column("topic").to_pylist(), batch.column("payload").to_pylist()
        names = batch.schema.names
        guarantees, keys, attributes = (
            batch.column(name).to_pylist() if name in names else repeat(None)
            for name in ("guarantee", "keys", "attributes")
        )
        for topic, payload, guarantee, its_keys, its_attributes in zip(
            topics, payloads, guarantees, keys, attributes, strict=False
        ):
            receipts[topic] = publish(
                topic,
                payload if type(payload) is bytes else _payload(payload),
                guarantee or default,
                its_keys or (),
                {name: decode_value(text) for name, text in its_attributes} if its_attributes else None,
                durable=durable,
            )
        return receipts


class BatchSink(DataSourceArrowWriter):
    """`frame.write`: one write, whose tasks may be repeated."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._publications = PublishedRows(options, schema)
        self._write_id = options.get("id") or uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> PublishedRow:
        partition = _context().partitionId()
        name = f"{self._publications.prefix}-{self._write_id}-{partition}"
        return PublishedRow(self._write_id, 0, partition, 0, self._publications.publish(name, 0, iterator))


class StreamSink(DataSourceStreamArrowWriter):
    """`frame.writeStream`: micro-batches, each of which may be repeated, whole or in part. Made anew for each."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        if options.get("durable", "false").lower() == "true":
            raise LogError("a stream is not written durably: write each of its micro-batches, with foreachBatch.")
        self._publications = PublishedRows(options, schema)
        self._directory = _ledger_directory(options)
        self._ledger = ledgers.load(self._directory)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> PublishedRow:
        context = _context()
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        if query is None or batch is None:
            raise LogError("this is no task of a streaming query: Spark says neither its query nor its micro-batch.")
        partition = context.partitionId()
        before = self._ledger.before(query, partition, int(batch))
        name = f"{self._publications.prefix}-{query}-{partition}"
        return PublishedRow(query, int(batch), partition, before, self._publications.publish(name, before, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Every task is done. Written down before Spark does: of the two the ledger must not be the older one."""
        entries = {
            str(each.partition): ledgers.LedgerEntry(batchId, each.before, each.last)
            for each in messages
            if isinstance(each, PublishedRow)
        }
        query = next((each.query for each in messages if isinstance(each, PublishedRow)), "")
        if query:
            ledgers.save(self._directory, self._ledger.with_batch(query, entries))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """What was published stays published; whoever repeats the micro-batch leaves it out."""


def _ledger_directory(options: Mapping[str, str]) -> Path:
    if given := options.get("ledger"):
        return local_path(given, "the ledger")
    checkpoint = options.get("checkpointLocation")
    if not checkpoint:
        raise LogError("say where the sink keeps its ledger: the option checkpointLocation, or ledger, a directory.")
    return local_path(checkpoint, "the ledger (name a directory for it with the option ledger)") / LEDGER


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise LogError("the sink writes within tasks of Spark, and this is none.")
    return context


def _check_columns(schema: StructType, order: Sequence[str]) -> None:
    kinds: dict[str, DataType] = {field.name: field.dataType for field in schema.fields}
    legal: dict[str, Any] = {
        "topic": StringType,
        "payload": PAYLOAD_TYPES,
        "guarantee": StringType,
        "keys": ArrayType,
        "attributes": MapType,
    }
    for name in ("topic", "payload"):
        if name not in kinds:
            raise LogError(f"the DataFrame has no column {name}; its columns are {', '.join(kinds)}.")
    for name, kind in kinds.items():
        if name not in legal and name not in IGNORED and name not in order:
            raise LogError(
                f"the sink has no use for the column {name}; drop it, or rename it: it publishes {', '.join(legal)}."
            )
        if name in legal and not isinstance(kind, legal[name]):
            raise LogError(f"the column {name} is {kind.simpleString()}, which cannot be published: see the docs.")
    for name in order:
        if name not in kinds:
            raise LogError(f"orderBy names the column {name}, which the DataFrame does not have.")


def _payload(payload: str | None) -> bytes:
    return b"" if payload is None else payload.encode()


def _chained(first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from others
