"""Where durable subscriptions begin, how they are told apart, and what happens at the bounds."""

import pytest

from holdfast.model.errors import LocalMisuse
from holdfast.protocols.narada import BufferFull, Publisher, PublisherConfig, RepositoryConfig
from holdfast.protocols.narada.events import Recovery, Rectify, Resent, Retransmit, SubscriberNak, encode
from holdfast.protocols.narada.participant import Say
from holdfast.protocols.narada.topics import inbox_topic
from holdfast.simulation.reliable import ReliableWorld
from tests.support.reliable import STEERING, Ear, numbers, publish, stored, stream_state, subscriber, world_of


def _ten_are_stored(repositories: int = 1):
    world = world_of(repositories)
    alice = world.publisher("alice")
    publish(world, alice, 1, 10, 1.0)
    world.run(2.0)
    return world, alice


@pytest.mark.parametrize(
    ("settings", "first"),
    [
        ({}, 1),
        ({"start": "seq", "value": 4}, 4),
        ({"start": "seq", "value": 99}, 11),
        ({"start": "time", "value": 1_055_000_000}, 7),
        ({"start": "live"}, 11),
    ],
)
def test_a_new_subscription_begins_where_it_says(settings: dict[str, object], first: int):
    world, alice = _ten_are_stored()
    world.subscriber("bob", subscriber("bob", **settings))
    publish(world, alice, 11, 15, 3.0)
    world.run_until_drained(20.0)
    assert world.payloads("bob") == numbers(first, 15)


def test_a_known_subscription_goes_on_where_it_was_whatever_its_start_says():
    world, alice = _ten_are_stored()
    bob = world.subscriber("bob", subscriber("bob"))
    world.at(3.0, bob.crash)
    world.at(3.1, lambda: setattr(bob, "config", subscriber("bob", start="live")))
    publish(world, alice, 11, 12, 3.5)
    world.at(4.0, bob.start)
    world.run_until_drained(20.0)
    assert world.payloads("bob") == numbers(1, 12)


def test_a_subscription_may_begin_anew():
    world, _ = _ten_are_stored()
    bob = world.subscriber("bob", subscriber("bob"))
    world.at(3.0, bob.crash)
    world.at(3.1, lambda: setattr(bob, "config", subscriber("bob", start="seq", value=9, anew=True)))
    world.at(4.0, bob.start)
    world.run_until_drained(20.0)
    assert world.payloads("bob") == [*numbers(1, 10), b"9", b"10"]


@pytest.mark.parametrize(
    ("settings", "first"),
    [
        ({"start": "start"}, 4),
        ({"start": "seq", "value": 8}, 8),
        ({"start": "time", "value": 3_035_000_000}, 8),
        ({"start": "live"}, 11),
    ],
)
def test_one_with_memory_that_begins_anew_gets_nothing_from_before_there_and_nothing_twice(
    settings: dict[str, object], first: int
):
    world = world_of(2)
    alice, bob = world.publisher("alice"), world.subscriber("bob", subscriber("bob", remember=True))
    publish(world, alice, 1, 3, 1.0)
    world.at(2.0, bob.crash)
    publish(world, alice, 4, 10, 3.0)
    # After a restart, a repository does not know by heart what lies before where it is.
    world.at(4.0, world.crash("r1", "r2"))
    world.at(4.1, world.recover("r1", "r2"))
    bob.config = subscriber("bob", remember=True, anew=True, **settings)
    world.at(6.0, bob.start)
    world.run(7.0)
    publish(world, alice, 11, 11, 7.0)
    world.at(8.0, world.crash(str(bob.machine.status()["steering"])))
    world.at(12.0, world.recover("r1", "r2"))
    world.run_until_drained(30.0)
    assert bob.machine.status()["failovers"] == 1
    assert world.payloads("bob") == [*numbers(1, 3), *numbers(first, 11)]


def test_a_beginning_that_is_late_begins_nothing_even_if_its_repository_has_restarted():
    world = world_of(1)
    ear = Ear(world)
    alice = world.publisher("alice")
    world.subscriber("bob", subscriber("bob", start="seq", value=8, anew=True))
    world.run(1.0)
    late = next(event for _, whom, event in ear.said if isinstance(event, Recovery) and whom == "r1")
    ear.lose = lambda who, _, __: who == "bob"
    publish(world, alice, 1, 10, 1.0)
    world.at(2.0, world.crash("r1"))
    world.at(2.1, world.recover("r1"))
    world.at(4.0, lambda: world.medium.publish("bob", Say(inbox_topic("orders", "r1"), encode(late)), 1000))
    world.run(4.5)
    known = world.repositories["r1"].machine.streams["orders"].dissemination.subscriptions["bob"]
    assert (known.sync, known.begun_by) == (0, late.reader)


def test_one_that_comes_back_begins_with_what_it_has_to_know_first_and_with_nothing_else():
    world = world_of(1)
    ear = Ear(world)
    alice, bob = world.publisher("alice"), world.subscriber("bob", subscriber("bob"))
    publish(world, alice, 1, 3, 1.0)
    world.at(2.0, bob.crash)
    # The fifth does not arrive, and is given up; after a restart what lies behind bob is read from the store.
    ear.lose = lambda _, __, event: (
        (event is None and 3.009 < world.kernel.now < 3.011) or isinstance(event, Retransmit)
    )
    publish(world, alice, 4, 6, 3.0)
    world.at(3.05, world.crash("alice"))
    world.run(5.0)
    world.repositories["r1"].give_up("orders", "alice")
    world.run(5.5)
    world.crash("r1")()
    world.recover("r1")()
    world.run(6.0)
    ear.said.clear()
    ear.lose = lambda _, whom, event: whom == "bob" and isinstance(event, Rectify) and event.begins
    bob.start()
    world.run(8.0)
    rest = [event for _, whom, event in ear.said if whom == "bob" and isinstance(event, Rectify) and not event.begins]
    assert rest
    assert rest[0].first == rest[0].sync + 1
    assert world.payloads("bob") == numbers(1, 3)
    ear.lose = lambda *_: False
    world.run(12.0)
    assert world.payloads("bob") == [*numbers(1, 4), b"6"]


def test_where_one_began_does_not_matter_to_a_repository_that_has_not_heard_of_it():
    world = world_of(2)
    apart = ({"r1", "r2"}, {"bob", "r2"})
    Ear(world).lose = lambda who, whom, _: {who, whom} in apart and world.kernel.now < 1.5
    alice = world.publisher("alice")
    world.subscriber("bob", subscriber("bob", start="seq", value=8))
    publish(world, alice, 1, 5, 1.0)
    world.at(1.5, world.crash("r1"))
    publish(world, alice, 6, 10, 1.6)
    world.at(5.0, world.recover("r1"))
    world.run_until_drained(30.0)
    assert world.payloads("bob") == numbers(1, 10)


def test_a_subscription_may_begin_in_the_midst_of_a_batch_that_its_repository_lacks():
    world = world_of(1)
    # Of the first batch r1 hears neither the messages nor the order; then that there is a gap.
    Ear(world).lose = lambda who, whom, event: (
        (who, whom) == ("alice", "r1")
        and (world.kernel.now < 1.2 or isinstance(event, Retransmit))
        and 1.0 <= world.kernel.now < 1.5
    )
    alice = world.publisher("alice")
    publish(world, alice, 1, 10, 1.0, gap_s=0.0)
    publish(world, alice, 11, 11, 1.25)
    world.run(1.3)
    assert stream_state(world, "r1").status_of_places() == [("alice", 1, number) for number in range(1, 11)]
    world.subscriber("bob", subscriber("bob", start="seq", value=4))
    world.run_until_drained(20.0)
    assert world.payloads("bob") == numbers(4, 11)


def test_a_live_subscription_that_changes_its_repository_gets_nothing_older():
    world, alice = _ten_are_stored(2)
    bob = world.subscriber("bob", subscriber("bob", start="live"))
    world.run(3.0)
    publish(world, alice, 11, 60, 3.0)
    world.at(3.2, world.crash(str(bob.machine.status()["steering"])))
    world.run_until_drained(30.0)
    assert world.payloads("bob") == numbers(11, 60)


def test_a_pattern_and_a_filter_choose_what_is_released():
    world = world_of(1)
    world.stream = "bank/#"
    world.repositories.clear()
    world.repository("r9")
    alice = world.publisher("alice")
    config = subscriber("bob", pattern="bank/+/orders", where="amount > 5")
    world.subscriber("bob", config)
    world.run(1.5)
    for amount in (3, 7, 9):
        alice.machine.publish("bank/lisbon/orders", b"%d" % amount, 1, attributes={"amount": amount})
    alice.machine.publish("bank/lisbon/news", b"8", 1, attributes={"amount": 8})
    alice.enter([])
    world.run(3.0)
    assert world.payloads("bob") == [b"7", b"9"]


def test_a_subscriber_with_memory_gets_each_message_once_though_its_repository_forgot_its_acknowledgements():
    world, _ = _ten_are_stored(2)
    ear = Ear(world)
    bob = world.subscriber("bob", subscriber("bob", remember=True))
    ear.lose = lambda who, _, __: who == "bob" and world.kernel.now > 2.2
    world.run(2.4)
    assert world.payloads("bob") == numbers(1, 10)
    bob.crash()
    ear.lose = lambda *_: False
    bob.start()
    world.run_until_drained(20.0)
    assert world.payloads("bob") == numbers(1, 10)


def test_a_subscription_that_is_ended_is_forgotten_by_everybody():
    world, alice = _ten_are_stored(2)
    bob = world.subscriber("bob", subscriber("bob"))
    world.run(3.0)
    bob.crash()
    world.forget("bob")()
    publish(world, alice, 11, 12, 3.5)
    world.run_until_drained(20.0)
    assert world.payloads("bob") == numbers(1, 10)
    for host in world.repositories.values():
        assert "bob" not in host.machine.streams["orders"].dissemination.subscriptions
        assert not list(host.store.items("narada/orders/subscriber/bob"))


def test_what_was_released_and_not_consumed_comes_again_also_when_another_repository_steers():
    world, _ = _ten_are_stored(2)
    bob = world.subscriber("bob", subscriber("bob"), consume_s=1000.0)
    world.run(3.0)
    assert world.payloads("bob") == numbers(1, 10)
    first = str(bob.machine.status()["steering"])
    world.crash(first)()
    world.run(6.0)
    assert bob.machine.status()["steering"] != first
    bob.crash()
    bob.start()
    world.run(9.0)
    assert world.payloads("bob") == numbers(1, 10) * 2


def test_who_stops_acknowledges_first_and_gets_nothing_again():
    world, _ = _ten_are_stored()
    bob = world.subscriber("bob", subscriber("bob", ack_s=50.0))
    world.run(3.0)
    bob.enter(bob.machine.stop(world.kernel.now))
    world.run(3.1)
    bob.crash()
    bob.start()
    world.run(5.0)
    assert world.payloads("bob") == numbers(1, 10)


def test_a_stream_of_everything_does_not_take_what_participants_say_to_each_other():
    world = ReliableWorld(1, "#")
    for name in ("r1", "r2"):
        world.repository(name)
    world.run(0.5)
    alice = world.publisher("alice")
    for name in ("bob", "carol"):
        world.subscriber(name, subscriber(name))
    publish(world, alice, 1, 10, 1.0)
    world.at(1.05, world.crash("r1"))
    world.at(2.0, world.recover("r1"))
    world.run_until_drained(30.0)
    assert world.payloads("bob") == world.payloads("carol") == numbers(1, 10)
    assert stored(world, "r1") == stored(world, "r2") == numbers(1, 10)


# ------------------------------------------------------------------------------------------------------------- bounds


def test_a_full_buffer_refuses_what_does_not_fit_and_takes_it_when_there_is_room():
    publisher = Publisher(PublisherConfig("alice", "orders", buffer_count_max=2), life=1)
    publisher.publish("orders", b"1", 1)
    publisher.publish("orders", b"2", 1)
    assert not publisher.room()
    with pytest.raises(BufferFull, match="as many as its buffer holds"):
        publisher.publish("orders", b"3", 1)
    assert publisher.next_number == 3


def test_what_the_stream_does_not_cover_and_what_is_too_large_is_refused():
    publisher = Publisher(PublisherConfig("alice", "orders"), life=1)
    with pytest.raises(LocalMisuse, match="does not cover"):
        publisher.publish("news", b"1", 1)
    with pytest.raises(LocalMisuse, match="has at most"):
        publisher.publish("orders", bytes(1 << 20), 1)


def test_a_slow_application_leaves_the_rest_in_the_store_and_gets_it_later():
    world = world_of(1)
    ear = Ear(world)
    alice = world.publisher("alice")
    config = subscriber("bob", buffer_bytes_max=500, rows_max=4, unconsumed_bytes_max=200)
    bob = world.subscriber("bob", config, consume_s=0.02)
    publish(world, alice, 1, 100, 1.0, gap_s=0.001)
    world.run(1.5)
    assert bob.machine.unconsumed.bytes <= 200 + 66
    assert len(bob.machine.backlog) <= 4
    world.run_until_drained(60.0)
    assert world.payloads("bob") == numbers(1, 100)
    assert ear.count(Resent, "r1", "bob") > 0


def test_more_publishers_than_a_repository_remembers_are_refused():
    world = world_of(1, config=RepositoryConfig("*", chains_max=1))
    alice, carol = world.publisher("alice"), world.publisher("carol")
    publish(world, alice, 1, 1, 1.0)
    publish(world, carol, 2, 2, 2.0)
    world.run_until_drained(20.0)
    assert stored(world, "r1") == [b"1"]
    assert world.history.rejections == [("carol", 1, 1, False)]


def test_a_message_without_an_order_stays_in_the_buffer_only_as_long_as_there_is_room():
    world = world_of(1, config=RepositoryConfig("*", buffer_bytes_max=300))
    Ear(world).lose = lambda who, _, event: who == "alice" and event is not None and world.kernel.now > 1.0
    alice = world.publisher("alice", PublisherConfig("alice", "orders", steering=STEERING))
    publish(world, alice, 1, 50, 1.5)
    world.run(2.5)
    pieces = stream_state(world, "r1").pieces
    assert pieces.bytes <= 300
    assert pieces.dropped > 0


def test_what_is_stored_is_read_part_by_part_each_asked_for_once_and_without_waiting():
    world = world_of(1, config=RepositoryConfig("*", read_bytes_max=4))
    ear = Ear(world)
    alice = world.publisher("alice", PublisherConfig("alice", "orders", batch_count_max=1, steering=STEERING))
    publish(world, alice, 1, 60, 1.0)
    world.run(3.0)
    world.subscriber("bob", subscriber("bob", fetching_s=1.0))
    world.run(4.0)
    # Sixty parts within a second, though an answer that does not come is waited for that long.
    assert world.payloads("bob") == numbers(1, 60)
    assert 15 <= ear.count(Resent, receiver="bob") <= 60
    assert ear.count(SubscriberNak, "bob") + ear.count(Recovery, "bob") <= 62
