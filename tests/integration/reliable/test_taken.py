"""What an application has taken of a durable subscription is acknowledged soon, however little that is."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.cluster.processes import Processes
from holdfast.services.repository import RepositoryService
from tests.integration.reliable.bundles import (
    PATIENCE_S,
    STREAM,
    bundle_of_processes,
    connected,
    payload_of,
    read,
    repository_here,
    until_it_says,
)
from tests.integration.support_brokers import address_of, broker_here, until

READER = Path(__file__).with_name("taking_reader.py")
TOGETHER = 256


async def publish_together(client: holdfast.Client, count: int = TOGETHER) -> None:
    """As many as that in one turn: they are stored, and read, as few batches."""
    receipts = [
        await client.publish("bank/orders", payload_of("alice", number), durable=True) for number in range(1, count + 1)
    ]
    await receipts[-1].stored()


def sync_of(repository: RepositoryService, name: str) -> int:
    known = repository.machine.streams[STREAM].dissemination.subscriptions.get(name)
    return known.sync if known is not None else 0


@pytest.mark.parametrize("count", [1, 200, TOGETHER])
def test_messages_taken_one_by_one_are_acknowledged_before_their_batch_ends(count: int):
    async def story() -> None:
        async with (
            broker_here() as broker,
            repository_here(broker) as kept,
            holdfast.connect(address_of(broker)) as client,
        ):
            await publish_together(client)
            billing = await client.subscribe("bank/#", durable="billing")
            assert await read(billing, count) == [payload_of("alice", number) for number in range(1, count + 1)]
            await until(lambda: sync_of(kept, "billing") == count, "what was taken is acknowledged")

    holdfast.run(story())


def test_two_tasks_that_share_a_subscription_take_its_messages_in_order_and_nothing_is_acknowledged_for_them():
    async def story() -> None:
        async with (
            broker_here() as broker,
            repository_here(broker) as kept,
            holdfast.connect(address_of(broker)) as client,
        ):
            billing = await client.subscribe("bank/#", durable="billing")
            taken: list[bytes] = []

            async def take_one() -> None:
                taken.append((await billing.get(PATIENCE_S)).payload)

            tasks = [asyncio.ensure_future(take_one()) for _ in range(4)]
            for first in (1, 101):
                receipts = [
                    await client.publish("bank/orders", b"%d" % number, durable=True)
                    for number in range(first, first + 100)
                ]
                await receipts[-1].stored()
            await asyncio.gather(*tasks)
            assert taken == [b"1", b"2", b"3", b"4"]
            await until(lambda: sync_of(kept, "billing") == 4, "what was taken is acknowledged")
            assert await read(billing, 196) == [b"%d" % number for number in range(5, 201)]

    holdfast.run(story())


@pytest.mark.parametrize("how", ["idle", "busy", "sync"])
def test_a_reader_that_is_killed_goes_on_behind_what_it_took(tmp_path: Path, how: str):
    count = 12 if how == "busy" else 200

    async def story() -> None:
        stores = {"r1": f"segments:{tmp_path / 'r1'}"}
        async with bundle_of_processes(tmp_path, stores) as processes, connected(processes, "alice") as alice:
            await publish_together(alice)
            reader = started(processes, count, how)
            try:
                await asyncio.to_thread(reader_takes, reader, count)
                # A busy one never lets its loop run again: all but the message in its hands is acknowledged.
                known = count - 1 if how == "busy" else count
                async with asyncio.timeout(20):
                    await until_it_says(processes, "r1", lambda said: known_to(said) >= known)
            finally:
                reader.kill()
                reader.communicate()
            again = await alice.subscribe("bank/#", durable="billing")
            assert await read(again, 1) == [payload_of("alice", known + 1)]

    holdfast.run(story())


def known_to(said: dict[str, Any]) -> int:
    """How far the repository knows the subscription to be."""
    return int(said["streams"][STREAM]["subscribers"].get("billing", {"sync": 0})["sync"])


def started(processes: Processes, count: int, how: str) -> "subprocess.Popen[bytes]":
    address = processes.cluster.broker("1").address
    command = [sys.executable, str(READER), address, "billing", str(count), how]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def reader_takes(reader: "subprocess.Popen[bytes]", count: int) -> None:
    """Return when the reader has taken so many."""
    assert reader.stdout is not None
    lines = [reader.stdout.readline().decode().strip() for _ in range(count)]
    assert lines == [f"{number} {payload_of('alice', number).decode()}" for number in range(1, count + 1)]
