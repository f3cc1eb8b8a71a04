"""What a message costs in two checkouts, measured in turn: processor time of publisher, brokers and subscriber.

    python benchmarks/ab.py --against DIR [--rounds 5] [--messages 200000] [--only total] [--json]

DIR is another checkout, for example `git worktree add DIR COMMIT`; both run with this Python and its packages. A row is
a measurement of `holdfast bench`: one publisher at full speed, a chain of brokers, one subscriber, each a process of
its own. A round goes through all rows in both checkouts, one after the other, and the order of the checkouts turns with
every round. A ratio is this checkout's median by the other's.

Processor time is what the kernel counts for each process (`/proc/PID/schedstat`), from the publisher's start to the
last delivery. It says more than a rate on a machine that other programs use, too: a process that waits for a processor
does not pay for it. Ratios below 1 are better for processor time and latency, above 1 for the rate.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

from holdfast.cluster.bench.cells import OURS_MODULE, READY_S, chain
from holdfast.cluster.bench.samples import percentile, warmed_up
from holdfast.cluster.processes import Processes
from holdfast.cluster.workers import Worker

SRC = Path(__file__).resolve().parents[1] / "src"
ROLES = ("publisher", "brokers", "subscriber")
LIMIT_S = 120.0
LATE_S = 2.0
"""How long latencies are measured, at a thousand messages a second."""


class Row(NamedTuple):
    """A measurement, and what it is called."""

    brokers: int
    size_bytes: int
    guarantee: str
    paced: bool = False
    in_batches: bool = False

    @property
    def title(self) -> str:
        parts = [f"{self.brokers} broker{'s' if self.brokers > 1 else ''}", f"{self.size_bytes} B", self.guarantee]
        parts += ["paced"] if self.paced else []
        return ", ".join([*parts, "read in batches"] if self.in_batches else parts)


ROWS = (
    *(Row(brokers, size, guarantee) for brokers in (1, 3) for size in (32, 1024) for guarantee in ("causal", "total")),
    Row(1, 8192, "causal"),
    Row(3, 8192, "causal"),
    Row(1, 32, "causal", in_batches=True),
    Row(1, 1024, "causal", in_batches=True),
    Row(1, 1024, "causal", paced=True),
    Row(3, 1024, "causal", paced=True),
    Row(1, 1024, "total", paced=True),
)


def main() -> None:
    arguments = _arguments()
    if arguments.measure:
        row = Row(*json.loads(arguments.measure))
        print(json.dumps(asyncio.run(measured(row, arguments.messages))))
        return
    there = Path(arguments.against or "", "src")
    if not arguments.against or not (there / "holdfast").is_dir():
        sys.exit(f"--against: {arguments.against or 'nothing'} is no checkout of Holdfast: it has no src/holdfast.")
    rows = [row for row in ROWS if arguments.only in row.title]
    if not rows:
        sys.exit(
            f"--only: no row has {arguments.only!r} in its title; the rows are: {'; '.join(r.title for r in ROWS)}."
        )
    found = compare(rows, there.resolve(), arguments.rounds, arguments.messages)
    print(json.dumps({row.title: samples for row, samples in found.items()}) if arguments.json else table(found))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="DIR", help="the other checkout")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--messages", type=int, default=200_000, help="of each row at full speed; larger ones: fewer")
    parser.add_argument("--only", default="", help="rows with this text in their titles")
    parser.add_argument("--json", action="store_true", help="every sample")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    return parser.parse_args()


# ------------------------------------------------------------------------------------------------- both checkouts

Sample = dict[str, float]
Samples = dict[str, list[Sample]]


def compare(rows: Iterable[Row], there: Path, rounds: int, messages: int) -> dict[Row, Samples]:
    """Samples of every row, of `new` (this checkout) and `old` (the other one)."""
    found: dict[Row, Samples] = {row: {"new": [], "old": []} for row in rows}
    places = {"new": SRC, "old": there}
    for number in range(rounds):
        for row, samples in found.items():
            for which in sorted(places, reverse=bool(number % 2)):
                samples[which].append(_of_a_checkout(places[which], row, messages))
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return found


def _of_a_checkout(source: Path, row: Row, messages: int) -> Sample:
    command = [sys.executable, __file__, "--measure", json.dumps(row), "--messages", str(messages)]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(source)}, stdout=subprocess.PIPE, check=True, timeout=2 * LIMIT_S
    )
    sample: Sample = json.loads(done.stdout)
    return sample


def table(found: dict[Row, Samples]) -> str:
    """A line for each row: ratios new/old, and microseconds of processor time a message."""
    head = ["", "all", *ROLES, "us a message", "(old)", "rate", "p50"]
    lines = [head, *(_line(row, samples) for row, samples in found.items())]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            [line[0].ljust(widths[0]), *(text.rjust(width) for text, width in zip(line[1:], widths[1:], strict=True))]
        )
        for line in lines
    )


def _line(row: Row, samples: Samples) -> list[str]:
    ratios = {name: _ratio(samples, name) for name in ("all", *ROLES, "rate")}
    new_us, old_us = (_middle(samples[which], "all") for which in ("new", "old"))
    return [
        row.title,
        *(f"{ratios[name]:.2f}" for name in ("all", *ROLES)),
        f"{new_us:.2f}",
        f"{old_us:.2f}",
        "" if row.paced else f"{ratios['rate']:.2f}",
        f"{_ratio(samples, 'p50_us'):.2f}" if row.paced else "",
    ]


def _ratio(samples: Samples, name: str) -> float:
    return _middle(samples["new"], name) / _middle(samples["old"], name)


def _middle(samples: list[Sample], name: str) -> float:
    return median(sample[name] for sample in samples)


# --------------------------------------------------------------------------------------------------- one checkout


async def measured(row: Row, messages: int) -> Sample:
    """Carry a row out with the Holdfast that this process imports: microseconds a message, rate, middle latency."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-ab-")))
        cluster = chain(row.brokers)
        processes = Processes(cluster, directory, attached=True)
        stack.push_async_callback(processes.stop)
        await processes.start_brokers()
        common = {
            "guarantee": row.guarantee,
            "distinct_keys": row.guarantee == "total",
            "in_batches": row.in_batches,
            "size_bytes": row.size_bytes,
            "paced": row.paced,
            "seconds": LATE_S,
            "count": 0 if row.paced else max(1, min(messages, messages * 2048 // row.size_bytes)),
        }
        ends = {"subscriber": cluster.brokers[-1], "publisher": cluster.brokers[0]}
        brokers, workers = _children(), {}
        for role, broker in ends.items():
            settings = {"role": role, "address": broker.address, **common}
            worker = Worker(role, OURS_MODULE, settings, directory / "workers.log")
            workers[role] = await stack.enter_async_context(worker)
            await worker.report("ready", READY_S)
        pids = {"brokers": brokers, **{role: [worker.pid] for role, worker in workers.items()}}
        before = _processor_ns(pids)
        workers["publisher"].tell("go")
        published = (await workers["publisher"].report("done", LIMIT_S))["published"]
        workers["subscriber"].tell(str(published["count"]))
        received = (await workers["subscriber"].report("done", LIMIT_S))["received"]
        after = _processor_ns(pids)
        workers["publisher"].tell("stop")
    count = published["count"]
    spent = {role: (after[role] - before[role]) / 1000 / count for role in ROLES}
    seconds = (received["ended_ns"] - published["started_ns"]) / 1e9
    late = warmed_up(received["latencies_us"])
    return {
        **spent,
        "all": sum(spent.values()),
        "rate": count / seconds,
        "p50_us": percentile(late, 0.5) if late else 0,
    }


def _children() -> list[int]:
    """The processes that this one has started: its brokers, as long as there are no others."""
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def _processor_ns(pids: dict[str, list[int]]) -> dict[str, int]:
    return {role: sum(_of_a_process(pid) for pid in of_role) for role, of_role in pids.items()}


def _of_a_process(pid: int) -> int:
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads)


if __name__ == "__main__":
    main()
