"""How far an application has taken what was released to it, by the numbers of the repository that steers."""

import pytest

from holdfast.model.batches import make_batch
from holdfast.model.errors import LocalMisuse
from holdfast.model.reliable import Entry
from holdfast.protocols.narada.events import catenation
from holdfast.protocols.narada.participant import StreamGap
from holdfast.protocols.narada.unconsumed_messages import UnconsumedMessages


def entry(first: int, number: int, count: int = 1, publisher: str = "alice") -> Entry:
    payloads = [b"%d" % (number + index) for index in range(count)]
    return Entry(first, catenation(1, number), make_batch(publisher, number, "orders", 1, payloads), 0)


def gap() -> StreamGap:
    return StreamGap("orders", "alice", catenation(1, 9), catenation(1, 9))


def test_what_was_taken_is_acknowledged_message_by_message():
    waiting = UnconsumedMessages("bob")
    waiting.add(entry(5, 1, 10))
    assert waiting.upto(15) == 4
    waiting.take(entry(5, 1, 3))
    assert waiting.upto(15) == 7
    waiting.take(entry(8, 4, 7))
    assert (waiting.upto(15), waiting.bytes) == (14, 0)


def test_only_what_is_next_can_be_taken():
    waiting = UnconsumedMessages("bob")
    waiting.add(entry(5, 1, 3))
    for wrong in (entry(6, 2), entry(5, 1, 4), entry(5, 1, publisher="carol")):
        with pytest.raises(LocalMisuse, match="not next of what was released"):
            waiting.take(wrong)


def test_a_gap_is_acknowledged_when_the_application_was_told_of_it():
    waiting = UnconsumedMessages("bob")
    waiting.add(entry(5, 8))
    waiting.add_gap(6, gap())
    waiting.take(entry(5, 8))
    assert waiting.upto(7) == 5
    waiting.tell_gap()
    assert waiting.upto(7) == 6
    with pytest.raises(LocalMisuse, match="a gap that was not reported"):
        waiting.tell_gap()


def test_a_gap_that_was_told_before_the_messages_in_front_of_it_were_taken_waits_for_them():
    waiting = UnconsumedMessages("bob")
    waiting.add(entry(5, 8, 2))
    waiting.add_gap(7, gap())
    waiting.tell_gap()
    assert waiting.upto(8) == 4
    waiting.take(entry(5, 8, 2))
    assert waiting.upto(8) == 7


def test_what_came_from_an_earlier_repository_is_acknowledged_under_the_numbers_of_the_next():
    waiting = UnconsumedMessages("bob")
    waiting.add(entry(5, 1, 4))
    waiting.add(entry(9, 1, 2, "carol"))
    waiting.begin()
    # Nothing of it has come by yet: all lies at the position or above it.
    assert waiting.upto(20) == 19
    waiting.passed("carol", catenation(1, 1), 2, 20)
    waiting.passed("alice", catenation(1, 1), 4, 22)
    waiting.add(entry(26, 5))
    assert waiting.upto(27) == 19
    waiting.take(entry(5, 1, 3))
    assert waiting.upto(27) == 19
    waiting.take(entry(8, 4, 1))
    assert waiting.upto(27) == 19
    waiting.take(entry(9, 1, 1, "carol"))
    assert waiting.upto(27) == 20
    waiting.take(entry(10, 2, 1, "carol"))
    assert (waiting.upto(27), waiting.is_plain) == (25, True)


def test_a_gap_from_an_earlier_repository_holds_everything_back_until_it_is_told():
    waiting = UnconsumedMessages("bob")
    waiting.add_gap(6, gap())
    waiting.begin()
    assert waiting.upto(20) == 0
    waiting.tell_gap()
    assert waiting.upto(20) == 19
