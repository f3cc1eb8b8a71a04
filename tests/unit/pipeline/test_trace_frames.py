"""Traces as Parquet: what was written is what is read, and what is wrong is named."""

from math import inf
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.model.trace import Event, TraceError
from holdfast.pipeline.trace_frames import (
    ARROW_SCHEMA,
    arrow_columns,
    count_events,
    decode_value,
    encode_value,
    is_parquet,
    read_in_memory,
    write_parquet_trace,
)
from holdfast.storage.traces import write_trace
from tests.unit.simulation.stories import busy_day, random_trace


def in_order(events: list[Event]) -> list[Event]:
    return sorted(events, key=lambda event: (event.run, event.node, event.index))


@pytest.mark.parametrize("seed", range(20))
def test_what_was_written_is_what_is_read(tmp_path: Path, seed: int):
    events = random_trace(seed)
    write_parquet_trace(tmp_path, events, rows_per_file=50)
    assert is_parquet(tmp_path)
    assert read_in_memory(tmp_path) == in_order(events)
    assert count_events(tmp_path, limit=10**6) == len(events)


def test_lines_are_read_as_ever(tmp_path: Path):
    write_trace(tmp_path, busy_day())
    assert not is_parquet(tmp_path)
    assert read_in_memory(tmp_path) == in_order(busy_day())
    assert count_events(tmp_path, limit=10**6) == len(busy_day())


@pytest.mark.parametrize("value", ["north", '"', "", 3, -(10**15), 2.5, inf, -inf, True, False])
def test_a_value_of_an_attribute_survives_as_text(value: str | float):
    back = decode_value(encode_value(value))
    assert back == value
    assert type(back) is type(value)


def test_a_column_that_is_missing_is_named(tmp_path: Path):
    table = pa.table(arrow_columns(busy_day()), schema=ARROW_SCHEMA).drop_columns(["seq"])
    pq.write_table(table, tmp_path / "trace.parquet")
    with pytest.raises(TraceError, match="column 'seq' is missing; a trace in Parquet has run, node"):
        read_in_memory(tmp_path)


def test_a_value_that_is_missing_is_named_with_its_row(tmp_path: Path):
    table = pa.table(arrow_columns(busy_day()), schema=ARROW_SCHEMA)
    nodes = pa.array([None, *table.column("node").to_pylist()[1:]], pa.string())
    pq.write_table(table.set_column(1, "node", nodes), tmp_path / "trace.parquet")
    with pytest.raises(TraceError, match=r"trace\.parquet, row 1: column 'node' is missing"):
        read_in_memory(tmp_path)


def test_a_file_that_is_no_parquet_is_named(tmp_path: Path):
    (tmp_path / "trace.parquet").write_bytes(b"PAR?")
    with pytest.raises(TraceError, match=r"trace\.parquet cannot be read as Parquet"):
        count_events(tmp_path, limit=1)
