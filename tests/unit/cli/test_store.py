"""`holdfast store`: what it says about stores that are whole, damaged, mended, or none."""

import json
import sqlite3
from pathlib import Path

import pytest

from holdfast.model.reliable import Level
from holdfast.storage.stores import open_store
from tests.support.entries import entry, payloads
from tests.unit.cli.command_line import CommandLine


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    path = tmp_path / "orders.db"
    with open_store(f"sqlite:{path}") as store:
        store.append("orders", [entry(1, payloads=[b"a", b"b"]), entry(3, cat=3, payloads=[b"c"])])
        store.put("key", b"value")
        store.commit(Level.FSYNCED)
    return path


def harmed(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("UPDATE entries SET entry = zeroblob(length(entry)) WHERE first = 1")
    db.close()


def test_a_store_that_is_whole_is_said_to_be(holdfast: CommandLine, orders: Path):
    ran = holdfast("store", "verify", f"sqlite:{orders}")
    assert (ran.code, ran.out) == (0, "everything is as it was stored\n")


def test_damage_is_named_and_is_exit_code_1(holdfast: CommandLine, orders: Path):
    harmed(orders)
    ran = holdfast("store", "verify", f"sqlite:{orders}", "--json")
    [damage] = json.loads(ran.out)["damages"]
    assert (ran.code, damage["stream"], damage["first"], damage["last"], damage["cat"]) == (1, "orders", 1, 2, 1)
    assert holdfast("store", "verify", f"sqlite:{orders}").code == 1


def test_what_is_no_store_at_all_counts_as_damaged(holdfast: CommandLine, orders: Path):
    orders.write_bytes(b"no" * 5000)
    ran = holdfast("store", "verify", f"sqlite:{orders}", "--json")
    assert (ran.code, json.loads(ran.out)["ok"]) == (1, False)


def test_info_says_what_there_is(holdfast: CommandLine, orders: Path):
    ran = holdfast("store", "info", f"sqlite:{orders}", "--json")
    said = json.loads(ran.out)
    assert (said["pairs"], said["streams"]["orders"]["messages"], said["streams"]["orders"]["next"]) == (1, 3, 4)
    assert "orders" in holdfast("store", "info", f"sqlite:{orders}").out


def test_a_damaged_store_is_mended_from_its_sibling(holdfast: CommandLine, orders: Path, tmp_path: Path):
    sibling = f"segments:{tmp_path / 'sibling'}"
    with open_store(sibling) as store:
        store.append("orders", [entry(70, payloads=[b"a", b"b", b"c"])])
        store.commit(Level.FSYNCED)
    harmed(orders)
    ran = holdfast("store", "mend", f"sqlite:{orders}", "--from", sibling)
    assert (ran.code, ran.out) == (0, "1 found damaged, 2 messages brought back\n")
    with open_store(f"sqlite:{orders}") as store:
        assert payloads(store.read("orders", 1, 9, 99)) == [b"a", b"b", b"c"]
    assert holdfast("store", "mend", f"sqlite:{orders}", "--from", sibling).out == "nothing was damaged\n"


def test_what_the_sibling_has_not_is_left_and_is_exit_code_1(holdfast: CommandLine, orders: Path, tmp_path: Path):
    with open_store(f"sqlite:{tmp_path / 'empty.db'}"):
        harmed(orders)
    ran = holdfast("store", "mend", f"sqlite:{orders}", "--from", f"sqlite:{tmp_path / 'empty.db'}", "--json")
    said = json.loads(ran.out)
    assert (ran.code, len(said["found"]), len(said["left"]), said["messages"]) == (1, 1, 1, 0)


def test_compacting_gives_space_back(holdfast: CommandLine, tmp_path: Path):
    path = tmp_path / "large.db"
    with open_store(f"sqlite:{path}") as store:
        store.append("orders", [entry(number, cat=number, payloads=[bytes(9000)]) for number in range(1, 101)])
        store.commit(Level.WRITTEN)
        store.forget("orders", 101)
        store.commit(Level.WRITTEN)
    before = path.stat().st_size
    assert holdfast("store", "compact", f"sqlite:{path}").code == 0
    assert path.stat().st_size < before / 4


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("verify", "sqlite:nowhere.db"), "there is no store at nowhere.db"),
        (("info", "segments:nowhere"), "there is no store in nowhere"),
        (("info", "orders.db"), "names no store; write sqlite:FILE"),
        (("info", "memory:"), "ends with the process"),
        (("mend", "sqlite:a.db", "--from", "sqlite:a.db"), "cannot be mended from itself"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    holdfast: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], sentence: str
):
    monkeypatch.chdir(tmp_path)
    ran = holdfast("store", *arguments)
    assert ran.code == 2
    assert sentence in ran.err


def test_a_store_has_one_writer(holdfast: CommandLine, orders: Path):
    with open_store(f"sqlite:{orders}"):
        assert holdfast("store", "verify", f"sqlite:{orders}").code == 0
        ran = holdfast("store", "compact", f"sqlite:{orders}")
    assert ran.code == 2
    assert "is being written by another process" in ran.err


@pytest.mark.parametrize("command", ["verify", "info"])
def test_what_cannot_be_opened_is_exit_code_1_and_the_sentence_says_what_to_do(
    holdfast: CommandLine, orders: Path, command: str
):
    for beside in ("-wal", "-shm"):
        orders.with_name(orders.name + beside).unlink(missing_ok=True)
    orders.write_bytes(bytes(100) + orders.read_bytes()[100:])
    ran = holdfast("store", command, f"sqlite:{orders}", *(["--json"] if command == "verify" else []))
    assert ran.code == 1
    assert "Move it away and start the repository with a new store" in ran.out + ran.err
    assert "holdfast store verify" not in ran.out + ran.err


def test_a_server_that_does_not_answer_is_not_damage(holdfast: CommandLine):
    ran = holdfast("store", "verify", "postgresql://127.0.0.1:1/x")
    assert (ran.code, ran.out) == (2, "")
    assert "no PostgreSQL server answers" in ran.err
