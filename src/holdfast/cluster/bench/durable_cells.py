"""One measurement of what is kept: by repositories of ours, by a peer, or by a bare loop.

A rate counts from the start of the publisher until the last message is known to be kept, and, where there is a
subscriber, until that has it.
"""

import asyncio
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from holdfast.cluster.bench import jetstream, nats_core, redis_streams
from holdfast.cluster.bench.bare import bare_in_kind
from holdfast.cluster.bench.cells import READY_S, SLACK_S
from holdfast.cluster.bench.durable import STREAM
from holdfast.cluster.bench.samples import PublishedSample, ReceivedSample, clock_ns
from holdfast.cluster.config import LOOPBACK, Broker, Cluster
from holdfast.cluster.ports import free_port_pairs
from holdfast.cluster.processes import Processes
from holdfast.cluster.reliable_config import RepositoryEntry
from holdfast.cluster.status import health_of
from holdfast.cluster.workers import Worker, WorkerError
from holdfast.model.batches import BATCH_BYTES_MAX
from holdfast.model.reliable import Level

DURABLE_MODULE = "holdfast.cluster.bench.durable"
OURS_MODULE = "holdfast.cluster.bench.ours"
REDIS_MODULE = "holdfast.cluster.bench.redis_streams"
JETSTREAM_MODULE = "holdfast.cluster.bench.jetstream"
REPLICAS = 3
ROLES = ("publisher", "subscriber")

Kept = Literal["memory", "written", "fsynced", "held"]


class DurableCell(Struct, frozen=True):
    """What keeps the messages, and what its acknowledgement stands for; `held` needs no store: two brokers have it."""

    system: Literal["holdfast", "redis", "jetstream"]
    kept: Kept = "fsynced"
    size_bytes: int = 1024
    store: str = ""
    delivered: bool = False
    """Whether a subscriber gets everything, too, and its rate counts."""

    @property
    def title(self) -> str:
        where = f" in {self.store}" if self.store else " by three servers" if self.kept == "held" else ""
        to = ", delivered" if self.delivered else ""
        return f"{self.system}, {self.kept}{where}, {self.size_bytes // 1024} KiB{to}"


class DurableSample(Struct, frozen=True):
    """What one measurement gave; `bare_per_s` is the rate of the bare loop beside it, with commits of that size."""

    per_s: float
    commit_messages: float = 0.0
    bare_per_s: float = 0.0

    @property
    def of_bare(self) -> float | None:
        return self.per_s / self.bare_per_s if self.bare_per_s else None


def missing_peer(cell: DurableCell) -> str:
    """What is not installed that the cell needs; empty if nothing is."""
    if cell.system == "redis" and redis_streams.find_server() is None:
        return "redis-server (Debian's package of that name) or redis-py (make setup-bench)"
    if cell.system == "jetstream" and nats_core.find_server() is None:
        return "nats-server and nats-py (make setup-bench)"
    return ""


async def measure(cell: DurableCell, seconds: float, directory: Path) -> DurableSample:
    """Carry one measurement out; everything that it started has ended when this returns."""
    async with AsyncExitStack() as stack:
        repository, module, ends = await _begin(cell, stack, directory)
        common = {"size_bytes": cell.size_bytes, "seconds": seconds}
        log = directory / "logs" / "workers.log"
        group = []
        # JetStream's subscriber makes the stream.
        for role in ("subscriber", "publisher") if cell.delivered else ("publisher",):
            worker = Worker(role, module, {"role": role, **ends[role], **common}, log)
            await stack.enter_async_context(worker)
            await worker.report("ready", READY_S + jetstream.FORM_S)
            group.append(worker)
        per_s, count = await _played(group, seconds)
        commits = await _commits(repository)
    if not commits:
        return DurableSample(per_s)
    mean_messages = max(1, round(count / commits))
    bare_per_s = await asyncio.to_thread(_bare_per_s, cell, mean_messages, seconds, directory)
    return DurableSample(per_s, mean_messages, bare_per_s)


async def _played(group: Sequence[Worker], seconds: float) -> tuple[float, int]:
    limit_s = SLACK_S + 20 * seconds
    publisher = group[-1]
    publisher.tell("go")
    done = await publisher.report("done", limit_s)
    published = msgspec.convert(done["published"], PublishedSample)
    ended_ns = int(done["ended_ns"])
    for one in group[:-1]:
        one.tell(str(published.count))
        received = msgspec.convert((await one.report("done", limit_s))["received"], ReceivedSample)
        if received.count != published.count:
            raise WorkerError(f"{published.count} were published, {received.count} came.")
        ended_ns = max(ended_ns, received.ended_ns)
    publisher.tell("stop")
    return published.count / ((ended_ns - published.started_ns) / 1e9), published.count


async def _begin(
    cell: DurableCell, stack: AsyncExitStack, directory: Path
) -> tuple[RepositoryEntry | None, str, dict[str, dict[str, Any]]]:
    """Start what is in the middle: the repository, the module of the workers, and where they connect to."""
    if cell.system == "redis":
        redis = redis_streams.find_server()
        if redis is None:
            raise WorkerError(f"{missing_peer(cell)} is not installed.")
        server = await stack.enter_async_context(redis_streams.RedisServer(redis, directory))
        return None, REDIS_MODULE, {role: {"port": server.port} for role in ROLES}
    if cell.system == "jetstream":
        binary = nats_core.find_server()
        if binary is None:
            raise WorkerError(f"{missing_peer(cell)} is not installed.")
        count = REPLICAS if cell.kept == "held" else 1
        servers = await stack.enter_async_context(jetstream.Servers(binary, directory, count))
        told = {"urls": servers.urls, "replicas": count}
        return None, JETSTREAM_MODULE, dict.fromkeys(ROLES, told)
    cluster = cluster_of(cell)
    processes = Processes(cluster, directory, attached=True)
    stack.push_async_callback(processes.stop)
    await processes.start_brokers()
    await processes.start_repositories()
    first, last = cluster.brokers[0].address, cluster.brokers[-1].address
    if cell.kept == "held":
        return None, OURS_MODULE, {"publisher": {"address": first, "held": True}, "subscriber": {"address": last}}
    return cluster.repositories[0], DURABLE_MODULE, {"publisher": {"address": first}, "subscriber": {"address": last}}


def cluster_of(cell: DurableCell) -> Cluster:
    """One broker and one repository; or, where messages are to be held, three brokers of which one may be lost."""
    if cell.kept == "held":
        brokers = tuple(
            Broker(f"b{at}", f"b{at - 1}" if at else None, LOOPBACK, port, health)
            for at, (port, health) in enumerate(free_port_pairs(REPLICAS))
        )
        return Cluster("holdfast", "ginger", brokers, tolerance=1)
    (port, health), (_, own_health) = free_port_pairs(2)
    # Every measurement begins with an empty store.
    store = f"{cell.store}:{cell.store}-{clock_ns()}"
    repository = RepositoryEntry("r0", "b0", (STREAM,), own_health, store, Level(cell.kept))
    return Cluster("holdfast", "ginger", (Broker("b0", None, LOOPBACK, port, health),), repositories=(repository,))


async def _commits(repository: RepositoryEntry | None) -> int:
    if repository is None:
        return 0
    return int((await health_of(LOOPBACK, repository.health_port)).get("commits", 0))


def _bare_per_s(cell: DurableCell, commit_messages: int, seconds: float, directory: Path) -> float:
    """Messages a second that a bare loop writes, in commits of as many as the repository's had on average."""
    a_batch = max(1, BATCH_BYTES_MAX // cell.size_bytes)
    whole, rest = divmod(commit_messages, a_batch)
    batches = [os.urandom(cell.size_bytes * count) for count in [a_batch] * whole + [rest] * bool(rest)]
    count = 0
    with bare_in_kind(cell.store, directory, Level(cell.kept)) as write:
        begin_ns = clock_ns()
        until_ns = begin_ns + int(seconds * 1e9)
        while clock_ns() < until_ns:
            write(batches)
            count += commit_messages
        return count / ((clock_ns() - begin_ns) / 1e9)
