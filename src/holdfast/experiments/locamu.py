"""The experiments of the LoCaMu thesis' chapter 5, as runs in the simulator.

A point is a world (protocol, tree, tolerance, groups) that is let come to rest once, and loads that are put on it one
after the other: so many publishers, messages, bytes a second. Everything that clients were given is judged at the end.

Throughput is that of the middle half of a load's deliveries, so neither the filling of the tree nor its emptying
counts. A publisher alone publishes at the root, and what counts is how fast its messages come at each subscriber.
"""

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from statistics import fmean
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from holdfast.experiments.locamu_worlds import LocamuWorld, client
from holdfast.model.errors import HoldfastError
from holdfast.simulation.faults import Crash, Publish, Recover
from holdfast.simulation.hosts import Reports
from holdfast.simulation.world import Simulation

PROTOCOLS = ("locamu", "delta-neighbourhood", "cbcast", "barriers", "ginger")
OUTLIVING = ("locamu", "ginger")
"""Those that are run with a broker that is away."""
BEGIN_S = 0.1
LIMIT_S = 3600.0
VICTIM = "1"
"""Who is absent in a run with a fault: a child of the root, with half of the tree behind it."""
FAULT_S, BACK_S = 0.1, 1.1
"""When it goes and when it is back, after the first publication."""
SATURATING_BYTES = 16
"""A load without an interval is published twice as fast as the root could send payloads with so much metadata."""

Mbps = Annotated[float, Meta(gt=0, le=1e6)]


class LocamuLoad(Struct, frozen=True, forbid_unknown_fields=True):
    """What is published, and with which bandwidth."""

    publishers: Annotated[int, Meta(ge=1)] = 1
    messages: Annotated[int, Meta(ge=1, le=100_000)] = 64
    """Of each publisher."""
    interval_ms: Annotated[float, Meta(ge=0)] = 0.0
    """Between two messages of a publisher; 0: as fast as possible."""
    mbps: Mbps = 100.0
    payload_bytes: Annotated[int, Meta(ge=1, le=1 << 20)] = 32
    as_thesis: bool = False
    """Whether frames weigh what the thesis counts, instead of what they do on our wire."""
    warm: bool = False
    """Whether everybody publishes once before, uncounted: then messages depend on others from the first one on."""

    @property
    def bytes_per_s(self) -> float:
        return self.mbps * 1e6 / 8

    @property
    def interval_s(self) -> float:
        if self.interval_ms:
            return self.interval_ms / 1000
        return self.publishers * (self.payload_bytes + SATURATING_BYTES) / self.bytes_per_s


class LocamuPoint(Struct, frozen=True, forbid_unknown_fields=True):
    """One world and its loads."""

    protocol: str = "locamu"
    brokers: Annotated[int, Meta(ge=2, le=1 << 16)] = 511
    fan_out: Annotated[int, Meta(ge=1, le=64)] = 2
    tolerance: Annotated[int, Meta(ge=1, le=4)] = 1
    subtrees: bool = False
    """Whether there is a group for every subtree, instead of one for all."""
    loads: tuple[LocamuLoad, ...] = (LocamuLoad(),)
    absent: bool = False
    """Whether a broker is away for a second in the midst of each load."""
    seed: int = 1

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"there is no protocol {self.protocol!r} here; it is one of {', '.join(PROTOCOLS)}")
        if not self.loads:
            raise ValueError("a point without loads measures nothing: give at least one, as in [{}]")
        most = max(load.publishers for load in self.loads)
        if most > self.brokers:
            raise ValueError(f"{most} publishers need as many brokers, and there are {self.brokers}")
        if self.absent and self.protocol not in OUTLIVING:
            raise ValueError(f"nobody can be absent with {self.protocol}; with {' or '.join(OUTLIVING)} one can")

    def replay(self) -> str:
        """The command that runs this point alone."""
        return f"holdfast experiment locamu --point '{msgspec.json.encode(self).decode()}'"


class LocamuResult(Struct, frozen=True):
    """What came of one load."""

    load: LocamuLoad
    deliveries: int
    per_s: float
    """Deliveries a second, of all nodes together."""
    header_bytes: float
    """Metadata of a message on a link, on average."""
    header_bytes_max: int
    beside_bytes: float
    """Bytes of frames without messages, for each message on a link."""
    span_s: float
    """From the first publication to the last delivery."""
    gap_ms: float
    """The longest time without a delivery, of the average subscriber."""
    gap_ms_max: float
    busiest_bytes: int
    """What the broker has sent to others that sent most."""

    def sustained_per_s(self, mbps: float) -> float:
        """Deliveries a second that brokers with that bandwidth can go on with: as fast as the busiest of them can send.

        Not more than publishers at their pace have to say, and for no others.
        """
        offered = self.deliveries / (self.load.messages * self.load.interval_s)
        return min(offered, self.deliveries * mbps * 1e6 / 8 / self.busiest_bytes) if self.busiest_bytes else offered


class LocamuRow(Struct, frozen=True):
    """What came of a point; results are worth something only if every promise was `kept`."""

    point: LocamuPoint
    kept: bool
    complaint: str
    results: list[LocamuResult]
    events: int
    virtual_s: float


def run(point: LocamuPoint) -> LocamuRow:
    """Make the run and judge it; whatever goes wrong is in the row."""
    results: list[LocamuResult] = []
    kept, complaint, events, virtual_s = False, "", 0, 0.0
    try:
        world = LocamuWorld(
            point.protocol, point.brokers, point.fan_out, point.tolerance, point.subtrees, point.seed, point.absent
        )
        expected = 0
        for load in point.loads:
            result, wanted = _carry(world, point, load)
            results.append(result)
            expected += wanted
        sim = world.sim
        events, virtual_s = sim.kernel.events, round(sim.now, 6)
        verdict = sim.check()
        failures = sim.failures()
        came = verdict.ok and verdict.deliveries == expected
        kept = came and not failures
        missing = [] if came else [f"{verdict}; {verdict.deliveries} deliveries of {expected}"]
        complaint = "; ".join([*missing, *failures])
    except (HoldfastError, AssertionError, LookupError, TypeError, ValueError, AttributeError) as broken:
        # One point that cannot be run is no reason to lose all others.
        complaint = f"{type(broken).__name__}: {broken}"
    return LocamuRow(point, kept, complaint, results, events, virtual_s)


def _carry(world: LocamuWorld, point: LocamuPoint, load: LocamuLoad) -> tuple[LocamuResult, int]:
    """Put the load on the world; the result, and how many deliveries there should be."""
    sim, scale, expected = world.sim, world.scale, 0
    world.limit(load.bytes_per_s, load.as_thesis)
    if load.warm:
        expected += _publish(world, point, replace(load, messages=1), sim.now + BEGIN_S)
        sim.run_until_quiet(LIMIT_S)
        world.limit(load.bytes_per_s, load.as_thesis)
    begun = len(sim.reports)
    expected += _publish(world, point, load, sim.now + BEGIN_S)
    if point.absent:
        sim.at(sim.now + BEGIN_S + FAULT_S, Crash(VICTIM))
        sim.at(sim.now + BEGIN_S + BACK_S, Recover(VICTIM))
    sim.run_until_quiet(LIMIT_S)
    # What each copy weighed is known to the scale already, and there are very many of these rows.
    sim.reports[begun:] = [row for row in sim.reports[begun:] if row[2].event != "relay"]
    times = _deliveries(sim.reports[begun:])
    every = sorted(time_s for one in times.values() for time_s in one)
    gaps = [1000 * max(b - a for a, b in pairwise(one)) for one in times.values() if len(one) > 1]
    copies = max(1, scale.copies)
    result = LocamuResult(
        load,
        len(every),
        round(_alone(list(times.values())) if load.publishers == 1 else _rate(every), 1),
        round(scale.header_bytes / copies, 2),
        scale.header_bytes_max,
        round(scale.beside_bytes / copies, 2),
        round(every[-1] - _first(sim, begun), 6) if every else 0.0,
        round(fmean(gaps), 3) if gaps else 0.0,
        round(max(gaps, default=0.0), 3),
        sim.network.busiest_bytes(),
    )
    return result, expected


def _publish(world: LocamuWorld, point: LocamuPoint, load: LocamuLoad, begin_s: float) -> int:
    """Ask the clients to publish; how many deliveries that makes."""
    guarantee = "fifo" if point.protocol == "delta-neighbourhood" else "causal"
    chance, payload, expected = Random(f"{point.seed} groups"), b"x" * load.payload_bytes, 0
    for place in range(load.publishers):
        broker = place * point.brokers // load.publishers
        groups = world.groups(broker)
        # Publishers take turns within an interval, so that they do not all speak at once.
        first_s = begin_s + load.interval_s * place / load.publishers
        for number in range(load.messages):
            group = chance.choice(groups)
            expected += world.members(group)
            world.sim.at(first_s + number * load.interval_s, Publish(client(broker), group, payload, guarantee))
    return expected


# ------------------------------------------------------------------------------------------------------ measuring


def _deliveries(reports: Reports) -> dict[str, list[float]]:
    """When each subscriber was given messages."""
    times: dict[str, list[float]] = {}
    for time_s, name, report in reports:
        if report.event == "deliver" and report.batch is not None:
            times.setdefault(name, []).extend([time_s] * report.batch.count)
    return times


def _first(sim: Simulation, begun: int) -> float:
    return next(time_s for time_s, _, report in sim.reports[begun:] if report.event == "publish")


def _rate(times_s: Sequence[float]) -> float:
    """Deliveries a second in the middle half of these times."""
    low, high = len(times_s) // 4, 3 * len(times_s) // 4
    span_s = times_s[high] - times_s[low] if high > low else 0.0
    return (high - low) / span_s if span_s else 0.0


def _alone(times_s: Sequence[Sequence[float]]) -> float:
    """The same where one publisher is heard by all: as fast as at each of them, together."""
    return sum(map(_rate, times_s))
