"""A durable subscriber as a process of its own: it writes down what it reads, and may be frozen meanwhile."""

import sys

import holdfast


async def read(addresses: list[str], name: str, count: int) -> None:
    async with holdfast.connect(addresses, name=name, cluster="kept") as client:
        orders = await client.subscribe("bank/#", durable=name)
        sys.stdout.write("begun\n")
        for _ in range(count):
            message = await orders.get(60)
            sys.stdout.write(message.payload[:32].decode().rstrip(".") + "\n")


if __name__ == "__main__":
    holdfast.run(read(sys.argv[1].split(","), sys.argv[2], int(sys.argv[3])))
