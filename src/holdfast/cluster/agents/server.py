"""The agent: it listens, lets those in who prove that they know the secret, and does for them what a master may ask.

It ends without its processes: they live on, are written down, and an agent that is started again in the same directory
goes on with them. Only processes of a session, such as those of `holdfast play`, end by themselves when nobody has held
the session for a while: a master that was killed leaves nothing behind.
"""

import asyncio
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.cluster.agents import requests as asked
from holdfast.cluster.agents.handshake import (
    FRAME_BYTES_MAX,
    GREETING_BYTES_MAX,
    LENGTH_BYTES,
    Answer,
    Challenge,
    ForgedError,
    Seal,
    Welcome,
    framed,
    is_loopback,
    is_proof,
    new_nonce,
    proof,
)
from holdfast.cluster.agents.requests import Reply, Request, Seen
from holdfast.cluster.agents.roster import Roster
from holdfast.cluster.machines import read_from
from holdfast.cluster.ports import free_ports
from holdfast.cluster.status import ANSWER_S, get_json
from holdfast.cluster.workers import log_tail
from holdfast.model.errors import ConfigError, LocalMisuse
from holdfast.runtime.logs import ProcessLog
from holdfast.runtime.places import listen_error
from holdfast.storage.locks import Locked, hold

HANDSHAKE_S = 5.0
IDLE_S = 600.0
CONNECTIONS_MAX = 64
GRACE_S = 10.0
"""How long processes of a session live on when nobody holds it."""
STOP_S = 15.0
REAP_S = 1.0
SIGNALS = frozenset({signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT})
MODULES = frozenset(
    {
        "holdfast.cluster.broker_process",
        "holdfast.cluster.repository_process",
        "holdfast.cluster.replica_process",
        "holdfast.cluster.play.client_process",
    }
)
"""What an agent starts, and nothing else."""


class AgentSettings(Struct, frozen=True):
    """Where an agent listens, where it keeps things, and what masters have to know."""

    host: str
    port: int
    directory: Path
    secret: bytes = b""
    grace_s: float = GRACE_S

    def check(self) -> None:
        """Raise `ConfigError` if everybody could command it."""
        if not self.secret and not is_loopback(self.host):
            raise ConfigError(
                f"an agent that listens on {self.host} can be reached from elsewhere, and whoever reaches it can start "
                "processes here: give it a secret, --secret-file FILE, that masters have, too "
                "(`openssl rand -hex 32 > FILE && chmod 600 FILE`); or let it listen on 127.0.0.1."
            )


class Agent:
    """The agent of this machine, inside the current event loop."""

    def __init__(self, settings: AgentSettings, log: ProcessLog) -> None:
        settings.check()
        self._settings, self._log = settings, log
        settings.directory.mkdir(parents=True, exist_ok=True)
        self.roster = Roster(settings.directory)
        self._connections: set[asyncio.StreamWriter] = set()
        self._held: Counter[str] = Counter()
        self._ending: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def listen(self) -> None:
        """Begin to listen, and to look after what an earlier agent has left."""
        settings = self._settings
        try:
            self._server = await asyncio.start_server(self._serve, settings.host, settings.port)
        except OSError as error:
            raise listen_error("the agent", settings.host, settings.port, error) from None
        self.port = int(self._server.sockets[0].getsockname()[1])
        alive = [one.running.title for one in self.roster.entries if one.running.process.is_alive()]
        self._log.info("listening", host=settings.host, port=self.port, found=alive, secret=bool(settings.secret))
        for session in self.roster.sessions():
            self._end_later(session)
        self._spawn(self._reap())

    async def close(self) -> None:
        """Stop listening; processes live on, but those that somebody holds a session for are asked about later."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._connections):
            writer.transport.abort()
        for handle in self._ending.values():
            handle.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.roster.let_go()

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reap(self) -> None:
        while True:
            self.roster.reap()
            await asyncio.sleep(REAP_S)

    # ------------------------------------------------------------------------------------------------- connections

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = str(writer.get_extra_info("peername"))
        if len(self._connections) >= CONNECTIONS_MAX:
            writer.transport.abort()
            return
        self._connections.add(writer)
        held: set[str] = set()
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                key = await self._handshake(reader, writer)
            await self._converse(reader, writer, key, held)
        except ForgedError as error:
            self._log.warning("refused", peer=peer, reason=str(error))
        except (OSError, EOFError, TimeoutError, msgspec.MsgspecError) as error:
            self._log.debug("connection over", peer=peer, reason=str(error))
        finally:
            self._connections.discard(writer)
            writer.transport.abort()
            for session in held:
                self._let_go(session)

    async def _handshake(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        secret, challenge = self._settings.secret, new_nonce()
        writer.write(framed(msgspec.msgpack.encode(Challenge(challenge))))
        answer = msgspec.msgpack.decode(await read_frame(reader, GREETING_BYTES_MAX), type=Answer)
        if not is_proof(answer.proof, secret, "master", challenge, answer.nonce):
            raise ForgedError("it does not know the secret")
        welcome = Welcome(proof(secret, "agent", challenge, answer.nonce))
        writer.write(framed(msgspec.msgpack.encode(welcome)))
        return proof(secret, "session", challenge, answer.nonce)

    async def _converse(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: bytes, held: set[str]
    ) -> None:
        incoming, outgoing = Seal(key, "master"), Seal(key, "agent")
        while True:
            async with asyncio.timeout(IDLE_S):
                body = incoming.open(await read_frame(reader, FRAME_BYTES_MAX))
            request: Request = msgspec.msgpack.decode(body, type=Request)
            if isinstance(request, asked.Hold):
                self._hold(request.session, held)
            reply = msgspec.msgpack.encode(await self._reply(request), enc_hook=str)
            writer.write(framed(outgoing.seal(reply)))
            await writer.drain()

    async def _reply(self, request: Request) -> Reply:
        try:
            return Reply(await self._do(request))
        except LocalMisuse as error:
            return Reply(error=str(error))
        except (OSError, ValueError, TimeoutError) as error:
            return Reply(error=str(error) or "no answer in time")

    # ------------------------------------------------------------------------------------------------------ sessions

    def _hold(self, session: str, held: set[str]) -> None:
        if session not in held:
            held.add(session)
            self._held[session] += 1
        if session in self._ending:
            self._ending.pop(session).cancel()

    def _let_go(self, session: str) -> None:
        self._held[session] -= 1
        if not self._held[session]:
            del self._held[session]
            self._end_later(session)

    def _end_later(self, session: str) -> None:
        loop = asyncio.get_running_loop()
        self._ending[session] = loop.call_later(self._settings.grace_s, lambda: self._spawn(self._end(session)))

    async def _end(self, session: str) -> None:
        self._ending.pop(session, None)
        entries = self.roster.of_session(session)
        if entries:
            self._log.warning("master is gone", session=session, stops=[one.running.title for one in entries])
        for one in entries:
            one.running.process.signal(signal.SIGTERM)
            one.running.process.signal(signal.SIGCONT)
        limit = monotonic() + STOP_S
        while self.roster.of_session(session):
            if monotonic() > limit:
                break
            await asyncio.sleep(REAP_S / 10)
        for one in self.roster.of_session(session):
            one.running.process.signal(signal.SIGKILL)
        for cluster in {one.cluster for one in entries}:
            self.roster.forget(cluster, remove=True)

    # ------------------------------------------------------------------------------------------------------ requests

    async def _do(self, request: Request) -> Any:
        match request:
            case asked.Hello(cluster=cluster):
                return {"directory": str(self._place(cluster))}
            case asked.Hold():
                return None
            case asked.Start():
                return self._start(request)
            case asked.Signal():
                return self._signal(request)
            case asked.Look(cluster=cluster, title=title, process=process):
                return self._look(cluster, title, process)
            case asked.Ask():
                return await self._ask(request)
            case asked.Tail(path=path):
                return log_tail(self._inside(path))
            case asked.Read(path=path, offset=offset):
                return read_from(self._inside(path), max(0, offset))
            case asked.Ports(count=count, host=host):
                if not 0 <= count <= asked.PORTS_MAX:
                    raise ConfigError(f"{count} ports are not given at once; at most {asked.PORTS_MAX}.")
                return list(free_ports(count, host))
            case asked.Forget(cluster=cluster, remove=remove):
                self._place(cluster)
                return self.roster.forget(cluster, remove=remove)
            case asked.List():
                return [
                    {"cluster": one.cluster, "title": one.running.title, "alive": one.running.process.is_alive()}
                    for one in self.roster.entries
                ]

    def _place(self, cluster: str) -> Path:
        """The directory of a cluster, which must not be one above the agent's own."""
        if not cluster or cluster in (".", "..") or "/" in cluster or "\0" in cluster:
            raise ConfigError(f"{cluster!r} is no name of a cluster.")
        return self.roster.directory / cluster

    def _inside(self, path: str) -> Path:
        """A file of the agent's own directory."""
        found = Path(path).resolve()
        if "\0" in path or not found.is_relative_to(self.roster.directory):
            raise ConfigError(f"{path} is not in the directory of this agent.")
        return found

    def _start(self, request: asked.Start) -> Any:
        self._place(request.cluster)
        if request.module not in MODULES or not request.name or "/" in request.name or "/" in request.kind:
            raise ConfigError(f"an agent starts brokers, repositories and clients, and not {request.module}.")
        start = (request.kind, request.name, request.module, request.settings)
        running = self.roster.start(request.cluster, *start, request.session)
        self._log.info("started", cluster=request.cluster, process=running.title, pid=running.process.pid)
        return running

    def _signal(self, request: asked.Signal) -> bool:
        entry = self.roster.find(request.cluster, request.title)
        if request.number not in SIGNALS or entry is None or entry.running.process != request.process:
            return False
        number = signal.Signals(request.number)
        self._log.info("signals", cluster=request.cluster, process=request.title, signal=number.name)
        return self.roster.machine(request.cluster).signal(entry.running, number)

    def _look(self, cluster: str, title: str, process: Any) -> Seen:
        entry = self.roster.find(cluster, title)
        if entry is None or entry.running.process != process:
            return Seen(alive=False)
        machine, running = self.roster.machine(cluster), entry.running
        return Seen(machine.is_alive(running), machine.is_frozen(running), machine.exit_code(running))

    async def _ask(self, request: asked.Ask) -> Any:
        entry = self.roster.find(request.cluster, request.title)
        if entry is None or not entry.health_port:
            raise ConfigError(f"this agent knows no {request.title} of cluster {request.cluster} that could be asked.")
        async with asyncio.timeout(ANSWER_S):
            return await get_json(entry.host, entry.health_port, request.path, request.method)


async def read_frame(reader: asyncio.StreamReader, bytes_max: int) -> bytes:
    """The next frame; one that is too long is an error before it is read."""
    length = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
    if length > bytes_max:
        raise ForgedError(f"a frame of {length} bytes is too long; at most {bytes_max} are taken")
    return await reader.readexactly(length)


async def serve(settings: AgentSettings, ready: Callable[[int], None] = lambda _: None) -> None:
    """Be the agent until a signal ends it; its processes live on."""
    log, stop = ProcessLog("holdfast.agent"), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    settings.check()
    settings.directory.mkdir(parents=True, exist_ok=True)
    try:
        lock = hold(settings.directory / "lock")
    except Locked:
        raise ConfigError(
            f"another agent has the directory {settings.directory}; stop it, or name another one."
        ) from None
    with lock:
        agent = Agent(settings, log)
        try:
            await agent.listen()
            ready(agent.port)
            await stop.wait()
        finally:
            await agent.close()
            log.info("stopped", left_running=[one.running.title for one in agent.roster.entries])
