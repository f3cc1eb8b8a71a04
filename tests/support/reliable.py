"""What tests of reliable topics share: worlds on a bus that loses what the test says, and an ear for what is said."""

from collections.abc import Callable
from functools import partial

from holdfast.model.batches import Batch
from holdfast.protocols.narada import RepositoryConfig, SteeringConfig, SubscriberConfig
from holdfast.protocols.narada.events import ROOT, ControlEvent, decode
from holdfast.protocols.narada.keeping import Keeping
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


def keeping(world: ReliableWorld, name: str) -> Keeping:
    return world.repositories[name].machine.streams[world.stream].keeping


def subscriber(name: str, **settings: object) -> SubscriberConfig:
    return SubscriberConfig(name, "orders", steering=STEERING, **settings)  # type: ignore[arg-type]


def stored(world: ReliableWorld, name: str) -> list[bytes]:
    """The payloads in a repository's store, in the order of its sequence numbers."""
    entries = world.repositories[name].store.read(world.stream, 1, 1 << 60, 1 << 60)
    return [payload for entry in entries for payload in entry.batch.payload_list()]


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
