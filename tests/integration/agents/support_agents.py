"""Agents as processes, and raw connections to them."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from holdfast.cluster.agents.handshake import LENGTH_BYTES, Challenge
from holdfast.cluster.agents.remote import AgentConnection, RemoteMachine
from holdfast.cluster.pids import ProcessId, process_id
from holdfast.cluster.ports import free_ports
from holdfast.runtime.settings import BrokerSettings
from tests.integration.cluster.terminal import eventually

SECRET = b"a secret of the tests"
BROKER = "holdfast.cluster.broker_process"
LIMIT_S = 60.0


class AgentProcess:
    """One `holdfast agent`, which can be killed and started again."""

    def __init__(
        self,
        directory: Path,
        host: str = "127.0.0.1",
        port: int = 0,
        secret: bytes = SECRET,
        launcher: Sequence[str] = (),
        grace_s: float = 10.0,
    ) -> None:
        self._grace_s = grace_s
        self.directory, self.host, self.secret, self._launcher = directory, host, secret, launcher
        self.port = port or free_ports(1, host)[0]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def log(self) -> Path:
        return self.directory.with_suffix(".log")

    def start(self) -> None:
        """Start it, and wait until it listens."""
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        command = [*self._launcher, sys.executable, "-m", "holdfast", "agent", "--listen", self.address]
        begun = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--directory", str(self.directory), "--grace-s", str(self._grace_s)],
                env={**os.environ, "HOLDFAST_AGENT_SECRET": self.secret.decode()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        assert eventually(lambda: b"the agent listens on" in self.log.read_bytes()[begun:], LIMIT_S), (
            self.log.read_text()
        )

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(LIMIT_S)
            self._process = None

    def machine(self, cluster: str = "test", secret: bytes | None = None) -> RemoteMachine:
        """The machine as a master sees it."""
        connection = AgentConnection("m1", (self.host, self.port), self.secret if secret is None else secret)
        return RemoteMachine("m1", cluster, connection)

    def processes(self) -> list[ProcessId]:
        """What this agent has started and has not been stopped."""
        file = self.directory / "agent.json"
        entries = msgspec.json.decode(file.read_bytes()) if file.exists() else []
        found = [msgspec.convert(one["running"]["process"], ProcessId) for one in entries]
        return [one for one in found if one.is_alive()]


@contextmanager
def agent(directory: Path, grace_s: float = 10.0) -> Iterator[AgentProcess]:
    """An agent on loopback; nothing that it started is left."""
    made = AgentProcess(directory, grace_s=grace_s)
    try:
        yield made
    finally:
        clean_up(made)


def clean_up(made: AgentProcess) -> None:
    left = made.processes()
    made.end()
    for one in left:
        one.signal(signal.SIGKILL)


def solo(name: str = "solo") -> str:
    """The settings of a broker that is alone."""
    port, health_port = free_ports(2)
    settings = BrokerSettings(name=name, port=port, health_port=health_port, experiments=True)
    return msgspec.json.encode(settings).decode()


def stranger(made: AgentProcess) -> tuple[socket.socket, Challenge]:
    """A connection that has heard the challenge, and said nothing."""
    connection = socket.create_connection((made.host, made.port), LIMIT_S)
    length = int.from_bytes(connection.recv(LENGTH_BYTES, socket.MSG_WAITALL), "big")
    return connection, msgspec.msgpack.decode(connection.recv(length, socket.MSG_WAITALL), type=Challenge)


def rest_of(connection: socket.socket) -> bytes:
    """What comes until the other end closes."""
    with connection:
        pieces = []
        try:
            while piece := connection.recv(1 << 16):
                pieces.append(piece)
        except ConnectionError:
            pass
        return b"".join(pieces)


def this_process() -> ProcessId:
    return process_id(os.getpid())
