"""The delta-fault-tolerant tree in the simulator: the paper's Table 1, and costs, of which it has no figures.

`sets`: recipient sets in the network of Figure 5. `cost`: frames a publication takes on one tree, beside others that
pass over absent brokers. `latency`: how long a confirmation takes, by depth. `state`: what a broker knows of the tree,
and the bytes of a message's last hops, by the size of the tree. `recovery`: how long a broker that crashed takes until
it is operational, by the number of filters. `filters`: what is matched with covering off and on: see `delta_filters`.
"""

from itertools import product
from typing import Literal

import msgspec
from msgspec import Struct

from holdfast.cluster.config import parse_cluster
from holdfast.cluster.routes import Routes
from holdfast.experiments.delta_filters import MODES, SHAPES, Matching, Mode, Shape, measure
from holdfast.model.delta_messages import Multicast
from holdfast.model.errors import HoldfastError
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.delta.journal import Journal
from holdfast.protocols.delta.passage import Entry, Passage
from holdfast.protocols.delta.topology import TopologyMap
from holdfast.protocols.node import Persist
from holdfast.simulation.faults import Attach, Confirm, Crash, Publish, Recover, Subscribe
from holdfast.simulation.latencies import Constant
from holdfast.simulation.network import NetworkConfig
from holdfast.simulation.world import Simulation

STEADY = NetworkConfig(latency=Constant(1.0), client_latency=Constant(0.1))
TREE = "0-1 0-2 1-3 1-4 2-5 2-6"
BEGIN_S, OPERATIONS, GAP_S = 5.0, 100, 0.01
COPIES = ("Multicast", "Publish", "Relay", "Passed")
"""Messages that carry a publication, of each protocol."""
CONFIRMED_MAX_S, RESOLUTION_S = 60.0, 0.0005
UNCOUNTED = ("Ping", "Pong")
FIGURE_5 = """
protocol = "delta"
tolerance = {tolerance}
[brokers.N1]
[brokers.N2]
parent = "N1"
[brokers.N3]
parent = "N1"
[clients.P1]
broker = "N1"
[clients.S1]
broker = "N2"
topics = ["p"]
[clients.S2]
broker = "N2"
[clients.S3]
broker = "N3"
[clients.S4]
broker = "N3"
topics = ["p"]
"""
NODES = ("P1", "N1", "N2", "N3", "S1", "S2", "S3", "S4")
What = Literal["sets", "cost", "latency", "state", "recovery", "filters"]


class DeltaPoint(Struct, frozen=True, forbid_unknown_fields=True):
    """One run."""

    what: What
    tolerance: int = 1
    protocol: str = "delta"
    size: int = 0
    """Brokers of the tree, or hops between publisher and subscriber, or filters."""
    shape: Shape = "ranges"
    mode: Mode = "off"

    def replay(self) -> str:
        """The command that runs this point alone."""
        return f"holdfast experiment delta --point '{msgspec.json.encode(self).decode()}'"


class DeltaRow(Struct, frozen=True):
    """What came of a point. Figures are only worth something if every promise was `kept`."""

    point: DeltaPoint
    kept: bool = True
    complaint: str = ""
    sets: tuple[str, ...] = ()
    """The recipient set of each node of Figure 5."""
    copies: float = 0.0
    """Of a publication, from node to node."""
    frames: float = 0.0
    """All frames but heartbeats, a publication."""
    milliseconds: float = 0.0
    """Until the confirmation, or until the broker was operational."""
    links: int = 0
    """That the broker with the most of them knows."""
    map_bytes: int = 0
    """Of that broker's map on disk."""
    header_bytes: int = 0
    """Of a publication's message without the publication."""
    matching: Matching | None = None


def points(quick: bool) -> list[DeltaPoint]:
    """All points."""
    found = [DeltaPoint("sets", tolerance) for tolerance in range(4)]
    found += [DeltaPoint("cost", tolerance) for tolerance in range(4)]
    found += [DeltaPoint("cost", protocol=name) for name in ("ginger", "locamu", "delta-neighbourhood")]
    depths = (1, 4, 8) if quick else (1, 2, 4, 8, 16)
    found += [DeltaPoint("latency", tolerance, size=depth) for depth, tolerance in product(depths, (1, 3))]
    sizes = (15, 255, 4095) if quick else (15, 63, 255, 1023, 4095)
    found += [DeltaPoint("state", tolerance, size=size) for size, tolerance in product(sizes, (1, 2, 3))]
    filters = (250, 1000) if quick else (250, 1000, 4000)
    found += [DeltaPoint("recovery", size=count) for count in filters]
    counts = (1000, 10_000) if quick else (1000, 10_000, 100_000)
    found += [
        DeltaPoint("filters", size=count, shape=shape, mode=mode)
        for shape, count, mode in product(SHAPES, counts, MODES)
    ]
    return found


def run(point: DeltaPoint) -> DeltaRow:
    """The row of a point."""
    if point.what == "sets":
        routes = Routes(parse_cluster(FIGURE_5.format(tolerance=point.tolerance)))
        return DeltaRow(point, sets=tuple(" ".join(routes.recipients(node, "p", {})) for node in NODES))
    if point.what == "state":
        return _state(point)
    if point.what == "filters":
        found = measure(point.shape, point.mode, point.size)
        complaint = f"{found.differing} messages have other recipients" if found.differing else ""
        return DeltaRow(point, not complaint, complaint, matching=found)
    sim, row = {"cost": _cost, "latency": _latency, "recovery": _recovery}[point.what](point)
    verdict = sim.check()
    return row if verdict.ok else msgspec.structs.replace(row, kept=False, complaint=str(verdict))


def _simulation(point: DeltaPoint, tree: str) -> Simulation:
    broker = BrokerConfig("*", tolerance=point.tolerance)
    return Simulation(tree, point.protocol, seed=1, network=STEADY, broker=broker, replay=point.replay())


def _quiet(sim: Simulation) -> str:
    try:
        sim.run_until_quiet(limit_s=600.0)
    except HoldfastError as error:
        return str(error)
    return ""


def _cost(point: DeltaPoint) -> tuple[Simulation, DeltaRow]:
    """A publisher at one leaf, subscribers at two others."""
    sim = _simulation(point, TREE)
    sim.at(0.0, Attach("p@3"))
    for broker in ("4", "6"):
        sim.at(0.0, Subscribe(f"s{broker}@{broker}", "t"))
    sim.run_for(BEGIN_S)
    before = dict(sim.network.sent)
    for number in range(OPERATIONS):
        sim.at(BEGIN_S + number * GAP_S, Publish("p@3", "t", b"x" * 64, "fifo"))
    complaint = _quiet(sim)
    sent = {kind.__name__: count - before.get(kind, 0) for kind, count in sim.network.sent.items()}
    copies = sum(sent.get(kind, 0) for kind in COPIES)
    frames = sum(count for kind, count in sent.items() if kind not in UNCOUNTED)
    return sim, DeltaRow(point, not complaint, complaint, copies=copies / OPERATIONS, frames=frames / OPERATIONS)


def _chain(hops: int) -> str:
    return " ".join(f"{number}-{number + 1}" for number in range(hops))


def _latency(point: DeltaPoint) -> tuple[Simulation, DeltaRow]:
    """One publication, from one end of a chain to the other."""
    sim = _simulation(point, _chain(point.size))
    sim.at(0.0, Subscribe(f"s@{point.size}", "t"))
    sim.at(0.0, Attach("p@0"))
    sim.run_for(BEGIN_S)
    sim.at(BEGIN_S, Publish("p@0", "t", b"x", "fifo"))
    sim.at(BEGIN_S, Confirm("p@0", "t"))
    took_s = 0.0
    while not took_s and sim.now < BEGIN_S + CONFIRMED_MAX_S:
        sim.run_for(RESOLUTION_S)
        if sim.completed("p"):
            took_s = sim.now - BEGIN_S
    complaint = _quiet(sim)
    return sim, DeltaRow(point, not complaint, complaint, milliseconds=1000 * took_s)


def _recovery(point: DeltaPoint) -> tuple[Simulation, DeltaRow]:
    """The broker in the middle of three crashes and returns; its neighbours have so many filters between them."""
    sim = _simulation(point, "0-1 1-2")
    for number in range(point.size):
        sim.at(0.0, Subscribe("a@0" if number % 2 else "b@2", f"topic/{number}", f"x > {number}"))
    complaint = _quiet(sim)
    crashed_s = sim.now + 1.0
    sim.at(crashed_s, Crash("1"))
    back_s = crashed_s + 1.0
    sim.at(back_s, Recover("1"))
    complaint = complaint or _quiet(sim)
    at_s = [time_s for time_s, name, report in sim.reports if name == "1" and report.event == "operational"]
    took_s = max(at_s, default=back_s) - back_s
    return sim, DeltaRow(point, not complaint and took_s > 0, complaint, milliseconds=1000 * took_s)


def _state(point: DeltaPoint) -> DeltaRow:
    """A binary tree of that size: every broker's map, without running it."""
    edges = [(str((number - 1) // 2), str(number)) for number in range(1, point.size)]
    links, largest = -1, TopologyMap("0", "0", 1)
    for name in _samples(point.size):
        places = TopologyMap(name, name, point.tolerance + 1, edges)
        if len(places.places()) > links:
            links, largest = len(places.places()), places
    kept = [one for one in Journal().write_map(largest.places(clients=False)) if isinstance(one, Persist)]
    passage = Passage(largest.name, point.tolerance)
    way = tuple((str(point.size - 1 - hop), 1, 1_000_000) for hop in range(point.tolerance + 1))
    visited = passage.trail(Entry(1_000_000, ("p", 0, 1), None, None, way), 1_000_000, ())
    message = Multicast(1_000_000, visited, None, False, (), (), None)
    header = len(msgspec.msgpack.encode(message))
    return DeltaRow(point, links=links, map_bytes=len(kept[0].value), header_bytes=header)


def _samples(size: int) -> list[str]:
    """Brokers of every depth; those of one depth know as much as each other, but near the edges of the tree."""
    names, first = [], 0
    while first < size:
        names.append(str(first))
        first = 2 * first + 1
    return names
