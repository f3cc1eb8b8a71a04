"""A reliable topic as a log: planned by what every repository has, read from any, in spite of the others."""

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from pyspark.sql.datasource import EqualTo, In

from holdfast.pipeline.bundles import Bundle
from holdfast.pipeline.filters import TopicMatches
from holdfast.pipeline.logs import LogError, Range, Ranges, packed, parse_positions
from holdfast.pipeline.reliable_log import ReliableLog, open_reliable
from holdfast.protocols.narada.events import catenation
from holdfast.services import lanes
from tests.support.shelves import LIFE, STREAM, Shelf

ALICE, BOB = f"alice/{LIFE}", f"bob/{LIFE}"


def numbered(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last + 1)]


@pytest.fixture
def shelves() -> Iterator[list[Shelf]]:
    """Two repositories: both have ten messages of alice, the second also two of bob."""
    with ExitStack() as stack:
        made = [stack.enter_context(Shelf(name)) for name in ("r1", "r2")]
        for shelf in made:
            shelf.keep(1, numbered(1, 10))
        made[1].keep(1, numbered(1, 2), publisher="bob")
        yield made


def log_of(shelves: list[Shelf], gaps: str = "fail", patience_s: float = 0.0) -> ReliableLog:
    return ReliableLog(Bundle(STREAM, [one.address for one in shelves], patience_s=patience_s), gaps)


def read(log: ReliableLog, first: int = 1, end: int = 11, lane: str = ALICE, topic: str = "") -> list[bytes]:
    filters = [TopicMatches(topic)] if topic else []
    return [
        payload
        for batch in log.read(Range(lane, first, end), filters)
        for payload in batch.column("payload").to_pylist()
    ]


# ------------------------------------------------------------------------------------------------------------ planning


def test_what_one_repository_lacks_is_not_planned(shelves: list[Shelf]):
    shelves[0].keep(11, numbered(11, 15))
    assert log_of(shelves).end() == {ALICE: 11}
    shelves[1].keep(11, numbered(11, 12))
    shelves[0].keep(1, numbered(1, 5), publisher="bob")
    assert log_of(shelves).end() == {ALICE: 13, BOB: 3}


def test_a_repository_that_has_not_caught_up_or_is_gone_does_not_count(shelves: list[Shelf]):
    shelves[0].keep(11, numbered(11, 15))
    shelves[1].stream_state.phase = "filling"
    assert log_of(shelves).end() == {ALICE: 16}
    shelves[1].kill()
    assert log_of(shelves).end() == {ALICE: 16}
    shelves[0].kill()
    with pytest.raises(LogError, match=r"reliable topic bank/# cannot be read: .*: nobody is listening there.* 0 s"):
        log_of(shelves).end()


def test_an_offset_never_shrinks_and_loses_no_lane(shelves: list[Shelf]):
    log = log_of(shelves)
    before = {ALICE: 14, "carol/1": 5}
    assert log.onward(before, log.end()) == before
    assert log.advance(before, {ALICE: 11, BOB: 3}, 100) == {**before, BOB: 3}


def test_positions_that_no_repository_has_are_another_topic_unless_somebody_is_away(shelves: list[Shelf]):
    log_of(shelves).check_reached({ALICE: 11, BOB: 3}, {})
    with pytest.raises(LogError, match=rf"ends at 11 in {ALICE}, and up to 12 was read"):
        log_of(shelves).check_reached({ALICE: 12}, {})
    shelves[1].kill()
    log_of(shelves).check_reached({ALICE: 12}, {})


@pytest.mark.parametrize(
    ("rows_max", "expected"),
    [(100, (5, 11, 21)), (13, (5, 5, 6)), (7, (3, 3, 4)), (3, (2, 2, 2)), (2, (0, 2, 2)), (1, (0, 0, 2))],
)
def test_lanes_share_a_micro_batch_and_the_longest_are_never_left_out(
    shelves: list[Shelf], rows_max: int, expected: tuple[int, ...]
):
    reached = log_of(shelves).advance({}, {"a/1": 5, "b/1": 11, "c/1": 21}, rows_max)
    assert tuple(reached.get(lane, 0) for lane in ("a/1", "b/1", "c/1")) == expected


def test_short_lanes_are_read_by_one_task_and_long_ones_by_several(shelves: list[Shelf]):
    ranges = log_of(shelves).ranges({"a/1": 3}, {"a/1": 5, "b/1": 3, "c/1": 26}, 10)
    assert ranges == [
        Ranges((Range("a/1", 3, 5), Range("b/1", 1, 3))),
        Ranges((Range("c/1", 1, 9),)),
        Ranges((Range("c/1", 9, 17),)),
        Ranges((Range("c/1", 17, 26),)),
    ]
    assert packed([], 10) == []


def test_filters_on_the_publisher_leave_out_lanes(shelves: list[Shelf]):
    end = {ALICE: 11, BOB: 3}
    log = log_of(shelves)
    assert log.narrowed({}, end, [EqualTo(("publisher",), "bob")]) == ({}, {BOB: 3})
    assert log.narrowed({}, end, [In(("publisher",), ("alice", "x")), EqualTo(("seq",), 1)]) == ({}, {ALICE: 11})


def test_a_query_may_begin_at_a_sequence_number_of_one_repository_or_at_a_time(shelves: list[Shelf]):
    for shelf in shelves:
        shelf.keep(11, numbered(11, 20), time_s=5.0)
    log = log_of(shelves)
    assert parse_positions("sequence:r1:15", log, "startPosition") == {ALICE: 15}
    # At the second one bob's two messages lie between.
    assert parse_positions("sequence:r2:15", log, "startPosition") == {ALICE: 13, BOB: 3}
    assert parse_positions("sequence:r2:15", log, "endPosition") == {ALICE: 13}
    assert parse_positions("time:1970-01-01T00:00:03Z", log, "startPosition") == {ALICE: 11}
    for text in ("sequence:15", "sequence:r1:0", "time:noon"):
        with pytest.raises(LogError, match="write it as in"):
            parse_positions(text, log, "startPosition")
    with pytest.raises(LogError, match="r9 is not among them"):
        parse_positions("sequence:r9:15", log, "startPosition")


@pytest.fixture
def in_lisbon_summer(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Local time is an hour ahead of UTC."""
    monkeypatch.setenv("TZ", "WEST-1")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_lisbon_summer")
def test_a_time_without_a_zone_is_local(shelves: list[Shelf]):
    log = log_of(shelves)
    shelves[0].keep(11, numbered(11, 12), time_s=5.0)
    for text in ("1970-01-01T01:00:03", "1970-01-01T00:00:03Z", "1970-01-01T02:00:03+02:00"):
        assert parse_positions(f"time:{text}", log, "startPosition") == {ALICE: 11}
    assert parse_positions("time:1970-01-01T00:00:03", log, "startPosition") == {ALICE: 1}


# ------------------------------------------------------------------------------------------------------------- reading


def test_every_column_is_as_it_was_published(shelves: list[Shelf]):
    (batch,) = log_of(shelves).read(Range(ALICE, 3, 5), [])
    row = batch.to_pylist()[0]
    assert (row["position"], row["publisher"], row["seq"]) == (catenation(LIFE, 3), "alice", 3)
    assert (row["topic"], row["guarantee"], row["payload"], row["time"]) == ("bank/a", "fifo", b"3", 10**9)
    assert (row["keys"], row["attributes"], batch.num_rows) == ([], [], 2)


def test_a_repository_that_dies_in_the_middle_is_replaced_by_the_next(
    shelves: list[Shelf], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lanes, "BLOCK_MESSAGES_MAX", 3)
    bundle = Bundle(STREAM, [one.address for one in shelves], patience_s=0)
    told = []
    for block in bundle.blocks("alice", LIFE, 1, 11):
        told.append((block.repository, block.first, block.upto))
        if block.first == 4:
            shelves[0].kill()
    assert told == [("r1", 1, 4), ("r1", 4, 7), ("r2", 7, 10), ("r2", 10, 11)]


def test_a_repository_that_is_behind_or_damaged_is_helped_out_by_another(shelves: list[Shelf]):
    shelves[1].keep(11, numbered(11, 15))
    assert read(log_of(shelves), end=16) == numbered(1, 15)
    with pytest.raises(LogError, match=r"message 16 of alice/7 cannot be had: .* r2 has it up to 15; .* up to 10"):
        read(log_of(shelves), end=18)


def test_what_was_given_up_fails_a_query_or_is_a_row_unless_another_repository_has_it(shelves: list[Shelf]):
    for shelf in shelves:
        shelf.keep(14, numbered(14, 15))
        shelf.machine.give_up(STREAM, "alice")
        shelf.commit()
    shelves[1].keep(13, numbered(13, 13))
    with pytest.raises(LogError, match=r"messages 11\.\.12 of alice/7 on the reliable topic bank/# were given up"):
        read(log_of(shelves), end=16)
    log = log_of(shelves, "note")
    rows = [row for batch in log.read(Range(ALICE, 9, 16), []) for row in batch.to_pylist()]
    assert [(row["position"] - catenation(LIFE, 0), row["payload"], row["gap"]) for row in rows] == [
        (9, b"9", 0),
        (10, b"10", 0),
        (11, b"", 2),
        (13, b"13", 0),
        (14, b"14", 0),
        (15, b"15", 0),
    ]


def test_a_pattern_is_applied_where_the_messages_lie(shelves: list[Shelf]):
    for shelf in shelves:
        shelf.keep(11, numbered(11, 12), topic="bank/b")
    assert read(log_of(shelves), end=13, topic="bank/b") == numbered(11, 12)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"path": "reliable:bank/#"}, "where its repositories are"),
        ({"path": "reliable:", "repositories": "h:1"}, "say which reliable topic"),
        ({"path": "reliable:t", "repositories": "h:1", "gaps": "mind"}, "gaps is 'mind'; it is one of fail, note"),
        ({"path": "reliable:t", "repositories": "h:1", "patience": "none"}, "patience is 'none'; it is a number"),
    ],
)
def test_options_that_cannot_be_are_refused_with_what_could(options: dict[str, str], sentence: str):
    with pytest.raises(LogError, match=sentence):
        open_reliable(options)


def test_a_refusal_is_not_waited_out(shelves: list[Shelf]):
    log = ReliableLog(Bundle("shop/#", [one.address for one in shelves], patience_s=60))
    with pytest.raises(LogError, match="refuses to tell: r1 does not keep the stream shop/#; it keeps bank/#"):
        log.end()
