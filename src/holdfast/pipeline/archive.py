"""The archive: an exactly-once copy of a recording or a reliable topic in partitioned Parquet, and the way back.

Spark's file sink writes each micro-batch into new files and then, at once, into its list of files
(`ARCHIVE/_spark_metadata`); whoever reads the archive with Spark reads by that list. What a killed run left behind is
not on it, and is removed before the next run begins, so that readers which know nothing of lists see no message twice
either.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from re import escape

import msgspec
from msgspec import Struct
from pyspark.sql import Column, DataFrame, Observation, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls them
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import DateType, LongType, StructField, StructType

from holdfast.model.topics import EVERYTHING, RESERVED, check_pattern
from holdfast.pipeline.logs import LogError, Positions, local_path
from holdfast.pipeline.message_columns import GAP, SCHEMA
from holdfast.pipeline.reliable_log import SCHEME

CHECKPOINT, METADATA, DESCRIPTION = "_checkpoint", "_spark_metadata", "_archive.json"
BY_LEGAL = ("day", "topic", "publisher", "guarantee")
ARCHIVE_SCHEMA = StructType([*SCHEMA.fields, StructField(GAP, LongType()), StructField("day", DateType())])
LOOK_EVERY_S = 1


class Description(Struct, frozen=True):
    """What an archive is a copy of. It does not change: half of an archive would be another's."""

    recording: str
    """The path of a recording, or `reliable:` and the name of a reliable topic."""
    topic: str = ""
    by: tuple[str, ...] = ("day",)

    @property
    def is_reliable(self) -> bool:
        return self.recording.startswith(SCHEME)


class Archived(Struct, frozen=True):
    """How far a run has come: rows that it copied, and for each lane the position behind the last."""

    rows: int = 0
    positions: Positions = {}


def start_archive(
    spark: SparkSession,
    description: Description,
    archive: Path | str,
    *,
    once: bool = False,
    interval_s: float = 10.0,
    messages_max: int = 500_000,
    options: Mapping[str, str] | None = None,
) -> StreamingQuery:
    """Begin to copy, after whatever was copied before; `once` ends when what is there now is copied.

    A micro-batch begins every `interval_s` if there is something, and has at most `messages_max` messages. `options`
    are further ones of the source, such as `repositories`.
    """
    place = local_path(str(archive), "an archive")
    _check_description(place, description)
    remove_leftovers(spark, place)
    source = spark.readStream.format("holdfast").options(**options or {}).option("maxMessagesPerTrigger", messages_max)
    if description.topic:
        source = source.option("topic", check_pattern(description.topic))
    frame = source.load(description.recording).withColumn("day", F.to_date("received"))
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(place / CHECKPOINT))
    writer = writer.partitionBy(*description.by)
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=f"{interval_s} seconds")
    return writer.start(str(place))


def follow(
    query: StreamingQuery,
    report: Callable[[Archived], None] = lambda _: None,
    is_enough: Callable[[], bool] = lambda: False,
) -> Archived:
    """Wait until a query ends, or it is enough, telling how far it has come; raises what it failed with."""
    done, batch = Archived(), -1
    ended = False
    while not ended:
        if is_enough():
            query.stop()
        ended = bool(query.awaitTermination(LOOK_EVERY_S))
        for progress in query.recentProgress:
            if progress["batchId"] <= batch or not progress["numInputRows"]:
                continue
            batch = progress["batchId"]
            done = Archived(done.rows + progress["numInputRows"], _positions_of(progress["sources"][0]["endOffset"]))
            report(done)
    return done


def _positions_of(offset: str | Mapping[str, int]) -> Positions:
    return msgspec.json.decode(offset, type=Positions) if isinstance(offset, str) else dict(offset)


def _check_description(archive: Path, wanted: Description) -> None:
    for column in wanted.by:
        if column not in BY_LEGAL:
            raise LogError(f"an archive is not divided by {column!r}; choose among {', '.join(BY_LEGAL)}.")
    kept = description_of(archive)
    if kept is None:
        archive.mkdir(parents=True, exist_ok=True)
        (archive / DESCRIPTION).write_bytes(msgspec.json.format(msgspec.json.encode(wanted), indent=1))
    elif kept != wanted:
        raise LogError(
            f"{archive} is a copy of {kept.recording} (topics: {kept.topic or 'all'}; by {', '.join(kept.by)}), and "
            f"{wanted.recording} ({wanted.topic or 'all'}; by {', '.join(wanted.by)}) was asked for; use another one."
        )


def description_of(archive: Path | str) -> Description | None:
    """What an archive is a copy of, if there is one."""
    try:
        written = (local_path(str(archive), "an archive") / DESCRIPTION).read_bytes()
    except FileNotFoundError:
        return None
    return msgspec.json.decode(written, type=Description)


def remove_leftovers(spark: SparkSession, archive: Path) -> int:
    """Remove the files that no finished micro-batch wrote; how many. Only while nobody writes to the archive."""
    there = {file for file in archive.rglob("*.parquet") if not _is_internal(file.relative_to(archive))}
    if not there:
        return 0
    listed: set[Path] = set()
    if (archive / METADATA).is_dir():
        listed = {local_path(uri, "a file of the archive") for uri in spark.read.parquet(str(archive)).inputFiles()}
    leftovers = {file for file in there if file.absolute() not in listed}
    for file in leftovers:
        file.unlink()
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    return len(leftovers)


def _is_internal(path: Path) -> bool:
    return path.parts[0].startswith(("_", "."))


# ------------------------------------------------------------------------------------------------------------- reading


def read_archive(
    spark: SparkSession, archive: Path | str, start: int | None = None, end: int | None = None, topic: str = ""
) -> DataFrame:
    """The messages start..end-1 of an archive on topics that the pattern matches; no rows that stand for gaps."""
    place = local_path(str(archive), "an archive")
    kept = description_of(place)
    if kept is None or not (place / METADATA).is_dir():
        raise LogError(f"there is no archive at {place}; make one with `holdfast pipeline archive`.")
    if kept.is_reliable and (start is not None or end is not None):
        raise LogError(
            f"{place} is a copy of {kept.recording}, whose positions count for each publisher by itself: there is no "
            "range of them. Read all of it, or choose by topic."
        )
    frame = spark.read.schema(ARCHIVE_SCHEMA).parquet(str(place)).where(f"{GAP} is null or {GAP} = 0").drop(GAP)
    if start is not None:
        frame = frame.where(F.col("position") >= start)
    if end is not None:
        frame = frame.where(F.col("position") < end)
    return frame.where(topic_matches(topic)) if topic else frame


def topic_matches(pattern: str) -> Column:
    """Whether the column `topic` matches a pattern, natively."""
    if check_pattern(pattern) == EVERYTHING:
        return F.lit(True)
    levels: Sequence[str] = pattern.split("/")
    rest = levels[-1] == "#"
    fixed = "/".join("[^/]+" if level == "+" else escape(level) for level in levels[: len(levels) - rest])
    regex = ".*" if not fixed else f"{fixed}(/.*)?" if rest else fixed
    # A wildcard in the first level does not match a topic that is reserved.
    first = f"(?!{RESERVED})" if levels[0] in ("+", "#") else ""
    return F.col("topic").rlike(f"^{first}{regex}$")


def replay(
    frame: DataFrame,
    address: str,
    write_id: str,
    *,
    prefix: str = "",
    partitions: int = 1,
    cluster: str = "holdfast",
    by_publisher: bool = False,
    durable: bool = False,
) -> int:
    """Publish the messages of an archive again, on their topics behind `prefix`; how many it were.

    In one partition the order of the archive is kept. In several, each has all messages of some publishers, so the
    order of each publisher is kept and no other. Under the same id nothing is published twice. Of a reliable topic
    (`by_publisher`) the order of each publisher is kept, and between them that of the times at which they were stored.
    `durable`: onto reliable topics, and it returns when everything is stored; such a replay is not gone on with.
    """
    order = ["position"]
    if by_publisher:
        # Clocks of repositories differ, and a message may have been stored late: whatever a publisher published
        # before it is not later than it.
        before = Window.partitionBy("publisher").orderBy("position").rowsBetween(Window.unboundedPreceding, 0)
        frame = frame.withColumn("_stored", F.max("time").over(before))
        order = ["_stored", "publisher", "position"]
    if partitions == 1:
        divided = frame.coalesce(1)
    else:
        divided = frame.repartition(partitions, "publisher")
    counted = Observation()
    wanted = divided.sortWithinPartitions(*order).select(
        F.concat(F.lit(prefix), F.col("topic")).alias("topic"), "payload", "guarantee", "keys", "attributes"
    )
    observed = wanted.observe(counted, F.count(F.lit(1)).alias("rows"))
    sink = observed.write.format("holdfast").mode("append").option("publisher", "replay").option("id", write_id)
    sink.option("address", address).option("cluster", cluster).option("durable", str(durable).lower()).save()
    return int(counted.get["rows"])
