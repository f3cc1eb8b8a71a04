"""Recoveries on real processes: of the only repository, of one that missed a thousand messages, and of clients."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from holdfast.client import Client, connect
from holdfast.client.durable_publishers import DurableReceipt
from holdfast.client.listening import Listener
from holdfast.client.subscriptions import Subscription
from holdfast.cluster.bench.samples import clock_ns
from holdfast.cluster.config import LOOPBACK
from holdfast.cluster.processes import Processes
from holdfast.cluster.status import health_of
from holdfast.cluster.workers import WorkerError
from holdfast.experiments.narada import CLIENTS, MISSED, PAPER_BYTES, NaradaSummary, NaradaTrial, summed_up
from holdfast.experiments.narada_clients import STREAM
from holdfast.experiments.narada_delivery import running
from holdfast.model.batches import Batch
from holdfast.protocols.narada.events import ControlEvent, Open, Opened, Recovery, Rectify, decode, encode
from holdfast.protocols.narada.topics import bundle_topic, inbox_topic

WINDOW = 50
"""So many messages are published before the last of them is waited for."""
FILL_WINDOW, FILL_BYTES = 5000, 100
SETTLE_S = 0.5
ANSWER_S = 10.0
ASKER, ASKED = "asker", 20
LIFE = 1


async def restarts(trial: NaradaTrial, directory: Path) -> dict[str, NaradaSummary]:
    """The only repository is killed and comes back to twenty clients and a thousand messages; how long until it serves.

    And before that: how long the answer to a publisher, and to a subscriber that missed the thousand, is under way.
    """
    async with running(trial, directory) as processes, AsyncExitStack() as stack:
        clients = await _clients(processes, stack)
        await _publish(clients, MISSED)
        asked = await _asked(processes.cluster.brokers[0].address, ASKED * trial.samples)
        spent = [await _killed(processes, "r0") for _ in range(trial.samples)]
    return {"restart": summed_up(spent), **asked}


async def recoveries(trial: NaradaTrial, directory: Path) -> dict[str, NaradaSummary]:
    """One repository of three is away while a thousand messages are published: how long until it has them."""
    spent: list[float] = []
    async with running(trial, directory) as processes, AsyncExitStack() as stack:
        await _fill(processes, trial.stored)
        clients = await _clients(processes, stack)
        await _publish(clients, WINDOW)
        for _ in range(trial.samples):
            await asyncio.sleep(SETTLE_S)
            processes.crash("r2")
            await _publish(clients, MISSED)
            await asyncio.sleep(SETTLE_S)
            spent.append(await _restarted(processes, "r2"))
    return {"recovery": summed_up(spent)}


# ------------------------------------------------------------------------------------------------------- repositories


async def _killed(processes: Processes, name: str) -> float:
    await asyncio.sleep(SETTLE_S)
    processes.crash(name)
    return await _restarted(processes, name)


async def _restarted(processes: Processes, name: str) -> float:
    """Start it again: microseconds from the opening of its store until it has what it missed, as it says itself."""
    processes.restart(name)
    await processes.wait_repository(name)
    one = processes.cluster.repository(name)
    while True:
        said = await health_of(LOOPBACK, one.health_port)
        stream: dict[str, Any] = said.get("streams", {}).get(STREAM, {})
        if stream.get("recovery_s") is not None:
            return 1e6 * float(said["opening_s"] + stream["recovery_s"])
        await asyncio.sleep(0.01)


# ------------------------------------------------------------------------------------------------------------ clients


async def _clients(processes: Processes, stack: AsyncExitStack) -> list[Client]:
    """Twenty clients; each has a durable subscription and reads it."""
    brokers = processes.cluster.brokers
    clients = []
    for at in range(CLIENTS):
        client = await stack.enter_async_context(connect(brokers[at % len(brokers)].address, name=f"c{at}"))
        subscription = await client.subscribe(STREAM, durable=client.name)
        reading = asyncio.ensure_future(_read(subscription))
        stack.callback(reading.cancel)
        clients.append(client)
    return clients


async def _read(subscription: Subscription) -> None:
    async for _ in subscription.batches():
        pass


async def _fill(processes: Processes, count: int) -> None:
    """Small messages, for nobody in particular: what is stored, and is not missed."""
    async with connect(processes.cluster.brokers[0].address, name="archivist") as client:
        for first in range(0, count, FILL_WINDOW):
            receipt = None
            for _ in range(min(FILL_WINDOW, count - first)):
                receipt = await client.publish(STREAM, bytes(FILL_BYTES), durable=STREAM)
            if isinstance(receipt, DurableReceipt):
                await receipt.stored()


async def _publish(clients: list[Client], count: int) -> None:
    """The clients publish in turn, and wait until everything is stored."""
    receipts: list[DurableReceipt] = []
    for number in range(count):
        receipt = await clients[number % len(clients)].publish(STREAM, bytes(PAPER_BYTES), durable=STREAM)
        if isinstance(receipt, DurableReceipt):
            receipts.append(receipt)
        if len(receipts) == WINDOW or number == count - 1:
            for one in receipts:
                await one.stored()
            receipts.clear()


# ------------------------------------------------------------------------------------------------------------ answers


async def _asked(address: str, samples: int) -> dict[str, NaradaSummary]:
    """How long the repository's answers to a publisher and to a subscriber take, over the broker and back."""
    async with connect(address, name=ASKER) as client:
        answers: asyncio.Queue[ControlEvent | None] = asyncio.Queue()

        def hear(batch: Batch) -> None:
            for payload in batch.payload_list():
                answers.put_nowait(decode(payload))

        await client.subscribe_as(Listener(client, inbox_topic(STREAM, ASKER), hear))
        opening = Open(STREAM, ASKER, LIFE, "r0")
        returning = Recovery(STREAM, ASKER, "r0", STREAM, "start", 0, 0)
        publisher = [await _answer(client, answers, opening, Opened) for _ in range(samples)]
        subscriber = [await _answer(client, answers, returning, Rectify) for _ in range(samples)]
        return {"publisher answer": summed_up(publisher), "subscriber answer": summed_up(subscriber)}


async def _answer(
    client: Client, answers: "asyncio.Queue[ControlEvent | None]", question: Open | Recovery, kind: type[ControlEvent]
) -> float:
    began_ns = clock_ns()
    client.publish_nowait(bundle_topic(STREAM), encode(question), 0)
    try:
        async with asyncio.timeout(ANSWER_S):
            while not isinstance(await answers.get(), kind):
                pass
    except TimeoutError:
        raise WorkerError(f"the repository did not answer {type(question).__name__} within {ANSWER_S:g} s.") from None
    return (clock_ns() - began_ns) / 1000
