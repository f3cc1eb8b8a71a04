"""Repositories as processes, killed under load: what was acknowledged is there, and every reader gets it once."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import holdfast
from holdfast.cluster.config import LOOPBACK, Broker, Cluster, Repository, checked
from holdfast.cluster.ports import free_port_pairs
from holdfast.cluster.processes import Processes
from holdfast.cluster.status import health_of
from holdfast.model.reliable import Level
from holdfast.storage.stores import open_store
from tests.support.postgres import NoServer, PostgresServer, running_server

STREAM, TOPIC = "bank/#", "bank/orders"
PER_STAGE = 300
PUBLISHERS = ("alice", "bob")
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    try:
        with running_server() as server:
            yield server
    except NoServer as error:
        pytest.skip(str(error))


@pytest.fixture(params=["sqlite", "segments", "postgres"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """A store for each repository, by its name."""
    if request.param != "postgres":
        return {name: f"{request.param}:{tmp_path / name}" for name in ("r1", "r2")}
    server: PostgresServer = request.getfixturevalue("postgres")
    return {name: f"{server.url}#{name}" for name in ("r1", "r2")}


@asynccontextmanager
async def bundle_of_processes(directory: Path, stores: dict[str, str]) -> AsyncIterator[Processes]:
    """A root with two brokers below it, and a repository at each of those; gone at the end."""
    ports = free_port_pairs(5)
    brokers = tuple(
        Broker(name, parent, LOOPBACK, *ports[index])
        for index, (name, parent) in enumerate({"0": None, "1": "0", "2": "0"}.items())
    )
    repositories = tuple(
        Repository(name, home, (STREAM,), ports[3 + index][1], store, Level.FSYNCED)
        for index, (home, (name, store)) in enumerate(zip(("1", "2"), stores.items(), strict=True))
    )
    cluster = checked(Cluster("kept", "ginger", brokers, (), 1, repositories=repositories), "the test")
    processes = Processes(cluster, directory, attached=True)
    await processes.start_brokers()
    try:
        await processes.start_repositories()
        yield processes
    finally:
        await processes.stop()


async def publish(client: holdfast.Client, first: int, last: int) -> None:
    """Publish those numbers one after the other, a few under way at a time, and return when all are stored."""
    receipts = []
    for number in range(first, last + 1):
        receipts.append(await client.publish(TOPIC, b"%s %d" % (client.name.encode(), number), durable=True))
        if number % 20 == 0:
            await receipts[-1].stored()
    await receipts[-1].stored()


async def read(subscription: holdfast.Subscription, count: int) -> list[bytes]:
    return [(await subscription.get(PATIENCE_S)).payload for _ in range(count)]


async def until_it_has(processes: Processes, name: str, count: int) -> None:
    """Return when that repository has so many messages: one acknowledges them, the others come after."""
    port = processes.cluster.repository(name).health_port
    while True:
        said = (await health_of(LOOPBACK, port))["streams"][STREAM]
        if said["end"] >= count and not said["places"]:
            return
        await asyncio.sleep(0.05)


def check_each_once_and_in_order(payloads: list[bytes], last: int) -> None:
    for publisher in PUBLISHERS:
        mine = [payload for payload in payloads if payload.startswith(publisher.encode())]
        assert mine == [b"%s %d" % (publisher.encode(), number) for number in range(1, last + 1)]


def payloads_in(url: str) -> list[bytes]:
    with open_store(url) as store:
        assert store.verify() == []
        entries = store.read(STREAM, 1, store.bounds(STREAM)[1], 1 << 30)
        return [payload for entry in entries for payload in entry.batch.payload_list()]


def test_repositories_and_a_broker_are_killed_under_load_and_nothing_acknowledged_is_lost(
    tmp_path: Path, stores: dict[str, str]
):
    async def story() -> None:
        async with bundle_of_processes(tmp_path, stores) as processes:
            addresses = [broker.address for broker in processes.cluster.brokers]
            everywhere = [holdfast.connect(addresses, name=name, cluster="kept") for name in (*PUBLISHERS, "reader")]
            alice, bob, reader = [await opening for opening in everywhere]
            orders = await reader.subscribe(STREAM, durable="reader")

            async def stage(number: int) -> None:
                first = number * PER_STAGE + 1
                await asyncio.gather(*(publish(one, first, first + PER_STAGE - 1) for one in (alice, bob)))

            async def fault(*names: str) -> None:
                for name in names:
                    processes.crash(name)
                    await asyncio.sleep(0.05)

            async with asyncio.timeout(3 * PATIENCE_S):
                # While the first stage is published the one repository dies, then the broker of the other.
                await asyncio.gather(stage(0), fault("r1"))
                processes.restart("r1")
                await processes.wait_ready("r1")
                await asyncio.gather(stage(1), fault("2", "r2"))
                processes.restart("2")
                await processes.wait_ready("2")
                processes.restart("r2")
                await processes.wait_ready("r2")
                await stage(2)
                check_each_once_and_in_order(await read(orders, 2 * 3 * PER_STAGE), 3 * PER_STAGE)
                for client in (alice, bob, reader):
                    await client.close()
                for name in stores:
                    await until_it_has(processes, name, 2 * 3 * PER_STAGE)

    holdfast.run(story())
    for url in stores.values():
        payloads = payloads_in(url)
        assert len(payloads) == 2 * 3 * PER_STAGE
        check_each_once_and_in_order(payloads, 3 * PER_STAGE)
