"""How long a repair is felt: kill -9 of a broker on the path at 1,000 messages a second, on real processes, loopback.

    python benchmarks/repair.py [--rounds 20] [--victim inner|root|edge|frozen|all] [--json]

Five brokers (0; 1 and 2 below it; 3 below 1; 4 below 2), a publisher for each guarantee at 3 and a subscriber at 4, so
that the path is 3-1-0-2-4. Each round starts the tree anew, measures the round trip (publish to confirmed: to the
subscriber and back) and the longest gap between two deliveries of each guarantee in calm, kills the victim, goes on for
a second, and has the histories of all clients judged. `inner` kills 1, `root` 0, `edge` the subscriber's own broker 4;
`frozen` stops 1 with SIGSTOP instead, so that only its silence shows.

Repair: from the kill to the first delivery of a message that was published after the victim was gone.

Aside: a publisher and a subscriber at two neighbours in a subtree that the victim is no part of (2 and 4; for the edge
1 and 3), in a process of their own, 250 causal messages a second on a topic of their own. Their longest gap after the
kill, beside that in calm, shows whether the repair stopped them, too.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from time import monotonic, time_ns

import msgspec
from msgspec import Struct

import holdfast
from holdfast.client.opening import Opening
from holdfast.cluster.config import LOOPBACK, Broker, Cluster, checked
from holdfast.cluster.ports import free_port_pairs
from holdfast.cluster.processes import ProcessError, Processes
from holdfast.cluster.status import cluster_status
from holdfast.model.trace import Event
from holdfast.simulation.checkers import check

PARENTS = {"0": None, "1": "0", "2": "0", "3": "1", "4": "2"}
VICTIMS = {"inner": "1", "root": "0", "edge": "4", "frozen": "1"}
ASIDE = {"inner": ("2", "4"), "root": ("2", "4"), "edge": ("1", "3"), "frozen": ("2", "4")}
ASIDE_RATE = 250
LINE_BYTES_MAX = 1 << 22
GUARANTEES = ("eventual", "fifo", "causal", "total")
RATE = 1000
ROUND_TRIPS = 50
CALM_S, AFTER_S, DRAINED_S = 1.0, 1.0, 20.0
FAULTS = ("lost", "duplicated", "created", "fifo", "causal", "total")


class Felt(Struct):
    """What was felt of one kill; `over_ms` is the longest gap of a guarantee over its longest in calm."""

    round_trip_ms: float
    repair_ms: float
    over_ms: dict[str, float]
    aside_ms: float
    aside_calm_ms: float
    deliveries: int
    faults: dict[str, int]


class Spread(Struct):
    median: float
    worst: float


class Summary(Struct):
    """All rounds with one kind of victim."""

    victim: str
    rounds: int
    round_trip_ms: float
    repair_ms: Spread
    repair_in_round_trips: float
    gap_over_calm_ms: dict[str, Spread]
    aside_gap_ms: Spread
    aside_calm_gap_ms: Spread
    deliveries: int
    faults: dict[str, int]


def cluster() -> Cluster:
    """The five brokers on free ports."""
    ports = free_port_pairs(len(PARENTS))
    brokers = tuple(
        Broker(name, parent, LOOPBACK, port, health_port)
        for (name, parent), (port, health_port) in zip(PARENTS.items(), ports, strict=True)
    )
    return checked(Cluster("repair", "ginger", brokers, (), tolerance=1), "the benchmark")


async def one_round(directory: Path, victim: str) -> Felt:
    """One tree, one kill, and what was felt of it."""
    rows: list[Event] = []
    processes = Processes(cluster(), directory, attached=True)
    await processes.start_brokers()
    try:
        async with AsyncExitStack() as stack:
            publishers = {
                guarantee: await stack.enter_async_context(_client(processes, "3", guarantee, rows))
                for guarantee in GUARANTEES
            }
            subscriber = await stack.enter_async_context(_client(processes, "4", "subscriber", rows))
            reading = asyncio.create_task(_read(await subscriber.subscribe("t")))
            aside = await stack.enter_async_context(_aside_process(processes, victim))
            trip_ms = [await _round_trip_ms(publishers["causal"]) for _ in range(ROUND_TRIPS)]
            publishing = [asyncio.create_task(_publish(client, one)) for one, client in publishers.items()]
            calm_from = time_ns()
            await asyncio.sleep(CALM_S)
            struck_at = time_ns()
            _strike(processes, victim)
            gone_at = time_ns()
            await asyncio.sleep(AFTER_S + (1.0 if victim == "frozen" else 0.0))
            for task in publishing:
                task.cancel()
            await asyncio.wait(publishing)
            if not await _drained(rows, sum(client.next_seq - 1 for client in publishers.values())):
                raise ProcessError(f"not everything was delivered within {DRAINED_S:g} s:\n{await _state(processes)}")
            reading.cancel()
            judged, aside_times = list(rows), await _aside_times(aside)
        return _felt(judged, aside_times, statistics.median(trip_ms), calm_from, struck_at, gone_at)
    finally:
        for name in PARENTS:
            if any(one.name == name and one.process.is_alive() for one in processes.running):
                processes.crash(name)
        await processes.stop()


def _client(processes: Processes, home: str, name: str, rows: list[Event]) -> Opening[holdfast.Client]:
    address = processes.cluster.broker(home).address
    return holdfast.connect(address, name=name, cluster="repair", trace=rows.append)


def _strike(processes: Processes, victim: str) -> None:
    if victim == "frozen":
        processes.freeze(VICTIMS[victim])
    else:
        processes.crash(VICTIMS[victim])


async def _read(inbox: holdfast.Subscription) -> None:
    async for _ in inbox:
        pass


async def _round_trip_ms(publisher: holdfast.Client) -> float:
    started_ns = time_ns()
    await (await publisher.publish("t", b"x" * 100, "causal")).confirmed()
    return (time_ns() - started_ns) / 1e6


async def _publish(publisher: holdfast.Client, guarantee: str) -> None:
    """This guarantee's share of a thousand messages a second."""
    loop = asyncio.get_running_loop()
    begun_at, number, interval_s = loop.time(), 0, len(GUARANTEES) / RATE
    while True:
        await publisher.publish("t", b"x" * 100, guarantee, keys=[str(number % 8)])
        number += 1
        await asyncio.sleep(max(0.0, begun_at + number * interval_s - loop.time()))


async def _drained(rows: list[Event], count: int) -> bool:
    """Whether that many messages are delivered within a reasonable time."""
    limit = monotonic() + DRAINED_S
    while monotonic() < limit:
        if sum(row.event == "deliver" for row in rows) >= count:
            return True
        await asyncio.sleep(0.05)
    return False


async def _state(processes: Processes) -> str:
    """What each broker says it is waiting for."""
    seen = (await cluster_status(processes.cluster)).brokers
    told = {one.name: f"below {one.parent}, waits for {one.status.get('waiting_for')}" for one in seen if one.answers}
    return "\n".join(f"  {one.name}: {told.get(one.name, one.reason)}" for one in seen)


@asynccontextmanager
async def _aside_process(processes: Processes, victim: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Those who have nothing to do with it, in a process of their own: ready when this returns."""
    places = [processes.cluster.broker(name).address for name in ASIDE[victim]]
    child = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--aside", *places, stdin=PIPE, stdout=PIPE, limit=LINE_BYTES_MAX
    )
    try:
        assert child.stdout is not None
        await child.stdout.readline()
        yield child
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()


async def _aside_times(child: asyncio.subprocess.Process) -> list[int]:
    said, _ = await child.communicate(b"")
    times: list[int] = msgspec.json.decode(said)
    return times


async def aside(near: str, far: str) -> None:
    """Publish at the one broker and read at the other until the input ends; then say when each message came."""
    times: list[int] = []
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    async with holdfast.connect(far, cluster="repair") as reader, holdfast.connect(near, cluster="repair") as writer:
        inbox = await reader.subscribe("aside")

        async def read() -> None:
            async for _ in inbox:
                times.append(time_ns())  # noqa: PERF401 - it takes its time

        reading = asyncio.create_task(read())
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        receipt = None
        while not ended.done():
            receipt = await writer.publish("aside", b"x" * 100, "causal")
            await asyncio.sleep(1 / ASIDE_RATE)
        if receipt is not None:
            await receipt.confirmed()
            # Messages that the brokers know to be here may not have been read yet.
            while len(times) < receipt.seq:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        reading.cancel()
    sys.stdout.write(msgspec.json.encode(times).decode())


def _felt(
    rows: list[Event], aside_times: list[int], trip_ms: float, calm_from: int, struck_at: int, gone_at: int
) -> Felt:
    verdict = check(rows)
    published = {(row.publisher, row.seq): row.time for row in rows if row.event == "publish"}
    delivered = sorted((row.time, row.publisher, row.seq) for row in rows if row.event == "deliver")
    first = min(at for at, publisher, seq in delivered if published[publisher, seq] >= gone_at)
    gaps_ms: dict[str, tuple[float, float]] = {}
    streams = {one: [at for at, publisher, _ in delivered if publisher == one] for one in GUARANTEES}
    for publisher, arrivals in {**streams, "aside": aside_times}.items():
        times = [at for at in arrivals if at >= calm_from]
        calm = [at for at in times if at < struck_at]
        gaps_ms[publisher] = (_longest_gap_ms(times[max(len(calm) - 1, 0) :]), _longest_gap_ms(calm))
    over_ms = {guarantee: gaps_ms[guarantee][0] - gaps_ms[guarantee][1] for guarantee in GUARANTEES}
    found = dict(verdict.as_dict())
    faults = {kind: int(str(found[kind])) for kind in FAULTS}
    return Felt(trip_ms, (first - struck_at) / 1e6, over_ms, *gaps_ms["aside"], verdict.deliveries, faults)


def _longest_gap_ms(times: list[int]) -> float:
    return max((later - earlier for earlier, later in pairwise(times)), default=0) / 1e6


def summed_up(victim: str, rounds: list[Felt]) -> Summary:
    """Median and worst over the rounds."""
    repair = _spread([one.repair_ms for one in rounds])
    trip_ms = round(statistics.median(one.round_trip_ms for one in rounds), 2)
    return Summary(
        victim,
        len(rounds),
        trip_ms,
        repair,
        round(repair.median / trip_ms, 1),
        {guarantee: _spread([one.over_ms[guarantee] for one in rounds]) for guarantee in GUARANTEES},
        _spread([one.aside_ms for one in rounds]),
        _spread([one.aside_calm_ms for one in rounds]),
        sum(one.deliveries for one in rounds),
        {kind: sum(one.faults[kind] for one in rounds) for kind in FAULTS},
    )


def _spread(figures: list[float]) -> Spread:
    return Spread(round(statistics.median(figures), 1), round(max(figures), 1))


def shown(summary: Summary) -> str:
    repair = summary.repair_ms
    lines = [f"{summary.victim}: {summary.rounds} rounds, round trip {summary.round_trip_ms} ms"]
    in_trips = f"the median is {summary.repair_in_round_trips} round trips"
    lines.append(f"  repair: median {repair.median} ms, worst {repair.worst} ms; {in_trips}")
    for guarantee, gap in summary.gap_over_calm_ms.items():
        lines.append(f"  longest gap over calm, {guarantee}: median {gap.median} ms, worst {gap.worst} ms")
    aside, calm = summary.aside_gap_ms, summary.aside_calm_gap_ms
    lines.append(
        f"  longest gap aside: median {aside.median} ms, worst {aside.worst} ms;"
        f" in calm median {calm.median} ms, worst {calm.worst} ms"
    )
    faults = ", ".join(f"{kind} {count}" for kind, count in summary.faults.items())
    lines.append(f"  of {summary.deliveries} deliveries: {faults}")
    return "\n".join(lines)


async def measured(victim: str, count: int) -> Summary:
    rounds = []
    for number in range(count):
        with tempfile.TemporaryDirectory() as directory:
            rounds.append(await one_round(Path(directory), victim))
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{victim}: {number + 1} of {count}")
    return summed_up(victim, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure repairs of the broker tree on real processes.")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--victim", choices=[*VICTIMS, "all"], default="inner")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--aside", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.aside:
        holdfast.run(aside(*arguments.aside))
        return
    victims = list(VICTIMS) if arguments.victim == "all" else [arguments.victim]
    summaries = []
    for victim in victims:
        summaries.append(holdfast.run(measured(victim, arguments.rounds)))
        if not arguments.json:
            sys.stdout.write(shown(summaries[-1]) + "\n")
            sys.stdout.flush()
    if arguments.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(summaries)).decode() + "\n")


if __name__ == "__main__":
    main()
