"""Receipts of delivery: questions go to everybody behind, answers are gathered on the way back."""

from holdfast.model.messages import Confirm, ConfirmAck, SessionMessage
from holdfast.model.receipt_messages import CLEAN, NAMES_MAX, Finding
from holdfast.protocols.confirmations import Confirmations


class Desk:
    """Confirmations, and what they sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, SessionMessage]] = []
        self.confirmations = Confirmations(lambda peer, message: self.sent.append((peer, message)))

    def take(self) -> list[tuple[str, SessionMessage]]:
        sent = list(self.sent)
        self.sent.clear()
        return sent


def question(token: int = 3) -> Confirm:
    return Confirm(token, "t", "alice", 5)


def test_a_message_that_nobody_wanted_is_everywhere_at_once():
    desk = Desk()
    desk.confirmations.begin("alice", question(), [])
    assert desk.take() == [("alice", ConfirmAck(3))]
    assert desk.confirmations.waiting_for() == []


def test_the_source_is_answered_when_everybody_behind_has_answered():
    desk = Desk()
    desk.confirmations.begin("alice", question(), ["b1", "bob"])
    assert desk.take() == [("b1", Confirm(1, "t", "alice", 5)), ("bob", Confirm(1, "t", "alice", 5))]
    assert desk.confirmations.waiting_for() == ["b1, bob to confirm alice#5"]
    desk.confirmations.on_ack("bob", 1)
    assert desk.take() == []
    desk.confirmations.on_ack("b1", 1)
    assert desk.take() == [("alice", ConfirmAck(3))]


def test_questions_with_the_same_number_from_different_sources_are_kept_apart():
    desk = Desk()
    desk.confirmations.begin("alice", question(), ["b1"])
    desk.confirmations.begin("b2", question(), ["b1"])
    assert desk.take() == [("b1", Confirm(1, "t", "alice", 5)), ("b1", Confirm(2, "t", "alice", 5))]
    desk.confirmations.on_ack("b1", 2)
    assert desk.take() == [("b2", ConfirmAck(3))]


def test_an_answer_that_comes_twice_or_to_no_question_is_nothing():
    desk = Desk()
    desk.confirmations.begin("alice", question(), ["b1", "b2"])
    desk.take()
    desk.confirmations.on_ack("b1", 1)
    desk.confirmations.on_ack("b1", 1)
    desk.confirmations.on_ack("b1", 99)
    assert desk.take() == []
    desk.confirmations.on_ack("b2", 1)
    assert desk.take() == [("alice", ConfirmAck(3))]


def test_nobody_waits_for_the_answer_of_a_session_that_is_over():
    desk = Desk()
    desk.confirmations.begin("alice", question(), ["b1", "bob"])
    desk.confirmations.on_ack("b1", 1)
    desk.take()
    desk.confirmations.drop("bob")
    assert desk.take() == [("alice", ConfirmAck(3))]


def test_the_question_of_a_session_that_is_over_is_not_answered_to_the_next_one_under_its_name():
    desk = Desk()
    desk.confirmations.begin("alice", question(), ["b1"])
    desk.take()
    desk.confirmations.drop("alice")
    desk.confirmations.on_ack("b1", 1)
    assert desk.take() == []
    assert desk.confirmations.waiting_for() == []


# ---- what is known against a confirmation


def test_what_those_behind_say_and_what_is_known_here_is_gathered():
    desk, clock = Desk(), [10.0]
    asked_about: list[tuple[Confirm, float]] = []

    def account(asked: Confirm, age_s: float) -> Finding:
        asked_about.append((asked, age_s))
        return Finding(given_up=1, gone=("eve",))

    confirmations = Confirmations(
        lambda peer, message: desk.sent.append((peer, message)), account=account, now=lambda: clock[0]
    )
    asked = Confirm(3, "t", "alice", 5, {}, 2.0)
    confirmations.begin("alice", asked, ["b1", "bob"])
    assert desk.take() == [(peer, Confirm(1, "t", "alice", 5, {}, 2.0)) for peer in ("b1", "bob")]
    clock[0] = 14.0
    confirmations.on_ack("bob", 1, finding=Finding(lacking=1, lack=("bob",)))
    confirmations.on_ack("b1", 1, finding=Finding(lacking=1, lack=("dan",), broken="begins anew"))
    found = Finding(2, ("bob", "dan"), 1, ("eve",), "begins anew")
    assert desk.take() == [("alice", ConfirmAck(3, found))]
    assert asked_about == [(asked, 6.0)]


def test_a_question_that_waited_asks_about_something_older():
    desk, clock = Desk(), [10.0]
    confirmations = Confirmations(lambda peer, message: desk.sent.append((peer, message)), now=lambda: clock[0])
    confirmations.begin("alice", Confirm(3, "t", "alice", 5, {}, 2.0), ["lost"])
    desk.take()
    clock[0] = 17.0
    confirmations.replace("lost", ["heir"], lambda _peer, _topic: True)
    assert desk.take() == [("heir", Confirm(1, "t", "alice", 5, {}, 9.0))]


def test_names_are_bounded_on_the_way_and_counts_are_not():
    many = Finding(NAMES_MAX, tuple(f"c{number}" for number in range(NAMES_MAX)))
    joined = many.joined(many)
    assert (joined.lacking, len(joined.lack)) == (2 * NAMES_MAX, NAMES_MAX)
    assert CLEAN.joined(many) == many.joined(CLEAN) == many


def test_a_question_for_two_that_are_out_of_reach_waits_for_the_other_when_one_of_them_is_back():
    desk = Desk()
    desk.confirmations.begin("alice", question(), ["the absent"])
    desk.confirmations.rename("the absent", "b1", in_doubt=True)
    desk.take()
    desk.confirmations.on_ack("b1", 1)
    assert desk.take() == []
    desk.confirmations.on_ack("the absent", 1)
    assert desk.take() == [("alice", ConfirmAck(3))]
