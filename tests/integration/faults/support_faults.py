"""A tree of broker processes, clients that never stop publishing, faults in between, and the verdict on it all."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec

import holdfast
from holdfast.cluster.config import LOOPBACK, Broker, Cluster, checked
from holdfast.cluster.ports import free_port_pairs
from holdfast.cluster.processes import Processes
from holdfast.cluster.status import broker_status
from holdfast.model.guarantees import TOTAL, Guarantee
from holdfast.model.trace import Event
from holdfast.protocols.registry import find_protocol
from holdfast.runtime.settings import BrokerSettings
from holdfast.services.bank import account_numbers, workload
from holdfast.services.replica import Replica, open_replica
from holdfast.simulation.checkers import Verdict, check
from tests.integration.support_brokers import QUICK
from tests.integration.support_proxy import BreakingProxy

BANK, NEWS = "bank/lisbon", "news/all"
BANK_SHARE = 0.6
PATIENCE_S = 20.0
RATE = 1000
"""Messages a second that all clients publish together, where the machine can."""
UNDER_WAY_MAX = 1000
"""How many of them may be on their way: on a machine that is busy with other things traffic must not pile up."""

TREE = {"0": None, "1": "0", "2": "0", "3": "1", "4": "1", "5": "2"}
MOVES, MOVES_SHOWN = ("attach", "detach", "move"), 8
HOMES = ("3", "3", "4", "5", "2")


class ProxiedProcesses(Processes):
    """Brokers that everybody reaches through a proxy, which breaks connections when it is told to."""

    proxies: dict[str, BreakingProxy]

    def settings_of(self, broker: Broker, *, newcomer: bool) -> BrokerSettings:
        settings = super().settings_of(broker, newcomer=newcomer)
        addresses = {name: (LOOPBACK, self.proxies[name].port) for name in settings.addresses}
        advertised = f"{LOOPBACK}:{self.proxies[broker.name].port}"
        # Here a broken connection must never be taken for a lost broker, however busy the machine is.
        patient = {"suspect_s": 1.5, "link": QUICK}
        return msgspec.structs.replace(settings, addresses=addresses, advertised=advertised, **patient)

    def address_of(self, name: str) -> str:
        return f"holdfast://{LOOPBACK}:{self.proxies[name].port}"

    def break_all(self) -> None:
        for proxy in self.proxies.values():
            proxy.break_all()

    @property
    def breaks(self) -> int:
        return sum(proxy.breaks for proxy in self.proxies.values())


@asynccontextmanager
async def tree_of_processes(
    directory: Path,
    parents: dict[str, str | None],
    tolerance: int = 1,
    proxied: bool = False,
    degree_max: int = 0,
    protocol: str = "ginger",
) -> AsyncIterator[Processes]:
    """The brokers of a tree, each a process of its own, all ready; gone at the end."""
    ports = free_port_pairs(len(parents))
    brokers = tuple(
        Broker(name, parent, LOOPBACK, port, health_port)
        for (name, parent), (port, health_port) in zip(parents.items(), ports, strict=True)
    )
    cluster = checked(Cluster("faults", protocol, brokers, (), tolerance, degree_max=degree_max), "the test")
    async with AsyncExitStack() as stack:
        if not proxied:
            processes = Processes(cluster, directory, attached=True)
        else:
            processes = ProxiedProcesses(cluster, directory, attached=True)
            processes.proxies = {
                broker.name: await stack.enter_async_context(BreakingProxy(broker.port, seed, mean_bytes=10**9))
                for seed, broker in enumerate(brokers)
            }
        async with started(processes):
            yield processes


@asynccontextmanager
async def started(processes: Processes) -> AsyncIterator[None]:
    await processes.start_brokers()
    try:
        yield
    finally:
        for running in processes.running:
            # Whether brokers leave gracefully is for other tests: these have seen enough.
            processes_kill(processes, running.name)
        await processes.stop()


async def settled(processes: Processes) -> None:
    """Return when no broker waits for anything any more."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            said = [(await broker_status(broker)).status for broker in processes.cluster.brokers]
            if all(one.get("waiting_for") == [] for one in said):
                return
            await asyncio.sleep(0.02)


def processes_kill(processes: Processes, name: str) -> None:
    if any(one.name == name and one.process.is_alive() for one in processes.running):
        processes.crash(name)


class Player:
    """A client that is a replica of the bank, if that can be, and also publishes and reads news of its own."""

    def __init__(
        self, client: holdfast.Client, replica: Replica, news: holdfast.Subscription, seed: int, bank_share: float
    ) -> None:
        self.client, self.replica, self._news, self._bank_share = client, replica, news, bank_share
        self._chance = Random(f"{seed}/{client.name}")
        self.published = self.read = 0
        self.following: list[asyncio.Task[None]] = []

    @property
    def delivered(self) -> int:
        return self.read + self.replica.bank.applied

    def follow(self) -> None:
        self.following = [asyncio.create_task(self.replica.follow()), asyncio.create_task(self._read())]

    async def _read(self) -> None:
        async for _ in self._news:
            self.read += 1

    async def publish_until(self, done: asyncio.Event, interval_s: float, room: Callable[[], bool]) -> None:
        """One message an interval, where there is room: operations of the bank, fifo, causal and eventual news."""
        operations = iter(workload(self._chance, account_numbers(20), 20_000))
        loop = asyncio.get_running_loop()
        begun_at, guarantees = loop.time(), [Guarantee(name) for name in ("fifo", "fifo", "causal", "eventual")]
        while not done.is_set():
            if not room():
                # Not now: the next interval may find some.
                begun_at += interval_s
                await asyncio.sleep(interval_s)
                continue
            if self._chance.random() < self._bank_share:
                await self.replica.perform(next(operations))
            else:
                await self.client.publish(NEWS, b"news %d" % self.published, self._chance.choice(guarantees))
            self.published += 1
            await asyncio.sleep(max(0.0, begun_at + self.published * interval_s - loop.time()))


class Stage:
    """Everything that a story of faults needs: the processes, the players, and what they have seen."""

    def __init__(self, processes: Processes, players: list[Player], rows: list[Event], under_way_max: int) -> None:
        self.processes, self.players, self.rows, self._under_way_max = processes, players, rows, under_way_max

    @property
    def published(self) -> int:
        return sum(player.published for player in self.players)

    def has_room(self) -> bool:
        return self.published - min(player.delivered for player in self.players) < self._under_way_max

    async def until(self, condition: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
        """Return when the condition holds; whoever stops following meanwhile says why."""
        loop = asyncio.get_running_loop()
        limit = loop.time() + timeout_s
        while not condition():
            for task in (task for player in self.players for task in player.following if task.done()):
                task.result()
            assert loop.time() < limit, f"{what}: not within {timeout_s:g} s; {await self.state()}"
            await asyncio.sleep(0.002)

    async def flows_again(self) -> None:
        """Return when every player has, of every player, something that was published after this call."""
        since = {player.client.identity: player.client.next_seq for player in self.players}
        awaited = {(node, publisher) for node in since for publisher in since}
        at = len(self.rows)

        def fresh() -> bool:
            nonlocal at
            for row in self.rows[at:]:
                if row.event == "deliver" and row.seq >= since[row.publisher]:
                    awaited.discard((row.node, row.publisher))
            at = len(self.rows)
            return not awaited

        await self.until(fresh, "messages of all reach all")

    async def passes(self, messages: int) -> None:
        """Return when that many more messages have been published."""
        target = self.published + messages
        await self.until(lambda: self.published >= target, f"{messages} more messages are published")

    async def is_ready(self, name: str) -> None:
        await self.processes.wait_ready(name, PATIENCE_S)

    def log(self, name: str, event: str) -> list[dict[str, Any]]:
        """What that broker has said of such events, the latest last."""
        path = next(Path(one.log) for one in self.processes.running if one.name == name)
        lines = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
        return [line for line in lines if line["event"] == event]

    async def said(self, name: str, event: str) -> None:
        await self.until(lambda: bool(self.log(name, event)), f"broker {name} says {event!r}")

    async def state(self) -> str:
        """What everybody waits for: read when a story does not end."""
        lines = [f"published {self.published}"]
        for player in self.players:
            who = player.client
            moves = [row.event for row in self.rows if row.node == who.identity and row.event in MOVES][-MOVES_SHOWN:]
            lines.append(f"{who.name}@{who.broker} has {player.delivered}, waits for {who.waiting_for()}; {moves}")
        for broker in self.processes.cluster.brokers:
            said = await broker_status(broker)
            shown = {key: said.status.get(key) for key in ("phase", "parent", "children", "clients", "waiting_for")}
            lines.append(f"{broker.name}: {shown if said.status else said.reason}")
        return "\n".join(lines)


async def play(
    directory: Path,
    story: Callable[[Stage], Awaitable[None]],
    parents: dict[str, str | None] = TREE,
    homes: tuple[str, ...] = HOMES,
    *,
    tolerance: int = 1,
    seed: int = 1,
    rate: int = RATE,
    under_way_max: int = UNDER_WAY_MAX,
    proxied: bool = False,
    degree_max: int = 0,
    protocol: str = "ginger",
) -> Verdict:
    """Let everybody publish while the story happens; when all is delivered, the verdict. Replicas must be equal."""
    rows: list[Event] = []
    async with AsyncExitStack() as stack:
        processes = await stack.enter_async_context(
            tree_of_processes(directory, parents, tolerance, proxied, degree_max, protocol)
        )
        # The bank's operations are in total order, partly; where nobody gives that there is only news.
        bank_share = BANK_SHARE if TOTAL in find_protocol(protocol).guarantees else 0.0
        players = []
        for index, home in enumerate(homes):
            client = await stack.enter_async_context(
                holdfast.connect(
                    _address(processes, home), name=f"c{index}", cluster="faults", trace=rows.append, timeout_s=5.0
                )
            )
            replica = await open_replica(client, BANK, account_numbers(20))
            players.append(Player(client, replica, await client.subscribe(NEWS), seed, bank_share))
        stage, done = Stage(processes, players, rows, under_way_max), asyncio.Event()
        for player in players:
            player.follow()
        interval_s = len(players) / rate
        publishing = [asyncio.create_task(player.publish_until(done, interval_s, stage.has_room)) for player in players]
        try:
            await stage.flows_again()
            await story(stage)
            done.set()
            await asyncio.wait_for(asyncio.gather(*publishing), PATIENCE_S)
        finally:
            for task in publishing:
                task.cancel()
            await asyncio.wait(publishing)
        await stage.until(
            lambda: all(player.delivered >= stage.published for player in players), "everything is delivered to all"
        )
        verdict = check(list(rows))
        assert len({player.replica.bank.digest() for player in players}) == 1, "the replicas differ"
        assert verdict.deliveries == stage.published * len(players), (verdict.deliveries, stage.published)
        for player in players:
            for task in player.following:
                task.cancel()
    return verdict


def _address(processes: Processes, home: str) -> str:
    if isinstance(processes, ProxiedProcesses):
        return processes.address_of(home)
    return processes.cluster.broker(home).address
