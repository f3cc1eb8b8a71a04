"""Holdfast as an application uses it: `publish` for every message, `async for` over what comes.

Run as a worker: a publisher or a subscriber.
"""

import asyncio
from typing import Literal

from msgspec import Struct

from holdfast.client import Client, Receipt, Subscription, connect
from holdfast.cluster.bench.samples import PublishedSample, SamplePace, SampleTally, clock_ns, stamped
from holdfast.cluster.workers import Orders, play, say
from holdfast.model.guarantees import GuaranteeName

TOPIC = "bench/orders"
CHUNK = 100
"""How many messages a publisher at full speed makes between two looks at the clock, after its first one."""
KEYS = tuple((str(number),) for number in range(100 * CHUNK))
"""A key for each message, no two of which are under way at a time; made before anything is measured."""


class OursSettings(Struct, frozen=True):
    role: Literal["publisher", "subscriber"]
    address: str
    guarantee: GuaranteeName = "causal"
    distinct_keys: bool = False
    """Every message has a key of its own, among the last ten thousand."""
    size_bytes: int = 32
    seconds: float = 1.0
    count: int = 0
    """Publish so many instead of for so long; 0: for so long."""
    paced: bool = False
    held: bool = False
    """Wait until as many brokers have the last message as the cluster asks for, instead of the first broker alone."""
    in_batches: bool = False
    """Read lists of messages instead of one after the other."""


async def publisher(settings: OursSettings, orders: Orders) -> None:
    # No name that anybody could have had before: its numbers begin with 1, whatever the protocol.
    async with connect(settings.address) as client:
        say("ready")
        await orders.wait_for("go")
        started_ns = clock_ns()
        receipt = await (_publish_paced if settings.paced else _publish_fast)(client, settings, started_ns)
        await (receipt.held() if settings.held else receipt.accepted())
        say("done", published=PublishedSample(receipt.seq, started_ns), ended_ns=clock_ns())
        await orders.wait_for("stop")


async def _publish_fast(client: Client, settings: OursSettings, started_ns: int) -> Receipt:
    payload, guarantee, publish = bytes(settings.size_bytes), settings.guarantee, client.publish
    until_ns = started_ns + int(settings.seconds * 1e9)
    receipt = await publish(TOPIC, payload, guarantee, _keys(settings, 0))
    while receipt.seq < settings.count if settings.count else clock_ns() < until_ns:
        if settings.distinct_keys:
            begin = (receipt.seq - 1) % len(KEYS)
            for keys in KEYS[begin : begin + CHUNK]:
                receipt = await publish(TOPIC, payload, guarantee, keys)
        else:
            for _ in range(CHUNK):
                receipt = await publish(TOPIC, payload, guarantee)
    return receipt


async def _publish_paced(client: Client, settings: OursSettings, started_ns: int) -> Receipt:
    pace, size, guarantee = SamplePace(), settings.size_bytes, settings.guarantee
    until_ns = started_ns + int(settings.seconds * 1e9)
    receipt = await client.publish(TOPIC, stamped(size), guarantee, _keys(settings, 0))
    while clock_ns() < until_ns:
        for _ in range(await pace.due()):
            receipt = await client.publish(TOPIC, stamped(size), guarantee, _keys(settings, receipt.seq))
    return receipt


def _keys(settings: OursSettings, number: int) -> tuple[str, ...]:
    return KEYS[number % len(KEYS)] if settings.distinct_keys else ()


async def subscriber(settings: OursSettings, orders: Orders) -> None:
    async with connect(settings.address) as client:
        messages = await client.subscribe(TOPIC, slow="block")
        tally = SampleTally()
        follow = _follow_batches if settings.in_batches else _follow_stamped if settings.paced else _follow
        following = asyncio.ensure_future(follow(messages, tally))
        say("ready")
        say("done", received=await tally.wait_for(int(await orders.next())))
        following.cancel()


async def _follow(messages: Subscription, tally: SampleTally) -> None:
    take = tally.take
    async for message in messages:
        take(message.seq, message.payload)
        if message.seq % CHUNK == 1:
            # The last message has such a number: it is the first one, or the end of a chunk.
            tally.look()


async def _follow_stamped(messages: Subscription, tally: SampleTally) -> None:
    async for message in messages:
        tally.take_stamped(message.seq, message.payload)
        tally.look()


async def _follow_batches(messages: Subscription, tally: SampleTally) -> None:
    take = tally.take
    async for batch in messages.batches():
        for message in batch:
            take(message.seq, message.payload)
        tally.look()


if __name__ == "__main__":
    play(OursSettings, {"publisher": publisher, "subscriber": subscriber})
