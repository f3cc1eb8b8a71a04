"""The journal of a broker on disk: what was written is there; half a write at the end is not; damage is an error."""

from pathlib import Path

import pytest

from holdfast.storage import state_log
from holdfast.storage.state_file import StateError
from holdfast.storage.state_log import StateLog


def opened(directory: Path, cluster: str = "holdfast", name: str = "b1") -> StateLog:
    return StateLog(directory, cluster, name)


def written(directory: Path) -> tuple[Path, bytes, list[int]]:
    """A journal of three writes, and where each ends."""
    log, ends = opened(directory), []
    for changes in ({"a": b"1", "b": b"2"}, {"c": b"3"}, {"a": b"", "b": b"4"}):
        log.write(changes)
        ends.append(log.path.stat().st_size)
    log.close()
    return log.path, log.path.read_bytes(), ends


def test_what_was_written_is_there_in_the_next_life_and_can_be_added_to(tmp_path: Path):
    place = tmp_path / "not" / "there" / "yet"
    written(place)
    again = opened(place)
    assert again.pairs == {"b": b"4", "c": b"3"}
    again.write({"d": b"5"})
    assert opened(place).pairs == {"b": b"4", "c": b"3", "d": b"5"}
    assert [path.name for path in place.iterdir()] == ["b1.journal"]


def test_half_a_write_at_the_end_never_happened(tmp_path: Path):
    path, whole, ends = written(tmp_path)
    for length in range(ends[1], ends[2]):
        path.write_bytes(whole[:length])
        log = opened(tmp_path)
        assert log.pairs == {"a": b"1", "b": b"2", "c": b"3"}
        log.write({"e": b"6"})
        assert opened(tmp_path).pairs == {"a": b"1", "b": b"2", "c": b"3", "e": b"6"}


def test_zeros_at_the_end_are_a_write_that_never_happened(tmp_path: Path):
    path, whole, _ = written(tmp_path)
    path.write_bytes(whole + bytes(100))
    assert opened(tmp_path).pairs == {"b": b"4", "c": b"3"}
    assert path.read_bytes() == whole


def test_a_flipped_bit_before_the_last_write_is_an_error_and_the_file_stays(tmp_path: Path):
    path, whole, ends = written(tmp_path)
    for at in range(ends[1] - 1):
        torn = bytearray(whole)
        torn[at] ^= 1
        path.write_bytes(torn)
        with pytest.raises(StateError, match=r"broker b1 cannot begin: .*b1.journal .*bring the file back"):
            opened(tmp_path)
        assert path.read_bytes() == torn


@pytest.mark.parametrize(("cluster", "name"), [("bank", "b1"), ("holdfast", "b2")])
def test_the_journal_of_somebody_else_is_refused(tmp_path: Path, cluster: str, name: str):
    path, _, _ = written(tmp_path)
    path.rename(tmp_path / f"{name}.journal")
    with pytest.raises(StateError, match="belongs to broker b1 of cluster holdfast"):
        opened(tmp_path, cluster, name)


def test_a_journal_that_has_outgrown_what_it_says_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(state_log, "GROWTH_BYTES_MIN", 1000)
    log = opened(tmp_path)
    for number in range(500):
        log.write({"k": b"%d" % number, f"r{number}": b"x" * 10, f"r{number - 1}": b""})
    assert log.path.stat().st_size < 1200
    assert opened(tmp_path).pairs == {"k": b"499", "r499": b"x" * 10}
    assert [path.name for path in tmp_path.iterdir()] == ["b1.journal"]


def test_a_disk_that_cannot_be_written_to_is_said_in_a_sentence(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="broker b1 cannot keep its state"):
        opened(tmp_path / "file" / "below")
    log = opened(tmp_path / "place")
    (tmp_path / "place").rmdir()
    with pytest.raises(StateError, match=r"broker b1 cannot write its state .* so it ends"):
        log.write({"a": b"1"})
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
