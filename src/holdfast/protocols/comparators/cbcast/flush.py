"""Views and the flush between two of them (section 5.3 of Birman, Schiper, Stephenson 1991; thesis 003, 2.4.1).

The coordinator is the most senior member alive. When somebody wishes another view, or is lost:

    coordinator  FlushRequest(dead) ─▶ all     start no multicast; hand what you have of the dead to all its receivers
    member       Flushed ─▶ coordinator        all that it sent has arrived at everybody alive; and what it wants next
    coordinator  Roster ─▶ all                 the next view, when all have answered
    all          deliver what is left, begin the view

If the coordinator dies the next one asks anew. If somebody has the dead one's view already, all have flushed for it:
it is handed to everybody, and the next flush starts from there. If nobody alive has it, it never was.

A member that dies has its casts at some and not at others. Everybody keeps what is not known to be everywhere, and
hands the casts of the dead to all receivers before it answers. So all that live have the same of them. What the dead
sent and nobody alive has is gone for all; whatever waits for it is delivered, in causal order, when the view ends.

A connection that is gone for `suspect_s` means death, where a tolerance is set: the model is crash-stop, and its
failure detector does not err. Without a tolerance nobody is ever given up.
"""

from abc import abstractmethod
from collections import deque

from holdfast.model.direct_messages import Cast, Copied, Flushed, FlushRequest, Roster, Wish
from holdfast.model.errors import PeerViolation
from holdfast.model.messages import Hello, Refusal, SessionMessage
from holdfast.model.terms import Contact
from holdfast.protocols.comparators.cbcast.clocks import ClockReader, ClockWriter, GroupClocks, whole
from holdfast.protocols.comparators.cbcast.queues import Arrivals, CastArrival
from holdfast.protocols.comparators.cbcast.stability import CastOutbox, KeptCast
from holdfast.protocols.comparators.meshes import MeshBroker
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.links import Link
from holdfast.protocols.node import Effects, Report, Restart, SetTimer
from holdfast.protocols.routing import RoutingTable

SUSPECT_TIMER = "suspect:"


class FlushingBroker(MeshBroker):
    """Membership with views. What is multicast in them is the subclass' business."""

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        super().__init__(config, incarnation)
        self.places: dict[str, int] = {}
        self.flushing = False
        self.leaving = False
        self.suspected: set[str] = set()
        self._buried: dict[str, int] = {}
        """The epochs of those who were members once and are not to come back in them."""
        self._leaving_alone = ""
        self._coordinator = ""
        self._attempt = 0
        self._answered = True
        """Whether the last request to flush has been answered."""
        self._answers: dict[str, Flushed] = {}
        self._attempts = 0
        self._asked_dead: set[str] = set()
        self._must_flush = False
        self._start_over()

    def _start_over(self) -> None:
        """What belongs to one view."""
        self.clocks = GroupClocks()
        self.outbox = CastOutbox()
        self.arrivals = Arrivals(self.clocks, self._is_ours, self._deliver)
        self.arrivals.places = self.places
        self.writers: dict[str, ClockWriter] = {}
        self.readers: dict[str, ClockReader] = {}
        self.kept: dict[str, KeptCast] = {}
        self.own: deque[tuple[int, int]] = deque()
        """Our casts that are not stable: ticket and serial."""
        self.serial = self.stable = 0
        self._handed: set[tuple[str, int]] = set()
        self.flushing = False

    def _is_ours(self, topic: str) -> bool:
        return self.groups.wants(self.name, topic)

    @property
    def in_doubt(self) -> bool:
        """Whether somebody may be dead whom what comes in could wait for."""
        return self.flushing or bool(self.suspected)

    @property
    def _may_be_out(self) -> bool:
        return self.leaving

    @staticmethod
    def _pattern_rows(roster: Roster) -> tuple[int, ...]:
        return (len(roster.members),)

    @abstractmethod
    def _deliver(self, sender: str, arrival: CastArrival) -> None:
        """Everything that it depends on is delivered: now it is its turn."""

    @abstractmethod
    def _begin_view(self) -> None:
        """Everybody is where we are, and nothing is under way."""

    # ------------------------------------------------------------------------------------------------ the coordinator

    def coordinator(self) -> str:
        """The most senior member that is not known to be dead."""
        return next(name for name in self.members if name not in self.suspected)

    def _say_wishes(self) -> None:
        if self.flushing and not self._must_flush:
            return  # Whatever is wished for is said with the answer, or when the next view has begun.
        if self.coordinator() == self.name:
            self._flush()
        else:
            self._tell(self.coordinator(), Wish((), tuple(sorted(self.suspected)), self.roster.number))

    def _on_wish(self, wish: Wish) -> None:
        if wish.number == self.roster.number:
            for name in wish.lost:
                self._suspect(name)
        if not self.flushing:
            self._wish()

    def _flush(self) -> None:
        """Ask everybody to end the view."""
        if self._coordinator != self.name and self.roster.number > 1:
            # Another one made this view, and may have died before everybody had it.
            self._tell_all(self.roster)
        self._attempts += 1
        self._answers, self._asked_dead, self._must_flush = {}, set(self.suspected), False
        request = FlushRequest(self.roster.number, self._attempts, tuple(sorted(self.suspected)))
        self._tell_all(request)
        self.hub.out.append(Report("flush", detail=f"view {request.number}, attempt {request.attempt}"))
        self._on_flush_request(self.name, request)

    def _tell_all(self, message: SessionMessage) -> None:
        for name in self._others():
            if name not in self.suspected:
                self._tell(name, message)

    def _on_flushed(self, peer: str, flushed: Flushed) -> None:
        if self._coordinator != self.name or flushed.attempt != self._attempts or not self.flushing:
            return
        self._answers[peer] = flushed
        # If somebody died since, nobody has handed its casts out yet: the next attempt asks for that.
        if self.suspected == self._asked_dead and self._answers.keys() >= self.members.keys() - self.suspected:
            self._compose()

    def _compose(self) -> None:
        """The next view, as all wish."""
        staying = [one for name, one in self.members.items() if name not in self.suspected]
        staying = [one for one in staying if not self._answers[one.name].leaving]
        wanted = {one.name: one for answer in self._answers.values() for one in answer.newcomers}
        newcomers = [one for name, one in sorted(wanted.items()) if name not in {old.name for old in staying}]
        patterns = tuple(self._answers[one.name].patterns for one in staying)
        view = Roster(self.roster.number + 1, (*staying, *newcomers), (*patterns, *((),) * len(newcomers)))
        self._tell_all(view)
        self._on_roster(view)
        self._coordinator = self.name

    # ----------------------------------------------------------------------------------------------------- members

    def _on_flush_request(self, peer: str, request: FlushRequest) -> None:
        if request.number < self.roster.number:
            # It has not heard of our view, for which everybody had flushed.
            self._tell(peer, self.roster)
            return
        if self.name not in self.members:
            raise PeerViolation(f"broker {peer} asked {self.name} to flush a view of which it is no member")
        for name in request.dead:
            self._suspect(name)
        if request.number > self.roster.number or self.coordinator() != peer:
            return
        self.flushing, self._answered = True, False
        self._coordinator, self._attempt = peer, request.attempt
        self._grant_all()
        self._hand_out()
        for name in self.outbox.missing():
            if name in self.hub.links:
                self.hub.ask(name)
        self._note_arrivals()

    def _hand_out(self) -> None:
        """What we have of the dead goes to all its receivers."""
        for sender in sorted(self.suspected & self.members.keys()):
            for cast, entries in self.kept.get(sender, KeptCast()).with_whole_clocks():
                if (sender, cast.serial) in self._handed:
                    continue
                self._handed.add((sender, cast.serial))
                receivers = [name for name in self.targets(cast.batch.topic) if name not in self.suspected]
                ticket = self.outbox.begin(receivers)
                copy = Copied(sender, Cast(cast.view, cast.serial, cast.stable, whole(entries), cast.batch))
                for receiver in receivers:
                    self._tell(receiver, copy, ticket)

    def _on_copied(self, message: Copied) -> None:
        sender, cast = message.sender, message.cast
        if cast.view != self.roster.number or sender not in self.members:
            return
        self._suspect(sender)
        kept = self.kept.setdefault(sender, KeptCast())
        if not kept.has(cast.serial):
            entries = ClockReader().read(cast.clock)
            kept.add(cast, entries)
            self.arrivals.insert(sender, CastArrival(cast, entries))

    def _note_arrivals(self) -> None:
        """Answer the coordinator when everything that we sent has arrived."""
        if not self.flushing or self._answered or self.outbox:
            return
        self._answered = True
        newcomers = tuple(one for name, one in sorted(self._sponsored.items()) if self.members.get(name) != one)
        flushed = Flushed(self._attempt, tuple(self.patterns()), newcomers, self.leaving and self.may_leave())
        if self._coordinator == self.name:
            self._on_flushed(self.name, flushed)
        else:
            self._tell(self._coordinator, flushed)

    def _on_roster(self, roster: Roster) -> None:
        if roster.number <= self.roster.number:
            return
        forced = self.arrivals.force()
        if forced:
            self.hub.out.append(Report("passed_over", detail=f"{forced} casts waited for what died with its senders"))
        for name, contact in self.members.items():
            if contact not in roster.members:
                self._buried[name] = contact.epoch
        self._coordinator = ""
        self._adopt(roster)

    def _adopt(self, roster: Roster) -> None:
        self.places = {one.name: place for place, one in enumerate(roster.members)}
        self.groups = RoutingTable()
        for one, patterns in zip(roster.members, roster.patterns, strict=True):
            for pattern in patterns:
                self.groups.add(pattern, "", one.name)
        self._start_over()
        self.suspected = {name for name in self.suspected if self.members.get(name) in roster.members}
        self.hub.out.append(Report("view", detail=f"view {roster.number}: {', '.join(self.places)}"))
        if self.name not in self.places:
            # We wished to leave, and are out of it.
            self.roster, self.members = roster, {one.name: one for one in roster.members}
            return
        super()._adopt(roster)
        for name in self._others():
            self._watch(name)
        self._begin_view()
        if self.suspected or self.leaving or self._sponsored or self.patterns() != self._patterns_in_view():
            self._wish()

    def patterns(self) -> list[str]:
        """What our clients want, whatever their filters: that makes us a member of groups."""
        return sorted({pattern for pattern, _ in self.clients.distinct()})

    def _patterns_in_view(self) -> list[str]:
        return [pattern for pattern, _ in self.groups.interests(self.name)]

    # ------------------------------------------------------------------------------------------------------- deaths

    def _suspect(self, name: str) -> None:
        """That member is dead: nothing that still comes from it counts, and nothing has to arrive there."""
        member = self.members.get(name)
        if member is None or name in self.suspected or name == self.name:
            return
        self.suspected.add(name)
        self._must_flush = True
        self.hub.out.append(Report("suspect", peer=name))
        self._let_go(member)
        self.outbox.drop(name)
        self.arrivals.forget_questions(name)
        self._grant_all()
        if not self._sponsor_lost(name):
            self._wish()
            self._note_arrivals()

    def _grant_all(self) -> None:
        """What waits may wait for what has died; the flush that decides so must not wait for the credit of it."""
        for arrival in self.arrivals.all():
            self._grant(arrival.link, arrival.arrived)
            arrival.link = None

    def _grant(self, link: Link | None, arrived: SessionMessage | None) -> None:
        """The link gets its credit for what arrived, unless it had it before."""
        if link is not None and arrived is not None:
            self._consumed(link, arrived)

    def _watch(self, name: str) -> None:
        """A member that should come and does not is as good as dead."""
        link = self.hub.links.get(name)
        if self.config.tolerance and (link is None or not link.is_open):
            self.hub.out.append(SetTimer(SUSPECT_TIMER + name, self.config.join_s))

    def timer(self, name: str, now: float) -> Effects:
        if not name.startswith(SUSPECT_TIMER):
            return super().timer(name, now)
        self._now = now
        peer = name.removeprefix(SUSPECT_TIMER)
        link = self.hub.links.get(peer)
        if link is None or not link.is_open:
            if peer in self._sponsored:
                del self._sponsored[peer]
                self.hub.end(peer, f"{peer} was lost before it was a member", say=False)
            if peer in self.members:
                self._suspect(peer)
            else:
                self._sponsor_lost(peer)
        return self.hub.take()

    def link_closed(self, link: Link) -> None:
        super().link_closed(link)
        if link.kind == "broker" and self.config.tolerance:
            self.hub.out.append(SetTimer(SUSPECT_TIMER + link.peer, self.config.suspect_s))

    def link_ended(self, link: Link, reason: str) -> None:
        super().link_ended(link, reason)
        member = self.members.get(link.peer)
        ours = member is not None and (link.dialler or link.session == member.epoch)
        if ours and self.config.tolerance and link.peer != self._leaving_alone:
            self._suspect(link.peer)

    def _let_go(self, member: Contact) -> None:
        # The next one under its name may be a member already, and is not to blame.
        self._leaving_alone = member.name
        super()._let_go(member)
        self._leaving_alone = ""

    def _may_dial(self, name: str) -> bool:
        """Whoever answers in the place of the dead is another one, and dials us itself when it is a member."""
        return name not in self.suspected

    def link_opened(self, link: Link, fresh: bool) -> None:
        super().link_opened(link, fresh)
        self.link_acknowledged(link)

    def link_acknowledged(self, link: Link) -> None:
        if link.kind == "broker" and self.outbox.arrived(link.peer, link.acked):
            self._note_arrivals()
        super().link_acknowledged(link)

    def _went(self, link: Link, ticket: int) -> None:
        self.outbox.sent(ticket, link.peer, link.queued)

    def _tell(self, peer: str, message: SessionMessage, ticket: int = 0) -> None:
        if peer not in self.suspected:
            super()._tell(peer, message, ticket)

    def targets(self, topic: str) -> list[str]:
        return [name for name in super().targets(topic) if name not in self.suspected]

    def admit(self, hello: Hello) -> Refusal | None:
        if hello.kind == "broker" and self._buried.get(hello.node) == hello.session:
            return Refusal("excluded", f"{hello.node} was given up: begin anew")
        return super().admit(hello)

    def link_refused(self, link: Link, refusal: Refusal) -> None:
        if refusal.code == "excluded":
            self.hub.out.append(Restart(refusal.reason))
        elif refusal.code == "unknown-session" and link.peer in self.members:
            # It has begun anew, or has given us up; which, it says when we ask afresh.
            self.hub.set_aside(link.peer)
            self.hub.dial(link.peer, self._now, self.members[link.peer].address)
        else:
            super().link_refused(link, refusal)

    # ------------------------------------------------------------------------------------------------------ leaving

    def stop(self, now: float) -> Effects:
        """Leave with the next view; what our clients published before goes out first."""
        self.leaving = True
        if set(self.members) <= {self.name}:
            self.members = {}
        else:
            self._wish()
        return super().stop(now)

    @abstractmethod
    def may_leave(self) -> bool:
        """Whether nothing of our clients waits."""

    # --------------------------------------------------------------------------------------------------- inspection

    def status(self) -> dict[str, object]:
        return super().status() | {"flushing": self.flushing, "held": sum(self.arrivals.waiting().values())}

    def waiting_for(self) -> list[str]:
        reasons = super().waiting_for()
        if self.flushing:
            reasons.append(f"the end of view {self.roster.number}")
        reasons += [f"{count} casts to arrive at {peer}" for peer, count in self.outbox.missing().items()]
        reasons += [f"what {count} casts of {peer} depend on" for peer, count in self.arrivals.waiting().items()]
        reasons += [f"a view without {name}" for name in sorted(self.suspected)]
        return reasons
