"""What a repository tells readers: how far lanes go, blocks of them, and where sequence numbers and times lie."""

from http.client import HTTPConnection
from urllib.parse import urlencode

import pytest

from holdfast.model.lanes import Lane, decode_block, decode_holdings, parse_lane
from holdfast.protocols.narada import Registration, RepositoryConfig
from holdfast.services import lanes
from holdfast.services.lanes import cut_at, read_block
from tests.support.entries import payloads
from tests.support.shelves import LIFE, STREAM, Shelf


def block(shelf: Shelf, first: int, last: int, topic: str = "#", publisher: str = "alice", life: int = LIFE):
    settled = shelf.stream_state.settled_of(publisher, life)
    return read_block(shelf.store, shelf.stream_state, publisher, life, settled, (first, last), topic)


def numbered(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last + 1)]


def test_a_range_of_a_lane_is_told_and_what_is_behind_its_end_is_not():
    shelf = Shelf("r1")
    shelf.keep(1, numbered(1, 10))
    found = block(shelf, 4, 20)
    assert payloads(found.entries) == numbered(4, 10)
    assert (found.first, found.upto, found.end, found.given_up, found.reason) == (4, 11, 11, (), "")
    assert (block(shelf, 11, 20).upto, block(shelf, 1, 5, publisher="nobody").end) == (11, 1)


def test_a_block_is_bounded_and_the_next_one_goes_on(monkeypatch: pytest.MonkeyPatch):
    shelf = Shelf("r1")
    for first in range(1, 31, 3):
        shelf.keep(first, numbered(first, first + 2))
    monkeypatch.setattr(lanes, "BLOCK_BYTES_MAX", 8)
    told = block(shelf, 1, 30)
    assert (payloads(told.entries), told.upto, told.reason) == (numbered(1, 9), 10, "")
    monkeypatch.setattr(lanes, "BLOCK_MESSAGES_MAX", 2)
    assert block(shelf, 10, 30).upto == 12


def test_a_lane_ends_before_what_is_missing_until_it_comes():
    shelf = Shelf("r1")
    shelf.keep(1, numbered(1, 3))
    shelf.keep(6, numbered(6, 9))
    assert block(shelf, 1, 9).upto == 4
    shelf.keep(4, numbered(4, 5))
    assert payloads(block(shelf, 1, 9).entries) == numbered(1, 9)


def test_what_was_given_up_is_told_as_a_gap_and_what_came_late_is_not():
    shelf = Shelf("r1")
    shelf.keep(1, numbered(1, 3))
    shelf.keep(6, numbered(6, 7))
    assert shelf.machine.give_up(STREAM, "alice")[0] == 2
    shelf.commit()
    found = block(shelf, 2, 9)
    assert (payloads(found.entries), found.given_up, found.upto) == ([b"2", b"3", b"6", b"7"], ((4, 5),), 8)
    shelf.keep(5, numbered(5, 5))
    found = block(shelf, 2, 9)
    assert (payloads(found.entries), found.given_up) == ([b"2", b"3", b"5", b"6", b"7"], ((4, 4),))


def test_other_topics_are_left_out_where_they_lie_and_count_as_told():
    shelf = Shelf("r1")
    shelf.keep(1, numbered(1, 3))
    shelf.keep(4, numbered(4, 6), topic="bank/b")
    found = block(shelf, 1, 6, "bank/b")
    assert (payloads(found.entries), found.upto) == (numbered(4, 6), 7)


def test_what_retention_has_forgotten_is_not_taken_for_a_gap():
    shelf = Shelf("r1")
    shelf.keep(1, numbered(1, 6))
    shelf.keep(1, numbered(1, 2), publisher="bob")
    shelf.forget(4)
    found = block(shelf, 2, 6)
    assert (found.upto, found.entries) == (2, ())
    assert "forgotten" in found.reason
    with shelf:
        told = decode_holdings(ask(shelf, "/lanes")[1])
    assert told.lanes == (Lane("alice", LIFE, 4, 7), Lane("bob", LIFE, 1, 3))
    assert (told.repository, told.serving, told.level) == ("r1", True, "fsynced")


def test_a_life_that_is_over_can_still_be_read_also_after_a_restart():
    shelf = Shelf("r1", RepositoryConfig("r1", lives_max=2))
    for life in (1, 2, 3, 4):
        shelf.keep(1, [b"%d" % life], life=life)
    for _ in range(2):
        assert sorted(shelf.stream_state.chains) == [("alice", 3), ("alice", 4)]
        assert sorted((life, settled.upto) for _, life, settled in shelf.stream_state.settled()) == [
            (1, 1),
            (2, 1),
            (3, 1),
            (4, 1),
        ]
        assert payloads(block(shelf, 1, 1, life=1).entries) == [b"1"]
        shelf.restart()


def test_of_a_life_that_is_over_as_much_is_known_as_retention_has_left():
    shelf = Shelf("r1", RepositoryConfig("r1", lives_max=1))
    for life in (1, 2, 3):
        shelf.keep(1, numbered(1, 4), life=life)
    shelf.forget(7)
    for _ in range(2):
        assert lanes.lanes_of(shelf.stream_state) == [Lane("alice", 2, 3, 5), Lane("alice", 3, 1, 5)]
        assert payloads(block(shelf, 3, 9, life=2).entries) == numbered(3, 4)
        shelf.restart()


@pytest.mark.parametrize("sequence", range(1, 15))
def test_a_sequence_number_cuts_every_lane_where_its_order_does(sequence: int):
    shelf = Shelf("r1")
    for first in range(1, 7, 2):
        shelf.keep(first, numbered(first, first + 1))
        shelf.keep(first, numbered(first, first + 1), publisher="bob")
    entries = shelf.store.read(STREAM, sequence, 99, 1 << 20)
    for publisher in ("alice", "bob"):
        cut = cut_at(shelf.store, STREAM, Lane(publisher, LIFE, 1, 7), sequence)
        behind = [one for one in entries if one.publisher == publisher]
        assert payloads(behind) == numbered(cut.first, 6)


# ------------------------------------------------------------------------------------------------------- over the wire


def ask(shelf: Shelf, path: str, **query: object) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", shelf.port, timeout=20)
    connection.request("GET", f"{path}?{urlencode({'stream': STREAM, **query})}")
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


@pytest.fixture
def shelf():
    with Shelf("r1") as made:
        made.keep(1, numbered(1, 5))
        yield made


def test_messages_are_told_over_http(shelf: Shelf):
    status, body = ask(shelf, "/messages", publisher="alice", life=LIFE, first=2, last=4)
    assert (status, payloads(decode_block(body).entries)) == (200, numbered(2, 4))


@pytest.mark.parametrize(
    ("path", "query", "status", "sentence"),
    [
        ("/lanes", {"stream": "shop/#"}, 400, "r1 does not keep the stream shop/#; it keeps bank/#."),
        ("/messages", {"publisher": "alice", "life": 7}, 400, "the question has no first"),
        ("/messages", {"publisher": "a", "life": 7, "first": 3, "last": 2}, 400, "last=2; it is a number from 3 to"),
        ("/locate", {"sequence": "soon"}, 400, "sequence=soon; it is a number from 1 to"),
        ("/shelves", {}, 404, "there is no /shelves here"),
    ],
)
def test_a_question_that_cannot_be_is_refused_with_a_sentence(
    shelf: Shelf, path: str, query: dict[str, object], status: int, sentence: str
):
    found, body = ask(shelf, path, **query)
    assert found == status
    assert sentence in body.decode()


def test_who_is_not_registered_to_subscribe_reads_nothing(shelf: Shelf):
    shelf.stream_state.registration = Registration(STREAM, "bank", 1, None, ("billing",))
    assert ask(shelf, "/lanes", subscriber="billing")[0] == 200
    for query in ({"subscriber": "mallory"}, {}):
        status, body = ask(shelf, "/lanes", **query)
        assert status == 403
        assert b"has not registered" in body


def test_a_name_of_a_lane_says_whose_life_it_is():
    assert parse_lane("a/b/12") == ("a/b", 12)
    for wrong in ("alice", "/3", "alice/x", ""):
        with pytest.raises(ValueError, match="is no lane"):
            parse_lane(wrong)
