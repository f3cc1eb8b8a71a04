"""Filters that Spark hands down to the source: which of them we take over, and how Arrow batches are filtered."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from pyspark.sql.types import LongType, StringType, StructType

from holdfast.model.topics import matches


@dataclass(frozen=True)
class TopicMatches(Filter):
    """A filter of our own: topics that a pattern with `+` and `#` matches."""

    value: str
    attribute: tuple[str, ...] = ("topic",)

    def mask(self, topics: pa.Array) -> pa.Array:
        coded = topics.dictionary_encode()
        return self.wanted(coded.dictionary.to_pylist()).take(coded.indices)

    def wanted(self, topics: Sequence[str]) -> pa.Array:
        # A row without a topic stands for messages that were given up: they may have been on any.
        return pa.array([not topic or matches(self.value, topic) for topic in topics], pa.bool_())


_TESTS: dict[type[Filter], Callable[[pa.Array, Any], pa.Array]] = {
    EqualTo: pc.equal,
    GreaterThan: pc.greater,
    GreaterThanOrEqual: pc.greater_equal,
    LessThan: pc.less,
    LessThanOrEqual: pc.less_equal,
    In: lambda column, values: pc.is_in(column, value_set=pa.array(values, column.type)),
    StringStartsWith: pc.starts_with,
    StringEndsWith: pc.ends_with,
    StringContains: pc.match_substring,
}


def is_taken(one: Filter, schema: StructType) -> bool:
    """Whether `apply_filters` does all that this filter asks, so that Spark need not look again."""
    if isinstance(one, Not):
        return is_taken(one.child, schema)
    path: tuple[str, ...] = getattr(one, "attribute", ())
    if len(path) != 1 or path[0] not in schema.names:
        return False
    if isinstance(one, IsNotNull):
        return True
    if type(one) not in _TESTS or not isinstance(schema[path[0]].dataType, LongType | StringType):
        return False
    values = one.value if isinstance(one, In) else (one.value,)  # type: ignore[attr-defined]
    return all(type(value) in (int, str) for value in values)


def apply_filters(batch: pa.RecordBatch, filters: Sequence[Filter]) -> pa.RecordBatch:
    """The rows that pass all filters; where a filter has no answer (null) a row does not pass, as in SQL."""
    for one in filters:
        batch = batch.filter(_mask(batch, one))
    return batch


def _mask(batch: pa.RecordBatch, one: Filter) -> pa.Array:
    if isinstance(one, Not):
        return pc.invert(_mask(batch, one.child))
    column = batch.column(one.attribute[0])  # type: ignore[attr-defined]
    if isinstance(one, IsNotNull):
        return pc.is_valid(column)
    if isinstance(one, TopicMatches):
        return one.mask(column)
    mask = _TESTS[type(one)](column, one.value)  # type: ignore[attr-defined]
    # `is_in` says of null that it is not in the set; in SQL that is unknown, and so is its opposite.
    return pc.if_else(pc.is_valid(column), mask, None)
