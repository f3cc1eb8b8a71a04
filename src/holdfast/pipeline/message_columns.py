"""Messages as Arrow batches, with the columns that every source of messages has.

What is read lies in columns already (`holdfast.storage.frames.Columns`): numbers are taken as they are, texts by their
index, and payloads in one piece. What repositories keep are batches, which become such columns without a look at each
message.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import TypeVar

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
)

from holdfast.model.guarantees import GUARANTEES
from holdfast.model.reliable import Entry
from holdfast.pipeline.values import encode_value
from holdfast.storage.frames import Columns

T = TypeVar("T")

BATCH_ROWS = 20_000
BATCH_BYTES = 32 << 20
"""An Arrow batch is closed when it has as many rows, or as many bytes of payloads."""
SCHEMA = StructType(
    [
        StructField("position", LongType(), nullable=False),
        StructField("topic", StringType(), nullable=False),
        StructField("publisher", StringType(), nullable=False),
        StructField("seq", LongType(), nullable=False),
        StructField("guarantee", StringType(), nullable=False),
        StructField("keys", ArrayType(StringType(), containsNull=False), nullable=False),
        StructField("attributes", MapType(StringType(), StringType(), valueContainsNull=False), nullable=False),
        StructField("payload", BinaryType(), nullable=False),
        StructField("time", LongType(), nullable=False),
        StructField("received", TimestampNTZType(), nullable=False),
    ]
)
"""`time` is when whoever kept the message received it, in nanoseconds since 1970 UTC; `received` the same in UTC."""

_GUARANTEES = pa.array([guarantee.value for guarantee in GUARANTEES])


Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]


def sliced(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The same rows, a bounded number at a time."""
    for start in range(0, batch.num_rows, BATCH_ROWS):
        yield batch.slice(start, BATCH_ROWS)


def record_batch(positions: Numbers, columns: Sequence[Columns], counts: Sequence[int]) -> pa.RecordBatch:
    """The messages of these columns, each of which has so many, under these positions."""
    total = len(positions)
    times = _numbers([each.times for each in columns], "<i8")
    arrays = [
        pa.array(positions),
        _texts([each.topics for each in columns], [each.topic_at for each in columns], counts),
        _texts([each.publishers for each in columns], [each.publisher_at for each in columns], counts),
        pa.array(_numbers([each.seqs for each in columns], "<i8")),
        _GUARANTEES.take(pa.array(_numbers([each.guarantees for each in columns], "i1"))),
        _keys(columns, counts, total),
        _attributes(columns, counts, total),
        _payloads(columns),
        pa.array(times),
        pa.array(times // 1000, pa.timestamp("us")),
    ]
    return pa.record_batch(arrays, names=SCHEMA.fieldNames())


def _numbers(parts: Sequence[bytes], kind: str) -> Numbers:
    return np.frombuffer(parts[0] if len(parts) == 1 else b"".join(parts), dtype=kind)


def _texts(texts: Sequence[Sequence[str]], places: Sequence[bytes], counts: Sequence[int]) -> pa.Array:
    """Texts that each frame lists for itself: the lists one after the other, and each index moved by what is before."""
    index = _numbers(places, "<i4")
    if len(texts) > 1:
        before = np.cumsum([0, *map(len, texts[:-1])], dtype="<i4")
        index = index + np.repeat(before, counts)
    listed = pa.array([text for each in texts for text in each], pa.string())
    return listed.take(pa.array(index, pa.int32()))


def _payloads(columns: Sequence[Columns]) -> pa.Array:
    offsets = [np.frombuffer(each.offsets, dtype="<i4") for each in columns]
    before = 0
    moved = [np.zeros(1, dtype="<i4")]
    for each in offsets:
        moved.append(each[1:] + np.int32(before))
        before += int(each[-1])
    where = np.ascontiguousarray(np.concatenate(moved))
    data = b"".join(each.payloads for each in columns)
    return pa.Array.from_buffers(pa.binary(), len(where) - 1, [None, pa.py_buffer(where), pa.py_buffer(data)])


_STRING_LISTS, _STRING_MAPS = pa.list_(pa.string()), pa.map_(pa.string(), pa.string())


def _keys(columns: Sequence[Columns], counts: Sequence[int], total: int) -> pa.Array:
    if not any(each.keys for each in columns):
        return _blank(_STRING_LISTS, total)
    return pa.array(
        [keys for each, count in zip(columns, counts, strict=True) for keys in each.keys or [()] * count],
        _STRING_LISTS,
    )


def _attributes(columns: Sequence[Columns], counts: Sequence[int], total: int) -> pa.Array:
    if not any(each.attributes for each in columns):
        return _blank(_STRING_MAPS, total)
    return pa.array(
        [
            [(name, encode_value(value)) for name, value in attributes.items()]
            for each, count in zip(columns, counts, strict=True)
            for attributes in each.attributes or [{}] * count
        ],
        _STRING_MAPS,
    )


def _blank(kind: pa.DataType, total: int) -> pa.Array:
    """As many empty lists or maps."""
    offsets, nothing = pa.array(np.zeros(total + 1, dtype="<i4")), pa.array([], pa.string())
    if kind is _STRING_MAPS:
        return pa.MapArray.from_arrays(offsets, nothing, nothing)
    return pa.ListArray.from_arrays(offsets, nothing)


# ----------------------------------------------------------------------------------------------------------- entries


def entries_batch(entries: Sequence[Entry]) -> pa.RecordBatch:
    """The messages of what a repository keeps, of one publisher, under their catenation numbers."""
    counts = [entry.count for entry in entries]
    positions = _consecutive([entry.cat for entry in entries], counts)
    return record_batch(positions, [_columns(entries, counts)], [len(positions)])


def _columns(entries: Sequence[Entry], counts: Sequence[int]) -> Columns:
    batches = [entry.batch for entry in entries]
    topics = {topic: at for at, topic in enumerate(dict.fromkeys(batch.topic for batch in batches))}
    lengths = [
        np.frombuffer(batch.lengths, dtype="<u4")
        if batch.lengths
        else np.full(batch.count, len(batch.payloads) // batch.count, dtype="<u4")
        for batch in batches
    ]
    has_keys, has_attributes = any(batch.keys for batch in batches), any(batch.attributes for batch in batches)
    return Columns(
        list(topics),
        np.repeat(np.array([topics[batch.topic] for batch in batches], dtype="<i4"), counts).tobytes(),
        [batches[0].publisher],
        bytes(4 * sum(counts)),
        _consecutive([batch.first for batch in batches], counts).tobytes(),
        np.repeat(np.array([batch.guarantee for batch in batches], dtype="i1"), counts).tobytes(),
        np.repeat(np.array([entry.time_ns for entry in entries], dtype="<i8"), counts).tobytes(),
        np.cumsum(np.concatenate([np.zeros(1, dtype="<u4"), *lengths]), dtype="<i4").tobytes(),
        b"".join(batch.payloads for batch in batches),
        _unfolded([(batch.keys or ((),), batch.count) for batch in batches]) if has_keys else (),
        _unfolded([(batch.attributes or ({},), batch.count) for batch in batches]) if has_attributes else (),
    )


def _consecutive(firsts: Sequence[int], counts: Sequence[int]) -> Numbers:
    """first, first + 1 and so on, as many as its count says, for each."""
    before = np.cumsum([0, *counts[:-1]], dtype="<i8")
    return np.repeat(np.array(firsts, dtype="<i8") - before, counts) + np.arange(sum(counts), dtype="<i8")


def _unfolded(columns: Sequence[tuple[Sequence[T], int]]) -> list[T]:
    """One for each message: a column that has one alone has it for all."""
    each = (column if len(column) > 1 else repeat(column[0], count) for column, count in columns)
    return list(chain.from_iterable(each))


# --------------------------------------------------------------------------------------------------------------- gaps

GAP = "gap"
GAPS_SCHEMA = StructType([*SCHEMA.fields, StructField(GAP, LongType(), nullable=False)])
"""With one column more: how many messages a row stands for that were given up; 0 if it is a message."""


def with_gap_column(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Messages, each with the gap 0."""
    return batch.append_column(GAP, pa.array(np.zeros(batch.num_rows, dtype="<i8")))


def gap_batch(publisher: str, cat: int, count: int) -> pa.RecordBatch:
    """One row for messages that were given up, from that catenation number on. It has no topic: nobody knows it."""
    text, nothing = pa.array([""]), pa.array([0], pa.int64())
    arrays = [pa.array([cat], pa.int64()), text, pa.array([publisher]), nothing, text]
    arrays += [_blank(_STRING_LISTS, 1), _blank(_STRING_MAPS, 1), pa.array([b""], pa.binary())]
    arrays += [nothing, pa.array([0], pa.timestamp("us")), pa.array([count], pa.int64())]
    return pa.record_batch(arrays, names=GAPS_SCHEMA.fieldNames())
