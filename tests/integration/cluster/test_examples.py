"""The programs in `examples`, which a newcomer copies, do what they say. The documents: `tests/integration/docs`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cluster.config import load_cluster
from tests.integration.cluster.terminal import LIMIT_S, Terminal
from tests.tidy.sources import ROOT


@pytest.fixture
def address(terminal: Terminal, chain: Path) -> str:
    """Where the first of three running brokers is."""
    ran = terminal.run("up", chain, "--no-clients")
    assert ran.returncode == 0, ran.stderr
    return load_cluster(chain).brokers[0].address


def output_of(program: Path, *arguments: str) -> list[str]:
    """The lines that a program prints, if it ends well and complains of nothing."""
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(program), *arguments],
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.splitlines()


def test_hello_prints_what_it_published(address: str):
    [line] = output_of(ROOT / "examples" / "hello.py", address)
    assert re.fullmatch(r"\S+#1 total: 120 to PT50-1", line)


def test_the_counter_counts(address: str):
    assert output_of(ROOT / "examples" / "counter.py", "alice", address) == [
        "alice#1    +1 -> 1",
        "alice#2    +1 -> 2",
        "alice#3    +5 -> 7",
        "alice#4 reset -> 0",
        "alice#5    +2 -> 2",
    ]
