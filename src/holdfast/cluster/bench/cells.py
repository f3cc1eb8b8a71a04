"""One measurement: which system, through how many brokers, with which messages; and how it is carried out.

Every measurement starts its own processes (brokers, one publisher, subscribers), bounded in time, on loopback, and ends
them all.
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from holdfast.cluster.bench import nats_core
from holdfast.cluster.bench.samples import PublishedSample, ReceivedSample, percentile, warmed_up
from holdfast.cluster.config import LOOPBACK, Broker, Cluster
from holdfast.cluster.ports import free_port_pairs
from holdfast.cluster.processes import Processes
from holdfast.cluster.workers import Worker, WorkerError

FLOOR_MODULE = "holdfast.cluster.bench.floor"
OURS_MODULE = "holdfast.cluster.bench.ours"
NATS_MODULE = "holdfast.cluster.bench.nats_core"
READY_S = 20.0
SLACK_S = 60.0

System = Literal["floor", "holdfast", "nats"]


class Cell(Struct, frozen=True):
    """What is measured: a rate at full speed, or, if `paced`, latencies at a thousand messages a second."""

    system: System
    hops: int = 1
    size_bytes: int = 1024
    guarantee: str = ""
    subscribers: int = 1
    paced: bool = False
    in_batches: bool = False
    """Whether the application reads lists of messages instead of one message after the other."""

    @property
    def title(self) -> str:
        through = "broker" if self.system == "holdfast" else "relay" if self.system == "floor" else "server"
        parts = [self.system, f"{self.hops} {through}{'s' if self.hops > 1 else ''}", _size(self.size_bytes)]
        parts += [self.guarantee] if self.guarantee else []
        parts += [f"{self.subscribers} subscribers"] if self.subscribers > 1 else []
        parts += ["read in batches"] if self.in_batches else []
        return ", ".join(parts)


class Sample(Struct, frozen=True):
    """What one measurement gave. `delivered_per_s` counts every subscriber's messages."""

    delivered_per_s: float
    p50_us: float = 0.0
    p99_us: float = 0.0


def _size(size_bytes: int) -> str:
    return f"{size_bytes // 1024} KiB" if size_bytes >= 1024 else f"{size_bytes} B"


def chain(length: int) -> Cluster:
    """Brokers in a row, on free ports; publishers go to the first and subscribers to the last."""
    brokers = tuple(
        Broker(f"b{index}", f"b{index - 1}" if index else None, LOOPBACK, port, health_port)
        for index, (port, health_port) in enumerate(free_port_pairs(length))
    )
    return Cluster("holdfast", "ginger", brokers)


async def measure(cell: Cell, seconds: float, directory: Path) -> Sample:
    """Carry one measurement out; everything that it started has ended when this returns."""
    async with AsyncExitStack() as stack:
        first, last = await _begin(cell, stack, directory)
        common: dict[str, Any] = {"size_bytes": cell.size_bytes, "seconds": seconds, "paced": cell.paced}
        if cell.system == "holdfast":
            distinct_keys = cell.guarantee == "total"
            common |= {"guarantee": cell.guarantee, "distinct_keys": distinct_keys, "in_batches": cell.in_batches}
        module = {"floor": FLOOR_MODULE, "holdfast": OURS_MODULE, "nats": NATS_MODULE}[cell.system]
        log = directory / "logs" / "workers.log"
        subscribers = []
        for number in range(cell.subscribers):
            settings = {"role": "subscriber", **last, **common}
            worker = await stack.enter_async_context(Worker(f"subscriber {number}", module, settings, log))
            await worker.report("ready", READY_S)
            subscribers.append(worker)
        publisher = Worker("publisher", module, {"role": "publisher", **first, **common}, log)
        await stack.enter_async_context(publisher)
        await publisher.report("ready", READY_S)
        return await _played(cell, publisher, subscribers, seconds)


async def _begin(cell: Cell, stack: AsyncExitStack, directory: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Start what is in the middle; where publishers and subscribers connect to."""
    if cell.system == "holdfast":
        cluster = chain(cell.hops)
        processes = Processes(cluster, directory, attached=True)
        stack.push_async_callback(processes.stop)
        await processes.start_brokers()
        return {"address": cluster.brokers[0].address}, {"address": cluster.brokers[-1].address}
    if cell.system == "nats":
        binary = nats_core.find_server()
        if binary is None:
            raise WorkerError("nats-server or nats-py is not installed.")
        server = await stack.enter_async_context(nats_core.NatsServer(binary, directory))
        return {"url": server.url}, {"url": server.url}
    ports: list[int] = []
    for number in range(cell.hops):
        onward = {"role": "relay", "port": ports[-1] if ports else 0}
        relay = Worker(f"relay {number}", FLOOR_MODULE, onward, directory / "logs" / "relays.log")
        await stack.enter_async_context(relay)
        ports.append((await relay.report("ready", READY_S))["port"])
    return {"port": ports[-1]}, {"port": ports[0]}


async def _played(cell: Cell, publisher: Worker, subscribers: Sequence[Worker], seconds: float) -> Sample:
    limit_s = SLACK_S + 20 * seconds
    publisher.tell("go")
    published = msgspec.convert((await publisher.report("done", limit_s))["published"], PublishedSample)
    received: list[ReceivedSample] = []
    for subscriber in subscribers:
        subscriber.tell(str(published.count))
    for subscriber in subscribers:
        done = await subscriber.report("done", limit_s)
        received.append(msgspec.convert(done["received"], ReceivedSample))
    publisher.tell("stop")
    for one in received:
        if one.count != published.count:
            raise WorkerError(f"{cell.title}: {published.count} were published, {one.count} came.")
    elapsed_s = (max(one.ended_ns for one in received) - published.started_ns) / 1e9
    latencies_us = [value for one in received for value in warmed_up(one.latencies_us)]
    return Sample(
        sum(one.count for one in received) / elapsed_s,
        percentile(latencies_us, 0.5) if latencies_us else 0.0,
        percentile(latencies_us, 0.99) if latencies_us else 0.0,
    )
