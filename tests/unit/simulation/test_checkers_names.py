"""The judge of names sees what is planted, and nothing else."""

from holdfast.model.identities import make_identity
from holdfast.model.trace import Event
from holdfast.simulation.checkers import check
from holdfast.simulation.checkers.names import Session, judge_names
from holdfast.simulation.checkers.survivors import as_survivors_see_it

EARLY, LATE = (make_identity("alice", moment, 7) for moment in (1, 2))
TAKEN_OVER = [Session(EARLY, "taken", 2), Session(LATE, "there", 4)]


def publish(publisher: str, seq: int, time: int) -> Event:
    return Event("r", publisher, seq, time, "publish", publisher=publisher, seq=seq, topic="t", guarantee="fifo")


def deliver(publisher: str, seq: int, time: int) -> Event:
    return Event("r", "bob", time, time, "deliver", publisher=publisher, seq=seq, topic="t", guarantee="fifo")


BOB = Event("r", "bob", 1, 1, "subscribe", topic="t")
GOOD = [
    BOB,
    publish(EARLY, 1, 10),
    publish(EARLY, 2, 11),
    deliver(EARLY, 1, 12),
    deliver(EARLY, 2, 13),
    publish(LATE, 3, 14),
    deliver(LATE, 3, 15),
]


def test_a_name_that_was_taken_over_is_well():
    assert judge_names(GOOD, TAKEN_OVER) == []
    assert check(as_survivors_see_it(GOOD, {EARLY: ()}, {EARLY: 2})).ok


def test_a_name_with_two_sessions_is_seen():
    [fault] = judge_names(GOOD, [Session(EARLY, "there"), Session(LATE, "there")])
    assert fault == f"the name alice is held by 2 sessions: {EARLY}, {LATE}"


def test_one_that_lost_its_name_to_nobody_is_seen():
    [fault] = judge_names(GOOD, [Session(EARLY, "left"), Session(LATE, "taken")])
    assert fault == f"{LATE} lost the name alice, and nobody has taken it"


def test_a_number_that_stands_for_two_messages_is_seen():
    [fault] = judge_names([*GOOD, publish(LATE, 2, 20)], TAKEN_OVER)
    assert fault == f"alice#2 stands for two messages, of {EARLY} and of {LATE}"


def test_what_was_on_its_way_and_never_happened_leaves_its_number_to_the_next():
    rows = [*GOOD, publish(EARLY, 3, 13)]
    assert judge_names(rows, TAKEN_OVER) == []
    [fault] = judge_names([*rows, deliver(EARLY, 3, 30)], TAKEN_OVER)
    assert "alice#3 stands for two messages" in fault


def test_what_was_acknowledged_to_the_earlier_client_and_dropped_as_a_repeat_is_seen():
    rows = [row for row in GOOD if (row.event, row.publisher, row.seq) != ("deliver", EARLY, 2)]
    verdict = check(as_survivors_see_it(rows, {EARLY: ()}, {EARLY: 2}))
    assert (verdict.faults["lost"], verdict.ok) == (1, False)
    # Without an acknowledgement it may never have happened.
    assert check(as_survivors_see_it(rows, {EARLY: ()}, {EARLY: 1})).ok


def test_clients_that_share_no_name_are_none_of_its_business():
    assert judge_names([publish("bob", 1, 1), publish("bob", 1, 2)], []) == []
