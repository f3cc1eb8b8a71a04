"""A cluster as processes of this machine: start them, know that they are ready, stop them.

Every process is in a session of its own, so Ctrl-C in a terminal reaches only whoever started the cluster, who then
stops it. A detached cluster outlives its starter and is written down in a state directory, from which it is stopped; an
attached one never outlives its starter, however that ends.
"""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from holdfast.cluster.broker_process import ATTACHED
from holdfast.cluster.config import LOOPBACK, Broker, Client, Cluster
from holdfast.cluster.pids import ProcessId, process_id
from holdfast.cluster.reliable_config import Repository
from holdfast.cluster.status import broker_status, health_of
from holdfast.cluster.workers import log_tail
from holdfast.model.errors import ConfigError, HoldfastError
from holdfast.protocols.config import SUBSCRIPTIONS_MAX, LinkConfig
from holdfast.runtime.serving import EXIT_MISUSE
from holdfast.runtime.settings import JOIN_S, SESSION_BYTES_MAX, SESSION_S, SUSPECT_S, WATCHFUL_LINK, BrokerSettings
from holdfast.runtime.tracing import RUN
from holdfast.services.repository import RepositorySettings

BROKER_MODULE = "holdfast.cluster.broker_process"
REPLICA_MODULE = "holdfast.cluster.replica_process"
REPOSITORY_MODULE = "holdfast.cluster.repository_process"
STATE = "state"
"""Where brokers keep their state, in the directory that their logs are in."""
READY_S = 30.0
POLL_S = 0.03
DRAIN_S = 10.0
STOP_S = DRAIN_S + 5.0
KILL_S = 5.0
SERVERS = ("broker", "repository")
STORES_IN_FILES = ("sqlite", "segments")
BEATS_PER_SILENCE = 4
T = TypeVar("T")


class ProcessError(HoldfastError):
    """Raised when a process of the cluster ended, or did not get ready, without anybody asking for it."""


class Running(Struct, frozen=True):
    """A process that was started: what it is, which one it is, and where its log is."""

    kind: str
    name: str
    process: ProcessId
    log: str

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}"


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
    near = {broker.parent, *(name for edge in edges for name in edge)}
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
        link=link_of(cluster.silence_s) if cluster.tolerance and cluster.silence_s else None,
        suspect_s=cluster.suspect_s or SUSPECT_S,
        join_s=cluster.join_s or JOIN_S,
        session_s=cluster.session_s or SESSION_S,
        session_bytes_max=cluster.session_bytes_max or SESSION_BYTES_MAX,
        subscriptions_max=cluster.subscriptions_max or SUBSCRIPTIONS_MAX,
        degree_max=cluster.degree_max,
        experiments=broker.host == LOOPBACK,
        trace=trace,
        run=run,
        drain_s=DRAIN_S,
    )


def repository_settings(cluster: Cluster, one: Repository, directory: Path | None = None) -> RepositorySettings:
    """What the process of that repository is told; a store without an absolute path is below that directory."""
    home = cluster.broker(one.broker)
    others = [broker.address for broker in cluster.brokers if broker.name != one.broker]
    store = one.store or f"sqlite:{one.name}.db"
    kind, _, place = store.partition(":")
    if kind in STORES_IN_FILES:
        # Whoever restarts it may stand in another directory.
        store = f"{kind}:{(directory or Path()).resolve() / 'stores' / place}"
    return RepositorySettings(
        name=one.name,
        addresses=(home.address, *(others if cluster.tolerance and not cluster.is_fixed else ())),
        store=store,
        streams=one.streams,
        cluster=cluster.name,
        level=one.level,
        inspect_s=one.inspect_s,
        retention=one.retention,
        owners=tuple(said for said in cluster.reliable if said.stream in one.streams),
        host=home.host,
        health_port=one.health_port,
    )


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
        self.cluster, self._attached, self._trace, self._run = cluster, attached, trace, run
        self._launchers = launchers or {}
        self._directory, self._logs = directory, directory / "logs"
        self.running: list[Running] = []
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._crashed: set[str] = set()

    async def start_brokers(
        self, ready: Callable[[str], None] = lambda _name: None, timeout_s: float = READY_S
    ) -> None:
        """Start all brokers and return when each is ready; if one is not, say why, with none left behind."""
        try:
            for broker in self.cluster.parents_first():
                self._start_broker(self.settings_of(broker, newcomer=False))
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
        return broker_settings(
            self.cluster, broker, self._trace, self._run, newcomer=newcomer, directory=self._directory
        )

    def _start_broker(self, settings: BrokerSettings) -> None:
        self._start("broker", settings.name, BROKER_MODULE, msgspec.json.encode(settings).decode())

    def start_replica(self, client: Client) -> None:
        """Start a client of the cluster's file: a replica of the bank on each of its topics."""
        settings = {
            "name": client.name,
            "address": self.cluster.broker(client.broker).address,
            "cluster": self.cluster.name,
            "topics": client.topics,
            "trace": self._trace,
            "run": self._run,
        }
        self._start("client", client.name, REPLICA_MODULE, msgspec.json.encode(settings).decode())

    async def start_repositories(self, timeout_s: float = READY_S) -> None:
        """Start the repositories of the cluster's file, and return when each has caught up with the others."""
        for one in self.cluster.repositories:
            self._start_repository(one)
        for one in self.cluster.repositories:
            await self.wait_repository(one.name, timeout_s)

    def _start_repository(self, one: Repository) -> None:
        settings = repository_settings(self.cluster, one, self._logs.parent)
        kind, _, place = settings.store.partition(":")
        if kind in STORES_IN_FILES:
            Path(place).parent.mkdir(parents=True, exist_ok=True)
        self._start("repository", one.name, REPOSITORY_MODULE, msgspec.json.encode(settings).decode())

    async def wait_repository(self, name: str, timeout_s: float = READY_S) -> None:
        """Return when that repository serves all its streams; if it does not, say why."""
        one, title = self.cluster.repository(name), f"repository {name}"
        host = self.cluster.broker(one.broker).host
        try:
            async with asyncio.timeout(timeout_s):
                while not (await health_of(host, one.health_port)).get("ready"):
                    code = self._children[title].poll() if title in self._children else None
                    if code is not None:
                        raise self._ended(title, code)
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            tail = log_tail(self._logs / f"repository-{name}.log")
            raise ProcessError(f"{title} is not ready within {timeout_s:g} s. Its log ends:\n{tail}") from None

    def _start(self, kind: str, name: str, module: str, settings: str) -> None:
        self._logs.mkdir(parents=True, exist_ok=True)
        log = self._logs / f"{kind}-{name}.log"
        command = [*self._launchers.get(f"{kind} {name}", ()), sys.executable, "-m", module, settings]
        # What an earlier process of the same name said is worth keeping: it may have been killed for a test.
        with log.open("ab") as output:
            child = subprocess.Popen(
                [*command, ATTACHED] if self._attached else command,
                stdin=subprocess.PIPE if self._attached else subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._children[f"{kind} {name}"] = child
        self.running.append(Running(kind, name, process_id(child.pid), str(log)))

    async def _wait_ready(self, broker: Broker, ready: Callable[[str], None]) -> None:
        title = f"broker {broker.name}"
        while True:
            code = self._children[title].poll() if title in self._children else None
            if code is not None:
                raise self._ended(title, code)
            if (await broker_status(broker)).ready:
                ready(broker.name)
                return
            await asyncio.sleep(POLL_S)

    def _ended(self, title: str, code: int) -> HoldfastError:
        tail = log_tail(Path(next(one.log for one in self.running if one.title == title)))
        if code == EXIT_MISUSE:
            sentence = tail.strip().splitlines()[-1].strip() if tail else "it did not say why"
            kind = title.partition(" ")[0]
            return ConfigError(f"{title} cannot start: {sentence.removeprefix(f'holdfast {kind}: ')}")
        return ProcessError(f"{title} ended with exit code {code} before it was ready. Its log ends:\n{tail}")

    async def _not_ready(self, timeout_s: float) -> ProcessError:
        answers = await asyncio.gather(*map(broker_status, self.cluster.brokers))
        late = [answer for answer in answers if not answer.ready]
        if not late:
            return ProcessError(f"the brokers were not ready within {timeout_s:g} s.")
        tail = log_tail(self._logs / f"broker-{late[0].name}.log")
        names = ", ".join(answer.name for answer in late)
        return ProcessError(
            f"not ready within {timeout_s:g} s: {names}. Broker {late[0].name}: {late[0].reason}. Its log ends:\n{tail}"
        )

    # ----------------------------------------------------------------------------------------------------- faults

    def crash(self, name: str) -> None:
        """Kill that broker or repository: no last words, no drain."""
        title = self._title(name)
        self._crashed.add(title)
        signal_node(self.running, name, signal.SIGKILL)
        if title in self._children:
            self._children[title].wait()

    def dismiss(self, name: str, timeout_s: float = STOP_S) -> int:
        """Ask that broker or repository to leave, and wait for it to; returns its exit code."""
        title = self._title(name)
        self._crashed.add(title)
        signal_node(self.running, name, signal.SIGTERM)
        return self._children[title].wait(timeout_s)

    def freeze(self, name: str) -> None:
        """Stop that broker in its tracks; its connections stay open and silent."""
        signal_node(self.running, name, signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """Let a frozen broker go on."""
        signal_node(self.running, name, signal.SIGCONT)

    def restart(self, name: str) -> None:
        """Start that broker or repository again, with the same identity.

        Where brokers repair the tree a broker is a newcomer to it; where they pass over whoever is absent it goes on
        with what it has written down. A repository finds its store again, and gets what it
        missed from the others.
        """
        title = self._title(name)
        self.running[:] = [one for one in self.running if one.title != title or one.process.is_alive()]
        if any(one.title == title for one in self.running):
            raise ConfigError(f"{title} is running; crash it first, or thaw it if it is frozen.")
        earlier = self._children.pop(title, None)
        if earlier is not None and earlier.stdin is not None:
            earlier.stdin.close()
        if self._is_repository(name):
            self._start_repository(self.cluster.repository(name))
        else:
            self._start_broker(self.settings_of(self.cluster.broker(name), newcomer=True))
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
            for one in self.running:
                code = self._children[one.title].poll()
                if code is not None and one.title not in self._crashed:
                    tail = log_tail(Path(one.log))
                    return ProcessError(f"{one.title} ended with exit code {code} in mid-work. Its log ends:\n{tail}")
            await asyncio.sleep(POLL_S)

    async def stop(self) -> list[str]:
        """Stop everything that was started; returns the titles of those that had to be killed."""
        killed = await stop_processes(self.running)
        for child in self._children.values():
            child.wait()
            # Not before: the end of its input tells a broker to stop, and being told twice makes it leave at once.
            if child.stdin is not None:
                child.stdin.close()
        self._children.clear()
        self.running.clear()
        return killed

    def let_go(self) -> list[Running]:
        """Leave the processes running: from now on they are somebody else's to stop."""
        for child in self._children.values():
            # Else the interpreter would complain at its end that a child is still there, which is the intention.
            child.returncode = 0
        self._children.clear()
        return list(self.running)


def signal_node(running: list[Running], name: str, number: signal.Signals) -> str:
    """Send a signal to the process of that broker or repository, and return what it is; or say that there is none."""
    for one in running:
        if one.name == name and one.kind in SERVERS and one.process.signal(number):
            return one.title
    raise ConfigError(f"{name} is not running; start it again with `holdfast restart {name}`.")


async def kill_node(running: list[Running], name: str) -> str:
    """Kill that broker or repository, and return what it was when it is gone."""
    title = signal_node(running, name, signal.SIGKILL)
    await _wait_gone([one for one in running if one.title == title], KILL_S)
    return title


async def stop_processes(running: list[Running]) -> list[str]:
    """Clients, repositories, brokers, leaves before the root: SIGTERM, a bounded wait, SIGKILL for whoever remains."""
    killed: list[str] = []
    for kind in ("client", "repository", "broker"):
        group = [one for one in reversed(running) if one.kind == kind]
        for one in group:
            one.process.signal(signal.SIGTERM)
            # A frozen one hears nothing until it goes on.
            one.process.signal(signal.SIGCONT)
        remaining = await _wait_gone(group, STOP_S)
        killed += [one.title for one in remaining if one.process.signal(signal.SIGKILL)]
        await _wait_gone(remaining, KILL_S)
    return killed


async def _wait_gone(group: list[Running], timeout_s: float) -> list[Running]:
    """Who of these is still there after that time."""
    deadline = monotonic() + timeout_s
    while remaining := [one for one in group if one.process.is_alive()]:
        if monotonic() >= deadline:
            return remaining
        await asyncio.sleep(POLL_S)
    return []
