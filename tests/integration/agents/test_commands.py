"""`up`, `status`, `why`, `crash`, `restart`, `cut` and `down` on two machines, each with an agent of its own."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.cluster.ports import free_ports
from tests.integration.agents.support_agents import SECRET, AgentProcess, clean_up
from tests.integration.cluster.terminal import eventually
from tests.unit.cli.command_line import CommandLine


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[list[AgentProcess]]:
    """Two agents of this test alone: what a failed test leaves running is no other test's cluster."""
    made = [AgentProcess(tmp_path / "agents" / name) for name in ("m1", "m2")]
    yield made
    for one in made:
        clean_up(one)


@pytest.fixture
def holdfast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The master's command line, inside of this process: what it starts is the agents' own."""
    monkeypatch.delenv("HOLDFAST_AGENT_SECRET", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_bytes(SECRET)
    (tmp_path / "secret").chmod(0o600)
    return CommandLine(monkeypatch, capsys)


def cluster_file(directory: Path, agents: list[AgentProcess]) -> Path:
    lines = ["tolerance = 1", 'name = "far"']
    for one, name in zip(agents, ("m1", "m2"), strict=True):
        lines += [f"[machines.{name}]", f'address = "{one.address}"', f'secret_file = "{directory / "secret"}"']
    for name, parent, machine in (("a", "", "m1"), ("b", "a", "m2"), ("c", "b", "m2")):
        port, health_port = free_ports(2)
        lines += [f"[brokers.{name}]", f"port = {port}", f"health_port = {health_port}", f'machine = "{machine}"']
        lines += [f'parent = "{parent}"'] if parent else []
    lines += ["[repositories.r1]", 'broker = "b"', 'streams = ["bank/#"]', 'machine = "m2"']
    lines += [f"health_port = {free_ports(1)[0]}"]
    lines += ["[clients.alice]", 'broker = "c"', 'topics = ["town"]', 'machine = "m1"']
    path = directory / "far.toml"
    path.write_text("\n".join(lines))
    return path


def parents(holdfast: CommandLine) -> dict[str, object]:
    seen = json.loads(holdfast("status", "--json").out)
    return {one["name"]: one["parent"] if one["ready"] else None for one in seen["brokers"]}


def test_a_cluster_on_two_machines_is_started_watched_crashed_repaired_and_stopped(
    holdfast: CommandLine, agents: list[AgentProcess], tmp_path: Path
):
    file = cluster_file(tmp_path, agents)
    ran = holdfast("up", file, "--trace", "trace")
    assert ran.code == 0, ran.err
    assert (len(agents[0].processes()), len(agents[1].processes())) == (2, 3)
    assert "is running in" in holdfast("up", file).err
    assert holdfast("crash", "b").code == 0
    gone = "broker b is not running; `holdfast restart b` starts it again\n"
    assert eventually(lambda: holdfast("why", "b").out == gone), holdfast("why", "b").out
    assert eventually(lambda: parents(holdfast)["c"] == "a")
    # An agent that is killed takes nobody along, and its successor finds everybody.
    agents[1].end(9)  # type: ignore[arg-type]
    assert eventually(lambda: holdfast("why", "c").out == "broker c waits for nothing\n"), holdfast("why", "c").out
    assert "cannot be asked: nobody listens there" in holdfast("freeze", "c").err
    agents[1].start()
    assert holdfast("restart", "b").code == 0, holdfast("why", "b").out
    assert eventually(lambda: holdfast("why", "r1").out == "repository r1 waits for nothing\n"), holdfast(
        "why", "r1"
    ).out
    assert eventually(lambda: holdfast("cut", "a", "c").code == 0), holdfast("cut", "a", "c").err
    assert eventually(lambda: "cut off from" in holdfast("status").out)
    assert eventually(lambda: holdfast("heal").code == 0), holdfast("heal").err
    # A machine whose agent is away is said, and stopped later.
    agents[1].end(9)  # type: ignore[arg-type]
    half = holdfast("down")
    assert half.code == 1
    assert "say `holdfast down` again when machine m2 answers" in half.err
    assert eventually(lambda: agents[0].processes() == [])
    assert len(agents[1].processes()) == 3
    agents[1].start()
    assert holdfast("down").code == 0
    assert eventually(lambda: agents[1].processes() == [])
    assert {"a.jsonl", "b.jsonl", "c.jsonl"} <= {one.name for one in (tmp_path / "trace").iterdir()}
    assert "listening" in (tmp_path / ".holdfast" / "logs" / "broker-b.log").read_text()
    assert holdfast("audit", "trace").code == 0


def test_a_machine_without_an_agent_is_said_at_the_start_and_nothing_is_left(
    holdfast: CommandLine, agents: list[AgentProcess], tmp_path: Path
):
    file = cluster_file(tmp_path, agents)
    agents[1].end()
    ran = holdfast("up", file)
    assert ran.code == 1
    assert "the agent of machine m2 at 127.0.0.1" in ran.err
    assert "start `holdfast agent` on that machine" in ran.err
    assert eventually(lambda: agents[0].processes() == [])
    (tmp_path / "secret").write_bytes(b"another secret of the tests")
    refused = holdfast("up", file)
    assert (refused.code, "it does not accept the secret that we have" in refused.err) == (1, True)
