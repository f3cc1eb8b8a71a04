"""What a broker does with messages that a client does not take: what it drops, says of it, and never does."""

from collections.abc import Iterator

import pytest

from holdfast.model.batches import make_batch
from holdfast.model.costs import cost_bytes
from holdfast.model.messages import (
    WIRE_VERSION,
    Ack,
    Confirm,
    ConfirmAck,
    Data,
    Hello,
    Publish,
    Refusal,
    SessionMessage,
    Subscribe,
    Unsubscribe,
)
from holdfast.model.slow_messages import SKIPPED_MAX, Skipped, Slow
from holdfast.protocols.config import BrokerConfig, LinkConfig
from holdfast.protocols.ginger import GingerBroker
from holdfast.protocols.hub import BEAT_TIMER
from holdfast.protocols.links import Link
from holdfast.protocols.node import Effects, Send
from holdfast.protocols.slow_readers import SlowReaders

BATCH = make_batch("ann", 1, "t", 0, [b""])
COST = BATCH.cost_bytes
CONFIG = LinkConfig(backlog_bytes_max=20 * COST, away_bytes_max=60 * COST, silence_s=1e9)


def link(*messages: SessionMessage) -> Link:
    """A client's link that has no credit, with these messages on it."""
    one = Link("bob", "client", 1, False, CONFIG, 0.0)
    one.open(0, 0, 0.0)
    for message in messages:
        assert one.send(message) is None
    return one


def publish(first: int, topic: str = "t", count: int = 1) -> Publish:
    return Publish(make_batch("ann", first, topic, 0, [b""] * count))


def full(*subscriptions: Subscribe, topic: str = "t") -> tuple[SlowReaders, Link]:
    """Half of what a link may hold, and a little more, lies on bob's."""
    waiting = link(*(publish(first, topic) for first in range(1, 12)))
    readers = SlowReaders({"bob": waiting}, CONFIG.backlog_bytes_max)
    for subscription in subscriptions:
        readers.note("bob", subscription)
    return readers, waiting


def waiting_on(one: Link) -> list[SessionMessage]:
    return [item.message for item in one.waiting]


# -------------------------------------------------------------------------------------------------------- the link


def test_neighbours_that_are_dropped_from_a_link_leave_one_place_and_the_rest_keep_their_order():
    one = link(publish(1), ConfirmAck(7), publish(2), publish(3), publish(4), ConfirmAck(8))
    before = one.backlog_bytes

    def account(message: SessionMessage) -> Skipped | None:
        return Skipped((("t", "", 1),), places=1) if isinstance(message, Publish) else None

    assert one.drop_oldest(before - 3 * COST + 1, account)
    assert waiting_on(one) == [
        Skipped((("t", "", 1),), places=1),
        ConfirmAck(7),
        Skipped((("t", "", 2),), places=2),
        publish(4),
        ConfirmAck(8),
    ]
    one.check_invariants()
    assert one.queued == 5
    assert one.backlog_bytes == sum(cost_bytes(message) for message in waiting_on(one))
    assert one.drop_oldest(0, account)
    assert waiting_on(one)[2:] == [Skipped((("t", "", 3),), places=3), ConfirmAck(8)]
    one.check_invariants()


def test_what_was_on_the_wire_is_not_dropped_nor_amended():
    one = link(publish(1), publish(2))
    (sent,) = one.on_ack(0, COST, 0.0)
    assert sent == Data(1, publish(1))
    one.closed()
    assert one.drop_oldest(0, lambda _: Skipped(places=1))
    assert waiting_on(one) == [publish(1), Skipped(places=1)]
    assert not one.drop_oldest(0, lambda message: None if isinstance(message, Skipped) else Skipped())
    one.check_invariants()


def test_what_is_left_out_behind_a_link_is_said_in_one_place_until_something_else_waits_behind_it():
    one = link(publish(1))
    one.skip(Skipped((("t", "", 2),), (("ann", 3),)))
    one.skip(Skipped((("t", "", 1), ("#", "", 1)), (("ann", 4), ("eve", 9))))
    assert waiting_on(one)[1:] == [Skipped((("t", "", 3), ("#", "", 1)), (("ann", 4), ("eve", 9)))]
    assert one.backlog_bytes == COST + cost_bytes(waiting_on(one)[1])
    one.send(publish(5))
    one.skip(Skipped((("t", "", 1),), (("ann", 6),)))
    assert [type(message) for message in waiting_on(one)] == [Publish, Skipped, Publish, Skipped]
    one.check_invariants()


def test_a_notice_names_so_many_subscriptions_and_says_that_there_are_more():
    many = Skipped(tuple((f"t/{number}", "", 1) for number in range(SKIPPED_MAX)))
    joined = many.joined(Skipped((("t/0", "", 1), ("u", "", 1))))
    assert joined.entries[0] == ("t/0", "", 2)
    assert len(joined.entries) == SKIPPED_MAX
    assert joined.more
    assert not many.joined(many).more


# ----------------------------------------------------------------------------------------------------- the policies


def test_what_only_a_spilling_subscription_wants_is_left_out_and_nobody_is_told():
    readers, waiting = full(Subscribe(1, "#", "", spills=True))
    assert readers.leaves_out("bob", publish(12, count=3).batch)
    assert readers.left_out == {"bob": 3}
    assert len(waiting.waiting) == 11
    assert readers.dropped_total == 0


def test_new_messages_are_left_out_with_a_count_where_they_would_have_stood():
    readers, waiting = full(Subscribe(1, "t", "", slow="drop-newest"), Subscribe(2, "#", "", slow="drop-newest"))
    assert readers.leaves_out("bob", publish(12, count=3).batch)
    assert readers.leaves_out("bob", publish(15).batch)
    assert waiting_on(waiting)[11:] == [Skipped((("t", "", 4), ("#", "", 4)), (("ann", 15),))]
    assert (readers.dropped, readers.dropped_total) == ({"bob": 4}, 4)


def test_the_oldest_messages_make_room_for_new_ones():
    readers, waiting = full(Subscribe(1, "t", "", slow="drop-oldest"))
    assert not readers.leaves_out("bob", publish(12).batch)
    first, *rest = waiting_on(waiting)
    dropped = readers.dropped["bob"]
    assert first == Skipped((("t", "", dropped),), (("ann", dropped),), places=dropped)
    assert rest == [publish(number) for number in range(dropped + 1, 12)]
    assert waiting.backlog_bytes <= CONFIG.backlog_bytes_max // 2


def test_filters_count_for_what_a_subscription_misses():
    readers, waiting = full(Subscribe(1, "t", "n > 1", slow="drop-newest"), Subscribe(2, "t", "", slow="drop-newest"))
    batch = make_batch("ann", 12, "t", 0, [b"", b"", b""], attributes=[{"n": 1}, {"n": 2}, {"n": 3}])
    assert readers.leaves_out("bob", batch)
    assert waiting_on(waiting)[-1] == Skipped((("t", "n > 1", 2), ("t", "", 3)), (("ann", 14),))


@pytest.mark.parametrize("others", ["drop-oldest", "drop-newest", "disconnect"])
def test_nothing_is_dropped_that_a_subscription_wants_which_blocks(others: Slow):
    blocks, drops = Subscribe(1, "t", ""), Subscribe(2, "#", "", slow=others)
    for order in ((blocks, drops), (drops, blocks)):
        readers, waiting = full(*order)
        assert not readers.leaves_out("bob", publish(12).batch)
        assert readers.are_waited_for("bob")
        assert readers.dropped == {}
        if others != "disconnect":
            assert readers.leaves_out("bob", publish(12, topic="u").batch)
            assert waiting_on(waiting)[-1] == Skipped((("#", "", 1),), (("ann", 12),))


def test_old_messages_that_may_not_be_dropped_stay_and_the_new_one_is_left_out():
    readers, waiting = full(Subscribe(1, "t", ""), Subscribe(2, "u", "", slow="drop-oldest"))
    assert readers.leaves_out("bob", publish(12, topic="u").batch)
    assert waiting_on(waiting)[:11] == [publish(number) for number in range(1, 12)]


def test_a_subscription_that_spills_does_not_loosen_another_one_on_the_same_pattern():
    readers, _ = full(Subscribe(1, "t", ""), Subscribe(2, "t", "", spills=True))
    assert not readers.leaves_out("bob", publish(12).batch)
    readers.note("bob", Subscribe(0, "t", "", spills=True))
    assert readers.leaves_out("bob", publish(12).batch)


def test_who_asked_for_nothing_of_the_kind_is_sent_everything():
    readers, _ = full()
    assert not readers.leaves_out("bob", publish(12).batch)
    readers.note("bob", Subscribe(1, "#", "", slow="drop-newest"))
    readers.note("bob", Unsubscribe(2, "#", ""))
    assert not readers.leaves_out("bob", publish(12).batch)
    readers.note("bob", Subscribe(3, "#", "", slow="drop-newest"))
    readers.forget("bob")
    assert not readers.leaves_out("bob", publish(12).batch)
    assert not readers.leaves_out("gone", publish(12).batch)
    assert readers.clients() == []


# -------------------------------------------------------------------------------------------------------- a broker


class Stage:
    """A broker with alice, who publishes, carol, who reads everything, and bob, who takes nothing."""

    def __init__(self, *wishes: tuple[str, Slow], slow_s: float = 30.0) -> None:
        self.broker = GingerBroker(BrokerConfig("b0", link=CONFIG), 7)
        self.broker.start(0.0)
        self.now, self._seqs, self._published = 0.0, dict[str, int](), 0
        self.said: dict[str, list[SessionMessage]] = {"alice": [], "bob": [], "carol": []}
        self.refusals: list[Refusal] = []
        for name, credit in (("alice", 1 << 30), ("carol", 1 << 30), ("bob", 0)):
            self._enter(
                self.broker.receive(name, Hello(WIRE_VERSION, name, "client", "holdfast", 1, False, 0, credit), 0.0)
            )
        self.say("carol", Subscribe(1, "#", ""))
        for token, (pattern, slow) in enumerate(wishes, 1):
            self.say("bob", Subscribe(token, pattern, "", slow=slow, slow_s=slow_s))

    def _enter(self, effects: Effects) -> None:
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.frame, Data):
                self.said[effect.peer].append(effect.frame.message)
            elif isinstance(effect, Send) and isinstance(effect.frame, Refusal):
                self.refusals.append(effect.frame)
        self.broker.check_invariants()

    def say(self, client: str, message: SessionMessage) -> None:
        self._seqs[client] = self._seqs.get(client, 0) + 1
        self._enter(self.broker.receive(client, Data(self._seqs[client] % 128, message), self.now))
        self._enter(self.broker.settle(self.now))

    def publish(self, count: int, topic: str = "t") -> None:
        for _ in range(count):
            self._published += 1
            self.say("alice", Publish(make_batch("alice", self._published, topic, 0, [b""])))

    def beat(self, now: float) -> None:
        self.now = now
        self._enter(self.broker.timer(BEAT_TIMER, now))
        self._enter(self.broker.settle(now))

    def grant(self) -> None:
        """Bob takes everything from now on."""
        self._enter(self.broker.receive("bob", Ack(0, 1 << 30), self.now))

    def status(self) -> dict[str, object]:
        return self.broker.status()

    def heard_by(self, client: str) -> Iterator[int]:
        return (one.batch.first for one in self.said[client] if isinstance(one, Publish))


@pytest.mark.parametrize("slow", ["drop-oldest", "drop-newest"])
def test_nobody_waits_for_a_client_whose_subscriptions_drop_and_it_is_told_how_much(slow: Slow):
    stage = Stage(("t", slow))
    stage.publish(1000)
    assert list(stage.heard_by("carol")) == list(range(1, 1001))
    assert stage.broker.waiting_for() == ["credit from bob"]  # and nobody else waits:
    assert stage.broker.hub.congested == set()
    stage.grant()
    heard = list(stage.heard_by("bob"))
    missed = sum(count for one in stage.said["bob"] if isinstance(one, Skipped) for _, _, count in one.entries)
    assert heard == sorted(heard)
    assert len(heard) + missed == 1000
    assert (1000 in heard) is (slow == "drop-oldest")
    assert (1 in heard) is (slow == "drop-newest")
    assert stage.status()["dropped_messages"] == missed
    assert stage.status()["slow"] == {"bob": {"bytes": 0, "policies": [slow], "dropped": missed}}


def test_a_client_that_asked_to_be_disconnected_is_when_it_is_behind_for_so_long_and_nobody_waits_till_then():
    stage = Stage(("t", "disconnect"), slow_s=5.0)
    stage.publish(30)
    stage.beat(1.0)
    stage.beat(5.9)
    assert stage.refusals == []
    stage.publish(1)
    assert list(stage.heard_by("carol")) == list(range(1, 32))
    stage.beat(6.0)
    (refusal,) = stage.refusals
    assert refusal.code == "late"
    assert refusal.reason.startswith("bob was behind for 5.0 s")
    assert stage.status()["slow_ended"] == 1
    assert stage.broker.waiting_for() == []


def test_a_client_that_has_caught_up_in_time_is_not_disconnected():
    stage = Stage(("t", "disconnect"), slow_s=5.0)
    stage.publish(30)
    stage.beat(1.0)
    stage.grant()
    stage.beat(5.0)
    stage.beat(7.0)
    assert stage.refusals == []


def test_a_client_that_asked_to_be_disconnected_costs_so_many_bytes_and_no_more():
    stage = Stage(("t", "disconnect"))
    stage.publish(61)
    (refusal,) = stage.refusals
    assert "more than" in refusal.reason
    assert list(stage.heard_by("carol")) == list(range(1, 62))
    asked = Confirm(1, "t", "alice", 61, {}, 0.0)
    assert stage.broker.given_up.since(asked, 0.0, 0.0).gone == ("bob",)


def test_a_client_that_lost_its_session_by_not_reading_is_told_why_when_it_comes_back():
    stage = Stage(("t", "disconnect"))
    stage.publish(61)
    (before,) = stage.refusals
    hello = Hello(WIRE_VERSION, "bob", "client", "holdfast", 1, True, 0, 0)
    stage._enter(stage.broker.receive("bob", hello, 1.0))
    assert stage.refusals == [before, before]


def test_whoever_waits_for_a_client_waits_no_longer_when_its_last_subscription_that_blocks_is_gone():
    stage = Stage(("t", "block"), ("u", "drop-newest"))
    stage.publish(30)
    assert stage.broker.hub.congested == {"bob"}
    stage.say("bob", Unsubscribe(3, "t", ""))
    assert stage.broker.hub.congested == set()


def test_what_clients_have_dropped_themselves_is_in_the_figures():
    stage = Stage(("t", "drop-oldest"))
    stage.grant()
    stage.say("bob", Subscribe(0, "t", "", slow="drop-oldest", dropped=7))
    stage.say("bob", Subscribe(0, "t", "", slow="drop-oldest", dropped=9))
    assert stage.status()["dropped_messages"] == 9
    assert stage.status()["slow"] == {"bob": {"bytes": 0, "policies": ["drop-oldest"], "dropped": 9}}
    stage.say("bob", Unsubscribe(2, "t", "", slow=True))
    assert stage.status()["slow_ended"] == 1
