"""How long the audit takes, and how much memory: on Spark with two cores, and without it in one process.

    python benchmarks/audit.py [--millions 2,8,32] [--peer-millions 2,8] [--clients 50] [--directory DIR] [--json]

Each trace is made up first (`audit_traces.py`): a run of 50 clients with seven faults of each kind in it, which every
audit has to find, no more and no fewer. (With `--clients 4000` the clocks no longer fit into every task.) Each audit is
a process of its own; measured are the wall time from its start to its end (Spark's start included), the processor time
of it and everything that it started, and the highest sum of their resident memory. The peer (`audit_polars.py`) needs
polars (`pip install polars`) and is left out without it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from time import monotonic, sleep

import msgspec
from audit_traces import CLIENTS, write_trace
from msgspec import Struct

KINDS = ("deliveries", "lost", "duplicated", "created", "fifo", "causal", "total")
HERE = Path(__file__).parent
SAMPLE_S = 0.25
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
SPARK = ("--engine", "spark", "--master", "local[2]", "--json")


class Measured(Struct):
    """One audit."""

    engine: str
    millions: float
    wall_s: float
    cpu_s: float
    peak_mb: int
    right: bool


def measure(engine: str, trace: Path, millions: float, expected: dict[str, int]) -> Measured:
    commands = {
        "spark": [sys.executable, "-m", "holdfast", "audit", str(trace), *SPARK],
        "polars": [sys.executable, str(HERE / "audit_polars.py"), str(trace)],
    }
    began = monotonic()
    process = subprocess.Popen(commands[engine], stdout=subprocess.PIPE, text=True)
    watch = Watch(process.pid)
    said, _ = process.communicate()
    found = msgspec.json.decode(said)
    right = {kind: found.get(kind, 0) for kind in KINDS} == expected
    peak, cpu = watch.end()
    return Measured(engine, millions, round(monotonic() - began, 1), round(cpu, 1), peak // 1_000_000, right)


class Watch(threading.Thread):
    """Looks at a process and all below it, again and again."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid, self._ended = pid, threading.Event()
        self._peak, self._cpu = 0, {}  # type: tuple[int, dict[int, float]]
        self.start()

    def run(self) -> None:
        while not self._ended.is_set():
            memory = 0
            for pid, resident, cpu in _family(self._pid):
                memory += resident
                self._cpu[pid] = cpu
            self._peak = max(self._peak, memory)
            sleep(SAMPLE_S)

    def end(self) -> tuple[int, float]:
        """The highest memory in bytes, and the processor time in seconds."""
        self._ended.set()
        self.join()
        return self._peak, sum(self._cpu.values())


def _family(root: int) -> list[tuple[int, int, float]]:
    """Process, resident bytes and processor seconds of a process and everything below it."""
    told: dict[int, list[str]] = {}
    below: dict[int, list[int]] = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                fields = (place / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            told[int(place.name)] = fields
            below.setdefault(int(fields[1]), []).append(int(place.name))
    found, left = [], [root]
    while left:
        pid = left.pop()
        left += below.get(pid, [])
        if pid in told:
            fields = told[pid]
            seconds = (int(fields[11]) + int(fields[12])) / TICKS_PER_S
            found.append((pid, int(fields[21]) * PAGE_BYTES, seconds))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", default="2,8,32", help="deliveries to audit on Spark")
    parser.add_argument("--peer-millions", default="2,8", help="and without it")
    parser.add_argument(
        "--clients", type=int, default=CLIENTS, help="clients of the run, four of five of which publish"
    )
    parser.add_argument("--directory", type=Path, help="where traces are made; without it, for the time of the run")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    sizes = [float(size) for size in options.millions.split(",") if size]
    peers = [float(size) for size in options.peer_millions.split(",") if size]
    if peers and find_spec("polars") is None:
        sys.stderr.write("polars is not installed (pip install polars): Spark is measured alone\n")
        peers = []
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        results = []
        for size in sorted({*sizes, *peers}):
            trace = Path(directory) / f"{size:g}"
            expected = write_trace(trace, int(size * 1_000_000), options.clients)
            engines = [engine for engine, wanted in (("spark", sizes), ("polars", peers)) if size in wanted]
            results += [measure(engine, trace, size, expected) for engine in engines]
            if not options.json:
                _show(results[-len(engines) :])
    if not options.json:
        _show_growth([one for one in results if one.engine == "spark"])
    if options.json:
        sys.stdout.write(msgspec.json.encode(results).decode() + "\n")
    sys.exit(0 if all(one.right for one in results) else 1)


def _show(results: list[Measured]) -> None:
    for one in results:
        verdict = "all faults found" if one.right else "WRONG VERDICT"
        sys.stdout.write(
            f"{one.millions:>5g} M deliveries, {one.engine:<6}: {one.wall_s:>7.1f} s, {one.cpu_s:>7.1f} s of "
            f"processor, {one.peak_mb:>6,} MB at most; {verdict}\n"
        )
    sys.stdout.flush()


def _show_growth(results: list[Measured]) -> None:
    for small, large in pairwise(results):
        factor = large.wall_s / small.wall_s
        sys.stdout.write(f"from {small.millions:g} to {large.millions:g} M: {factor:.2f} times as long\n")


if __name__ == "__main__":
    main()
