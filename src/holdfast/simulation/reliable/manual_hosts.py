"""A durable subscriber in virtual time whose application acknowledges each message, and gives some back.

What the application does is a matter of chance. It never gives a message back more than `NACKS_MAX` times, so that
everything is acknowledged in the end.
"""

from collections.abc import Callable
from random import Random
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from holdfast.model.reliable import Entry
from holdfast.protocols.narada import ManualSubscriber, SubscriberConfig
from holdfast.protocols.narada.handouts import Handout, Identity
from holdfast.protocols.narada.participant import Acknowledged, Effects, Ready, StreamGap
from holdfast.simulation.kernel import Kernel
from holdfast.simulation.reliable.history import ReliableHistory
from holdfast.simulation.reliable.hosts import Medium, SubscriberHost

NACKS_MAX = 3


class Habits(Struct, frozen=True):
    """What an application does with a message."""

    think_s: float = 0.0
    """It answers within so much time."""
    nacked: float = 0.0
    """The share that it gives back."""
    cumulative: float = 0.0
    """The share of acknowledgements that are of all that came before, too."""
    delays_s: tuple[float, ...] = (0.0, 0.05, 0.3)


class ManualHost(SubscriberHost):
    """A subscriber that acknowledges each message, and its application."""

    machine: ManualSubscriber

    def __init__(
        self,
        config: SubscriberConfig,
        kernel: Kernel,
        medium: Medium,
        history: ReliableHistory,
        check: bool,
        chance: Random,
        habits: Habits | None = None,
    ) -> None:
        super().__init__(config, kernel, medium, history, check)
        self._chance, self.habits = chance, habits or Habits()
        self._handing_out = False
        self._waiting: dict[int, tuple[Identity, ...]] = {}

    def make(self) -> ManualSubscriber:
        self._waiting, self._handing_out = {}, False
        return ManualSubscriber(replace(self.config, reader=self.lives))

    # -------------------------------------------------------------------------------------------------- the application

    def _ready(self, _: Ready) -> None:
        if self._handing_out:
            return
        self._handing_out = True
        # In a turn of its own: a machine is not entered while its effects are carried out.
        self.later(0.0, self._take)

    def _take(self) -> Effects:
        self._handing_out = False
        effects: Effects = []
        while True:
            found, more = self.machine.hand_out(self.kernel.now)
            effects += more
            if isinstance(found, StreamGap):
                self.history.gap(self.name, self.lives, found)
                self.gaps.append((len(self.history.releases[self.name]), found))
            elif found is not None:
                self._handed_out(found)
            else:
                return effects

    def _handed_out(self, handout: Handout) -> None:
        repository = str(self.machine.status()["steering"])
        self.history.handed_out(self.name, self.lives, repository, handout.entry, handout.count, self.kernel.now)
        answer = self._answer(handout.entry, handout.count)
        self.later(self._chance.random() * self.habits.think_s, answer)

    def _answer(self, entry: Entry, count: int) -> Callable[[], Effects]:
        chance, habits = self._chance, self.habits
        if count <= NACKS_MAX and chance.random() < habits.nacked:
            delay_s = chance.choice(habits.delays_s)
            return lambda: self.nack(entry, count, delay_s)
        cumulative = chance.random() < habits.cumulative
        return lambda: self.ack(entry, cumulative)

    def ack(self, entry: Entry, cumulative: bool = False) -> Effects:
        """The application has done with a message."""
        identity = (entry.publisher, entry.cat)
        identities = self.machine.handouts.upto(identity) if cumulative else [identity]
        ticket, effects = self.machine.ack(identities, self.kernel.now)
        if ticket:
            self._waiting[ticket] = tuple(identities)
            self.history.acked(self.name, self.lives, identities)
        return effects

    def nack(self, entry: Entry, count: int, delay_s: float) -> Effects:
        """The application gives a message back."""
        handout = self.machine.handouts.get((entry.publisher, entry.cat))
        if handout is not None and handout.count == count:
            self.history.nacked(self.name, self.lives, (entry.publisher, entry.cat), self.kernel.now + delay_s)
        return self.machine.nack((entry.publisher, entry.cat), count, delay_s, self.kernel.now)

    def _acknowledged(self, effect: Acknowledged) -> None:
        repository = str(self.machine.status()["steering"])
        for ticket in effect.tickets:
            self.history.confirmed(self.name, self.lives, self._waiting.pop(ticket), repository)

    handlers: ClassVar = SubscriberHost.handlers | {Ready: _ready, Acknowledged: _acknowledged}

    def waiting_for(self) -> list[str]:
        if not self.up or self.machine.state == "refused":
            return []
        left = len(self.machine.handouts)
        return [*super().waiting_for(), *([f"its application to acknowledge {left} messages"] if left else [])]
