"""Repositories as processes, killed under load: what was acknowledged is there, and every reader gets it once."""

import asyncio
from pathlib import Path

import pytest

import holdfast
from tests.integration.reliable.bundles import (
    PATIENCE_S,
    STREAM,
    bundle_of_processes,
    connected,
    payload_of,
    payloads_in,
    publish,
    read,
    until_it_has,
)
from tests.support.postgres import PostgresServer

PER_STAGE = 300
PUBLISHERS = ("alice", "bob")


@pytest.fixture(params=["sqlite", "segments", "postgres"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """A store for each repository, by its name."""
    if request.param != "postgres":
        return {name: f"{request.param}:{tmp_path / name}" for name in ("r1", "r2")}
    server: PostgresServer = request.getfixturevalue("postgres")
    return {name: f"{server.url}#{name}" for name in ("r1", "r2")}


def check_each_once_and_in_order(payloads: list[bytes], last: int) -> None:
    for publisher in PUBLISHERS:
        mine = [payload for payload in payloads if payload.startswith(publisher.encode())]
        assert mine == [payload_of(publisher, number) for number in range(1, last + 1)]


def test_repositories_and_a_broker_are_killed_under_load_and_nothing_acknowledged_is_lost(
    tmp_path: Path, stores: dict[str, str]
):
    async def story() -> None:
        async with bundle_of_processes(tmp_path, stores) as processes:
            alice, bob, reader = [await connected(processes, name) for name in (*PUBLISHERS, "reader")]
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
