"""A job to be killed: `python -m tests.integration.pipeline.killed_job PLACE RECORDING ADDRESS`.

Two queries at once over the same recording: one archives it, the other publishes it. When one fails, because its
workers were killed, both are started again. When there is a file PLACE/finish they do what is left, and the job ends.

A Java that a failure has left unable to run anything is not worth asking again and again: a class whose loading was
interrupted stays unusable. After some failures in a row without any progress the job ends, to be started anew.
"""

import sys
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from holdfast.pipeline.archive import Description, start_archive
from holdfast.pipeline.session import spark_session

MESSAGES_PER_BATCH = 1000
ROWS_PER_PARTITION = 400
"""Three tasks a micro-batch, each of which has a publisher of its own."""
FRUITLESS_MAX = 3


def start(spark: SparkSession, recording: str, place: Path, address: str, once: bool) -> list[StreamingQuery]:
    described = Description(recording)
    copying = start_archive(
        spark, described, place / "archive", once=once, interval_s=0.1, messages_max=MESSAGES_PER_BATCH
    )
    source = spark.readStream.format("holdfast").option("rowsPerPartition", ROWS_PER_PARTITION)
    writer = source.option("maxMessagesPerTrigger", MESSAGES_PER_BATCH).load(recording).writeStream.format("holdfast")
    writer = writer.options(address=address, checkpointLocation=str(place / "published"))
    publishing = writer.trigger(availableNow=True) if once else writer.trigger(processingTime="0.1 seconds")
    return [copying, publishing.start()]


def is_over(queries: list[StreamingQuery], finish: Path, once: bool) -> bool:
    """Wait until the queries end, or one fails, or they are to finish; whether all have ended well."""
    while True:
        # Every one is asked: the failure of the second must not wait for the end of the first.
        ended = [query.awaitTermination(1) for query in queries]
        if all(ended):
            return True
        if finish.exists() and not once:
            return False


class Life:
    """One process of the job: how often in a row it has failed, and the query that failed had done nothing."""

    def __init__(self, spark: SparkSession, recording: str, place: Path, address: str) -> None:
        self._spark, self._recording, self._place, self._address = spark, recording, place, address
        self._fruitless = 0

    @property
    def is_hopeless(self) -> bool:
        return self._fruitless >= FRUITLESS_MAX

    def has_finished(self) -> bool:
        finish = self._place / "finish"
        once = finish.exists()
        queries: list[StreamingQuery] = []
        try:
            queries = start(self._spark, self._recording, self._place, self._address, once)
            return is_over(queries, finish, once)
        except (PySparkException, Py4JError):
            # A worker that was to plan the query is among the dead.
            failed = [query for query in queries if query.exception() is not None]
            rows = sum(progress["numInputRows"] for query in failed for progress in query.recentProgress)
            self._fruitless = 0 if rows else self._fruitless + 1
            return False
        finally:
            for query in self._spark.streams.active:
                query.stop()


def main(recording: str, place: Path, address: str) -> None:
    with spark_session("local[1]", quick=True, memory="512m") as spark:
        life = Life(spark, recording, place, address)
        while not life.has_finished():
            if life.is_hopeless:
                sys.exit(f"{FRUITLESS_MAX} failures in a row without any progress: start this job anew")


if __name__ == "__main__":
    main(sys.argv[2], Path(sys.argv[1]), sys.argv[3])
