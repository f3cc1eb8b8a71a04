"""Each control event of reliable topics in a story of its own (sections 3 and 4 of the paper: docs/papers)."""

from functools import partial

import pytest

from holdfast.model.errors import LocalMisuse
from holdfast.protocols.narada import PublisherConfig, Registration, RepositoryConfig
from holdfast.protocols.narada.events import (
    Gossip,
    Leave,
    Migrate,
    Order,
    Persistent,
    PublisherAck,
    PublisherNak,
    Rectify,
    Refusal,
    Resent,
    Retransmit,
    SubscriberNak,
    Sync,
    catenation,
)
from tests.support.reliable import STEERING, Ear, numbers, publish, stored, stream_state, subscriber, world_of


def test_a_message_waits_for_its_order_and_is_stored_when_that_comes():
    world = world_of(1)
    ear = Ear(world)
    ear.lose = lambda _, __, event: isinstance(event, Order) and world.kernel.now < 2.0
    alice = world.publisher("alice")
    publish(world, alice, 1, 1, 1.0)
    world.run(1.9)
    assert stored(world, "r1") == []
    assert len(stream_state(world, "r1").pieces) == 1
    world.run_until_drained(20.0)
    assert stored(world, "r1") == [b"1"]


def test_a_lost_message_is_asked_for_and_sent_again_to_the_whole_bundle():
    world = world_of(3)
    ear = Ear(world)
    ear.lose = lambda _, __, event: event is None
    alice = world.publisher("alice")
    publish(world, alice, 1, 5, 1.0)
    world.run_until_drained(20.0)
    assert [stored(world, name) for name in ("r1", "r2", "r3")] == [numbers(1, 5)] * 3
    assert ear.count(PublisherNak, receiver="alice") > 0
    steering = alice.machine.status()["steering"]
    assert {who for who, _, event in ear.said if isinstance(event, PublisherNak)} == {steering}
    assert {ear.count(Retransmit, receiver=name) for name in ("r1", "r2", "r3")} == {
        ear.count(Retransmit, receiver="r1")
    }


def test_only_the_steering_repository_acknowledges_and_a_lost_acknowledgement_comes_again():
    world = world_of(3)
    ear = Ear(world)
    ear.lose = lambda _, __, event: isinstance(event, PublisherAck) and world.kernel.now < 1.2
    alice = world.publisher("alice")
    publish(world, alice, 1, 3, 1.0)
    world.run_until_drained(20.0)
    assert alice.machine.stored_number == 3
    assert {who for who, _, event in ear.said if isinstance(event, PublisherAck)} == {
        alice.machine.status()["steering"]
    }


def test_a_place_is_set_aside_for_what_is_missing_and_filled_when_it_comes():
    world = world_of(1)
    ear = Ear(world)
    ear.lose = lambda _, __, event: (event is None or isinstance(event, Retransmit)) and 1.0 <= world.kernel.now < 1.009
    alice, _ = world.publisher("alice"), world.subscriber("bob", subscriber("bob"))
    publish(world, alice, 1, 3, 1.0)
    world.run(1.03)
    assert stored(world, "r1") == [b"2", b"3"][: len(stored(world, "r1"))]
    assert stream_state(world, "r1").status_of_places() == [("alice", 1, 1)]
    world.run_until_drained(20.0)
    assert stored(world, "r1") == numbers(1, 3)
    assert world.payloads("bob") == numbers(1, 3)


def test_a_lost_persistence_event_is_made_up_for_by_a_rectification():
    world = world_of(1)
    ear = Ear(world)
    ear.lose = lambda _, __, event: isinstance(event, Persistent)
    alice, _ = world.publisher("alice"), world.subscriber("bob", subscriber("bob"))
    publish(world, alice, 1, 5, 1.0)
    world.run_until_drained(20.0)
    assert world.payloads("bob") == numbers(1, 5)
    assert ear.count(Rectify, receiver="bob") > 1
    assert ear.count(Resent) == 0  # He had the messages: only their rows were lost.


def test_a_message_that_a_subscriber_missed_comes_out_of_the_store():
    world = world_of(1)
    ear = Ear(world)
    ear.lose = lambda _, whom, event: event is None and whom == "bob"
    alice, _ = world.publisher("alice"), world.subscriber("bob", subscriber("bob"))
    publish(world, alice, 1, 5, 1.0)
    world.run_until_drained(20.0)
    assert world.payloads("bob") == numbers(1, 5)
    assert ear.count(SubscriberNak, "bob") > 0
    assert ear.count(Resent, "r1", "bob") > 0


def test_the_sync_follows_what_was_acknowledged_and_its_word_may_get_lost():
    world = world_of(1)
    ear = Ear(world)
    ear.lose = lambda _, __, event: isinstance(event, Sync) and world.kernel.now < 1.5
    alice, bob = world.publisher("alice"), world.subscriber("bob", subscriber("bob"))
    publish(world, alice, 1, 5, 1.0)
    world.run(1.5)
    assert bob.machine.synced == 0
    world.run_until_drained(20.0)
    assert bob.machine.synced == 5
    assert world.repositories["r1"].machine.streams["orders"].dissemination.subscriptions["bob"].sync == 5


def test_a_subscriber_that_was_away_gets_what_it_missed_and_nothing_twice():
    world = world_of(2)
    alice, bob = world.publisher("alice"), world.subscriber("bob", subscriber("bob"))
    publish(world, alice, 1, 5, 1.0)
    world.at(2.0, bob.crash)
    publish(world, alice, 6, 20, 2.5)
    world.at(4.0, bob.start)
    world.run_until_drained(20.0)
    assert world.payloads("bob") == numbers(1, 20)


def test_a_publisher_that_begins_anew_is_told_its_last_number_and_goes_on_behind_it():
    world = world_of(2)
    alice = world.publisher("alice")
    world.subscriber("bob", subscriber("bob"))
    publish(world, alice, 1, 3, 1.0)
    world.at(2.0, alice.crash)
    world.at(2.1, alice.start)
    publish(world, alice, 4, 6, 3.0)
    world.run_until_drained(20.0)
    assert world.history.after["alice", 2] == (catenation(1, 3),)
    assert world.payloads("bob") == numbers(1, 6)
    assert world.check().ok


def test_clients_choose_the_nearest_repository_and_another_one_when_it_dies():
    world = world_of(3)
    alice = world.publisher("alice", PublisherConfig("alice", "orders", steering=STEERING))
    bob = world.subscriber("bob", subscriber("bob"))
    world.run(1.0)
    steering = {alice.machine.status()["steering"], bob.machine.status()["steering"]}
    publish(world, alice, 1, 50, 1.0)
    world.at(1.2, world.crash(*map(str, steering)))
    world.run_until_drained(30.0)
    assert world.payloads("bob") == numbers(1, 50)
    assert alice.machine.status()["failovers"] == 1
    assert bob.machine.status()["failovers"] == 1


def test_a_repository_that_hears_nothing_of_a_publisher_gets_everything_by_gossip():
    world = world_of(2)
    ear = Ear(world)
    ear.lose = lambda who, whom, _: who == "alice" and whom == "r2"
    alice = world.publisher("alice")
    publish(world, alice, 1, 10, 1.0)
    world.run_until_drained(20.0)
    assert stored(world, "r2") == numbers(1, 10)
    assert ear.count(Gossip, "r1", "r2") > 0


def test_what_copies_promise_is_counted():
    world = world_of(2)
    alice = world.publisher("alice", PublisherConfig("alice", "orders", copies=2, steering=STEERING))
    world.at(0.9, world.crash("r2"))
    publish(world, alice, 1, 3, 1.0)
    world.run(2.0)
    assert alice.machine.stored_number == 0
    world.at(2.0, world.recover("r2"))
    world.run_until_drained(20.0)
    assert alice.machine.stored_number == 3
    assert {ack.copies for ack in world.history.acknowledgements} == {2}


def test_a_recovering_repository_serves_when_it_has_what_it_missed():
    world = world_of(2)
    alice = world.publisher("alice")
    publish(world, alice, 1, 10, 1.0)
    world.at(1.5, world.crash("r2"))
    publish(world, alice, 11, 40, 1.6)
    ear = Ear(world)
    ear.lose = lambda _, whom, event: isinstance(event, Resent) and whom == "r2" and world.kernel.now < 4.0
    world.at(3.0, world.recover("r2"))
    world.run(3.9)
    assert stream_state(world, "r2").phase == "filling"
    assert stored(world, "r2") == numbers(1, 10)
    world.run_until_drained(20.0)
    assert stored(world, "r2") == numbers(1, 40)
    assert stream_state(world, "r2").serving


@pytest.mark.parametrize("stored_before", [100, 2000])
def test_recovery_costs_what_was_missed_and_not_what_is_stored(stored_before: int):
    world = world_of(2, config=RepositoryConfig("*", table_rows_max=16))
    publishers = [world.publisher(name) for name in ("alice", "bert")]
    for number in range(stored_before // 2):
        for host in publishers:
            world.at(1.0 + number * 0.001, partial(host.publish, "orders", b"x"))
    world.at(6.0, world.crash("r2"))
    for number in range(50):
        for host in publishers:
            world.at(7.0 + number * 0.01, partial(host.publish, "orders", b"y"))
    world.at(9.0, world.recover("r2"))
    world.run_until_drained(60.0)
    assert len(stored(world, "r2")) == stored_before + 100
    assert world.repositories["r2"].machine.streams["orders"].bundle.learned_rows <= 200


def test_a_repository_that_is_added_gets_everything_before_it_serves():
    world = world_of(1)
    alice = world.publisher("alice")
    publish(world, alice, 1, 30, 1.0)
    world.at(1.15, lambda: world.repository("late"))
    world.run_until_drained(20.0)
    assert stored(world, "late") == numbers(1, 30)
    assert stream_state(world, "late").serving


def test_a_repository_that_leaves_sends_its_clients_away_and_goes_when_another_one_has_everything():
    world = world_of(2)
    ear = Ear(world)
    alice = world.publisher("alice", PublisherConfig("alice", "orders", steering=STEERING))
    bob = world.subscriber("bob", subscriber("bob"))
    world.run(1.0)
    leaver = str(bob.machine.status()["steering"])
    [stayer] = {"r1", "r2"} - {leaver}
    publish(world, alice, 1, 40, 1.0)
    world.at(1.2, world.leave(leaver))
    world.run_until_drained(20.0)
    assert ear.count(Migrate, leaver, "bob") == 1
    assert ear.count(Leave, leaver, stayer) >= 1
    assert stream_state(world, leaver).phase == "left"
    assert world.repositories[stayer].machine.streams["orders"].bundle.members == {}
    assert bob.machine.status()["steering"] == stayer
    assert world.payloads("bob") == numbers(1, 40)


def test_the_last_repository_may_not_leave():
    world = world_of(1)
    with pytest.raises(LocalMisuse, match="no other repository serves it"):
        world.repositories["r1"].machine.leave("orders", world.kernel.now)


def test_who_is_not_registered_is_refused_definitely_and_the_others_are_not():
    world = world_of(2)
    ear = Ear(world)
    host = world.repositories["r1"]
    registration = Registration("orders", "owner", 1, publishers=("alice",), subscribers=("bob",))
    host.enter(host.machine.register(registration))
    world.run(2.0)  # By now the gossip has told the other one.
    alice, mallory = world.publisher("alice"), world.publisher("mallory")
    world.subscriber("bob", subscriber("bob"))
    eve = world.subscriber("eve", subscriber("eve"))
    publish(world, alice, 1, 3, 3.0)
    world.at(2.0, lambda: mallory.publish("orders", b"evil"))
    world.run_until_drained(20.0)
    assert world.payloads("bob") == numbers(1, 3)
    assert world.payloads("eve") == []
    assert sorted(world.history.rejections) == [("eve", 1, 0, True), ("mallory", 1, 1, True)]
    assert (mallory.machine.state, eve.machine.state) == ("refused", "refused")
    assert ear.count(Refusal) == 2
    with pytest.raises(LocalMisuse, match="has not registered mallory to publish"):
        mallory.machine.publish("orders", b"again", 1)


def test_who_is_no_longer_registered_is_told_that_the_rest_may_be_stored_or_not():
    world = world_of(1)
    alice, host = world.publisher("alice"), world.repositories["r1"]
    publish(world, alice, 1, 3, 1.0)
    world.at(2.0, lambda: host.enter(host.machine.register(Registration("orders", "owner", 1, publishers=()))))
    publish(world, alice, 4, 4, 3.0)
    world.run_until_drained(20.0)
    assert stored(world, "r1") == numbers(1, 3)
    assert world.history.rejections == [("alice", 1, 4, False)]


def test_a_registration_by_somebody_else_or_without_trust_changes_nothing():
    world = world_of(1)
    machine = world.repositories["r1"].machine
    machine.register(Registration("orders", "owner", 1, publishers=("alice",)))
    machine.register(Registration("orders", "thief", 2, publishers=("mallory",)))
    assert stream_state(world, "r1").registration == Registration("orders", "owner", 1, publishers=("alice",))


def test_what_a_killed_repository_had_not_synced_is_synced_before_it_is_acknowledged():
    # 1. A message is written, and the process is killed before it is synced. 2. The next one finds it, and its
    # publisher, who sends it again, is told at once that it is stored. 3. The machine loses power.
    world = world_of(1, seed=3)
    ear = Ear(world)
    alice, r1 = world.publisher("alice"), world.repositories["r1"]
    publish(world, alice, 1, 1, 1.0)
    while not (r1._under_way and r1._under_way[0]):
        world.run(world.kernel.now + 0.0001)
    r1.crash()
    assert stored(world, "r1") == [b"1"]
    assert ear.count(PublisherAck) == 0
    r1.start()
    while not ear.count(PublisherAck, receiver="alice"):
        world.run(world.kernel.now + 0.0001)
    r1.crash()
    assert stored(world, "r1") == [b"1"]
