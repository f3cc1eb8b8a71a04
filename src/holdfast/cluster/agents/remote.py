"""A machine that is elsewhere: what is asked of it goes to its agent."""

import asyncio
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from signal import Signals
from time import monotonic
from typing import Any, TypeVar

import msgspec

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
    is_proof,
    new_nonce,
    proof,
    read_secret,
)
from holdfast.cluster.agents.requests import Reply, Request, Seen
from holdfast.cluster.config import Cluster
from holdfast.cluster.machines import LocalMachine, MachineError, Machines, Running
from holdfast.model.errors import ConfigError

CONNECT_S = 3.0
CALL_S = 10.0
DOWN_S = 1.0
"""An agent that gave no answer is not asked again for so long: whoever asks about ten processes waits once."""
POLL_S = 0.05
T = TypeVar("T")


class AgentConnection:
    """A connection to an agent that both ends have proved; calls block, one at a time."""

    def __init__(self, machine: str, address: tuple[str, int], secret: bytes) -> None:
        self._machine, self._address, self._secret = machine, address, secret
        self._socket: socket.socket | None = None
        self._incoming = self._outgoing = Seal(b"", "")
        self._lock = threading.Lock()
        self._down_until = 0.0
        self._reason = ""
        self.session = ""
        """Said at the beginning of every connection, if there is one: processes started for it live as long."""

    def call(self, request: Request) -> Any:
        """What the agent says to that; raises `MachineError` if it cannot be asked, `ConfigError` if it refuses."""
        with self._lock:
            reply = self._call(request)
        if reply.error:
            raise ConfigError(f"machine {self._machine}: {reply.error}")
        return reply.value

    def _call(self, request: Request) -> Reply:
        if monotonic() < self._down_until:
            raise self._lost(self._reason)
        fresh = self._socket is None
        try:
            return self._exchange(request)
        except (OSError, EOFError, ForgedError, msgspec.MsgspecError) as error:
            self.close()
            if fresh or isinstance(request, asked.Start):
                # A process may have been started, or not: whoever asks for it again is told.
                raise self._fail(error) from None
        # The agent may have been started again since: ask the new one.
        try:
            return self._exchange(request)
        except (OSError, EOFError, ForgedError, msgspec.MsgspecError) as error:
            self.close()
            raise self._fail(error) from None

    def _fail(self, error: Exception) -> MachineError:
        self._down_until, self._reason = monotonic() + DOWN_S, _reason_of(error)
        return self._lost(self._reason)

    def _lost(self, reason: str) -> MachineError:
        host, port = self._address
        return MachineError(f"the agent of machine {self._machine} at {host}:{port} cannot be asked: {reason}.")

    def _exchange(self, request: Request) -> Reply:
        if self._socket is None:
            self._connect()
            if self.session and not isinstance(request, asked.Hold):
                self._send(asked.Hold(self.session))
        return self._send(request)

    def _send(self, request: Request) -> Reply:
        assert self._socket is not None
        self._socket.sendall(framed(self._outgoing.seal(msgspec.msgpack.encode(request))))
        return msgspec.msgpack.decode(self._incoming.open(self._frame(FRAME_BYTES_MAX)), type=Reply)

    def _connect(self) -> None:
        self._socket = socket.create_connection(self._address, CONNECT_S)
        self._socket.settimeout(CALL_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        challenge = msgspec.msgpack.decode(self._frame(GREETING_BYTES_MAX), type=Challenge)
        nonce, secret = new_nonce(), self._secret
        answer = Answer(nonce, proof(secret, "master", challenge.nonce, nonce))
        self._socket.sendall(framed(msgspec.msgpack.encode(answer)))
        try:
            welcome = msgspec.msgpack.decode(self._frame(GREETING_BYTES_MAX), type=Welcome)
        except (EOFError, ConnectionError):
            said = "the secret that we have" if secret else "that we have no secret"
            raise ForgedError(f"it does not accept {said}; see HOLDFAST_AGENT_SECRET_FILE and secret_file") from None
        if not is_proof(welcome.proof, secret, "agent", challenge.nonce, nonce):
            raise ForgedError("it does not know our secret, so it is another agent than it should be")
        key = proof(secret, "session", challenge.nonce, nonce)
        self._outgoing, self._incoming = Seal(key, "master"), Seal(key, "agent")

    def _frame(self, bytes_max: int) -> bytes:
        length = int.from_bytes(self._exactly(LENGTH_BYTES), "big")
        if length > bytes_max:
            raise ForgedError(f"it sends a frame of {length} bytes; is it an agent?")
        return self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        assert self._socket is not None
        pieces, left = [], count
        while left:
            piece = self._socket.recv(min(left, 1 << 16))
            if not piece:
                raise EOFError("it has closed the connection")
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __del__(self) -> None:
        # Commands ask a machine and end; what they forget to close is not worth a warning.
        self.close()


def _reason_of(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "nobody listens there; start `holdfast agent` on that machine"
    if isinstance(error, TimeoutError):
        return "it gives no answer in time"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


class RemoteMachine:
    """The machine of an agent, as seen by the master of one cluster."""

    def __init__(self, name: str, cluster: str, connection: AgentConnection) -> None:
        self._name, self._cluster, self._connection = name, cluster, connection
        self._directory: Path | None = None

    def hold(self, session: str) -> None:
        """From now on processes are started for this session, and end with it."""
        self._connection.session = session

    def directory(self) -> Path:
        if self._directory is None:
            self._directory = Path(self._connection.call(asked.Hello(self._cluster))["directory"])
        return self._directory

    def start(self, kind: str, name: str, module: str, settings: str) -> Running:
        session = self._connection.session
        request = asked.Start(self._cluster, kind, name, module, settings, session)
        started = msgspec.convert(self._connection.call(request), Running)
        return msgspec.structs.replace(started, machine=self._name)

    def signal(self, one: Running, number: Signals) -> bool:
        return bool(self._connection.call(asked.Signal(self._cluster, one.title, one.process, int(number))))

    def _look(self, one: Running) -> Seen:
        return msgspec.convert(self._connection.call(asked.Look(self._cluster, one.title, one.process)), Seen)

    def is_alive(self, one: Running) -> bool:
        return self._look(one).alive

    def is_frozen(self, one: Running) -> bool:
        return self._look(one).frozen

    def exit_code(self, one: Running) -> int | None:
        return self._look(one).exit_code

    def wait(self, one: Running, timeout_s: float) -> int:
        limit, pause = monotonic() + timeout_s, threading.Event()
        while (seen := self._look(one)).alive and monotonic() < limit:
            pause.wait(POLL_S)
        if seen.alive:
            raise MachineError(f"{one.title} on machine {self._name} does not end within {timeout_s:g} s.")
        return seen.exit_code or 0

    def tail(self, log: str) -> str:
        return str(self._connection.call(asked.Tail(log)))

    def read(self, path: str, offset: int) -> bytes:
        return bytes(self._connection.call(asked.Read(path, offset)))

    def free_ports(self, count: int, host: str) -> Sequence[int]:
        return list(self._connection.call(asked.Ports(count, host)))

    async def ask(self, title: str, host: str, port: int, path: str, method: str = "GET") -> dict[str, Any]:  # noqa: ARG002
        try:
            found = await asyncio.to_thread(self._connection.call, asked.Ask(self._cluster, title, path, method))
        except ConfigError as error:
            raise ValueError(str(error).rstrip(".")) from None
        return dict(found)

    def forget(self) -> None:
        """The cluster is no more: its agent need not remember its processes, nor keep what those of a session wrote."""
        self._connection.call(asked.Forget(self._cluster, remove=bool(self._connection.session)))

    def close(self) -> None:
        self._connection.close()


def machines_of(cluster: Cluster, local: LocalMachine | None = None) -> Machines:
    """This machine, and those that the cluster names."""
    others = {}
    for one in cluster.machines:
        secret = read_secret(Path(one.secret_file).expanduser() if one.secret_file else None)
        connection = AgentConnection(one.name, one.place, secret)
        others[one.name] = RemoteMachine(one.name, cluster.name, connection)
    return Machines(local, others)
