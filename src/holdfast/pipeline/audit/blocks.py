"""Rows in blocks: what tasks are sent crosses Spark's shuffle as a few long rows instead of many short ones.

Each time a row passes from one stage to another, or between Java and Python, Spark copies it field by field. A delivery
goes that way several times, so it is copied so once: behind the reader a task lays the rows of one destination side
by side (an Arrow stream of one batch), and from there on they are bytes that nobody looks into.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

SCHEMA = "slot int, home int, block binary"
"""`slot` is the task that wants the rows, `EVERYWHERE` for all of them; `home` the task of their run."""
EVERYWHERE = -1
BLOCK_ROWS = 1 << 18
"""So many rows are gathered, at most, before they are divided among blocks."""

_FIELDS = pa.schema([("slot", pa.int32()), ("home", pa.int32()), ("block", pa.binary())])


def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows with `slot` and `home` as blocks, of `SCHEMA`."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= BLOCK_ROWS:
            yield _packed(pa.Table.from_batches(waiting))
            waiting, rows = [], 0
    if rows:
        yield _packed(pa.Table.from_batches(waiting))


def _packed(table: pa.Table) -> pa.RecordBatch:
    slots, homes = (table.column(name).to_numpy().astype(np.int64) for name in ("slot", "home"))
    places = ((slots - EVERYWHERE) << 32) | homes
    order = np.argsort(places, kind="stable")
    places = places[order]
    starts = np.flatnonzero(np.concatenate([np.ones(1, np.bool_), places[1:] != places[:-1]]))
    rows = table.drop_columns(["slot", "home"]).combine_chunks()
    if len(starts) > 1:
        rows = rows.take(pa.array(order))
    lengths = np.diff(np.append(starts, len(places)))
    blocks = [
        _block(rows.slice(start, length)) for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
    ]
    firsts = order[starts]
    columns = [
        pa.array(slots[firsts].astype(np.int32)),
        pa.array(homes[firsts].astype(np.int32)),
        pa.array(blocks, pa.binary()),
    ]
    return pa.record_batch(columns, schema=_FIELDS)


def _block(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def block_of(batch: pa.RecordBatch) -> bytes:
    """One batch as a block."""
    return _block(pa.Table.from_batches([batch]))


def unpacked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows in the blocks of a column `block`."""
    for batch in batches:
        for block in batch.column("block"):
            with pa.ipc.open_stream(block.as_buffer()) as stream:
                yield from stream
