"""A slow application acknowledges what it has taken, also of what it got from a repository that is gone since."""

from tests.support.reliable import numbers, publish, subscriber, world_of


def test_a_slow_reader_that_dies_after_its_repository_did_goes_on_where_it_was():
    world = world_of(2)
    alice = world.publisher("alice")
    bob = world.subscriber("bob", subscriber("bob"), consume_s=0.1)
    publish(world, alice, 1, 50, 1.0, gap_s=0.002)
    world.run(1.5)
    assert world.payloads("bob") == numbers(1, 50)
    steering = bob.machine.status()["steering"]
    world.crash(str(steering))()
    # Everything was released by the repository that is gone; about half of it is taken when bob dies, too.
    world.run(4.0)
    world.crash("bob")()
    world.run(4.5)
    world.recover("bob")()
    world.run(10.0)
    again = int(world.payloads("bob")[50])
    assert again > 20, f"bob had taken about 25 messages, and begins at {again} again"
    assert world.payloads("bob")[50:] == numbers(again, 50)
