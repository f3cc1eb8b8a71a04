"""Which numbers were used under a name: asked everywhere, answered by all, and certain or not."""

from holdfast.model.messages import SessionMessage
from holdfast.model.name_messages import Recall, Recalled
from holdfast.protocols.recalls import ANSWER_S, Recalls


class Desk:
    def __init__(self) -> None:
        self.sent: list[tuple[str, SessionMessage]] = []
        self.answers: list[tuple[str, int, int, bool]] = []
        self.recalls = Recalls(
            lambda peer, message: self.sent.append((peer, message)),
            lambda source, asked, last, certain: self.answers.append((source, asked.token, last, certain)),
        )

    def ask(self, *behind: str, last: int = 0, certain: bool = True) -> None:
        self.recalls.begin("alice", Recall(3, "alice", 99), behind, last, certain, 10.0)


def test_the_highest_number_that_anybody_knows_counts():
    desk = Desk()
    desk.ask("left", "right", last=4)
    assert desk.sent == [("left", Recall(1, "alice", 99)), ("right", Recall(1, "alice", 99))]
    desk.recalls.on_answer("left", Recalled(1, 9))
    assert desk.answers == []
    desk.recalls.on_answer("right", Recalled(1, 0))
    assert desk.answers == [("alice", 3, 9, True)]


def test_who_has_nobody_behind_answers_at_once():
    desk = Desk()
    desk.ask(last=4)
    assert desk.answers == [("alice", 3, 4, True)]


def test_one_that_is_not_certain_makes_the_answer_uncertain():
    desk = Desk()
    desk.ask("left", certain=False)
    desk.recalls.on_answer("left", Recalled(1, 2))
    desk.ask("right")
    desk.recalls.on_answer("right", Recalled(2, 5, certain=False))
    assert desk.answers == [("alice", 3, 2, False), ("alice", 3, 5, False)]


def test_without_one_that_is_lost_the_answer_is_uncertain():
    desk = Desk()
    desk.ask("left", "right")
    desk.recalls.on_answer("right", Recalled(1, 7))
    assert desk.recalls.waiting_for() == ["left to say which numbers alice has used"]
    desk.recalls.drop("left")
    assert desk.answers == [("alice", 3, 7, False)]


def test_nobody_is_answered_whose_session_is_over():
    desk = Desk()
    desk.ask("left")
    desk.recalls.drop("alice")
    desk.recalls.on_answer("left", Recalled(1, 7))
    assert desk.answers == []


def test_an_answer_that_takes_too_long_is_done_without():
    desk = Desk()
    desk.ask("left", last=2)
    desk.recalls.expire(10.0 + ANSWER_S / 2)
    assert desk.answers == []
    desk.recalls.expire(10.0 + ANSWER_S)
    assert desk.answers == [("alice", 3, 2, False)]
    desk.recalls.on_answer("left", Recalled(1, 7))
    assert desk.answers == [("alice", 3, 2, False)]


def test_an_answer_of_somebody_who_was_not_asked_counts_for_nothing():
    desk = Desk()
    desk.ask("left")
    desk.recalls.on_answer("right", Recalled(1, 7))
    assert desk.answers == []
