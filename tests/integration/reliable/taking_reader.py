"""A durable subscriber as a process of its own: it takes so many messages, says so, and then does nothing any more.

It reads with `async for` and stays idle afterwards (`idle`), computes between two messages without letting the event
loop run (`busy`), or reads without asyncio (`sync`).
"""

import asyncio
import sys
import time

import holdfast

LONG_S = 3600.0


def say(number: int, payload: bytes) -> None:
    sys.stdout.write(f"{number} {payload.decode()}\n")
    sys.stdout.flush()


async def read(address: str, name: str, count: int, busy_s: float) -> None:
    async with holdfast.connect(address, cluster="kept") as client:
        taken = 0
        async for message in await client.subscribe("bank/#", durable=name):
            taken += 1
            time.sleep(busy_s)  # noqa: ASYNC251 - that is what a handler does which computes
            say(taken, message.payload)
            if taken == count and busy_s:
                time.sleep(LONG_S)  # noqa: ASYNC251
            elif taken == count:
                await asyncio.sleep(LONG_S)


def read_sync(address: str, name: str, count: int) -> None:
    with holdfast.connect_sync(address, cluster="kept") as client:
        orders = client.subscribe("bank/#", durable=name)
        for number in range(1, count + 1):
            say(number, orders.get(60).payload)
        time.sleep(LONG_S)


if __name__ == "__main__":
    where, subscription, how_many, how = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    if how == "sync":
        read_sync(where, subscription, how_many)
    else:
        holdfast.run(read(where, subscription, how_many, 0.15 if how == "busy" else 0.0))
