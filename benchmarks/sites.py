"""How long a site's loss of a broker is felt: kill -9 of one broker in each of five sites at 1,000 messages a second.

    python benchmarks/sites.py [--rounds 3] [--rate 1000] [--seconds 3] [--json]

Real processes on loopback: five sites of three brokers in a row of two and three, a publisher at the root and a
subscriber at each of the two outermost sites. In the middle of the publishing one broker of each site, another one in
each round, is killed. The gap is the longest time between two deliveries at a subscriber while something is published,
before the kill (calm) and after it. Each round is made with the delays that follow round trips, and with the report's
own (1.5 s and 3 s). The histories of all clients are judged.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from time import monotonic

import holdfast
from holdfast.cluster.config import parse_cluster
from holdfast.cluster.ports import free_port_pairs
from holdfast.cluster.processes import Processes
from holdfast.model.trace import Event
from holdfast.simulation.checkers import check

SITES = {"root": "", "left": "root", "right": "root", "low": "left", "far": "right"}
SUBSCRIBED = ("low", "far")
TIMERS = {"adaptive": (0.0, 0.0), "report": (1.5, 3.0)}
PATIENCE_S = 60.0


def cluster_text(timers: str) -> str:
    request_s, notify_s = TIMERS[timers]
    lines = ['name = "sites"', 'protocol = "sesdad"', f"request_s = {request_s}", f"notify_s = {notify_s}"]
    for name, parent in SITES.items():
        lines += [f"[sites.{name}]", *([f'parent = "{parent}"'] if parent else [])]
    return "\n".join(lines)


async def read(subscription: holdfast.Subscription, times: list[float]) -> None:
    async for _ in subscription:
        times.append(monotonic())  # noqa: PERF401 - each at its moment


async def publish(client: holdfast.Client, count: int, rate: float) -> None:
    """So many messages, each at its time; those that are late leave at once."""
    begun = monotonic()
    for number in range(count):
        await client.publish("t", b"%d" % number, guarantee="fifo")
        wait_s = begun + (number + 1) / rate - monotonic()
        if wait_s > 0:
            await asyncio.sleep(wait_s)


def gap_ms(times: list[float], begin: float, end: float) -> float:
    """The longest time without a delivery from one moment to the other."""
    inside = [begin, *(one for one in times if begin <= one <= end)]
    return max((after - before for before, after in pairwise(inside)), default=0.0) * 1000


async def one_round(timers: str, number: int, rate: float, seconds: float, directory: Path) -> dict[str, object]:
    cluster = parse_cluster(cluster_text(timers))
    cluster = cluster.at_ports(free_port_pairs(len(cluster.brokers)))
    processes, rows = Processes(cluster, directory, attached=True), list[Event]()
    count = int(rate * seconds)
    await processes.start_brokers()
    try:
        times: dict[str, list[float]] = {}
        tasks: list[asyncio.Task[None]] = []
        clients: list[holdfast.Client] = []
        for site in SUBSCRIBED:
            client = await holdfast.connect(
                cluster.addresses_of(site), name=f"s-{site}", cluster="sites", trace=rows.append
            )
            clients.append(client)
            tasks.append(asyncio.ensure_future(read(await client.subscribe("t"), times.setdefault(site, []))))
        publisher = await holdfast.connect(cluster.addresses_of("root"), name="p", cluster="sites", trace=rows.append)
        clients.append(publisher)
        publishing = asyncio.ensure_future(publish(publisher, count, rate))
        begun = monotonic()
        await asyncio.sleep(seconds / 2)
        killed = monotonic()
        for place, site in enumerate(SITES):
            processes.crash(f"{site}.{1 + (number + place) % 3}")
        await publishing
        async with asyncio.timeout(PATIENCE_S):
            await publisher.flush()
            while any(len(one) < count for one in times.values()):  # noqa: ASYNC110 - who reads notes the times
                await asyncio.sleep(0.01)
        ended = monotonic()
        for task in tasks:
            task.cancel()
        for client in clients:
            await client.close()
    finally:
        await processes.stop()
    verdict = check(rows)
    return {
        "timers": timers,
        "published": count,
        "delivered": sum(map(len, times.values())),
        "ok": verdict.ok,
        "calm_ms": max(gap_ms(one, begun + 0.2, killed) for one in times.values()),
        "gap_ms": max(gap_ms(one, killed, ended) for one in times.values()),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=1000.0, help="messages a second")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    rows: list[dict[str, object]] = []
    for number in range(asked.rounds):
        for timers in TIMERS:
            with tempfile.TemporaryDirectory() as directory:
                row = holdfast.run(one_round(timers, number, asked.rate, asked.seconds, Path(directory)))
            rows.append(row)
            if not asked.json:
                said = "every promise kept" if row["ok"] else "BROKEN"
                print(
                    f"{timers:8} {row['delivered']} deliveries of {row['published']} publications, {said}; longest gap "
                    f"{row['gap_ms']:.0f} ms, {row['calm_ms']:.0f} ms in calm"
                )
    if asked.json:
        print(json.dumps(rows))
    else:
        for timers in TIMERS:
            gaps = [float(str(row["gap_ms"])) for row in rows if row["timers"] == timers]
            print(f"{timers:8} median {statistics.median(gaps):.0f} ms, longest {max(gaps):.0f} ms")
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
