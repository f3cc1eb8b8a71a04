"""What each copy of a message costs beyond itself, by protocol: on our wire, and as the thesis of LoCaMu counts it.

    python benchmarks/metadata.py [--brokers 31] [--publishers 8] [--rounds 5] [--groups one|subtrees] [--json]

A binary tree of brokers in the simulator, each with a client, one millisecond a link, payloads of 32 bytes (section 5.3
of Santos' thesis). With `one` group everybody is in it; with `subtrees` there is a group for every subtree. In each
round every publisher publishes one message, to a group of its own in turn. Nothing fails. Bytes are averages over all
copies between brokers; the tolerance is 1 where a tree is skipped over.
"""

from __future__ import annotations

import argparse

import msgspec
from msgspec import Struct

from holdfast.protocols.config import BrokerConfig, LinkConfig
from holdfast.simulation.faults import Publish, Subscribe
from holdfast.simulation.latencies import Constant
from holdfast.simulation.network import NetworkConfig
from holdfast.simulation.world import Simulation

PROTOCOLS = {"cbcast": 0, "barriers": 0, "delta-neighbourhood": 1, "locamu": 1}
"""Those that say what each copy costs, with the tolerance that they are run with."""
NETWORK = NetworkConfig(latency=Constant(1.0), client_latency=Constant(0.1))
QUIET = LinkConfig(heartbeat_s=60.0, silence_s=300.0)
PAYLOAD = b"x" * 32
BETWEEN_S = 0.01


class Cost(Struct, frozen=True):
    """Bytes of one copy of one message, on average."""

    protocol: str
    copies: int
    deliveries: int
    wire: float
    thesis: float


def groups_of(broker: int, kind: str) -> list[str]:
    """The groups that a broker is in: one, or one for every subtree that it belongs to."""
    if kind == "one":
        return ["all"]
    tops = [broker]
    while tops[-1]:
        tops.append((tops[-1] - 1) // 2)
    return [f"below/{top}" for top in tops]


def measure(protocol: str, brokers: int, publishers: int, rounds: int, kind: str) -> Cost:
    """One run of one protocol."""
    tree = " ".join(f"{(one - 1) // 2}-{one}" for one in range(1, brokers)) or "0"
    config = BrokerConfig("*", link=QUIET, tolerance=PROTOCOLS[protocol])
    sim = Simulation(tree, protocol, seed=1, network=NETWORK, broker=config)
    for one in range(brokers):
        for group in groups_of(one, kind):
            sim.at(0.0, Subscribe(f"c{one}@{one}", group))
    sim.run_until_quiet(600.0)
    begin_s = sim.now + 1.0
    for number in range(rounds):
        for one in range(publishers):
            broker = one * brokers // publishers
            groups = groups_of(broker, kind)
            group = groups[number % len(groups)]
            sim.at(begin_s + number * BETWEEN_S, Publish(f"c{broker}", group, PAYLOAD, "fifo"))
    sim.run_until_quiet(600.0)
    verdict = sim.check()
    if not verdict.ok:
        raise SystemExit(f"{protocol} did not keep its promises: {verdict}")
    rows = [report for _, _, report in sim.reports if report.event == "relay"]
    wire, thesis = sum(row.overhead for row in rows), sum(int(row.detail.split()[0]) for row in rows)
    count = max(1, len(rows))
    return Cost(protocol, len(rows), verdict.deliveries, round(wire / count, 1), round(thesis / count, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", type=int, default=31)
    parser.add_argument("--publishers", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--groups", choices=("one", "subtrees"), default="one")
    parser.add_argument("--protocol", action="append", choices=tuple(PROTOCOLS), help="repeatable; all by default")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if not 1 <= asked.publishers <= asked.brokers:
        parser.error(f"--publishers {asked.publishers}: choose between 1 and the {asked.brokers} brokers")
    costs = [
        measure(protocol, asked.brokers, asked.publishers, asked.rounds, asked.groups)
        for protocol in asked.protocol or PROTOCOLS
    ]
    if asked.json:
        print(msgspec.json.encode(costs).decode())
        return
    print(f"{'protocol':22}{'copies':>8}{'deliveries':>12}{'wire bytes':>12}{'thesis bytes':>14}")
    for cost in costs:
        print(f"{cost.protocol:22}{cost.copies:8}{cost.deliveries:12}{cost.wire:12}{cost.thesis:14}")


if __name__ == "__main__":
    main()
