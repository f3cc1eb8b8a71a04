"""`format("holdfast")` as a sink: rows become publications, whatever is repeated."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import holdfast
from holdfast.pipeline import ledger
from tests.integration.pipeline.hall import Hall
from tests.integration.pipeline.recorded import message, record


@pytest.fixture
def hall() -> Iterator[Hall]:
    with Hall() as made:
        yield made


def rows(spark: SparkSession, count: int, partitions: int = 2) -> DataFrame:
    frame = spark.range(0, count, 1, partitions)
    return frame.selectExpr("'numbers' as topic", "string(id) as payload")


def write(frame: DataFrame, hall: Hall, **options: Any) -> None:
    frame.write.format("holdfast").mode("append").options(address=hall.address, **options).save()


def stream(spark: SparkSession, recording: Path, hall: Hall, checkpoint: Path, **options: Any) -> None:
    """Publish what a recording holds and was not published yet."""
    frame = spark.readStream.format("holdfast").option("maxMessagesPerTrigger", 40).load(str(recording))
    query = (
        frame.writeStream.format("holdfast")
        .options(address=hall.address, checkpointLocation=str(checkpoint), **options)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


# -------------------------------------------------------------------------------------------------------------- batches


def test_each_row_is_published_once_in_the_order_of_its_partition(spark: SparkSession, hall: Hall):
    write(rows(spark, 1000), hall, id="w", guarantee="fifo")
    heard = hall.heard()
    assert sorted(int(each.payload) for each in heard) == list(range(1000))
    for partition, first in ((0, 0), (1, 500)):
        of_it = [each for each in heard if each.publisher == f"spark-w-{partition}"]
        assert [(each.seq, int(each.payload)) for each in of_it] == [(at + 1, first + at) for at in range(500)]
    assert {each.guarantee.value for each in heard} == {"fifo"}


def test_columns_of_the_source_go_through_the_sink_unchanged(spark: SparkSession, hall: Hall, tmp_path: Path):
    record(tmp_path, 0, 100)
    write(spark.read.format("holdfast").load(str(tmp_path)), hall)
    heard = hall.heard()
    assert [(each.topic, each.payload, each.guarantee) for each in heard] == [
        (each.topic, each.payload, each.guarantee) for each in map(message, range(100))
    ]
    assert [each.attributes for each in heard] == [message(number).attributes for number in range(100)]
    assert heard[10].keys == message(10).keys


def test_a_write_that_is_repeated_under_its_id_publishes_nothing_twice(spark: SparkSession, hall: Hall):
    # The first half of the second partition is out already: its task was killed there.
    with holdfast.connect_sync(hall.address, name="spark-w-1") as killed:
        killed.publish_many("numbers", [b"%d" % number for number in range(500, 750)])
    for _ in range(2):
        write(rows(spark, 1000), hall, id="w")
    assert sorted(int(each.payload) for each in hall.heard()) == list(range(1000))


def test_two_writes_without_an_id_are_two_writes(spark: SparkSession, hall: Hall):
    write(rows(spark, 3), hall)
    write(rows(spark, 3), hall)
    assert len(hall.heard()) == 6


def test_rows_behind_a_shuffle_are_ordered_by_what_is_named(spark: SparkSession, hall: Hall):
    shuffled = spark.range(0, 300, 1, 3).selectExpr("'t' as topic", "string(id) as payload", "id").repartition(2)
    write(shuffled, hall, id="w", orderBy="id")
    for publisher in ("spark-w-0", "spark-w-1"):
        numbers = [int(each.payload) for each in hall.heard() if each.publisher == publisher]
        assert numbers == sorted(numbers)
    write(shuffled, hall, id="w", orderBy="id")
    assert sorted(int(each.payload) for each in hall.heard()) == list(range(300))


# ------------------------------------------------------------------------------------------------------------- streams


def test_a_stream_publishes_what_is_new_with_numbers_that_go_on(spark: SparkSession, hall: Hall, tmp_path: Path):
    record(tmp_path / "bank", 0, 100)
    stream(spark, tmp_path / "bank", hall, tmp_path / "checkpoint")
    record(tmp_path / "bank", 100, 50)
    stream(spark, tmp_path / "bank", hall, tmp_path / "checkpoint")
    heard = hall.heard()
    assert [each.payload for each in heard] == [message(number).payload for number in range(150)]
    assert [each.seq for each in heard] == list(range(1, 151))
    assert len({each.publisher for each in heard}) == 1


@pytest.mark.parametrize("ledger_is_older", [False, True])
def test_a_micro_batch_that_spark_repeats_is_published_once(
    spark: SparkSession, hall: Hall, tmp_path: Path, ledger_is_older: bool
):
    record(tmp_path / "bank", 0, 100)
    checkpoint = tmp_path / "checkpoint"
    stream(spark, tmp_path / "bank", hall, checkpoint)
    # Spark was killed before it wrote down that the last micro-batch is done; and maybe even before the sink did.
    (checkpoint / "commits" / "2").unlink()
    (checkpoint / "commits" / ".2.crc").unlink()
    if ledger_is_older:
        place = checkpoint / "holdfast-sink"
        kept = ledger.load(place)
        ledger.save(place, kept.with_batch(kept.query, {"0": ledger.LedgerEntry(1, 40, 80)}))
    record(tmp_path / "bank", 100, 5)
    stream(spark, tmp_path / "bank", hall, checkpoint)
    assert [each.payload for each in hall.heard()] == [message(number).payload for number in range(105)]


def test_a_broker_that_forgot_the_publisher_is_noticed_before_anything_is_repeated(
    spark: SparkSession, hall: Hall, tmp_path: Path
):
    record(tmp_path / "bank", 0, 100)
    stream(spark, tmp_path / "bank", hall, tmp_path / "checkpoint")
    record(tmp_path / "bank", 100, 5)
    with (
        Hall() as another,
        pytest.raises(PySparkException, match=r"knows 0 messages of spark-.*, which has published 100"),
    ):
        stream(spark, tmp_path / "bank", another, tmp_path / "checkpoint")


def test_a_ledger_of_another_query_is_refused(spark: SparkSession, hall: Hall, tmp_path: Path):
    record(tmp_path / "bank", 0, 10)
    stream(spark, tmp_path / "bank", hall, tmp_path / "first", ledger=str(tmp_path / "ledger"))
    with pytest.raises(PySparkException, match=r"the ledger belongs to the query .*, and this is"):
        stream(spark, tmp_path / "bank", hall, tmp_path / "second", ledger=str(tmp_path / "ledger"))
    assert len(hall.heard()) == 10


# ------------------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (["'a' as topic"], "no column payload"),
        (["'a' as topic", "'b' as payload", "'fifo' as guarentee"], "no use for the column guarentee"),
        (["'a' as topic", "1 as payload"], "the column payload is int"),
        (["'a' as topic", "'b' as payload", "'best' as guarantee"], "unknown guarantee 'best'"),
        (["'a/+' as topic", "'b' as payload"], r"a/\+"),
    ],
)
def test_what_cannot_be_published_is_named(spark: SparkSession, hall: Hall, columns: list[str], sentence: str):
    with pytest.raises(PySparkException, match=sentence):
        write(spark.range(1).selectExpr(*columns), hall)
    assert hall.heard() == []


def test_without_a_broker_the_write_fails_with_the_address(spark: SparkSession):
    with pytest.raises(PySparkException, match=r"127.0.0.1:1 \(nobody is listening there\)"):
        rows(spark, 1).write.format("holdfast").mode("append").option("address", "holdfast://127.0.0.1:1").save()


def test_what_is_published_cannot_be_overwritten(spark: SparkSession, hall: Hall):
    with pytest.raises(PySparkException, match="cannot be overwritten"):
        rows(spark, 1).write.format("holdfast").mode("overwrite").option("address", hall.address).save()
