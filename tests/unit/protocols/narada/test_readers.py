"""A durable subscription has one reader: whoever comes later reads, and the one before is refused."""

from holdfast.model.batches import make_batch
from holdfast.protocols.narada import Subscriber, SubscriberConfig
from holdfast.protocols.narada.dissemination import Dissemination
from holdfast.protocols.narada.events import (
    ControlEvent,
    Probe,
    ProbeReply,
    Recovery,
    Rectify,
    Refusal,
    SubscriberAck,
    decode,
    encode,
)
from holdfast.protocols.narada.participant import Effects, Rejected, Say
from holdfast.protocols.narada.steering import PROBE_TIMER
from holdfast.protocols.narada.topics import inbox_topic
from holdfast.simulation.reliable.world import ReliableWorld
from tests.support.reliable import publish, subscriber, world_of

STREAM = "orders"


def said(effects: Effects) -> list[ControlEvent | None]:
    return [decode(effect.payload) for effect in effects if isinstance(effect, Say)]


def settled() -> tuple[ReliableWorld, Dissemination]:
    """One repository, and bob who has read five messages as its first reader."""
    world = world_of(1)
    alice, _ = world.publisher("alice"), world.subscriber("bob", subscriber("bob"))
    publish(world, alice, 1, 5, 1.0)
    world.run(3.0)
    return world, world.repositories["r1"].machine.streams[STREAM].dissemination


def recovery(reader: int, anew: bool = False, start: str = "start") -> Recovery:
    return Recovery(STREAM, "bob", "r1", STREAM, start, 0, 0, (), anew, False, reader)


def test_what_an_earlier_reader_says_changes_nothing_and_is_refused():
    world, table = settled()
    [answer] = said(table.on_recovery(recovery(7), world.kernel.now))
    assert isinstance(answer, Rectify)
    one = table.subscriptions["bob"]
    assert (one.reader, one.sync) == (7, 5)
    one.acked = type(one.acked)(ranges_max=16)
    for event in (recovery(1), recovery(6)):
        [refusal] = said(table.on_recovery(event, world.kernel.now))
        assert isinstance(refusal, Refusal)
        assert (refusal.role, refusal.reader) == ("read", 7)
    ack = SubscriberAck(STREAM, "bob", "r1", table.stream_state.era, ((1, 5),), (), 1)
    assert isinstance(said(table.on_ack(ack, lambda *_: None))[0], Refusal)
    assert one.sync == 0


def test_the_reader_of_before_ends_and_is_told_why():
    world, table = settled()
    table.on_recovery(recovery(7), world.kernel.now)
    world.run(6.0)
    bob = world.subscribers["bob"].machine
    assert bob.state == "refused"
    assert world.history.rejections[-1][0] == "bob"


def heard(machine: Subscriber, event: Refusal | ProbeReply) -> Effects:
    return machine.heard(make_batch("r1", 1, inbox_topic(STREAM, "bob"), 0, [encode(event)]), 1.0)


def test_a_reader_that_has_not_begun_comes_after_whoever_is_there_whatever_clocks_say():
    machine = Subscriber(SubscriberConfig("bob", STREAM, reader=3))
    [probe] = said(machine.start(0.0))
    assert isinstance(probe, Probe)
    heard(machine, ProbeReply(STREAM, "r1", probe.token))
    assert said(machine.timer(PROBE_TIMER, 2.0))
    assert machine.state == "recovering"
    [again] = said(heard(machine, Refusal(STREAM, "r1", "read", "other", 9)))
    assert isinstance(again, Recovery)
    assert again.reader == 10


def test_a_refusal_of_somebody_else_of_that_name_is_not_ours():
    machine = Subscriber(SubscriberConfig("bob", STREAM, reader=9))
    machine.start(0.0)
    assert heard(machine, Refusal(STREAM, "r1", "read", "other", 9)) == []
    assert machine.state == "choosing"


def test_a_reader_that_has_begun_is_refused_by_a_later_one():
    world, _ = settled()
    bob = world.subscribers["bob"].machine
    effects = heard(bob, Refusal(STREAM, "r1", "read", "somebody else", 4))
    assert [effect.reason for effect in effects if isinstance(effect, Rejected)] == ["somebody else"]


def test_a_beginning_that_comes_late_does_not_begin_again():
    world, table = settled()
    table.on_recovery(recovery(7, anew=True), world.kernel.now)
    one = table.subscriptions["bob"]
    assert one.sync == 0
    one.acked.add(1, 3)
    table.on_recovery(recovery(7, anew=True, start="live"), world.kernel.now)
    assert table.subscriptions["bob"].sync == 3
    table.on_recovery(recovery(8, anew=True, start="live"), world.kernel.now)
    assert table.subscriptions["bob"].sync == 5
