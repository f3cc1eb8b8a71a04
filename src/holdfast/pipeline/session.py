"""Spark as Holdfast wants it: quiet, in UTC, on loopback, and gone without a trace afterwards.

```python
with spark_session() as spark:
    spark.read.format("holdfast").load("traces/bank").groupBy("event").count().show()
```

One session per process: entering the context twice at once gives the same session, and the outermost exit stops it.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from pyspark import SparkContext
from pyspark.sql import SparkSession

from holdfast.model.errors import ConfigError
from holdfast.pipeline.java import spark_java_home
from holdfast.pipeline.source import register

LOCAL_MASTER = "local[*]"
LOOPBACK = "127.0.0.1"
SCRATCH_PREFIX = "holdfast-spark-"
STOP_S_MAX = 30
"""How long Java may take to end when its work is done."""
MEMORY_MIB_MIN, MEMORY_MIB_MAX = 1024, 8192
ARROW_BATCH_ROWS = 20_000
"""Rows in an Arrow batch between Spark and Python: large enough that the cost of a batch disappears in its rows."""
SHUFFLE_PARTITIONS_PER_CORE = 2
WORKER_ENVIRONMENT = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""One thread per Python worker: Spark already runs one worker per core."""

_LOG_CONFIGURATION = Path(__file__).with_name("log4j2.properties")
_MASTER = re.compile(r"local(-cluster)?(\[.*\])?|yarn|(spark|k8s|mesos)://.+")
_depth = 0


def check_master(master: str) -> None:
    """Raise `ConfigError` for what Java would answer with a page of its own."""
    if not _MASTER.fullmatch(master):
        raise ConfigError(
            f"--master {master!r} is no place for Spark; write local[*] for this machine, or spark://host:7077."
        )


@contextmanager
def spark_session(
    master: str = LOCAL_MASTER,
    *,
    name: str = "holdfast",
    quick: bool = False,
    memory: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Open Spark, with `format("holdfast")` known to it, and stop it on exit.

    `quick` compiles less, which starts a third faster and is right for jobs of seconds. `memory` (as in `4g`) is the
    heap of the driver, by default a third of the machine's between 1 and 8 GiB. `settings` has the last word.
    """
    check_master(master)
    global _depth  # noqa: PLW0603  # A process has one Spark, and this is how often it was opened.
    if _depth:
        _depth += 1
        try:
            yield _active_session()
        finally:
            _depth -= 1
        return
    with _scratch_directory() as scratch:
        with _interrupt_noted() as interrupted:
            spark = _start(master, name, {**_settings(master, scratch, quick, memory), **(settings or {})}, scratch)
        _depth = 1
        try:
            if interrupted:
                raise KeyboardInterrupt
            _prepare(spark, master, scratch)
            yield spark
        finally:
            _depth = 0
            _stop(spark)


@contextmanager
def _interrupt_noted() -> Iterator[list[int]]:
    """A Ctrl-C while Spark starts is noted, and raised when there is something to stop.

    Raised at once it would find PySpark waiting for the Java that it has just launched; nobody would know that one any
    more, and it would stay.
    """
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return

    def note(number: int, _: FrameType | None) -> None:
        noted.append(number)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        # Spark, once started, has a handler of its own, which ends its jobs first.
        if signal.getsignal(signal.SIGINT) is note:
            signal.signal(signal.SIGINT, before)


def _active_session() -> SparkSession:
    session = SparkSession.getActiveSession()
    if session is None:
        raise ConfigError("the Spark session of this process was stopped by somebody else; leave its context instead.")
    return session


def _start(master: str, name: str, settings: Mapping[str, str], scratch: Path) -> SparkSession:
    _prepare_environment(master, scratch)
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _prepare_environment(master: str, scratch: Path) -> None:
    os.environ["JAVA_HOME"] = str(spark_java_home(scratch))
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_local(master):
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = LOOPBACK
    else:
        # Where Python is on the machines of a cluster, only whoever set them up knows.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name in WORKER_ENVIRONMENT:
        os.environ.setdefault(name, "1")


def _settings(master: str, scratch: Path, quick: bool, memory: str | None) -> dict[str, str]:
    cores = os.cpu_count() or 1
    options = f"-Dlog4j2.configurationFile={_LOG_CONFIGURATION.as_uri()} -Djava.io.tmpdir={scratch} -Duser.timezone=UTC"
    if quick:
        options += " -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": options,
        "spark.driver.memory": memory or f"{_memory_mib()}m",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS_PER_CORE * cores),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_BATCH_ROWS),
        # Rows bound a batch. With a lower bound of bytes Spark 4.3 asks for the size of a batch after every row, which
        # with a column of arrays takes twenty times longer than all the rest.
        "spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1),
        # A trigger that failed is not worth a thread dump, and progress is kept for whoever asks, briefly.
        "spark.sql.streaming.numRecentProgressUpdates": "20",
    }
    if is_local(master):
        settings |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    else:
        # How many shuffle partitions a cluster wants, the cluster knows better than this machine.
        del settings["spark.sql.shuffle.partitions"]
    return settings


def is_local(master: str) -> bool:
    """Whether Spark runs inside this machine's own process rather than on a cluster."""
    return master == "local" or master.startswith("local[")


def _prepare(spark: SparkSession, master: str, scratch: Path) -> None:
    register(spark)
    if not is_local(master):
        spark.sparkContext.addPyFile(str(_package_archive(scratch)))


def _package_archive(scratch: Path) -> Path:
    """This package as a zip file, for workers that have its dependencies but not itself, or another version of it."""
    package = Path(__file__).parents[1]
    archive = scratch / "holdfast.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        for file in sorted(package.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                made.write(file, file.relative_to(package.parent))
    return archive


def _stop(spark: SparkSession) -> None:
    spark.stop()
    # PySpark leaves its Java running for the next session until Python ends. Whoever leaves the context wants the
    # memory and the port back now.
    gateway = SparkContext._gateway  # noqa: SLF001
    if gateway is None:
        return
    gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()
        try:
            process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001


def _memory_mib() -> int:
    machine_mib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return min(max(machine_mib // 3, MEMORY_MIB_MIN), MEMORY_MIB_MAX)


# ----------------------------------------------------------------------------------------------------------- scratch


@contextmanager
def _scratch_directory() -> Iterator[Path]:
    """A directory for everything that Spark spills, with what killed processes left behind removed on the way."""
    parent = Path(tempfile.gettempdir())
    for left in parent.glob(f"{SCRATCH_PREFIX}*"):
        if _is_abandoned(left):
            shutil.rmtree(left, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix=f"{SCRATCH_PREFIX}{os.getpid()}-", dir=parent))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _is_abandoned(scratch: Path) -> bool:
    pid = scratch.name.removeprefix(SCRATCH_PREFIX).partition("-")[0]
    if not pid.isdecimal():
        return False
    with suppress(PermissionError):
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            return True
    return False
