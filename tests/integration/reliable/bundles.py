"""Bundles of repository processes behind real brokers, for tests that kill, harm and slow them down."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

import holdfast
from holdfast.client.opening import Opening
from holdfast.cluster.config import LOOPBACK, Broker, Cluster, checked
from holdfast.cluster.ports import free_port_pairs
from holdfast.cluster.processes import Processes
from holdfast.cluster.reliable_config import RepositoryEntry
from holdfast.cluster.status import health_of
from holdfast.model.reliable import Level
from holdfast.runtime.broker import BrokerProcess
from holdfast.services.repository import RepositoryService
from holdfast.services.repository_settings import RepositorySettings
from holdfast.storage.stores import open_store
from tests.integration.support_brokers import address_of

STREAM, TOPIC = "bank/#", "bank/orders"
PATIENCE_S = 60.0


@asynccontextmanager
async def bundle_of_processes(directory: Path, stores: dict[str, str], **settings: Any) -> AsyncIterator[Processes]:
    """A root with two brokers below it, and a repository at each of those; gone at the end."""
    ports = free_port_pairs(5)
    brokers = tuple(
        Broker(name, parent, LOOPBACK, *ports[index])
        for index, (name, parent) in enumerate({"0": None, "1": "0", "2": "0"}.items())
    )
    repositories = tuple(
        replace(RepositoryEntry(name, home, (STREAM,), ports[3 + index][1], store, Level.FSYNCED), **settings)
        for index, (home, (name, store)) in enumerate(zip(("1", "2"), stores.items(), strict=False))
    )
    cluster = checked(Cluster("kept", "ginger", brokers, (), 1, repositories=repositories), "the test")
    processes = Processes(cluster, directory, attached=True)
    await processes.start_brokers()
    try:
        await processes.start_repositories()
        yield processes
    finally:
        await processes.stop()


@asynccontextmanager
async def repository_here(
    broker: BrokerProcess,
    name: str = "r1",
    store: str = "memory:",
    streams: tuple[str, ...] = (STREAM,),
    **settings: Any,
) -> AsyncIterator[RepositoryService]:
    """A repository on this event loop."""
    told = RepositorySettings(name=name, addresses=(address_of(broker),), store=store, streams=streams, **settings)
    service = await RepositoryService(told).open()
    serving = asyncio.ensure_future(service.serve())
    try:
        yield service
    finally:
        service.stop()
        await serving
        await service.close()


def connected(processes: Processes, name: str) -> Opening[holdfast.Client]:
    addresses = [broker.address for broker in processes.cluster.brokers]
    return holdfast.connect(addresses, name=name, cluster="kept")


async def publish(client: holdfast.Client, first: int, last: int, size_bytes: int = 0) -> None:
    """Publish those numbers one after the other, a few under way at a time, and return when all are stored."""
    receipts = []
    for number in range(first, last + 1):
        receipts.append(await client.publish(TOPIC, payload_of(client.name, number, size_bytes), durable=True))
        if number % 20 == 0:
            await receipts[-1].stored()
    await receipts[-1].stored()


def payload_of(publisher: str, number: int, size_bytes: int = 0) -> bytes:
    return (b"%s %d" % (publisher.encode(), number)).ljust(size_bytes, b".")


async def read(subscription: holdfast.Subscription, count: int) -> list[bytes]:
    return [(await subscription.get(PATIENCE_S)).payload for _ in range(count)]


async def until_it_says(processes: Processes, name: str, what: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Return what that repository says of itself when it says so."""
    port = processes.cluster.repository(name).health_port
    while True:
        said = await health_of(LOOPBACK, port)
        if said and what(said):
            return said
        await asyncio.sleep(0.05)


async def until_it_has(processes: Processes, name: str, count: int) -> None:
    """Return when that repository has so many messages: one acknowledges them, the others come after."""

    def has(said: dict[str, Any]) -> bool:
        return said["streams"][STREAM]["end"] >= count and not said["streams"][STREAM]["places"]

    await until_it_says(processes, name, has)


def payloads_in(url: str) -> list[bytes]:
    """Everything in a store, which must be sound."""
    with open_store(url) as store:
        assert store.verify() == []
        entries = store.read(STREAM, 1, store.bounds(STREAM)[1], 1 << 30)
        return [payload for entry in entries for payload in entry.batch.payload_list()]
