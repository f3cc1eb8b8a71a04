"""The twenty clients of the measurements, as processes that do what they are told.

`publisher`: `NUMBER MODE BYTES COUNT INTERVAL_MS` publishes that phase, one stamped message after the other.
`subscribers` subscribe durably, and not, and note how long each message was under way: `NUMBER COUNT` waits for that
phase and tells.
"""

import asyncio
from struct import Struct as Layout
from typing import Literal

from msgspec import Struct

from holdfast.client import Client, connect
from holdfast.client.durable_publishers import DurableReceipt
from holdfast.client.subscriptions import Subscription
from holdfast.cluster.bench.samples import clock_ns
from holdfast.cluster.workers import Orders, say, settings_of_this_process, work

STREAM, PLAIN = "narada/reliable", "narada/best-effort"
STAMP = Layout(">QI")


class NaradaClientsSettings(Struct, frozen=True):
    role: Literal["publisher", "subscribers"]
    addresses: tuple[str, ...]
    """Where each of them is attached; the n-th is called `NAME-n`."""
    name: str = "c"


class Phases:
    """What came of each phase, in microseconds, and who waits for how much."""

    def __init__(self) -> None:
        self._latencies: dict[int, list[float]] = {}
        self._came = asyncio.Event()

    def take(self, payload: bytes) -> None:
        now_ns = clock_ns()
        began_ns, phase = STAMP.unpack_from(payload)
        self._latencies.setdefault(phase, []).append((now_ns - began_ns) / 1000)
        self._came.set()

    async def wait_for(self, phase: int, count: int) -> list[float]:
        while len(self._latencies.get(phase, ())) < count:
            self._came.clear()
            await self._came.wait()
        return self._latencies.pop(phase)


async def publish(client: Client, settings: list[str]) -> None:
    number, mode, size, count, interval_ms = settings
    receipt = None
    for _ in range(int(count)):
        payload = STAMP.pack(clock_ns(), int(number)) + bytes(int(size) - STAMP.size)
        if mode == "reliable":
            receipt = await client.publish(STREAM, payload, durable=STREAM)
        else:
            await client.publish(PLAIN, payload, "eventual")
        await asyncio.sleep(float(interval_ms) / 1000)
    if isinstance(receipt, DurableReceipt):
        await receipt.stored()
    say("published", number=int(number))


async def publisher(settings: NaradaClientsSettings, orders: Orders) -> None:
    async with connect(settings.addresses[0], name=f"{settings.name}-0") as client:
        say("ready")
        while (words := (await orders.next()).split())[0] != "stop":
            await publish(client, words)


async def subscribers(settings: NaradaClientsSettings, orders: Orders) -> None:
    phases, tasks = [Phases() for _ in settings.addresses], []
    clients = []
    for at, address in enumerate(settings.addresses):
        client = await connect(address, name=f"{settings.name}-{at}")
        clients.append(client)
        durable = await client.subscribe(STREAM, durable=client.name)
        plain = await client.subscribe(PLAIN, slow="block")
        tasks += [asyncio.ensure_future(follow(one, phases[at])) for one in (durable, plain)]
    say("ready")
    while (words := (await orders.next()).split())[0] != "stop":
        number, count = map(int, words)
        found = [await one.wait_for(number, count) for one in phases]
        say("received", latencies_us=found[0])
    for task in tasks:
        task.cancel()
    for client in clients:
        await client.close()


async def follow(messages: Subscription, phases: Phases) -> None:
    async for message in messages:
        phases.take(message.payload)


async def main() -> None:
    settings = settings_of_this_process(NaradaClientsSettings)
    orders = Orders()
    orders.listen()
    await (publisher if settings.role == "publisher" else subscribers)(settings, orders)


if __name__ == "__main__":
    work(main())
