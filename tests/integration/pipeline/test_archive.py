"""`holdfast pipeline archive` and `replay`: from a recording to Parquet, and from there to the brokers again."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from holdfast.model.topics import matches
from holdfast.pipeline.archive import (
    Description,
    follow,
    read_archive,
    remove_leftovers,
    replay,
    start_archive,
    topic_matches,
)
from holdfast.pipeline.errors import PipelineError, spoken_plainly
from holdfast.pipeline.logs import LogError
from tests.integration.pipeline.hall import Hall
from tests.integration.pipeline.recorded import message, record

LIMIT_S = 120


@pytest.fixture
def hall() -> Iterator[Hall]:
    with Hall() as made:
        yield made


def archive(spark: SparkSession, recording: Path, place: Path, messages_max: int = 500, **described: object) -> int:
    wanted = Description(str(recording), **described)  # type: ignore[arg-type]
    return follow(start_archive(spark, wanted, place, once=True, messages_max=messages_max)).rows


def holdfast(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "holdfast", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)


def test_from_the_command_line_a_recording_is_archived_and_a_range_of_it_published_again(hall: Hall, tmp_path: Path):
    recording, place = record(tmp_path / "recording", 0, 300), tmp_path / "archive"
    ran = holdfast("pipeline", "archive", recording, place, "--once", "--json", "--master", "local[1]", "--max", 200)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == {"archive": str(place), "rows": 300, "position": 300}
    assert ran.stderr.splitlines() == [
        "archived 200 messages, up to position 200",
        "archived 300 messages, up to position 300",
    ]
    options = ["--from", 100, "--to", 200, "--topic", "bank/+", "--prefix", "again/", "--id", "r", "--json"]
    ran = holdfast("pipeline", "replay", place, *options, "-a", hall.address, "--master", "local[1]")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == {"archive": str(place), "id": "r", "rows": 100}
    heard = hall.heard()
    assert [(each.topic, each.payload, each.guarantee, each.keys, each.attributes) for each in heard] == [
        (f"again/{each.topic}", each.payload, each.guarantee, each.keys, each.attributes)
        for each in map(message, range(100, 200))
    ]


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_replay_that_is_repeated_under_its_id_publishes_nothing_twice(
    spark: SparkSession, hall: Hall, tmp_path: Path, partitions: int
):
    recording, place = record(tmp_path / "recording", 0, 200), tmp_path / "archive"
    archive(spark, recording, place)
    for end in (120, 200):
        replay(read_archive(spark, place, end=end), hall.address, "r", partitions=partitions)
    heard = hall.heard()
    assert sorted(each.payload for each in heard) == sorted(message(number).payload for number in range(200))
    for teller in range(3):
        of_it = [number for each in heard if (number := json.loads(each.payload)["number"]) % 3 == teller]
        assert of_it == sorted(of_it), "the order of a publisher is kept"


def test_the_archive_follows_until_it_is_interrupted(tmp_path: Path):
    recording, place = record(tmp_path / "recording", 0, 10), tmp_path / "archive"
    options = ["--interval", "0.1", "--master", "local[1]"]
    following = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "pipeline", "archive", str(recording), str(place), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with following:
        assert following.stderr is not None
        assert following.stdout is not None
        assert following.stderr.readline() == "archived 10 messages, up to position 10\n"
        record(recording, 10, 5)
        assert following.stderr.readline() == "archived 15 messages, up to position 15\n"
        # As a terminal does it: everybody in the group hears of it.
        os.killpg(following.pid, signal.SIGINT)
        assert following.stdout.read() == f"{place}: 15 messages more\n"
        assert following.stderr.read() == ""
        assert following.wait(LIMIT_S) == 0


def test_what_cannot_be_is_one_sentence(tmp_path: Path):
    ran = holdfast("pipeline", "archive", tmp_path / "nothing", tmp_path / "archive")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"holdfast: there is no recording in {tmp_path / 'nothing'}")
    assert len(ran.stderr.splitlines()) == 1


def test_what_a_worker_says_is_heard_without_the_noise(spark: SparkSession):
    rows = spark.range(1).selectExpr("'t' as topic", "'p' as payload")
    with pytest.raises(PipelineError) as raised, spoken_plainly():
        rows.write.format("holdfast").mode("append").option("address", "holdfast://127.0.0.1:1").save()
    assert str(raised.value).startswith("no broker answers spark-")
    assert "; tried 127.0.0.1:1 (nobody is listening there). Is the cluster running?" in str(raised.value)
    with pytest.raises(PipelineError) as raised, spoken_plainly():
        spark.read.format("holdfast").load("nowhere")
    assert str(raised.value).startswith("there is n")


def test_an_archive_is_divided_as_asked_and_reads_the_same_by_other_tools(spark: SparkSession, tmp_path: Path):
    recording, place = record(tmp_path / "recording", 0, 400), tmp_path / "archive"
    assert archive(spark, recording, place, by=("day", "topic"), topic="bank/#") == 400
    directories = {str(file.parent.relative_to(place)) for file in place.rglob("*.parquet")}
    assert directories == {f"day=2027-01-15/topic=bank%2F{at}" for at in range(4)}
    frame = read_archive(spark, place, start=10, end=20, topic="bank/1")
    assert [row.position for row in frame.orderBy("position").collect()] == [13, 17]
    others = ds.dataset(place, format="parquet", partitioning="hive").to_table(columns=["position", "topic"])
    assert sorted(others["position"].to_pylist()) == list(range(400))


def test_files_that_no_finished_micro_batch_wrote_are_removed_and_no_others(spark: SparkSession, tmp_path: Path):
    recording, place = record(tmp_path / "recording", 0, 100), tmp_path / "archive"
    archive(spark, recording, place)
    listed = sorted(place.rglob("*.parquet"))
    leftover = listed[0].with_name("part-00000-killed.snappy.parquet")
    leftover.write_bytes(listed[0].read_bytes())
    assert remove_leftovers(spark, place) == 1
    assert sorted(place.rglob("*.parquet")) == listed
    assert archive(spark, recording, place) == 0


def test_an_archive_does_not_become_a_copy_of_something_else(spark: SparkSession, tmp_path: Path):
    recording, place = record(tmp_path / "recording", 0, 10), tmp_path / "archive"
    archive(spark, recording, place)
    with pytest.raises(LogError, match=r"is a copy of .* \(topics: all; by day\), and .* \(bank/#; by day\) was asked"):
        archive(spark, recording, place, topic="bank/#")
    with pytest.raises(LogError, match="not divided by 'colour'"):
        archive(spark, recording, tmp_path / "other", by=("colour",))
    with pytest.raises(LogError, match="there is no archive at"):
        read_archive(spark, tmp_path / "other")


def test_patterns_match_in_spark_what_they_match_at_brokers(spark: SparkSession):
    topics = ["bank", "bank/1", "bank/1/x", "bank.1", "bank/", "b", "bank/2/y/z", "other/1", "~a", "~a/1", "b/~a"]
    patterns = ["#", "+", "~a/#", "~#", "+/#", "bank", "bank/#", "bank/+", "bank/+/#", "+/1", "bank.1", "+/+/+"]
    frame = spark.createDataFrame([(topic,) for topic in topics], "topic string")
    columns = [topic_matches(pattern).alias(str(at)) for at, pattern in enumerate(patterns)]
    for topic, row in zip(topics, frame.select(*columns).collect(), strict=True):
        legal = topic != "bank/"
        assert not legal or list(row) == [matches(pattern, topic) for pattern in patterns], topic
