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

from holdfast.model.topics import matches
from holdfast.pipeline.filters import TopicMatches
from holdfast.pipeline.logs import Log, Positions, Range, evenly
from holdfast.pipeline.message_columns import BATCH_BYTES, BATCH_ROWS, SCHEMA, record_batch, sliced
from holdfast.storage.frames import Frame
from holdfast.storage.recordings import Recording

LANE = "messages"


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
        return evenly(LANE, start[LANE], end[LANE], rows)

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
    positions = np.concatenate([np.arange(each.first, each.first + each.count, dtype="<i8") for each in frames])
    whole = record_batch(positions, [frame.columns for frame in frames], [frame.count for frame in frames])
    # Frames at the edges reach out of the range; those between may be missing, because a filter refused them.
    skip = max(part.first - frames[0].first, 0)
    last = frames[-1]
    drop = max(last.first + last.count - part.end, 0)
    yield from sliced(whole.slice(skip, whole.num_rows - drop - skip))
