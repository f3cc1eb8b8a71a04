"""Retention: what goes, what may not go yet, and what is said of what is gone."""

import pytest

from holdfast.model.reliable import Retention
from holdfast.protocols.narada import dissemination
from holdfast.protocols.narada.answers import expired
from holdfast.protocols.narada.events import ControlEvent, Retransmit, catenation
from holdfast.simulation.reliable import ReliableWorld
from holdfast.simulation.reliable.hosts import PublisherHost
from tests.support.reliable import (
    Ear,
    a_subscription_that_began_while_another_was_away,
    numbers,
    publish,
    stored,
    stream_state,
    subscriber,
    world_of,
)


def forget(world: ReliableWorld, name: str, before: int, keep_unread: bool = True) -> None:
    """What the driver of that repository says when everything below has expired."""
    host = world.repositories[name]
    entries = host.store.read("orders", 1, before - 1, 1 << 60)
    last = entries[-1]
    whose = ((last.publisher, last.cat_last),)
    assert before <= host.machine.forgettable("orders", keep_unread)
    host.enter(host.machine.forgotten("orders", before, whose, keep_unread))
    world.run(world.kernel.now + 0.1)


def test_nothing_goes_that_a_durable_subscriber_has_not_read():
    world = world_of(1)
    alice, bob = world.publisher("alice"), world.subscriber("bob", subscriber("bob"))
    publish(world, alice, 1, 5, 1.0)
    world.run(2.5)
    bob.crash()
    publish(world, alice, 6, 10, 3.0)
    world.run(4.0)
    machine = world.repositories["r1"].machine
    assert machine.forgettable("orders") == 6
    assert machine.forgettable("orders", keep_unread=False) == 11
    assert machine.forgotten("orders", 8, (("alice", catenation(1, 7)),)) == []
    forget(world, "r1", 6)
    assert stored(world, "r1") == numbers(6, 10)
    bob.start()
    world.run_until_drained(30.0)
    assert world.payloads("bob") == numbers(1, 10)
    assert not world.history.gaps["bob"]


def test_a_subscriber_for_whom_nothing_was_kept_gets_a_gap_and_goes_on_behind_it():
    world = world_of(1)
    alice, bob = world.publisher("alice"), world.subscriber("bob", subscriber("bob"))
    publish(world, alice, 1, 5, 1.0)
    world.run(2.5)
    bob.crash()
    publish(world, alice, 6, 20, 3.0)
    world.run(4.0)
    forget(world, "r1", 16, keep_unread=False)
    bob.start()
    world.run_until_drained(30.0)
    assert world.payloads("bob") == [*numbers(1, 5), *numbers(16, 20)]
    assert world.history.gaps["bob"] == [("alice", 1, 6, 15)]


def test_whoever_subscribes_after_it_went_begins_with_what_is_kept_and_misses_nothing():
    world = world_of(1)
    alice = world.publisher("alice")
    publish(world, alice, 1, 10, 1.0)
    world.run(2.0)
    forget(world, "r1", 8)
    world.crash("r1")()
    world.recover("r1")()
    world.subscriber("bob", subscriber("bob"))
    publish(world, alice, 11, 12, 6.0)
    world.run_until_drained(30.0)
    assert world.payloads("bob") == numbers(8, 12)
    assert not world.history.gaps["bob"]


def test_a_sibling_that_was_away_or_is_new_does_not_wait_for_what_is_gone():
    world = world_of(2)
    alice = world.publisher("alice")
    publish(world, alice, 1, 10, 1.0)
    world.run(2.0)
    world.crash("r2")()
    publish(world, alice, 11, 30, 2.5)
    world.run(4.0)
    # Until it is sure that the other one is gone, it keeps what that one lacks.
    assert world.repositories["r1"].machine.forgettable("orders") == 11
    world.run(8.0)
    forget(world, "r1", 21)
    world.recover("r2")()
    world.repository("r3")
    publish(world, alice, 31, 32, 12.0)
    world.run_until_drained(40.0)
    assert stored(world, "r2") == [*numbers(1, 10), *numbers(21, 32)]
    assert stored(world, "r3") == numbers(21, 32)
    for name in ("r2", "r3"):
        assert stream_state(world, name).status_of_places() == []
    world.crash("r1", "r2")()
    world.subscriber("bob", subscriber("bob"))
    world.run(45.0)
    assert world.payloads("bob") == numbers(21, 32)


def one_that_passed_over_what_a_sibling_had_forgotten(*away: str) -> tuple[ReliableWorld, PublisherHost]:
    """At 14 s r1 has 1..6 and knows that 7..10 will not come; r2 has forgotten all ten. These have read nothing yet."""
    world = world_of(2)
    alice = world.publisher("alice")
    for name in away:
        world.subscriber(name, subscriber(name))
    world.run(0.9)
    for name in away:
        world.subscribers[name].crash()
    publish(world, alice, 1, 6, 1.0)
    world.run(2.0)
    world.crash("r1")()
    publish(world, alice, 7, 10, 2.5)
    world.run(8.0)
    forget(world, "r2", 11, keep_unread=False)
    world.recover("r1")()
    world.run(14.0)
    assert stored(world, "r1") == numbers(1, 6)
    return world, alice


def test_a_gap_is_told_by_the_numbers_of_what_lay_there_if_a_sibling_has_forgotten_more():
    world, _ = one_that_passed_over_what_a_sibling_had_forgotten("bob")
    forget(world, "r1", 4, keep_unread=False)
    world.crash("r1")()
    world.recover("r1")()
    world.crash("r2")()
    world.recover("bob")()
    world.run(20.0)
    assert world.payloads("bob") == numbers(4, 6)
    assert world.history.gaps["bob"] == [("alice", 1, 1, 3), ("alice", 1, 7, 10)]
    assert expired(stream_state(world, "r1")) == (("alice", catenation(1, 3)),)
    # What was passed over expires as well, and is told of with the rest from then on.
    forget(world, "r1", 11, keep_unread=False)
    assert expired(stream_state(world, "r1")) == (("alice", catenation(1, 10)),)


@pytest.mark.parametrize(("start", "first"), [({}, 1), ({"start": "seq", "value": 3}, 3)])
def test_who_begins_gets_what_is_stored_below_what_only_a_sibling_has_forgotten(start: dict[str, object], first: int):
    world, _ = one_that_passed_over_what_a_sibling_had_forgotten()
    world.crash("r2")()
    world.subscriber("carol", subscriber("carol", **start))
    world.run(20.0)
    assert world.payloads("carol") == numbers(first, 6)
    assert world.history.gaps["carol"] == [("alice", 1, 7, 10)]


@pytest.mark.parametrize("expired_below", [1, 4])
def test_one_that_is_added_gets_what_is_stored_below_what_only_a_third_one_has_forgotten(expired_below: int):
    world, alice = one_that_passed_over_what_a_sibling_had_forgotten()
    if expired_below > 1:
        forget(world, "r1", expired_below, keep_unread=False)
    world.crash("r2")()
    world.repository("r3")
    world.run(20.0)
    assert stored(world, "r3") == numbers(expired_below, 6)
    # It has places for what came before these, and nobody who could fill them.
    publish(world, alice, 11, 12, 20.5)
    world.run(30.0)
    world.crash("r1")()
    world.subscriber("bob", subscriber("bob"))
    world.run(40.0)
    assert world.payloads("bob") == [*numbers(expired_below, 6), *numbers(11, 12)]
    assert ("alice", 1, 7, 10) in world.history.gaps["bob"]


def test_what_was_given_up_and_then_expired_is_a_gap_to_whoever_had_not_come_so_far():
    world = world_of(1)
    ear = Ear(world)
    alice, bob = world.publisher("alice"), world.subscriber("bob", subscriber("bob"))
    world.run(0.9)
    bob.crash()
    ear.lose = lambda _, __, event: (event is None and world.kernel.now < 1.005) or isinstance(event, Retransmit)
    publish(world, alice, 1, 3, 1.0)
    world.at(1.5, alice.crash)
    world.run(2.0)
    host = world.repositories["r1"]
    host.give_up("orders", "alice")
    world.run(3.0)
    assert stored(world, "r1") == numbers(2, 3)
    # Nothing that was stored expires with it.
    host.enter(host.machine.forgotten("orders", 2, (), keep_unread=False))
    bob.start()
    world.run(10.0)
    assert world.payloads("bob") == numbers(2, 3)
    assert world.history.gaps["bob"] == [("alice", 1, 1, 1)]


@pytest.mark.parametrize("restarts", [False, True])
def test_what_was_given_up_and_came_late_is_not_passed_over_when_what_lay_around_it_expires(restarts: bool):
    world = world_of(2)
    ear = Ear(world)

    def lose(who: str, whom: str, event: ControlEvent | None) -> bool:
        now, pair = world.kernel.now, {who, whom}
        if (who, whom) == ("alice", "r1"):
            return (event is None and 1.019 < now < 1.021) or isinstance(event, Retransmit)
        return (pair == {"r1", "r2"} and now < 6.0) or (pair == {"bob", "r2"} and now < 20.0)

    ear.lose = lose
    alice, bob = world.publisher("alice"), world.subscriber("bob", subscriber("bob"))
    publish(world, alice, 1, 10, 1.0)
    world.at(1.5, alice.crash)
    world.run(2.0)
    world.repositories["r1"].give_up("orders", "alice")
    world.run(4.0)
    assert world.history.gaps["bob"] == [("alice", 1, 3, 3)]
    bob.crash()
    world.run(12.0)
    assert stored(world, "r1") == [*numbers(1, 2), *numbers(4, 10), b"3"]
    forget(world, "r1", 11)
    publish(world, world.publisher("carol"), 101, 102, 13.0)
    world.run(18.0)
    if restarts:
        world.crash("r1")()
        world.recover("r1")()
        world.run(19.0)
    world.crash("r2")()
    bob.start()
    world.run(30.0)
    assert world.payloads("bob") == [*numbers(1, 2), *numbers(4, 10), b"3", *numbers(101, 102)]


def test_what_lies_behind_a_place_that_was_filled_late_goes_when_that_is_old():
    world = ReliableWorld(1)
    world.repository("r1", retention=Retention(keep_s=3.0))
    ear, alice = Ear(world), world.publisher("alice")
    ear.lose = lambda _, __, event: (
        (event is None and 1.009 < world.kernel.now < 1.011)
        or (isinstance(event, Retransmit) and world.kernel.now < 5.0)
    )
    publish(world, alice, 1, 3, 1.0)
    world.run_until_drained(20.0)
    assert stored(world, "r1") == numbers(2, 3)  # The third is older than the second, and than it need be.
    assert world.check().ok
    world.run(world.kernel.now + 3.0)
    assert stored(world, "r1") == []


@pytest.mark.parametrize("silent_until_s", [12.0, 60.0])
def test_what_one_sibling_has_forgotten_is_waited_for_until_the_others_have_said_what_they_have(silent_until_s: float):
    # r3 has a place for the second message when it goes down. r1 has forgotten it when it comes back; r2 has it.
    world = world_of(3)
    ear = Ear(world)

    def lose(who: str, whom: str, event: ControlEvent | None) -> bool:
        now, pair = world.kernel.now, {who, whom}
        if (who, whom) == ("alice", "r3"):
            return (event is None and 1.009 < now < 1.011) or isinstance(event, Retransmit)
        return (pair == {"r1", "r3"} and now < 2.0) or (pair == {"r2", "r3"} and now < silent_until_s)

    ear.lose = lose
    alice = world.publisher("alice")
    publish(world, alice, 1, 3, 1.0)
    world.at(1.5, world.crash("r3"))
    world.run(8.0)
    forget(world, "r1", 4)
    world.recover("r3")()
    world.run(20.0)
    heard = silent_until_s < 20.0
    assert stored(world, "r3") == (numbers(1, 3) if heard else [b"1", b"3"])
    assert (
        stream_state(world, "r3").status_of_places() == []
    )  # It does not wait for somebody that is not there, either.


def test_a_sibling_that_lost_every_word_of_it_is_told_when_it_asks():
    world = world_of(2)
    ear = Ear(world)
    alice = world.publisher("alice")
    # The second repository learns which messages there are, and gets none of them before they are gone.
    ear.lose = lambda who, whom, event: whom == "r2" and (who == "alice" or type(event).__name__ == "Resent")
    publish(world, alice, 1, 5, 1.0)
    world.run(3.0)
    assert stored(world, "r2") == []
    # And then the first one does not hear of the second any more, and takes it for gone.
    ear.lose = lambda who, whom, _: "r2" in (who, whom)
    world.run(9.0)
    forget(world, "r1", 4)
    ear.lose = lambda *_: False
    world.run_until_drained(40.0, operator=False)
    assert stored(world, "r2") == numbers(4, 5)


def test_a_reader_that_changes_to_a_repository_which_has_forgotten_more_is_told_of_the_gap():
    world = world_of(2)
    ear = Ear(world)
    alice, bob = world.publisher("alice"), world.subscriber("bob", subscriber("bob", remember=True))
    publish(world, alice, 1, 5, 1.0)
    world.run(2.5)
    bob.crash()
    publish(world, alice, 6, 20, 3.0)
    world.run(4.0)
    forget(world, "r2", 16, keep_unread=False)
    ear.lose = lambda who, whom, _: "r1" in (who, whom)
    bob.start()
    world.run(15.0)
    assert world.payloads("bob") == [*numbers(1, 5), *numbers(16, 20)]
    assert world.history.gaps["bob"] == [("alice", 1, 6, 15)]


def test_who_was_away_when_a_subscription_began_learns_of_it_and_keeps_what_it_has_not_read():
    machine = a_subscription_that_began_while_another_was_away()
    assert machine.forgettable("orders") == 1
    assert machine.forgettable("orders", keep_unread=False) == 11


def test_whoever_knows_too_many_subscriptions_for_one_message_tells_of_all_in_turn(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dissemination, "RANGES_MAX", 2)
    world = world_of(2)
    world.crash("r2")()
    for number in range(5):
        world.subscriber(f"s{number}", subscriber(f"s{number}"))
    world.run(2.0)
    world.crash(*world.subscribers)()
    world.recover("r2")()
    world.run(8.0)
    assert world.repositories["r2"].machine.streams["orders"].dissemination.subscriptions.keys() == set(
        world.subscribers
    )
