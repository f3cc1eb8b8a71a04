"""Durable subscriptions whose application acknowledges each message: what comes again, when, and how often counted."""

import pytest

from holdfast.model.reliable import Retention
from holdfast.protocols.narada import manual_subscriber
from holdfast.protocols.narada.events import Gossip, Rectify, Resent, SubscriberAck, Tidings, number_of
from holdfast.simulation.reliable.harm import HarmedStore
from holdfast.simulation.reliable.manual_hosts import Habits, ManualHost
from holdfast.simulation.reliable.world import ReliableWorld
from tests.support.reliable import Ear, publish, subscriber, world_of

NEVER = Habits(think_s=1e9)
"""An application that does nothing by itself: the test does."""


def handed(world: ReliableWorld, name: str = "bob") -> list[tuple[int, int]]:
    """The number of each message that was handed out, and how often it had been by then."""
    return [(one.identity[2], one.count) for one in world.history.answers[name] if one.what == "handed"]


def confirmed(world: ReliableWorld, name: str = "bob") -> list[int]:
    return [one.identity[2] for one in world.history.answers[name] if one.what == "confirmed"]


def answer(bob: ManualHost, number: int, delay_s: float | None = None) -> None:
    """Acknowledge a message, or give it back for so long."""
    [handout] = [one for one in bob.machine.handouts if one.entry.cat & 0xFFFF == number]
    entry, count = handout.entry, handout.count
    bob.enter(bob.ack(entry) if delay_s is None else bob.nack(entry, count, delay_s))


def ten_messages(**settings: object) -> tuple[ReliableWorld, ManualHost]:
    """One repository, ten messages of alice, and bob who has them and has not answered."""
    world = world_of(1)
    alice = world.publisher("alice")
    bob = world.manual_subscriber("bob", subscriber("bob", **settings), habits=NEVER)
    publish(world, alice, 1, 10, 1.0)
    world.run(2.0)
    return world, bob


def test_what_was_not_acknowledged_comes_again_after_a_crash_and_says_so():
    world, bob = ten_messages()
    assert handed(world) == [(number, 1) for number in range(1, 11)]
    for number in (1, 2, 5, 9):
        answer(bob, number)
    world.run(3.0)
    assert confirmed(world) == [1, 2, 5, 9]
    bob.crash()
    bob.start()
    world.run(5.0)
    assert handed(world)[10:] == [(number, 2) for number in (3, 4, 6, 7, 8, 10)]


def test_a_message_that_is_given_back_comes_again_before_what_follows_it_of_its_publisher():
    world, bob = ten_messages(unacked_max=4)
    assert handed(world) == [(number, 1) for number in range(1, 5)]
    answer(bob, 1)
    answer(bob, 2, delay_s=0.5)
    answer(bob, 4)
    world.run(2.4)
    assert handed(world)[4:] == []
    world.run(4.0)
    # 3 was out when 2 was given back: it comes again, too. 4 was acknowledged meanwhile.
    assert handed(world)[4:] == [(2, 2), (3, 2), (5, 1), (6, 1)]


def test_a_reader_that_changes_its_repository_hands_nothing_out_again_and_its_acknowledgements_are_confirmed():
    world = world_of(2)
    alice = world.publisher("alice")
    bob = world.manual_subscriber("bob", subscriber("bob"), habits=NEVER)
    publish(world, alice, 1, 6, 1.0)
    world.run(2.0)
    first = str(bob.machine.status()["steering"])
    answer(bob, 2)
    world.crash(first)()
    answer(bob, 4)
    assert confirmed(world) == []
    world.run(6.0)
    assert str(bob.machine.status()["steering"]) != first
    assert confirmed(world) == [2, 4]
    for number in (1, 3, 5, 6):
        answer(bob, number)
    world.run(8.0)
    assert handed(world) == [(number, 1) for number in range(1, 7)]
    bob.crash()
    bob.start()
    world.run(10.0)
    assert len(handed(world)) == 6


def test_a_gap_stands_in_its_place_among_messages_that_are_acknowledged():
    world = world_of(1)
    alice = world.publisher("alice")
    publish(world, alice, 1, 6, 1.0)
    world.run(2.0)
    first = world.repositories["r1"]
    first.store = HarmedStore(first.store, "orders", [3])
    bob = world.manual_subscriber("bob", subscriber("bob"), habits=NEVER)
    world.run(6.0)
    assert handed(world) == [(1, 1), (2, 1), (4, 1), (5, 1), (6, 1)]
    assert [(at, gap.damaged) for at, gap in bob.gaps] == [(2, True)]
    # What was handed out before it is not acknowledged: the next reader comes by it once more.
    bob.crash()
    bob.start()
    world.run(9.0)
    assert handed(world)[5:] == [(1, 2), (2, 2), (4, 2), (5, 2), (6, 2)]
    assert [(at, gap.damaged) for at, gap in bob.gaps] == [(2, True), (7, True)]


def test_a_message_that_is_damaged_while_it_is_out_is_a_gap_for_the_next_reader():
    world, bob = ten_messages()
    for number in (1, 2, 3, 5):
        answer(bob, number)
    world.run(3.0)
    first = world.repositories["r1"]
    bob.crash()
    first.store = HarmedStore(first.store, "orders", [4])
    # It has forgotten by heart what lies there, and so has to read it.
    first.crash()
    first.start()
    bob.start()
    world.run(8.0)
    assert handed(world)[10:] == [(number, 2) for number in (6, 7, 8, 9, 10)]
    assert [number_of(gap.first) for _, gap in bob.gaps] == [4]


def test_messages_of_more_publishers_than_an_account_holds_are_confirmed_when_all_before_them_are(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(manual_subscriber, "LIVES_MAX", 0)
    world, bob = ten_messages()
    answer(bob, 3)
    answer(bob, 2)
    world.run(3.0)
    assert confirmed(world) == []
    answer(bob, 1)
    world.run(4.0)
    assert sorted(confirmed(world)) == [1, 2, 3]


def test_an_idle_reader_has_nothing_stored():
    world, bob = ten_messages()
    for number in range(1, 11):
        answer(bob, number)
    world.run(5.0)
    ear = Ear(world)
    world.run(15.0)
    accounts = [event for _, _, event in ear.said if isinstance(event, SubscriberAck) and event.account]
    assert accounts == []


def redelivered_after_a_crash_of_everybody() -> list[tuple[int, int]]:
    """Bob acknowledges 5; the moment that is confirmed his repository dies, and he does."""
    world, bob = ten_messages()
    answer(bob, 5)
    while not confirmed(world):
        world.run(world.kernel.now + 0.0005)
    world.crash("r1", "bob")()
    world.recover("r1", "bob")()
    world.run(world.kernel.now + 5.0)
    return handed(world)[10:]


def test_a_confirmed_acknowledgement_outlives_its_repository_and_its_reader():
    assert [number for number, _ in redelivered_after_a_crash_of_everybody()] == [1, 2, 3, 4, 6, 7, 8, 9, 10]


def test_what_is_confirmed_by_a_repository_that_lags_does_not_come_again_from_it():
    """
    1. r1 steers bob and hears all his acknowledgements but one; r2 hears none of them, and begins again, so that it
       does not know by heart where the messages lie that follow those.
    2. r1 dies. r2 takes over where it believes bob to be, and confirms the one.
    3. bob dies before he has come by what he acknowledged before, and begins again at r2.
    """
    world = world_of(2)
    alice = world.publisher("alice")
    bob = world.manual_subscriber("bob", subscriber("bob"), habits=NEVER)
    world.run(1.0)
    first = str(bob.machine.status()["steering"])
    [second] = {"r1", "r2"} - {first}
    ear = Ear(world)
    # r2 hears nothing of bob and of what r1 says of him, until it steers him; and it answers no question about rows.
    ear.lose = lambda who, whom, event: (
        (whom == second and isinstance(event, SubscriberAck) and event.steering == first)
        or (whom == second and isinstance(event, Gossip | Tidings))
        or (whom == "bob" and who in (first, "alice") and world.kernel.now > 4.5)
        or (whom == "bob" and isinstance(event, Rectify | Resent) and who == second and not event_begins(event))
    )
    publish(world, alice, 1, 9, 1.1)
    world.run(2.0)
    for number in range(1, 10):
        answer(bob, number)
    world.run(3.0)
    assert confirmed(world) == list(range(1, 10))
    publish(world, world.publisher("carol"), 1, 1, 3.2)
    publish(world, alice, 10, 12, 4.6)
    world.run(5.0)
    world.crash(second)()
    world.recover(second)()
    world.run(6.0)
    world.crash(first)()
    answer(bob, 1)
    while len(confirmed(world)) < 10:
        world.run(world.kernel.now + 0.01)
    bob.crash()
    ear.lose = lambda *_: False
    bob.start()
    world.run(world.kernel.now + 5.0)
    assert str(bob.machine.status()["steering"]) == second
    assert handed(world)[10:] == [(10, 1), (11, 1), (12, 1)]


def event_begins(event: Rectify | Resent) -> bool:
    return isinstance(event, Rectify) and event.begins


def test_a_message_that_retention_takes_while_it_is_out_is_a_gap_for_the_next_reader():
    world = ReliableWorld(1)
    for name in ("r1", "r2"):
        world.repository(name, retention=Retention(keep_s=1.0, keep_unread=False))
    world.run(0.5)
    alice = world.publisher("alice")
    bob = world.manual_subscriber("bob", subscriber("bob"), habits=NEVER)
    publish(world, alice, 1, 5, 1.0)
    world.run(1.5)
    for number in (1, 2, 4, 5):
        answer(bob, number)
    world.run(2.0)
    bob.crash()
    # Siblings tell each other that bob lacks 3; that it was handed out, and not told as a gap, is told with it.
    world.run(8.0)
    publish(world, alice, 6, 6, 8.1)
    bob.start()
    world.run(9.0)
    assert [(number_of(gap.first), number_of(gap.last), gap.forgotten) for _, gap in bob.gaps] == [(3, 3, True)]
    assert handed(world)[5:] == [(6, 1)]


def test_a_reader_that_dies_before_it_was_handed_anything_takes_nothing_away_from_the_next():
    world, bob = ten_messages()
    answer(bob, 2)
    answer(bob, 5)
    world.run(3.0)
    assert confirmed(world) == [2, 5]
    bob.crash()
    ear = Ear(world)
    # It begins, gives its first account, and gets no message.
    ear.lose = lambda _, whom, event: whom == "bob" and isinstance(event, Resent)
    bob.start()
    world.run(5.0)
    assert ear.count(SubscriberAck, "bob") > 0
    bob.crash()
    ear.lose = lambda *_: False
    bob.start()
    world.run(8.0)
    assert handed(world)[10:] == [(number, 2) for number in (1, 3, 4, 6, 7, 8, 9, 10)]
