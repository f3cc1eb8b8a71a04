"""`--spark` of the commands that make many runs: Spark tasks instead of processes of this machine."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any

import typer

LOCAL_MASTER = "local[*]"

OnSpark = Annotated[
    bool, typer.Option("--spark", help="Make the runs as Spark tasks. Starting Spark takes seconds; processes do not.")
]
Master = Annotated[
    str,
    typer.Option(
        "--master", help="Where Spark runs: local[*] is this machine, spark://host:7077 a cluster. Implies --spark."
    ),
]
Sweep = Callable[[Callable[[Any], Any], Sequence[Any], type[Any], Callable[[int, Any], None]], None]
"""Called with a function, what to call it with, the type of its results, and what to do with each."""


def on_spark(spark: bool, master: str) -> bool:
    """Whether the runs are tasks: whoever says where Spark runs wants that, too."""
    return spark or master != LOCAL_MASTER


@contextmanager
def sweeping(master: str) -> Iterator[Sweep]:
    """Spark for as many sweeps as there are."""
    from holdfast.pipeline.errors import spoken_plainly  # noqa: PLC0415
    from holdfast.pipeline.session import spark_session  # noqa: PLC0415
    from holdfast.pipeline.sweeps import run_sweep  # noqa: PLC0415

    with spoken_plainly(), spark_session(master, quick=True) as spark:
        yield partial(run_sweep, spark)
