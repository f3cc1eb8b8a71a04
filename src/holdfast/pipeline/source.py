"""`format("holdfast")`: messages and traces as DataFrames, batch and streaming, and DataFrames as publications.

```python
from holdfast.pipeline.source import register

register(spark)  # a session of `spark_session` knows it already
spark.read.format("holdfast").load("recordings/bank").where("topic = 'bank/lisbon'").count()
spark.readStream.format("holdfast").option("maxMessagesPerTrigger", 100_000).load("recordings/bank")
spark.read.format("holdfast").option("repositories", "127.0.0.1:7503,127.0.0.1:7504").load("reliable:bank/#")
```

Options of the source (their case does not matter):

- `path`, or the argument of `load`: a recording, a trace (JSON lines or Parquet, a file or a directory), or `reliable:`
  and the name of a reliable topic.
- `startPosition`, `endPosition`: `earliest`, `latest`, a position, or a JSON object with one for each lane. A batch
  reads start..end-1, by default everything; a stream begins at the start, by default `earliest`, once: afterwards its
  checkpoint says where it goes on.
- `topic`: a pattern (`bank/#`); what is on other topics is left out where it lies, also of a stream.
- `maxMessagesPerTrigger`: how many rows a micro-batch of a stream has at most.
- `rowsPerPartition`: about how many rows one task reads.
- `json`: fields, as in `account STRING, amount BIGINT`; payloads are decoded into one more column, `value`, a struct of
  these. What is no JSON object with such fields has the value null; its payload is there all the same.
- of a reliable topic: `repositories` (their health endpoints, with commas), `subscriber` (the name that its owner has
  registered, else `spark`), `gaps` (`fail`, or `note`: a row, with a number in the column `gap`, in the place of what
  was given up), `patience` (for how many seconds repositories that lack something are asked again, else 30).
  `startPosition` and `endPosition` may also be `time:2026-11-15T22:40:00Z`, without a zone in local time, or
  `sequence:r1:1000`.
- `pushFilters`: `true` takes over the filters of the query; only for a DataFrame used once: `PushingLogReader`.

To read fewer columns give a schema with fewer: `spark.read.schema("topic STRING, seq BIGINT").format("holdfast")`. The
sink and its options are in `holdfast.pipeline.sink`.
"""

from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from itertools import chain

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from holdfast.model.topics import check_pattern
from holdfast.pipeline import json_values
from holdfast.pipeline.filters import TopicMatches, apply_filters, is_taken
from holdfast.pipeline.logs import END, START, Log, LogError, Positions, Range, Ranges, local_path, parse_positions
from holdfast.pipeline.recording_log import RecordingLog
from holdfast.pipeline.reliable_log import SCHEME, open_reliable
from holdfast.pipeline.sink import BatchSink, StreamSink
from holdfast.pipeline.trace_log import TraceLines, TraceParquet
from holdfast.storage.recordings import is_recording
from holdfast.storage.traces import SUFFIX

FORMAT = "holdfast"
PAYLOAD = "payload"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
ROWS_PER_PARTITION = 500_000

Options = MutableMapping[str, str]


def register(spark: SparkSession) -> None:
    """Make `format("holdfast")` known to a session, and let Spark push filters down to it."""
    spark.conf.set(PUSHDOWN, "true")
    spark.dataSource.register(HoldfastDataSource)


class HoldfastDataSource(DataSource):
    """What Spark makes for each `format("holdfast")`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType | str:
        known, fields = open_log(self.options).schema, self.options.get("json")
        if fields is None:
            return known
        if PAYLOAD not in known.names:
            raise LogError(f"the option json is for payloads, and there are none in {open_log(self.options)}.")
        # As text, because only Spark itself can read what the option says.
        columns = [f"`{one.name}` {one.dataType.simpleString()}{'' if one.nullable else ' NOT NULL'}" for one in known]
        return ", ".join([*columns, f"`{json_values.COLUMN}` STRUCT<{fields}>"])

    def reader(self, schema: StructType) -> "LogReader":
        pushes = _choice(self.options, "pushFilters", ("false", "true")) == "true"
        return PushingLogReader(self.options, schema) if pushes else LogReader(self.options, schema)

    def streamReader(self, schema: StructType) -> "LogStreamReader":  # noqa: N802 - Spark's name
        return LogStreamReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchSink:
        if overwrite:
            raise LogError('what is published cannot be overwritten: use mode("append").')
        return BatchSink(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:  # noqa: N802 - Spark's name
        if overwrite:
            raise LogError('what is published cannot be overwritten: use outputMode("append").')
        return StreamSink(self.options, schema)


def open_log(options: Options) -> Log:
    """The log at the path that the options name."""
    text = options.get("path")
    if not text:
        raise LogError('say what to read: load("recordings/bank"), a recording or a trace, or load("reliable:bank/#").')
    if text.startswith(SCHEME):
        return open_reliable(options)
    path = local_path(text, "what is read")
    if is_recording(path):
        return RecordingLog(path)
    if path.is_dir() and next(path.rglob("*.parquet"), None) is not None:
        return TraceParquet(path)
    if path.is_dir() and next(path.rglob(f"*{SUFFIX}"), None) is not None:
        return TraceLines(path)
    if path.is_file() and path.suffix in (SUFFIX, ".parquet"):
        return TraceLines(path) if path.suffix == SUFFIX else TraceParquet(path)
    raise LogError(
        f"there is neither a recording nor a trace at {path}: it should be a directory that `holdfast sub --record` "
        f"wrote, or files that end in {SUFFIX} or .parquet. A reliable topic begins with {SCHEME}"
    )


def _choice(options: Options, name: str, legal: tuple[str, ...]) -> str:
    """One of the legal words; the first if nothing is said."""
    word = options.get(name, legal[0])
    if word not in legal:
        raise LogError(f"the option {name} is {word!r}; it is one of {', '.join(legal)}.")
    return word


def _number(options: Options, name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.isdecimal() or int(text) == 0:
        raise LogError(f"the option {name} is {text!r}; it is a number from 1 on.")
    return int(text)


class _Reading:
    """What batch and stream have in common. It is pickled on the way to the workers, and holds nothing open."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        pattern = options.get("topic")
        self._filters: tuple[Filter, ...] = (TopicMatches(check_pattern(pattern)),) if pattern else ()
        known = open_log(options).schema
        self._decoded = "json" in options and json_values.COLUMN in schema.names
        # As they are written: that does not say whether an array may hold nulls.
        columns = {one.name: one.dataType.simpleString() for one in known}
        for field in schema.fields:
            if self._decoded and field.name == json_values.COLUMN:
                continue
            if columns.get(field.name) != field.dataType.simpleString():
                raise LogError(
                    f"there is no column {field.name} {field.dataType.simpleString()} in {open_log(options)}; "
                    f"its columns are {', '.join(f'{name} {kind}' for name, kind in columns.items())}."
                )

    def _log(self) -> Log:
        return open_log(self._options)

    def _rows_per_partition(self) -> int:
        return _number(self._options, "rowsPerPartition") or ROWS_PER_PARTITION

    def _position(self, name: str, default: str, log: Log) -> Positions:
        return parse_positions(self._options.get(name, default), log, name)

    def rows(self, part: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a range that the filters let through, with the columns that are wanted."""
        if not isinstance(part, Range | Ranges):
            return  # Spark invents a partition where there is none.
        wanted = to_arrow_schema(self._schema)
        decode = self._decoder(wanted)
        log, parts = self._log(), (part,) if isinstance(part, Range) else part.ranges
        for batch in chain.from_iterable(log.read(one, self._filters) for one in parts):
            passed = apply_filters(batch, self._filters)
            if passed.num_rows:
                if decode is not None:
                    passed = passed.append_column(json_values.COLUMN, decode(passed.column(PAYLOAD)))
                columns = [passed.column(field.name).cast(field.type) for field in wanted]
                yield pa.record_batch(columns, schema=wanted)

    def _decoder(self, wanted: pa.Schema) -> Callable[[pa.Array], pa.Array] | None:
        if not self._decoded:
            return None
        return json_values.decoder(self._schema[json_values.COLUMN].dataType, wanted.field(json_values.COLUMN).type)


class LogReader(_Reading, DataSourceReader):
    """Reads a range of positions once."""

    def partitions(self) -> Sequence[Range | Ranges]:
        log = self._log()
        start, end = self._position(START, "earliest", log), self._position(END, "latest", log)
        reached = log.end()
        if any(position > reached.get(lane, 0) for lane, position in end.items()):
            raise LogError(f"{END} is {end}, and {log} ends at {reached}: ask for less, or for 'latest'.")
        start, end = log.narrowed(start, end, self._filters)
        return log.ranges(start, end, self._rows_per_partition())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.rows(partition)


class PushingLogReader(LogReader):
    """Takes filters over from Spark.

    Only if it is asked to: Spark (seen in 4.3.0) keeps the reader with its filters for every later query on the same
    DataFrame, and `frame.where("seq = 1").count()` makes the next `frame.count()` 1.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take the filters that we can apply; Spark applies those that are returned."""
        taken = [one for one in filters if is_taken(one, self._log().schema)]
        self._filters = (*self._filters, *taken)
        return [one for one in filters if one not in taken]


class LogStreamReader(_Reading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what is new since the last micro-batch."""

    _target: Positions | None = None

    def initialOffset(self) -> Positions:  # noqa: N802 - Spark's name
        return self._position(START, "earliest", self._log())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        most = _number(self._options, "maxMessagesPerTrigger")
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._target = self._log().end()

    def latestOffset(self, start: Positions, limit: ReadLimit) -> Positions:  # noqa: N802 - Spark's name
        log = self._log()
        reached = log.end()
        log.check_reached(start, reached)
        # A target that a later run set is never before where an earlier one stopped.
        end = reached if self._target is None else self._target
        if isinstance(limit, ReadMaxRows):
            return log.advance(start, end, limit.max_rows)
        return log.onward(start, end)

    def reportLatestOffset(self) -> Positions:  # noqa: N802 - Spark's name
        return self._log().end()

    def partitions(self, start: Positions, end: Positions) -> Sequence[Range | Ranges]:
        return self._log().ranges(start, end, self._rows_per_partition())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.rows(partition)
