"""A job to be killed: `python -m tests.integration.pipeline.killed_job PLACE RECORDING ADDRESS`.

Two queries at once over the same recording: one archives it, the other publishes it. When one fails, because its
workers were killed, both are started again. When there is a file PLACE/finish they do what is left, and the job ends.
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


def has_finished(spark: SparkSession, recording: str, place: Path, address: str) -> bool:
    finish = place / "finish"
    once = finish.exists()
    try:
        queries = start(spark, recording, place, address, once)
        return is_over(queries, finish, once)
    except (PySparkException, Py4JError):
        # A worker that was to plan the query is among the dead.
        return False
    finally:
        for query in spark.streams.active:
            query.stop()


def main(recording: str, place: Path, address: str) -> None:
    with spark_session("local[1]", quick=True, memory="512m") as spark:
        done = False
        while not done:
            done = has_finished(spark, recording, place, address)


if __name__ == "__main__":
    main(sys.argv[2], Path(sys.argv[1]), sys.argv[3])
