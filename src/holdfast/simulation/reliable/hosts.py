"""Hosts that drive the participants of reliable topics in virtual time, as their contract asks.

A repository's host is in `repository_hosts`. A subscriber's host stores what was released together with what the
subscriber remembers. A publisher's session numbers its messages from 1 in every life: the worst that a broker may do.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from msgspec.structs import replace

from holdfast.model.batches import Batch
from holdfast.protocols.narada import (
    Forgetter,
    Publisher,
    PublisherConfig,
    Subscriber,
    SubscriberConfig,
)
from holdfast.protocols.narada.participant import (
    Begun,
    Effect,
    Effects,
    Emit,
    Listen,
    Opening,
    Participant,
    Rejected,
    Release,
    Say,
    Stored,
    StreamGap,
    SubscriptionEnded,
    Unlisten,
)
from holdfast.protocols.node import CancelTimer, Persist, Report, SetTimer
from holdfast.simulation.kernel import Kernel
from holdfast.simulation.reliable.history import ReliableHistory


class Medium(Protocol):
    """Where a participant is heard: the lossy bus, or a client session."""

    def attach(self, name: str, hear: Callable[[Batch], None]) -> None: ...

    def detach(self, name: str) -> None: ...

    def listen(self, name: str, pattern: str) -> None: ...

    def unlisten(self, name: str, pattern: str) -> None: ...

    def publish(self, name: str, effect: Emit | Say, seq: int) -> int:
        """Publish it, and return the number of its first message; `seq` is the one that the host would give."""
        ...


class ParticipantHost:
    """The driver of one participant."""

    machine: Participant

    def __init__(self, name: str, kernel: Kernel, medium: Medium, history: ReliableHistory, check: bool) -> None:
        self.name, self.kernel, self.medium, self.history, self._check = name, kernel, medium, history, check
        self.up = False
        self.lives = 0
        self.started_s = 0.0
        self.reports: list[tuple[float, Report]] = []
        self._timers: dict[str, int] = {}
        self._seq = 1
        self._touched = False

    # ------------------------------------------------------------------------------------------------ life and death

    def make(self) -> Participant:
        raise NotImplementedError

    def start(self) -> None:
        if self.up:
            return
        self.up = True
        self.lives += 1
        self.started_s = self.kernel.now
        self._seq = 1
        self._timers.clear()
        self.machine = self.make()
        self.medium.attach(self.name, self._hear)
        self.enter(self._begin())

    def _begin(self) -> Effects:
        return self.machine.start(self.kernel.now)

    def crash(self) -> None:
        if self.up:
            self.up = False
            self._timers.clear()
            self.medium.detach(self.name)

    # -------------------------------------------------------------------------------------------------- entry points

    def _hear(self, batch: Batch) -> None:
        if self.up:
            self.enter(self.machine.heard(batch, self.kernel.now))

    def enter(self, effects: Effects) -> None:
        self.carry_out(effects)
        if not self._touched and self.up:
            self._touched = True
            self.kernel.at_end(self._settle)

    def _settle(self, _: object) -> None:
        self._touched = False
        if self.up:
            self.carry_out(self.machine.settle(self.kernel.now))

    def _fire(self, timer: tuple[str, int]) -> None:
        name, number = timer
        if self.up and self._timers.get(name) == number:
            del self._timers[name]
            self.enter(self.machine.timer(name, self.kernel.now))

    def later(self, delay_s: float, action: Callable[[], Effects]) -> None:
        """Enter the machine later, if it lives on until then."""
        life = self.lives

        def enter(_: object) -> None:
            if self.up and self.lives == life:
                self.enter(action())

        self.kernel.after(delay_s, enter)

    # ------------------------------------------------------------------------------------------------------- effects

    def carry_out(self, effects: Effects) -> None:
        if self._check:
            self.machine.check_invariants()
        for effect in effects:
            if not self.up:
                return
            self.handlers[type(effect)](self, effect)

    def _listen(self, effect: Listen) -> None:
        self.medium.listen(self.name, effect.pattern)

    def _unlisten(self, effect: Unlisten) -> None:
        self.medium.unlisten(self.name, effect.pattern)

    def _say(self, effect: Say) -> None:
        self.medium.publish(self.name, effect, self._seq)
        self._seq += 1

    def _set_timer(self, effect: SetTimer) -> None:
        number = self._timers[effect.name] = self.kernel.next_number()
        self.kernel.after(max(effect.after_s, 1e-9), self._fire, (effect.name, number))

    def _cancel_timer(self, effect: CancelTimer) -> None:
        self._timers.pop(effect.name, None)

    def _report(self, effect: Report) -> None:
        self.reports.append((self.kernel.now, effect))

    handlers: ClassVar[dict[type[Effect], Callable[[Any, Any], None]]] = {
        Listen: _listen,
        Unlisten: _unlisten,
        Say: _say,
        SetTimer: _set_timer,
        CancelTimer: _cancel_timer,
        Report: _report,
    }

    def waiting_for(self) -> list[str]:
        return list(self.machine.waiting_for()) if self.up else []


class PublisherHost(ParticipantHost):
    """A publisher, and the application that publishes by it."""

    machine: Publisher

    def __init__(
        self, config: PublisherConfig, kernel: Kernel, medium: Medium, history: ReliableHistory, check: bool
    ) -> None:
        super().__init__(config.name, kernel, medium, history, check)
        self.config = config
        self.last_of_earlier = 0

    def make(self) -> Publisher:
        return Publisher(self.config, self.lives)

    def publish(self, topic: str, payload: bytes, guarantee: int = 1) -> None:
        """Publish now, if the publisher lives and may."""
        if self.up and self.machine.state != "refused" and self.machine.room():
            number = self.machine.publish(topic, payload, guarantee)
            self.history.published(self.name, self.lives, number, topic, payload, self.kernel.now)
            self.enter([])

    def _emit(self, effect: Emit) -> None:
        first = self.medium.publish(self.name, effect, self._seq)
        self._seq = first + effect.batch.count
        self.carry_out(self.machine.emitted(effect.token, first, self.kernel.now))

    def _opening(self, effect: Opening) -> None:
        self.history.opened(self.name, self.lives, effect.life, self.machine.after)

    def _stored(self, effect: Stored) -> None:
        self.history.acknowledged(self.name, self.lives, effect.number, effect.level, effect.copies)

    def _rejected(self, effect: Rejected) -> None:
        self.history.rejected(self.name, self.lives, effect.first, effect.definite)

    handlers: ClassVar = ParticipantHost.handlers | {
        Emit: _emit,
        Opening: _opening,
        Stored: _stored,
        Rejected: _rejected,
    }


class ForgetterHost(ParticipantHost):
    """A client that ends a subscription."""

    machine: Forgetter

    def __init__(
        self,
        stream: str,
        subscription: str,
        kernel: Kernel,
        medium: Medium,
        history: ReliableHistory,
        check: bool,
        token: int,
    ) -> None:
        super().__init__(f"forgetter {token}", kernel, medium, history, check)
        self._stream, self._subscription, self._token = stream, subscription, token

    def make(self) -> Forgetter:
        return Forgetter(self._stream, self._subscription, self.name, self._token)

    def _ended(self, effect: SubscriptionEnded) -> None:
        self.history.ended(effect.subscription, effect.repository)

    handlers: ClassVar = ParticipantHost.handlers | {SubscriptionEnded: _ended}


class SubscriberHost(ParticipantHost):
    """A durable subscriber, and the application that consumes what it releases."""

    machine: Subscriber

    def __init__(
        self,
        config: SubscriberConfig,
        kernel: Kernel,
        medium: Medium,
        history: ReliableHistory,
        check: bool,
        consume_s: float = 0.0,
    ) -> None:
        super().__init__(config.name, kernel, medium, history, check)
        self.config, self._consume_s, self._busy_until = config, consume_s, 0.0
        self._memory: dict[str, bytes] = {}
        self.gaps: list[tuple[int, StreamGap]] = []
        """What it was told will not come, and how many messages it had got by then."""

    def make(self) -> Subscriber:
        self._busy_until = 0.0
        return Subscriber(replace(self.config, reader=self.lives), self._memory)

    def _release(self, effect: Release) -> None:
        entry = effect.entry
        self.history.released(self.name, self.lives, effect.repository, entry, self.kernel.now)
        self._busy_for(self._consume_s * entry.count, lambda: self.machine.consumed(entry, self.kernel.now))

    def _busy_for(self, busy_s: float, then: Callable[[], Effects]) -> None:
        """One after the other: what is short does not overtake what is long."""
        now = self.kernel.now
        self._busy_until = max(self._busy_until, now) + busy_s
        self.later(self._busy_until - now, then)

    def _gap(self, effect: StreamGap) -> None:
        self.history.gap(self.name, self.lives, effect)
        self.gaps.append((len(self.history.releases[self.name]), effect))
        self._busy_for(0.0, lambda: self.machine.told_gap(self.kernel.now))

    def _begun(self, effect: Begun) -> None:
        self.history.begun(self.name, self.lives, effect.repository, self.kernel.now, self.started_s)

    def _rejected(self, effect: Rejected) -> None:
        self.history.rejected(self.name, self.lives, effect.first, effect.definite)

    def _persist(self, effect: Persist) -> None:
        self._memory[effect.key] = effect.value

    handlers: ClassVar = ParticipantHost.handlers | {
        Release: _release,
        StreamGap: _gap,
        Begun: _begun,
        Rejected: _rejected,
        Persist: _persist,
    }


def batch_of(name: str, effect: Emit | Say, seq: int) -> Batch:
    """What a session makes of what a participant publishes."""
    if isinstance(effect, Say):
        return Batch(name, seq, effect.topic, 0, effect.payload)
    return replace(effect.batch, first=seq)
