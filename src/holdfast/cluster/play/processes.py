"""The stage of real processes: a broker, or a client, is a process of its own, on this machine or on others."""

import asyncio
import signal
from pathlib import Path
from secrets import token_hex
from time import monotonic, time_ns

from msgspec.structs import replace

from holdfast.cluster.agents.remote import RemoteMachine
from holdfast.cluster.config import Cluster
from holdfast.cluster.faults import cut, heal
from holdfast.cluster.machines import Machines
from holdfast.cluster.play.cast import Cast
from holdfast.cluster.play.client_process import Order
from holdfast.cluster.play.stage import CONFIRMED_S, SESSION_S, Deed, NotQuietError
from holdfast.cluster.play.statements import (
    ClientLine,
    Crash,
    Cut,
    Freeze,
    Heal,
    Publish,
    Restart,
    Subscribe,
    Unfreeze,
    Unsubscribe,
)
from holdfast.cluster.play.trace_files import TraceFiles
from holdfast.cluster.play.troupe import Troupe
from holdfast.cluster.processes import POLL_S, TRACE, Processes
from holdfast.cluster.status import ClusterStatus, cluster_status
from holdfast.model.identities import name_of
from holdfast.model.trace import Event
from holdfast.runtime.tracing import FLUSH_S
from holdfast.simulation.checkers.survivors import as_survivors_see_it

QUIET_S = 0.5
WAITING = "waits for "


class ProcessStage:
    """A cast of real processes, which live no longer than the play."""

    name = "processes"
    seed = None

    def __init__(self, directory: Path) -> None:
        """Logs, traces and state of the processes go to that directory."""
        self._directory = directory.resolve()
        self._run = f"play-{token_hex(4)}"
        self._cast = Cast()
        self._processes: Processes | None = None
        self._troupe: Troupe | None = None
        self._files = TraceFiles()
        self._frozen: set[str] = set()
        self._dead: set[str] = set()

    @property
    def _all(self) -> Processes:
        assert self._processes is not None, "the stage has begun"
        return self._processes

    @property
    def _clients(self) -> Troupe:
        assert self._troupe is not None, "the stage has begun"
        return self._troupe

    def now_ns(self) -> int:
        return time_ns()

    def horizon_ns(self) -> int:
        return self._files.read_ns - round((FLUSH_S + 0.2) * 1e9)

    async def begin(self, cast: Cast) -> None:
        self._cast = cast
        # Agents tell clusters apart by their names, and several plays may be on at a time.
        cluster = replace(cast.cluster(), name=self._run, session_s=SESSION_S)
        trace = str(self._directory / TRACE)
        processes = Processes(cluster, self._directory, True, trace, self._run)
        self._processes, self._troupe = processes, Troupe(processes, self._run)
        for machine in processes.machines.others.values():
            if isinstance(machine, RemoteMachine):
                machine.hold(self._run)
        processes.cluster = await asyncio.to_thread(self._placed, cluster, processes.machines)
        await processes.start_brokers()
        for broker in cluster.brokers:
            self._follow(broker.machine, broker.name)
        await self._enter(list(cast.clients.values()))

    def _placed(self, cluster: Cluster, machines: Machines) -> Cluster:
        """The cluster on ports that nobody uses, unless the script names some."""
        ports = []
        for one in cluster.brokers:
            line = self._cast.brokers.get(one.name)
            if line is not None and line.port is not None:
                ports.append((one.port, one.health_port))
            else:
                port, health_port = machines[one.machine].free_ports(2, one.host)
                ports.append((port, health_port))
        return cluster.at_ports(ports)

    def _follow(self, machine: str, node: str) -> None:
        """Read the trace of that node as it grows."""
        self._files.follow(self._all.machines[machine], Path(self._all.trace_on(machine)), node)

    async def enter(self, client: ClientLine) -> None:
        await self._enter([client])

    async def _enter(self, lines: list[ClientLine]) -> None:
        await self._clients.enter(lines)
        for line in lines:
            self._follow(line.machine, f"client-{line.name}")

    # ------------------------------------------------------------------------------------------------------- deeds

    async def do(self, deed: Deed) -> str:
        await self._check()
        match deed:
            case Subscribe(client=client, pattern=pattern, where=where):
                token = await self._clients.subscribe(client, pattern, where)
                return await self._answer(client, token) if deed.waits else ""
            case Unsubscribe(client=client, pattern=pattern, where=where):
                return await self._answer(client, await self._clients.unsubscribe(client, pattern, where))
            case Publish():
                await self._clients.publish(deed.client, self._order(deed))
            case Crash(node=node):
                await self._crash(node)
            case Freeze(node=node):
                await self._signal(node, signal.SIGSTOP)
                self._note_frozen(node, frozen=True)
            case Unfreeze(node=node):
                await self._signal(node, signal.SIGCONT)
                self._note_frozen(node, frozen=False)
            case Restart(node=node):
                await asyncio.to_thread(self._all.restart, node)
                self._dead.discard(node)
            case Cut(one=one, other=other):
                await cut(self._all.cluster, one, other, self._all.machines.ask_broker)
            case Heal():
                await heal(self._all.cluster, self._all.machines.ask_broker)
        return ""

    async def _check(self) -> None:
        """Raise the reason if a process has ended though nobody killed it; a machine may take a while to answer."""
        await asyncio.to_thread(self._all.check)

    async def _answer(self, client: str, token: str) -> str:
        answer = await self._clients.answered(client, token, CONFIRMED_S)
        if answer is None:
            return f"not confirmed within {CONFIRMED_S:g} s; the script goes on"
        return "" if answer == "done" else answer

    def _order(self, publish: Publish) -> Order:
        return Order(
            publish.count,
            publish.topic,
            self._cast.guarantee_of(publish),
            publish.interval_ms,
            publish.keys,
            publish.attributes,
            publish.size_bytes,
        )

    async def _crash(self, node: str) -> None:
        self._frozen.discard(node)
        self._dead.add(node)
        if node in self._clients.members:
            self._clients.members[node].crashed = True
            self._all.expect_end(f"client {node}")
            await self._signal(node, signal.SIGKILL)
        else:
            await asyncio.to_thread(self._all.crash, node)

    async def _signal(self, node: str, number: signal.Signals) -> None:
        kind = "client" if node in self._clients.members else "broker"
        one = self._all.find(f"{kind} {node}")
        if one is not None:
            await asyncio.to_thread(self._all.machines.signal, one, number)

    def _note_frozen(self, node: str, *, frozen: bool) -> None:
        if frozen:
            self._frozen.add(node)
        else:
            self._frozen.discard(node)
        if node in self._clients.members:
            self._clients.members[node].frozen = frozen

    # ------------------------------------------------------------------------------------------------------ waiting

    async def wait(self, ms: float) -> None:
        limit = monotonic() + ms / 1000
        while (left := limit - monotonic()) > 0:
            await self._check()
            await asyncio.sleep(min(left, QUIET_S))

    async def wait_quiet(self, limit_s: float) -> None:
        limit, calm_since, rows = monotonic() + limit_s, monotonic(), -1
        while True:
            await self._check()
            busy = await self._busy()
            count = sum(row.event in ("deliver", "publish") for row in await self.rows())
            if busy or count != rows:
                calm_since = monotonic()
            if monotonic() - calm_since >= QUIET_S:
                return
            if monotonic() > limit:
                raise NotQuietError(f"not quiet within {limit_s:g} s: {'; '.join(busy) or 'messages keep arriving'}")
            rows = count
            await asyncio.sleep(POLL_S)

    async def _busy(self) -> list[str]:
        """Who waits for what: clients with something under way, and brokers that do not serve or repair the tree."""
        if found := await self._clients.busy():
            return found
        seen = await self._look()
        for broker in seen.brokers:
            if broker.name in self._dead | self._frozen:
                continue
            if not broker.ready:
                found.append(f"broker {broker.name}: {broker.reason}")
            found += [f"broker {broker.name} {why}" for why in broker.healing if why.startswith(WAITING)]
        return found

    async def _look(self) -> ClusterStatus:
        """The brokers that can answer; asking a frozen one takes seconds."""
        cluster = self._all.cluster
        absent = self._dead | self._frozen
        asked = tuple(one for one in cluster.brokers if one.name not in absent)
        return await cluster_status(replace(cluster, brokers=asked), self._all.machines.ask_broker)

    # ------------------------------------------------------------------------------------------------------- seeing

    async def status(self) -> ClusterStatus:
        return await cluster_status(self._all.cluster, self._all.machines.ask_broker)

    async def frozen(self, node: str) -> bool:
        return node in self._frozen

    async def rows(self) -> list[Event]:
        return await self._files.rows()

    def judged(self, rows: list[Event]) -> list[Event]:
        crashed = {
            member.name: list(member.asked.values()) for member in self._clients.members.values() if member.crashed
        }
        nodes = {row.node for row in rows}
        dead = {node: crashed[name_of(node)] for node in nodes if name_of(node) in crashed}
        return as_survivors_see_it(rows, dead) if dead else rows

    async def end(self) -> None:
        if self._processes is not None:
            for member in self._clients.members.values():
                self._processes.expect_end(f"client {member.name}")
            await self._processes.stop()
