"""What tests of reliable topics share: worlds on a bus that loses what the test says, and an ear for what is said."""

from collections.abc import Callable
from functools import partial

from holdfast.model.batches import Batch
from holdfast.model.reliable import Level
from holdfast.protocols.narada import Repository, RepositoryConfig, SteeringConfig, SubscriberConfig
from holdfast.protocols.narada.events import ControlEvent, decode
from holdfast.protocols.narada.stream_state import RepositoryStream
from holdfast.protocols.narada.topics import ROOT
from holdfast.simulation.reliable import ReliableWorld
from holdfast.simulation.reliable.hosts import PublisherHost

STEERING = SteeringConfig(probe_s=0.1, grace_s=0.01, failover_s=0.5)
Wanted = Callable[[str, str, ControlEvent | None], bool]


class Ear:
    """Hears everything, and loses what it is told to lose: `event` is `None` for a message of an application."""

    def __init__(self, world: ReliableWorld) -> None:
        self.said: list[tuple[str, str, ControlEvent | None]] = []
        self.lose: Wanted = lambda *_: False
        world.bus.loses = self._loses

    def _loses(self, sender: str, receiver: str, batch: Batch) -> bool:
        event = decode(batch.payloads) if batch.topic.startswith(ROOT) else None
        self.said.append((sender, receiver, event))
        return self.lose(sender, receiver, event)

    def count(self, kind: type[ControlEvent], sender: str = "", receiver: str = "") -> int:
        """How often somebody said such a thing to somebody."""
        return sum(
            isinstance(event, kind) and sender in ("", who) and receiver in ("", whom) for who, whom, event in self.said
        )


def world_of(repositories: int = 1, seed: int = 1, config: RepositoryConfig | None = None) -> ReliableWorld:
    """A world with that many repositories, which serve from 0.5 s on."""
    world = ReliableWorld(seed)
    for number in range(1, repositories + 1):
        world.repository(f"r{number}", config)
    world.run(0.5)
    return world


def publish(world: ReliableWorld, host: PublisherHost, first: int, last: int, at_s: float, gap_s: float = 0.01) -> None:
    """Publish the numbers first..last as payloads, one after the other."""
    for number in range(first, last + 1):
        world.at(at_s + (number - first) * gap_s, partial(host.publish, "orders", b"%d" % number))


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last + 1)]


def stream_state(world: ReliableWorld, name: str) -> RepositoryStream:
    return world.repositories[name].machine.streams[world.stream].stream_state


def subscriber(name: str, **settings: object) -> SubscriberConfig:
    return SubscriberConfig(name, "orders", steering=STEERING, **settings)  # type: ignore[arg-type]


def stored(world: ReliableWorld, name: str) -> list[bytes]:
    """The payloads in a repository's store, in the order of its sequence numbers."""
    entries = world.repositories[name].store.read(world.stream, 1, 1 << 60, 1 << 60)
    return [payload for entry in entries for payload in entry.batch.payload_list()]


def a_subscription_that_began_while_another_was_away() -> Repository:
    """Bob subscribes, and is away again, before the second repository comes back and gets what he has not read."""
    world = world_of(2)
    world.crash("r2")()
    alice, bob = world.publisher("alice"), world.subscriber("bob", subscriber("bob"))
    world.run(2.0)
    bob.crash()
    publish(world, alice, 1, 10, 2.5)
    world.run(4.0)
    world.recover("r2")()
    world.run(8.0)
    assert stored(world, "r2") == numbers(1, 10)
    return world.repositories["r2"].machine


def an_earlier_life_that_was_missed() -> ReliableWorld:
    """The second repository hears of alice when she has begun anew, and only later of what she published before."""
    world = world_of(2)
    ear = Ear(world)
    ear.lose = lambda who, whom, _: (
        whom == "r2" and (world.kernel.now < 2.9 if who == "alice" else world.kernel.now < 4)
    )
    alice = world.publisher("alice")
    publish(world, alice, 1, 3, 1.0)
    world.at(2.0, alice.crash)
    world.at(2.1, alice.start)
    publish(world, alice, 4, 6, 3.0)
    world.run_until_drained(20.0)
    return world


def numbers_that_were_told_and_lost() -> ReliableWorld:
    """A repository that does not wait for its disk tells another one of a number, loses it, and takes what is new.

    Bob is away when alice publishes 4, and is steered by the first repository until that goes down once more. What he
    acknowledges there in the meantime the second one, which hears him, translates by what it was told before.
    """
    world = world_of(2, config=RepositoryConfig("*", level=Level.MEMORY))
    first, unsynced = world.repositories["r1"], list[int]()
    ear = Ear(world)

    def lose(who: str, whom: str, _: ControlEvent | None) -> bool:
        now = world.kernel.now
        if whom == "bob":
            return (who == "r2" and now < 5.0) or 1.5 < now < 1.8
        return {who, whom} == {"r1", "r2"} and 1.75 < now < 8.0

    ear.lose = lose
    alice, carol = world.publisher("alice"), world.publisher("carol", start=False)
    world.subscriber("bob", subscriber("bob"))
    publish(world, alice, 1, 3, 1.0)
    world.at(1.55, lambda: unsynced.append(first.store.unsynced))
    publish(world, alice, 4, 4, 1.6)
    world.at(1.78, alice.crash)
    world.at(1.8, lambda: first.store.crash(unsynced[0]))
    world.at(1.8, first.crash)
    world.at(1.9, first.start)
    world.at(3.0, carol.start)
    publish(world, carol, 5, 5, 3.2)
    world.at(4.5, first.crash)
    world.at(8.0, first.start)
    world.run_until_drained(30.0)
    return world
