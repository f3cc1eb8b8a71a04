"""End-to-end delivery in the paper's topologies: best effort and reliable, in turn, over the same processes."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from holdfast.cluster.config import LOOPBACK, Broker, Cluster
from holdfast.cluster.ports import free_port_pairs
from holdfast.cluster.processes import Processes
from holdfast.cluster.reliable_config import RepositoryEntry
from holdfast.cluster.workers import Worker
from holdfast.experiments.narada import CLIENTS, NaradaSummary, NaradaTrial, summed_up
from holdfast.experiments.narada_clients import STREAM

MODULE = "holdfast.experiments.narada_clients"
READY_S = 60.0
PHASE_S = 120.0
WARM_UP = 20
SHAPES = {"A": (1, 1), "B": (3, 1), "C": (3, 3)}
"""Brokers and repositories of each topology (figure 2)."""


def cluster_of(trial: NaradaTrial) -> Cluster:
    """The topology on free ports: a root with two brokers below it, repositories from the root on."""
    many, kept = SHAPES[trial.topology]
    pairs = free_port_pairs(many + kept)
    brokers = tuple(
        Broker(f"b{at}", "b0" if at else None, LOOPBACK, port, health) for at, (port, health) in enumerate(pairs[:many])
    )
    repositories = tuple(
        RepositoryEntry(f"r{at}", f"b{at}", (STREAM,), health, _store(trial.store, at), trial.level)
        for at, (_, health) in enumerate(pairs[many:])
    )
    return Cluster("holdfast", "ginger", brokers, repositories=repositories)


def _store(kind: str, at: int) -> str:
    return f"{kind}:r{at}.db" if kind == "sqlite" else f"{kind}:r{at}"


@asynccontextmanager
async def running(trial: NaradaTrial, directory: Path) -> AsyncIterator[Processes]:
    """The brokers and repositories of a topology, for as long as the block lasts."""
    processes = Processes(cluster_of(trial), directory, attached=True)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(processes.stop)
        await processes.start_brokers()
        await processes.start_repositories()
        yield processes


async def clients_of(
    cluster: Cluster, stack: AsyncExitStack, directory: Path, count: int = CLIENTS
) -> tuple[Worker, Worker, Worker]:
    """The publisher, the subscriber that measures, and the others, who take turns at the brokers.

    The publisher and the one that measures are at different brokers where there are several.
    """
    addresses = [broker.address for broker in cluster.brokers]
    others = [addresses[at % len(addresses)] for at in range(count - 2)]
    roles = (
        ("publisher", "p", [addresses[1 % len(addresses)]]),
        ("subscribers", "m", [addresses[-1]]),
        ("subscribers", "o", others),
    )
    found = []
    for role, name, at in roles:
        settings = {"role": role, "name": name, "addresses": at}
        worker = Worker(f"{role} {name}", MODULE, settings, directory / "logs" / "clients.log")
        await stack.enter_async_context(worker)
        await worker.report("ready", READY_S)
        found.append(worker)
    return found[0], found[1], found[2]


async def deliveries(trial: NaradaTrial, directory: Path) -> dict[str, NaradaSummary]:
    """Latencies by mode and size: from the publication to the hands of the application."""
    figures: dict[str, NaradaSummary] = {}
    async with running(trial, directory) as processes, AsyncExitStack() as stack:
        workers = await clients_of(processes.cluster, stack, directory, trial.clients)
        number = 0
        for size in trial.sizes:
            for mode in ("best-effort", "reliable"):
                number += 1
                found = await processes.while_alive(_phase(trial, workers, number, mode, size))
                figures[f"{mode} {size}"] = summed_up(found[WARM_UP:])
    return figures


async def _phase(trial: NaradaTrial, workers: tuple[Worker, ...], number: int, mode: str, size: int) -> list[float]:
    publisher, measuring, others = workers
    count = trial.samples + WARM_UP
    publisher.tell(f"{number} {mode} {size} {count} {trial.interval_ms}")
    await publisher.report("published", PHASE_S)
    for one in (measuring, others):
        one.tell(f"{number} {count}")
    found: list[float] = (await measuring.report("received", PHASE_S))["latencies_us"]
    await others.report("received", PHASE_S)
    return found
