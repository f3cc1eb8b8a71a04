"""Recordings as a log: one lane, with the positions of the recording; frames become Arrow batches as they lie."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
)

from holdfast.model.guarantees import GUARANTEES
from holdfast.model.topics import matches
from holdfast.pipeline.filters import TopicMatches
from holdfast.pipeline.logs import Log, Positions, Range
from holdfast.pipeline.values import encode_value
from holdfast.storage.frames import Frame
from holdfast.storage.recordings import Recording

LANE = "messages"
BATCH_ROWS = 20_000
BATCH_BYTES = 32 << 20
"""An Arrow batch is closed when it has as many rows, or as many bytes of payloads."""
SCHEMA = StructType(
    [
        StructField("position", LongType(), nullable=False),
        StructField("topic", StringType(), nullable=False),
        StructField("publisher", StringType(), nullable=False),
        StructField("seq", LongType(), nullable=False),
        StructField("guarantee", StringType(), nullable=False),
        StructField("keys", ArrayType(StringType(), containsNull=False), nullable=False),
        StructField("attributes", MapType(StringType(), StringType(), valueContainsNull=False), nullable=False),
        StructField("payload", BinaryType(), nullable=False),
        StructField("time", LongType(), nullable=False),
        StructField("received", TimestampNTZType(), nullable=False),
    ]
)
"""`time` is when the recorder received the message, in nanoseconds since 1970 UTC; `received` the same in UTC."""

_GUARANTEES = pa.array([guarantee.value for guarantee in GUARANTEES])


class RecordingLog(Log):
    """The messages of a recording."""

    schema = SCHEMA

    def __init__(self, path: Path) -> None:
        self._recording = Recording(path)

    def __str__(self) -> str:
        return f"the recording {self._recording.path}"

    def first(self) -> Positions:
        return {LANE: self._recording.first()}

    def end(self) -> Positions:
        return {LANE: self._recording.end()}

    def advance(self, start: Positions, end: Positions, rows_max: int) -> Positions:
        return {LANE: min(start[LANE] + rows_max, end[LANE])}

    def ranges(self, start: Positions, end: Positions, rows: int) -> list[Range]:
        first, last = start[LANE], end[LANE]
        # Evenly, so that no straggler reads a rest.
        pieces = -(-(last - first) // rows)
        edges = [first + (last - first) * at // pieces for at in range(pieces + 1)] if pieces > 0 else []
        return [Range(LANE, edges[at], edges[at + 1]) for at in range(len(edges) - 1)]

    def narrowed(self, start: Positions, end: Positions, filters: Sequence[Filter]) -> tuple[Positions, Positions]:
        first, last = start[LANE], end[LANE]
        for one in filters:
            low, high = _bounds(one)
            first, last = max(first, low), last if high is None else min(last, high)
        return {LANE: first}, {LANE: max(first, last)}

    def read(self, part: Range, filters: Sequence[Filter]) -> Iterator[pa.RecordBatch]:
        group: list[Frame] = []
        rows = size = 0
        for frame in self._recording.frames(part.first, part.end):
            if not _may_match(frame, filters):
                continue
            group.append(frame)
            rows += frame.count
            size += len(frame.columns.payloads)
            if rows >= BATCH_ROWS or size >= BATCH_BYTES:
                yield from _batches(group, part)
                group, rows, size = [], 0, 0
        yield from _batches(group, part)


# ------------------------------------------------------------------------------------------------------------ filters


def _bounds(one: Filter) -> tuple[int, int | None]:
    """Positions outside of which the filter refuses every row: from, and before."""
    if getattr(one, "attribute", None) != ("position",):
        return 0, None
    if isinstance(one, EqualTo):
        return one.value, one.value + 1
    if isinstance(one, GreaterThan):
        return one.value + 1, None
    if isinstance(one, GreaterThanOrEqual):
        return one.value, None
    if isinstance(one, LessThan):
        return 0, one.value
    if isinstance(one, LessThanOrEqual):
        return 0, one.value + 1
    return 0, None


def _may_match(frame: Frame, filters: Sequence[Filter]) -> bool:
    """Whether some message of the frame may have a wanted topic and publisher: they are listed before the messages."""
    listed: dict[tuple[str, ...], list[str]] = {
        ("topic",): frame.columns.topics,
        ("publisher",): frame.columns.publishers,
    }
    for one in filters:
        texts = listed.get(getattr(one, "attribute", ()))
        if texts is None:
            continue
        if isinstance(one, EqualTo) and one.value not in texts:
            return False
        if isinstance(one, In) and not set(one.value).intersection(texts):
            return False
        if isinstance(one, TopicMatches) and not any(matches(one.value, text) for text in texts):
            return False
    return True


# -------------------------------------------------------------------------------------------------------------- Arrow


def _batches(frames: Sequence[Frame], part: Range) -> Iterator[pa.RecordBatch]:
    """The messages of these frames that belong to the range, a bounded number at a time."""
    if not frames:
        return
    whole = _record_batch(frames)
    # Frames at the edges reach out of the range; those between may be missing, because a filter refused them.
    skip = max(part.first - frames[0].first, 0)
    last = frames[-1]
    drop = max(last.first + last.count - part.end, 0)
    for start in range(skip, whole.num_rows - drop, BATCH_ROWS):
        yield whole.slice(start, min(BATCH_ROWS, whole.num_rows - drop - start))


def _record_batch(frames: Sequence[Frame]) -> pa.RecordBatch:
    columns = [frame.columns for frame in frames]
    counts = [frame.count for frame in frames]
    total = sum(counts)
    times = _numbers([each.times for each in columns], "<i8")
    arrays = [
        pa.array(np.concatenate([np.arange(each.first, each.first + each.count, dtype="<i8") for each in frames])),
        _texts([each.topics for each in columns], [each.topic_at for each in columns], counts),
        _texts([each.publishers for each in columns], [each.publisher_at for each in columns], counts),
        pa.array(_numbers([each.seqs for each in columns], "<i8")),
        _GUARANTEES.take(pa.array(_numbers([each.guarantees for each in columns], "i1"))),
        _keys(frames, total),
        _attributes(frames, total),
        _payloads(frames),
        pa.array(times),
        pa.array(times // 1000, pa.timestamp("us")),
    ]
    return pa.record_batch(arrays, names=SCHEMA.fieldNames())


def _numbers(parts: Sequence[bytes], kind: str) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.frombuffer(parts[0] if len(parts) == 1 else b"".join(parts), dtype=kind)


def _texts(texts: Sequence[Sequence[str]], places: Sequence[bytes], counts: Sequence[int]) -> pa.Array:
    """Texts that each frame lists for itself: the lists one after the other, and each index moved by what is before."""
    index = _numbers(places, "<i4")
    if len(texts) > 1:
        before = np.cumsum([0, *map(len, texts[:-1])], dtype="<i4")
        index = index + np.repeat(before, counts)
    listed = pa.array([text for each in texts for text in each], pa.string())
    return listed.take(pa.array(index, pa.int32()))


def _payloads(frames: Sequence[Frame]) -> pa.Array:
    offsets = [np.frombuffer(frame.columns.offsets, dtype="<i4") for frame in frames]
    before = 0
    moved = [np.zeros(1, dtype="<i4")]
    for each in offsets:
        moved.append(each[1:] + np.int32(before))
        before += int(each[-1])
    where = np.ascontiguousarray(np.concatenate(moved))
    data = b"".join(frame.columns.payloads for frame in frames)
    return pa.Array.from_buffers(pa.binary(), len(where) - 1, [None, pa.py_buffer(where), pa.py_buffer(data)])


_STRING_LISTS, _STRING_MAPS = pa.list_(pa.string()), pa.map_(pa.string(), pa.string())


def _keys(frames: Sequence[Frame], total: int) -> pa.Array:
    if not any(frame.columns.keys for frame in frames):
        return _blank(_STRING_LISTS, total)
    return pa.array(
        [keys for frame in frames for keys in frame.columns.keys or [()] * frame.count],
        _STRING_LISTS,
    )


def _attributes(frames: Sequence[Frame], total: int) -> pa.Array:
    if not any(frame.columns.attributes for frame in frames):
        return _blank(_STRING_MAPS, total)
    return pa.array(
        [
            [(name, encode_value(value)) for name, value in attributes.items()]
            for frame in frames
            for attributes in frame.columns.attributes or [{}] * frame.count
        ],
        _STRING_MAPS,
    )


def _blank(kind: pa.DataType, total: int) -> pa.Array:
    """As many empty lists or maps."""
    offsets, nothing = pa.array(np.zeros(total + 1, dtype="<i4")), pa.array([], pa.string())
    if kind is _STRING_MAPS:
        return pa.MapArray.from_arrays(offsets, nothing, nothing)
    return pa.ListArray.from_arrays(offsets, nothing)
