"""Whoever reads beside a writer sees sound messages, and no damage that is not there."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from holdfast.model.reliable import Level
from holdfast.storage.stores import Store
from holdfast.storage.stores.segments import SegmentStore
from holdfast.storage.stores.store import Damage
from tests.contracts.stores.places import SHORT_SEGMENT_BYTES, Place
from tests.support.entries import entry

LOOKS = 12
COMMITS_MIN, COMMITS_MAX = 60, 2000
BEFORE = 1500
"""Enough for several questions in one look."""


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


readers = pytest.mark.parametrize("kind", ["sqlite", "segments", "short segments", "postgres"], indirect=True)


def store_one(store: Store, number: int) -> None:
    store.append("orders", [entry(number, cat=number, payloads=[b"%d" % number], time_ns=number)])
    store.put("last", b"%d" % number)
    store.commit(Level.WRITTEN)


@contextmanager
def busy_writer(store: Store, number: int, keep: int = 0) -> Iterator[threading.Event]:
    """Somebody commits without a pause, up to a bound, and forgets all but the last so many.

    The event says that it is under way.
    """
    stop, going, failed = threading.Event(), threading.Event(), list[Exception]()

    def work() -> None:
        at = number
        try:
            while not stop.is_set() and at < number + COMMITS_MAX:
                store_one(store, at)
                at += 1
                if keep and at % 20 == 0:
                    store.forget("orders", at - keep)
                    store.commit(Level.WRITTEN)
                if at - number >= COMMITS_MIN:
                    going.set()
        except Exception as error:  # noqa: BLE001 - it is raised below
            failed.append(error)
            going.set()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield going
    finally:
        stop.set()
        thread.join()
    if failed:
        raise failed[0]


@readers
def test_what_is_stored_after_a_reader_came_is_no_damage(place: Place):
    store = place.open()
    store_one(store, 1)
    with place.look() as reader:
        store_one(store, 2)
        assert reader.verify() == []


def seen_beside(place: Place, writer: AbstractContextManager[threading.Event]) -> list[Damage]:
    """What several looks find while somebody writes."""
    found: list[Damage] = []
    with writer as going:
        assert going.wait(20)
        for _ in range(LOOKS):
            with place.look() as reader:
                found += reader.verify()
    return found


@readers
def test_no_damage_is_found_while_somebody_writes(place: Place):
    store = place.open()
    store.append("orders", [entry(number, cat=number) for number in range(1, BEFORE + 1)])
    store.commit(Level.WRITTEN)
    assert seen_beside(place, busy_writer(store, BEFORE + 1)) == []


@readers
def test_no_damage_is_found_while_somebody_writes_and_forgets(place: Place):
    store = place.open()
    assert seen_beside(place, busy_writer(store, 1, keep=30)) == []


@readers
def test_a_reader_goes_on_with_what_is_left_of_what_was_forgotten(place: Place):
    store = place.open()
    for number in range(1, 101):
        store_one(store, number)
    with place.look() as verifier, place.look() as reader, place.look() as finder, place.look() as clock:
        store.forget("orders", 91)
        store.commit(Level.WRITTEN)
        assert verifier.verify() == []
        assert reader.read("orders", 1, 100, 1 << 30)[-1].last == 100
        assert reader.bounds("orders")[1] == 101
        assert finder.by_identity("orders", "alice", 1, 100, 1 << 30)[-1].cat_last == 100
        assert clock.at_time("orders", 95) == 95


def test_an_index_that_goes_before_its_segment_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with SegmentStore(tmp_path / "s", segment_bytes=SHORT_SEGMENT_BYTES) as store:
        for number in range(1, 101):
            store_one(store, number)
        found = []
        unlink = Path.unlink

        def look_and_unlink(path: Path, missing_ok: bool = False) -> None:
            unlink(path, missing_ok)
            with SegmentStore(tmp_path / "s", write=False) as reader:
                found.extend(reader.verify())

        monkeypatch.setattr(Path, "unlink", look_and_unlink)
        store.forget("orders", 91)
        store.commit(Level.WRITTEN)
        assert found == []


def half_written(path: Path) -> tuple[Path, bytes]:
    """A store whose last commit a writer has begun to write, and the bytes of the whole segment."""
    with SegmentStore(path) as store:
        store_one(store, 1)
        store_one(store, 2)
    log = next(path.glob("*.log"))
    whole = log.read_bytes()
    log.write_bytes(whole[:-8] + bytes(8))
    return log, whole


def test_a_commit_that_is_being_written_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    log, whole = half_written(tmp_path / "s")
    monkeypatch.setattr("holdfast.storage.stores.segment_files.time.sleep", lambda _: log.write_bytes(whole))
    with SegmentStore(tmp_path / "s", write=False) as reader:
        log.write_bytes(whole[:-8] + bytes(8))
        assert reader.verify() == []


def test_a_commit_that_is_never_finished_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    half_written(tmp_path / "s")
    monkeypatch.setattr("holdfast.storage.stores.segment_files.time.sleep", lambda _: None)
    with SegmentStore(tmp_path / "s", write=False) as reader:
        assert ["has lost its pairs" in damage.what for damage in reader.verify()] == [True]
