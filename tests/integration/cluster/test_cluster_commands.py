"""`up`, `status`, `pub`, `sub`, `down` and `broker` with real processes."""

import json
import os
import pty
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from holdfast.cluster.config import load_cluster
from holdfast.cluster.state import running_state
from tests.integration.cluster.terminal import (
    INTERRUPTED,
    LIMIT_S,
    Terminal,
    eventually,
    press_ctrl_c,
    processes_that_mention,
)

MEGABYTE = 1 << 20


@pytest.fixture
def up(terminal: Terminal, chain: Path) -> list[str]:
    """A running chain of three; the addresses of its brokers."""
    ran = terminal.run("up", chain, "--no-clients")
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr
    assert "3 brokers are ready" in ran.stderr
    return [broker.address for broker in load_cluster(chain).brokers]


def test_a_message_goes_from_one_end_to_the_other(terminal: Terminal, up: list[str]):
    sub = terminal.start("sub", "bank/#", "--where", "amount > 100", "--count", 2, "--json", "-a", up[2])
    assert sub.stderr is not None
    assert "is subscribed to bank/# at broker b2" in sub.stderr.readline()
    for amount in (50, 120, 150):
        options = [
            "-g",
            "total",
            "-k",
            "PT50-1",
            "--attr",
            f"amount={amount}",
            "--name",
            "alice",
            "--confirm",
            "--json",
        ]
        ran = terminal.run("pub", "bank/lisbon", f"order of {amount}", "-a", up[0], *options)
        assert ran.returncode == 0, ran.stderr
        assert json.loads(ran.stdout)["level"] == "confirmed"
    out, err = sub.communicate(timeout=30)
    assert (sub.returncode, err) == (0, "")
    messages = [json.loads(line) for line in out.splitlines()]
    assert [message["payload"] for message in messages] == ["order of 120", "order of 150"]
    assert messages[0] == {
        "topic": "bank/lisbon",
        "publisher": "alice",
        "seq": 2,
        "guarantee": "total",
        "keys": ["PT50-1"],
        "attributes": {"amount": 120},
        "payload": "order of 120",
    }


def test_lines_of_stdin_are_messages_in_their_order(terminal: Terminal, up: list[str]):
    sub = terminal.start("sub", "numbers", "--count", 500, "--raw", "-a", up[1])
    assert sub.stderr is not None
    sub.stderr.readline()
    ran = terminal.run("pub", "numbers", "-a", up[0], "--name", "n", stdin="".join(f"{n}\n" for n in range(500)))
    assert (ran.returncode, ran.stdout) == (0, "n#1..500 on numbers: accepted\n")
    out, _ = sub.communicate(timeout=30)
    assert out.splitlines() == [str(n) for n in range(500)]


def test_who_publishes_at_a_terminal_is_told_that_lines_are_messages(terminal: Terminal, up: list[str]):
    keyboard, screen = pty.openpty()
    pub = terminal.start("pub", "typed", "-a", up[0], "--name", "typist", stdin=screen)
    assert pub.stderr is not None
    assert pub.stderr.readline() == "each line is a message; Ctrl-D ends\n"
    os.write(keyboard, b"one\ntwo\n\x04")
    assert pub.communicate(timeout=30)[0] == "typist#1..2 on typed: accepted\n"
    os.close(keyboard)
    os.close(screen)


def test_the_status_is_a_tree_and_knows_who_is_missing(terminal: Terminal, up: list[str]):
    ran = terminal.run("status", "--json")
    seen = json.loads(ran.stdout)
    assert ran.returncode == 0
    assert [(one["name"], one["parent"], one["ready"]) for one in seen["brokers"]] == [
        ("b0", None, True),
        ("b1", "b0", True),
        ("b2", "b1", True),
    ]
    assert terminal.run("status").stdout.count("●") == 3
    # From anywhere, with the port of any broker.
    elsewhere = json.loads(terminal.run("status", "--json", "--address", up[2]).stdout)
    assert sorted(one["name"] for one in elsewhere["brokers"] if one["ready"]) == ["b0", "b1", "b2"]
    assert terminal.run("why", "b1", "--address", up[0]).stdout == "broker b1 waits for nothing\n"
    said = json.loads(terminal.run("why", "b1", "--json", "--address", up[0]).stdout)
    assert said == {"name": "b1", "kind": "broker", "answers": True, "silence": "", "waiting_for": []}
    assert "no broker b7 that can be found; there are b0, b1, b2." in terminal.run("why", "b7", "-a", up[0]).stderr
    state = running_state(terminal.directory / ".holdfast")
    leaf = next(one for one in state.running if one.name == "b2")
    leaf.process.signal(signal.SIGKILL)
    assert eventually(lambda: not leaf.process.is_alive())
    missing = terminal.run("status")
    assert missing.returncode == 1
    assert "nobody listens on its health port" in missing.stdout


def test_down_stops_every_process_and_a_second_one_has_nothing_to_do(terminal: Terminal, chain: Path, up: list[str]):
    state = running_state(terminal.directory / ".holdfast")
    again = terminal.run("up", chain)
    assert again.returncode == 2
    assert "is running in .holdfast already (3 processes); stop it with `holdfast down`" in again.stderr
    ran = terminal.run("down")
    assert ran.returncode == 0
    assert "stopped 3 processes of cluster holdfast" in ran.stderr
    assert state.alive() == []
    assert terminal.run("down").returncode == 2


def test_the_clients_of_a_file_are_started_as_replicas(terminal: Terminal, chain: Path):
    assert terminal.run("up", chain).returncode == 0

    def attached() -> set[str]:
        brokers = json.loads(terminal.run("status", "--json").stdout)["brokers"]
        return {client for broker in brokers for client in broker["clients"]}

    assert eventually(lambda: attached() == {"alice", "bob"})
    assert "stopped 5 processes" in terminal.run("down").stderr


def test_subscribers_and_publishers_that_are_told_to_end_leave_their_broker_with_one_sentence(
    terminal: Terminal, up: list[str]
):
    numbers = (signal.SIGINT, signal.SIGTERM)
    subs = [terminal.start("sub", "quiet", "-a", up[0], "--name", f"sub-{number.name}") for number in numbers]
    pubs = [
        terminal.start("pub", "quiet", "-a", up[0], "--name", f"pub-{number.name}", stdin=subprocess.PIPE)
        for number in numbers
    ]
    names = ["pub-SIGINT", "pub-SIGTERM", "sub-SIGINT", "sub-SIGTERM"]

    def attached() -> list[str]:
        return list(json.loads(terminal.run("status", "--json").stdout)["brokers"][0]["clients"])

    assert eventually(lambda: attached() == names)
    for process, number in zip([*subs, *pubs], numbers * 2, strict=True):
        process.send_signal(number)
        assert process.wait(timeout=LIMIT_S) == 130
        assert process.stderr is not None
        assert process.stderr.read().endswith(INTERRUPTED)
    # A client that merely vanished would be kept for thirty seconds, in case it comes back.
    assert attached() == []


def test_a_subscriber_in_the_background_of_a_script_leaves_its_broker_on_sigterm(terminal: Terminal, up: list[str]):
    # A shell without job control starts such processes with SIGINT ignored.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        sub = terminal.start("sub", "quiet", "-a", up[0])
    finally:
        signal.signal(signal.SIGINT, before)
    assert sub.stderr is not None
    assert "is subscribed to quiet" in sub.stderr.readline()
    sub.send_signal(signal.SIGTERM)
    assert sub.wait(timeout=LIMIT_S) == 130
    assert sub.stderr.read() == INTERRUPTED
    assert json.loads(terminal.run("status", "--json").stdout)["brokers"][0]["clients"] == []


def test_ctrl_c_ends_a_watched_status_and_leaves_the_cluster_alone(terminal: Terminal, up: list[str]):
    watching, followed = terminal.start("status", "--watch"), terminal.start("status", "--watch", "--json")
    assert watching.stdout is not None
    assert followed.stdout is not None
    assert [one["name"] for one in json.loads(followed.stdout.readline())["brokers"]] == ["b0", "b1", "b2"]
    assert watching.stdout.readline() == "cluster holdfast, protocol ginger\n"
    code, _, err = press_ctrl_c(watching)
    assert (code, err) == (130, INTERRUPTED)
    assert terminal.run("status").returncode == 0


def test_a_reader_that_goes_away_ends_a_subscriber_quietly(terminal: Terminal, up: list[str]):
    sub = terminal.start("sub", "numbers", "-a", up[0])
    assert sub.stderr is not None
    assert sub.stdout is not None
    sub.stderr.readline()
    terminal.run("pub", "numbers", "1", "-a", up[0])
    assert sub.stdout.readline().endswith("  1\n")
    sub.stdout.close()
    terminal.run("pub", "numbers", "2", "-a", up[0])
    assert sub.wait(timeout=30) != 0
    assert sub.stderr.read() == ""


def test_a_payload_over_the_limit_is_refused(terminal: Terminal, up: list[str]):
    ran = terminal.run("pub", "big", "-a", up[0], stdin="x" * (MEGABYTE + 1))
    assert ran.returncode == 2
    assert (
        ran.stderr
        == f"holdfast: a payload of {MEGABYTE + 1} bytes is over the limit of {MEGABYTE}: publish it in pieces\n"
    )


def test_a_refusal_ends_the_command_although_more_lines_could_come(terminal: Terminal, up: list[str]):
    # The thread that reads is still waiting for a line when the interpreter ends.
    pub = terminal.start("pub", "big", "-a", up[0], stdin=subprocess.PIPE)
    assert pub.stdin
    assert pub.stderr
    pub.stdin.write("small\n" + "x" * (MEGABYTE + 1) + "\n")
    pub.stdin.flush()
    assert pub.wait(timeout=LIMIT_S) == 2
    assert "over the limit" in pub.stderr.read()


def test_a_client_of_another_cluster_is_refused(terminal: Terminal, up: list[str]):
    ran = terminal.run("pub", "t", "x", "-a", up[0], "--cluster", "elsewhere")
    assert ran.returncode == 2
    assert "b0 belongs to cluster 'holdfast', not 'elsewhere'" in ran.stderr


def test_a_cluster_whose_port_is_taken_does_not_start_and_leaves_nothing(terminal: Terminal, chain: Path):
    last = load_cluster(chain).brokers[-1]
    with socket.create_server((last.host, last.port)):
        ran = terminal.run("up", chain)
    assert ran.returncode == 2
    assert ran.stderr.startswith(
        f"holdfast: broker b2 cannot start: b2 cannot listen on 127.0.0.1:{last.port}: the port"
    )
    assert processes_that_mention(f'"port":{last.port}') == []
    assert not (terminal.directory / ".holdfast" / "cluster.json").exists()


def test_ctrl_c_while_a_cluster_starts_leaves_nothing(terminal: Terminal, chain: Path):
    ports = [broker.port for broker in load_cluster(chain).brokers]
    starting = terminal.start("up", chain)
    assert eventually(lambda: bool(processes_that_mention(f'"port":{ports[0]}')))
    code, _, err = press_ctrl_c(starting)
    # It may have been just ready: then it runs, and says so.
    if code == 130:
        assert "Traceback" not in err
        assert not any(processes_that_mention(f'"port":{port}') for port in ports)
    else:
        assert code == 0


def test_one_broker_runs_in_the_foreground_until_it_is_told_to_stop(terminal: Terminal, chain: Path):
    broker = load_cluster(chain).brokers[0]
    running = terminal.start("broker", "b0", "--file", chain)
    assert running.stderr is not None
    assert '"event":"listening"' in running.stderr.readline()
    assert terminal.run("pub", "t", "x", "-a", broker.address).returncode == 0
    taken = terminal.run("broker", "other", "--port", broker.port)
    assert taken.returncode == 2
    assert f"holdfast: other cannot listen on 127.0.0.1:{broker.port}: the port is in use" in taken.stderr
    assert "Traceback" not in taken.stderr
    os.kill(running.pid, signal.SIGTERM)
    _, err = running.communicate(timeout=30)
    assert running.returncode == 0
    assert '"event":"stopped"' in err
