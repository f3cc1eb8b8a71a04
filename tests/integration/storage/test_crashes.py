"""Whoever is killed while storing loses nothing that was acknowledged, and leaves nothing half done."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.model.reliable import Level
from holdfast.storage.stores import Store, StoreFailed
from holdfast.storage.stores.store import StoreAway
from tests.integration.storage.writer import ENTRIES, EXIT_FULL, MESSAGES, opened, payload
from tests.support.postgres import PostgresServer

WRITER = Path(__file__).with_name("writer.py")
KILLS = 5
COMMITS_MAX = 60


@pytest.fixture(params=["sqlite", "segments", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    match request.param:
        case "sqlite":
            return f"sqlite:{tmp_path / 'store.db'}"
        case "segments":
            return f"segments:{tmp_path / 'store'}"
        case _:
            server: PostgresServer = request.getfixturevalue("postgres")
            return f"{server.url}#crashes"


def started(url: str, bytes_max: int = 0) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, WRITER, url, str(bytes_max)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def acknowledged(writer: "subprocess.Popen[str]", commits: int) -> int:
    """The number of the last commit that was acknowledged among the next so many; 0 if the writer ended before."""
    assert writer.stdout is not None
    number = 0
    for _ in range(commits):
        line = writer.stdout.readline()
        number = int(line) if line.endswith("\n") else number
    return number


def ended(writer: "subprocess.Popen[str]", number: int) -> int:
    """Everything that it said before its end counts."""
    said, _ = writer.communicate()
    return max([number, *(int(line) for line in said.splitlines(keepends=True) if line.endswith("\n"))])


def check(store: Store, number: int) -> None:
    """Whole commits, at least so many, each message as it was stored."""
    following = store.bounds("orders")[1]
    commits, rest = divmod(following - 1, ENTRIES * MESSAGES)
    assert rest == 0
    assert commits >= number
    assert dict(store.items()) == {"commit": b"%d" % commits}
    found = store.read("orders", 1, following, 1 << 40)
    assert [one for entry in found for one in range(entry.cat, entry.cat_last + 1)] == [*range(1, following)]
    for entry in found:
        assert entry.batch.payload_list() == [payload(cat) for cat in range(entry.cat, entry.cat_last + 1)]
    assert store.verify() == []


def test_everything_that_was_fsynced_survives_kills_of_the_writer(url: str):
    chance = random.Random(5)
    number = 0
    for _ in range(KILLS):
        writer = started(url)
        number = max(number, acknowledged(writer, chance.randint(1, COMMITS_MAX)))
        writer.kill()
        number = ended(writer, number)
        with opened(url) as store:
            check(store, number)
    assert number > KILLS


def test_everything_that_was_fsynced_survives_a_crash_of_the_server(postgres: PostgresServer):
    url = f"{postgres.url}#server_crashes"
    number = 0
    for commits in (3, 40):
        writer = started(url)
        number = max(number, acknowledged(writer, commits))
        postgres.kill()
        number = ended(writer, number)
        postgres.start()
        with opened(url) as store:
            check(store, number)
    assert number >= 40


def test_a_store_goes_on_when_its_server_is_back(postgres: PostgresServer):
    with opened(f"{postgres.url}#back") as store:
        store.put("key", b"value")
        postgres.kill()
        with pytest.raises(StoreFailed):
            list(store.items())
        postgres.start()
        with pytest.raises(StoreAway, match="what was buffered is not stored"):
            list(store.items())
        with pytest.raises(StoreFailed):
            store.commit(Level.FSYNCED)
        assert list(store.items()) == []


@pytest.mark.parametrize(("scheme", "bytes_max"), [("sqlite", 700_000), ("segments", 150_000)])
def test_a_disk_that_is_full_is_said_and_loses_nothing_that_was_fsynced(tmp_path: Path, scheme: str, bytes_max: int):
    url = f"{scheme}:{tmp_path / 'store'}"
    writer = started(url, bytes_max)
    number = ended(writer, 0)
    assert (number > 0, writer.returncode in (0, EXIT_FULL)) == (True, True)
    with opened(url) as store:
        check(store, number)
