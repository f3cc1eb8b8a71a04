"""Subscribe, publish, get it back. Start a cluster first: `holdfast up`."""

import asyncio
import sys

import holdfast


async def main(address: str) -> None:
    async with holdfast.connect(address) as client:
        orders = await client.subscribe("bank/+/orders", where="amount > 100")
        receipt = await client.publish(
            "bank/lisbon/orders", b"120 to PT50-1", guarantee="total", keys=["PT50-1"], attributes={"amount": 120}
        )
        await receipt.confirmed()
        async for message in orders:
            print(f"{message.publisher}#{message.seq} {message.guarantee}: {message.payload.decode()}")
            break


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "holdfast://127.0.0.1:7400"))
