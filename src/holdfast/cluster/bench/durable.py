"""Reliable topics as an application uses them: `publish(durable=...)` for every message, `async for` over what comes.

Run as a worker: a publisher, who waits until the last message is stored, or a durable subscriber.
"""

import asyncio
from secrets import token_hex
from typing import Literal

from msgspec import Struct

from holdfast.client import connect
from holdfast.cluster.bench.samples import PublishedSample, SampleTally, clock_ns
from holdfast.cluster.workers import Orders, play, say

STREAM = "bench/orders"
CHUNK = 100


class DurableSettings(Struct, frozen=True):
    role: Literal["publisher", "subscriber"]
    address: str
    size_bytes: int = 1024
    seconds: float = 1.0


async def publisher(settings: DurableSettings, orders: Orders) -> None:
    async with connect(settings.address, name=f"p{token_hex(4)}") as client:
        # The first one finds a repository and is let in; that is not what is measured.
        first = await client.publish(STREAM, bytes(settings.size_bytes), durable=STREAM)
        await first.stored()
        say("ready")
        await orders.wait_for("go")
        payload, publish = bytes(settings.size_bytes), client.publish
        started_ns = clock_ns()
        until_ns, count = started_ns + int(settings.seconds * 1e9), 1
        receipt = first
        while clock_ns() < until_ns:
            for _ in range(CHUNK):
                receipt = await publish(STREAM, payload, durable=STREAM)
            count += CHUNK
        await receipt.stored()
        say("done", published=PublishedSample(count, started_ns), ended_ns=clock_ns(), storage=receipt.storage)
        await orders.wait_for("stop")


async def subscriber(settings: DurableSettings, orders: Orders) -> None:
    async with connect(settings.address, name=f"s{token_hex(4)}") as client:
        messages = await client.subscribe(STREAM, durable="bench")
        tally = SampleTally()

        async def follow() -> None:
            async for batch in messages.batches():
                tally.count += len(batch)
                tally.look()

        following = asyncio.ensure_future(follow())
        say("ready")
        say("done", received=await tally.wait_for(int(await orders.next())))
        following.cancel()


if __name__ == "__main__":
    play(DurableSettings, {"publisher": publisher, "subscriber": subscriber})
