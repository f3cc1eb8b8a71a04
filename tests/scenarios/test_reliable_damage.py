"""What is damaged in a repository's store comes back from a sibling, in its place."""

from collections.abc import Sequence

from holdfast.protocols.narada.events import Refetch
from holdfast.simulation.reliable import ReliableWorld
from holdfast.simulation.reliable.harm import HarmedStore
from holdfast.simulation.reliable.repository_hosts import RepositoryHost
from holdfast.storage.stores import MemoryStore
from tests.support.reliable import Ear, keeping, numbers, publish, stored, subscriber, world_of


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
    assert first.machine.streams["orders"].mending.messages == 2
    assert "2 damaged messages of orders to be mended by a sibling" in first.machine.waiting_for()
    world.recover("r2")()
    world.run_until_drained(40.0)
    assert world.payloads("bob") == numbers(1, 10)
    assert stored(world, "r1") == numbers(1, 10)
    assert first.machine.streams["orders"].mending.mended == 2
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
    era = keeping(world, "r1").era
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
    assert keeping(world, "r1").era > era
    assert stored(world, "r1") == numbers(1, 10)
    publish(world, alice, 11, 12, world.kernel.now + 0.5)
    world.subscriber("bob", subscriber("bob"))
    world.run_until_drained(60.0)
    assert world.payloads("bob") == numbers(1, 12)
