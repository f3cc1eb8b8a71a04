"""What a client says when it is asked about a publication: it has it, it is not owed it, it lacks it."""

import pytest

from holdfast.model.batches import Batch, make_batch
from holdfast.model.filters import Value
from holdfast.model.messages import Confirm, ConfirmAck
from holdfast.model.receipt_messages import CLEAN, UNKNOWN_AGE_S, Finding
from holdfast.protocols.node import Completed, Report, Unconfirmed
from holdfast.protocols.witness import ASKED_MAX, RUNS_MAX, TIMES_MAX, PublishTimes, Received, Witness, answered

LACKS = Finding(lacking=1, lack=("dan",))


def batch(first: int, count: int = 1, publisher: str = "ann") -> Batch:
    return make_batch(publisher, first, "t", 2, [b"x"] * count)


def question(
    seq: int, age_s: float = 5.0, taken: bool = False, token: int = 1, attributes: dict[str, Value] | None = None
) -> Confirm:
    return Confirm(token, "t", "ann", seq, attributes or {}, age_s, taken)


class Dan:
    """A witness, and what it answered."""

    def __init__(self, *patterns: str, where: str = "", at: float = 0.0) -> None:
        self.answers: list[ConfirmAck] = []
        self.witness = Witness("dan", self.answers.append)
        for pattern in patterns:
            self.witness.subscribed((pattern, where), at)

    def judge(self, asked: Confirm, now: float = 100.0) -> Finding | None:
        return self.witness.judge(asked, now, ())


def test_what_it_has_it_has_and_what_it_is_owed_and_has_not_it_lacks():
    dan = Dan("t")
    dan.witness.handed_over(batch(1, 3))
    dan.witness.handed_over(batch(5))
    assert [dan.judge(question(seq)) for seq in (1, 3, 4, 5, 6)] == [CLEAN, CLEAN, LACKS, CLEAN, LACKS]


def test_a_later_number_is_no_evidence_for_an_earlier_one():
    dan = Dan("t")
    dan.witness.handed_over(batch(9))
    assert dan.judge(question(8)) == LACKS


def test_nothing_is_owed_without_a_matching_subscription():
    assert Dan().judge(question(1)) == CLEAN
    assert Dan("u").judge(question(1)) == CLEAN
    assert Dan("t", where="n > 3").judge(question(1, attributes={"n": 1})) == CLEAN
    assert Dan("t", where="n > 3").judge(question(1, attributes={"n": 5})) == LACKS
    dan = Dan("t")
    dan.witness.unsubscribed(("t", ""))
    assert dan.judge(question(1)) == CLEAN


def test_a_subscription_that_is_younger_than_the_message_is_not_owed_it():
    dan = Dan("t", at=96.0)
    assert dan.judge(question(1, age_s=5.0), now=100.0) == CLEAN
    assert dan.judge(question(1, age_s=3.0), now=100.0) == LACKS


def test_one_old_subscription_is_enough():
    dan = Dan("#", at=0.0)
    dan.witness.subscribed(("t", ""), 99.0)
    assert dan.judge(question(1, age_s=5.0)) == LACKS


def test_subscribing_again_to_the_same_does_not_make_it_younger():
    dan = Dan("t", at=0.0)
    dan.witness.subscribed(("t", ""), 99.0)
    assert dan.judge(question(1, age_s=5.0)) == LACKS


def test_for_what_spills_somebody_else_stands_in():
    assert Dan("t").witness.judge(question(1), 100.0, [("t", "")]) == CLEAN


def test_a_question_of_unknown_age_is_answered_as_if_the_message_had_come():
    assert Dan("t").judge(question(1, age_s=UNKNOWN_AGE_S)) == CLEAN


def test_what_came_too_long_ago_is_not_remembered_and_that_is_said():
    dan = Dan("t")
    for number in range(RUNS_MAX + 1):
        dan.witness.handed_over(batch(2 * number + 1))
    assert dan.judge(question(1)) == Finding(broken="dan does not remember what it got so long ago")
    assert dan.judge(question(3)) == CLEAN
    assert dan.judge(question(4)) == LACKS


def test_runs_are_bounded_over_all_publishers_and_the_one_heard_of_first_is_forgotten_first():
    received = Received()
    received.add(batch(1, publisher="old"))
    for number in range(RUNS_MAX):
        received.add(batch(2 * number + 1))
    assert received.has("old", 1) is None
    assert received.has("old", 2) is False
    assert received.has("ann", 1) is True


def test_a_question_for_the_application_is_answered_when_that_has_taken_the_batch():
    dan = Dan("t")
    dan.witness.handed_over(batch(1, 3))
    dan.witness.on_confirm(question(2, taken=True, token=7), 100.0, ())
    assert dan.answers == []
    dan.witness.settle()
    assert dan.answers == []
    dan.witness.taken(batch(1, 3))
    dan.witness.settle()
    assert dan.answers == [ConfirmAck(7)]
    dan.witness.on_confirm(question(3, taken=True, token=8), 100.0, ())
    assert dan.answers[-1] == ConfirmAck(8)


def test_taking_something_else_answers_nothing():
    dan = Dan("t")
    dan.witness.handed_over(batch(1))
    dan.witness.handed_over(batch(2))
    dan.witness.on_confirm(question(2, taken=True), 100.0, ())
    dan.witness.taken(batch(1))
    dan.witness.settle()
    assert dan.answers == []


def test_a_batch_that_is_taken_makes_the_questions_about_it_be_looked_at_and_no_others(monkeypatch: pytest.MonkeyPatch):
    dan = Dan("t")
    looks: list[int] = []
    has = Witness._has

    def counted(witness: Witness, asked: Confirm) -> bool | None:
        looks.append(asked.seq)
        return has(witness, asked)

    monkeypatch.setattr(Witness, "_has", counted)
    for seq in range(1, 101):
        dan.witness.handed_over(batch(2 * seq))
    for seq in range(1, 101):
        dan.witness.on_confirm(question(2 * seq, taken=True, token=seq), 100.0, ())
    looks.clear()
    for seq in range(1, 101):
        dan.witness.taken(batch(2 * seq))
        assert dan.witness.is_asked
        dan.witness.settle()
        assert not dan.witness.is_asked
    assert [one.token for one in dan.answers] == list(range(1, 101))
    assert looks == [2 * seq for seq in range(1, 101)]


def test_a_question_about_a_message_that_is_dropped_meanwhile_is_answered_and_others_about_its_batch_wait_on():
    dan = Dan("t")
    dan.witness.handed_over(batch(1, 3))
    for seq in (1, 2):
        dan.witness.on_confirm(question(seq, taken=True, token=seq), 100.0, ())
    dan.witness.dropped(batch(2))
    assert dan.witness.is_asked
    dan.witness.settle()
    assert dan.answers == [ConfirmAck(2, LACKS)]
    dan.witness.taken(batch(1, 3))
    dan.witness.settle()
    assert dan.answers == [ConfirmAck(2, LACKS), ConfirmAck(1)]


def test_batches_that_come_and_go_in_any_order_leave_nothing_behind():
    dan = Dan("t")
    for first in (7, 1, 4, 7):
        dan.witness.handed_over(batch(first, 2))
    assert [dan.judge(question(seq, taken=True)) for seq in (1, 2, 4, 8)] == [None] * 4
    for first in (4, 7, 1, 1):
        dan.witness.taken(batch(first, 2))
    dan.witness.settle()
    assert len(dan.answers) == 4
    assert dan.judge(question(1, taken=True)) == CLEAN
    assert not dan.witness._untaken._firsts
    assert not dan.witness._untaken._lasts


def test_questions_that_wait_for_an_application_are_bounded():
    dan = Dan("t")
    dan.witness.handed_over(batch(1))
    for _ in range(ASKED_MAX):
        assert dan.judge(question(1, taken=True)) is None
    found = dan.judge(question(1, taken=True))
    assert found is not None
    assert not found.clean


def test_another_broker_asks_again():
    dan = Dan("t")
    dan.witness.handed_over(batch(1))
    dan.witness.on_confirm(question(1, taken=True), 100.0, ())
    dan.witness.moved()
    dan.witness.taken(batch(1))
    dan.witness.settle()
    assert dan.answers == []


# ---- the publisher's side


def test_the_age_of_a_publication_is_never_more_than_it_is():
    times = PublishTimes()
    times.note(3, 10.0)
    times.note(5, 20.0)
    assert [times.age_s(seq, 30.0) for seq in (1, 3, 4, 5)] == [20.0, 20.0, 10.0, 10.0]
    assert times.age_s(6, 30.0) == 0.0


def test_moments_of_publishing_are_bounded_and_what_is_older_counts_as_younger():
    times = PublishTimes()
    for number in range(2 * TIMES_MAX):
        times.note(number + 1, float(number))
    assert len(times._times) <= TIMES_MAX
    assert 0.0 < times.age_s(1, float(2 * TIMES_MAX)) <= TIMES_MAX


@pytest.mark.parametrize(
    ("finding", "words"),
    [
        (LACKS, "dan has not got it"),
        (Finding(lacking=3, lack=("dan", "eve")), "dan, eve and 1 more have not got it"),
        (Finding(given_up=1, gone=("dan",)), "dan has been given up since"),
        (Finding(broken="begins anew"), "something may be missing: begins anew"),
    ],
)
def test_a_publisher_is_told_what_is_known_against_it(finding: Finding, words: str):
    assert answered(4, "t", 9, finding) == [
        Report("unconfirmed", pattern="t", seq=9, detail=words),
        Unconfirmed(4, 9, finding),
    ]


def test_a_publisher_is_told_that_there_is_nothing_against_it():
    assert answered(4, "t", 9, CLEAN) == [Report("confirmed", pattern="t", seq=9), Completed(4)]


def test_that_it_has_crossed_a_total_message_is_nothing_against_a_confirmation_and_is_told():
    found = CLEAN.joined(Finding(crossed=True))
    assert found.clean
    assert answered(4, "t", 9, found) == [
        Report("crossed", pattern="t", seq=9),
        Report("confirmed", pattern="t", seq=9),
        Completed(4, crossed=True),
    ]
    assert LACKS.joined(found) == Finding(lacking=1, lack=("dan",), crossed=True)
