"""Filters on Arrow batches: what is taken over, and that null passes nothing, as in SQL."""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    In,
    IsNotNull,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from holdfast.pipeline.filters import TopicMatches, apply_filters, is_taken

SCHEMA = StructType(
    [StructField("topic", StringType()), StructField("seq", LongType()), StructField("keys", ArrayType(StringType()))]
)
ROWS = pa.record_batch({"topic": ["bank/1", "bank/2", None, "other"], "seq": [1, 2, 3, None]})


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ([EqualTo(("topic",), "bank/1")], [0]),
        ([Not(EqualTo(("topic",), "bank/1"))], [1, 3]),
        ([In(("topic",), ("bank/2", "other"))], [1, 3]),
        ([Not(In(("topic",), ("bank/2",)))], [0, 3]),
        ([GreaterThan(("seq",), 1)], [1, 2]),
        ([LessThanOrEqual(("seq",), 2), StringStartsWith(("topic",), "bank")], [0, 1]),
        ([StringEndsWith(("topic",), "er")], [3]),
        ([StringContains(("topic",), "k/")], [0, 1]),
        ([IsNotNull(("seq",))], [0, 1, 2]),
        ([TopicMatches("bank/+")], [0, 1]),
        ([], [0, 1, 2, 3]),
    ],
)
def test_rows_that_pass_every_filter_are_left(filters: list[Filter], left: list[int]):
    assert apply_filters(ROWS, filters).equals(ROWS.take(pa.array(left, pa.int64())))


@pytest.mark.parametrize(
    "one",
    [
        EqualTo(("keys",), ["a"]),
        EqualTo(("colour",), "red"),
        EqualTo(("topic", "deep"), "a"),
        EqualNullSafe(("topic",), None),
        EqualTo(("seq",), 1.5),
        Not(EqualTo(("keys",), ["a"])),
    ],
    ids=str,
)
def test_what_cannot_be_done_exactly_is_left_to_spark(one: Any):
    assert not is_taken(one, SCHEMA)
