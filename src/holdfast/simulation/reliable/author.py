"""Who makes up random runs of reliable topics: a bundle, its clients, what they publish, and what befalls them."""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, ClassVar, Literal, get_args

from msgspec.structs import replace

from holdfast.model.reliable import Level, Retention
from holdfast.protocols.narada import (
    PublisherConfig,
    Registration,
    RepositoryConfig,
    SteeringConfig,
    SubscriberConfig,
)
from holdfast.simulation.kernel import stream
from holdfast.simulation.reliable.bus import BusConfig
from holdfast.simulation.reliable.manual_hosts import Habits
from holdfast.simulation.reliable.world import ReliableWorld

ReliableClass = Literal[
    "lossy",
    "publisher",
    "subscriber",
    "repository",
    "all-but-one",
    "everybody",
    "disk",
    "flips",
    "ruin",
    "damage",
    "retention",
    "partition",
    "join",
    "leave",
    "given-up",
    "positions",
    "forget",
    "away",
    "acks",
    "registration",
    "levels",
    "bounds",
    "storm",
    "mixed",
]
RELIABLE_CLASSES: tuple[ReliableClass, ...] = get_args(ReliableClass)

MIXED: tuple[ReliableClass, ...] = (
    *("publisher", "subscriber", "repository", "all-but-one", "partition"),
    *("join", "leave", "retention", "given-up", "positions", "forget", "away", "bounds"),
)
"""What is mixed with one or two others of these."""

BESIDE_ACKS: tuple[ReliableClass, ...] = (
    *("publisher", "all-but-one", "ruin", "flips", "retention", "retention"),
    *("join", "leave", "given-up", "bounds"),
)
"""What befalls those who acknowledge each message beside that."""

SEVERAL: tuple[ReliableClass, ...] = ("all-but-one", "disk", "damage", "flips", "partition", "leave", "join", "away")
"""What takes more than one repository."""

BUNDLE_MAX = 5
BEGIN_S = 1.0
SPANS_S = (0.2, 1.0, 3.0)
TOPICS = ("bank/a", "bank/b", "bank/b/c")
STREAM = "bank/#"
PATTERNS = ("", "", "", "bank/b/#", "bank/+")
STEERING = SteeringConfig(probe_s=0.2, probe_max_s=1.0, grace_s=0.01, failover_s=0.6)

WorldFactory = Callable[..., ReliableWorld]

COMMIT_BYTES, TINY_COMMIT_BYTES = 2 << 20, 200
"""What a commit holds, and what so little that most messages wait for a later one."""


def _mixed(chance: Random) -> tuple[ReliableClass, ...]:
    """Two or three kinds of failures at once."""
    parts = chance.sample(MIXED, chance.choice((2, 2, 3)))
    # Whoever begins behind what was given up is told of no gap, and gets what comes late out of order. At a repository
    # that does not know where it began it gets what lies before that, too. And where one that was ended begins again,
    # the judges do not know.
    left_out = {"given-up": {"positions"}, "away": {"positions"}, "forget": {"positions", "retention", "away"}}
    return tuple(one for one in parts if not left_out.get(one, set()).intersection(parts))


def _parts(chance: Random, failure: ReliableClass) -> tuple[ReliableClass, ...]:
    if failure == "mixed":
        return _mixed(chance)
    # Half of those who acknowledge each message have other troubles beside.
    return (failure, chance.choice(BESIDE_ACKS)) if failure == "acks" and chance.random() < 0.5 else (failure,)


class Author:
    """Makes up one run."""

    def __init__(self, seed: int, failure: ReliableClass, check_invariants: bool, make: WorldFactory) -> None:
        self.chance = chance = stream(seed, f"reliable {failure}")
        self.parts = _parts(chance, failure)
        self.span_s = chance.choice(SPANS_S)
        self.world = make(seed, STREAM, self._bus(chance), check_invariants)
        least = 2 if self._is_any(*SEVERAL) else 1
        self.repositories = [f"r{number}" for number in range(1, chance.randint(least, BUNDLE_MAX) + 1)]
        self.publishers = [f"p{number}" for number in range(1, chance.randint(1, 3) + 1)]
        self.subscribers = [f"s{number}" for number in range(1, chance.randint(1, 3) + 1)]
        self.end_s = BEGIN_S + self.span_s + 4.0
        self.keep_unread = self._is_any("retention") and chance.random() < 0.7
        self.away: set[str] = set()
        """Subscribers that do not come back."""
        self.joined, self.leaves = 0, False

    def _is_any(self, *classes: ReliableClass) -> bool:
        return any(one in self.parts for one in classes)

    def _bus(self, chance: Random) -> BusConfig:
        lost = chance.choice((0.0, 0.02, 0.1, 0.25))
        return BusConfig(
            lost=lost,
            repeated=chance.choice((0.0, 0.05, 0.2)),
            split=chance.choice((0.0, 0.3)),
            latency_s=chance.choice((0.0005, 0.003, 0.01)),
            jitter_s=chance.choice((0.0, 0.01, 0.05)),
            straggling=chance.choice((0.0, 0.0, 0.03)),
        )

    # ------------------------------------------------------------------------------------------------------- the cast

    def write(self) -> None:
        config = self._repository_config()
        for name in self.repositories:
            self.world.repository(name, config, retention=self._retention_of())
        for name in self.publishers:
            self.world.publisher(name, self._publisher_config(name, self._copies()))
        for name in self.subscribers:
            self._cast_subscriber(name)
        for name in self.publishers:
            self._publications(name)
        for one in self.parts:
            self.classes[one](self)
        self.world.at(self.end_s, self.world.bus.heal)
        back = [name for name in self.subscribers if name not in self.away]
        self.world.at(self.end_s, self.world.recover(*self.repositories, *self.publishers, *back))

    def _cast_subscriber(self, name: str) -> None:
        chance, config = self.chance, self._subscriber_config(name)
        if not self._is_any("acks"):
            self.world.subscriber(name, config, consume_s=chance.choice((0.0, 0.0, 0.002)))
            return
        unacked_max, by_key = chance.choice((1, 3, 20, 1000)), chance.random() < 0.3
        config = replace(config, remember=False, unacked_max=unacked_max, by_key=by_key)
        nacked, cumulative = chance.choice((0.0, 0.1, 0.4)), chance.choice((0.0, 0.2))
        habits = Habits(chance.choice((0.0, 0.01, 0.3)), nacked, cumulative)
        self.world.manual_subscriber(name, config, habits=habits)

    def _copies(self) -> int:
        if self._is_any("disk", "damage"):
            return 2
        if self.parts == ("join",):
            return self.chance.choice((1, 2, 3))  # With those that come there are as many.
        return self.chance.choice((1, 1, 2)) if len(self.repositories) > 1 and not self._is_any("leave", "away") else 1

    def _repository_config(self) -> RepositoryConfig:
        chance, level = self.chance, Level.FSYNCED
        if self._is_any("levels"):
            level = chance.choice((Level.MEMORY, Level.WRITTEN))
        if not self._is_any("bounds"):
            commit_bytes_max = TINY_COMMIT_BYTES if self._is_any("lossy", "storm") else COMMIT_BYTES
            mend_s = chance.choice((0.2, 2.0)) if self._is_any("ruin") else 30.0
            return RepositoryConfig("*", level=level, beat_s=0.5, commit_bytes_max=commit_bytes_max, mend_s=mend_s)
        return RepositoryConfig(
            "*",
            level=level,
            beat_s=0.5,
            commit_bytes_max=TINY_COMMIT_BYTES,
            buffer_bytes_max=chance.choice((100, 1000, 10_000)),
            orders_max=chance.choice((1, 4, 64)),
            places_max=chance.choice((1, 3, 16)),
            # Two whose orders differ by more rows than they remember may wait for each other; with others that is seen.
            table_rows_max=chance.choice((2, 8, 64) if self.parts == ("bounds",) else (8, 64)),
            pending_max=chance.choice((1, 4)),
            read_bytes_max=chance.choice((1, 100, 1000)),
            reads_max=chance.choice((1, 2, 8)),
        )

    def _publisher_config(self, name: str, copies: int) -> PublisherConfig:
        chance = self.chance
        tight = self._is_any("bounds")
        return PublisherConfig(
            name,
            STREAM,
            copies,
            buffer_count_max=chance.choice((2, 5, 20)) if tight else 1000,
            batch_count_max=chance.choice((1, 3, 100)),
            resend_s=chance.choice((0.1, 0.3)),
            resend_max_s=0.5,
            resend_runs_max=2 if tight else 64,
            steering=STEERING,
        )

    def _subscriber_config(self, name: str) -> SubscriberConfig:
        chance = self.chance
        tight = self._is_any("bounds")
        return SubscriberConfig(
            name,
            STREAM,
            chance.choice(PATTERNS),
            **self._start(),
            remember=chance.random() < 0.6,
            buffer_bytes_max=chance.choice((100, 1000)) if tight else 8 << 20,
            rows_max=chance.choice((1, 3, 16)) if tight else 4096,
            unconsumed_bytes_max=chance.choice((1, 200)) if tight else 4 << 20,
            beat_s=0.4,
            steering=STEERING,
        )

    def _start(self) -> dict[str, Any]:
        """Where a subscription begins."""
        if not self._is_any("positions"):
            return {}
        chance = self.chance
        start = chance.choice(("start", "live", "seq", "time"))
        value = {"seq": chance.randint(0, 30), "time": int(self._moment() * 1e9)}.get(start, 0)
        return {"start": start, "value": value, "anew": chance.random() < 0.2}

    def _publications(self, name: str) -> None:
        chance, world = self.chance, self.world
        for number in range(chance.randint(3, 25)):
            time_s = self._moment()
            burst = chance.choice((1, 1, 2, 5))
            topic = chance.choice(TOPICS)

            def publish(number: int = number, burst: int = burst, topic: str = topic) -> None:
                for index in range(burst):
                    world.publishers[name].publish(topic, f"{name} {number}.{index} at {world.kernel.now:.6f}".encode())

            world.at(time_s, publish)

    def _moment(self) -> float:
        return BEGIN_S + self.chance.random() * self.span_s

    # --------------------------------------------------------------------------------------------------------- classes

    def _lossy(self) -> None:
        pass

    def _down(self, name: str, returns: bool = True) -> None:
        """Somebody crashes, and comes back sooner or later."""
        begin_s = self._moment()
        self.world.at(begin_s, self.world.crash(name))
        if returns:
            later_s = self.chance.choice((0.01, 0.1, 0.5, 2.0)) * self.chance.uniform(0.5, 1.5)
            self.world.at(min(begin_s + later_s, self.end_s), self.world.recover(name))

    def _each(self, names: list[str]) -> None:
        for name in self.chance.sample(names, self.chance.randint(1, len(names))):
            for _ in range(self.chance.randint(1, 2)):
                self._down(name)

    def _publisher(self) -> None:
        self._each(self.publishers)

    def _subscriber(self) -> None:
        self._each(self.subscribers)

    def _repository(self) -> None:
        self._each(self.repositories)

    def _all_but_one(self) -> None:
        """Everybody but one goes down at once, another one may be next."""
        begin_s = self._moment()
        spared = self.chance.choice(self.repositories)
        for name in self.repositories:
            if name != spared:
                self.world.at(begin_s + self.chance.choice((0.0, 0.05)) * self.chance.random(), self.world.crash(name))
                self.world.at(begin_s + 0.5 + 2 * self.chance.random(), self.world.recover(name))
        if self.chance.random() < 0.5:
            begin_s += 3.0 * self.chance.random()
            self.world.at(begin_s, self.world.crash(spared))
            self.world.at(begin_s + 1.0, self.world.recover(spared))

    def _everybody(self) -> None:
        self._each([*self.repositories, *self.publishers, *self.subscribers])

    def _disk(self) -> None:
        """A repository comes back without its store, once or twice; whatever the others suffer, they keep theirs."""
        victim = self.chance.choice(self.repositories)
        for _ in range(self.chance.randint(1, 2)):
            begin_s = self._moment()
            self.world.at(begin_s, self.world.lose_disk(victim))
            self.world.at(begin_s + self.chance.choice((0.01, 0.3, 2.0)), self.world.recover(victim))
        if self.chance.random() < 0.5:
            self._each([name for name in (*self.repositories, *self.subscribers) if name != victim])

    def _flips(self) -> None:
        """Bits flip in the store of one repository, now and then, while it runs and while it is down."""
        victim = self.chance.choice(self.repositories)
        flip = partial(self._flip, victim, self.chance.choice((0.05, 0.3, 1.0)))
        for _ in range(self.chance.randint(1, 3)):
            self.world.at(self._moment() + self.chance.choice((0.0, 0.5, 2.0)), flip)
        if self.chance.random() < 0.6:
            self._each([*self.repositories, *self.subscribers])
        self.world.at(self.end_s + 1.0, partial(self._look_after, victim))

    def _flip(self, name: str, share: float, ruin: bool = False) -> None:
        self.world.repositories[name].flip_bits(STREAM, share, ruin)

    def _ruin(self) -> None:
        """Bits flip in one store or in several, whether or not another repository has what they were."""
        for name in self.chance.sample(self.repositories, self.chance.randint(1, len(self.repositories))):
            ruin = partial(self._flip, name, self.chance.choice((0.05, 0.3)), ruin=True)
            for _ in range(self.chance.randint(1, 2)):
                self.world.at(self._moment() + self.chance.choice((0.0, 0.5, 2.0)), ruin)
            self.world.at(self.end_s + 1.0, partial(self._look_after, name))
        self._each([*self.repositories, *self.subscribers])

    def _damage(self) -> None:
        """The store of one repository loses its youngest commits, or pairs, and says so when it is opened."""
        victim = self.world.repositories[self.chance.choice(self.repositories)]
        for _ in range(self.chance.randint(1, 2)):
            begin_s, share = self._moment(), self.chance.choice((0.01, 0.2, 0.6))
            lose = self.chance.choice((victim.lose_commits, victim.lose_pairs))
            self.world.at(begin_s, partial(lose, share))
            self.world.at(begin_s + self.chance.choice((0.01, 0.3, 2.0)), self.world.recover(victim.name))
        if self.chance.random() < 0.5:
            self._each([name for name in (*self.repositories, *self.subscribers) if name != victim.name])

    def _retention_of(self) -> Retention | None:
        """What a repository keeps."""
        if not self._is_any("retention"):
            return None
        chance = self.chance
        keep_s, keep_bytes = chance.choice((None, 0.3, 1.0, 3.0)), chance.choice((None, 100, 1000))
        if keep_s is None and keep_bytes is None:
            keep_s = 0.5
        return Retention(keep_s, keep_bytes, self.keep_unread)

    def _retention(self) -> None:
        """What is old or too much goes, while everybody comes and goes; some subscribe late."""
        for host in self.world.repositories.values():
            host.step_bytes = self.chance.choice((100, 1000, 4 << 20))
        for name in self.subscribers:
            if self.chance.random() < 0.3:
                self.world.at(0.0, self.world.crash(name))
                self.world.at(self._moment(), self.world.recover(name))
        if self.chance.random() < 0.7:
            self._each([*self.repositories, *self.subscribers, *self.publishers])
        if self.chance.random() < 0.2:
            self._join()

    def _look_after(self, name: str) -> None:
        self.world.repositories[name].look_after(STREAM)

    def _partition(self) -> None:
        names = [*self.repositories, *self.publishers, *self.subscribers]
        for _ in range(self.chance.randint(1, 2)):
            side = self.chance.sample(names, self.chance.randint(1, len(names) - 1))
            rest = [name for name in names if name not in side]
            begin_s = self._moment()
            self.world.at(begin_s, self.world.part(side, rest))
            self.world.at(min(begin_s + self.chance.choice((0.3, 1.0, 3.0)), self.end_s), self.world.bus.heal)
        if self.chance.random() < 0.3:
            self._each(names)

    def _join(self) -> None:
        for _ in range(self.chance.randint(1, 2)):
            config, retention = self._repository_config(), self._retention_of()
            join = partial(self.world.repository, f"new{self.joined}", config, retention=retention)
            self.joined += 1
            self.world.at(self._moment(), join)
        if self.chance.random() < 0.5:
            self._each(self.repositories)

    def _leave(self) -> None:
        """Some leave, never all: those that stay are the bundle."""
        leavers = self.chance.sample(self.repositories, self.chance.randint(1, len(self.repositories) - 1))
        if self.leaves:
            return
        self.leaves = True
        for name in leavers:
            begin_s = self._moment()
            self.world.at(begin_s, self.world.leave(name))
            if self.chance.random() < 0.3:
                # It dies on its way out, or comes back after it has left.
                begin_s += self.chance.choice((0.02, 0.3, 1.5))
                self.world.at(begin_s, self.world.crash(name))
                self.world.at(begin_s + self.chance.choice((0.01, 0.5)), self.world.recover(name))
        if self.chance.random() < 0.4:
            self._each([*self.publishers, *self.subscribers])

    def _given_up(self) -> None:
        """Somebody loses patience: what is missing is given up, at one repository, whoever may still send it."""
        self._each([*self.publishers, *self.repositories])
        for _ in range(self.chance.randint(1, 4)):
            self.world.at(self._moment(), self._give_up)

    def _give_up(self) -> None:
        up = [host for host in self.world.repositories.values() if host.up]
        if up:
            self.chance.choice(up).give_up(STREAM, self.chance.choice(self.publishers))

    def _positions(self) -> None:
        """Subscriptions begin anywhere, and later than others, and come back."""
        for name in self.subscribers:
            if self.chance.random() < 0.5:
                self.world.at(0.0, self.world.crash(name))
                self.world.at(self._moment(), self.world.recover(name))
        if self.chance.random() < 0.5:
            self._each([*self.repositories, *self.subscribers])

    def _forget(self) -> None:
        """Subscriptions are ended, mostly of those that are gone; some come back all the same, and begin anew."""
        for name in self.chance.sample(self.subscribers, self.chance.randint(1, len(self.subscribers))):
            begin_s = self._moment()
            self.world.at(begin_s, self.world.crash(name))
            if self.chance.random() < 0.5:
                self.world.at(begin_s + self.chance.choice((0.0, 0.1, 1.0)), self.world.forget(name))
                self.world.at(begin_s + self.chance.choice((0.05, 0.5, 2.0)), self.world.recover(name))
            else:
                # A word of its own that is long under way would begin the subscription anew.
                late_s = self.world.bus.config.jitter_s + self.world.bus.config.straggling_s
                self.world.at(begin_s + late_s + self.chance.random(), self.world.forget(name))
                self.away.add(name)
        if self.chance.random() < 0.6:
            self._each(self.repositories)

    def _away(self) -> None:
        """Readers are away for long while repositories come and go, and return when everything is at rest."""
        for name in self.chance.sample(self.subscribers, self.chance.randint(1, len(self.subscribers))):
            self.world.at(self._moment(), self.world.crash(name))
            self.away.add(name)
        self.chance.choice((self._repository, self._all_but_one, self._join, self._leave))()

    def _acks(self) -> None:
        """Applications acknowledge each message, give some back, and die; so do others."""
        self._each(self.subscribers)
        if self.chance.random() < 0.7:
            self._each([*self.repositories, *self.subscribers])
        if self.chance.random() < 0.3:
            self._partition()

    def _registration(self) -> None:
        """The owner lets some in and others not, and changes its mind."""
        for version in range(1, self.chance.randint(1, 3) + 1):
            publishers = tuple(name for name in self.publishers if self.chance.random() < 0.7)
            subscribers = tuple(name for name in self.subscribers if self.chance.random() < 0.7)
            registration = Registration(STREAM, "owner", version, publishers, subscribers)
            time_s = 0.0 if self.chance.random() < 0.4 else self._moment()
            self.world.at(time_s, partial(self._register, registration))
        if self.chance.random() < 0.3:
            self._each(self.repositories)

    def _register(self, registration: Registration) -> None:
        up = [host for host in self.world.repositories.values() if host.up]
        if up:
            host = self.chance.choice(up)
            host.enter(host.machine.register(registration))

    def _levels(self) -> None:
        self._each(self.repositories)

    def _bounds(self) -> None:
        if self.chance.random() < 0.5:
            self._everybody()

    def _storm(self) -> None:
        for act in self.chance.sample((self._everybody, self._partition, self._join, self._everybody), 3):
            act()

    classes: ClassVar[dict[str, Callable[["Author"], None]]] = {
        "lossy": _lossy,
        "publisher": _publisher,
        "subscriber": _subscriber,
        "repository": _repository,
        "all-but-one": _all_but_one,
        "everybody": _everybody,
        "disk": _disk,
        "flips": _flips,
        "ruin": _ruin,
        "damage": _damage,
        "retention": _retention,
        "partition": _partition,
        "join": _join,
        "leave": _leave,
        "given-up": _given_up,
        "positions": _positions,
        "forget": _forget,
        "away": _away,
        "acks": _acks,
        "registration": _registration,
        "levels": _levels,
        "bounds": _bounds,
        "storm": _storm,
    }
