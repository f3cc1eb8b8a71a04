"""The experiments of the Ginger thesis' section 5.4, as trials in the simulator.

A trial is the thesis' tuple `test <n_key_items, n_operations, eventual, causal, linear, msg_interval, n_faults>` on its
tree, with its latencies. All faults of a trial happen at once, in the middle of the publishing; for figures 5.4 and 5.5
they are the root's children, one after the other (5.4.1), and for figure 5.3 they are chosen so that the brokers that
an orphan asks are dead, too, which takes a higher tolerance.

Beyond the thesis: everything is repeated at an interval of a second, where messages hardly ever meet.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from holdfast.cluster.evaluation import default_cluster
from holdfast.experiments.regions import network
from holdfast.experiments.repairs import RepairTrial, repairs
from holdfast.model.errors import ConfigError, HoldfastError
from holdfast.model.guarantees import GUARANTEES
from holdfast.simulation.faults import Crash, Subscribe
from holdfast.simulation.hosts import Reports
from holdfast.simulation.scenarios import Load, Scenario, Timed
from holdfast.simulation.trees import print_tree
from holdfast.simulation.workloads import QUIET_HEALING_S

KEYS = (1, 10, 100, 1000)
FAULTS: tuple[tuple[str, ...], ...] = ((), ("1",), ("1", "2"), ("1", "2", "3"))
"""Who dies, by the number of faults: the root's children."""
ORPHANING: tuple[tuple[str, ...], ...] = (
    *(("1",), ("2",), ("3",)),
    *(("1", "0"), ("2", "0"), ("3", "0")),
    *(("1", "0", "2"), ("3", "0", "1")),
    ("1", "0", "2", "3"),
)
"""Who dies, so that some broker needs one, two, three and four rounds: its parent, then those it would turn to."""
SIBLINGS_TOLERANCE = 1
THESIS_MS, APART_MS = 50.0, 1000.0
PACES_MS = (50.0, 100.0, 200.0, 400.0, 1000.0, 2000.0)
THESIS_KEYS = 100

BEGIN_S = 20.0
"""By then the tree is up and every subscription confirmed."""
FELT_S = 2.0
"""About as long as a repair lasts: messages published within this time after the faults are looked at apart."""
JOIN_S = 10.0
"""A broker in Asia doubts for six round trips, 2.9 s: the default of 2 s would give it up while it does."""
LIMIT_S = 7200.0
SHARE_OF_TOTAL = 0.3

Share = Annotated[float, Meta(ge=0, le=1)]


class GingerTrial(Struct, frozen=True, forbid_unknown_fields=True):
    """One run: the thesis' tuple, who dies, and a seed."""

    keys: Annotated[int, Meta(ge=1, le=1_000_000)] = THESIS_KEYS
    operations: Annotated[int, Meta(ge=1, le=100_000)] = 500
    """Publications of each client."""
    eventual: Share = 0.4
    causal: Share = 0.3
    total: Share = SHARE_OF_TOTAL
    interval_ms: Annotated[float, Meta(gt=0, le=3_600_000)] = THESIS_MS
    victims: tuple[str, ...] = ()
    tolerance: Annotated[int, Meta(ge=0, le=8)] = SIBLINGS_TOLERANCE
    seed: int = 1

    @property
    def fault_s(self) -> float:
        """When the victims die, if there are any: in the middle of the publishing."""
        return BEGIN_S + self.operations * self.interval_ms / 2000

    def replay(self) -> str:
        """The command that runs this trial alone."""
        return f"holdfast experiment ginger --point '{msgspec.json.encode(self).decode()}'"


class Latency(Struct, frozen=True):
    """How long messages of one guarantee took from their publication to each subscriber."""

    count: int
    mean_ms: float
    p50_ms: float
    p99_ms: float
    max_ms: float


class GingerRow(Struct, frozen=True):
    """What came of a trial. Latencies are only worth something if every promise was `kept`."""

    trial: GingerTrial
    kept: bool
    """Whether everything was delivered once and in order, as far as the checkers see."""
    complaint: str
    """What went wrong; a repair that had to guess an order is worth a complaint even if it guessed well."""
    deliveries: int
    virtual_s: float
    latency: dict[str, Latency]
    """By guarantee, over all messages."""
    felt: dict[str, Latency]
    """The same for those published within `FELT_S` after the faults, or after the moment when they would have been."""
    repairs: list[RepairTrial]


# --------------------------------------------------------------------------------------------------------- points


def trials(quick: bool) -> list[GingerTrial]:
    """Every trial, each once (figure 5.4 is a part of 5.5), seed by seed: what has run so far is always a whole."""
    found = list(dict.fromkeys(_trials(quick)))
    return sorted(found, key=lambda trial: trial.seed)


def _trials(quick: bool) -> Iterator[GingerTrial]:
    operations = {THESIS_MS: 100 if quick else 500, APART_MS: 60 if quick else 200}
    seeds = {THESIS_MS: range(1, 2 if quick else 6), APART_MS: range(1, 4 if quick else 11)}
    for seed, victims in product(range(1, 2 if quick else 4), ORPHANING):
        yield GingerTrial(operations=operations[THESIS_MS], victims=victims, tolerance=len(victims), seed=seed)
    for pace, victims, keys in product(operations, FAULTS, KEYS):
        for seed in seeds[pace]:
            yield GingerTrial(keys, operations[pace], interval_ms=pace, victims=victims, seed=seed)
    for pace, seed in product(PACES_MS, seeds[THESIS_MS]):
        yield GingerTrial(operations=operations.get(pace, operations[APART_MS]), interval_ms=pace, seed=seed)
    for seed in seeds[THESIS_MS]:
        yield GingerTrial(operations=operations[THESIS_MS], eventual=0.55, causal=0.45, total=0.0, seed=seed)


# ------------------------------------------------------------------------------------------------------------ run


def run(trial: GingerTrial) -> GingerRow:
    """Make the run and judge it; whatever goes wrong is in the row."""
    sim = scenario(trial).build(replay=trial.replay())
    kept, complaint, deliveries = False, "", 0
    try:
        sim.run_until_quiet(LIMIT_S, QUIET_HEALING_S)
        verdict = sim.check()
        deliveries = verdict.deliveries
        kept = verdict.ok and deliveries == expected_deliveries(trial)
        complaint = "; ".join([*([] if kept else [str(verdict)]), *sim.failures(), *sim.unrepaired()])
    except HoldfastError as error:
        complaint = str(error)
    published = list(_waits_s(sim.reports))
    felt = [one for one in published if trial.fault_s <= one[1] < trial.fault_s + FELT_S]
    return GingerRow(
        trial,
        kept,
        complaint,
        deliveries,
        round(sim.now, 6),
        _latencies(published),
        _latencies(felt),
        repairs(sim.reports, sim.tree, trial.fault_s) if trial.victims else [],
    )


def scenario(trial: GingerTrial) -> Scenario:
    """The trial on the thesis' tree: who subscribes to what, who publishes, who dies."""
    cluster = default_cluster()
    mix = {"eventual": trial.eventual, "causal": trial.causal, "total": trial.total}
    if not any(mix.values()):
        raise ConfigError("trial: eventual, causal and total are all 0; give one of them a share above 0.")
    every_s = trial.interval_ms / 1000
    loads = [
        Load((f"{one.name}@{one.broker}",), one.topics[0], trial.operations, every_s, BEGIN_S, mix, trial.keys)
        for one in cluster.clients
    ]
    subscriptions = [Timed(0.0, Subscribe(f"{one.name}@{one.broker}", one.topics[0])) for one in cluster.clients]
    crashes = [Timed(trial.fault_s, Crash(name)) for name in trial.victims]
    return Scenario(
        tree=print_tree({broker.name: broker.parent for broker in cluster.brokers}),
        name="ginger evaluation",
        seed=trial.seed,
        limit_s=LIMIT_S,
        tolerance=trial.tolerance,
        join_s=JOIN_S,
        network=network(),
        loads=tuple(loads),
        timetable=(*subscriptions, *crashes),
    )


def expected_deliveries(trial: GingerTrial) -> int:
    """Everybody publishes on the topic that it subscribes to, and gets its own messages like the others'."""
    topics = [client.topics[0] for client in default_cluster().clients]
    return trial.operations * sum(topics.count(topic) for topic in topics)


# -------------------------------------------------------------------------------------------------------- figures


def _waits_s(reports: Reports) -> Iterator[tuple[str, float, float]]:
    """Of each delivery the guarantee, when its message was published, and how long it took."""
    published: dict[tuple[str, int], float] = {}
    for time_s, _, report in reports:
        batch = report.batch
        if batch is None:
            continue
        for seq in range(batch.first, batch.last + 1):
            if report.event == "publish":
                published[batch.publisher, seq] = time_s
            elif report.event == "deliver":
                at_s = published[batch.publisher, seq]
                yield GUARANTEES[batch.guarantee].value, at_s, time_s - at_s


def _latencies(waits: Sequence[tuple[str, float, float]]) -> dict[str, Latency]:
    by_guarantee: dict[str, list[float]] = {}
    for guarantee, _, wait_s in waits:
        by_guarantee.setdefault(guarantee, []).append(1000 * wait_s)
    names = [guarantee.value for guarantee in GUARANTEES if guarantee.value in by_guarantee]
    return {name: _latency(sorted(by_guarantee[name])) for name in names}


def _latency(waits_ms: Sequence[float]) -> Latency:
    count = len(waits_ms)
    # The nearest rank: the smallest value that at least that share of all does not exceed.
    p50, p99 = (waits_ms[-(-share * count // 100) - 1] for share in (50, 99))
    return Latency(count, round(sum(waits_ms) / count, 3), round(p50, 3), round(p99, 3), round(waits_ms[-1], 3))
