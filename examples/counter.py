"""A replicated counter without asyncio: increments commute, so `causal` is enough; a reset does not, so it is `total`.

Start several of them against one cluster and compare what they print:
    python examples/counter.py alice &  python examples/counter.py bob
"""

import sys

import holdfast

TOPIC, KEYS = "examples/counter", ["counter"]
OPERATIONS = [b"+1", b"+1", b"+5", b"reset", b"+2"]


def main(name: str, address: str) -> None:
    with holdfast.connect_sync(address, name=name) as client:
        operations = client.subscribe(TOPIC)
        for operation in OPERATIONS:
            guarantee = holdfast.Guarantee.TOTAL if operation == b"reset" else holdfast.Guarantee.CAUSAL
            client.publish(TOPIC, operation, guarantee=guarantee, keys=KEYS)
        value, own = 0, 0
        for message in operations:
            value = 0 if message.payload == b"reset" else value + int(message.payload)
            print(f"{message.publisher}#{message.seq} {message.payload.decode():>5} -> {value}")
            own += message.publisher == name
            if own == len(OPERATIONS):
                break


if __name__ == "__main__":
    main(
        sys.argv[1] if len(sys.argv) > 1 else "alice", sys.argv[2] if len(sys.argv) > 2 else "holdfast://127.0.0.1:7400"
    )
