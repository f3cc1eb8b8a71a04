"""Whoever comes back goes on where it was, at whichever repository: they tell each other how far subscribers are."""

from holdfast.protocols.narada import RepositoryConfig
from holdfast.protocols.narada.consumed_position import NOTHING, merged_position, position_for_siblings
from holdfast.protocols.narada.events import Gossip, SubscriberAck, Tidings, catenation, encode
from holdfast.protocols.narada.participant import Say
from holdfast.protocols.narada.topics import inbox_topic
from holdfast.protocols.trackers import RangeTracker
from holdfast.simulation.reliable.agreeing import behind
from holdfast.simulation.reliable.world import ReliableWorld
from tests.support.reliable import Ear, numbers, publish, stream_state, subscriber, world_of
from tests.support.shelves import LIFE, STREAM, Shelf


def sync(world: ReliableWorld, repository: str, name: str) -> int:
    known = world.repositories[repository].machine.streams[world.stream].dissemination.subscriptions
    return known[name].sync if name in known else -1


def disagreements(world: ReliableWorld) -> list[str]:
    up = [host for host in world.repositories.values() if host.up]
    return list(behind(up, world.stream, world.history.given_up))


def test_one_that_was_away_is_told_how_far_a_reader_came_meanwhile():
    world = world_of(2)
    alice, _ = world.publisher("alice"), world.subscriber("bob", subscriber("bob"))
    publish(world, alice, 1, 3, 1.0)
    world.at(2.0, world.crash("r1"))
    publish(world, alice, 4, 6, 3.0)
    # The reader is gone before the other repository is back, so nobody acknowledges anything to it.
    world.at(5.0, world.crash("bob"))
    world.at(6.0, world.recover("r1"))
    world.at(9.0, world.crash("r2"))
    world.at(9.5, world.recover("bob"))
    world.run(8.9)
    assert (sync(world, "r1", "bob"), disagreements(world)) == (6, [])
    publish(world, alice, 7, 8, 11.0)
    world.at(14.0, world.recover("r2"))
    world.run_until_drained(30.0)
    assert world.payloads("bob") == numbers(1, 8)
    assert world.check().ok


def test_a_repository_that_is_added_is_told_even_if_the_reader_is_away_and_tidings_get_lost():
    world = world_of(2)
    ear = Ear(world)
    lost: list[float] = []

    def lose(_: str, whom: str, event: object) -> bool:
        if isinstance(event, Tidings) and whom == "r3" and world.kernel.now < 8.0:
            lost.append(world.kernel.now)
            return True
        return isinstance(event, SubscriberAck | Gossip) and whom == "r3" and bool(getattr(event, "syncs", event))

    ear.lose = lose
    alice, _ = world.publisher("alice"), world.subscriber("bob", subscriber("bob"))
    publish(world, alice, 1, 5, 1.0)
    world.at(3.0, world.crash("bob"))
    world.at(4.0, lambda: world.repository("r3", RepositoryConfig("r3")))
    world.run(7.9)
    assert lost
    assert sync(world, "r3", "bob") <= 0
    world.run(14.0)
    assert sync(world, "r3", "bob") == 5
    world.at(15.0, world.crash("r1", "r2"))
    world.at(16.0, world.recover("bob"))
    world.run(19.0)
    assert world.payloads("bob") == numbers(1, 5)


def test_one_that_leaves_tells_the_others_before_it_goes():
    world = world_of(2)
    alice, _ = world.publisher("alice"), world.subscriber("bob", subscriber("bob"))
    publish(world, alice, 1, 3, 1.0)
    world.at(1.9, world.part(["r2"], ["bob"]))
    publish(world, alice, 4, 6, 2.0)
    world.at(3.0, world.crash("bob"))
    world.at(3.0, world.bus.heal)
    world.at(3.1, world.leave("r1"))
    world.run(5.0)
    assert world.repositories["r1"].machine.streams[world.stream].stream_state.phase == "left"
    assert sync(world, "r2", "bob") == 6


def test_what_is_told_of_a_reader_that_began_anew_is_believed_of_whom_it_is_steered_by_alone():
    world = world_of(2)
    alice, _ = world.publisher("alice"), world.subscriber("bob", subscriber("bob"))
    publish(world, alice, 1, 4, 1.0)
    world.run(3.0)
    streams = {name: host.machine.streams[world.stream] for name, host in world.repositories.items()}
    one = streams["r2"].dissemination.subscriptions["bob"]
    one.anew, one.steering = True, "r2"
    one.acked, one.consumed = type(one.acked)(ranges_max=16), NOTHING
    cut = tuple((chain.publisher, chain.cat(4)) for chain in streams["r1"].stream_state.chains.values())
    streams["r2"].position_reports.on_tidings(Tidings(world.stream, "r1", cut, (), (("bob", one.since_ns),)))
    assert one.sync == 0
    one.anew = False
    streams["r2"].position_reports.on_tidings(Tidings(world.stream, "r1", cut, (), (("bob", one.since_ns),)))
    assert one.sync == 4


def test_what_is_not_here_is_told_as_lacking():
    world = world_of(1)
    alice, _ = world.publisher("alice"), world.subscriber("bob", subscriber("bob"))
    publish(world, alice, 1, 4, 1.0)
    world.run(3.0)
    kept = stream_state(world, "r1")
    [chain] = kept.chains.values()
    # As at one that leaves: what it missed has no place any more, and is not stored.
    chain.stored = RangeTracker(ranges_max=8, start=2)
    chain.stored.add(4, 4)
    third = (chain.publisher, chain.cat(3), chain.cat(3))
    assert position_for_siblings(kept, kept.end) == (((chain.publisher, chain.cat(4)),), (third,))


def test_two_accounts_of_one_reader_come_to_what_either_knows():
    a, b = catenation(1, 10), catenation(1, 6)
    lacking = ("p", catenation(1, 3), catenation(1, 8))
    assert merged_position(NOTHING, ((("p", a),), ())) == ((("p", a),), ())
    assert merged_position(((("p", a),), (lacking,)), NOTHING) == ((("p", a),), (lacking,))
    # The other one reaches to 6, and lacks 5: so of 3 to 8 these are left.
    left = (("p", catenation(1, 5), catenation(1, 5)), ("p", catenation(1, 7), catenation(1, 8)))
    for one, other in (((a, (lacking,)), (b, (left[0],))), ((b, (left[0],)), (a, (lacking,)))):
        assert merged_position(((("p", one[0]),), one[1]), ((("p", other[0]),), other[1])) == ((("p", a),), left)
    other_life = ("p", catenation(2, 4))
    assert merged_position(((("p", a),), ()), ((other_life,), ())) == ((("p", a), other_life), ())


def test_what_the_teller_lacks_itself_is_not_passed_over():
    world = world_of(1)
    alice, _ = world.publisher("alice"), world.subscriber("bob", subscriber("bob"))
    publish(world, alice, 1, 4, 1.0)
    world.run(3.0)
    managed = world.repositories["r1"].machine.streams[world.stream]
    one = managed.dissemination.subscriptions["bob"]
    one.acked, one.consumed = type(one.acked)(ranges_max=16), NOTHING
    [chain] = managed.stream_state.chains.values()
    lacks = ((chain.publisher, chain.cat(3), chain.cat(3)),)
    cut = ((chain.publisher, chain.cat(4)),)
    managed.position_reports.on_tidings(Tidings(world.stream, "r9", cut, lacks, (("bob", one.since_ns),)))
    assert one.sync == 2


def test_what_a_reader_acknowledges_after_a_restart_is_noted_by_what_it_says_itself():
    world = world_of(1)
    alice, bob = world.publisher("alice"), world.subscriber("bob", subscriber("bob"))
    world.at(0.9, bob.crash)
    publish(world, alice, 1, 10, 1.0)
    world.at(2.0, world.crash("r1"))
    world.at(2.1, world.recover("r1"))
    world.run(3.0)
    assert stream_state(world, "r1").table_from == 11
    cut = (("alice", catenation(1, 5)),)
    ack = SubscriberAck("orders", "bob", "r1", stream_state(world, "r1").era, ((1, 5),), cut)
    world.medium.publish("bob", Say(inbox_topic("orders", "r1"), encode(ack)), 1000)
    world.run(3.5)
    known = world.repositories["r1"].machine.streams["orders"].dissemination.subscriptions["bob"]
    assert (known.sync, known.consumed) == (5, (cut, ()))


def test_what_was_given_up_and_came_late_does_not_hide_what_was_had_behind_it():
    shelf = Shelf("r1")
    shelf.keep(1, numbers(1, 3))
    shelf.keep(6, numbers(6, 7))
    assert shelf.machine.give_up(STREAM, "alice")[0] == 2
    shelf.commit()
    shelf.keep(5, numbers(5, 5))
    cut, lacks = position_for_siblings(shelf.stream_state, 7)
    assert cut == (("alice", catenation(LIFE, 7)),)
    assert lacks == tuple(("alice", catenation(LIFE, number), catenation(LIFE, number)) for number in (4, 5))
    assert position_for_siblings(shelf.stream_state, 8)[1] == (("alice", catenation(LIFE, 4), catenation(LIFE, 4)),)
