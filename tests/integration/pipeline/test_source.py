"""`format("holdfast")` as a source: recordings and traces, in batches and streams, with every option."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from holdfast.storage.recordings import RecordingWriter
from tests.integration.pipeline.recorded import BEGAN_NS, message, record


def read(spark: SparkSession, path: Path, **options: Any) -> DataFrame:
    return spark.read.format("holdfast").options(**options).load(str(path))


def numbers(frame: DataFrame) -> list[int]:
    """Which messages of the world a frame holds."""
    return sorted(json.loads(row.payload)["number"] for row in frame.select("payload").collect())


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("recordings") / "bank", 0, 1000)


def test_every_column_of_a_message_is_there(spark: SparkSession, recording: Path):
    row = read(spark, recording).where("position = 120").first()
    assert row is not None
    expected = message(120)
    assert row.asDict() == {
        "position": 120,
        "topic": "bank/0",
        "publisher": "teller-0",
        "seq": 41,
        "guarantee": "eventual",
        "keys": ["k0"],
        "attributes": {"amount": "120", "city": '"Lisbon"', "big": "true"},
        "payload": expected.payload,
        "time": BEGAN_NS + 119 * 1_000_000,
        "received": dt.datetime(2027, 1, 15, 8, 0, 0, 119000),  # noqa: DTZ001 - UTC without saying so
    }


def test_partitions_are_ranges_that_together_hold_every_message_once(spark: SparkSession, recording: Path):
    frame = read(spark, recording, rowsPerPartition=130)
    assert frame.rdd.getNumPartitions() == 8
    assert numbers(frame) == list(range(1000))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startPosition": 990}, range(990, 1000)),
        ({"endPosition": 10}, range(10)),
        ({"startPosition": "5", "endPosition": '{"messages": 8}'}, range(5, 8)),
        ({"startPosition": "latest"}, range(0)),
        ({"topic": "bank/1"}, range(1, 1000, 4)),
        ({"topic": "nowhere/#"}, range(0)),
    ],
)
def test_options_say_which_messages(spark: SparkSession, recording: Path, options: dict[str, Any], expected: range):
    assert numbers(read(spark, recording, **options)) == list(expected)


def test_a_schema_with_fewer_columns_reads_fewer(spark: SparkSession, recording: Path):
    frame = spark.read.schema("seq BIGINT, topic STRING").format("holdfast").load(str(recording))
    assert frame.columns == ["seq", "topic"]
    assert frame.where("topic = 'bank/3'").count() == 250


FILTERS = [
    "topic in ('bank/1', 'bank/2') and position >= 500",
    "position between 100 and 149 and not guarantee = 'total'",
    "position > 997 or topic = 'bank/0'",
    "topic like '%/2' and publisher like '%er-1%'",
    "size(keys) > 0 and position < 30",
]


@pytest.mark.parametrize("condition", FILTERS)
def test_filters_that_are_pushed_down_give_what_spark_would_have_given(
    spark: SparkSession, recording: Path, condition: str
):
    expected = numbers(read(spark, recording).where(condition))
    assert 0 < len(expected) < 1000
    assert numbers(read(spark, recording, pushFilters="true").where(condition)) == expected


def test_pushed_filters_leave_nothing_for_spark_to_do(spark: SparkSession, recording: Path):
    plan = read(spark, recording, pushFilters="true").where("topic = 'bank/1' and seq > 3")._jdf.queryExecution()
    assert "Filter" not in plan.executedPlan().toString().replace("RuntimeFilters", "")


def test_a_frame_that_was_filtered_once_is_whole_the_next_time(spark: SparkSession, recording: Path):
    frame = read(spark, recording)
    assert frame.where("seq = 1").count() == 3
    assert frame.count() == 1000


def test_json_payloads_are_decoded_where_they_are_read(spark: SparkSession, recording: Path):
    decoded = read(spark, recording).selectExpr("from_json(string(payload), 'number INT') as it")
    assert decoded.selectExpr("sum(it.number)").collect() == [(sum(range(1000)),)]


PAYLOADS = {
    b'{"account": "a", "amount": 5, "tags": ["x", null], "note": 1}': ("a", 5, ["x", None]),
    b'{"account": null}': (None, None, None),
    b'{"account": "a", "amount": "five"}': None,
    b'{"account": "a", "amount": 3000000000}': None,
    b'{"account": ': None,
    b"[1]": None,
    b"\xff\x00": None,
    b"": None,
}
FIELDS = "account STRING, amount INT, tags ARRAY<STRING>"


def record_payloads(path: Path) -> Path:
    with RecordingWriter(path) as writer:
        writer.append([structs.replace(message(0), payload=payload) for payload in PAYLOADS], BEGAN_NS)
    return path


def test_json_is_decoded_by_the_source_on_request_and_what_is_none_stays_in_the_payload(
    spark: SparkSession, tmp_path: Path
):
    frame = read(spark, record_payloads(tmp_path / "bank"), json=FIELDS)
    assert frame.columns[-1] == "value"
    rows = frame.select("payload", "value").collect()
    assert {bytes(row.payload): None if row.value is None else tuple(row.value) for row in rows} == PAYLOADS
    assert frame.where("value.amount = 5").count() == 1
    pushed = read(spark, tmp_path / "bank", json=FIELDS, pushFilters="true")
    assert pushed.where("value is not null and position < 1").count() == 1


def test_a_stream_decodes_json_too(spark: SparkSession, tmp_path: Path):
    recording = record(tmp_path / "bank", 0, 100)
    assert stream_into(spark, recording, tmp_path, json="number BIGINT", maxMessagesPerTrigger=60) == [60, 40]
    copied = spark.read.parquet(str(tmp_path / "copy"))
    assert sorted(row.number for row in copied.select("value.number").collect()) == list(range(100))
    assert numbers(copied) == list(range(100))


# ------------------------------------------------------------------------------------------------------------- streams


def stream_into(spark: SparkSession, recording: Path, place: Path, **options: Any) -> list[int]:
    """Copy what is there to Parquet, in micro-batches; how many rows each had."""
    frame = spark.readStream.format("holdfast").options(**options).load(str(recording))
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(place / "copy"))
    )
    query.awaitTermination()
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


def test_a_stream_takes_so_many_at_a_time_and_goes_on_where_its_checkpoint_says(spark: SparkSession, tmp_path: Path):
    recording = record(tmp_path / "bank", 0, 250)
    assert stream_into(spark, recording, tmp_path, maxMessagesPerTrigger=100) == [100, 100, 50]
    record(recording, 250, 30)
    assert stream_into(spark, recording, tmp_path, maxMessagesPerTrigger=100) == [30]
    assert numbers(spark.read.parquet(str(tmp_path / "copy"))) == list(range(280))


def test_a_stream_begins_where_it_is_told(spark: SparkSession, tmp_path: Path):
    recording = record(tmp_path / "bank", 0, 100)
    assert stream_into(spark, recording, tmp_path, startPosition=60, topic="bank/2") == [10]
    assert numbers(spark.read.parquet(str(tmp_path / "copy"))) == list(range(62, 100, 4))


def test_a_stream_notices_that_its_recording_was_replaced(spark: SparkSession, tmp_path: Path):
    stream_into(spark, record(tmp_path / "bank", 0, 50), tmp_path)
    for file in (tmp_path / "bank").iterdir():
        file.unlink()
    record(tmp_path / "bank", 0, 20)
    with pytest.raises(PySparkException, match=r"ends at 20 in messages, and up to 50 was read from it before"):
        stream_into(spark, tmp_path / "bank", tmp_path)


# ------------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"startPosition": "soon"}, r"startPosition is 'soon'; it is 'earliest', 'latest' or a position"),
        ({"endPosition": 5000}, r"endPosition is .*5000.* ends at .*1000"),
        ({"rowsPerPartition": "many"}, r"rowsPerPartition is 'many'; it is a number from 1 on"),
        ({"topic": "a//#/b"}, r"pattern"),
        ({"pushFilters": "yes"}, r"pushFilters is 'yes'; it is one of false, true"),
        ({"json": "colour TINT"}, r"TINT"),
        ({"json": "gap INTERVAL DAY"}, r"json has value\.gap interval day; JSON holds strings"),
    ],
)
def test_an_option_that_cannot_be_is_refused_with_what_could(
    spark: SparkSession, recording: Path, options: dict[str, Any], sentence: str
):
    with pytest.raises(PySparkException, match=sentence):
        read(spark, recording, **options).collect()


def test_a_column_that_is_not_there_is_named_with_those_that_are(spark: SparkSession, recording: Path):
    with pytest.raises(PySparkException, match=r"no column colour string .* position bigint, topic string"):
        spark.read.schema("colour STRING").format("holdfast").load(str(recording)).collect()


def test_a_place_without_anything_to_read_says_what_would_be(spark: SparkSession, tmp_path: Path):
    with pytest.raises(PySparkException, match="neither a recording nor a trace"):
        read(spark, tmp_path)


def test_an_empty_recording_has_no_rows(spark: SparkSession, tmp_path: Path):
    RecordingWriter(tmp_path / "empty").close()
    assert read(spark, tmp_path / "empty").count() == 0
