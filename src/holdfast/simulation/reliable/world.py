"""A world of reliable topics in virtual time: repositories, publishers and subscribers on a bus that promises nothing.

    world = ReliableWorld(seed=7, bus=BusConfig(lost=0.1))
    world.repository("r1"), world.repository("r2")
    alice, bob = world.publisher("alice"), world.subscriber("bob")
    world.at(1.0, lambda: alice.publish("orders", b"a"))
    world.at(1.1, world.crash("r1"))
    world.run_until_drained(60.0)
    assert world.payloads("bob") == [b"a"]

One seed gives one run.
"""

from collections.abc import Callable

from msgspec.structs import replace

from holdfast.model.errors import HoldfastError
from holdfast.model.reliable import Retention
from holdfast.protocols.narada import PublisherConfig, RepositoryConfig, SubscriberConfig
from holdfast.protocols.narada.participant import Emit, Say
from holdfast.simulation.kernel import Kernel, stream
from holdfast.simulation.reliable.agreeing import behind, known_to_have_had
from holdfast.simulation.reliable.bus import Bus, BusConfig
from holdfast.simulation.reliable.checkers import Judgement, judge
from holdfast.simulation.reliable.history import ReliableHistory
from holdfast.simulation.reliable.hosts import (
    ForgetterHost,
    Medium,
    ParticipantHost,
    PublisherHost,
    SubscriberHost,
    batch_of,
)
from holdfast.simulation.reliable.manual_hosts import Habits, ManualHost
from holdfast.simulation.reliable.repository_hosts import RepositoryHost

POLL_S = 0.5
EVENTS_PER_POLL_MAX = 200_000
"""Several times what happens in the busiest half second of a run: whoever says more only answers itself."""
CALM_S = 2.0


class NotDrained(HoldfastError):  # noqa: N818 - it says what happened
    """Raised when a run has not come to rest in time: who waits for what."""


class _BusMedium:
    """Participants speak on the bus directly."""

    def __init__(self, bus: Bus) -> None:
        self.attach, self.detach, self.listen, self.unlisten = bus.attach, bus.detach, bus.listen, bus.unlisten
        self._bus = bus

    def publish(self, name: str, effect: Emit | Say, seq: int) -> int:
        self._bus.say(name, batch_of(name, effect, seq))
        return seq


class ReliableWorld:
    """One run."""

    def __init__(
        self,
        seed: int = 0,
        stream_name: str = "orders",
        bus: BusConfig | None = None,
        check_invariants: bool = True,
        kernel: Kernel | None = None,
        medium: Medium | None = None,
    ) -> None:
        self.seed, self.stream = seed, stream_name
        self.kernel = kernel or Kernel()
        self.bus = Bus(self.kernel, bus or BusConfig(), stream(seed, "bus"))
        self.medium: Medium = medium or _BusMedium(self.bus)
        self.history = ReliableHistory()
        self.history.knew = self._knew
        self._check = check_invariants
        self.repositories: dict[str, RepositoryHost] = {}
        self.publishers: dict[str, PublisherHost] = {}
        self.subscribers: dict[str, SubscriberHost] = {}
        self.forgetters: list[ForgetterHost] = []
        self._planned = 0

    # ------------------------------------------------------------------------------------------------------- the cast

    def repository(
        self,
        name: str,
        config: RepositoryConfig | None = None,
        start: bool = True,
        retention: Retention | None = None,
    ) -> RepositoryHost:
        config = replace(config or RepositoryConfig(name), name=name)
        chance = stream(self.seed, f"repository {name}")
        host = RepositoryHost(
            config, [self.stream], self.kernel, self.medium, self.history, self._check, chance, retention
        )
        self.repositories[name] = host
        if start:
            host.start()
        return host

    def publisher(self, name: str, config: PublisherConfig | None = None, start: bool = True) -> PublisherHost:
        config = replace(config or PublisherConfig(name, self.stream), name=name, stream=self.stream)
        host = PublisherHost(config, self.kernel, self.medium, self.history, self._check)
        self.publishers[name] = host
        if start:
            host.start()
        return host

    def subscriber(
        self, name: str, config: SubscriberConfig | None = None, start: bool = True, consume_s: float = 0.0
    ) -> SubscriberHost:
        config = replace(config or SubscriberConfig(name, self.stream), name=name, stream=self.stream)
        host = SubscriberHost(config, self.kernel, self.medium, self.history, self._check, consume_s)
        self.subscribers[name] = host
        if start:
            host.start()
        return host

    def manual_subscriber(
        self, name: str, config: SubscriberConfig | None = None, start: bool = True, habits: Habits | None = None
    ) -> ManualHost:
        """A subscriber whose application acknowledges each message, as is its habit."""
        config = replace(config or SubscriberConfig(name, self.stream), name=name, stream=self.stream)
        chance = stream(self.seed, f"application {name}")
        host = ManualHost(config, self.kernel, self.medium, self.history, self._check, chance, habits)
        self.subscribers[name] = host
        if start:
            host.start()
        return host

    def host(self, name: str) -> ParticipantHost:
        return {**self.repositories, **self.publishers, **self.subscribers}[name]

    def hosts(self) -> list[ParticipantHost]:
        return [*self.repositories.values(), *self.publishers.values(), *self.subscribers.values(), *self.forgetters]

    # -------------------------------------------------------------------------------------------------- the timetable

    def at(self, time_s: float, action: Callable[[], object]) -> None:
        self._planned += 1

        def act(_: object) -> None:
            self._planned -= 1
            action()

        self.kernel.at(time_s, act)

    def crash(self, *names: str) -> Callable[[], None]:
        def act() -> None:
            for name in names:
                self.host(name).crash()

        return act

    def lose_disk(self, name: str) -> Callable[[], None]:
        """A repository crashes, and what it has stored is gone."""
        return self.repositories[name].lose_disk

    def recover(self, *names: str) -> Callable[[], None]:
        def act() -> None:
            for name in names:
                self.host(name).start()

        return act

    def _knew(self, subscription: str, before_s: float) -> bool:
        up = [host for host in self.repositories.values() if host.up]
        known = [host.machine.streams[self.stream].dissemination.subscriptions.get(subscription) for host in up]
        return any(one is not None and one.since_ns < before_s * 1e9 for one in known)

    def bring_back(self, *names: str) -> None:
        """Readers return; what any repository knows them to have had, they are not to get again."""
        states = {
            name: host.machine.streams[self.stream].stream_state.phase for name, host in self.repositories.items()
        }
        up = [host for name, host in self.repositories.items() if host.up and states[name] != "left"]
        for host in [self.subscribers[name] for name in names]:
            if not host.up:
                if not host.config.anew:
                    self.history.had[host.name] = known_to_have_had(up, self.stream, host.name)
                host.start()

    def part(self, side: list[str], rest: list[str]) -> Callable[[], None]:
        """Nothing passes between the two sides, until `bus.heal`."""

        def act() -> None:
            for a in side:
                for b in rest:
                    self.bus.cut(a, b)

        return act

    def leave(self, name: str) -> Callable[[], None]:
        def act() -> None:
            host = self.repositories[name]
            if host.up and host.machine.streams[self.stream].bundle.others_there(self.kernel.now):
                host.enter(host.machine.leave(self.stream, self.kernel.now))

        return act

    def forget(self, subscription: str) -> Callable[[], None]:
        """Somebody ends a subscription by its name, and says so until a repository knows."""

        def act() -> None:
            token = len(self.forgetters) + 1
            host = ForgetterHost(self.stream, subscription, self.kernel, self.medium, self.history, self._check, token)
            self.forgetters.append(host)
            host.start()

        return act

    def run(self, until_s: float) -> None:
        """Let everything happen up to that time."""
        self.kernel.run(until_s)

    def run_until_drained(self, limit_s: float, operator: bool = True) -> None:
        """Run until nobody waits for anything for a while; an operator gives up what no life can send any more."""
        calm_since: float | None = None
        while True:
            self.kernel.run(self.kernel.now + POLL_S, EVENTS_PER_POLL_MAX)
            reasons = self._reasons()
            if not reasons and not self._planned:
                calm_since = self.kernel.now if calm_since is None else calm_since
                if self.kernel.now - calm_since >= CALM_S:
                    return
                continue
            calm_since = None
            if self.kernel.now > limit_s:
                raise NotDrained(f"not drained after {self.kernel.now:.1f} s: " + "; ".join(reasons[:12]))
            if operator and not self._planned:
                self._operate()

    def _reasons(self) -> list[str]:
        reasons = [f"{host.name} waits for {reason}" for host in self.hosts() for reason in host.waiting_for()]
        streams = [host.machine.streams[self.stream] for host in self.repositories.values() if host.up]
        sums = {one.dissemination.ended.digest for one in streams if one.stream_state.phase != "left"}
        if len(sums) > 1:
            return [*reasons, "the bundle has not agreed which subscriptions are over"]
        if reasons:
            return reasons
        there = [host for host in self.repositories.values() if host.up]
        there = [host for host in there if host.machine.streams[self.stream].stream_state.phase != "left"]
        return list(behind(there, self.stream, self.history.given_up))

    def _operate(self) -> None:
        """Give up the places of lives that are over, where no repository has the messages."""
        serving = [host for host in self.repositories.values() if host.up]
        held = [managed.stream_state for host in serving for managed in host.machine.streams.values()]
        held = [stream_state for stream_state in held if stream_state.phase != "left"]
        if any(stream_state.phase == "learning" or stream_state.staged for stream_state in held):
            return
        for host in serving:
            stream_state = host.machine.streams[self.stream].stream_state
            if stream_state.phase == "left":
                continue
            for chain, place in list(stream_state.place_rows()):
                publisher = self.publishers.get(chain.publisher)
                over = publisher is None or not publisher.up or publisher.machine.life != chain.life
                over = over or publisher is None or publisher.machine.state == "refused"
                # With a weak level, what a publisher was told is stored may be gone all the same.
                over = over or publisher is None or publisher.machine.stored_number >= place.last
                somewhere = any(
                    other.chains[chain.publisher, chain.life].taken.new_part(place.number, place.last)
                    != [(place.number, place.last)]
                    for other in held
                    if (chain.publisher, chain.life) in other.chains
                )
                if over and not somewhere:
                    host.give_up(self.stream, chain.publisher, chain.life)

    # ------------------------------------------------------------------------------------------------------ inspection

    def payloads(self, subscriber: str) -> list[bytes]:
        return [one.payload for one in self.history.releases[subscriber]]

    def check(self) -> Judgement:
        return judge(self)
