"""What is damaged in a repository's store comes back from a sibling, in its place."""

from collections.abc import Sequence

from holdfast.protocols.narada import RepositoryConfig
from holdfast.protocols.narada.events import Refetch, number_of
from holdfast.simulation.reliable import ReliableWorld
from holdfast.simulation.reliable.harm import HarmedStore
from holdfast.simulation.reliable.repository_hosts import RepositoryHost
from holdfast.storage.stores import MemoryStore
from tests.support.reliable import Ear, numbers, publish, stored, stream_state, subscriber, world_of


def harmed_world(harmed: Sequence[int], named: bool = True) -> tuple[ReliableWorld, RepositoryHost]:
    """Two repositories with ten messages; at three seconds the second is gone, and so are some bits of the first."""
    world = world_of(2)
    alice = world.publisher("alice")
    publish(world, alice, 1, 10, 1.0)
    world.run(3.0)
    world.crash("r2")()
    first = world.repositories["r1"]
    first.store = HarmedStore(first.store, "orders", harmed, named)
    return world, first


def test_a_reader_waits_in_front_of_damage_until_a_sibling_is_there_to_mend_it():
    world, first = harmed_world([3, 7])
    world.subscriber("bob", subscriber("bob"))
    world.run(6.0)
    assert world.payloads("bob") == numbers(1, 2)
    assert first.machine.streams["orders"].damage.messages == 2
    assert "2 damaged messages of orders to be mended by a sibling" in first.machine.waiting_for()
    world.recover("r2")()
    world.run_until_drained(40.0)
    assert world.payloads("bob") == numbers(1, 10)
    assert stored(world, "r1") == numbers(1, 10)
    assert first.machine.streams["orders"].damage.mended == 2
    assert [report.event for _, report in first.reports if report.event in ("damaged", "mended")] == [
        "damaged",
        "mended",
    ]


def test_what_nobody_can_tell_whose_it_was_is_not_asked_for_and_stays_told():
    world, first = harmed_world([3], named=False)
    ear = Ear(world)
    world.subscriber("bob", subscriber("bob"))
    world.recover("r2")()
    world.run(12.0)
    assert ear.count(Refetch) == 0
    status = first.machine.status()["orders"]
    assert isinstance(status, dict)
    assert (status["damaged"], status["nameless"], status["mended"]) == (1, 1, 0)


def test_who_has_lost_what_it_told_begins_another_era_when_a_sibling_says_so():
    world = world_of(2)
    alice = world.publisher("alice")
    publish(world, alice, 1, 5, 1.0)
    world.run(2.0)
    first = world.repositories["r1"]
    backup = dict(first.store.items()), first.store.read("orders", 1, 99, 1 << 60)
    era = stream_state(world, "r1").era
    publish(world, alice, 6, 10, 2.5)
    world.run(4.0)
    world.crash("r1")()
    # Somebody puts an old copy of its store in the place of the real one.
    first.store = MemoryStore()
    first.store.append("orders", backup[1])
    for key, value in backup[0].items():
        first.store.put(key, value)
    first.store.commit(first.config.level)
    world.recover("r1")()
    world.run_until_drained(30.0)
    assert stream_state(world, "r1").era > era
    assert stored(world, "r1") == numbers(1, 10)
    publish(world, alice, 11, 12, world.kernel.now + 0.5)
    world.subscriber("bob", subscriber("bob"))
    world.run_until_drained(60.0)
    assert world.payloads("bob") == numbers(1, 12)


def alone_and_harmed(harmed: Sequence[int], named: bool = True) -> ReliableWorld:
    """One repository that has never had a sibling, ten messages, and some bits of them that flipped."""
    world = world_of(1)
    alice = world.publisher("alice")
    publish(world, alice, 1, 10, 1.0)
    world.run(3.0)
    first = world.repositories["r1"]
    first.store = HarmedStore(first.store, "orders", harmed, named)
    return world


def test_a_reader_gets_a_gap_where_something_is_damaged_that_no_other_repository_can_have():
    world = alone_and_harmed([3, 7, 8])
    bob = world.subscriber("bob", subscriber("bob"))
    world.run_until_drained(20.0)
    assert world.payloads("bob") == [b"1", b"2", b"4", b"5", b"6", b"9", b"10"]
    assert [(at, number_of(gap.first), number_of(gap.last), gap.damaged) for at, gap in bob.gaps] == [
        (2, 3, 3, True),
        (5, 7, 7, True),
        (5, 8, 8, True),
    ]
    first = world.repositories["r1"]
    assert [report.detail for _, report in first.reports if report.event == "lost"] == [
        "3 damaged messages: readers get a gap"
    ]
    # It was told once, and whoever comes back goes on behind it.
    world.crash("bob")()
    world.recover("bob")()
    publish(world, world.publishers["alice"], 11, 12, world.kernel.now + 0.5)
    world.run_until_drained(40.0)
    assert world.payloads("bob")[7:] == numbers(11, 12)
    assert len(bob.gaps) == 3


def test_a_reader_gets_a_gap_also_where_nobody_can_tell_whose_messages_are_damaged():
    world = alone_and_harmed([5], named=False)
    bob = world.subscriber("bob", subscriber("bob"))
    world.run_until_drained(20.0)
    assert world.payloads("bob") == [*numbers(1, 4), *numbers(6, 10)]
    [(at, gap)] = bob.gaps
    assert (at, gap.publisher, gap.first, gap.last, gap.damaged) == (4, "", 5, 5, True)


def test_a_reader_that_has_waited_long_enough_for_a_sibling_gets_a_gap():
    world = world_of(2, config=RepositoryConfig("*", mend_s=5.0))
    alice = world.publisher("alice")
    publish(world, alice, 1, 10, 1.0)
    world.run(3.0)
    world.crash("r2")()
    first = world.repositories["r1"]
    first.store = HarmedStore(first.store, "orders", [3])
    bob = world.subscriber("bob", subscriber("bob"))
    world.run(7.0)
    assert (world.payloads("bob"), bob.gaps) == (numbers(1, 2), [])
    world.run(12.0)
    assert world.payloads("bob") == [*numbers(1, 2), *numbers(4, 10)]
    assert [(at, number_of(gap.first)) for at, gap in bob.gaps] == [(2, 3)]
    # The sibling comes back: it is mended all the same, for those who read it from then on.
    world.recover("r2")()
    world.run_until_drained(40.0)
    assert stored(world, "r1") == numbers(1, 10)
    carol = world.subscriber("carol", subscriber("carol"))
    world.run_until_drained(60.0)
    assert (world.payloads("carol"), carol.gaps) == (numbers(1, 10), [])


def test_a_repository_that_joins_one_with_lost_messages_does_not_wait_for_them():
    world = alone_and_harmed([3])
    world.subscriber("bob", subscriber("bob"))
    world.run(6.0)
    world.repository("r2")
    world.run(10.0)
    world.crash("r1")()
    carol = world.subscriber("carol", subscriber("carol"))
    world.run(20.0)
    assert stored(world, "r2") == [*numbers(1, 2), *numbers(4, 10)]
    assert world.payloads("carol") == [*numbers(1, 2), *numbers(4, 10)]
    assert [(at, number_of(gap.first)) for at, gap in carol.gaps] == [(2, 3)]


def test_readers_at_a_sibling_get_a_gap_for_the_last_messages_of_a_publisher_that_are_damaged_where_they_were():
    """Nothing follows them, so the sibling, which never had them, would not know that something is missing."""
    world = world_of(2, config=RepositoryConfig("*", mend_s=1.0))
    alice = world.publisher("alice")
    publish(world, alice, 1, 3, 1.0)
    world.run(2.0)
    world.crash("r2")()
    publish(world, alice, 4, 5, 2.5)
    world.run(4.0)
    first = world.repositories["r1"]
    first.store = HarmedStore(first.store, "orders", [4, 5])
    first.look_after("orders")
    # It has forgotten by heart what lay there.
    first.crash()
    first.start()
    first.look_after("orders")
    world.crash("alice")()
    world.recover("r2")()
    world.run(12.0)
    world.crash("r1")()
    bob = world.subscriber("bob", subscriber("bob"))
    world.run(16.0)
    assert world.payloads("bob") == numbers(1, 3)
    assert [(at, number_of(gap.first), number_of(gap.last)) for at, gap in bob.gaps] == [(3, 4, 5)]
