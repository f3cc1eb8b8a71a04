"""One agent and its master: who is let in, what is done, and who outlives whom."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from holdfast.cluster.agents.handshake import Answer, framed, new_nonce, proof
from holdfast.cluster.agents.requests import Start
from holdfast.cluster.machines import MachineError, Running
from holdfast.cluster.pids import process_id
from holdfast.model.errors import ConfigError
from tests.integration.agents.support_agents import (
    BROKER,
    LIMIT_S,
    SECRET,
    AgentProcess,
    agent,
    rest_of,
    solo,
    stranger,
    this_process,
)
from tests.integration.cluster.terminal import eventually


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[AgentProcess]:
    """An agent of one test: what a test that fails leaves behind is no other one's."""
    with agent(tmp_path / "agent") as made:
        yield made


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """An agent of all tests that have it start nothing."""
    with agent(tmp_path_factory.mktemp("shared") / "agent") as made:
        yield made


def test_a_process_is_started_asked_frozen_killed_and_its_log_read(alone: AgentProcess):
    machine = alone.machine("first")
    one = machine.start("broker", "solo", BROKER, solo())
    assert (one.machine, one.title) == ("m1", "broker solo")
    assert eventually(lambda: b'"listening"' in machine.read(one.log, 0))
    assert eventually(lambda: asyncio.run(machine.ask(one.title, "", 0, "/status"))["ready"] is True)
    assert asyncio.run(machine.ask(one.title, "", 0, "/status"))["name"] == "solo"
    assert asyncio.run(machine.ask(one.title, "", 0, "/cut?peer=x", "POST")) == {"cut_off": ["x"]}
    with pytest.raises(ConfigError, match="broker solo of cluster first is running there already"):
        machine.start("broker", "solo", BROKER, solo())
    assert machine.signal(one, signal.SIGSTOP)
    assert eventually(lambda: machine.is_frozen(one))
    assert machine.signal(one, signal.SIGCONT)
    assert machine.signal(one, signal.SIGKILL)
    assert eventually(lambda: not machine.is_alive(one))
    assert eventually(lambda: machine.exit_code(one) == -signal.SIGKILL)
    assert "listening" in machine.tail(one.log)
    machine.forget()


def test_a_broker_takes_commands_from_its_own_machine_alone(alone: AgentProcess):
    machine, settings = alone.machine("local"), solo()
    one = machine.start("broker", "solo", BROKER, settings)
    assert eventually(lambda: b'"listening"' in machine.read(one.log, 0))
    port = json.loads(settings)["health_port"]
    # On loopback 127.0.0.2 is another address than the one that is connected to, as another machine has.
    for source, status in (("127.0.0.2", b"HTTP/1.1 403 "), ("127.0.0.1", b"HTTP/1.1 200 ")):
        with socket.create_connection(("127.0.0.1", port), LIMIT_S, (source, 0)) as connection:
            connection.sendall(b"POST /cut?peer=x HTTP/1.1\r\n\r\n")
            assert connection.recv(1 << 16).startswith(status)
    with socket.create_connection(("127.0.0.1", port), LIMIT_S, ("127.0.0.2", 0)) as connection:
        connection.sendall(b"GET /status HTTP/1.1\r\n\r\n")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
    assert machine.signal(one, signal.SIGKILL)


def test_whoever_lacks_the_secret_gets_nothing(shared: AgentProcess):
    for secret in (b"", b"another secret!!!"):
        with pytest.raises(MachineError, match="it does not accept"):
            shared.machine("x", secret).directory()
    connection, challenge = stranger(shared)
    nonce = new_nonce()
    answer = Answer(nonce, proof(b"wrong", "master", challenge.nonce, nonce))
    connection.sendall(
        framed(msgspec.msgpack.encode(answer)) + framed(msgspec.msgpack.encode(Start("x", "a", "b", "c", "d")))
    )
    assert rest_of(connection) == b""


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", b"\xff\xff\xff\xff", framed(b"\x00" * 1000), framed(b"")])
def test_whoever_says_something_else_gets_nothing(shared: AgentProcess, said: bytes):
    connection, _ = stranger(shared)
    connection.sendall(said)
    assert rest_of(connection) == b""
    assert shared.machine().directory().is_absolute()


def test_the_secret_never_crosses_and_a_conversation_that_is_played_again_gets_nothing(
    shared: AgentProcess, monkeypatch: pytest.MonkeyPatch
):
    """An eavesdropper has every byte of both directions."""
    said, heard = overheard(monkeypatch)
    machine = shared.machine("overheard")
    machine.directory()
    assert b"overheard" in b"".join(said)
    everything = b"".join(said + heard)
    for spelled in (SECRET, SECRET.hex().encode(), b64encode(SECRET).rstrip(b"=")):
        assert spelled not in everything
    again, _ = stranger(shared)
    again.sendall(b"".join(said))
    assert rest_of(again) == b""


def overheard(monkeypatch: pytest.MonkeyPatch) -> tuple[list[bytes], list[bytes]]:
    """What masters of this process say to agents from now on, and what they hear."""
    said: list[bytes] = []
    heard: list[bytes] = []

    class Overheard(socket.socket):
        def sendall(self, data: bytes, *flags: int) -> None:  # type: ignore[override]
            said.append(data)
            super().sendall(data, *flags)

        def recv(self, *arguments: int) -> bytes:
            heard.append(super().recv(*arguments))
            return heard[-1]

    def connect(address: tuple[str, int], timeout_s: float) -> socket.socket:
        made = Overheard()
        made.settimeout(timeout_s)
        made.connect(address)
        return made

    monkeypatch.setattr("holdfast.cluster.agents.remote.socket.create_connection", connect)
    return said, heard


def test_a_frame_that_is_sent_again_by_somebody_else_ends_the_connection(shared: AgentProcess):
    machine = shared.machine()
    machine.directory()
    opened = machine._connection._socket
    assert opened is not None
    sealed = machine._connection._outgoing.seal(b"\x81\xa4type\xa4list")
    opened.sendall(framed(sealed))
    machine._connection._frame(1 << 20)
    opened.sendall(framed(sealed))
    assert rest_of(opened) == b""


def test_an_agent_starts_nothing_else_signals_nobody_else_and_reads_nothing_else(shared: AgentProcess):
    machine = shared.machine("first")
    with pytest.raises(ConfigError, match="an agent starts brokers, repositories and clients, and not os"):
        machine.start("broker", "x", "os", "{}")
    with pytest.raises(ConfigError, match="is no name of a cluster"):
        shared.machine("../up").directory()
    for path in ("/etc/hostname", str(shared.directory / ".." / "agent.log")):
        with pytest.raises(ConfigError, match="is not in the directory of this agent"):
            machine.read(path, 0)
    me = Running("broker", "solo", this_process(), "")
    assert machine.signal(me, signal.SIGTERM) is False
    assert machine.is_alive(me) is False
    with pytest.raises(ValueError, match="knows no broker nobody of cluster first"):
        asyncio.run(machine.ask("broker nobody", "", 0, "/status"))


def test_processes_outlive_their_agent_and_the_next_one_finds_them(tmp_path: Path):
    with agent(tmp_path / "agent") as made:
        machine = made.machine()
        one = machine.start("broker", "solo", BROKER, solo())
        made.end(signal.SIGKILL)
        assert one.process.is_alive()
        with pytest.raises(MachineError, match="nobody listens there; start `holdfast agent` on that machine"):
            machine.is_alive(one)
        made.start()
        again = made.machine()
        assert eventually(lambda: again.is_alive(one))
        assert '"found":["broker solo"]' in made.log.read_text()
        assert eventually(lambda: '"listening"' in again.tail(one.log))
        assert again.signal(one, signal.SIGTERM)
        assert eventually(lambda: not again.is_alive(one))


def born_at_another_tick(born: str) -> "subprocess.Popen[bytes]":
    """A process that waits for a line; the system counts births in ticks of 10 ms, and two processes may share one."""
    while True:
        made = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        if process_id(made.pid).born != born:
            return made
        made.communicate(b"\n")


def test_the_same_number_of_another_process_is_not_taken_for_ours(tmp_path: Path):
    with agent(tmp_path / "agent") as made:
        one = made.machine().start("broker", "solo", BROKER, solo())
        made.end(signal.SIGKILL)
        one.process.signal(signal.SIGKILL)
        bystander = born_at_another_tick(one.process.born)
        try:
            file = made.directory / "agent.json"
            entries = msgspec.json.decode(file.read_bytes())
            entries[0]["running"]["process"]["pid"] = bystander.pid
            file.write_bytes(msgspec.json.encode(entries))
            made.start()
            mistaken = Running("broker", "solo", type(one.process)(bystander.pid, one.process.born), one.log)
            assert made.machine().is_alive(mistaken) is False
            assert made.machine().signal(mistaken, signal.SIGKILL) is False
            assert process_id(bystander.pid).is_alive()
        finally:
            bystander.communicate(b"\n")


def test_processes_of_a_session_end_when_nobody_holds_it(tmp_path: Path):
    with agent(tmp_path / "agent", grace_s=0.3) as made:
        kept = made.machine("kept").start("broker", "solo", BROKER, solo())
        machine = made.machine("evening")
        machine.hold("evening-1")
        one = machine.start("broker", "solo", BROKER, solo())
        assert eventually(lambda: '"listening"' in machine.tail(one.log))
        # Its master was killed: the connection is gone, and nobody comes back.
        machine.close()
        assert eventually(lambda: not one.process.is_alive())
        assert kept.process.is_alive()
        assert eventually(lambda: not (made.directory / "evening").exists())
