"""How fast Spark reads a recording through `format("holdfast")`, beside the same rows in Parquet, in one run.

    .venv/bin/python benchmarks/pipeline_source.py [--rows 4000000] [--rounds 3] [--master 'local[2]'] [--json]

Every row is handed to Spark and thrown away there (`noop`). The best of the rounds counts, which alternate; the first
round of each is not counted, because it pays for the start of Python workers and for compiling.
"""

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, time_ns

from pyspark.sql import DataFrame, SparkSession

from holdfast.model.batches import Message
from holdfast.model.guarantees import GUARANTEES
from holdfast.pipeline.session import spark_session
from holdfast.storage.recordings import RecordingWriter

PAYLOAD_BYTES = 64
LOT = 5_000
FEW = "position BIGINT, topic STRING, seq BIGINT"


def record(path: Path, rows: int) -> float:
    """Messages of 40 publishers on 100 topics, in lots as a busy recorder writes them; rows a second."""
    payload = bytes(range(PAYLOAD_BYTES))
    began = perf_counter()
    with RecordingWriter(path) as writer:
        for first in range(0, rows, LOT):
            writer.append(
                [
                    Message(f"bank/{at % 100}", payload, f"teller-{at % 40}", at // 40 + 1, GUARANTEES[at % 4])
                    for at in range(first, min(first + LOT, rows))
                ],
                time_ns(),
            )
            writer.flush(sync=False)
    return rows / (perf_counter() - began)


def ways(spark: SparkSession, recording: Path, parquet: Path) -> dict[str, Callable[[], DataFrame]]:
    return {
        "holdfast, all columns": lambda: spark.read.format("holdfast").load(str(recording)),
        "parquet, all columns": lambda: spark.read.parquet(str(parquet)),
        "holdfast, three columns": lambda: spark.read.schema(FEW).format("holdfast").load(str(recording)),
        "parquet, three columns": lambda: spark.read.schema(FEW).parquet(str(parquet)),
    }


def measure(rows: int, rounds: int, master: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as scratch:
        recording, parquet = Path(scratch) / "recording", Path(scratch) / "parquet"
        figures = {"recorded": record(recording, rows)}
        with spark_session(master) as spark:
            spark.read.format("holdfast").load(str(recording)).write.parquet(str(parquet))
            asked = ways(spark, recording, parquet)
            for at in range(rounds + 1):
                for name, read in asked.items():
                    began = perf_counter()
                    read().write.format("noop").mode("overwrite").save()
                    rate = rows / (perf_counter() - began)
                    figures[name] = max(figures.get(name, 0.0), rate) if at else 0.0
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    figures = measure(given.rows, given.rounds, given.master)
    if given.json:
        print(json.dumps({"rows": given.rows, "rows_per_s": figures}))
        return
    print(f"{given.rows:,} messages of {PAYLOAD_BYTES} bytes, {given.master}; million rows a second:")
    for name, rate in figures.items():
        print(f"  {name:26} {rate / 1e6:6.2f}")


if __name__ == "__main__":
    main()
