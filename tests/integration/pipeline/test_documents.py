"""The pieces of programs in docs/pipeline.md, on Spark, with a recording, a trace and a reliable topic to read."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.integration.docs.terminals import Session, block_of_ports, said_here
from tests.integration.pipeline.recorded import record
from tests.support.documents import Example, documents, examples_in, examples_of

PREPARED = """
```sh
holdfast up examples/clusters/kept.toml
seq 20 | holdfast pub bank/orders --durable
holdfast simulate examples/scenarios/quick-tour.toml --seed 7 --trace traces/bank
```
"""


def pieces() -> list[Example]:
    return [one for document in documents() for one in examples_of(document) if "spark" in one.given]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with block_of_ports() as base_port:
        made = Session(tmp_path_factory.mktemp("docs"), base_port)
        try:
            made.run(examples_in(PREPARED, "prepared.md"))
            record(made.directory / "recordings" / "bank", 0, 40)
            yield made
        finally:
            made.close()


def given(spark: SparkSession, session: Session, name: str) -> SparkSession | DataFrame | str:
    """What a piece calls by that name."""
    if name == "spark":
        return spark
    if name == "frame":
        return spark.range(0, 10).selectExpr("'numbers' as topic", "string(id) as payload")
    if name == "stream":
        return spark.readStream.format("holdfast").load(str(session.directory / "recordings" / "bank"))
    return ""


@pytest.mark.parametrize("example", pieces(), ids=str)
def test_a_piece_of_a_program_runs_on_spark(example: Example, spark: SparkSession, session: Session):
    # Spark began in another directory than the reader of the document stands in.
    text = re.sub(r'"(?=(recordings|traces|checkpoints)/)', f'"{session.directory}/', example.text)
    namespace = {name: given(spark, session, name) for name in example.given}
    exec(compile(said_here(text, session.base_port), str(example), "exec"), namespace)
    for query in spark.streams.active:
        query.processAllAvailable()
        query.stop()


def test_there_are_pieces():
    assert len(pieces()) >= 4
    assert {Path(one.document).name for one in pieces()} == {"pipeline.md"}
