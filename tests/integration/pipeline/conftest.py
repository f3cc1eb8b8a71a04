"""One Spark for all tests of a process: starting it takes longer than most of what is asked of it."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from holdfast.pipeline.session import spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on one core: the suite already runs on all of them."""
    with spark_session("local[1]", quick=True, memory="1g", settings={"spark.sql.shuffle.partitions": "2"}) as session:
        yield session
