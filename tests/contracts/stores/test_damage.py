"""Bits flip and blocks tear: nothing wrong is ever returned, verifying says so, and a sibling makes up for it."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from holdfast.model.reliable import Entry, Level
from holdfast.storage.stores import Store, StoreError, StoreFailed, open_store
from holdfast.storage.stores.mending import mend_from
from holdfast.storage.stores.segments import SegmentStore
from tests.support.entries import entry
from tests.support.postgres import PostgresServer

EVERYTHING = 1 << 40
FLIPS = 40
"""How many places of each kind of file are harmed, beside its beginning and its end."""


def entries() -> list[Entry]:
    """Two publishers in turn, whose batches differ in size."""
    made, cats = [], {"alice": 1, "bob": 1}
    first = 1
    for number in range(40):
        publisher, count = ("alice", "bob")[number % 2], 1 + number % 3
        payloads = [b"%s-%d" % (publisher.encode(), cats[publisher] + at) * (1 + number) for at in range(count)]
        made.append(entry(first, cats[publisher], payloads, publisher, 1000 + number))
        cats[publisher] += count
        first += count
    return made


def filled(store: Store) -> None:
    everything = entries()
    for begin in range(0, len(everything), 5):
        store.append("orders", everything[begin : begin + 5])
        store.put(f"key/{begin}", b"value")
        store.commit(Level.FSYNCED)


def sibling() -> Store:
    """It has the same messages under other numbers."""
    store = open_store("memory:")
    store.append("orders", [one.moved(one.first + 1000) for one in entries()])
    store.commit(Level.FSYNCED)
    return store


def places(size: int, seed: int, anywhere: int = FLIPS) -> list[int]:
    """Bytes of a file: its beginning, its end, and anywhere."""
    chance = random.Random(seed)
    ends = {0, 3, 17, 40, 99, size - 1, size - 9, size - 500}
    return sorted({at for at in ends if 0 <= at < size} | {chance.randrange(size) for _ in range(anywhere)})


def flipped(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1 << at % 8]))


def sound_messages(store: Store) -> int:
    """How many are returned; each must be what was stored."""
    right = {one.first: one for one in entries()}
    found = store.read("orders", 1, 1000, EVERYTHING)
    for publisher in ("alice", "bob"):
        found += store.by_identity("orders", publisher, 1, 1000, EVERYTHING)
    assert all(right[one.first] == one for one in found)
    return sum(one.count for one in found)


ALL = 2 * sum(one.count for one in entries())


def judged(open_it: Callable[[], Store]) -> str:
    """What became of a store that was harmed: whole after all, mended, or beyond help and known to be."""
    try:
        store = open_it()
    except (StoreFailed, StoreError):
        return "refused"
    with store:
        try:
            found = sound_messages(store)
        except StoreFailed:
            found = 0
        damages = store.verify()
        if not damages:
            assert found == ALL
            assert len(list(store.items())) == 8
            return "whole"
        mended = mend_from(store, sibling())
        assert mended.found == damages
        assert sound_messages(store) == ALL
        return "mended" if not mended.left else "known"


@pytest.fixture
def template(tmp_path: Path) -> Path:
    path = tmp_path / "template"
    path.mkdir()
    return path


def copied(template: Path, to: Path) -> Path:
    to.mkdir()
    for file in template.iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    return to


def fates(template: Path, name: str, tmp_path: Path, open_in: Callable[[Path], Store]) -> dict[str, int]:
    counted: dict[str, int] = {}
    for number, at in enumerate(places((template / name).stat().st_size, seed=7)):
        place = copied(template, tmp_path / f"{name}-{number}")
        flipped(place / name, at)
        try:
            fate = judged(lambda place=place: open_in(place))  # type: ignore[misc]
        except AssertionError as error:
            raise AssertionError(f"byte {at} of {name}: {error}") from error
        counted[fate] = counted.get(fate, 0) + 1
    return counted


def test_a_bit_that_flips_in_an_sqlite_file_is_found_and_mended(template: Path, tmp_path: Path):
    with open_store(f"sqlite:{template / 'store.db'}") as store:
        filled(store)
    counted = fates(template, "store.db", tmp_path, lambda place: open_store(f"sqlite:{place / 'store.db'}"))
    assert counted["mended"] > 10, counted


def test_what_a_harmed_log_of_sqlite_has_lost_is_reported_and_appended(template: Path, tmp_path: Path):
    with open_store(f"sqlite:{template / 'store.db'}") as store:
        filled(store)
        crashed = copied(template, tmp_path / "crashed")
    lost = 0
    for number, at in enumerate(places((crashed / "store.db-wal").stat().st_size, seed=8, anywhere=20)):
        place = copied(crashed, tmp_path / f"log-{number}")
        flipped(place / "store.db-wal", at)
        with open_store(f"sqlite:{place / 'store.db'}", write=False) as looked_at:
            seen = looked_at.verify()
        with open_store(f"sqlite:{place / 'store.db'}") as store:
            found, damages = sound_messages(store), store.verify()
            assert bool(damages) == bool(seen) == (found < ALL), at
            if damages:
                lost += 1
                assert any(damage.tail for damage in damages)
                assert mend_from(store, sibling()).left == []
                assert all_identities(store), at
    assert lost > 5


@pytest.mark.parametrize("how", ["cut off", "empty", "gone", "an older file"])
def test_commits_that_sqlite_has_lost_without_a_trace_are_missed_all_the_same(how: str, template: Path, tmp_path: Path):
    with open_store(f"sqlite:{template / 'store.db'}") as store:
        store.append("orders", entries()[:1])
        store.commit(Level.FSYNCED)
        older = copied(template, tmp_path / "older")
    with open_store(f"sqlite:{template / 'store.db'}") as store:
        store.append("orders", entries()[1:])
        store.commit(Level.FSYNCED)
        place = copied(template, tmp_path / "crashed")
    log = place / "store.db-wal"
    if how == "gone":
        log.unlink()
    elif how == "an older file":
        for suffix in ("", "-wal"):
            shutil.copy(older / f"store.db{suffix}", place / f"store.db{suffix}")
    else:
        with log.open("r+b") as file:
            file.truncate(log.stat().st_size - 2 * (24 + 8192) if how == "cut off" else 0)
    with open_store(f"sqlite:{place / 'store.db'}", write=False) as looked_at:
        assert any(damage.tail for damage in looked_at.verify())
    with open_store(f"sqlite:{place / 'store.db'}") as store:
        [what] = store.lost()
        assert "1 of its synced commits" in what
        assert mend_from(store, sibling()).left == []
        assert all_identities(store)
    with open_store(f"sqlite:{place / 'store.db'}") as store:
        assert store.lost() == []
        assert store.verify() == []


def all_identities(store: Store) -> bool:
    """Whether every message of everybody is there, under whatever number."""
    return all(
        [
            payload
            for one in store.by_identity("orders", publisher, 1, 1000, EVERYTHING)
            for payload in one.batch.payload_list()
        ]
        == [payload for one in entries() if one.publisher == publisher for payload in one.batch.payload_list()]
        for publisher in ("alice", "bob")
    )


@pytest.mark.parametrize("which", ["first", "last", "index", "mark"])
def test_a_bit_that_flips_in_a_segment_is_found_and_mended(which: str, template: Path, tmp_path: Path):
    def open_in(place: Path) -> Store:
        return SegmentStore(place, segment_bytes=6000)

    with open_in(template) as store:
        filled(store)
    logs = sorted(file.name for file in template.glob("*.log"))
    assert len(logs) > 2
    name = {"first": logs[0], "last": logs[-1], "index": logs[0].replace(".log", ".index"), "mark": "synced"}[which]
    counted = fates(template, name, tmp_path, open_in)
    assert set(counted) <= {"whole", "mended"}
    assert counted.get("mended", 0) > 20 or which == "mark", counted


@pytest.mark.parametrize("torn", [1, 13, 200, 1200])
def test_a_tail_that_was_synced_and_is_torn_is_reported_and_appended(torn: int, tmp_path: Path):
    with SegmentStore(tmp_path / "store") as store:
        filled(store)
        end = store._end
    log = next((tmp_path / "store").glob("*.log"))
    with log.open("r+b") as file:
        file.truncate(end - torn)
    with SegmentStore(tmp_path / "store") as store:
        assert sound_messages(store) < ALL or torn < 100
        assert any(damage.tail for damage in store.verify())
    with SegmentStore(tmp_path / "store") as store:
        assert any(damage.tail for damage in store.verify())
        assert mend_from(store, sibling()).left == []
        assert all_identities(store)


def test_a_commit_that_was_never_finished_is_no_damage(tmp_path: Path):
    with SegmentStore(tmp_path / "store", segment_bytes=20_000) as store:
        filled(store)
        end, active = store._end, store._active
        store.append("orders", [entry(1000, cat=1000)])
        store.commit(Level.WRITTEN)
        unfinished = store._end
    log = tmp_path / "store" / f"{active:020d}.log"
    whole = log.read_bytes()
    for cut in range(end, unfinished):
        log.write_bytes(whole[:cut])
        with SegmentStore(tmp_path / "store", segment_bytes=20_000) as store:
            assert (sound_messages(store), store.verify()) == (ALL, [])
            assert store.bounds("orders")[1] < 1000


def test_rows_that_are_harmed_in_postgresql_are_found_and_mended(postgres: PostgresServer):
    url = f"{postgres.url}#harmed"
    with open_store(url) as store:
        filled(store)
    with psycopg.connect(postgres.url, autocommit=True) as db:
        db.execute("SET search_path = harmed")
        db.execute("UPDATE entries SET entry = set_byte(entry, 9, get_byte(entry, 9) # 4) WHERE first IN (4, 13)")
        db.execute("UPDATE entries SET cat = cat + 500 WHERE first = 7")
        db.execute("UPDATE entries SET first = first + 5000 WHERE first = 21")
        db.execute("UPDATE streams SET next = next + 1")
    assert judged(lambda: open_store(url)) == "mended"


def test_bits_that_flip_in_a_table_of_postgresql_are_found(postgres: PostgresServer):
    url = f"{postgres.url}#flipped"
    with open_store(url) as store:
        filled(store)
    with psycopg.connect(postgres.url) as db:
        [(name,)] = db.execute("SELECT pg_relation_filepath('flipped.entries')").fetchall()
    postgres.stop()
    table = postgres.data / name
    # A page fills from its end, and of a row the columns and the entry are most: anything else would be refused.
    for at in range(8192 - 3000, 8192, 307):
        flipped(table, at)
    postgres.start()
    with open_store(url) as store:
        assert 0 < sound_messages(store) < ALL
        assert len(store.verify()) > 3


def test_a_segment_that_is_missing_is_reported_and_made_up_for(tmp_path: Path):
    with SegmentStore(tmp_path / "store", segment_bytes=6000) as store:
        filled(store)
    second = sorted((tmp_path / "store").glob("*.log"))[1]
    second.unlink()
    with SegmentStore(tmp_path / "store", segment_bytes=6000) as store:
        assert 0 < sound_messages(store) < ALL
        assert any(second.name in damage.what for damage in store.verify())
        assert mend_from(store, sibling()).left == []
        assert all_identities(store)
