"""A reader as a process of its own that acknowledges every other message, says so, and does nothing any more."""

import asyncio
import sys

import holdfast


async def read(address: str, count: int) -> None:
    async with holdfast.connect(address, cluster="kept") as client:
        orders = await client.subscribe("bank/#", durable="billing", ack="manual")
        messages = [await orders.get(60) for _ in range(count)]
        await asyncio.gather(*(message.ack() for message in messages[::2]))
        sys.stdout.write("acknowledged\n")
        sys.stdout.flush()
        await asyncio.sleep(3600)


if __name__ == "__main__":
    holdfast.run(read(sys.argv[1], int(sys.argv[2])))
