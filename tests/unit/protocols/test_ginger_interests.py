"""Who wants what, and who knows it: announcements between neighbours, and answers when everybody has confirmed."""

import pytest

from holdfast.model.batches import make_batch
from holdfast.model.messages import (
    INTERESTS_MAX,
    Data,
    Interests,
    SessionMessage,
    Subscribe,
    SubscribeAck,
    Unsubscribe,
    UnsubscribeAck,
)
from holdfast.model.wire import FRAME_BYTES_MAX, encode
from holdfast.protocols.interests import INTERESTS_PER_MESSAGE, InterestMap

Sent = list[tuple[str, SessionMessage]]


def on_t(attributes=None):
    return make_batch("ann", 1, "t", 0, [b"x"], attributes=[attributes or {}])


class Map(InterestMap):
    """An interest map with neighbours, and what it sent."""

    def __init__(self, *neighbours: str) -> None:
        self.sent: Sent = []
        super().__init__(lambda peer, message: self.sent.append((peer, message)))
        for peer in neighbours:
            self.join(peer, tell=False)

    def take(self) -> Sent:
        sent = list(self.sent)
        self.sent.clear()
        self.check_invariants()
        return sent


# --------------------------------------------------------------------------------------------------- subscribing


def test_a_lonely_broker_answers_at_once():
    known = Map()
    known.subscribe("alice", Subscribe(5, "t", ""))
    assert known.take() == [("alice", SubscribeAck(5))]
    assert known.table.wants("alice", "t")


def test_a_subscription_is_answered_when_every_neighbour_has_confirmed_it():
    known = Map("b1", "b2")
    known.subscribe("alice", Subscribe(5, "t", "n > 1"))
    assert known.take() == [("b1", Subscribe(1, "t", "n > 1")), ("b2", Subscribe(2, "t", "n > 1"))]
    assert known.waiting == {"b1": 1, "b2": 1}
    known.on_ack(2)
    assert known.take() == []
    known.on_ack(1)
    assert known.take() == [("alice", SubscribeAck(5))]
    assert known.waiting == {}


def test_who_waits_for_the_answer_to_a_new_subscription_is_owed_nothing_by_it_yet():
    known = Map("b1")
    known.subscribe("alice", Subscribe(5, "t", "n > 1"))
    known.on_ack(1)
    known.subscribe("alice", Subscribe(6, "t", ""))
    known.subscribe("bob", Subscribe(7, "+", ""))
    takers = known.confirmed_takers()
    assert list(takers(on_t({"n": 2}))) == ["alice"]
    assert list(takers(on_t({"n": 1}))) == [], "only what its first subscription matches"
    known.on_ack(2)
    known.on_ack(3)
    assert known.confirmed_takers()(on_t()) == {"alice": None, "bob": None}


def test_what_only_those_want_who_wait_for_an_answer_is_unconfirmed():
    known = Map("b1", "b2")
    known.subscribe("alice", Subscribe(5, "t", ""))
    known.subscribe("bob", Subscribe(6, "u", ""))
    known.on_ack(1)
    known.on_ack(2)
    assert known.unconfirmed("b1") == (("u", ""),)
    known.subscribe("bob", Subscribe(7, "t", ""))
    assert known.unconfirmed("b1") == (("u", ""),), "alice was told already"
    known.on_ack(3)
    known.on_ack(4)
    assert known.unconfirmed("b1") == ()


def test_who_says_again_what_it_wants_is_owed_it():
    known = Map("b1")
    known.learn("b2", [("t", "")])
    known.subscribe("b2", Subscribe(5, "t", ""))
    assert list(known.confirmed_takers()(on_t())) == ["b2"]


def test_a_neighbours_subscription_goes_to_all_other_neighbours():
    known = Map("b1", "b2", "b3")
    known.subscribe("b2", Subscribe(5, "t", ""))
    assert [peer for peer, _ in known.take()] == ["b1", "b3"]


def test_what_a_neighbour_knows_is_not_announced_again():
    known = Map("b1")
    known.subscribe("alice", Subscribe(5, "t", ""))
    known.on_ack(1)
    known.take()
    known.subscribe("bob", Subscribe(1, "t", ""))
    assert known.take() == [("bob", SubscribeAck(1))]


def test_who_shares_an_announcement_under_way_waits_for_it_too():
    known = Map("b1")
    known.subscribe("alice", Subscribe(5, "t", ""))
    known.subscribe("bob", Subscribe(6, "t", ""))
    assert known.take() == [("b1", Subscribe(1, "t", ""))]
    known.on_ack(1)
    assert known.take() == [("alice", SubscribeAck(5)), ("bob", SubscribeAck(6))]


def test_filters_make_different_interests():
    known = Map("b1")
    known.subscribe("alice", Subscribe(5, "t", ""))
    known.subscribe("bob", Subscribe(6, "t", "n > 1"))
    assert [message for _, message in known.take()] == [Subscribe(1, "t", ""), Subscribe(2, "t", "n > 1")]


def test_two_neighbours_with_the_same_interest_learn_of_each_other():
    known = Map("b1", "b2")
    known.subscribe("b1", Subscribe(5, "t", ""))
    assert known.take() == [("b2", Subscribe(1, "t", ""))]
    known.subscribe("b2", Subscribe(9, "t", ""))
    assert known.take() == [("b1", Subscribe(2, "t", ""))]


# ------------------------------------------------------------------------------------------------------ taking back


def subscribed(*neighbours: str) -> Map:
    """alice wants t, and everybody has confirmed it."""
    known = Map(*neighbours)
    known.subscribe("alice", Subscribe(5, "t", ""))
    for token in range(1, len(neighbours) + 1):
        known.on_ack(token)
    known.take()
    return known


def test_taking_back_is_answered_when_every_neighbour_has_confirmed_it():
    known = subscribed("b1", "b2")
    known.unsubscribe("alice", Unsubscribe(6, "t", ""))
    assert known.take() == [("b1", Unsubscribe(3, "t", "")), ("b2", Unsubscribe(4, "t", ""))]
    assert not known.table.route("t")
    known.on_ack(3)
    known.on_ack(4)
    assert known.take() == [("alice", UnsubscribeAck(6))]


def test_an_interest_is_taken_back_from_a_neighbour_when_nobody_else_has_it():
    known = subscribed("b1", "b2")
    known.subscribe("b2", Subscribe(1, "t", ""))
    known.take()
    known.unsubscribe("alice", Unsubscribe(6, "t", ""))
    # b1 is still told of b2's interest; b2 has nobody else on our side.
    assert known.take() == [("b2", Unsubscribe(3, "t", ""))]


def test_an_interest_that_somebody_shares_stays_announced():
    known = subscribed("b1")
    known.subscribe("bob", Subscribe(1, "t", ""))
    known.take()
    known.unsubscribe("alice", Unsubscribe(6, "t", ""))
    assert known.take() == [("alice", UnsubscribeAck(6))]


def test_taking_back_what_one_never_had_is_answered():
    known = subscribed("b1")
    known.unsubscribe("bob", Unsubscribe(6, "t", ""))
    assert known.take() == [("bob", UnsubscribeAck(6))]
    assert known.table.wants("alice", "t")


def test_who_subscribes_behind_a_withdrawal_waits_for_the_new_announcement():
    known = subscribed("b1")
    known.unsubscribe("alice", Unsubscribe(6, "t", ""))
    known.subscribe("bob", Subscribe(7, "t", ""))
    assert known.take() == [("b1", Unsubscribe(2, "t", "")), ("b1", Subscribe(3, "t", ""))]
    known.on_ack(2)
    assert known.take() == [("alice", UnsubscribeAck(6))]
    known.on_ack(3)
    assert known.take() == [("bob", SubscribeAck(7))]


def test_a_subscription_that_is_taken_back_before_its_confirmation_is_answered_and_forgotten():
    known = Map("b1")
    known.subscribe("alice", Subscribe(5, "t", ""))
    known.unsubscribe("alice", Unsubscribe(6, "t", ""))
    assert known.take() == [
        ("b1", Subscribe(1, "t", "")),
        ("alice", SubscribeAck(5)),
        ("b1", Unsubscribe(2, "t", "")),
    ]
    known.on_ack(1)
    known.on_ack(2)
    assert known.take() == [("alice", UnsubscribeAck(6))]


# ------------------------------------------------------------------------------------------------------- neighbours


def test_a_newcomer_is_told_everything_that_is_wanted_on_this_side():
    known = subscribed("b1")
    known.join("b2", tell=True)
    assert known.take() == [("b2", Interests((("t", ""),), True))]


def test_a_newcomer_is_told_in_messages_of_bounded_size():
    known = Map()
    for number in range(2 * INTERESTS_PER_MESSAGE):
        known.table.add(f"t/{number}", "", "alice")
    known.join("b2", tell=True)
    parts = [message for _, message in known.take() if isinstance(message, Interests)]
    assert [(len(part.entries), part.complete) for part in parts] == [
        (INTERESTS_PER_MESSAGE, False),
        (INTERESTS_PER_MESSAGE, True),
    ]
    assert INTERESTS_PER_MESSAGE <= INTERESTS_MAX
    assert sum((part.entries for part in parts), ()) == tuple(known.table.distinct())


def test_a_newcomer_is_told_in_messages_that_fit_into_a_frame_however_long_the_filters_are():
    known = Map()
    for number in range(400):
        known.table.add("é" * 500, f"n = '{'語' * 4000}{number}'", "alice")
    known.join("b2", tell=True)
    parts = [message for _, message in known.take() if isinstance(message, Interests)]
    assert all(len(encode(Data(1, part))) < FRAME_BYTES_MAX for part in parts)
    assert sum((part.entries for part in parts), ()) == tuple(known.table.distinct())
    assert [part.complete for part in parts] == [False] * (len(parts) - 1) + [True]


def test_a_newcomer_is_told_when_there_is_nothing_to_tell():
    known = Map()
    known.join("b2", tell=True)
    assert known.take() == [("b2", Interests((), True))]


def test_nobody_waits_for_a_newcomer_to_confirm_what_it_was_told():
    known = Map()
    known.table.add("t", "", "alice")
    known.join("b2", tell=True)
    known.take()
    known.subscribe("bob", Subscribe(5, "t", ""))
    assert known.take() == [("bob", SubscribeAck(5))]


def test_what_a_newcomer_learns_belongs_to_its_parent():
    known = Map("parent")
    known.learn("parent", [("t", ""), ("u", "n > 1")])
    assert known.table.interests("parent") == [("t", ""), ("u", "n > 1")]
    known.unsubscribe("parent", Unsubscribe(1, "t", ""))
    assert known.take() == [("parent", UnsubscribeAck(1))]


def test_what_a_client_that_is_gone_wanted_is_taken_back():
    known = subscribed("b1")
    known.drop("alice")
    assert known.take() == [("b1", Unsubscribe(2, "t", ""))]


def test_nobody_waits_for_a_neighbour_that_is_gone():
    known = Map("b1", "b2")
    known.subscribe("alice", Subscribe(5, "t", ""))
    known.on_ack(1)
    known.take()
    known.drop("b2")
    assert known.take() == [("alice", SubscribeAck(5))]
    assert known.waiting == {}
    known.on_ack(2)
    assert known.take() == []


def test_what_a_neighbour_that_is_gone_wanted_is_taken_back_from_the_others():
    known = Map("b1", "b2")
    known.subscribe("b2", Subscribe(5, "t", ""))
    known.on_ack(1)
    known.take()
    known.drop("b2")
    assert known.take() == [("b1", Unsubscribe(2, "t", ""))]
    assert not known.table.route("t")


def test_a_request_of_a_session_that_is_over_is_not_answered_to_the_next_one_under_its_name():
    known = Map("b1")
    known.subscribe("alice", Subscribe(5, "t", ""))
    known.drop("alice")
    known.take()
    known.on_ack(1)
    known.on_ack(2)
    assert known.take() == []


def test_invariants_notice_an_announcement_that_nobody_stands_behind():
    known = subscribed("b1")
    known.table.remove("t", "", "alice")
    with pytest.raises(AssertionError, match="is announced to b1, but nobody else has it"):
        known.check_invariants()
