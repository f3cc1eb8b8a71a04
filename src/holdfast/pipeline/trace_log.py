"""Traces as a log: one lane a file. A position is, in JSON lines, the byte where a line begins; in Parquet, a row.

A trace that is still being written can be followed: what counts are complete lines. Parquet files count when they are
complete, since they end with what says where their columns are.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import Filter
from pyspark.sql.pandas.types import from_arrow_schema

from holdfast.model.trace import Event, TraceError, decode_line
from holdfast.pipeline.logs import Log, Positions, Range
from holdfast.pipeline.trace_frames import ARROW_SCHEMA, PARQUET, arrow_columns
from holdfast.storage.traces import SUFFIX

BATCH_ROWS = 20_000
LINE_BYTES = 256
"""About what a line takes: by this a piece of so many rows is cut."""
BLOCK_BYTES = 1 << 20
SCHEMA = from_arrow_schema(ARROW_SCHEMA)


class _TraceFiles(Log):
    """Files of one kind: a directory of them, or one."""

    schema = SCHEMA
    suffix: str

    def __init__(self, path: Path) -> None:
        self._path = path

    def __str__(self) -> str:
        return f"the trace {self._path}"

    def first(self) -> Positions:
        return dict.fromkeys(self.end(), 0)

    def end(self) -> Positions:
        return {name: length for name, file in self._files().items() if (length := self._length(file))}

    def ranges(self, start: Positions, end: Positions, rows: int) -> list[Range]:
        return [
            Range(lane, first, last)
            for lane, stop in sorted(end.items())
            for first, last in self._pieces(self._file(lane), start.get(lane, 0), stop, rows)
        ]

    def _files(self) -> dict[str, Path]:
        if not self._path.is_dir():
            return {self._path.name: self._path}
        files = sorted(file for file in self._path.rglob(f"*{self.suffix}") if file.is_file())
        return {str(file.relative_to(self._path)): file for file in files}

    def _file(self, lane: str) -> Path:
        return self._path / lane if self._path.is_dir() else self._path

    @abstractmethod
    def _length(self, file: Path) -> int:
        """Up to which position the file is complete."""

    @abstractmethod
    def _pieces(self, file: Path, start: int, stop: int, rows: int) -> list[tuple[int, int]]:
        """Pieces of about so many rows between two positions."""


class TraceLines(_TraceFiles):
    """JSON lines."""

    suffix = SUFFIX

    def _length(self, file: Path) -> int:
        """Where the last complete line ends."""
        with file.open("rb") as lines:
            at = lines.seek(0, 2)
            while at > 0:
                begin = max(at - BLOCK_BYTES, 0)
                lines.seek(begin)
                newline = lines.read(at - begin).rfind(b"\n")
                if newline >= 0:
                    return begin + newline + 1
                at = begin
        return 0

    def advance(self, start: Positions, end: Positions, rows_max: int) -> Positions:
        reached = {lane: position for lane, position in start.items() if lane in end}
        for lane, stop in sorted(end.items()):
            at = start.get(lane, 0)
            with self._file(lane).open("rb") as lines:
                lines.seek(at)
                while at < stop and rows_max > 0:
                    at += len(lines.readline())
                    rows_max -= 1
            if at:
                reached[lane] = at
        return reached

    def _pieces(self, file: Path, start: int, stop: int, rows: int) -> list[tuple[int, int]]:
        pieces = []
        with file.open("rb") as lines:
            while start < stop:
                lines.seek(min(start + rows * LINE_BYTES, stop) - 1)
                lines.readline()
                edge = min(lines.tell(), stop)
                pieces.append((start, edge))
                start = edge
        return pieces

    def read(self, part: Range, filters: Sequence[Filter]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        source = self._file(part.lane)
        rows: list[Event] = []
        with source.open("rb") as lines:
            at = lines.seek(part.first)
            while at < part.end:
                line = lines.readline()
                if not line.isspace():
                    rows.append(_decoded(line, source, at))
                at += len(line)
                if len(rows) == BATCH_ROWS:
                    yield pa.record_batch(arrow_columns(rows), schema=ARROW_SCHEMA)
                    rows = []
        if rows:
            yield pa.record_batch(arrow_columns(rows), schema=ARROW_SCHEMA)


def _decoded(line: bytes, source: Path, at: int) -> Event:
    try:
        return decode_line(line, 0)
    except TraceError:
        # Which line it is, is counted only now that somebody wants to know.
        with source.open("rb") as lines:
            number = lines.read(at).count(b"\n") + 1
        return decode_line(line, number, str(source))


class TraceParquet(_TraceFiles):
    """Parquet files."""

    suffix = PARQUET

    def _length(self, file: Path) -> int:
        try:
            return int(pq.read_metadata(file).num_rows)
        except pa.ArrowInvalid:
            return 0

    def advance(self, start: Positions, end: Positions, rows_max: int) -> Positions:
        reached = dict(start)
        for lane, stop in sorted(end.items()):
            at = start.get(lane, 0)
            reached[lane] = min(at + rows_max, stop)
            rows_max -= reached[lane] - at
        return {lane: position for lane, position in reached.items() if position}

    def _pieces(self, file: Path, start: int, stop: int, rows: int) -> list[tuple[int, int]]:  # noqa: ARG002
        return [(first, min(first + rows, stop)) for first in range(start, stop, rows)]

    def read(self, part: Range, filters: Sequence[Filter]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        file = pq.ParquetFile(self._file(part.lane))
        first = 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if first < part.end and first + rows > part.first:
                at = first
                for batch in file.iter_batches(batch_size=BATCH_ROWS, row_groups=[group]):
                    low, high = max(part.first - at, 0), min(part.end - at, batch.num_rows)
                    if low < high:
                        yield _with_all_columns(batch.slice(low, high - low))
                    at += batch.num_rows
            first += rows


def _with_all_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in ARROW_SCHEMA
    ]
    return pa.record_batch(columns, schema=ARROW_SCHEMA)
