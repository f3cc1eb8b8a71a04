"""A very large tree in the simulator: how long it takes to come up and to carry a broadcast, and what it weighs.

    python benchmarks/scale.py [--brokers 65535] [--protocol ginger] [--clients 4096] [--tolerance 1] [--json]

A binary tree of brokers, one millisecond a link. Clients are spread over it evenly and subscribe to one topic; one of
them publishes a message, which all must be given, once. Prints events a second of this machine for both parts, the
memory of the process, and how many entries a broker in the midst of the tree remembers.
"""

from __future__ import annotations

import argparse
import json
from resource import RUSAGE_SELF, getrusage
from time import process_time

from holdfast.protocols.config import BrokerConfig, ClientConfig, LinkConfig
from holdfast.simulation.faults import Publish, Subscribe
from holdfast.simulation.latencies import Constant
from holdfast.simulation.network import NetworkConfig
from holdfast.simulation.states import count_entries
from holdfast.simulation.world import Simulation

QUIET = LinkConfig(heartbeat_s=600.0, silence_s=3000.0)
LIMIT_S = 600.0
INSIDE = "5"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", type=int, default=65_535)
    parser.add_argument("--protocol", default="ginger")
    parser.add_argument("--clients", type=int, default=4096)
    parser.add_argument("--tolerance", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    began_s = process_time()
    sim = Simulation(
        " ".join(f"{(one - 1) // 2}-{one}" for one in range(1, asked.brokers)) or "0",
        asked.protocol,
        network=NetworkConfig(latency=Constant(1.0), client_latency=Constant(0.1)),
        broker=BrokerConfig("*", link=QUIET, tolerance=asked.tolerance),
        client=ClientConfig("*", link=QUIET),
    )
    clients = min(asked.clients, asked.brokers)
    homes = [place * asked.brokers // clients for place in range(clients)]
    for home in homes:
        sim.at(0.0, Subscribe(f"c{home}@{home}", "news"))
    sim.run_until_quiet(LIMIT_S)
    settled_s, settled = process_time(), sim.kernel.events
    sim.at(sim.now + 0.1, Publish(f"c{homes[-1]}", "news", b"x" * 32, "fifo"))
    sim.run_until_quiet(LIMIT_S)
    carried_s, carried = process_time(), sim.kernel.events - settled
    verdict = sim.check()
    figures = {
        "brokers": asked.brokers,
        "clients": clients,
        "ok": verdict.ok and verdict.deliveries == clients,
        "settle_s": round(settled_s - began_s, 1),
        "settle_events": settled,
        "settle_virtual_s": round(sim.now, 3),
        "broadcast_s": round(carried_s - settled_s, 1),
        "broadcast_events": carried,
        "events_per_s": round((settled + carried) / (carried_s - began_s)),
        "memory_mib": getrusage(RUSAGE_SELF).ru_maxrss >> 10,
        "entries_of_a_broker": count_entries(sim.node(INSIDE)),
    }
    if asked.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:22}{value:>14,}" if not isinstance(value, bool) else f"{name:22}{value!s:>14}")


if __name__ == "__main__":
    main()
