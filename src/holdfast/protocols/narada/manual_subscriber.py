"""A durable subscriber whose application acknowledges each message: `hand_out`, `ack`, `nack`.

The application asks for the next message, and may have several at a time. What it acknowledges does not come again;
what it gives back comes again, counted; what it neither acknowledged nor gave back when it died comes to the reader
after it (`handouts`). The position of the subscription is, as ever, the number up to which everything was acknowledged.
What was acknowledged above it is told by identity, in an account that every repository of the bundle keeps
(`accounts`). At most `unacked_max` messages are out, so an account is bounded, however long one of them is out.

An acknowledgement has a ticket. Accounts have numbers; one is on its way at a time, so that the faster messages are
acknowledged, the more of them share an account, and a commit. When the steering repository says that it has stored the
account, its tickets are confirmed (`Acknowledged`). While it is not answered another one is said every `ack_s`.

Invariants: everything below `position` was acknowledged, passed over, or told as a gap; or it is out, or waits.
"""

from collections import deque
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from holdfast.model.errors import LocalMisuse
from holdfast.model.plurals import counted
from holdfast.model.reliable import Entry
from holdfast.protocols.narada.config import SubscriberConfig
from holdfast.protocols.narada.events import (
    RANGES_MAX,
    Persistent,
    Ranges,
    Rectify,
    Refusal,
    Resent,
    SubscriberAck,
    Sync,
    life_of,
)
from holdfast.protocols.narada.handouts import Handout, Handouts, Identity, next_of
from holdfast.protocols.narada.participant import Acknowledged, Effect, Effects, Ready, StreamGap
from holdfast.protocols.narada.released_messages import Life
from holdfast.protocols.narada.subscriber import Subscriber
from holdfast.protocols.narada.unconsumed_messages import UnconsumedMessages
from holdfast.protocols.node import CancelTimer, SetTimer

AGAIN_TIMER = "again"
SAID_MAX = 64
"""Accounts that were said and not answered; the oldest go, and what they confirm the later ones do, too."""
LIVES_MAX = 256
"""Lives of publishers in an account. Of more it tells nothing: what is acknowledged out of order is not confirmed until
everything before it is acknowledged, too."""


class SentAccount(Struct):
    """An account on its way, and whose tickets it confirms."""

    number: int
    tickets: tuple[int, ...]


class ManualSubscriber(Subscriber):
    """One durable subscription on one stream, acknowledged message by message."""

    def __init__(self, config: SubscriberConfig) -> None:
        if config.remember:
            raise LocalMisuse(
                f"the subscriber {config.name} is to remember what was released, and to acknowledge each message: "
                "what was released and not acknowledged comes again, so it remembers nothing."
            )
        super().__init__(config)
        self.handouts = Handouts(config.unacked_max, config.by_key)
        self.unconsumed = UnconsumedMessages(config.name, self.handouts.earlier)
        self._lives: set[Life] = set()
        """Lives of which something was acknowledged while something before it was not."""
        self._lives_upto = 0
        """What was acknowledged before this repository steered lies at or below this number of its."""
        self._tickets: dict[int, int] = {}
        """What was acknowledged and is not confirmed: its number at the repository that steers, 0 if it has none."""
        self._ticket = self._account = 0
        self._sent_accounts: deque[SentAccount] = deque(maxlen=SAID_MAX)
        self._changed = False
        self._told: tuple[object, ...] = ()
        self._told_at = -1e9
        self._due_at: float | None = None

    # ---------------------------------------------------------------------------------------------------- application

    def hand_out(self, now: float) -> tuple[Handout | StreamGap | None, Effects]:
        """The next message, or the gap that lies before it; `None` if there is none, or as many as may be are out."""
        gap: StreamGap | None = None

        def fresh() -> tuple[Entry, bool] | None:
            nonlocal gap
            found, earlier = self.unconsumed.take_one()
            if isinstance(found, StreamGap):
                gap = found
            if not isinstance(found, Entry):
                return None
            # What is out takes up room until it is acknowledged.
            self.unconsumed.bytes += found.batch.cost_bytes
            return found, earlier

        out = next_of(self.handouts, now, fresh)
        self._changed = self._changed or out is not None
        effects = self._look_again(now)
        if gap is not None and self.state == "steered":
            effects += self._schedule_ack()
        return out or gap, effects

    def ack(self, identities: Iterable[Identity], now: float) -> tuple[int, Effects]:
        """The application has done with these messages; returns the ticket of that, 0 if all of it was known."""
        done = [handout for one in identities if (handout := self.handouts.ack(one)) is not None]
        if not done:
            return 0, []
        self._ticket += 1
        for handout in done:
            self._lives.add((handout.entry.publisher, life_of(handout.entry.cat)))
            self.unconsumed.bytes -= handout.entry.batch.cost_bytes
        self._tickets[self._ticket] = 0 if any(one.earlier for one in done) else max(one.entry.first for one in done)
        effects = self._consumed(now) if self.state == "steered" else []
        return self._ticket, [Ready(self.config.stream), *effects, *self._look_again(now)]

    def nack(self, identity: Identity, count: int, delay_s: float, now: float) -> Effects:
        """The application gives a message back that it was handed so often: it comes again, after that time."""
        if not self.handouts.nack(identity, count, now + delay_s if delay_s > 0 else 0.0):
            return []
        self._changed = True
        return [Ready(self.config.stream), *self._look_again(now)]

    def unconfirmed(self) -> bool:
        """Whether something that was acknowledged is not known to be stored."""
        return bool(self._tickets)

    # ------------------------------------------------------------------------------------------------------------ time

    def timer(self, name: str, now: float) -> Effects:
        if name != AGAIN_TIMER:
            return super().timer(name, now)
        self._due_at = None
        return [Ready(self.config.stream), *self._look_again(now)]

    def _look_again(self, now: float) -> Effects:
        """Be woken when something is due that was given back."""
        due_at = self.handouts.due_s(now)
        if due_at == self._due_at:
            return []
        self._due_at = due_at
        return [CancelTimer(AGAIN_TIMER)] if due_at is None else [SetTimer(AGAIN_TIMER, due_at - now)]

    def settle(self, now: float) -> Effects:
        if self.state != "steered":
            return []
        if self._tickets and not self._sent_accounts:
            return self._acknowledge(now)
        if self._changed and now - self._told_at >= self.config.ack_s:
            # One that dies of a message is to be known to have had it.
            return self._acknowledge(now)
        return []

    # --------------------------------------------------------------------------------------------------------- telling

    def _has_news(self) -> bool:
        return self._changed or bool(self._tickets) or super()._has_news()

    def _taken(self) -> int:
        return min(self.unconsumed.upto(self.backlog.position), self.handouts.lowest(1 << 62) - 1)

    def _ack(self, ranges: Ranges) -> SubscriberAck:
        upto = max((last for _, last in ranges), default=self.synced)
        event, (reached, lacks, partial) = super()._ack(ranges), self._above()
        tickets = tuple(one for one, number in self._tickets.items() if not partial or 0 < number <= upto)
        told = (reached, lacks, self.handouts.out())
        self._changed = False
        if told == self._told and not tickets:
            return event  # A sign of life: there is nothing to store.
        self._told = told
        self._account += 1
        if tickets:
            self._sent_accounts.append(SentAccount(self._account, tickets))
        reached, lacks, out = told
        account = {"account": self._account, "reached": reached, "lacks": lacks, "out": out}
        return replace(event, **account, partial=partial, waits=bool(tickets))

    def _above(self) -> tuple[tuple[tuple[str, int], ...], tuple[tuple[str, int, int], ...], bool]:
        """What was acknowledged above what was acknowledged as a whole; and whether that is too much to tell."""
        if not len(self.handouts) and self.unconsumed.is_plain and self.backlog.position > self._lives_upto:
            self._lives.clear()
        if len(self._lives) > LIVES_MAX:
            return (), (), True
        fresh, out = self.unconsumed.entries(), self.handouts.entries()
        reached, lacks = self.released.account(sorted(self._lives), fresh, out)
        return ((), (), True) if len(lacks) > RANGES_MAX else (reached, lacks, False)

    def _acknowledge(self, now: float) -> Effects:
        self._told_at = now
        return super()._acknowledge(now)

    def _cut(self) -> tuple[tuple[str, int], ...]:
        return self.released.cut_before((*self.unconsumed.entries(), *self.handouts.entries()))

    # -------------------------------------------------------------------------------------------------------- hearing

    def _from_repository(self, event: Rectify | Persistent | Resent | Sync, now: float) -> Effects:
        effects = super()._from_repository(event, now)
        if not isinstance(event, Sync) or self.state != "steered" or event.era != self.era:
            return effects
        stored: list[int] = []
        while self._sent_accounts and self._sent_accounts[0].number <= event.account:
            stored += [one for one in self._sent_accounts.popleft().tickets if self._tickets.pop(one, None) is not None]
        return [*effects, Acknowledged(self.config.stream, tuple(stored))] if stored else effects

    def _begin(self, event: Rectify, now: float) -> Effects:
        if self._begun:
            # 1. Everything is acknowledged, to r1; an account tells of nothing above its sync.
            # 2. r2 steers, which has missed much of it: its sync lies far below, and the account has to tell of all.
            self._lives.update(self.released.lives())
        else:
            self.handouts.know(event.out)
            self._lives.update((publisher, life_of(cat)) for publisher, cat in event.beyond)
        self.handouts.begin()
        self._lives_upto = event.end
        self._tickets = dict.fromkeys(self._tickets, 0)
        self._changed, self._told = True, ()
        return super()._begin(event, now)

    def _lost(self, effects: Effects) -> Effects:
        self._sent_accounts.clear()
        return super()._lost(effects)

    def _recover(self, now: float) -> Effects:
        self._sent_accounts.clear()
        return super()._recover(now)

    def _on_refusal(self, event: Refusal) -> Effects:
        self._tickets.clear()
        return super()._on_refusal(event)

    # ------------------------------------------------------------------------------------------------------- releasing

    def _released(self, entry: Entry) -> Effect:  # noqa: ARG002
        return Ready(self.config.stream)

    def _gap(self, gap: StreamGap) -> Effect:  # noqa: ARG002
        return Ready(self.config.stream)

    # ------------------------------------------------------------------------------------------------------- inspection

    def waiting_for(self) -> list[str]:
        reasons = super().waiting_for()
        if self._tickets and self.state == "steered":
            reasons.append(f"{counted(len(self._tickets), 'acknowledgement')} to be stored")
        return reasons

    def status(self) -> dict[str, object]:
        return {**super().status(), "unacknowledged": len(self.handouts), "unconfirmed": len(self._tickets)}
