"""How long two brokers take to return, and how much of it traffic feels: `delta`, real processes, many subscriptions.

    python benchmarks/delta_return.py [--subscriptions 100000] [--rate 1000] [--json]

A chain of five brokers, tolerance 2. Clients at both ends want `--subscriptions` different values of an attribute;
every broker knows all of these filters. A publisher at b1 sends `--rate` messages a second to one subscriber at b5, all
the while: some seconds in calm; then b2 and b3 are killed (kill -9); then both are started again, until both are ready,
and some seconds more. A gap is the longest time between two deliveries. All that was published has to come once, in
order.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from itertools import pairwise
from pathlib import Path
from time import monotonic

import holdfast
from holdfast.cluster.config import parse_cluster
from holdfast.cluster.ports import free_port_pairs
from holdfast.cluster.processes import Processes

TEXT = """
name = "delta-return"
protocol = "delta"
tolerance = 2
silence_s = 0.6
suspect_s = 0.03
join_s = 1.0
[brokers.b1]
[brokers.b2]
parent = "b1"
[brokers.b3]
parent = "b2"
[brokers.b4]
parent = "b3"
[brokers.b5]
parent = "b4"
"""
TOPIC = "orders"
KILLED = ("b2", "b3")
AT_A_TIME = 500
READY_S = 400.0
PART_S = 4.0
"""How long each part of a run lasts at least."""


async def subscribe_all(client: holdfast.Client, name: str, count: int) -> None:
    for at in range(0, count, AT_A_TIME):
        some = range(at, min(at + AT_A_TIME, count))
        await asyncio.gather(*(client.subscribe(TOPIC, f"customer = '{name} {one}'") for one in some))


async def read(subscription: holdfast.Subscription, came: list[tuple[int, float]]) -> None:
    async for message in subscription:
        came.append((int(message.payload), monotonic()))  # noqa: PERF401 - each at its moment


class Publisher:
    """Publishes at a steady rate until it is stopped."""

    def __init__(self, client: holdfast.Client, rate: float) -> None:
        self._client, self._rate = client, rate
        self.count, self.stopped = 0, False

    async def run(self) -> None:
        begun = monotonic()
        while not self.stopped:
            await self._client.publish(TOPIC, b"%d" % self.count, guarantee="fifo")
            self.count += 1
            wait_s = begun + self.count / self._rate - monotonic()
            if wait_s > 0:
                await asyncio.sleep(wait_s)


def gap_ms(came: list[tuple[int, float]], begin: float, end: float) -> float:
    """The longest time without a delivery between the two moments."""
    inside = [begin, *(at for _, at in came if begin <= at <= end), end]
    return round(max(after - before for before, after in pairwise(inside)) * 1000, 1)


async def measured(subscriptions: int, rate: float, directory: Path) -> dict[str, float]:
    cluster = parse_cluster(TEXT)
    cluster = cluster.at_ports(free_port_pairs(len(cluster.brokers)))
    processes = Processes(cluster, directory, attached=True)
    clients: list[holdfast.Client] = []
    try:
        await processes.start_brokers()

        async def client_at(broker: str) -> holdfast.Client:
            clients.append(await holdfast.connect(cluster.addresses_of(broker), cluster=cluster.name))
            return clients[-1]

        begun = monotonic()
        for name in ("b1", "b5"):
            await subscribe_all(await client_at(name), name, subscriptions // 2)
        found = {"subscriptions": subscriptions, "subscribing_s": round(monotonic() - begun, 1)}
        came: list[tuple[int, float]] = []
        reading = asyncio.ensure_future(read(await (await client_at("b5")).subscribe(TOPIC), came))
        publisher = Publisher(await client_at("b1"), rate)
        publishing = asyncio.ensure_future(publisher.run())
        found |= await story(processes, came)
        publisher.stopped = True
        await publishing
        for _ in range(600):
            if len(came) >= publisher.count:
                break
            await asyncio.sleep(0.1)
        reading.cancel()
        numbers = [number for number, _ in came]
        found |= {"published": publisher.count, "came": len(numbers), "repeated": len(numbers) - len({*numbers})}
        return found | {"out_of_order": sum(one > other for one, other in pairwise(numbers))}
    finally:
        for client in clients:
            await client.close()
        await processes.stop()


async def story(processes: Processes, came: list[tuple[int, float]]) -> dict[str, float]:
    """Calm, both killed, both back, calm."""
    found: dict[str, float] = {}
    await asyncio.sleep(PART_S / 2)
    begin = monotonic()
    await asyncio.sleep(PART_S)
    found["calm_gap_ms"] = gap_ms(came, begin, monotonic())
    begin = monotonic()
    for name in KILLED:
        processes.crash(name)
    await asyncio.sleep(PART_S)
    found["kill_gap_ms"] = gap_ms(came, begin, monotonic())
    begin = monotonic()
    for name in KILLED:
        processes.restart(name)
    for name in KILLED:
        await processes.wait_ready(name, READY_S)
    found["return_s"] = round(monotonic() - begin, 1)
    await asyncio.sleep(PART_S / 2)
    found["return_gap_ms"] = gap_ms(came, begin, monotonic())
    inside = [at for _, at in came if at >= begin]
    pauses = [after - before for before, after in pairwise(inside)]
    found["pauses_over_50_ms"] = sum(one > 0.05 for one in pauses)
    found["in_pauses_s"] = round(sum(one for one in pauses if one > 0.05), 2)
    begin = monotonic()
    await asyncio.sleep(PART_S)
    found["calm_gap_afterwards_ms"] = gap_ms(came, begin, monotonic())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subscriptions", type=int, default=100_000)
    parser.add_argument("--rate", type=float, default=1000.0)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-delta-") as directory:
        found = asyncio.run(measured(arguments.subscriptions, arguments.rate, Path(directory)))
    print(json.dumps(found) if arguments.json else "\n".join(f"{name:24} {value:g}" for name, value in found.items()))


if __name__ == "__main__":
    main()
