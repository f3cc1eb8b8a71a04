"""The simulator beside SimPy, on one relay model, in one run: who gets more hops a second out of this machine?

The model: a complete tree of relays. The root sends messages at random intervals; every relay passes what it gets on to
its children; every link is a FIFO with a random delay. One *hop* is one message that arrived over one link.

- `holdfast` drives relay nodes through the whole of the real path: `Simulation`, hosts, effects, the FIFO streams with
  their latency distribution, settling at the end of each instant. Nothing is left out for the benchmark.
- `simpy` writes the model as SimPy's own documentation does: a process for each relay that gets from its store, a
  process for each frame under way that waits and puts.
- `simpy-callbacks` is the fastest way that SimPy allows: no processes, no stores, a callback on each timeout.

    python benchmarks/simulator.py [--messages 4000] [--depth 6] [--json]
"""

import argparse
import gc
import json
from collections.abc import Callable, Generator
from random import Random
from time import perf_counter
from typing import Any

import simpy

from holdfast.model.messages import WIRE_VERSION, Hello, Ping
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.node import Connect, Effects, Send, SetTimer
from holdfast.simulation.latencies import Uniform
from holdfast.simulation.network import NetworkConfig
from holdfast.simulation.world import Simulation

LOW_MS, HIGH_MS = 1.0, 5.0
GAP_S = 0.001
WARM_UP_S = 1.0


def complete_tree(depth: int) -> list[tuple[int, int]]:
    """Pairs of parent and child."""
    return [((child - 1) // 2, child) for child in range(1, 2**depth - 1)]


# -------------------------------------------------------------------------------------------------------- holdfast


class Relay:
    """The smallest broker there can be: children say hello, and get a copy of everything."""

    protocol = "relay"
    guarantees: tuple[int, ...] = ()

    def __init__(self, config: BrokerConfig, messages: int) -> None:
        self.name, self.parent, self.left = config.name, config.parent, messages
        self.children: list[str] = []
        self.hops = 0
        self.chance = Random(1)

    def start(self, _now: float) -> Effects:
        return [Connect(self.parent)] if self.parent else [SetTimer("send", WARM_UP_S)]

    def receive(self, peer: str, frame: Any, _now: float) -> Effects:
        if type(frame) is Hello:
            self.children.append(peer)
            return []
        self.hops += 1
        return [Send(child, frame) for child in self.children]

    def timer(self, _name: str, _now: float) -> Effects:
        self.left -= 1
        again: Effects = [SetTimer("send", GAP_S * 2 * self.chance.random())] if self.left else []
        return [*(Send(child, Ping(self.left)) for child in self.children), *again]

    def peer_up(self, peer: str, _now: float) -> Effects:
        return [Send(peer, Hello(WIRE_VERSION, self.name, "broker", "", 1, False, 0, 0))]

    def peer_down(self, _peer: str, _now: float) -> Effects:
        return []

    def settle(self, _now: float) -> Effects:
        return []

    stop = settle

    def check_invariants(self) -> None: ...

    def waiting_for(self) -> list[str]:
        return []

    def ready(self) -> bool:
        return True

    def status(self) -> dict[str, object]:
        return {}


def run_holdfast(messages: int, depth: int) -> int:
    tree = " ".join(f"{parent}-{child}" for parent, child in complete_tree(depth)) or "0"
    latency = Uniform(LOW_MS, HIGH_MS)
    sim = Simulation(tree, lambda config, _: Relay(config, messages), seed=1, network=NetworkConfig(latency=latency))
    sim.run_for(WARM_UP_S + GAP_S * 3 * messages + 10)
    return sum(sim.node(name).hops for name in sim.tree)  # type: ignore[union-attr]


# ----------------------------------------------------------------------------------------------------------- simpy


class Link:
    """A FIFO with a delay: what is put in comes out at the other end's store."""

    def __init__(self, env: Any, store: Any, seed: str) -> None:
        self.env, self.store, self.draw, self.last_s = env, store, Random(seed).random, 0.0

    def delay_s(self) -> float:
        now: float = self.env.now
        when = now + (LOW_MS + (HIGH_MS - LOW_MS) * self.draw()) / 1000
        self.last_s = max(self.last_s, when)
        return self.last_s - now

    def travel(self, message: object) -> Generator[Any, Any, None]:
        yield self.env.timeout(self.delay_s())
        yield self.store.put(message)

    def put(self, message: object) -> None:
        self.env.process(self.travel(message))


def run_simpy(messages: int, depth: int) -> int:
    env = simpy.Environment()
    pairs = complete_tree(depth)
    stores = [simpy.Store(env) for _ in range(len(pairs) + 1)]
    links: list[list[Link]] = [[] for _ in stores]
    for parent, child in pairs:
        links[parent].append(Link(env, stores[child], f"{parent}>{child}"))
    hops = 0

    def relay(number: int) -> Generator[Any, Any, None]:
        nonlocal hops
        store, children = stores[number], links[number]
        while True:
            message = yield store.get()
            hops += 1
            for link in children:
                link.put(message)

    def source() -> Generator[Any, Any, None]:
        chance = Random(1)
        for left in range(messages):
            for link in links[0]:
                link.put(Ping(left))
            yield env.timeout(GAP_S * 2 * chance.random())

    for number in range(1, len(stores)):
        env.process(relay(number))
    env.process(source())
    env.run()
    return hops


def run_simpy_callbacks(messages: int, depth: int) -> int:
    env = simpy.Environment()
    pairs = complete_tree(depth)
    links: list[list[tuple[Link, int]]] = [[] for _ in range(len(pairs) + 1)]
    for parent, child in pairs:
        links[parent].append((Link(env, None, f"{parent}>{child}"), child))
    hops = 0

    def arrived(child: int) -> Callable[[Any], None]:
        def at_child(event: Any) -> None:
            nonlocal hops
            hops += 1
            send(child, event.value)

        return at_child

    arrivals = [arrived(child) for child in range(len(links))]

    def send(number: int, message: object) -> None:
        for link, child in links[number]:
            env.timeout(link.delay_s(), message).callbacks.append(arrivals[child])

    def source() -> Generator[Any, Any, None]:
        chance = Random(1)
        for left in range(messages):
            send(0, Ping(left))
            yield env.timeout(GAP_S * 2 * chance.random())

    env.process(source())
    env.run()
    return hops


# ------------------------------------------------------------------------------------------------------- measuring

RUNNERS = {"holdfast": run_holdfast, "simpy": run_simpy, "simpy-callbacks": run_simpy_callbacks}


def measure(messages: int, depth: int, rounds: int) -> dict[str, float]:
    """The best of some rounds each, taken in turns so that a busy moment of the machine hits all."""
    best = dict.fromkeys(RUNNERS, 0.0)
    expected = messages * len(complete_tree(depth))
    for _ in range(rounds):
        for name, run in RUNNERS.items():
            gc.collect()
            began = perf_counter()
            hops = run(messages, depth)
            elapsed_s = perf_counter() - began
            if hops != expected:
                raise SystemExit(f"{name} made {hops} hops instead of {expected}: the models differ")
            best[name] = max(best[name], hops / elapsed_s)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the simulator with SimPy on one relay model.")
    parser.add_argument("--messages", type=int, default=2000, help="how many the root sends")
    parser.add_argument("--depth", type=int, default=6, help="levels of the tree of relays")
    parser.add_argument("--rounds", type=int, default=3, help="of which the best counts")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    speeds = measure(options.messages, options.depth, options.rounds)
    ratios = {name: speeds["holdfast"] / speed for name, speed in speeds.items() if name != "holdfast"}
    if options.json:
        print(json.dumps({"hops_per_s": speeds, "ratio_to": ratios, "relays": 2**options.depth - 1}))
        return
    for name, speed in speeds.items():
        print(f"{name:16} {speed:12,.0f} hops/s")
    for name, ratio in ratios.items():
        print(f"holdfast is {ratio:.2f} x {name}")


if __name__ == "__main__":
    main()
