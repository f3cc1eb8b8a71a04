"""What a process that was killed has left unsynced is synced by the first commit as `fsynced` of the next one."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.model.reliable import Level
from holdfast.services import repository
from holdfast.storage.stores import MemoryStore
from holdfast.storage.stores.segments import FULL_MAX, SegmentStore
from tests.support.entries import entry


def written(store: SegmentStore | MemoryStore, first: int, last: int) -> None:
    for number in range(first, last + 1):
        store.append("orders", [entry(number, cat=number)])
        store.commit(Level.WRITTEN)


def noted(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The files that are synced from now on."""
    synced: set[int] = set()

    def noting(sync: Callable[[int], None]) -> Callable[[int], None]:
        def work(descriptor: int) -> None:
            sync(descriptor)
            synced.add(os.fstat(descriptor).st_ino)

        return work

    monkeypatch.setattr(os, "fsync", noting(os.fsync))
    monkeypatch.setattr(os, "fdatasync", noting(os.fdatasync))
    return synced


def test_full_segments_are_synced_when_somebody_asks_for_it_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with SegmentStore(tmp_path, segment_bytes=1500) as store:
        synced = noted(monkeypatch)
        written(store, 1, 200)
        files = list(tmp_path.glob("*.log"))
        assert len(files) > 2 * FULL_MAX
        assert not synced
        store.commit(Level.FSYNCED)
        assert {file.stat().st_ino for file in files} <= synced


def test_segments_of_another_process_and_their_directory_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with SegmentStore(tmp_path, segment_bytes=1500) as store:
        written(store, 1, 50)
    with SegmentStore(tmp_path, segment_bytes=1500) as store:
        synced = noted(monkeypatch)
        store.commit(Level.FSYNCED)
        files = [tmp_path, *tmp_path.glob("*.log")]
        assert len(files) > 3
        assert {file.stat().st_ino for file in files} <= synced
        synced.clear()
        store.commit(Level.FSYNCED)
        assert not synced


@pytest.mark.parametrize(("level", "left"), [(Level.FSYNCED, 3), (Level.WRITTEN, 0)])
def test_a_repository_that_promises_synced_messages_opens_its_store_so(
    level: Level, left: int, monkeypatch: pytest.MonkeyPatch
):
    store = MemoryStore()
    written(store, 1, 3)
    store.kill()
    monkeypatch.setattr(repository, "open_store", lambda _: store)
    assert repository.opened("memory:", level) is store
    store.crash()
    assert sum(one.count for one in store.read("orders", 1, 9, 1 << 20)) == left


@pytest.mark.parametrize("level", [Level.WRITTEN, Level.FSYNCED])
def test_pairs_that_change_without_any_message_do_not_fill_the_disk(tmp_path: Path, level: Level):
    with SegmentStore(tmp_path, segment_bytes=4000) as store:
        written(store, 1, 1)
        for number in range(3000):
            store.put("reader", b"%d" % number)
            store.commit(level)
        assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 30_000
    with SegmentStore(tmp_path) as store:
        assert dict(store.items())["reader"] == b"2999"
        assert [one.first for one in store.read("orders", 1, 9, 1 << 20)] == [1]
        assert store.verify() == []
