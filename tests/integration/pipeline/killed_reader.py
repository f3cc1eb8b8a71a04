"""A job to be killed: `python -m tests.integration.pipeline.killed_reader PLACE REPOSITORIES SOURCE TOPIC`.

It copies a reliable topic from its repositories to PLACE/copy, a few messages at a time, until all is there.
"""

import sys
from pathlib import Path

from holdfast.pipeline.session import spark_session

MESSAGES_PER_BATCH = 40


def main(place: Path, repositories: str, source: str, topic: str) -> None:
    with spark_session("local[1]", quick=True, memory="512m") as spark:
        reader = spark.readStream.format("holdfast").options(repositories=repositories, topic=topic)
        frame = reader.option("maxMessagesPerTrigger", MESSAGES_PER_BATCH).load(source)
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(place / "checkpoint"))
        writer.trigger(availableNow=True).start(str(place / "copy")).awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:5])
