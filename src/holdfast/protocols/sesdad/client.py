"""A client of a site: it has a session with every broker of the site, and needs any one of them.

A publication goes to a broker that is drawn; the choice is recorded, and the publication kept, until f + 1 brokers of
the site have it, and every other one that is there. If the chosen broker is lost another one is drawn. What the site
sends comes from any of its brokers, under numbers of its own for each publisher: what is early waits, what is late is
asked for, and after the last message another broker is asked whether there is more (report, section 6).

Requests go to one broker, the contact, and again to another one if it is lost.
"""

from random import Random

from msgspec.structs import replace

from holdfast.model.batches import Batch
from holdfast.model.messages import (
    Confirm,
    ConfirmAck,
    Refusal,
    Rejected,
    SessionMessage,
)
from holdfast.model.receipt_messages import CLEAN, Finding
from holdfast.model.site_messages import Contacts, Forward, Marks, Notification, Notified, Offer, Retransmission
from holdfast.protocols.clients import GIVE_UP_TIMER, ClientNode
from holdfast.protocols.config import ClientConfig
from holdfast.protocols.links import Link
from holdfast.protocols.node import Accepted, Deliver, Effects, Report, SetTimer
from holdfast.protocols.sesdad.holdback import HoldBack
from holdfast.protocols.sesdad.retransmission import Delays, Questions
from holdfast.protocols.sesdad.sites import LOCAL, Picker
from holdfast.protocols.witness import Witness

TICK_TIMER, HOLD_TIMER, NOTICE_TIMER, LOST_TIMER = "marks", "hold-back", "notice", "lost:"
ENDING = ("late", "taken", "misuse", "cluster", "version", "name", "kind")
"""Refusals after which no other broker is asked."""


class SiteClient(ClientNode):
    """A client with sessions at all brokers of its site."""

    def __init__(self, config: ClientConfig, incarnation: int, chance: Random | None = None) -> None:
        super().__init__(config, incarnation, chance)
        self._hub.sited = True
        self._witness = Witness(self.name, self._answer_question)
        self._picker = Picker(incarnation)
        self._names: dict[str, str] = {}
        """The brokers that answered, by the names under which our driver knows them."""
        self._addresses: dict[str, str] = {}
        self._needed = 1
        self._outstanding: dict[int, tuple[Batch, str]] = {}
        """By first number: what some broker of the site may lack, and the broker that was chosen for it."""
        self._outstanding_bytes = 0
        self._marks: dict[str, int] = {}
        """Up to which number each broker has what we published."""
        self._streams: dict[str, HoldBack] = {}
        self._messages: dict[int, SessionMessage] = {}
        self._asked_by: dict[int, tuple[str, int]] = {}
        """Questions about publications, by a number of ours: the broker that asks, and its number."""
        self._asked = 0
        self._dirty: dict[str, None] = {}
        self._active: dict[str, float] = {}
        self._gap_since: dict[str, float] = {}
        self._delays = Delays(config.request_s, config.notify_s)
        self._questions = Questions()
        self._timers: set[str] = set()
        self._once_attached = False

    @property
    def keeps(self) -> bool:
        """This client keeps what it published until enough brokers have it."""
        return True

    @property
    def held_seq(self) -> int:
        """What is accepted is held by f + 1 brokers."""
        return self.accepted_seq

    def await_held(self, seq: int) -> None:
        """What is accepted is held."""

    # ------------------------------------------------------------------------------------------------------ sessions

    def start(self, now: float) -> Effects:
        self._now = now
        self._hub.start()
        brokers = self.config.site or (self._broker,)
        self._broker = self._picker.pick(list(brokers))
        for name in brokers:
            self._hub.dial(name, now)
        self._hub.out.append(SetTimer(GIVE_UP_TIMER, self.config.give_up_s))
        return self._hub.take()

    def _there(self) -> list[str]:
        """The brokers with which we have a connection."""
        return [peer for peer, link in self._hub.links.items() if link.is_open]

    def _numbering(self, published: int) -> bool:
        return True if self._once_attached else super()._numbering(published)

    def link_opened(self, link: Link, fresh: bool) -> None:
        if self._hub.said is not None:
            self._names[link.peer] = self._hub.said.node
        if fresh:
            self._marks[link.peer] = 0
        contact = self._hub.links.get(self._broker)
        if contact is None or not contact.is_open:
            self._turn_to(link.peer)
        elif fresh and link.peer == self._broker:
            self._ask_again()
        if not self.attached:
            self._once_attached = True
            self._attach(link)
        if self._streams:
            # What was told meanwhile was not told to this one.
            self._dirty.update(dict.fromkeys(self._streams))
            self._arm(TICK_TIMER, self.config.link.ack_delay_s)
        self._send_unsent()

    def _accept(self, link: Link) -> None:
        """What counts as accepted the brokers say themselves."""

    def _turn_to(self, peer: str) -> None:
        """That broker is our contact from now on."""
        self._broker = peer
        self._ask_again()

    def _ask_again(self) -> None:
        for message in self._messages.values():
            self._hub.send(self._broker, message)
        for told in self._wishes.all_if_special():
            self._hub.send(self._broker, told)

    def link_closed(self, link: Link) -> None:
        self._hub.out.append(SetTimer(LOST_TIMER + link.peer, self.config.move_s))
        if not self._there():
            super().link_closed(link)

    def link_refused(self, link: Link, refusal: Refusal) -> None:
        if refusal.code in ENDING or not self._names:
            self._end_all(refusal.reason)
            return
        # It has begun anew, or has given us up: so do we begin anew with it.
        self._hub.set_aside(link.peer)
        self._lost(link.peer)
        self._hub.dial(link.peer, self._now, self._addresses.get(link.peer, ""))

    def link_ended(self, link: Link, reason: str) -> None:
        self._lost(link.peer)
        if self._stopping and not self._hub.links:
            super().link_ended(link, reason)
        elif not self._stopping and not self._ended:
            # The broker leaves, or has given us up; the others are there.
            self._hub.dial(link.peer, self._now, self._addresses.get(link.peer, ""))
            if not self._there() and self.attached:
                super().link_closed(link)

    def _end_all(self, reason: str) -> None:
        """The session is over at the whole site."""
        links = list(self._hub.links.values())
        for link in links:
            self._hub.set_aside(link.peer)
        super().link_ended(links[0], reason)

    def _on_contacts(self, contacts: Contacts) -> None:
        self._needed = contacts.needed
        for one in contacts.members:
            if one.name not in self._names.values() and one.name not in self._hub.links:
                self._addresses[one.name] = one.address
                self._hub.dial(one.name, self._now, one.address)

    def _lost(self, peer: str) -> None:
        """That broker is out of reach for now: others take its place."""
        self._marks.pop(peer, None)
        self._count_marks()
        there = self._there()
        if peer == self._broker and there:
            self._turn_to(self._picker.pick(there))
        for first, (batch, chosen) in self._outstanding.items():
            if chosen == peer:
                self._outstanding[first] = (batch, "")
        self._send_unsent()
        self._questions.lost(peer)
        if self._wanted and there and not self._stopping:
            self._notify(list(self._streams))

    # ---------------------------------------------------------------------------------------------------- publishing

    def _send_batch(self, batch: Batch) -> None:
        self._outstanding_bytes += batch.cost_bytes
        self._outstanding[batch.first] = (batch, "")
        self._send_unsent(batch.first)

    def _send_unsent(self, first: int | None = None) -> None:
        there = self._there()
        if not there:
            return
        for number in [first] if first is not None else list(self._outstanding):
            batch, chosen = self._outstanding[number]
            if not chosen:
                chosen = self._picker.pick(there)
                self._outstanding[number] = (batch, chosen)
                self._hub.send(chosen, Offer(batch))

    def _send_request(self, token: int, message: SessionMessage) -> None:
        self._messages[token] = message
        link = self._hub.links.get(self._broker)
        if link is not None and link.resumable:
            # On a connection that broke it waits for the next one, unless the contact is lost before that.
            self._hub.send(self._broker, message)

    def _on_done(self, token: int, finding: Finding = CLEAN) -> None:
        self._messages.pop(token, None)
        super()._on_done(token, finding)

    @property
    def backlog_bytes(self) -> int:
        return self.pending_bytes + self._outstanding_bytes

    def _on_own_mark(self, peer: str, number: int) -> None:
        """A broker has what we published, up to that number."""
        self._marks[peer] = max(number, self._marks.get(peer, 0))
        self._count_marks()

    def _count_marks(self) -> None:
        """What f + 1 brokers have is accepted; what all have that are there is not kept."""
        marks = sorted(self._marks.values(), reverse=True)
        if len(marks) >= self._needed and marks[self._needed - 1] > self.accepted_seq:
            self.accepted_seq = min(marks[self._needed - 1], self.next_seq - 1)
            self._hub.out.append(Accepted(self.accepted_seq))
        if len(marks) >= self._needed:
            self._release(min(marks))
        self._leave_if_drained()

    def _release(self, number: int) -> None:
        for first in [one for one, (batch, _) in self._outstanding.items() if batch.last <= number]:
            self._outstanding_bytes -= self._outstanding.pop(first)[0].cost_bytes

    def _resend(self, peer: str, first: int, last: int) -> None:
        for number, (batch, _) in list(self._outstanding.items()):
            if batch.last >= first and batch.first <= last:
                self._outstanding[number] = (batch, peer)
                self._hub.send(peer, Offer(batch))

    def _ask(self) -> None:
        """Brokers say soon enough what they have."""

    def _leave_if_drained(self) -> None:
        if self._stopping and self.attached and not self._outstanding and not self._requests and self._hub.drained():
            for peer in list(self._hub.links):
                self._hub.end(peer, "the client closed")

    def never_sent(self) -> list[Batch]:
        return [*(batch for batch, chosen in self._outstanding.values() if not chosen), *self._batches]

    def _never_on(self, link: Link) -> list[Batch]:  # noqa: ARG002
        return []

    # ----------------------------------------------------------------------------------------------------- receiving

    def link_message(self, link: Link, message: SessionMessage) -> None:
        if isinstance(message, Forward):
            self._on_forward(link, message)
            return
        if isinstance(message, Confirm):
            self._asked += 1
            self._asked_by[self._asked] = (link.peer, message.token)
            super().link_message(link, replace(message, token=self._asked))
            return
        if isinstance(message, Rejected):
            self._messages.pop(message.token, None)
        if isinstance(message, Contacts | Marks | Retransmission | Notification | Notified):
            self._hub.consumed(link, message)
            self._from_site(link, message)
        else:
            super().link_message(link, message)

    def _from_site(self, link: Link, message: Contacts | Marks | Retransmission | Notification | Notified) -> None:
        """What only the brokers of sites say."""
        if isinstance(message, Contacts):
            self._on_contacts(message)
        elif isinstance(message, Marks):
            for _, publisher, number in message.entries:
                if publisher == self.name:
                    self._on_own_mark(link.peer, number)
        elif isinstance(message, Retransmission):
            self._resend(link.peer, message.first, message.last)
        elif isinstance(message, Notification):
            for _, _, number in message.entries:
                self._resend(link.peer, number + 1, self.next_seq)
            self._hub.send(link.peer, Notified(message.serial))
        else:
            round_trip_s = self._questions.answered(message.serial, self._now)
            if round_trip_s is not None:
                self._delays.sample(round_trip_s)

    def _answer_question(self, answer: ConfirmAck) -> None:
        peer, token = self._asked_by.pop(answer.token, ("", 0))
        if peer in self._hub.links:
            self._hub.send(peer, replace(answer, token=token))

    def _on_forward(self, link: Link, message: Forward) -> None:
        publisher = message.batch.publisher
        stream = self._streams.get(publisher)
        if stream is None:
            stream = self._streams[publisher] = HoldBack()
        batches = stream.take(message.number, message.batch)
        self._dirty[publisher] = None
        self._active[publisher] = self._now
        self._arm(TICK_TIMER, self.config.link.ack_delay_s)
        self._arm(NOTICE_TIMER, self._delays.notify_s)
        if not stream.has_gap:
            self._gap_since.pop(publisher, None)
        elif publisher not in self._gap_since:
            self._gap_since[publisher] = self._now
            self._arm(HOLD_TIMER, self._delays.request_s)
        if message.batch not in batches:
            # What waits here takes no room on its link: what it waits for may have to come over the same one.
            self._hub.consumed(link, message)
        for batch in batches:
            self._deliver(link, message, batch)

    def _deliver(self, link: Link, message: Forward, batch: Batch) -> None:
        """Hand over what the application wants of a batch; one that has waited was consumed when it came."""
        parts = batch.chosen(self._table.choice(self.name, batch))
        if batch is message.batch:
            if parts:
                place = (batch.publisher, parts[-1].first)
                self._uneaten[place] = (link, message)
            else:
                self._hub.consumed(link, message)
        for part in parts:
            self._witness.handed_over(part)
            self._hub.out += [Report("deliver", part), Deliver(part)]

    # ---------------------------------------------------------------------------------------------------- housekeeping

    def _arm(self, timer: str, after_s: float) -> None:
        if timer not in self._timers:
            self._timers.add(timer)
            self._hub.out.append(SetTimer(timer, after_s))

    def timer(self, name: str, now: float) -> Effects:
        self._now = now
        self._timers.discard(name)
        if name == TICK_TIMER:
            self._tell_marks()
        elif name == HOLD_TIMER:
            self._ask_for_missing()
        elif name == NOTICE_TIMER:
            self._notify_if_quiet()
        elif name.startswith(LOST_TIMER):
            link = self._hub.links.get(name.removeprefix(LOST_TIMER))
            if link is not None and not link.is_open:
                self._lost(link.peer)
        elif name == GIVE_UP_TIMER:
            if not self.attached and not self._ended:
                self._end_all(f"no broker of the site has answered for {self.config.give_up_s:g} s")
        else:
            return super().timer(name, now)
        return self._hub.take()

    def _tell_marks(self) -> None:
        """Tell every broker up to where we have what each publisher published."""
        entries = tuple((LOCAL, publisher, self._streams[publisher].prefix) for publisher in self._dirty)
        self._dirty.clear()
        if entries:
            for peer in self._there():
                self._hub.send(peer, Marks(entries))

    def _ask_for_missing(self) -> None:
        there = self._there()
        for publisher, since in list(self._gap_since.items()):
            stream = self._streams[publisher]
            times = stream.in_vain.since(stream.prefix)
            if there and self._now - since >= self._delays.again_s(times):
                self._gap_since[publisher], stream.in_vain.times = self._now, times + 1
                missing = stream.missing()
                self._hub.send(self._picker.pick(there), Retransmission(LOCAL, publisher, *missing))
        if self._gap_since:
            self._arm(HOLD_TIMER, self._delays.request_s)

    def _notify_if_quiet(self) -> None:
        wait_s = self._delays.notify_s
        quiet = [publisher for publisher, since in self._active.items() if self._now - since >= wait_s]
        if self._questions.overdue(self._now - wait_s):
            # Whoever was asked says nothing: another one is asked, about everything.
            quiet = list(self._streams)
        if quiet and self._wanted:
            self._notify(quiet)
        for publisher in quiet:
            self._active.pop(publisher, None)
        if self._active or self._questions:
            self._arm(NOTICE_TIMER, wait_s)

    def _notify(self, publishers: list[str]) -> None:
        """Ask some broker whether there is anything behind what has come."""
        there = self._there()
        if there:
            peer = self._picker.pick(there)
            entries = tuple((LOCAL, publisher, self._streams[publisher].prefix) for publisher in publishers)
            self._hub.send(peer, Notification(self._questions.ask(peer, self._now), entries))

    def waiting_for(self) -> list[str]:
        reasons = [f"the site's answer to {verb} {pattern}" for verb, pattern, _ in self._requests.values()]
        if not self._there() and not self._ended:
            reasons.append("a connection to a broker of its site")
        if (self._outstanding or self._batches or self._run) and not self._ended:
            reasons.append(f"acceptance of publications after #{self.accepted_seq}")
        reasons += [f"what {publisher} published before what waits here" for publisher in self._gap_since]
        return reasons
