"""Which commits are over in an instant, and that logs do not grow for ever."""

from pathlib import Path

import pytest

from holdfast.model.batches import make_batch
from holdfast.model.reliable import Entry, Level
from holdfast.storage.stores import Store, open_store, segments, sqlite
from holdfast.storage.stores.segments import SegmentStore


def store_one(store: Store, number: int, size: int = 4096) -> None:
    store.append("orders", [Entry(number, number, make_batch("alice", number, "orders", 1, [bytes(size)]), number)])
    store.commit(Level.WRITTEN)


@pytest.mark.parametrize("url", ["sqlite:{}/s.db", "segments:{}/s"])
def test_a_small_commit_is_light_and_one_that_is_longer_than_the_log_is_not(url: str, tmp_path: Path):
    with open_store(url.format(tmp_path)) as store:
        assert store.is_light(10_000)
        assert not store.is_light(1 << 26)


def test_the_commit_that_would_begin_another_segment_is_not_light(tmp_path: Path):
    with SegmentStore(tmp_path / "s", segment_bytes=1 << 17) as store:
        number = 0
        while store.is_light(4096):
            number += 1
            store_one(store, number)
            assert len(list((tmp_path / "s").glob("*.log"))) == 1
        assert number > 5
        for later in range(number + 1, number + 40):
            store_one(store, later)
        assert len(list((tmp_path / "s").glob("*.log"))) > 1
        assert store.bounds("orders") == (1, number + 40)


def test_a_segment_of_many_entries_is_full_at_a_quarter_of_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(segments, "RECORDS_MAX", 20)
    path, size = tmp_path / "s", 1 << 18
    with SegmentStore(path, segment_bytes=size) as store:
        for number in range(1, 11):
            store_one(store, number, 10_000)
        assert not store.is_light(0)
    with SegmentStore(path, segment_bytes=size) as store:
        assert not store.is_light(0)
        store_one(store, 11, 10_000)
        assert store.is_light(0)
    assert len(list(path.glob("*.log"))) == 2


def test_sqlites_log_is_moved_into_the_file_by_a_commit_that_is_not_light(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sqlite, "LOG_PAGES_MAX", 64)
    log = tmp_path / "s.db-wal"
    with open_store(f"sqlite:{tmp_path}/s.db") as store:
        light = []
        for number in range(1, 101):
            light.append(store.is_light(4096))
            store_one(store, number)
        assert {True, False} == set(light)
        assert log.stat().st_size < 4 * 64 * sqlite.PAGE_BYTES
        assert sum(entry.count for entry in store.read("orders", 1, 100, 1 << 30)) == 100
