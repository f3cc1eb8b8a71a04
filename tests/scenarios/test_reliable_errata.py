"""What the paper leaves open (docs/papers/narada.md, 1 to 4) and what brokers and disks may do."""

import pytest

from holdfast.model.reliable import Level
from holdfast.protocols.narada import PublisherConfig, RepositoryConfig
from holdfast.protocols.narada import subscriber as subscribers
from holdfast.protocols.narada.events import (
    ControlEvent,
    Gossip,
    Order,
    PublisherAck,
    Resent,
    Retransmit,
    SubscriberAck,
    SubscriberNak,
    encode,
)
from holdfast.protocols.narada.participant import Say
from holdfast.protocols.narada.topics import inbox_topic
from tests.support.reliable import STEERING, Ear, numbers, publish, stored, stream_state, subscriber, world_of


def test_1_what_was_stored_and_not_acknowledged_before_a_crash_is_stored_once():
    world = world_of(1)
    ear = Ear(world)
    ear.lose = lambda _, __, event: isinstance(event, PublisherAck) and world.kernel.now < 2.0
    alice, _ = world.publisher("alice"), world.subscriber("bob", subscriber("bob"))
    publish(world, alice, 1, 5, 1.0)
    world.at(1.5, world.crash("r1"))
    world.at(1.6, world.recover("r1"))
    world.run_until_drained(20.0)
    assert stored(world, "r1") == numbers(1, 5)
    assert world.payloads("bob") == numbers(1, 5)
    assert alice.machine.stored_number == 5


def test_1_a_later_life_of_a_publisher_never_gives_a_number_that_an_earlier_one_gave():
    # r1 alone has the end of the first life, and is down while the second one begins.
    world = world_of(2)
    alice = world.publisher("alice", PublisherConfig("alice", "orders", steering=STEERING))
    world.subscriber("bob", subscriber("bob", remember=True))
    publish(world, alice, 1, 2, 1.0)
    world.at(1.5, world.part(["r2"], ["r1", "alice", "bob"]))
    publish(world, alice, 3, 4, 2.5)
    world.at(4.0, world.crash("r1", "alice"))
    world.at(4.1, world.bus.heal)
    world.at(4.2, world.recover("alice"))
    publish(world, alice, 5, 6, 6.0)
    world.at(8.0, world.recover("r1"))
    world.run_until_drained(40.0)
    assert sorted(stored(world, "r1")) == sorted(stored(world, "r2")) == numbers(1, 6)
    assert sorted(world.payloads("bob")) == numbers(1, 6)
    assert world.check().ok


def _a_place_that_nobody_can_fill(world, ear):
    """Alice's second message is lost everywhere, and so is alice."""
    ear.lose = lambda _, __, event: (
        (event is None and 1.009 < world.kernel.now < 1.011) or isinstance(event, Retransmit)
    )
    alice = world.publisher("alice")
    publish(world, alice, 1, 3, 1.0)
    world.at(1.5, alice.crash)
    return alice


def test_2_places_of_a_publisher_that_never_returns_can_be_given_up_and_are_a_gap():
    world = world_of(2)
    ear = Ear(world)
    _a_place_that_nobody_can_fill(world, ear)
    world.subscriber("bob", subscriber("bob"))
    world.run(5.0)
    assert world.payloads("bob") == [b"1"]
    host = world.repositories["r1"]
    count, effects = host.machine.give_up("orders", "alice")
    host.enter(effects)
    world.run_until_drained(20.0, operator=False)  # The other repository has heard of it.
    assert count == 1
    assert world.payloads("bob") == [b"1", b"3"]
    assert world.history.gaps["bob"] == [("alice", 1, 2, 2)]
    assert [stream_state(world, name).status_of_places() for name in ("r1", "r2")] == [[], []]


def test_2_what_was_given_up_and_turns_up_at_another_repository_comes_late():
    world = world_of(2)
    ear = Ear(world)
    alice = world.publisher("alice")
    world.run(0.8)
    world.part(["r2"], ["r1"])()
    lost = {"r1"}
    ear.lose = lambda _, whom, event: (
        whom in lost and ((event is None and 1.009 < world.kernel.now < 1.011) or isinstance(event, Retransmit))
    )
    world.subscriber("bob", subscriber("bob", remember=True))
    publish(world, alice, 1, 3, 1.0)
    world.at(1.5, alice.crash)
    world.run(3.0)
    host = world.repositories["r1"]
    host.enter(host.machine.give_up("orders", "alice")[1])
    world.at(4.0, world.bus.heal)
    world.run_until_drained(30.0)
    assert stored(world, "r2") == numbers(1, 3)
    assert stored(world, "r1") == [b"1", b"3", b"2"]
    assert sorted(world.payloads("bob")) == numbers(1, 3)


@pytest.mark.parametrize("remember", [True, False])
@pytest.mark.parametrize("away_s", [(1.8, 2.5), (3.4, 3.5)])
def test_2_a_gap_counts_as_had_neither_before_nor_after_it_was_told(remember: bool, away_s: tuple[float, float]):
    # Bob is away while r1 gives up the first of alice's messages, or for a moment afterwards; r2 has it.
    world = world_of(2)
    ear = Ear(world)
    bob = world.subscriber("bob", subscriber("bob", remember=remember))
    carol, alice = world.publisher("carol"), world.publisher("alice")

    def lose(who: str, whom: str, event: ControlEvent | None) -> bool:
        if (who, whom) == ("alice", "r1"):
            return (event is None and world.kernel.now < 1.205) or isinstance(event, Retransmit)
        return (who, whom) == ("r2", "bob") or ({who, whom} == {"r1", "r2"} and world.kernel.now < 4.0)

    ear.lose = lose
    publish(world, carol, 1, 1, 1.0)
    publish(world, alice, 2, 3, 1.2)
    world.at(1.5, alice.crash)
    world.at(2.0, lambda: world.repositories["r1"].give_up("orders", "alice"))
    world.at(away_s[0], bob.crash)
    world.at(away_s[1], bob.start)
    world.run_until_drained(30.0)
    assert stored(world, "r1") == [b"1", b"3", b"2"]
    assert world.payloads("bob") == [b"1", b"3", b"2"]
    assert world.history.gaps["bob"] == [("alice", 1, 1, 1)]
    assert world.check().ok


def test_3_an_acknowledgement_that_comes_before_its_gossip_is_kept_until_that_comes(monkeypatch: pytest.MonkeyPatch):
    # Bob says by identity what he has, which everybody understands, only when he has nothing new.
    monkeypatch.setattr(subscribers, "CUT_SOON_MAX", 0)
    world = world_of(2)
    ear = Ear(world)
    alice, bob = world.publisher("alice"), world.subscriber("bob", subscriber("bob", ack_s=0.1))
    world.run(1.0)
    steering = str(bob.machine.status()["steering"])
    [passive] = {"r1", "r2"} - {steering}
    ear.lose = lambda who, _, event: isinstance(event, Gossip) and who == steering and world.kernel.now < 1.15
    publish(world, alice, 1, 5, 1.0)
    world.run(1.15)
    known = world.repositories[passive].machine.streams["orders"].dissemination.subscriptions["bob"]
    assert ear.count(SubscriberAck, "bob", passive) > 0
    assert known.sync == 0
    assert known.pending[steering].highest == 5
    # Nor then: only gossip is to help here.
    ear.lose = lambda _, whom, event: whom == passive and isinstance(event, SubscriberAck) and bool(event.cut)
    world.run(6.0)
    assert known.sync == 5
    assert known.pending == {}


def test_3_an_acknowledgement_in_numbers_of_an_earlier_era_does_not_wait_for_the_gossip_of_the_next():
    # 1. The steering repository loses its disk, begins anew, says so. 2. An acknowledgement in its old numbers comes
    # late. 3. Translated by what lies under the new ones, it says of messages that bob does not have that he has them.
    world = world_of(2)
    ear = Ear(world)
    alice, bob = world.publisher("alice"), world.subscriber("bob", subscriber("bob"))
    world.run(1.0)
    steering = str(bob.machine.status()["steering"])
    [passive] = {"r1", "r2"} - {steering}
    ear.lose = lambda _, __, event: isinstance(event, SubscriberAck) and event.era != 99
    publish(world, alice, 1, 5, 1.0)
    world.run(1.2)
    late = SubscriberAck("orders", "bob", steering, 99, ((1, 5),))
    world.medium.publish("bob", Say(inbox_topic("orders", passive), encode(late)), 1000)
    world.run(1.3)
    assert ear.count(SubscriberAck, "bob", passive) > 0
    known = world.repositories[passive].machine.streams["orders"].dissemination.subscriptions["bob"]
    assert known.sync == 0
    assert known.pending == {}


def test_4_two_repositories_that_both_believe_to_steer_a_client_do_no_harm():
    world = world_of(2)
    ear = Ear(world)
    alice = world.publisher("alice", PublisherConfig("alice", "orders", steering=STEERING))
    bob = world.subscriber("bob", subscriber("bob", remember=True))
    world.run(1.0)
    first = str(bob.machine.status()["steering"])
    publish(world, alice, 1, 100, 1.0)
    # Bob cannot be heard by the one that steers him, which goes on to tell him what it stores.
    ear.lose = lambda who, whom, _: who == "bob" and whom == first
    world.run_until_drained(30.0)
    [other] = {"r1", "r2"} - {first}
    believed = [
        world.repositories[name].machine.streams["orders"].dissemination.subscriptions["bob"].steering
        for name in (first, other)
    ]
    assert believed == [first, other]
    assert world.payloads("bob") == numbers(1, 100)
    assert world.check().ok


def test_a_message_of_an_earlier_session_is_not_taken_for_one_under_the_same_number():
    # The second life's session numbers its messages from 1 again; the first life's message #k is heard once more.
    world = world_of(1)
    alice, _ = world.publisher("alice"), world.subscriber("bob", subscriber("bob"))
    heard = []
    ear = Ear(world)
    loses = world.bus.loses
    assert loses is not None

    def listen(who, whom, batch):
        heard.append((whom, batch))
        return loses(who, whom, batch)

    world.bus.loses = listen
    ear.lose = lambda _, __, event: isinstance(event, Order | Retransmit) and world.kernel.now < 2.0
    publish(world, alice, 1, 1, 1.0)
    world.at(1.5, alice.crash)
    world.at(2.0, alice.start)
    stale = {}

    def again():
        for whom, batch in heard:
            if batch.topic == "orders":
                stale[whom] = batch
                world.host(whom).enter(world.host(whom).machine.heard(batch, world.kernel.now))

    world.at(2.99, again)
    publish(world, alice, 2, 2, 3.0)
    world.run_until_drained(20.0)
    assert set(stale) == {"r1", "bob"}
    assert stored(world, "r1") == [b"2"]
    assert world.payloads("bob") == [b"2"]


def test_numbers_that_were_told_and_lost_by_the_disk_are_not_given_again():
    world = world_of(2, seed=4, config=RepositoryConfig("*", level=Level.MEMORY, reserve=100))
    alice = world.publisher("alice", PublisherConfig("alice", "orders", copies=2, steering=STEERING))
    bob = world.subscriber("bob", subscriber("bob", remember=True))
    world.run(1.0)
    steering = str(bob.machine.status()["steering"])
    publish(world, alice, 1, 5, 1.0)
    world.at(2.0, world.crash(steering))
    world.at(2.1, world.recover(steering))
    publish(world, alice, 6, 10, 3.0)
    world.run_until_drained(30.0)
    assert world.payloads("bob") == numbers(1, 10)
    assert sorted(stored(world, steering)) == sorted(numbers(1, 10))
    assert stream_state(world, steering).end > 100


def test_a_question_for_what_was_never_stored_leaves_room_for_others():
    world = world_of(1, config=RepositoryConfig("*", reads_max=1))
    ear = Ear(world)
    alice, _ = world.publisher("alice"), world.subscriber("bob", subscriber("bob"))
    publish(world, alice, 1, 5, 1.0)
    world.run(2.0)
    for number, ranges in enumerate((((50, 60),), ((2, 3),))):
        event = SubscriberNak("orders", "bob", "r1", ranges)
        world.medium.publish("bob", Say(inbox_topic("orders", "r1"), encode(event)), 1000 + number)
    world.run(3.0)
    resent = [event for _, whom, event in ear.said if isinstance(event, Resent) and whom == "bob"]
    assert [(entry.first, entry.count) for event in resent for entry in event.entries] == [(2, 1), (3, 1)]
