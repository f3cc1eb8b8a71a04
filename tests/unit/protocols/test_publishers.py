"""What a broker takes from publishers: each number once, in order, and nothing that cannot be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.batches import Batch, make_batch
from holdfast.model.identities import make_identity
from holdfast.model.messages import (
    Confirm,
    ConfirmAck,
    Interests,
    Publish,
    SessionMessage,
    Subscribe,
    TotalMarker,
    TotalProcessed,
    TotalRequest,
    Unsubscribe,
)
from holdfast.protocols.publishers import (
    NUMBERS_AHEAD,
    PublicationRefused,
    PublisherMemory,
    accept_publication,
    request_problem,
    topic_problem,
)


def batch(first: int, last: int, topic: str = "t", publisher: str = "alice") -> Batch:
    return make_batch(publisher, first, topic, 0, [bytes([number % 256]) for number in range(first, last + 1)])


def test_publications_in_order_are_passed_on_as_they_are():
    memory = PublisherMemory()
    for first, last in ((1, 1), (2, 5), (6, 6)):
        one = batch(first, last)
        assert accept_publication("alice", one, memory) is one
    assert memory.last("alice") == 6
    assert memory.last("bob") == 0


def test_what_was_accepted_before_is_not_passed_on_again_however_it_is_cut():
    memory = PublisherMemory()
    accept_publication("alice", batch(1, 5), memory)
    assert accept_publication("alice", batch(1, 5), memory) is None
    assert accept_publication("alice", batch(2, 3), memory) is None
    assert accept_publication("alice", batch(4, 8), memory) == batch(6, 8)
    assert memory.last("alice") == 8


def test_a_gap_is_refused_and_the_number_that_is_due_stays_due():
    memory = PublisherMemory()
    accept_publication("alice", batch(1, 2), memory)
    with pytest.raises(PublicationRefused, match="client alice published #4, but #3 is next"):
        accept_publication("alice", batch(4, 4), memory)
    assert accept_publication("alice", batch(3, 4), memory) == batch(3, 4)


def test_a_first_publication_has_number_one():
    with pytest.raises(PublicationRefused, match="client alice published #2, but #1 is next"):
        accept_publication("alice", batch(2, 2), PublisherMemory())


def test_nobody_publishes_under_another_name():
    memory = PublisherMemory()
    with pytest.raises(PublicationRefused, match="client mallory may publish under its own name only, not as alice"):
        accept_publication("mallory", batch(1, 1), memory)
    assert memory.last("alice") == memory.last("mallory") == 0


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (batch(1, 2, "a//b"), "has an empty level"),
        (batch(1, 2, "a/+"), "wildcard"),
        (Batch("alice", 1, "t", 0, b"abc", count=2), "2 equal messages in 3 payload bytes"),
    ],
)
def test_what_cannot_be_is_refused_and_its_numbers_are_used(wrong: Batch, sentence: str):
    memory = PublisherMemory()
    with pytest.raises(PublicationRefused, match=sentence):
        accept_publication("alice", wrong, memory)
    assert accept_publication("alice", batch(3, 3), memory) == batch(3, 3)


def test_only_so_many_publishers_are_remembered_and_the_most_silent_one_is_forgotten_first():
    memory = PublisherMemory(publishers_max=2)
    for publisher in ("alice", "bob", "alice", "carol"):
        accept_publication(
            publisher, batch(memory.last(publisher) + 1, memory.last(publisher) + 1, "t", publisher), memory
        )
    assert [memory.last(name) for name in ("alice", "bob", "carol")] == [2, 0, 1]


def test_an_unknown_publisher_that_is_refused_is_not_remembered():
    memory = PublisherMemory(publishers_max=1)
    accept_publication("alice", batch(1, 1), memory)
    with pytest.raises(PublicationRefused):
        accept_publication("bob", batch(7, 7, "t", "bob"), memory)
    assert memory.last("alice") == 1


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 6))))
def test_however_a_client_repeats_itself_each_number_is_passed_on_once_and_in_order(attempts: list[tuple[int, int]]):
    memory = PublisherMemory()
    passed: list[tuple[int, bytes]] = []
    for first, more in attempts:
        try:
            new = accept_publication("alice", batch(first, first + more), memory)
        except PublicationRefused:
            assert first > len(passed) + 1
            continue
        if new is not None:
            passed += [(message.seq, message.payload) for message in new.messages()]
    assert passed == [(number, bytes([number])) for number in range(1, len(passed) + 1)]


LEGAL = batch(1, 1)
ILLEGAL = batch(1, 1, "a/#")


@pytest.mark.parametrize(
    "message",
    [
        Publish(ILLEGAL),
        TotalRequest(ILLEGAL),
        TotalProcessed("alice", 1, ILLEGAL),
        TotalMarker("alice", 1, "a/#", ("k",)),
        Confirm(1, "a/#", "alice", 1),
        Subscribe(1, "a/#/b", ""),
        Subscribe(1, "a", "n >"),
        Unsubscribe(1, "", ""),
        Interests((("a", ""), ("a", "n >")), True),
    ],
)
def test_an_illegal_topic_pattern_or_filter_is_noticed_wherever_it_stands(message: SessionMessage):
    assert request_problem(message) != ""


@pytest.mark.parametrize(
    "message",
    [
        Publish(LEGAL),
        TotalRequest(LEGAL),
        TotalProcessed("alice", 1, LEGAL),
        TotalProcessed("alice", 1, None),
        TotalMarker("alice", 1, "a", ("k",)),
        Confirm(1, "a", "alice", 1),
        ConfirmAck(1),
        Subscribe(1, "a/#", "n > 1"),
        Unsubscribe(1, "+", ""),
        Interests((("a", ""), ("#", "n > 1")), True),
    ],
)
def test_nothing_is_wrong_with_what_is_legal(message: SessionMessage):
    assert request_problem(message) == ""


def test_a_topic_is_judged_once_and_remembered():
    assert topic_problem("a/b") == ""
    assert "wildcard" in topic_problem("a/+")
    assert topic_problem.cache_info().maxsize is not None


def test_what_a_session_has_numbered_is_its_names_when_it_is_over():
    memory, identity = PublisherMemory(durable=True), make_identity("alice", 1, 2)
    memory.take(identity, 1, 7)
    memory.due.clear()
    memory.retire(identity)
    assert (memory.last(identity), memory.last("alice")) == (0, 7)
    assert memory.due == {identity: 0, "alice": 7 + NUMBERS_AHEAD}
    memory.retire("alice")
    memory.retire(make_identity("bob", 1, 2))
    assert memory.numbers() == {"alice": 7}


def test_after_a_crash_a_name_goes_on_behind_all_of_its_sessions():
    memory = PublisherMemory(durable=True)
    early, late = make_identity("alice", 1, 2), make_identity("alice", 2, 2)
    memory.restore({early: (100, True), late: (65_600, False), "bob": (3, True)})
    assert memory.numbers() == {"alice": 65_600, "bob": 3}
    assert memory.uncertain == {"alice"}
