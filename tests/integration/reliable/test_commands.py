"""`holdfast repository`, `topics`, `pub --durable` and `sub --durable` as a user types them."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.cluster.ports import free_port_pairs
from tests.integration.cluster.terminal import Terminal


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(tmp_path)
    yield made
    if (tmp_path / ".holdfast" / "cluster.json").exists():
        made.run("down")
    made.close()


def log_of(directory: Path, name: str) -> list[dict[str, object]]:
    [path] = directory.glob(f".holdfast/**/repository-{name}.log")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_what_was_read_is_not_read_again_whichever_repository_is_there(terminal: Terminal, tmp_path: Path):
    (port, health), *others = free_port_pairs(3)
    lines = ["[brokers.a]", f"port = {port}", f"health_port = {health}"]
    for name, (_, own) in zip(("r1", "r2"), others, strict=True):
        lines += [f"[repositories.{name}]", 'broker = "a"', 'streams = ["bank/#"]', f"health_port = {own}"]
    (tmp_path / "kept.toml").write_text("\n".join(lines))
    where = ("-a", f"127.0.0.1:{port}")
    assert terminal.run("up", "kept.toml").returncode == 0

    published = terminal.run("pub", "bank/orders", "--durable", *where, stdin="1\n2\n3\n4\n")
    assert "stored (fsynced by one repository)" in published.stdout, published.stderr
    read = terminal.run("sub", "bank/#", "--durable", "billing", "--count", 2, "--raw", *where)
    assert (read.stdout, read.returncode) == ("1\n2\n", 0), read.stderr
    said = json.loads(terminal.run("topics", "--json", *where).stdout)
    assert {one["name"]: one["streams"]["bank/#"]["end"] for one in said} == {"r1": 4, "r2": 4}

    [keeping] = [line for line in log_of(tmp_path, "r1") if line["event"] == "keeping"]
    assert (keeping["level"], keeping["acknowledges"]) == ("info", "fsynced")
    assert str(keeping["store"]).startswith("sqlite:")

    assert "repository r1 is killed" in terminal.run("crash", "r1").stderr
    assert "repository r1 is not running" in terminal.run("why", "r1").stdout
    read = terminal.run("sub", "bank/#", "--durable", "billing", "--count", 2, "--raw", *where)
    assert (read.stdout, read.returncode) == ("3\n4\n", 0), read.stderr
    assert "repository r1 is ready" in terminal.run("restart", "r1").stderr
    assert terminal.run("why", "r1").stdout == "repository r1 waits for nothing\n"
    assert "billing at 4" in terminal.run("topics", *where).stdout
    said = json.loads(terminal.run("topics", "--json", *where).stdout)
    found = {one["name"]: one["streams"]["bank/#"]["subscribers"]["billing"]["sync"] for one in said}
    assert found == {"r1": 4, "r2": 4}, "the one that was away is told how far it came meanwhile"
    terminal.run("crash", "r2")
    assert "stored" in terminal.run("pub", "bank/orders", "--durable", *where, stdin="5\n").stdout
    read = terminal.run("sub", "bank/#", "--durable", "billing", "--count", 1, "--raw", *where)
    assert (read.stdout, read.returncode) == ("5\n", 0), read.stderr
    assert "repository r2 is ready" in terminal.run("restart", "r2").stderr
    ended = terminal.run("topics", "forget", "billing", "bank/#", *where)
    assert (ended.returncode, ended.stderr) == (0, "the subscription billing to bank/# is over\n")
    assert "billing" not in terminal.run("topics", *where).stdout
    again = terminal.run("sub", "bank/#", "--from", 3, "--count", 2, "--raw", *where)
    assert again.stdout == "3\n4\n", again.stderr
    # The file declares what is reliable, and says where the brokers are.
    kept = terminal.run("pub", "bank/orders", "5", "--file", "kept.toml")
    assert "stored (fsynced by " in kept.stdout, kept.stderr
    assert ": accepted" in terminal.run("pub", "shop/orders", "6", "--file", "kept.toml").stdout
    assert terminal.run("sub", "bank/#", "--from", 5, "--count", 1, "--raw", *where).stdout == "5\n"


def test_who_reads_what_is_stored_once_leaves_no_subscription_behind(terminal: Terminal, tmp_path: Path):
    (port, health), (_, own) = free_port_pairs(2)
    lines = ["[brokers.a]", f"port = {port}", f"health_port = {health}"]
    lines += ["[repositories.r1]", 'broker = "a"', 'streams = ["bank/#"]', f"health_port = {own}"]
    (tmp_path / "kept.toml").write_text("\n".join(lines))
    where = ("-a", f"127.0.0.1:{port}")
    assert terminal.run("up", "kept.toml").returncode == 0
    terminal.run("pub", "bank/orders", "--durable", *where, stdin="1\n2\n3\n")

    def subscribers() -> list[str]:
        (said,) = json.loads(terminal.run("topics", "--json", *where).stdout)
        return list(said["streams"]["bank/#"]["subscribers"])

    read = terminal.run("sub", "bank/#", "--from-start", "--count", 2, "--raw", *where)
    assert (read.stdout, read.returncode) == ("1\n2\n", 0), read.stderr
    assert subscribers() == []

    for number in (signal.SIGINT, signal.SIGTERM):
        reading = terminal.start("sub", "bank/#", "--from", 2, "--raw", *where)
        assert reading.stdout is not None
        assert [reading.stdout.readline() for _ in range(2)] == ["2\n", "3\n"]
        assert [name.split("-")[0] for name in subscribers()] == ["once"]
        reading.send_signal(number)
        _, err = reading.communicate(timeout=20)
        assert (reading.returncode, subscribers()) == (130, []), err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["repository", "r"], "a repository keeps something: name a topic or a pattern with --stream."),
        (["repository", "r", "-s", "t", "--level", "soon"], "--level 'soon' is no level"),
        (["repository", "r", "-s", "t", "--store", "tape:1"], "'tape:1' names no store"),
        (["sub", "t", "--from-start", "--from", "3"], "a subscription has one beginning"),
        (["sub", "t", "--from-time", "noon"], "--from-time 'noon' is no time"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(terminal: Terminal, arguments: list[str], sentence: str):
    ran = terminal.run(*arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert sentence in ran.stderr


def test_a_repository_that_finds_no_broker_ends_with_a_sentence(terminal: Terminal):
    ran = terminal.run("repository", "r", "-s", "t", "-a", "127.0.0.1:1")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.endswith(
        "holdfast: no broker answers r; tried 127.0.0.1:1 (nobody is listening there). Is the cluster running? "
        "`holdfast up` starts one on this machine; otherwise give its address.\n"
    )
    assert "Traceback" not in ran.stderr


def test_a_store_that_does_not_answer_ends_a_repository_with_a_sentence(terminal: Terminal):
    ran = terminal.run("repository", "r", "-s", "t", "--store", "postgresql://alice:secret@127.0.0.1:1/x")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "no PostgreSQL server answers at postgresql://…@127.0.0.1:1/x" in ran.stderr
    assert "start it again" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "secret" not in ran.stderr
