"""What ordering costs on a link between brokers: bytes a message, measured on the frames that the brokers really send.

    python benchmarks/headers.py [--messages 1000] [--rate 1000] [--name alice] [--tolerance 1] [--json]

Two brokers in the simulator, a publisher and a subscriber at the lower one, a subscriber at the upper one. Every frame
that either broker sends the other while messages flow is encoded and weighed; nothing fails.

- header: bytes of the frames that carry messages, beyond their topic, payload, keys and attributes
- of which order: the link's number, whose messages they are, their numbers and count, the guarantee. The rest is the
  frame's length and what tells the parts apart.
- beside: frames without messages, both ways: acknowledgements, and what is stable (with a tolerance). Most are sent
  when there is a pause, so they weigh most when messages are rare.

Total messages have a key, the others none. A total batch crosses the link twice, up to its top and down to be
delivered: both headers count. The goal is at most
24 bytes a message of a batch of one. LoCaMu (Santos' thesis, section 5.6) needs 540 for causal order with one tolerated
failure at a degree of 3; that counts identifiers and numbers only, as `order` does here.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable

import msgspec
from msgspec import Struct

from holdfast.model import messages
from holdfast.model.batches import Batch, make_batch
from holdfast.model.guarantees import GUARANTEES, TOTAL
from holdfast.model.messages import Data, Frame, Ping, Pong
from holdfast.model.wire import encode, header_bytes
from holdfast.simulation.faults import Publish, Subscribe
from holdfast.simulation.world import Simulation

GOAL_BYTES, LOCAMU_BYTES = 24, 540
BATCHES = (1, 16, 256)
NAMES = ("c0", "alice", "warehouse-lisbon")
NUMBERS = (1, 1_000, 100_000, 1 << 33)
BEGIN_S = 5.0
TOPIC, PAYLOAD, KEY = "bank/topic1", b"x" * 32, "PT50-1"
BESIDE_MESSAGES = (Ping, Pong)
"""What is said however many messages there are."""


class Cost(Struct, frozen=True):
    """Bytes a message, for messages of one guarantee in batches of one size."""

    guarantee: str
    batch: int
    header: float
    order: float
    beside: float
    frames: dict[str, float]
    """How many frames of each kind were sent for a message, both ways."""


class Scales:
    """Weighs every frame that goes over one link."""

    def __init__(self) -> None:
        self.header = self.order = self.beside = 0
        self.frames: Counter[str] = Counter()

    def tap(self, send: Callable[[Frame], None]) -> Callable[[Frame], None]:
        """The same way to send, with a pair of scales on it."""

        def weigh(frame: Frame) -> None:
            self._weigh(frame)
            send(frame)

        return weigh

    def _weigh(self, frame: Frame) -> None:
        if isinstance(frame, BESIDE_MESSAGES):
            return
        kind = frame.message if isinstance(frame, Data) else frame
        self.frames[type(kind).__name__] += 1
        batch: Batch | None = getattr(kind, "batch", None)
        if not isinstance(frame, Data) or batch is None:
            self.beside += len(encode(frame))
            return
        # A frame of a batch that climbs may say more around the batch than a publication does.
        around = len(encode(frame)) - len(encode(Data(frame.seq, messages.Publish(batch))))
        self.header += header_bytes(batch) + around
        self.order += order_bytes(batch, frame.seq)


def order_bytes(batch: Batch, seq: int) -> int:
    """The fields of a frame that say what comes after what, and which message is which."""
    # One message need not be counted.
    count = (batch.count,) if batch.count > 1 else ()
    fields = (seq, batch.publisher, batch.first, *count, batch.guarantee)
    return sum(len(msgspec.msgpack.encode(field)) for field in fields)


def measure(guarantee: str, size: int, count: int, rate: float, name: str, tolerance: int) -> Cost:
    """Publish that many messages, `size` at once, and weigh what goes over the link."""
    sim = Simulation("0-1", seed=1, tolerance=tolerance)
    sim.at(0.0, Subscribe("upper@0", TOPIC))
    sim.at(0.0, Subscribe("lower@1", TOPIC))
    rounds = max(1, count // size)
    keys = (KEY,) if guarantee == GUARANTEES[TOTAL] else ()
    for number in range(rounds):
        for _ in range(size):
            sim.at(BEGIN_S + number * size / rate, Publish(f"{name}@1", TOPIC, PAYLOAD, guarantee, keys))
    sim.run_for(BEGIN_S - 0.001)
    scales = Scales()
    for one, other in (("0", "1"), ("1", "0")):
        stream = sim.host(one).streams[other]
        stream.send = scales.tap(stream.send)  # type: ignore[assignment]  # each stream has a way to send of its own
    sim.run_until_quiet(limit_s=3600)
    assert sim.check().ok, "the run that was to be weighed broke a promise"
    count = rounds * size
    frames = {kind: round(sent / count, 3) for kind, sent in sorted(scales.frames.items())}
    return Cost(
        guarantee,
        size,
        round(scales.header / count, 2),
        round(scales.order / count, 2),
        round(scales.beside / count, 2),
        frames,
    )


def headers_of_one() -> dict[str, dict[int, int]]:
    """The header of a batch of one, by the publisher's name and by its number."""
    return {
        name: {number: header_bytes(make_batch(name, number, TOPIC, 2, [PAYLOAD])) for number in NUMBERS}
        for name in NAMES
    }


def shown(costs: list[Cost], singles: dict[str, dict[int, int]]) -> str:
    lines = [f"{'guarantee':<10}{'batch':>6}{'header':>9}{'order':>8}{'beside':>8}   frames a message, both ways"]
    for one in costs:
        frames = ", ".join(f"{kind} {many:g}" for kind, many in one.frames.items())
        lines.append(f"{one.guarantee:<10}{one.batch:>6}{one.header:>9}{one.order:>8}{one.beside:>8}   {frames}")
    lines += ["", "header of a batch of one, by name and number of the message"]
    lines.append(f"{'':<20}" + "".join(f"{number:>14,}" for number in NUMBERS))
    lines += [f"{name:<20}" + "".join(f"{one:>14}" for one in row.values()) for name, row in singles.items()]
    [causal] = [one for one in costs if (one.guarantee, one.batch) == ("causal", 1)]
    over = causal.header - GOAL_BYTES
    word = f"missed by {over:g}" if over > 0 else "met"
    lines += ["", f"causal, batch of one: {causal.header:g} bytes, of which order {causal.order:g}"]
    lines.append(f"the goal of {GOAL_BYTES} is {word}; LoCaMu: {LOCAMU_BYTES}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Weigh what ordering costs on a link between brokers.")
    parser.add_argument("--messages", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=1000.0, help="messages a second")
    parser.add_argument("--name", default="alice", help="of the publisher: it is in every batch")
    parser.add_argument("--tolerance", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    costs = [
        measure(guarantee.value, size, arguments.messages, arguments.rate, arguments.name, arguments.tolerance)
        for guarantee in GUARANTEES
        for size in BATCHES
    ]
    singles = headers_of_one()
    if arguments.json:
        result = {"costs": costs, "header_of_one": singles, "goal_bytes": GOAL_BYTES, "locamu_bytes": LOCAMU_BYTES}
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(result)).decode() + "\n")
    else:
        sys.stdout.write(shown(costs, singles) + "\n")


if __name__ == "__main__":
    main()
