"""`crash`, `freeze`, `thaw`, `restart`, `cut`, `heal` and `why` on a cluster that repairs itself."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.cluster.config import load_cluster
from holdfast.storage.traces import read_trace
from tests.integration.cluster.terminal import Terminal, eventually


@pytest.fixture
def healing(terminal: Terminal, chain: Path) -> Terminal:
    """A running chain of three that tolerates the loss of one broker."""
    chain.write_text("tolerance = 1\n" + chain.read_text())
    ran = terminal.run("up", chain)
    assert ran.returncode == 0, ran.stderr
    return terminal


def tree(terminal: Terminal) -> dict[str, tuple[str | None, bool]]:
    """Each broker with its parent, as it says itself, and whether it is ready."""
    brokers: list[dict[str, Any]] = json.loads(terminal.run("status", "--json").stdout)["brokers"]
    return {one["name"]: (one["parent"], one["ready"]) for one in brokers}


def clients(terminal: Terminal) -> dict[str, list[str]]:
    return {one["name"]: one["clients"] for one in json.loads(terminal.run("status", "--json").stdout)["brokers"]}


def test_a_crash_is_repaired_and_the_broker_comes_back_below_another_one(healing: Terminal, chain: Path):
    crashed = healing.run("crash", "b1")
    assert (crashed.returncode, crashed.stderr) == (
        0,
        "broker b1 is killed; the others repair the tree; `holdfast status` shows it\n",
    )
    assert eventually(lambda: tree(healing)["b2"] == ("b0", True))
    shown = healing.run("status")
    assert shown.returncode == 1
    assert "✗ b1" in shown.stdout
    assert "root" in shown.stdout
    assert healing.run("why", "b1").stdout == "broker b1 is not running; `holdfast restart b1` starts it again\n"
    said = healing.run("why", "b1", "--json")
    assert (said.returncode, json.loads(said.stdout)) == (
        1,
        {
            "name": "b1",
            "kind": "broker",
            "answers": False,
            "silence": "broker b1 is not running; `holdfast restart b1` starts it again",
            "waiting_for": [],
        },
    )
    again = healing.run("crash", "b1")
    assert (again.returncode, "b1 is not running" in again.stderr) == (2, True)
    last = load_cluster(chain).brokers[2].address
    assert healing.run("pub", "t", "x", "-a", last, "-g", "total", "--confirm").returncode == 0
    assert healing.run("restart", "b1").stderr == "broker b1 is ready\n"
    assert tree(healing) == {"b0": (None, True), "b1": ("b0", True), "b2": ("b0", True)}
    assert "is running; crash it first" in healing.run("restart", "b1").stderr
    assert healing.run("why", "b1").stdout == "broker b1 waits for nothing\n"


def test_a_broker_that_is_started_again_goes_on_with_its_trace(terminal: Terminal, chain: Path):
    chain.write_text("tolerance = 1\n" + chain.read_text())
    assert terminal.run("up", chain, "--trace", "trace").returncode == 0
    assert eventually(lambda: len(list((terminal.directory / "trace").glob("*.jsonl"))) == 5)
    # What it has not written down yet is lost with it.
    (own,) = (terminal.directory / "trace").glob("b1*.jsonl")
    assert eventually(lambda: '"serving"' in own.read_text())
    assert terminal.run("crash", "b1").returncode == 0
    assert terminal.run("restart", "b1").returncode == 0
    assert terminal.run("down").returncode == 0
    rows = [row for row in read_trace(terminal.directory / "trace") if row.node == "b1"]
    assert [row.index for row in rows] == list(range(len(rows)))
    assert [row.event for row in rows].count("serving") == 2
    assert terminal.run("audit", "trace").returncode == 0


def test_the_roots_loss_makes_another_one_and_its_clients_move(healing: Terminal):
    assert eventually(lambda: clients(healing)["b0"] == ["alice"])
    assert healing.run("crash", "b0").returncode == 0
    assert eventually(lambda: tree(healing)["b1"] == (None, True) and clients(healing)["b1"] == ["alice"])
    assert healing.run("restart", "b0").returncode == 0
    assert tree(healing)["b0"] == ("b1", True)


def test_a_frozen_broker_says_so_and_is_a_newcomer_when_it_is_thawed(healing: Terminal):
    assert healing.run("freeze", "b1").returncode == 0
    assert healing.run("why", "b1").stdout == "broker b1 is frozen; `holdfast thaw b1` lets it go on\n"
    assert eventually(lambda: tree(healing)["b2"] == ("b0", True))
    assert healing.run("thaw", "b1").returncode == 0
    # If b0 is just asking what became of b1, b1 turns to b2.
    assert eventually(lambda: tree(healing)["b1"] in {("b0", True), ("b2", True)})


def test_a_broker_that_is_cut_off_from_its_parent_finds_another_way(healing: Terminal, chain: Path):
    assert healing.run("cut", "b2", "b1").returncode == 0
    assert "cut off from" in healing.run("status").stdout
    assert eventually(lambda: tree(healing)["b2"] == ("b0", True))
    healed = healing.run("heal")
    assert (healed.returncode, healed.stderr) == (0, "3 brokers have taken every cut back\n")
    assert eventually(lambda: all(ready for _, ready in tree(healing).values()))
    assert "cut off from" not in healing.run("status").stdout
    first = load_cluster(chain).brokers[0].address
    assert healing.run("pub", "t", "x", "-a", first, "-g", "total", "--confirm").returncode == 0


def test_a_broker_that_is_none_is_named_with_those_that_are(healing: Terminal):
    for command in (("crash", "b9"), ("why", "b9"), ("cut", "b1", "b9")):
        ran = healing.run(*command)
        assert (ran.returncode, "has no broker 'b9'" in ran.stderr) == (2, True), ran.stderr
    assert "cannot be cut off from itself" in healing.run("cut", "b1", "b1").stderr
