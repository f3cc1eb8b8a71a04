"""The state of a broker on disk: what was written is there, or what was before; everything else is set aside."""

from pathlib import Path

import pytest

from holdfast.storage.state_file import MAGIC, StateError, StateFile

PAIRS = {"epoch": b"\x07", "tree": b"\x90"}


def opened(directory: Path, cluster: str = "holdfast", name: str = "b1") -> StateFile:
    return StateFile(directory, cluster, name)


def written(directory: Path) -> bytes:
    opened(directory).write(PAIRS)
    return (directory / "b1.state").read_bytes()


def test_what_was_written_is_there_in_the_next_life(tmp_path: Path):
    place = tmp_path / "not" / "there" / "yet"
    first = opened(place)
    assert (first.pairs, first.refused) == ({}, "")
    first.write(PAIRS)
    first.write({"epoch": b"\x08", "tree": b""})
    again = opened(place)
    assert (again.pairs, again.refused) == ({"epoch": b"\x08"}, "")
    assert [path.name for path in place.iterdir()] == ["b1.state"]


def test_what_does_not_change_is_not_written(tmp_path: Path):
    state = opened(tmp_path)
    state.write(PAIRS)
    state.path.unlink()
    state.write({"epoch": PAIRS["epoch"], "other": b""})
    assert not state.path.exists()


def test_a_crash_before_the_new_file_is_in_its_place_leaves_the_old_one(tmp_path: Path):
    whole = written(tmp_path)
    (tmp_path / "b1.state.new").write_bytes(whole[:20])
    state = opened(tmp_path)
    assert (state.pairs, state.refused) == (PAIRS, "")
    state.write({"epoch": b"\x09"})
    assert opened(tmp_path).pairs["epoch"] == b"\x09"


def test_a_file_that_is_torn_anywhere_is_refused_and_set_aside(tmp_path: Path):
    whole = written(tmp_path)
    for length in range(len(whole)):
        (tmp_path / "b1.state").write_bytes(whole[:length])
        state = opened(tmp_path)
        assert state.pairs == {}
        assert f"set aside as b1.state.refused-{length + 1}" in state.refused
        assert (tmp_path / f"b1.state.refused-{length + 1}").read_bytes() == whole[:length]
        assert not state.path.exists()


def test_a_file_with_a_flipped_bit_is_refused(tmp_path: Path):
    whole = bytearray(written(tmp_path))
    for at in range(len(whole)):
        torn = bytearray(whole)
        torn[at] ^= 4
        (tmp_path / "b1.state").write_bytes(torn)
        state = opened(tmp_path)
        assert state.pairs == {}
        assert ("is damaged" if at >= len(MAGIC) else "in a version that is understood") in state.refused


@pytest.mark.parametrize(("cluster", "name"), [("bank", "b1"), ("holdfast", "b2")])
def test_the_state_of_somebody_else_is_refused(tmp_path: Path, cluster: str, name: str):
    written(tmp_path)
    (tmp_path / "b1.state").rename(tmp_path / f"{name}.state")
    state = opened(tmp_path, cluster, name)
    assert state.pairs == {}
    assert "belongs to broker b1 of cluster holdfast" in state.refused


def test_names_of_brokers_need_not_be_names_of_files(tmp_path: Path):
    opened(tmp_path, name="../é/b").write(PAIRS)
    assert opened(tmp_path, name="../é/b").pairs == PAIRS
    assert [path.name for path in tmp_path.iterdir()] == ["..%2F%C3%A9%2Fb.state"]


def test_a_place_that_cannot_be_used_is_said_in_a_sentence(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match=r"broker b1 cannot keep its state in .*: .*; name another place"):
        opened(tmp_path / "file" / "below")
    state = opened(tmp_path / "place")
    (tmp_path / "place").rmdir()
    with pytest.raises(StateError, match=r"broker b1 cannot write its state .* so it ends"):
        state.write(PAIRS)
    assert state.pairs == {}
