"""What a session of Spark leaves behind: nothing on stderr, no port, no process, no directory."""

import os
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from holdfast.pipeline.session import spark_session

# Counts with a worker in Python, and says whether anybody but loopback could reach a port of this family of processes.
PROGRAM = """
import contextlib, os, pathlib, socket, sys, tempfile
from holdfast.pipeline.session import spark_session

def batches(found):
    import holdfast.pipeline.session
    yield from found

with spark_session("local[1]", quick=True, memory="512m") as spark:
    java = spark.sparkContext._gateway.proc.pid
    print(spark.range(1000).mapInArrow(batches, "id long").count())
    print(spark.sql("select current_timezone()").first()[0], spark.sparkContext.uiWebUrl)
    inodes = set()
    for fd in pathlib.Path(f"/proc/{java}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            # Java may have closed it in the meantime.
            inodes.add(os.readlink(fd))
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{java}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                address = fields[1].rsplit(":", 1)[0]
                print("listens", "loopback" if address.endswith("0100007F") else address)
print("java ended", not pathlib.Path(f"/proc/{java}").exists())
"""


def run_program(scratch: Path, path: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TMPDIR": str(scratch), "PATH": path}
    environment.pop("JAVA_HOME", None)
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False, cwd=scratch
    )


def machine_without_java(place: Path) -> str:
    """A PATH with what the launcher's scripts need and no Java."""
    place.mkdir()
    for tool in ("bash", "sh", "env", "dirname", "uname"):
        found = next(file for where in os.get_exec_path() if (file := Path(where) / tool).exists())
        (place / tool).symlink_to(found)
    return str(place)


def test_on_a_machine_without_java_a_session_is_quiet_listens_on_loopback_alone_and_leaves_nothing(tmp_path: Path):
    (tmp_path / "tmp").mkdir()
    # Somebody was killed here before; the number is above what the system gives to processes.
    (tmp_path / "tmp" / "holdfast-spark-99999999-abc").mkdir()
    done = run_program(tmp_path / "tmp", machine_without_java(tmp_path / "bin"))
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[:2] == ["1000", "UTC None"]
    assert set(lines[2:-1]) == {"listens loopback"}
    assert lines[-1] == "java ended True"
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_session_within_a_session_is_the_same_one(spark: SparkSession):
    with spark_session() as inner:
        assert inner is spark
    assert spark.range(3).count() == 3
