"""Sites of three brokers in the simulator: what the SESDAD report claims in words, measured. It has no figures.

`routing`: flooding against filtering, by the share of sites that want what is published. `load`: how publications are
spread over the three brokers of a site. `recovery`: how long the last message of a stream takes whose broker is out of
the subscriber's reach, with the report's timers and with those that follow round trips.
"""

from itertools import product
from typing import Literal

import msgspec
from msgspec import Struct

from holdfast.model.errors import HoldfastError
from holdfast.simulation.faults import Command, Cut, Heal, Publish, Subscribe
from holdfast.simulation.scenarios import Scenario, Timed
from holdfast.simulation.world import Simulation

TREE = "a-b a-c b-d b-e c-f c-g"
SITES = ("b", "c", "d", "e", "f", "g")
"""Those other than the publisher's."""
BEGIN_S, SILENT_S = 3.0, 8.0
MESSAGES = ("Offer", "Forward", "Replicate", "Replicated")
REPORT_TIMERS = (1.5, 3.0)


class Point(Struct, frozen=True, forbid_unknown_fields=True):
    """One run."""

    what: Literal["routing", "recovery"]
    routing: Literal["flooding", "filtering"] = "filtering"
    interested: int = len(SITES)
    """How many of the six other sites want what is published."""
    timers: Literal["report", "adaptive"] = "adaptive"
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


def points(quick: bool) -> list[Point]:
    """All points; seed by seed, so that what has run so far is a whole."""
    seeds = range(1, 2 if quick else 6)
    operations = 60 if quick else 300
    shares = (0, 2, 6) if quick else (0, 1, 2, 3, 4, 5, 6)
    found: list[Point] = []
    for seed in seeds:
        for interested, routing in product(shares, ("flooding", "filtering")):
            found.append(Point("routing", routing, interested, operations=operations, seed=seed))  # type: ignore[arg-type]
    for seed, timers in product(range(1, 5 if quick else 21), ("report", "adaptive")):
        found.append(Point("recovery", timers=timers, seed=seed))  # type: ignore[arg-type]
    return found


def run(point: Point) -> Row:
    """The row of a point."""
    scenario = _routing(point) if point.what == "routing" else _recovery(point)
    sim = scenario.build(replay=point.replay())
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
        protocol="sesdad",
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
    entries += [(BEGIN_S + number * 0.02, Publish("p@a", "t", b"x" * 64)) for number in range(point.operations)]
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
    processed = sum(sim.node(name).traffic.processed for name in sim.tree) / 3  # type: ignore[union-attr]
    shares = [sim.node(f"a.{number}").traffic.sent for number in (1, 2, 3)]  # type: ignore[union-attr]
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
    )
