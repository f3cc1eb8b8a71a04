"""Many runs of one pure function as Spark tasks, their results as a DataFrame.

    with spark_session(master) as spark:
        frame = sweep(spark, run_seed, range(1, 1001))      # a DataFrame, if Spark is to go on with it
        rows = run_sweep(spark, run_seed, seeds, Result, on_result)   # or the results themselves, as they come

What is run is described by plain values (structs, numbers, texts), which travel as JSON, and so do results. A run that
raised is a row like any other: it carries the description, with its seed, and the reason, so that it can be repeated by
itself. The function is sent to the workers by its name if it is of a module, which they must have, and whole if it is
of the program that was started.
"""

import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls them

from holdfast.pipeline.errors import PipelineError

COLUMNS = "position bigint, description string, ok boolean, result string, error string"
SLICES_PER_CORE = 8
"""More than one, since runs are not equally long; few, since every slice costs some tens of milliseconds."""
WAVE_PER_CORE = 64
"""How many runs are made before their results are looked at: what bounds the results that are under way."""
ERROR_CHARACTERS_MAX = 2_000

_T = TypeVar("_T")


def sweep(
    spark: SparkSession, function: Callable[[Any], Any], descriptions: Sequence[Any], slices: int | None = None
) -> DataFrame:
    """Call the function with every description, in tasks; nothing runs before the frame is asked for its rows.

    Columns: `position` (of the description), `description` (as JSON), `ok` (whether the function returned), `result`
    (as JSON, if it did), `error` (the reason, if it did not).
    """
    count = len(descriptions)
    wanted = slices or SLICES_PER_CORE * spark.sparkContext.defaultParallelism
    parts = max(min(wanted, count), 1)
    run = _Run(function, [msgspec.json.encode(one) for one in descriptions], _kind_of(descriptions), parts)
    # Position n is run by slice n mod slices: descriptions that stand side by side tend to be equally long.
    return spark.range(0, parts, 1, parts).mapInArrow(run, COLUMNS)


def _kind_of(descriptions: Sequence[Any]) -> Any:
    """What the descriptions are, so that a worker makes of JSON what was there before."""
    kinds = {type(one) for one in descriptions}
    return kinds.pop() if len(kinds) == 1 else Any


class _Run:
    """What a task does; it is pickled and sent along."""

    def __init__(self, function: Callable[[Any], Any], descriptions: list[bytes], kind: Any, slices: int) -> None:
        self._function, self._descriptions, self._kind, self._slices = function, descriptions, kind, slices

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for position in range(number, len(self._descriptions), self._slices):
                    yield self._row(position)

    def _row(self, position: int) -> pa.RecordBatch:
        described = self._descriptions[position]
        result, error = None, None
        try:
            description = msgspec.json.decode(described, type=self._kind)
            result = msgspec.json.encode(self._function(description)).decode()
        except Exception as failure:  # noqa: BLE001 - whatever it is, it is the result of this run and of no other.
            error = _reason(failure)
        values = ([position], [described.decode()], [error is None], [result], [error])
        kinds = (pa.int64(), pa.string(), pa.bool_(), pa.string(), pa.string())
        columns = [pa.array(value, kind) for value, kind in zip(values, kinds, strict=True)]
        return pa.RecordBatch.from_arrays(columns, names=["position", "description", "ok", "result", "error"])


def _reason(failure: Exception) -> str:
    """Its sentence, and the place where it was raised."""
    last = traceback.extract_tb(failure.__traceback__)[-1:]
    place = "".join(f" ({one.filename.rpartition('/')[2]}:{one.lineno})" for one in last)
    return f"{type(failure).__name__}: {failure}{place}"[:ERROR_CHARACTERS_MAX]


def run_sweep(
    spark: SparkSession,
    function: Callable[[Any], Any],
    descriptions: Sequence[Any],
    kind: type[_T],
    on_result: Callable[[int, _T], None],
) -> None:
    """Call the function with every description and `on_result` with each position and result, in waves.

    A run that raised ends the sweep with an error that names its description, which holds the seed.
    """
    wave = WAVE_PER_CORE * spark.sparkContext.defaultParallelism
    for first in range(0, len(descriptions), wave):
        rows = sweep(spark, function, descriptions[first : first + wave]).collect()  # Figures, and no more than a wave.
        for row in sorted(rows, key=lambda row: int(row["position"])):
            if not row["ok"]:
                raise PipelineError(f"the run of {row['description']} failed: {row['error']}")
            on_result(first + row["position"], msgspec.json.decode(row["result"], type=kind))


def failures(frame: DataFrame) -> DataFrame:
    """The runs that raised: `position, description, error`."""
    return frame.where(~F.col("ok")).select("position", "description", "error").orderBy("position")
