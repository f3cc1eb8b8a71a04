"""A recording as a log: ranges without gaps, narrowed by filters, and positions as options give them."""

from pathlib import Path

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual

from holdfast.model.batches import Message
from holdfast.model.guarantees import Guarantee
from holdfast.pipeline.filters import TopicMatches
from holdfast.pipeline.logs import LogError, Range, local_path, parse_positions
from holdfast.pipeline.recording_log import LANE, RecordingLog
from holdfast.storage.recordings import RecordingWriter


@pytest.fixture
def log(tmp_path: Path) -> RecordingLog:
    with RecordingWriter(tmp_path) as writer:
        for first in range(0, 100, 10):
            writer.append(
                [Message(f"t/{first}", b"%d" % at, "alice", at + 1, Guarantee.FIFO) for at in range(first, first + 10)],
                1,
            )
            writer.flush(sync=False)
    return RecordingLog(tmp_path)


@pytest.mark.parametrize("rows", [1, 7, 33, 100, 1000])
def test_ranges_are_even_and_leave_nothing_out(log: RecordingLog, rows: int):
    ranges = log.ranges({LANE: 3}, {LANE: 98}, rows)
    assert [each.first for each in ranges] + [98] == [3] + [each.end for each in ranges]
    assert max(each.end - each.first for each in ranges) <= rows
    read = [value for each in ranges for batch in log.read(each, ()) for value in batch.column("position").to_pylist()]
    assert read == list(range(3, 98))


def test_where_nothing_is_there_is_no_range(log: RecordingLog):
    assert log.ranges({LANE: 5}, {LANE: 5}, 10) == []


@pytest.mark.parametrize(
    ("filters", "first", "end"),
    [
        ([EqualTo(("position",), 7)], 7, 8),
        ([GreaterThan(("position",), 7), LessThanOrEqual(("position",), 9)], 8, 10),
        ([GreaterThanOrEqual(("position",), 50), LessThan(("position",), 20)], 50, 50),
        ([EqualTo(("seq",), 7)], 0, 100),
    ],
)
def test_filters_on_positions_narrow_what_is_read(log: RecordingLog, filters: list[Filter], first: int, end: int):
    assert log.narrowed({LANE: 0}, {LANE: 100}, filters) == ({LANE: first}, {LANE: end})


def test_frames_without_a_wanted_topic_are_not_even_decoded_into_rows(log: RecordingLog):
    read = [batch.num_rows for batch in log.read(Range(LANE, 0, 100), [TopicMatches("t/30")])]
    assert sum(read) == 10


def test_an_advance_is_bounded_by_its_limit_and_by_the_end(log: RecordingLog):
    assert log.advance({LANE: 10}, {LANE: 100}, 30) == {LANE: 40}
    assert log.advance({LANE: 90}, {LANE: 100}, 30) == {LANE: 100}


@pytest.mark.parametrize(("text", "position"), [("earliest", 0), ("latest", 100), ("42", 42), ('{"messages": 7}', 7)])
def test_positions_are_words_numbers_or_objects(log: RecordingLog, text: str, position: int):
    assert parse_positions(text, log, "startPosition") == {LANE: position}


@pytest.mark.parametrize("text", ["soon", "-1", "1.5", "true", "[1]", '{"messages": -1}', ""])
def test_anything_else_is_refused_with_the_name_of_the_option(log: RecordingLog, text: str):
    with pytest.raises(LogError, match="the option startPosition is"):
        parse_positions(text, log, "startPosition")


@pytest.mark.parametrize(("text", "path"), [("/a/b c", "/a/b c"), ("file:///a/b%20c", "/a/b c"), ("file:/a", "/a")])
def test_paths_and_file_uris_are_paths(text: str, path: str):
    assert local_path(text, "it") == Path(path)


def test_other_places_are_refused():
    with pytest.raises(LogError, match="s3://bucket/x is no path"):
        local_path("s3://bucket/x", "the ledger")
