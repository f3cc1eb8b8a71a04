"""A segment that cannot be begun: the store says so, keeps what it has, and closes every descriptor once."""

from pathlib import Path

import pytest

from holdfast.model.reliable import Level
from holdfast.storage.stores import segments
from holdfast.storage.stores.segments import SegmentStore
from holdfast.storage.stores.store import StoreFailed
from tests.support.entries import entry


def refuse(*_: object) -> int:
    raise OSError(28, "No space left on device")


def descriptors() -> set[Path]:
    return set(Path("/proc/self/fd").iterdir())


def store_up_to(store: SegmentStore, number: int) -> None:
    for one in range(store.bounds("orders")[1], number + 1):
        store.append("orders", [entry(one, cat=one)])
        store.commit(Level.FSYNCED)


@pytest.mark.parametrize("step", ["index", "file", "beginning"])
def test_a_segment_that_cannot_be_begun_is_a_sentence_and_every_descriptor_is_closed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
):
    before = descriptors()
    store = SegmentStore(tmp_path, segment_bytes=1500)
    store_up_to(store, 3)
    with monkeypatch.context() as patch:
        if step == "index":
            patch.setattr(segments, "write_index", refuse)
        elif step == "file":
            patch.setattr(store._files, "open_for_writing", refuse)
        else:
            patch.setattr(store, "_append_commit", refuse)
        with pytest.raises(StoreFailed, match="No space left on device; make room"):
            store_up_to(store, 100)
    store.close()
    assert descriptors() == before
    with SegmentStore(tmp_path, segment_bytes=1500) as again:
        kept = [one.first for one in again.read("orders", 1, 100, 1 << 40)]
        assert 3 < len(kept) < 100
        assert kept == list(range(1, len(kept) + 1))
