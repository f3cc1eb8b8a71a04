"""A worker that acknowledges each order when it is done. Start `holdfast up kept.toml` first (docs/reliable.md).

It publishes three orders, takes them, fails the first time at the second, and is done with all of them in the end.
"""

import asyncio
import sys

import holdfast


class PrinterError(Exception):
    """What is needed to do the work is away for a moment."""


def bill(order: bytes, attempt: int) -> None:
    if order == b"two" and attempt == 1:
        raise PrinterError("the printer has no paper")


async def main(address: str) -> None:
    async with holdfast.connect(address) as client:
        for order in (b"one", b"two", b"three"):
            await (await client.publish("bank/orders", order, durable=True)).stored()
        async with client.subscribe("bank/#", durable="billing", ack="manual") as orders:
            done = 0
            async for message in orders:
                try:
                    bill(message.payload, message.delivery_count)
                except PrinterError as reason:
                    print(f"{message.payload.decode()}: {reason}")
                    message.nack(delay_s=0.1)
                    continue
                await message.ack()
                print(f"{message.payload.decode()}: done, attempt {message.delivery_count}")
                done += 1
                if done == 3:
                    break


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "holdfast://127.0.0.1:7400"))
