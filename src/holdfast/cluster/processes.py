"""A cluster as processes of this machine: start them, know that they are ready, stop them.

Every process is in a session of its own, so Ctrl-C in a terminal reaches only whoever started the cluster, who then
stops it. A detached cluster outlives its starter and is written down in a state directory, from which it is stopped; an
attached one never outlives its starter, however that ends.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

import msgspec

from holdfast.cluster.agents.remote import RemoteMachine, machines_of
from holdfast.cluster.config import LOOPBACK, Broker, Client, Cluster
from holdfast.cluster.machines import HERE, LocalMachine, MachineError, Machines, Running
from holdfast.cluster.reliable_config import RepositoryEntry
from holdfast.cluster.status import broker_status
from holdfast.model.errors import ConfigError, HoldfastError, WorkFailed
from holdfast.protocols.config import SUBSCRIPTIONS_MAX, LinkConfig
from holdfast.runtime.serving import EXIT_MISUSE
from holdfast.runtime.settings import JOIN_S, SESSION_BYTES_MAX, SESSION_S, SUSPECT_S, WATCHFUL_LINK, BrokerSettings
from holdfast.runtime.tracing import RUN
from holdfast.services.repository_settings import RepositorySettings

BROKER_MODULE = "holdfast.cluster.broker_process"
REPLICA_MODULE = "holdfast.cluster.replica_process"
REPOSITORY_MODULE = "holdfast.cluster.repository_process"
TRACE = "trace"
"""Where traces are, in the directory of a cluster on another machine."""
STATE = "state"
"""Where brokers keep their state, in the directory that their logs are in."""
READY_S = 60.0
"""A dozen brokers that start on a busy machine take half of it; a broker that ends meanwhile is told at once."""
POLL_S = 0.03
DRAIN_S = 10.0
STOP_S = DRAIN_S + 5.0
KILL_S = 5.0
SERVERS = ("broker", "repository")
STORES_IN_FILES = ("sqlite", "segments")
BEATS_PER_SILENCE = 4
T = TypeVar("T")


class ProcessError(WorkFailed):
    """Raised when a process of the cluster ended, or did not get ready, without anybody asking for it."""


def broker_settings(
    cluster: Cluster,
    broker: Broker,
    trace: str = "",
    run: str = RUN,
    *,
    newcomer: bool | None = False,
    directory: Path | None = None,
) -> BrokerSettings:
    """What the process of that broker is told. A `newcomer` joins a tree that is there already.

    It keeps its state where the cluster's file says, else below the directory.
    """
    beside = "" if directory is None else str(directory.resolve() / STATE)
    edges = cluster.edges_around(broker.name)
    heals = cluster.tolerance > 0 and not cluster.is_fixed
    site = cluster.site_of(broker.name)
    sites = () if site is None else cluster.sites_around(site)
    near = {broker.parent, *(name for edge in edges for name in edge), *(name for one in sites for name in one.members)}
    known = [one for one in cluster.brokers if one.name != broker.name and (heals or one.name in near)]
    return BrokerSettings(
        name=broker.name,
        parent=broker.parent,
        cluster=cluster.name,
        protocol=cluster.protocol,
        host=broker.host,
        port=broker.port,
        health_port=broker.health_port,
        addresses={one.name: (one.host, one.port) for one in known},
        neighbours={one.name: (one.host, one.port) for one in cluster.brokers if one.parent == broker.name},
        edges=edges,
        tolerance=cluster.tolerance,
        join=tuple(one.name for one in known) if heals else (),
        newcomer=newcomer if newcomer is None or cluster.is_fixed else newcomer and heals and bool(known),
        state_dir=cluster.state_dir or beside,
        brokers=len(cluster.brokers) if heals else 0,
        link=link_of(cluster.silence_s) if (cluster.tolerance or sites) and cluster.silence_s else None,
        suspect_s=cluster.suspect_s or SUSPECT_S,
        join_s=cluster.join_s or JOIN_S,
        session_s=cluster.session_s or SESSION_S,
        session_bytes_max=cluster.session_bytes_max or SESSION_BYTES_MAX,
        subscriptions_max=cluster.subscriptions_max or SUBSCRIPTIONS_MAX,
        degree_max=cluster.degree_max,
        site="" if site is None else site.name,
        sites=tuple((one.name, one.members) for one in sites),
        upper_site="" if site is None else site.parent or "",
        routing=cluster.routing,
        request_s=cluster.request_s,
        notify_s=cluster.notify_s,
        experiments=broker.host == LOOPBACK or bool(broker.machine),
        trace=trace,
        run=run,
        drain_s=DRAIN_S,
    )


def repository_settings(cluster: Cluster, one: RepositoryEntry, directory: Path | None = None) -> RepositorySettings:
    """What the process of that repository is told; a store without an absolute path is below that directory."""
    home = cluster.broker(one.broker)
    others = [broker.address for broker in cluster.brokers if broker.name != one.broker]
    if cluster.sites:
        others = [address for address in cluster.addresses_of(one.broker) if address != home.address]
    store = one.store or f"sqlite:{one.name}.db"
    kind, _, place = store.partition(":")
    if kind in STORES_IN_FILES:
        # Whoever restarts it may stand in another directory.
        store = f"{kind}:{(directory or Path()).resolve() / 'stores' / place}"
    return RepositorySettings(
        name=one.name,
        addresses=(home.address, *(others if cluster.sites or (cluster.tolerance and not cluster.is_fixed) else ())),
        store=store,
        streams=one.streams,
        cluster=cluster.name,
        level=one.level,
        inspect_s=one.inspect_s,
        retention=one.retention,
        owners=tuple(said for said in cluster.reliable if said.stream in one.streams),
        host=repository_host(cluster, one),
        health_port=one.health_port,
    )


def repository_host(cluster: Cluster, one: RepositoryEntry) -> str:
    """Where a repository listens: at the address of its machine, or beside its broker."""
    there = next((machine for machine in cluster.machines if machine.name == one.machine), None)
    return cluster.broker(one.broker).host if there is None else there.place[0]


def link_of(silence_s: float) -> LinkConfig:
    """Links on which a peer is given up after that silence; it is asked several times before."""
    return msgspec.structs.replace(WATCHFUL_LINK, silence_s=silence_s, heartbeat_s=silence_s / BEATS_PER_SILENCE)


class Processes:
    """The processes of one cluster. Whoever starts them stops them, or writes them down for somebody else to."""

    def __init__(
        self,
        cluster: Cluster,
        directory: Path,
        attached: bool,
        trace: str = "",
        run: str = RUN,
        launchers: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """`launchers` has the words to put before the command of a process, by its title such as `broker 1`."""
        self.cluster, self._trace, self._run, self._directory = cluster, trace, run, directory
        self.machines = machines_of(cluster, LocalMachine(directory, attached, launchers))
        self.running: list[Running] = []
        self._crashed: set[str] = set()

    async def start_brokers(
        self, ready: Callable[[str], None] = lambda _name: None, timeout_s: float = READY_S
    ) -> None:
        """Start all brokers and return when each is ready; if one is not, say why, with none left behind."""
        try:
            for broker in self.cluster.parents_first():
                self._start_broker(broker, newcomer=False)
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*(self._wait_ready(broker, ready) for broker in self.cluster.brokers))
        except TimeoutError:
            failure = await self._not_ready(timeout_s)
            await self.stop()
            raise failure from None
        except BaseException:
            await self.stop()
            raise

    def settings_of(self, broker: Broker, *, newcomer: bool) -> BrokerSettings:
        """What the process of that broker is told. One that comes back goes on with the trace of its first life."""
        trace, directory = self.trace_on(broker.machine), self._home(broker.machine)
        return broker_settings(self.cluster, broker, trace, self._run, newcomer=newcomer, directory=directory)

    def _home(self, machine: str) -> Path:
        return self.machines[machine].directory()

    def trace_on(self, machine: str) -> str:
        """The directory for traces on that machine; empty if there is to be no trace."""
        return str(self._home(machine) / TRACE) if self._trace and machine else self._trace

    def _start_broker(self, broker: Broker, *, newcomer: bool) -> None:
        self.start("broker", broker.name, BROKER_MODULE, self.settings_of(broker, newcomer=newcomer), broker.machine)

    def start_replica(self, client: Client) -> None:
        """Start a client of the cluster's file: a replica of the bank on each of its topics."""
        settings = {
            "name": client.name,
            "address": ",".join(self.cluster.addresses_of(client.broker)),
            "cluster": self.cluster.name,
            "topics": client.topics,
            "trace": self.trace_on(client.machine),
            "run": self._run,
        }
        self.start("client", client.name, REPLICA_MODULE, settings, client.machine)

    async def start_repositories(self, timeout_s: float = READY_S) -> None:
        """Start the repositories of the cluster's file, and return when each has caught up with the others."""
        for one in self.cluster.repositories:
            self._start_repository(one)
        for one in self.cluster.repositories:
            await self.wait_repository(one.name, timeout_s)

    def _start_repository(self, one: RepositoryEntry) -> None:
        settings = repository_settings(self.cluster, one, self._home(one.machine))
        kind, _, place = settings.store.partition(":")
        if kind in STORES_IN_FILES and not one.machine:
            Path(place).parent.mkdir(parents=True, exist_ok=True)
        self.start("repository", one.name, REPOSITORY_MODULE, settings, one.machine)

    async def wait_repository(self, name: str, timeout_s: float = READY_S) -> None:
        """Return when that repository serves all its streams; if it does not, say why."""
        one, title = self.cluster.repository(name), f"repository {name}"
        host = repository_host(self.cluster, one)
        try:
            async with asyncio.timeout(timeout_s):
                while not (await self.machines.health_of(title, one.machine, host, one.health_port)).get("ready"):
                    self._check_running(title)
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise ProcessError(f"{title} is not ready within {timeout_s:g} s.{self._log_ends(title)}") from None

    def start(self, kind: str, name: str, module: str, settings: object, machine: str = "") -> Running:
        """Start a process on that machine, and remember it."""
        one = self.machines[machine].start(kind, name, module, msgspec.json.encode(settings).decode())
        self.running.append(one)
        return one

    def find(self, title: str) -> Running | None:
        """The process that was last started under that title."""
        return next((one for one in reversed(self.running) if one.title == title), None)

    def _exit_code(self, one: Running) -> int | None:
        return self.machines[one.machine].exit_code(one)

    def _check_running(self, title: str) -> None:
        """Raise the reason if the process has ended."""
        one = self.find(title)
        code = None if one is None else self._exit_code(one)
        if one is not None and code is not None:
            raise self._ended(one, code)

    def _log_ends(self, title: str) -> str:
        one = self.find(title)
        tail = "" if one is None else self.machines[one.machine].tail(one.log)
        return f" Its log ends:\n{tail}" if tail else ""

    async def _wait_ready(self, broker: Broker, ready: Callable[[str], None]) -> None:
        while True:
            self._check_running(f"broker {broker.name}")
            if (await broker_status(broker, self.machines.ask_broker)).ready:
                ready(broker.name)
                return
            await asyncio.sleep(POLL_S)

    def _ended(self, one: Running, code: int) -> HoldfastError:
        tail = self.machines[one.machine].tail(one.log)
        if code == EXIT_MISUSE:
            sentence = tail.strip().splitlines()[-1].strip() if tail else "it did not say why"
            return ConfigError(f"{one.title} cannot start: {sentence.removeprefix(f'holdfast {one.kind}: ')}")
        return ProcessError(f"{one.title} ended with exit code {code} before it was ready. Its log ends:\n{tail}")

    async def _not_ready(self, timeout_s: float) -> ProcessError:
        ask = self.machines.ask_broker
        answers = await asyncio.gather(*(broker_status(one, ask) for one in self.cluster.brokers))
        late = [answer for answer in answers if not answer.ready]
        if not late:
            return ProcessError(f"the brokers were not ready within {timeout_s:g} s.")
        names, first = ", ".join(answer.name for answer in late), late[0]
        return ProcessError(
            f"not ready within {timeout_s:g} s: {names}. Broker {first.name}: {first.reason}."
            f"{self._log_ends(f'broker {first.name}')}"
        )

    # ----------------------------------------------------------------------------------------------------- faults

    def crash(self, name: str) -> None:
        """Kill that broker or repository: no last words, no drain."""
        self._crashed.add(self._title(name))
        signal_node(self.running, name, signal.SIGKILL, self.machines)

    def dismiss(self, name: str, timeout_s: float = STOP_S) -> int:
        """Ask that broker or repository to leave, and wait for it to; returns its exit code."""
        title = self._title(name)
        self._crashed.add(title)
        signal_node(self.running, name, signal.SIGTERM, self.machines)
        one = next(one for one in self.running if one.title == title)
        return self.machines[one.machine].wait(one, timeout_s)

    def freeze(self, name: str) -> None:
        """Stop that broker in its tracks; its connections stay open and silent."""
        signal_node(self.running, name, signal.SIGSTOP, self.machines)

    def thaw(self, name: str) -> None:
        """Let a frozen broker go on."""
        signal_node(self.running, name, signal.SIGCONT, self.machines)

    def restart(self, name: str) -> None:
        """Start that broker or repository again, with the same identity.

        Where brokers repair the tree a broker is a newcomer to it; where they pass over whoever is absent it goes on
        with what it has written down. A repository finds its store again, and gets what it
        missed from the others.
        """
        title = self._title(name)
        self.running[:] = [one for one in self.running if one.title != title or self.machines.is_alive(one)]
        if any(one.title == title for one in self.running):
            raise ConfigError(f"{title} is running; crash it first, or thaw it if it is frozen.")
        if self._is_repository(name):
            self._start_repository(self.cluster.repository(name))
        else:
            self._start_broker(self.cluster.broker(name), newcomer=True)
        self._crashed.discard(title)

    def _is_repository(self, name: str) -> bool:
        return any(one.name == name for one in self.cluster.repositories)

    def _title(self, name: str) -> str:
        return f"{'repository' if self._is_repository(name) else 'broker'} {name}"

    async def wait_ready(self, name: str, timeout_s: float = READY_S) -> None:
        """Return when that broker, or repository, serves clients."""
        if self._is_repository(name):
            await self.wait_repository(name, timeout_s)
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._wait_ready(self.cluster.broker(name), lambda _name: None)
        except TimeoutError:
            raise await self._not_ready(timeout_s) from None

    async def while_alive(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work; if one of the processes ends meanwhile, give the work up and say which one and why."""
        working, watching = asyncio.ensure_future(work), asyncio.ensure_future(self._first_end())
        try:
            await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise watching.result()
            return working.result()
        finally:
            for task in (working, watching):
                task.cancel()
            await asyncio.gather(working, watching, return_exceptions=True)

    async def _first_end(self) -> ProcessError:
        while True:
            if (found := self.unexpected_end()) is not None:
                return found
            await asyncio.sleep(POLL_S)

    def check(self) -> None:
        """Raise the reason if a process has ended though nobody killed it."""
        if (found := self.unexpected_end()) is not None:
            raise found

    def expect_end(self, title: str) -> None:
        """That process is going to be killed, or stopped: its end is no surprise."""
        self._crashed.add(title)

    def unexpected_end(self) -> ProcessError | None:
        """Which process has ended though nobody killed it, and why; `None` if all is well."""
        for one in self.running:
            try:
                code = None if one.title in self._crashed else self._exit_code(one)
            except MachineError:
                # Its agent is away, or its machine; the process may be well.
                continue
            if code is not None:
                tail = self.machines[one.machine].tail(one.log)
                return ProcessError(f"{one.title} ended with exit code {code} in mid-work. Its log ends:\n{tail}")
        return None

    async def stop(self) -> list[str]:
        """Stop everything that was started; returns the titles of those that had to be killed."""
        killed = await stop_processes(self.running, self.machines)
        self.machines.local.close()
        forget(self.machines)
        self.running.clear()
        return killed

    def let_go(self) -> list[Running]:
        """Leave the processes running: from now on they are somebody else's to stop."""
        self.machines.local.let_go()
        return list(self.running)


def signal_node(running: list[Running], name: str, number: signal.Signals, machines: Machines = HERE) -> str:
    """Send a signal to the process of that broker or repository, and return what it is; or say that there is none."""
    for one in running:
        if one.name == name and one.kind in SERVERS and machines.signal(one, number):
            return one.title
    raise ConfigError(f"{name} is not running; start it again with `holdfast restart {name}`.")


async def kill_node(running: list[Running], name: str, machines: Machines = HERE) -> str:
    """Kill that broker or repository, and return what it was when it is gone."""
    title = signal_node(running, name, signal.SIGKILL, machines)
    await _wait_gone([one for one in running if one.title == title], KILL_S, machines)
    return title


async def stop_processes(running: list[Running], machines: Machines = HERE) -> list[str]:
    """Clients, repositories, brokers, leaves before the root: SIGTERM, a bounded wait, SIGKILL for whoever remains."""
    killed: list[str] = []
    for kind in ("client", "repository", "broker"):
        group = [one for one in reversed(running) if one.kind == kind]
        for one in group:
            await asyncio.to_thread(_end, machines, one)
        remaining = await _wait_gone(group, STOP_S, machines)
        kills = {one.title: partial(machines.signal, one, signal.SIGKILL) for one in remaining}
        killed += [one.title for one in remaining if machines.tried(one, kills[one.title])]
        await _wait_gone(remaining, KILL_S, machines)
    return killed


def _end(machines: Machines, one: Running) -> None:
    """Ask a process to stop; a frozen one hears nothing until it goes on."""
    for number in (signal.SIGTERM, signal.SIGCONT):
        machines.tried(one, partial(machines.signal, one, number))


def forget(machines: Machines) -> None:
    """Everybody has stopped: agents that can be reached need not remember them."""
    for machine in machines.others.values():
        if isinstance(machine, RemoteMachine):
            with suppress(MachineError):
                machine.forget()
            machine.close()


async def _wait_gone(group: list[Running], timeout_s: float, machines: Machines) -> list[Running]:
    """Who of these is still there after that time."""
    deadline = monotonic() + timeout_s
    while remaining := await asyncio.to_thread(machines.alive, group):
        if monotonic() >= deadline:
            return remaining
        await asyncio.sleep(POLL_S)
    return []
