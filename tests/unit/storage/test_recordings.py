"""Recordings: what was appended is read again, from any position, whatever happened to the writer."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.batches import Message
from holdfast.model.guarantees import GUARANTEES, Guarantee
from holdfast.storage import recordings
from holdfast.storage.frames import Frame
from holdfast.storage.recordings import Recording, RecordingError, RecordingWriter


def message(seq: int, payload: bytes = b"x") -> Message:
    return Message(f"orders/{seq % 3}", payload, "alice", seq, Guarantee.FIFO)


def record(path: Path, first: int, last: int, every: int = 3, segment_bytes_max: int = 300) -> None:
    """Messages of alice first..last, a few in each frame, a few frames in each segment."""
    with RecordingWriter(path, segment_bytes_max) as writer:
        for seq in range(first, last + 1):
            writer.append([message(seq)], time_ns=seq * 1000)
            if seq % every == 0:
                writer.flush()


def messages_of(frame: Frame) -> list[tuple[int, Message]]:
    """The messages of a frame with their positions, the slow and obvious way."""
    columns = frame.columns
    topic_at, publisher_at = memoryview(columns.topic_at).cast("i"), memoryview(columns.publisher_at).cast("i")
    offsets, seqs = memoryview(columns.offsets).cast("i"), memoryview(columns.seqs).cast("q")
    return [
        (
            frame.first + at,
            Message(
                columns.topics[topic_at[at]],
                columns.payloads[offsets[at] : offsets[at + 1]],
                columns.publishers[publisher_at[at]],
                seqs[at],
                GUARANTEES[columns.guarantees[at]],
                tuple(columns.keys[at]) if columns.keys else (),
                columns.attributes[at] if columns.attributes else {},
            ),
        )
        for at in range(frame.count)
    ]


def read(path: Path, start: int, end: int) -> list[tuple[int, Message]]:
    found = [one for frame in Recording(path).frames(start, end) for one in messages_of(frame)]
    return [(position, each) for position, each in found if start <= position < end]


@contextmanager
def recording_directory() -> Iterator[Path]:
    """A directory for one example: hypothesis runs many within one test."""
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory) / "recording"


texts = st.text(min_size=1, max_size=8)
values = st.one_of(st.text(max_size=8), st.integers(-(2**53), 2**53), st.booleans(), st.floats(allow_nan=False))
messages = st.builds(
    Message,
    texts,
    st.binary(max_size=40),
    texts,
    st.integers(1, 2**53 - 1),
    st.sampled_from(GUARANTEES),
    st.lists(texts, max_size=3).map(tuple),
    st.dictionaries(texts, values, max_size=3),
)


@settings(max_examples=40)
@given(st.lists(st.lists(messages, max_size=5), max_size=6))
def test_what_is_recorded_is_read_again_to_the_last_attribute(batches: list[list[Message]]):
    with pytest.MonkeyPatch.context() as patched, recording_directory() as path:
        patched.setattr(recordings, "FRAME_COUNT_MAX", 3)
        with RecordingWriter(path, segment_bytes_max=200) as writer:
            for batch in batches:
                writer.append(batch, 1)
                writer.flush(sync=False)
        expected = list(enumerate(one for batch in batches for one in batch))
        assert Recording(path).end() == len(expected)
        assert read(path, 0, len(expected)) == expected


def test_any_range_can_be_read_across_frames_and_segments(tmp_path: Path):
    record(tmp_path, 1, 40)
    assert len(list(tmp_path.glob("*.log"))) > 3
    for start in range(41):
        for end in (start, start + 1, 40):
            assert [position for position, _ in read(tmp_path, start, min(end, 40))] == list(range(start, min(end, 40)))


def test_the_index_leads_to_the_same_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recordings, "INDEX_EVERY_BYTES", 100)
    record(tmp_path, 1, 90, segment_bytes_max=2000)
    assert all(file.stat().st_size > 0 for file in sorted(tmp_path.glob("*.index"))[:-1])
    with_index = [read(tmp_path, start, 90) for start in range(90)]
    for index in tmp_path.glob("*.index"):
        index.unlink()
    assert [read(tmp_path, start, 90) for start in range(90)] == with_index
    assert with_index[0] == [(position, message(position + 1)) for position in range(90)]


def test_a_writer_goes_on_where_the_one_before_it_ended(tmp_path: Path):
    record(tmp_path, 1, 10)
    record(tmp_path, 11, 20)
    assert [each.seq for _, each in read(tmp_path, 0, 20)] == list(range(1, 21))


@pytest.mark.parametrize("lost_bytes", range(1, 120, 7))
def test_a_writer_killed_in_the_middle_leaves_what_was_complete_and_the_next_cuts_the_rest_off(
    tmp_path: Path, lost_bytes: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(recordings, "INDEX_EVERY_BYTES", 50)
    record(tmp_path, 1, 30, segment_bytes_max=100_000)
    segment = tmp_path / f"{0:020d}.log"
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-lost_bytes])
    end = Recording(tmp_path).end()
    assert end in (24, 27)
    assert [each.seq for _, each in read(tmp_path, 0, end)] == list(range(1, end + 1))
    record(tmp_path, end + 1, 30, segment_bytes_max=100_000)
    assert segment.read_bytes() == whole


def test_a_damaged_byte_is_an_error_that_names_the_message_not_a_wrong_message(tmp_path: Path):
    record(tmp_path, 1, 30, segment_bytes_max=100_000)
    segment = tmp_path / f"{0:020d}.log"
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    with pytest.raises(RecordingError, match=r"message \d+ of .* cannot be read"):
        read(tmp_path, 0, 30)


def test_removed_segments_are_missed_by_name(tmp_path: Path):
    record(tmp_path, 1, 40)
    oldest, second = sorted(tmp_path.glob("*.log"))[:2]
    oldest.unlink()
    first = Recording(tmp_path).first()
    assert first == int(second.stem)
    with pytest.raises(RecordingError, match=rf"messages 0..{first - 1} .* were removed; the oldest left is {first}"):
        read(tmp_path, 0, 40)
    assert len(read(tmp_path, first, 40)) == 40 - first


def test_two_writers_of_one_recording_are_one_too_many(tmp_path: Path):
    with (
        RecordingWriter(tmp_path),
        pytest.raises(RecordingError, match="being written by another process"),
    ):
        RecordingWriter(tmp_path)
    RecordingWriter(tmp_path).close()


def test_what_is_not_flushed_is_not_there_and_what_is_flushed_is(tmp_path: Path):
    with RecordingWriter(tmp_path) as writer:
        writer.append([message(1), message(2)], 5)
        assert (Recording(tmp_path).end(), writer.pending) == (0, 2)
        assert writer.flush() == 2
        assert (Recording(tmp_path).end(), writer.pending) == (2, 0)


def test_a_directory_without_a_recording_says_how_to_make_one(tmp_path: Path):
    with pytest.raises(RecordingError, match="holdfast sub --record"):
        Recording(tmp_path)
