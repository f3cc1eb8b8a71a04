"""Sites of three brokers in the simulator: what the SESDAD report claims in words, measured. It has no figures.

`routing`: flooding against filtering, by the share of sites that want what is published, and how the load is spread
over the three brokers of a site. `throughput`: the same, all published at once, with brokers that send 1 Mbit/s.
`agreement`: against a majority's agreement on the place of every message (`sesdad-agreement`), at several paces.
`loss`: the same, when the designated broker dies in the midst of it. `recovery`: how long the last message of a stream
takes whose broker is out of the subscriber's reach, with the report's timers and with those that follow round trips.
"""

from itertools import pairwise, product
from typing import Literal

import msgspec
from msgspec import Struct

from holdfast.model.errors import HoldfastError
from holdfast.simulation.faults import Command, Crash, Cut, Heal, Publish, Subscribe
from holdfast.simulation.scenarios import Scenario, Timed
from holdfast.simulation.world import Simulation

TREE = "a-b a-c b-d b-e c-f c-g"
SITES = ("b", "c", "d", "e", "f", "g")
"""Those other than the publisher's."""
BEGIN_S, SILENT_S = 3.0, 8.0
MESSAGES = ("Offer", "Forward", "Replicate", "Replicated", "Assignment", "Agreed")
WITHIN = ("Replicate", "Replicated", "Assignment", "Agreed")
"""What the brokers of a site say to each other for a publication."""
BYTES_PER_S = 125_000.0
PACES_MS = (50.0, 10.0, 2.0)
"""How long after each other messages are published, where agreement is compared."""
REPORT_TIMERS = (1.5, 3.0)
PROTOCOLS: tuple[Literal["sesdad", "sesdad-agreement"], ...] = ("sesdad", "sesdad-agreement")


class Point(Struct, frozen=True, forbid_unknown_fields=True):
    """One run."""

    what: Literal["routing", "throughput", "agreement", "loss", "recovery"]
    routing: Literal["flooding", "filtering"] = "filtering"
    interested: int = len(SITES)
    """How many of the six other sites want what is published."""
    timers: Literal["report", "adaptive"] = "adaptive"
    protocol: Literal["sesdad", "sesdad-agreement"] = "sesdad"
    every_ms: float = 20.0
    replicas: int = 3
    operations: int = 200
    seed: int = 1

    def replay(self) -> str:
        """The command that runs this point alone."""
        return f"holdfast experiment sesdad --point '{msgspec.json.encode(self).decode()}'"


class Row(Struct, frozen=True):
    """What came of a point. Figures are only worth something if every promise was `kept`."""

    point: Point
    kept: bool
    complaint: str
    deliveries: int
    messages_per_delivery: float
    """Of the protocol: from hop to hop, copies within a site and their answers."""
    replicate_per_unit: float
    """Copies that a site makes of a publication: n - 1."""
    latency_ms: float
    """Mean, from the publication to a subscriber."""
    shares: tuple[float, ...]
    """Of each broker of the root site, the part of the publications that it has sent on."""
    recovery_ms: float = 0.0
    """How long the last message took."""
    within_per_unit: float = 0.0
    """Messages between the brokers of a site for a publication that it processes."""
    per_s: float = 0.0
    """Publications a second, from the first one to the last delivery."""
    gap_ms: float = 0.0
    """The longest time in which the subscriber at the publisher's site got nothing, while something was published."""
    busiest_share: float = 0.0
    """Of the bytes that the brokers of the root site have sent to brokers, the part of the designated one."""


def points(quick: bool) -> list[Point]:
    """All points; seed by seed, so that what has run so far is a whole."""
    seeds = range(1, 2 if quick else 3)
    operations = 60 if quick else 300
    shares = (0, 2, 6) if quick else (0, 1, 2, 3, 4, 5, 6)
    found: list[Point] = []
    for seed in seeds:
        for interested, routing in product(shares, ("flooding", "filtering")):
            found.append(Point("routing", routing, interested, operations=operations, seed=seed))  # type: ignore[arg-type]
            found.append(Point("throughput", routing, interested, operations=operations, every_ms=0.1, seed=seed))  # type: ignore[arg-type]
        for protocol, every_ms, replicas in product(PROTOCOLS, PACES_MS, (3,) if quick else (3, 5)):
            given = {"protocol": protocol, "every_ms": every_ms, "replicas": replicas, "seed": seed}
            found.append(Point("agreement", operations=operations, **given))  # type: ignore[arg-type]
        found += [Point("loss", protocol=one, every_ms=5.0, operations=400, seed=seed) for one in PROTOCOLS]
    for seed, timers in product(range(1, 5 if quick else 21), ("report", "adaptive")):
        found.append(Point("recovery", timers=timers, seed=seed))  # type: ignore[arg-type]
    return found


def run(point: Point) -> Row:
    """The row of a point."""
    scenario = _recovery(point) if point.what == "recovery" else _routing(point)
    sim = scenario.build(replay=point.replay())
    # Nothing waits for anything at a gigabyte a second; what everybody sends is counted.
    sim.network.limit_brokers(BYTES_PER_S if point.what == "throughput" else 1e9)
    complaint = ""
    try:
        sim.run_until_quiet(scenario.limit_s)
    except HoldfastError as error:
        complaint = str(error)
    verdict = sim.check()
    return _row(point, sim, verdict.ok and not complaint, complaint or ("" if verdict.ok else str(verdict)))


def _scenario(point: Point, tree: str, entries: list[tuple[float, Command]]) -> Scenario:
    request_s, notify_s = REPORT_TIMERS if point.timers == "report" else (0.0, 0.0)
    return Scenario(
        tree=tree,
        protocol=point.protocol,
        replicas=point.replicas,
        seed=point.seed,
        routing=point.routing,
        request_s=request_s,
        notify_s=notify_s,
        limit_s=120.0,
        timetable=tuple(Timed(time_s, command) for time_s, command in entries),
    )


def _routing(point: Point) -> Scenario:
    """A publisher at the root, a subscriber beside it and one in each site that is interested."""
    entries: list[tuple[float, Command]] = [(0.0, Subscribe("s.a@a", "t"))]
    entries += [(0.0, Subscribe(f"s.{site}@{site}", "t")) for site in SITES[: point.interested]]
    every_s = point.every_ms / 1000
    entries += [(BEGIN_S + number * every_s, Publish("p@a", "t", b"x" * 64)) for number in range(point.operations)]
    if point.what == "loss":
        entries.append((BEGIN_S + point.operations * every_s / 2, Crash("a.1")))
    return _scenario(point, TREE, entries)


def _recovery(point: Point) -> Scenario:
    """The subscriber's links with two of its three brokers fall silent, and another message is published."""
    silent = [f"a.{1 + (point.seed + number) % 3}" for number in range(2)]
    entries: list[tuple[float, Command]] = [(0.0, Subscribe("s@a", "t"))]
    entries += [(BEGIN_S + number * 0.1, Publish("p@a", "t", b"x")) for number in range(5)]
    last_s = BEGIN_S + 0.45
    entries += [(last_s, Cut(broker, "s@a")) for broker in silent]
    entries += [(last_s, Publish("p@a", "t", b"last")), (last_s + SILENT_S, Heal())]
    return _scenario(point, "a", entries)


def _row(point: Point, sim: Simulation, kept: bool, complaint: str) -> Row:
    published = {(one.publisher, one.seq): one.time for one in sim.events if one.event == "publish"}
    came = [(one, one.time - published[one.publisher, one.seq]) for one in sim.events if one.event == "deliver"]
    sent = {kind.__name__: count for kind, count in sim.network.sent.items()}
    brokers = [sim.node(name) for name in sim.tree if sim.host(name).up]
    processed = sum(one.traffic.processed for one in brokers) / point.replicas  # type: ignore[union-attr]
    root = [f"a.{number}" for number in range(1, point.replicas + 1)]
    shares = [sim.node(name).traffic.sent if sim.host(name).up else 0 for name in root]  # type: ignore[union-attr]
    size_bytes = [sim.network.bytes_by_broker()[name] for name in root]
    last, first = max((one.time for one, _ in came), default=0), min(published.values(), default=0)
    return Row(
        point,
        kept,
        complaint,
        len(came),
        sum(sent.get(name, 0) for name in MESSAGES) / max(1, len(came)),
        sent.get("Replicate", 0) / max(1.0, processed),
        sum(took for _, took in came) / max(1, len(came)) / 1e6,
        tuple(share / max(1, sum(shares)) for share in shares),
        max((took for _, took in came), default=0) / 1e6 if point.what == "recovery" else 0.0,
        sum(sent.get(name, 0) for name in WITHIN) / max(1.0, processed),
        len(published) / max(1e-9, (last - first) / 1e9),
        _longest_gap_ms(sim, first),
        size_bytes[0] / max(1, sum(size_bytes)),
    )


def _longest_gap_ms(sim: Simulation, first: int) -> float:
    """The longest time without a delivery at the root's own subscriber, from the first publication on."""
    times = [first, *(one.time for one in sim.events if one.event == "deliver" and one.node == "s.a")]
    return max((after - before for before, after in pairwise(times)), default=0) / 1e6
