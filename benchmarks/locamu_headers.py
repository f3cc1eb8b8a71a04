"""What LoCaMu's header weighs: on our wire, and as the thesis counts it (003, sections 4.3.1 and 5.6).

    python benchmarks/locamu_headers.py [--brokers 63] [--messages 20] [--rate 100] [--tolerance 1] [--absent] [--json]

A binary tree in the simulator. There is a group for every subtree, as in the thesis' evaluation (5.3): every broker has
a client that wants the groups of all subtrees that it is in, and publishes to one of them, chosen at random, at
`--rate` messages a second. Every copy that a broker sends another is weighed:

- wire: bytes of the header as encoded (identifiers and past)
- compressed: the same header as the thesis counts it with its compression (3.9.3)
- whole: the same without; the worst case of section 5.6, 540 bytes at a degree of 3 and f = 1, is of this kind

`--absent` lets every fifth broker be absent for a second on the way, one after another, so that paths change.
"""

from __future__ import annotations

import argparse
from random import Random
from statistics import fmean

import msgspec
from msgspec import Struct

from holdfast.protocols.locamu import LocamuBroker
from holdfast.protocols.locamu.copies import Copy
from holdfast.protocols.locamu.exchange import Exchange
from holdfast.protocols.locamu.headers import HeaderSize
from holdfast.protocols.locamu.peers import LinkedBroker
from holdfast.simulation.faults import Crash, Publish, Recover, Subscribe
from holdfast.simulation.latencies import Constant
from holdfast.simulation.network import NetworkConfig
from holdfast.simulation.world import Simulation

BEGIN_S = 30.0


class Row(Struct, frozen=True):
    """Bytes a copy, for one way of counting."""

    counted: str
    mean: float
    median: int
    p99: int
    most: int


def weigh(brokers: int, messages: int, rate: float, tolerance: int, absent: bool, seed: int) -> list[HeaderSize]:
    """The headers of every copy that carries messages, once everybody is connected and subscribed."""
    sizes: list[HeaderSize] = []

    class Weighing(Exchange):
        def weighed(self, peer: LinkedBroker, copy: Copy, size: HeaderSize) -> None:
            if copy.batch is not None:
                sizes.append(size)
            super().weighed(peer, copy, size)

    class WeighedBroker(LocamuBroker):
        exchanging = Weighing

    tree = " ".join(f"{(n - 1) // 2}-{n}" for n in range(1, brokers)) or "0"
    sim = Simulation(tree, WeighedBroker, seed, network=NetworkConfig(latency=Constant(1.0)), tolerance=tolerance)
    chance = Random(seed)
    for broker in range(brokers):
        groups = _groups(broker, brokers)
        for group in groups:
            sim.at(0.0, Subscribe(f"c{broker}@{broker}", group))
        for number in range(messages):
            time_s = BEGIN_S + (number + chance.random()) / rate
            sim.at(time_s, Publish(f"c{broker}@{broker}", chance.choice(groups), b"x" * 32, "causal"))
    if absent:
        for place, broker in enumerate(range(1, brokers, 5)):
            sim.at(BEGIN_S + 1.2 * place, Crash(str(broker)))
            sim.at(BEGIN_S + 1.2 * place + 1.0, Recover(str(broker)))
    sim.run_until_quiet(limit_s=600)
    verdict = sim.check()
    if not verdict.ok:
        raise SystemExit(f"the run broke a promise: {verdict}")
    return sizes


def _groups(broker: int, brokers: int) -> list[str]:
    """The subtrees that a broker is in and that have more members than itself."""
    found, top = [], broker
    if 2 * broker + 1 < brokers:
        found.append(f"below/{broker}")
    while top:
        top = (top - 1) // 2
        found.append(f"below/{top}")
    return found or ["below/0"]


def table(sizes: list[HeaderSize]) -> list[Row]:
    columns = {
        "wire": [size.wire_bytes for size in sizes],
        "compressed": [size.thesis_bytes for size in sizes],
        "whole": [size.thesis_whole_bytes for size in sizes],
    }
    return [_row(name, sorted(values)) for name, values in columns.items()]


def _row(name: str, values: list[int]) -> Row:
    return Row(name, round(fmean(values), 1), values[len(values) // 2], values[len(values) * 99 // 100], values[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", type=int, default=63)
    parser.add_argument("--messages", type=int, default=20, help="how many each broker publishes")
    parser.add_argument("--rate", type=float, default=100.0, help="messages a second and broker")
    parser.add_argument("--tolerance", type=int, default=1)
    parser.add_argument("--absent", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    sizes = weigh(given.brokers, given.messages, given.rate, given.tolerance, given.absent, given.seed)
    rows = table(sizes)
    if given.json:
        print(msgspec.json.encode({"copies": len(sizes), "rows": rows}).decode())
        return
    print(f"{len(sizes):,} copies between {given.brokers} brokers, f = {given.tolerance}; bytes a header")
    print(f"{'counted':>12} {'mean':>8} {'median':>8} {'p99':>8} {'most':>8}")
    for row in rows:
        print(f"{row.counted:>12} {row.mean:8.1f} {row.median:8} {row.p99:8} {row.most:8}")


if __name__ == "__main__":
    main()
