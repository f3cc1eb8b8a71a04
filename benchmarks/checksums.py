"""What the checksums of batches and frames cost: processor time a message, of this commit and another, in one run.

A publisher, two brokers and a subscriber talk over loopback in one process, and what counts is the processor time of
that process, kernel included, divided by the messages. Each commit is measured in processes of its own that take turns,
and the medians are compared, so a machine that is slow for a while is slow for both. `alone` messages are published one
a turn of the loop, so each is a batch and a frame by itself; `together` as fast as the publisher can, so they share
batches.

    git archive COMMIT | tar -x -C /tmp/before
    python benchmarks/checksums.py --against /tmp/before
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median

import holdfast
from holdfast.runtime.broker import BrokerProcess
from holdfast.runtime.settings import BrokerSettings

SIZES_BYTES = (32, 1024, 8192)
MODES = ("alone", "together")
MESSAGES = {"alone": 3_000, "together": 20_000}
TURNS = 7


async def measure(mode: str, size_bytes: int, count: int) -> float:
    """Microseconds of processor time for each message."""
    async with AsyncExitStack() as stack:
        ports: list[int] = []
        for index in range(2):
            above = {"parent": "b0", "addresses": {"b0": ("127.0.0.1", ports[0])}} if ports else {}
            broker = BrokerProcess(BrokerSettings(name=f"b{index}", port=0, **above))  # type: ignore[arg-type]
            serving = asyncio.ensure_future(broker.serve())
            stack.push_async_callback(_ended, broker, serving)
            while not broker.ready():  # noqa: ASYNC110 - a broker has no event for it
                await asyncio.sleep(0.01)
            ports.append(broker.port)
        one, other = (f"holdfast://127.0.0.1:{port}" for port in ports)
        publisher = await stack.enter_async_context(holdfast.connect(one, name="alice"))
        subscriber = await stack.enter_async_context(holdfast.connect(other, name="bob"))
        inbox = await subscriber.subscribe("bank/lisbon/orders")
        await passage(publisher, inbox, mode, size_bytes, count // 10)
        began_s = time.process_time()
        await passage(publisher, inbox, mode, size_bytes, count)
        return (time.process_time() - began_s) / count * 1e6


async def _ended(broker: BrokerProcess, serving: "asyncio.Future[int]") -> None:
    broker.stop("measured")
    broker.stop("at once")
    await serving


async def passage(
    publisher: holdfast.Client, inbox: holdfast.Subscription, mode: str, size_bytes: int, count: int
) -> None:
    """Publish that many messages, and wait until all of them have come."""
    payload = os.urandom(size_bytes)

    async def publish() -> None:
        for _ in range(count):
            await publisher.publish("bank/lisbon/orders", payload, guarantee="causal")
            if mode == "alone":
                await asyncio.sleep(0)

    publishing = asyncio.ensure_future(publish())
    for _ in range(count):
        await inbox.get(30)
    await publishing


def measured_apart(source: Path, mode: str, size_bytes: int, scale: float) -> float:
    """The same in a process that runs the code below that directory."""
    command = [sys.executable, __file__, "--one", mode, str(size_bytes), str(int(MESSAGES[mode] * scale))]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    return float(json.loads(subprocess.run(command, env=environment, check=True, capture_output=True).stdout))


def compare(here: Path, against: Path, turns: int, scale: float) -> None:
    out = sys.stdout.write
    out(f"{'':<10}{'bytes':>7}{'before':>11}{'now':>9}{'ratio':>8}   microseconds of processor time a message\n")
    for mode in MODES:
        for size_bytes in SIZES_BYTES:
            found: dict[Path, list[float]] = {here: [], against: []}
            for turn in range(turns):
                for source in (against, here) if turn % 2 else (here, against):
                    found[source].append(measured_apart(source, mode, size_bytes, scale))
            before, now = median(found[against]), median(found[here])
            out(f"{mode:<10}{size_bytes:>7}{before:>11.2f}{now:>9.2f}{now / before:>8.3f}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the processor time a message of two commits.")
    parser.add_argument("--against", type=Path, help="a directory with another commit's files")
    parser.add_argument("--turns", type=int, default=TURNS, help="how often each commit is measured")
    parser.add_argument("--scale", type=float, default=1.0, help="that many times as many messages")
    parser.add_argument("--one", nargs=3, metavar=("MODE", "BYTES", "MESSAGES"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        mode, size_bytes, count = arguments.one
        sys.stdout.write(json.dumps(holdfast.run(measure(mode, int(size_bytes), int(count)))) + "\n")
    elif arguments.against is None:
        parser.error("say --against DIRECTORY, where the files of another commit are")
    else:
        compare(Path(__file__).parents[1] / "src", arguments.against / "src", arguments.turns, arguments.scale)


if __name__ == "__main__":
    main()
