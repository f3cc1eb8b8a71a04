"""What the checksums of batches and frames cost: processor time a message, with and without them, in one run.

A publisher, two brokers and a subscriber talk over loopback in one process, and what counts is the processor time of
that process, kernel included, divided by the messages. Each side is measured in processes of its own that take turns,
and the medians are compared, so a machine that is slow for a while is slow for both; on a busy machine the least of the
turns says more (`of least`). `alone` messages are published one a turn of the loop, so each is a batch and a frame by
itself; `together` as fast as the publisher can, so they share batches.

    python benchmarks/checksums.py --without
    git archive COMMIT | tar -x -C /tmp/before
    python benchmarks/checksums.py --against /tmp/before

`--without` runs this commit with a function in the place of CRC-32 that looks at no byte: the difference is the reading
of the bytes. `--twice` computes every checksum a second time, through one more call of Python, so what that adds
is more than what the checksums cost. The layout of frames is the same in all three.
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
from holdfast.model import batches, wire
from holdfast.model.checksums import crc32
from holdfast.runtime.broker import BrokerProcess
from holdfast.runtime.settings import BrokerSettings

SIZES_BYTES = (32, 1024, 8192)
MODES = ("alone", "together")
MESSAGES = {"alone": 3_000, "together": 20_000}
TURNS = 7


def unread(data: bytes, value: int = 0) -> int:  # noqa: ARG001
    """In the place of a checksum: the same for everything."""
    return 1


def read_twice(data: bytes, value: int = 0) -> int:
    """A checksum that is computed a second time."""
    crc32(data, value)
    return crc32(data, value)


KINDS = {"": crc32, "without": unread, "twice": read_twice}


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


def measured_apart(source: Path, mode: str, size_bytes: int, scale: float, kind: str = "") -> float:
    """The same in a process that runs the code below that directory, with checksums of that kind."""
    command = [sys.executable, __file__, "--one", mode, str(size_bytes), str(int(MESSAGES[mode] * scale)), kind]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    return float(json.loads(subprocess.run(command, env=environment, check=True, capture_output=True).stdout))


def compare(
    sides: tuple[tuple[str, Path, str], ...], modes: list[str], sizes_bytes: list[int], turns: int, scale: float
) -> None:
    """Measure both sides in turns, and say by how much the second one takes longer."""
    out = sys.stdout.write
    (first, *_), (second, *_) = sides
    out(f"{'':<10}{'bytes':>7}{first:>11}{second:>11}{'ratio':>8}{'of least':>10}   microseconds a message\n")
    for mode in modes:
        for size_bytes in sizes_bytes:
            found: dict[str, list[float]] = {first: [], second: []}
            for turn in range(turns):
                for name, source, kind in sides if turn % 2 else reversed(sides):
                    found[name].append(measured_apart(source, mode, size_bytes, scale, kind))
            before, now = median(found[first]), median(found[second])
            least = min(found[second]) / min(found[first])
            out(f"{mode:<10}{size_bytes:>7}{before:>11.2f}{now:>11.2f}{now / before:>8.3f}{least:>10.3f}\n")
            sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the processor time a message with and without checksums.")
    parser.add_argument("--against", type=Path, help="a directory with another commit's files")
    parser.add_argument("--without", action="store_true", help="compare with this commit without reading the bytes")
    parser.add_argument("--twice", action="store_true", help="compare with every checksum computed a second time")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES_BYTES), help="bytes of the payloads")
    parser.add_argument("--modes", choices=MODES, nargs="+", default=list(MODES), help="how they are published")
    parser.add_argument("--turns", type=int, default=TURNS, help="how often each side is measured")
    parser.add_argument("--scale", type=float, default=1.0, help="that many times as many messages")
    parser.add_argument("--one", nargs=4, metavar=("MODE", "BYTES", "MESSAGES", "KIND"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    here = Path(__file__).parents[1] / "src"
    measured = (arguments.modes, arguments.sizes, arguments.turns, arguments.scale)
    if arguments.one:
        mode, size_bytes, count, kind = arguments.one
        wire.crc32 = batches.crc32 = KINDS[kind]  # type: ignore[attr-defined]
        sys.stdout.write(json.dumps(holdfast.run(measure(mode, int(size_bytes), int(count)))) + "\n")
    elif arguments.without:
        compare((("without", here, "without"), ("with", here, "")), *measured)
    elif arguments.twice:
        compare((("once", here, ""), ("twice", here, "twice")), *measured)
    elif arguments.against is not None:
        compare((("before", arguments.against / "src", ""), ("now", here, "")), *measured)
    else:
        parser.error("say --without, --twice, or --against DIRECTORY, where the files of another commit are")


if __name__ == "__main__":
    main()
