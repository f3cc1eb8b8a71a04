"""`format("holdfast")` on a reliable topic: real repositories, killed while they are read, and the same rows."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from holdfast.cluster.config import LOOPBACK
from holdfast.pipeline.archive import Description, follow, read_archive, replay, start_archive
from holdfast.pipeline.logs import LogError
from tests.integration.pipeline.hall import Hall
from tests.integration.pipeline.killing import Job
from tests.integration.reliable.support_kept import STREAM, Kept, Watched
from tests.support.shelves import Shelf

RELIABLE = f"reliable:{STREAM}"
LIMIT_S = 240
SIZE = 2000
"""So many bytes a payload has besides: a thousand messages are two blocks."""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    with Kept(tmp_path_factory.mktemp("kept")) as made:
        made.publish("alice", 1, 1500, SIZE)
        made.publish("bob", 1, 30)
        yield made


def messages(name: str, first: int, last: int) -> list[bytes]:
    return [b"%s %d" % (name.encode(), number) for number in range(first, last + 1)]


def read(spark: SparkSession, kept: Kept, **options: Any) -> DataFrame:
    return spark.read.format("holdfast").options(**{"repositories": kept.repositories, **options}).load(RELIABLE)


def payloads(frame: DataFrame) -> list[bytes]:
    """In the order of each publisher, one publisher after the other."""
    rows = frame.orderBy("publisher", "position").select("payload").collect()
    return [bytes(row.payload).rstrip(b"\0") for row in rows]


def test_a_repository_killed_in_the_middle_of_its_answer_changes_nothing(spark: SparkSession, kept: Kept):
    expected = read(spark, kept).drop("time", "received").orderBy("publisher", "position").collect()
    assert len(expected) == 1530
    # The lanes are told, the first block is, and of the second a part.
    with Watched(kept.ports["r1"], 1_500_000, lambda: kept.kill("r1")) as watched:
        ways = f"{LOOPBACK}:{watched.port},{LOOPBACK}:{kept.ports['r2']}"
        found = read(spark, kept, repositories=ways).drop("time", "received").orderBy("publisher", "position")
        assert found.collect() == expected
        assert watched.acted
    kept.restart("r1")


def test_partitions_topics_publishers_and_beginnings_say_what_is_read(spark: SparkSession, kept: Kept):
    assert read(spark, kept, rowsPerPartition=400).rdd.getNumPartitions() == 5
    bob = read(spark, kept, pushFilters="true").where("publisher = 'bob'")
    assert payloads(bob) == messages("bob", 1, 30)
    assert payloads(read(spark, kept, topic="bank/none")) == []
    # Everything of alice's was stored before anything of bob's.
    assert payloads(read(spark, kept, startPosition="sequence:r2:1501")) == messages("bob", 1, 30)
    assert read(spark, kept, endPosition="time:2020-01-01T00:00:00Z").count() == 0


def stream_into(spark: SparkSession, kept: Kept, place: Path, **options: Any) -> list[int]:
    """Copy what is there to Parquet, in micro-batches; how many rows each had."""
    source = spark.readStream.format("holdfast").options(**{"repositories": kept.repositories, **options})
    writer = source.load(RELIABLE).writeStream.format("parquet").option("checkpointLocation", str(place / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(place / "copy"))
    query.awaitTermination()
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


def test_a_stream_goes_on_at_another_repository_where_its_checkpoint_says(
    spark: SparkSession, kept: Kept, tmp_path: Path
):
    options = {"topic": "bank/stream", "startPosition": "latest", "maxMessagesPerTrigger": 60}
    assert stream_into(spark, kept, tmp_path, **options) == []
    kept.publish("carol", 1, 100, topic="bank/stream")
    assert stream_into(spark, kept, tmp_path, **options) == [60, 40]
    kept.kill("r1")
    # A new life of the same name, and it is a lane of its own.
    kept.publish("carol", 101, 130, topic="bank/stream")
    assert stream_into(spark, kept, tmp_path, **options) == [30]
    kept.restart("r1")
    kept.kill("r2")
    assert stream_into(spark, kept, tmp_path, **options) == []
    kept.restart("r2")
    assert payloads(spark.read.parquet(str(tmp_path / "copy"))) == messages("carol", 1, 130)


def test_a_driver_killed_in_the_middle_of_a_stream_goes_on_with_each_message_once(
    spark: SparkSession, kept: Kept, tmp_path: Path
):
    kept.publish("erin", 1, 600, topic="bank/killed")
    arguments = (tmp_path, kept.repositories, RELIABLE, "bank/killed")
    first = Job(*arguments, module="killed_reader")
    first.goes_on_until((tmp_path / "copy" / "_spark_metadata" / "2").exists)
    first.kill("everything")
    first.wait()
    before = spark.read.parquet(str(tmp_path / "copy")).count()
    assert 0 < before < 600, "it was killed too late to show anything"
    # What it had begun it does again; and from another repository, since this one is gone as well.
    kept.kill("r1")
    second = Job(*arguments, module="killed_reader")
    assert second.wait() == 0, second.said()
    kept.restart("r1")
    assert payloads(spark.read.parquet(str(tmp_path / "copy"))) == messages("erin", 1, 600)


def test_a_replay_that_is_durable_is_stored_and_is_not_gone_on_with(spark: SparkSession, kept: Kept):
    columns = "publisher string, position bigint, topic string, guarantee string"
    frame = spark.createDataFrame([("alice", n, "bank/again", "fifo") for n in range(1, 31)], columns).selectExpr(
        "*", "concat('again ', position) as payload", "array() as keys", "map() as attributes"
    )
    assert replay(frame, kept.address, "d", durable=True) == 30
    assert payloads(read(spark, kept, topic="bank/again")) == messages("again", 1, 30)
    with pytest.raises(PySparkException, match="is not gone on with"):
        replay(frame, kept.address, "d", durable=True)


def test_what_was_given_up_is_noted_in_the_archive_and_is_no_message_of_it(spark: SparkSession, tmp_path: Path):
    described = Description(RELIABLE, topic="bank/a")
    with Shelf("r1") as shelf:
        shelf.keep(1, messages("alice", 1, 3))
        shelf.keep(6, messages("alice", 6, 7))
        shelf.keep(8, [b"elsewhere"], topic="bank/b")
        shelf.machine.give_up(STREAM, "alice")
        shelf.commit()
        options = {"repositories": shelf.address, "gaps": "note"}
        follow(start_archive(spark, described, tmp_path, once=True, options=options))
    copied = spark.read.parquet(str(tmp_path)).where("gap > 0").selectExpr("position & 4294967295", "gap", "topic")
    assert [tuple(row) for row in copied.collect()] == [(4, 2, "")]
    assert payloads(read_archive(spark, tmp_path)) == messages("alice", 1, 3) + messages("alice", 6, 7)
    with pytest.raises(LogError, match="whose positions count for each publisher by itself"):
        read_archive(spark, tmp_path, start=5)


def test_a_replay_keeps_each_publishers_order_whatever_the_clocks_of_repositories_said(spark: SparkSession):
    columns = "publisher string, position bigint, time bigint, topic string, guarantee string"
    rows = [("alice", 1, 10), ("alice", 2, 5), ("bob", 1, 7), ("bob", 2, 12), ("alice", 3, 11)]
    frame = spark.createDataFrame([(*row, "bank/a", "fifo") for row in rows], columns).selectExpr(
        "*", "concat(publisher, ' ', position) as payload", "array() as keys", "map() as attributes"
    )
    with Hall() as hall:
        assert replay(frame, hall.address, "r", by_publisher=True) == 5
        heard = [each.payload for each in hall.heard()]
    assert heard == [b"bob 1", b"alice 1", b"alice 2", b"alice 3", b"bob 2"]


def holdfast(kept: Kept, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "holdfast", "pipeline", *map(str, arguments), "--master", "local[1]"]
    return subprocess.run(command, cwd=kept.directory, capture_output=True, text=True, check=False, timeout=LIMIT_S)


def test_from_the_command_line_a_reliable_topic_is_archived_and_published_again(kept: Kept, tmp_path: Path):
    place = tmp_path / "archive"
    kept.publish("dave", 1, 20, topic="bank/cli")
    ran = holdfast(kept, "archive", RELIABLE, place, "--topic", "bank/cli", "--once", "--json")
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)
    assert said["rows"] == 20
    assert [position for lane, position in said["positions"].items() if lane.startswith("dave/")] == [21]
    with Hall() as hall:
        ran = holdfast(kept, "replay", place, "--prefix", "again/", "-a", hall.address, "--json")
        assert ran.returncode == 0, ran.stderr
        heard = hall.heard()
    assert [(each.topic, each.payload) for each in heard] == [
        ("again/bank/cli", payload) for payload in messages("dave", 1, 20)
    ]
    ran = holdfast(kept, "archive", "reliable:shop/#", place)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "no repository of cluster holdfast keeps 'shop/#': r1 keeps bank/#; r2 keeps bank/#." in ran.stderr
