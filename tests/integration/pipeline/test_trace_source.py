"""`format("holdfast")` reads traces too: JSON lines and Parquet, whole, in pieces, and while they grow."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from holdfast.model.trace import Event
from holdfast.pipeline.trace_frames import write_parquet_trace
from holdfast.storage.traces import write_trace
from tests.integration.pipeline.test_source import read, stream_into


def events() -> list[Event]:
    return [
        Event("run", f"node-{at % 3}", at // 3, at * 1000, "publish", "alice", at + 1, "t/1", guarantee="fifo", size=at)
        for at in range(100)
    ]


@pytest.mark.parametrize("kind", ["lines", "parquet"])
@pytest.mark.parametrize("rows", [13, 1000])
def test_traces_of_either_kind_are_read_whole_and_in_pieces(spark: SparkSession, tmp_path: Path, kind: str, rows: int):
    if kind == "lines":
        write_trace(tmp_path / "a.jsonl", events()[:40])
        write_trace(tmp_path / "b.jsonl", events()[40:])
    else:
        write_parquet_trace(tmp_path, events(), rows_per_file=40)
    frame = read(spark, tmp_path, rowsPerPartition=rows)
    assert sorted(row.seq for row in frame.select("seq").collect()) == list(range(1, 101))
    assert frame.where("seq = 50").select("node", "index", "time", "size", "keys").first() == (
        "node-1",
        16,
        49000,
        49,
        [],
    )


@pytest.mark.parametrize("kind", ["lines", "parquet"])
def test_a_trace_is_followed_as_it_grows(spark: SparkSession, tmp_path: Path, kind: str):
    trace = tmp_path / "trace"

    def write(some: list[Event], name: str) -> None:
        if kind == "lines":
            write_trace(trace / f"{name}.jsonl", some)
        else:
            write_parquet_trace(trace, some, rows_per_file=1000)

    write(events()[:40], "a")
    assert stream_into(spark, trace, tmp_path, maxMessagesPerTrigger=25) == [25, 15]
    write(events()[40:], "b")
    if kind == "lines":
        with (trace / "a.jsonl").open("ab") as file:
            file.write(b'{"run": "half a line')
    assert stream_into(spark, trace, tmp_path, maxMessagesPerTrigger=50) == [50, 10]
    copy = spark.read.parquet(str(tmp_path / "copy"))
    assert sorted(row.seq for row in copy.select("seq").collect()) == list(range(1, 101))


def test_a_line_that_is_no_event_is_named_by_its_number(spark: SparkSession, tmp_path: Path):
    write_trace(tmp_path / "a.jsonl", events()[:5])
    with (tmp_path / "a.jsonl").open("ab") as file:
        file.write(b'{"run": "r", "node": "n", "index": 0, "time": 0}\n')
    with pytest.raises(PySparkException, match=r"a.jsonl:6: column 'event' is missing"):
        read(spark, tmp_path).collect()
