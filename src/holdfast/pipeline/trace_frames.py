"""Traces as DataFrames: JSON lines or Parquet, one run or thousands, always the same columns.

Lines are decoded by the code that every other reader of a trace uses, in parallel, by pieces of files; Parquet is read
natively. What is wrong with a line is not raised where it is found, in the middle of a job, but carried in the column
`refusal` to whoever reads the frame: `refuse_malformed` raises it as a sentence that names the line or the column.

Parquet has the columns of `model.trace.Event`. `attributes` is a map from names to values as JSON text (or a map to
numbers, booleans), `past` a map from publishers to numbers; only the columns that a message must have are required.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls them
from pyspark.sql import types as T  # noqa: N812 - the same

from holdfast.model.filters import Value
from holdfast.model.guarantees import GUARANTEES
from holdfast.model.trace import Event, TraceError, check_event, decode_line
from holdfast.storage.traces import SUFFIX, count_lines, read_trace

PARQUET = ".parquet"
PIECE_BYTES = 16 << 20
BATCH_ROWS = 20_000
ROWS_PER_FILE = 1_000_000

_STRINGS = ("run", "node", "event", "publisher", "topic", "where", "guarantee", "peer", "detail")
_INTEGERS = ("index", "time", "seq", "size", "overhead")
REQUIRED = ("run", "node", "index", "time", "event", "publisher", "seq", "topic", "guarantee")
"""Columns that a Parquet trace must have; the others may be left out."""

_ARROW_TYPES: dict[str, Any] = {
    **dict.fromkeys(_STRINGS, pa.string()),
    **dict.fromkeys(_INTEGERS, pa.int64()),
    "attributes": pa.map_(pa.string(), pa.string()),
    "keys": pa.list_(pa.string()),
    "past": pa.map_(pa.string(), pa.int64()),
}
COLUMNS = Event.__struct_fields__
ARROW_SCHEMA = pa.schema([(name, _ARROW_TYPES[name]) for name in COLUMNS])
_SPARK_TYPES: dict[str, str] = {
    **dict.fromkeys(_STRINGS, "string"),
    **dict.fromkeys(_INTEGERS, "bigint"),
    "attributes": "map<string,string>",
    "keys": "array<string>",
    "past": "map<string,bigint>",
}
_LINES_SCHEMA = ", ".join(f"`{name}` {_SPARK_TYPES[name]}" for name in COLUMNS)
_LINES_SCHEMA += ", refusal string, source string, place bigint"


def read_events(spark: SparkSession, path: Path | str) -> DataFrame:
    """The trace at a file, a directory or (Parquet only) a URI, as a DataFrame; nothing is read yet.

    Its columns are those of `model.trace.Event`, and `refusal` (what is wrong with the row), `source` and `place`
    (its file, and where in it).
    """
    text = str(path)
    if "://" in text:
        return _parquet_events(spark, text)
    found = Path(path)
    if is_parquet(found):
        return _parquet_events(spark, text)
    return _line_events(spark, _line_files(found))


def is_parquet(path: Path) -> bool:
    """Whether a path is a Parquet file, or a directory that holds some, at any depth."""
    if path.is_dir():
        return next(path.rglob(f"*{PARQUET}"), None) is not None
    return path.suffix == PARQUET


def refuse_malformed(events: DataFrame) -> None:
    """Raise `TraceError` for the first row that is no row of a trace. One pass over the columns that are required."""
    first = (
        events.where(is_malformed()).orderBy("source", "place").select(*COLUMNS, "refusal", "source", "place").first()
    )
    if first is not None:
        _raise_malformed(first.asDict())


def count_events(path: Path | str, limit: int) -> int:
    """How many rows a trace has; not more than about `limit` of them are counted."""
    found = Path(path)
    if is_parquet(found):
        files = sorted(found.rglob(f"*{PARQUET}")) if found.is_dir() else [found]
        return sum(_parquet_metadata(file).num_rows for file in files)
    return count_lines(found, limit)


# ------------------------------------------------------------------------------------------------------------ lines


def _line_files(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(file for file in path.glob(f"*{SUFFIX}") if file.is_file())
        if not files:
            raise TraceError(
                f"there is no trace in the directory {path}: it has no file that ends in {SUFFIX} or {PARQUET}."
            )
        return files
    if not path.exists():
        raise TraceError(f"there is no trace at {path}; name a {SUFFIX} or {PARQUET} file, or a directory of them.")
    return [path]


def _line_events(spark: SparkSession, files: list[Path]) -> DataFrame:
    pieces = [
        (str(file.absolute()), start, min(start + PIECE_BYTES, size))
        for file in files
        for size in [file.stat().st_size]
        for start in range(0, max(size, 1), PIECE_BYTES)
    ]
    frame = spark.createDataFrame(pieces, "source string, start bigint, `end` bigint")
    slots = spark.sparkContext.defaultParallelism * 4
    return frame.repartition(min(len(pieces), slots)).mapInArrow(_decoded_pieces, _LINES_SCHEMA)


def _decoded_pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for piece in batch.to_pylist():
            yield from _decoded_piece(piece["source"], piece["start"], piece["end"])


def _decoded_piece(source: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """The rows of the lines that begin in a piece of a file."""
    rows: list[Event] = []
    places: list[int] = []
    with Path(source).open("rb") as lines:
        if start:
            # Whoever has the piece before reads the line that reaches into this one.
            lines.seek(start - 1)
            lines.readline()
        place = lines.tell()
        while place < end and (line := lines.readline()):
            if not line.isspace():
                try:
                    rows.append(decode_line(line, 1, source))
                except TraceError:
                    yield _refused(source, place, line)
                    return
                places.append(place)
            place += len(line)
            if len(rows) == BATCH_ROWS:
                yield _with_places(rows, source, places)
                rows, places = [], []
    if rows:
        yield _with_places(rows, source, places)


def _refused(source: str, place: int, line: bytes) -> pa.RecordBatch:
    with Path(source).open("rb") as lines:
        number, left = 1, place
        while left and (block := lines.read(min(left, 1 << 20))):
            number += block.count(b"\n")
            left -= len(block)
    try:
        decode_line(line, number, source)
    except TraceError as error:
        refusal = str(error)
    else:
        raise AssertionError("the line was refused before")
    columns = [pa.array([None], type=_ARROW_TYPES[name]) for name in COLUMNS]
    return _batch(columns, [refusal], source, [place])


def _with_places(rows: list[Event], source: str, places: list[int]) -> pa.RecordBatch:
    return _batch(arrow_columns(rows), [None] * len(rows), source, places)


def _batch(columns: list[pa.Array], refusals: list[str | None], source: str, places: list[int]) -> pa.RecordBatch:
    extra = [pa.array(refusals, pa.string()), pa.array([source] * len(places)), pa.array(places, pa.int64())]
    return pa.record_batch([*columns, *extra], names=[*COLUMNS, "refusal", "source", "place"])


def arrow_columns(rows: list[Event]) -> list[pa.Array]:
    """The columns of these rows, in the order and with the types of `ARROW_SCHEMA`."""
    columns: dict[str, list[Any]] = {name: [getattr(row, name) for row in rows] for name in COLUMNS}
    columns["attributes"] = [
        [(name, encode_value(value)) for name, value in row.attributes.items()] if row.attributes else None
        for row in rows
    ]
    columns["past"] = [None if row.past is None else list(row.past.items()) for row in rows]
    try:
        return [pa.array(columns[name], type=_ARROW_TYPES[name]) for name in COLUMNS]
    except (OverflowError, pa.ArrowInvalid) as error:
        raise TraceError(f"a number in the trace has no place in 64 bits: {error}") from None


def encode_value(value: Value) -> str:
    """An attribute's value as JSON text; what JSON cannot write, as an object in its stead."""
    if isinstance(value, float) and value - value != 0:
        return msgspec.json.encode({"float": str(value)}).decode()
    return msgspec.json.encode(value).decode()


def decode_value(text: str) -> Value:
    """The value that `encode_value` wrote, or a number as Spark writes it."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return float(text)
    return float(value["float"]) if isinstance(value, dict) else value


# ---------------------------------------------------------------------------------------------------------- Parquet


def write_parquet_trace(directory: Path | str, events: Iterable[Event], rows_per_file: int = ROWS_PER_FILE) -> Path:
    """Write a trace as a directory of Parquet files, beside what it may hold already, and return the directory."""
    place = Path(directory)
    place.mkdir(parents=True, exist_ok=True)
    rows = list(events)
    first = len(list(place.glob(f"*{PARQUET}")))
    for number, start in enumerate(range(0, max(len(rows), 1), rows_per_file), first):
        table = pa.table(arrow_columns(rows[start : start + rows_per_file]), schema=ARROW_SCHEMA)
        pq.write_table(table, place / f"trace-{number:05}{PARQUET}")
    return place


def read_in_memory(path: Path | str) -> list[Event]:
    """Every row of a trace of either kind, ordered by run, node and index."""
    found = Path(path)
    if not is_parquet(found):
        return read_trace(found)
    files = sorted(found.rglob(f"*{PARQUET}")) if found.is_dir() else [found]
    events = [event for file in files for event in _read_parquet_file(file)]
    events.sort(key=lambda event: (event.run, event.node, event.index))
    return events


def _read_parquet_file(file: Path) -> Iterator[Event]:
    schema = _parquet_metadata(file).schema.to_arrow_schema()
    for name in REQUIRED:
        if name not in schema.names:
            raise _column_missing(name, str(file))
    names = [name for name in COLUMNS if name in schema.names]
    number = 0
    for batch in pq.ParquetFile(file).iter_batches(columns=names):
        for row in batch.to_pylist(maps_as_pydicts="strict"):
            number += 1
            yield event_of_row(row, f"{file}, row {number}")


def event_of_row(row: dict[str, Any], place: str) -> Event:
    """The event that a row of a Parquet trace holds; raises `TraceError` if it is none."""
    columns = {name: value for name, value in row.items() if value is not None and name in COLUMNS}
    if attributes := columns.get("attributes"):
        columns["attributes"] = {
            name: decode_value(value) if isinstance(value, str) else value for name, value in attributes.items()
        }
    for name in ("run", "node", "index", "time", "event"):
        if name not in columns:
            raise TraceError(f"{place}: column {name!r} is missing; every row has run, node, index, time and event.")
    try:
        event = msgspec.convert(columns, Event)
    except msgspec.ValidationError as error:
        raise TraceError(f"{place}: a column holds what it cannot: {error}.") from None
    check_event(event, place)
    return event


def _parquet_metadata(file: Path) -> Any:
    try:
        return pq.read_metadata(file)
    except (pa.ArrowInvalid, OSError) as error:
        raise TraceError(f"{file} cannot be read as Parquet: {error}") from None


def _parquet_events(spark: SparkSession, path: str) -> DataFrame:
    reader = spark.read.option("recursiveFileLookup", "true").option("pathGlobFilter", f"*{PARQUET}")
    frame = reader.parquet(path)
    present = {field.name: field.dataType for field in frame.schema.fields}
    for name in REQUIRED:
        if name not in present:
            raise _column_missing(name, path)
    columns = [_parquet_column(name, present, path).alias(name) for name in COLUMNS]
    places = [F.col("_metadata.file_path").alias("source"), F.col("_metadata.row_index").alias("place")]
    return frame.select(*columns, F.lit(None).cast("string").alias("refusal"), *places)


def _column_missing(name: str, path: str) -> TraceError:
    return TraceError(f"{path}: column {name!r} is missing; a trace in Parquet has {', '.join(REQUIRED)}.")


def _parquet_column(name: str, present: dict[str, T.DataType], path: str) -> Column:
    wanted = _SPARK_TYPES[name]
    if name not in present:
        return F.lit(None).cast(wanted)
    kind = present[name]
    fits = kind.simpleString() == wanted or (name in _INTEGERS and isinstance(kind, T.IntegralType))
    if isinstance(kind, T.MapType) and name in ("attributes", "past") and isinstance(kind.keyType, T.StringType):
        legal = (T.IntegralType,) if name == "past" else (T.StringType, T.NumericType, T.BooleanType)
        fits = isinstance(kind.valueType, legal)
    if not fits:
        raise TraceError(f"{path}: column {name!r} has the type {kind.simpleString()}; it should be {wanted}.")
    return F.col(f"`{name}`").cast(wanted)


# ------------------------------------------------------------------------------------------------------- malformed

MESSAGES = ("publish", "deliver")
SUBSCRIPTIONS = ("subscribe", "unsubscribe")
PROMISES = (*MESSAGES, *SUBSCRIPTIONS)
"""Events that carry a promise."""


def is_malformed() -> Column:
    """Whether a row is no row of a trace."""
    nowhere = F.lit(False)
    for name in ("run", "node", "index", "time", "event"):
        nowhere |= F.col(name).isNull()
    return F.col("refusal").isNotNull() | nowhere | _incomplete()


def _incomplete() -> Column:
    def empty(*names: str) -> Column:
        found = F.lit(False)
        for name in names:
            found |= F.coalesce(F.col(name) == "", F.lit(True))
        return found

    legal = F.coalesce(F.col("guarantee").isin([guarantee.value for guarantee in GUARANTEES]), F.lit(False))
    message = empty("node", "publisher", "topic") | F.coalesce(F.col("seq") <= 0, F.lit(True)) | ~legal
    about_message = F.col("event").isin(*MESSAGES) & message
    about_subscription = F.col("event").isin(*SUBSCRIPTIONS) & empty("node", "topic")
    return (F.col("index") < 0) | about_message | about_subscription


def _raise_malformed(row: dict[str, Any]) -> None:
    if row["refusal"] is not None:
        raise TraceError(row["refusal"])
    place = f"{row['source'].removeprefix('file://')}, row {row['place'] + 1}"
    event_of_row(row, place)
    raise AssertionError(f"{place}: a row that is refused by one rule and not by the other: {row}")
