"""Where a subscriber begins, and what it says of itself to the next repository."""

from holdfast.model.batches import Batch, make_batch
from holdfast.protocols.narada import Subscriber, SubscriberConfig
from holdfast.protocols.narada.events import (
    GIVEN_UP,
    MESSAGES,
    ControlEvent,
    ProbeReply,
    Rectify,
    Row,
    catenation,
    encode,
)
from holdfast.protocols.narada.fingerprints import fingerprint
from holdfast.protocols.narada.participant import Effects, Release, StreamGap
from holdfast.protocols.narada.released_messages import ReleasedMessages
from holdfast.protocols.narada.steering import PROBE_TIMER
from holdfast.protocols.narada.topics import inbox_topic
from holdfast.protocols.node import Persist
from tests.support.reliable import subscriber

FIVE = make_batch("alice", 1, "orders", 1, [b"1", b"2", b"3", b"4", b"5"])


def _said(event: ControlEvent) -> Batch:
    return Batch("r1", 1, inbox_topic("orders", "bob"), 0, encode(event))


def _recovering(config: SubscriberConfig) -> Subscriber:
    """Bob has found r1, heard five messages, and waits for where to begin."""
    bob = Subscriber(config)
    bob.start(0.0)
    bob.heard(_said(ProbeReply("orders", "r1", 1)), 0.01)
    bob.timer(PROBE_TIMER, 0.2)
    bob.heard(FIVE, 0.3)
    return bob


def _steered_from(first: int, row: Row) -> tuple[Subscriber, Effects]:
    """Bob is told by r1 to begin there, and what lies there."""
    bob = _recovering(subscriber("bob", start="seq", value=first))
    rectify = Rectify("orders", "r1", 1, first - 1, first, row.last, row.last, (row,), begins=True)
    return bob, bob.heard(_said(rectify), 0.4)


def test_of_a_batch_in_whose_midst_a_subscription_begins_the_rest_is_released_and_nothing_before_it_is_missing():
    row = Row(1, 5, "alice", catenation(1, 1), MESSAGES, "orders", 1, fingerprint(FIVE))
    bob, effects = _steered_from(4, row)
    [release] = [effect for effect in effects if isinstance(effect, Release)]
    assert (release.entry.first, release.entry.batch.payload_list()) == (4, [b"4", b"5"])
    assert bob.released.cut() == (("alice", catenation(1, 5)),)


def test_of_places_that_were_given_up_and_in_whose_midst_a_subscription_begins_the_rest_is_a_gap():
    _, effects = _steered_from(4, Row(1, 5, "alice", catenation(1, 1), GIVEN_UP))
    gaps = [effect for effect in effects if isinstance(effect, StreamGap)]
    assert gaps == [StreamGap("orders", "alice", catenation(1, 4), catenation(1, 5))]


def _three_and_anew() -> ReleasedMessages:
    """Three messages were released; then the subscription begins anew, and restarts."""
    released, restarted = ReleasedMessages(), ReleasedMessages()
    released.add("alice", catenation(1, 1), 3)
    released.begin_anew()
    restarted.restore(released.save())
    return restarted


def test_what_lies_between_what_was_released_and_what_is_seen_first_after_beginning_anew_is_not_missing():
    released = _three_and_anew()
    assert released.cut() == (("alice", catenation(1, 3)),)
    released.add("alice", catenation(1, 8), 2)
    assert released.cut() == (("alice", catenation(1, 9)),)


def test_what_is_seen_again_after_beginning_anew_is_no_news():
    released = _three_and_anew()
    assert released.new_part("alice", catenation(1, 2), 3) == [(catenation(1, 4), catenation(1, 4))]


def test_what_was_forgotten_before_a_subscription_began_anew_is_no_gap():
    assert _three_and_anew().forget("alice", catenation(1, 9), 2) == [(catenation(1, 8), catenation(1, 9))]


def test_who_remembers_remembers_what_it_did_not_want_from_the_beginning_on():
    bob = _recovering(subscriber("bob", start="live", remember=True))
    everything = (("alice", catenation(1, 5)),)
    [memory] = [
        effect
        for effect in bob.heard(_said(Rectify("orders", "r1", 1, 5, 6, 5, 5, (), everything, begins=True)), 0.4)
        if isinstance(effect, Persist)
    ]
    assert Subscriber(subscriber("bob"), {memory.key: memory.value}).released.cut() == everything
