"""The demonstration: a tree of real brokers, five clients, the bank workload of the Ginger evaluation, and the proof.

Everything runs on loopback as processes of its own, and on the way some brokers are killed. When all clients have what
all published, their histories are put together and judged by the checkers, which know nothing of brokers; and since
every client is a replica of its bank, the replicas of a bank must end with equal balances.
"""

import asyncio
import shutil
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from secrets import token_hex
from time import monotonic
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.cluster.bench.samples import percentile
from holdfast.cluster.config import Client, Cluster
from holdfast.cluster.demo_client import DemoClientSettings
from holdfast.cluster.ports import free_port_pairs
from holdfast.cluster.processes import STATE, Processes
from holdfast.cluster.repairs import Assassin, Kill, RepairMeasurement, repairs
from holdfast.cluster.status import ClusterStatus
from holdfast.cluster.workers import Worker
from holdfast.model.errors import ConfigError
from holdfast.model.guarantees import GUARANTEES
from holdfast.model.trace import Event
from holdfast.services.bank import ACCOUNTS
from holdfast.simulation.checkers import Verdict, check
from holdfast.storage.traces import read_trace

CLIENT_MODULE = "holdfast.cluster.demo_client"
PAGE = "report.html"
"""Under the report: what `pipeline.report` makes of all the rest."""
RECORDINGS = "recordings"
"""Under the report: what was delivered to each client, payloads included."""
SUMMARY = "summary.json"
OPERATIONS = 500
INTERVAL_MS = 10.0
SUBSCRIBED_S = 30.0
SLACK_S = 60.0
CLOSED_S = 15.0

Progress = Callable[[str, int, int], None]


class DemoLatency(Struct, frozen=True):
    """The messages of one guarantee: how many, delivered how often, and how long a delivery took."""

    guarantee: str
    messages: int
    deliveries: int
    p50_ms: float
    p99_ms: float


class Tree(Struct, frozen=True):
    """Who is below whom."""

    parents: dict[str, str | None]
    """The broker above each broker; of the root None."""
    clients: dict[str, str]
    """The broker of each client."""


class DemoSummary(Struct, frozen=True):
    """What the demonstration found."""

    ok: bool
    brokers: int
    clients: int
    operations: int
    seed: int
    seconds: float
    messages: int
    messages_expected: int
    deliveries: int
    deliveries_expected: int
    verdict: dict[str, Any]
    latencies: Sequence[DemoLatency]
    kills: Sequence[str]
    repairs: Sequence[RepairMeasurement]
    balances: dict[str, str]
    replicas_equal: bool
    refused_operations: int
    trace: str
    run: str = ""
    protocol: str = ""
    tolerance: int = 0
    interval_ms: float = INTERVAL_MS
    kill_times_ns: Sequence[int] = ()
    """When each of the `kills` happened, on the clock of the trace."""
    trees: Sequence[Tree] = ()
    """As it was before the first kill, and as it was when it was last seen whole; one if nobody was killed."""
    audit: dict[str, Any] | None = None
    """The verdict of the Spark audit, if there was one."""


class DemoPlan(Struct, frozen=True):
    """What to run and where to put what it leaves."""

    cluster: Cluster
    report: Path
    operations: int = OPERATIONS
    interval_ms: float = INTERVAL_MS
    accounts: int = ACCOUNTS
    seed: int = 1
    kills: tuple[str, ...] = ()
    """Brokers to kill on the way, one after the other."""
    launchers: dict[str, tuple[str, ...]] = {}
    """Words to put before the commands of processes, by their titles: `broker 1`, `client c0`."""

    def check(self) -> None:
        if not self.cluster.clients or any(len(client.topics) != 1 for client in self.cluster.clients):
            raise ConfigError("the demonstration needs a cluster with clients that have one topic each.")
        for name in self.kills:
            self.cluster.broker(name)
        if self.kills and not self.cluster.tolerance:
            raise ConfigError("brokers can only be killed in a cluster that repairs itself: give it a tolerance of 1.")
        if len(set(self.kills)) >= len(self.cluster.brokers) or len(set(self.kills)) < len(self.kills):
            raise ConfigError("each broker can be killed once, and one has to survive.")


def _silent(phase: str, done: int, total: int) -> None:
    """Shows nothing."""


async def run_demo(
    plan: DemoPlan, progress: Progress = _silent, trouble: Callable[..., Assassin] = Assassin
) -> DemoSummary:
    """Run it on free ports; nothing is left running, whatever happens. `trouble` makes what goes wrong on the way."""
    plan.check()
    cluster = plan.cluster.at_ports(free_port_pairs(len(plan.cluster.brokers)))
    trace, run = _emptied(plan.report / "trace"), f"demo-{token_hex(4)}"
    processes = Processes(cluster, plan.report, True, str(trace), run, plan.launchers)
    assassin = trouble(processes, plan.kills, {client.name: client.topics[0] for client in cluster.clients})
    started_at = monotonic()
    try:
        ready: list[str] = []

        def on_ready(name: str) -> None:
            ready.append(name)
            progress("brokers", len(ready), len(cluster.brokers))

        await processes.start_brokers(on_ready)
        results = await processes.while_alive(_play(plan, cluster, trace, run, assassin, progress))
    finally:
        await processes.stop()
    progress("checking", 0, 1)
    seconds = monotonic() - started_at
    events = await asyncio.to_thread(read_trace, trace)
    judged = await asyncio.to_thread(summed_up, plan, results, events, str(trace), seconds, assassin.kills)
    summary = msgspec.structs.replace(judged, run=run, trees=trees_seen(cluster, assassin.trees))
    write_summary(summary, plan.report)
    progress("checking", 1, 1)
    return summary


def write_summary(summary: DemoSummary, report: Path) -> None:
    """Keep it beside what it is about."""
    (report / SUMMARY).write_bytes(msgspec.json.format(msgspec.json.encode(summary)) + b"\n")


def trees_seen(cluster: Cluster, looks: Sequence[ClusterStatus]) -> list[Tree]:
    """The first and the last look at the tree; if nobody had to look, the one that the cluster's file describes."""
    if not looks:
        parents = {broker.name: broker.parent for broker in cluster.brokers}
        return [Tree(parents, {client.name: client.broker for client in cluster.clients})]
    return [_tree(look, {client.name for client in cluster.clients}) for look in (looks[0], looks[-1])]


def _tree(look: ClusterStatus, clients: set[str]) -> Tree:
    alive = [broker for broker in look.brokers if broker.answers]
    homes = {client: broker.name for broker in alive for client in broker.clients if client in clients}
    return Tree({broker.name: broker.parent for broker in alive}, dict(sorted(homes.items())))


def _emptied(directory: Path) -> Path:
    """An empty directory for traces; of an earlier run, only what a run leaves is removed."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for file in directory.glob("*.jsonl"):
            file.unlink()
        for old in ("logs", STATE, RECORDINGS):
            shutil.rmtree(directory.parent / old, ignore_errors=True)
        for old in (PAGE, SUMMARY):
            (directory.parent / old).unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"the report cannot be written to {directory.parent}: {error.strerror or error}.") from None
    return directory


async def _play(
    plan: DemoPlan, cluster: Cluster, trace: Path, run: str, assassin: Assassin, progress: Progress
) -> dict[str, dict[str, Any]]:
    """Start the clients, let them play, and return what each said at its end."""
    replicas = _replicas(cluster)
    total = deliveries_expected(plan)
    delivered: dict[str, int] = {}
    limit_s = SLACK_S + plan.operations * plan.interval_ms / 1000
    async with AsyncExitStack() as stack:
        workers = [
            await stack.enter_async_context(_worker(plan, cluster, client, replicas[client.topics[0]], trace, run))
            for client in cluster.clients
        ]
        await _all(worker.report("ready", SUBSCRIBED_S) for worker in workers)

        async def played(worker: Worker) -> dict[str, Any]:
            def on_progress(said: dict[str, Any]) -> None:
                delivered[worker.name] = said["delivered"]
                progress("operations", sum(delivered.values()), total)
                assassin.advanced(sum(delivered.values()) / total)

            done: dict[str, Any] = await worker.report("done", limit_s, on_progress)
            on_progress(done)
            return done

        for worker in workers:
            worker.tell("go")
        results = await _beside(assassin.work(progress), _all(played(worker) for worker in workers))
        for worker in workers:
            worker.tell("stop")
        await _all(worker.report("closed", CLOSED_S) for worker in workers)
    return {worker.name: result for worker, result in zip(workers, results, strict=True)}


async def _beside(trouble: Coroutine[Any, Any, None], work: Coroutine[Any, Any, list[Any]]) -> list[Any]:
    """The work's result. Trouble that fails ends it; trouble that is not over when the work is, is called off."""
    killing, playing = asyncio.ensure_future(trouble), asyncio.ensure_future(work)
    try:
        await asyncio.wait({killing, playing}, return_when=asyncio.FIRST_COMPLETED)
        if killing.done():
            killing.result()
        return await playing
    finally:
        for task in (killing, playing):
            task.cancel()
        await asyncio.gather(killing, playing, return_exceptions=True)


async def _all(waits: Any) -> list[Any]:
    """All of them; the first that fails ends the others."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(wait) for wait in waits]
    return [task.result() for task in tasks]


def _worker(plan: DemoPlan, cluster: Cluster, client: Client, replicas: int, trace: Path, run: str) -> Worker:
    settings = DemoClientSettings(
        name=client.name,
        address=cluster.broker(client.broker).address,
        cluster=cluster.name,
        topic=client.topics[0],
        replicas=replicas,
        operations=plan.operations,
        accounts=plan.accounts,
        interval_ms=plan.interval_ms,
        seed=plan.seed,
        trace=str(trace),
        recording=str(plan.report / RECORDINGS / client.name),
        run=run,
        silence_s=cluster.silence_s or 0.0,
    )
    log = plan.report / "logs" / f"client-{client.name}.log"
    launcher = plan.launchers.get(f"client {client.name}", ())
    return Worker(client.name, CLIENT_MODULE, msgspec.structs.asdict(settings), log, launcher=launcher)


# ---------------------------------------------------------------------------------------------------------- the proof


def _replicas(cluster: Cluster) -> Counter[str]:
    """How many replicas each bank (a topic) has."""
    return Counter(client.topics[0] for client in cluster.clients)


def deliveries_expected(plan: DemoPlan) -> int:
    """Each replica publishes its operations, and each replica of the same bank delivers them, its own included."""
    return plan.operations * sum(count * count for count in _replicas(plan.cluster).values())


def summed_up(
    plan: DemoPlan,
    results: dict[str, dict[str, Any]],
    events: Sequence[Event],
    trace: str,
    seconds: float,
    kills: Sequence[Kill] = (),
) -> DemoSummary:
    """Judge the trace, and count: a trace that lacks a client's rows altogether would not be at fault by itself."""
    verdict = check(events)
    digests = {client.name: str(results[client.name]["digest"]) for client in plan.cluster.clients}
    equal = replicas_equal(plan.cluster, digests)
    messages = sum(event.event == "publish" for event in events)
    messages_wanted, deliveries_wanted = plan.operations * len(plan.cluster.clients), deliveries_expected(plan)
    complete = (messages, verdict.deliveries) == (messages_wanted, deliveries_wanted)
    return DemoSummary(
        ok=verdict.ok and equal and complete,
        brokers=len(plan.cluster.brokers),
        clients=len(plan.cluster.clients),
        operations=plan.operations,
        seed=plan.seed,
        seconds=round(seconds, 3),
        messages=messages,
        messages_expected=messages_wanted,
        deliveries=verdict.deliveries,
        deliveries_expected=deliveries_wanted,
        verdict=_as_dict(verdict),
        latencies=latencies(events),
        kills=[one.broker for one in kills],
        repairs=repairs(kills, events),
        balances=digests,
        replicas_equal=equal,
        refused_operations=sum(int(result["refused"]) for result in results.values()),
        trace=trace,
        protocol=plan.cluster.protocol,
        tolerance=plan.cluster.tolerance,
        interval_ms=plan.interval_ms,
        kill_times_ns=[one.time for one in kills],
    )


def _as_dict(verdict: Verdict) -> dict[str, Any]:
    return dict(verdict.as_dict())


def replicas_equal(cluster: Cluster, digests: dict[str, str]) -> bool:
    """Whether the replicas of every bank (the clients of one topic) have the same balances."""
    by_topic: dict[str, set[str]] = {}
    for client in cluster.clients:
        by_topic.setdefault(client.topics[0], set()).add(digests[client.name])
    return all(len(different) == 1 for different in by_topic.values())


def latencies(events: Sequence[Event]) -> list[DemoLatency]:
    """From each publication to each of its deliveries, by guarantee; all on the clock of one machine."""
    published = {(event.publisher, event.seq): event for event in events if event.event == "publish"}
    messages = Counter(event.guarantee for event in published.values())
    taken_ms: dict[str, list[float]] = {guarantee: [] for guarantee in messages}
    for event in events:
        if event.event == "deliver" and (origin := published.get((event.publisher, event.seq))) is not None:
            taken_ms[origin.guarantee].append((event.time - origin.time) / 1e6)
    return [
        DemoLatency(
            guarantee.value,
            messages[guarantee],
            len(taken_ms[guarantee]),
            round(percentile(taken_ms[guarantee], 0.5), 3),
            round(percentile(taken_ms[guarantee], 0.99), 3),
        )
        for guarantee in GUARANTEES
        if messages[guarantee]
    ]
