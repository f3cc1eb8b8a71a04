"""A Ginger broker that lives on when the network is parted, and finds the others when it is whole again.

A repair in which somebody is missed (`absences`) leaves two trees, if the missing are alive. Both serve `eventual`,
`fifo` and `causal`; `total` is served where a majority of the configured brokers is (`census`), elsewhere it waits or
is refused, as the publisher chose. Nothing that is certain to have happened on one side only is repeated on the other:
a total batch that was asked of the lost neighbour is not asked of anybody else.

Who lost its parent looks for it, and for all that stood before it in the line of succession:

    ROOT OF A PART --Seek--> lost broker --Found--> JOINING it, with all that was processed since --Open--> CHILD again

The other side never looks; so two parts do not join each other. A root that has lost children only asks them whether
they have given it up: if they have, it begins anew. And whoever has lost a child alone asks it whether it is another by
now: one that has begun anew may have gone elsewhere, and nobody else would say so.

What is merged is the union: each side's order is kept, and nothing crosses that could depend on what it passes. One
thing cannot be kept: a weaker message of the minority may stand before a total one there and behind it here, if they
share a key. Such messages are reported as `crossed`.
"""

from holdfast.model.batches import Batch
from holdfast.model.guarantees import TOTAL
from holdfast.model.messages import (
    Census,
    Counted,
    Found,
    Hello,
    Join,
    Merged,
    Open,
    Publish,
    Refusal,
    Rejected,
    Seek,
    SessionMessage,
    Sought,
    Twig,
)
from holdfast.model.terms import Contact
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.edges import Phase
from holdfast.protocols.ginger.absences import Absence, OwnHistory
from holdfast.protocols.ginger.census import CensusTaker
from holdfast.protocols.ginger.crossings import Crossings
from holdfast.protocols.ginger.expecting import SUSPECT_TIMER, THE_ABSENT
from holdfast.protocols.ginger.flush import Flush
from holdfast.protocols.ginger.healing import HealingBroker
from holdfast.protocols.ginger.search import Search, SearchState
from holdfast.protocols.ginger.seek_answers import ANSWERS, Standing, answer_to, has_to_be_joined
from holdfast.protocols.ginger.strays import Strays
from holdfast.protocols.hub import BEAT_TIMER
from holdfast.protocols.links import Link
from holdfast.protocols.node import CancelTimer, Disconnect, Effects, Report, Send, SetTimer
from holdfast.protocols.records import Record, RecordId

SEEK_TIMER = "seek"
CONFIRM_SILENCES = 10
"""A question about a message waits for those out of reach as many times as long as a silence; then it is answered."""
STRAY_TICKS = 8
PROBE_TICKS = 4
"""Who only has to hear whether it was given up need not ask often."""


class PartitionBroker(HealingBroker):
    """One broker of a tree that may be parted."""

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        super().__init__(config, incarnation)
        self.census = CensusTaker(config.brokers, self._send)
        self._crossings = Crossings(self.log)
        self.search, self.strays = Search(self.hub, self._matters), Strays()
        self._ticks, self._seeking = 0, False
        self._impatient: set[str] = set()
        self._settling_merge = False
        """Whether our new parent is handing over what was processed while we were out of its reach."""
        self._missing_asked = ""
        """The one of those missing behind a lost child that was asked last."""
        self._asked_before: frozenset[RecordId] = frozenset()
        """Total batches that were asked of the lost neighbour before we turned to its side."""
        self._tried: tuple[Contact, ...] = ()
        """Our parent and those whom we have turned to in its place, if nobody has let us in since."""
        self._was_majority, self._ever_majority = True, False
        self._apart = False
        """Whether total messages may have been ordered out of our reach that have yet to come here."""

    def start(self, now: float) -> Effects:
        self._now = now
        effects = super().start(now)
        if self.parent is None:
            self._recount()
        return effects + self.hub.take()

    # ------------------------------------------------------------------------------------------------- the majority

    @property
    def serves_total(self) -> bool:
        return self.census.majority

    def _recount(self) -> None:
        self.census.recount(self.parent, self._children())
        self._verdict()

    def _children(self) -> list[str]:
        return [peer for peer in self.interests.neighbours if peer != self.parent]

    def _verdict(self) -> None:
        """Total batches stop where the majority is lost, and go on where it is found again."""
        if self.census.minority and self._was_majority:
            self._was_majority = False
            self._apart = self._ever_majority
            self.hub.out.append(Report("minority", detail=f"{self.census.size} of {self.census.brokers} brokers"))
        elif self.census.majority:
            if not self._was_majority:
                self.hub.out.append(Report("majority", detail=f"of {self.census.brokers} brokers"))
            self._was_majority = self._ever_majority = True
            self.turning.pump()
        self._tick()

    def _handle_from_neighbour(self, peer: str, message: SessionMessage) -> None:
        if isinstance(message, Merged):
            self._merged(peer)
        elif isinstance(message, Sought):
            self._sought(message)
        else:
            super()._handle_from_neighbour(peer, message)

    def _merged(self, source: str) -> None:
        """Everything that a majority has ordered meanwhile has passed here: tell those who do not know it yet."""
        if self._apart:
            self._apart = False
            others = [peer for peer in self.interests.neighbours if peer != source]
            # What they send before they have got all of it crosses it.
            self._crossings.reunited(others)
            for peer in others:
                self._send(peer, Merged())

    def _is_merging(self, batch: Batch) -> bool:
        return self._settling_merge or super()._is_merging(batch)

    def _settled(self) -> None:
        self._crossings.clear()
        self._settling_merge = False
        super()._settled()

    def _finish_flush(self, flush: Flush) -> None:
        super()._finish_flush(flush)
        brokers = [name for name, joiner in flush.joined.items() if not joiner.is_client]
        if flush.reunion:
            self._crossings.reunited(brokers)
        if flush.reunion and not self._apart:
            for name in brokers:
                self._send(name, Merged())
        elif brokers or (flush.reunion and not any(absence.missing for absence in self.absences)):
            # Or the last of those who were missed are clients, which have come without their broker.
            self._merged("")
        self._say_who_is_lost()

    def _accepted(self, client: str, message: Publish) -> Publish | None:
        taken = super()._accepted(client, message)
        if taken is None or not (self._apart or self.census.minority):
            return taken
        batch = taken.batch
        if batch.guarantee != TOTAL and batch.keys:
            # It takes no part in the total order of its keys: elsewhere that may go on without it.
            return Publish(self.crossed.note(batch))
        if batch.guarantee != TOTAL or not self.census.minority or client not in self._impatient:
            return taken
        reason = f"{self.name} reaches no majority of the {self.census.brokers} brokers: total is not served here now"
        self._send(client, Rejected(0, batch.first, batch.last, reason))
        self.log.came(None, client)
        return None

    def _pass_on(self, message: Publish, arrived_from: str) -> None:
        batch = message.batch
        if batch.guarantee == TOTAL and not self.is_processed(batch.publisher, batch.last):
            settling = bool(self._hold) and arrived_from == self.parent
            if settling or self._apart:
                for crossed in self._crossings.of(batch, arrived_from, settling):
                    self.crossed.note(crossed)
        elif (batch.keys and not batch.crossed) and (
            self._may_cross(batch) or self._crossings.over(batch, arrived_from, self._apart)
        ):
            message = Publish(self.crossed.note(batch))
        super()._pass_on(message, arrived_from)

    def _may_cross(self, batch: Batch) -> bool:
        """Whether that batch is weaker, and passes here before a total one that may have turned out of our reach."""
        return batch.guarantee != TOTAL and bool(batch.keys) and self.in_doubt(batch.topic)

    def spread_turned(self, batch: Batch, came_from: str) -> None:
        if self._may_cross(batch) and not batch.crossed:
            batch = self.crossed.note(batch)
        super().spread_turned(batch, came_from)

    def _spread(self, record: Record, arrived_from: str) -> None:
        super()._spread(record, arrived_from)
        if (self._fenced or self._hold) and self.parent in record.outs:
            crossed = self._crossings.went(record.batch)
            if crossed is not None:
                self.crossed.note(crossed)

    def _join(self, link: Link) -> None:
        self._crossings.clear()
        super()._join(link)

    def _is_blocked(self, flush: Flush) -> bool:
        """Those who are missing may be the majority: nobody acts without them before that is known."""
        return super()._is_blocked(flush) or (bool(flush.missing) and not self.census.is_answered)

    # ----------------------------------------------------------------------------------------------------- messages

    def link_message(self, link: Link, message: SessionMessage) -> None:
        if isinstance(message, Seek | Found | Census | Counted) and link.kind == "broker":
            self.hub.consumed(link, message)
            self._on_parting(link, message)
        else:
            super().link_message(link, message)

    def _on_parting(self, link: Link, message: Seek | Found | Census | Counted) -> None:
        if isinstance(message, Seek):
            self._on_seek(link, message)
        elif isinstance(message, Found):
            self._on_found(link)
        elif isinstance(message, Census):
            if link.peer in self.interests.neighbours:
                self.census.on_census(link.peer, message, self.parent, self._children())
                self._verdict()
        elif link.peer == self.parent:
            self.census.on_counted(message, self._children())
            self._verdict()

    def _on_open(self, peer: str, message: Open) -> None:
        joined = peer == self._fenced
        if joined:
            self._tried = ()
            self._arrived(peer)
        super()._on_open(peer, message)
        if joined and self.parent == peer and self.phase is not Phase.GONE:
            self._recount()

    def _on_join(self, link: Link, join: Join) -> None:
        if join.twig.kind == "client":
            (self._impatient.discard if join.patient else self._impatient.add)(link.peer)
        super()._on_join(link, join)

    def _client_left(self, name: str) -> None:
        super()._client_left(name)
        self._impatient.discard(name)

    def suspect(self, name: str, epoch: int, reason: str) -> None:
        known = not self.view.is_gone(name, epoch) and not self._lives_on(name, epoch)
        if self.search.is_returning_to(name):
            if known:
                self._resume_search(reason)
            return
        if known:
            self.strays.note(name, self.view.near())
        if known and name == self.parent:
            self._tried += self.view.contact_of(name)
            self._part_broke = self._part_broke or bool(self.view.lost)
        if known and name in self.census.below:
            self.census.lose(name)
            if name != self.parent:
                self._recount()
        super().suspect(name, epoch, reason)

    # ----------------------------------------------------------------------------------------------------- going apart

    def _is_cut_off(self) -> bool:
        """More losses in a row than the tree is made to survive: rather than they, it is we who are out of reach.

        Whoever told the next one alive that all these are dead would have them begin anew, healthy as they are.
        So are we if a merge is interrupted after the link was opened: nobody but that parent has what we still lack.
        """
        return len(self._tried) > self.config.tolerance or self._settling_merge

    def _farewell(self, hello: Hello) -> Refusal:
        """While it is in doubt who is out of whose reach, nobody is told that it is dead."""
        contested = any(absence.to_parent and absence.knows(hello.node) for absence in self.absences)
        if contested:
            return Refusal("not-ready", f"{self.name} has yet to find out what became of {hello.node}")
        return super()._farewell(hello)

    def _greeted(self, peer: str, hello: Hello) -> Effects | None:
        if peer in self._probes:
            # It comes by itself, so nobody has to ask it. Our own attempt to reach it ends with this connection.
            self._drop_probe(peer)
            reason = f"{self.name} was just asking for {peer}: try again"
            return [Send(peer, Refusal("not-ready", reason)), Disconnect(peer, reason)]
        return super()._greeted(peer, hello)

    def _take_over(self, old: str) -> Flush:
        line = tuple(dict.fromkeys((*self._tried, *self.view.line_before_us())))
        cut_off = self._is_cut_off() or len(self.view.chain) > self.config.tolerance
        self._tried, inherited, self._settling_merge = (), self.view.lost, False
        # Whoever loses us, too, before this repair has ended, may look for them.
        self.view.lost = tuple(dict.fromkeys((*(line if cut_off or self._parent_fell_silent else ()), *inherited)))
        if cut_off:
            self.view.forget_heirs()
        flush = super()._take_over(old)
        absence = self.absences.find(old)
        if absence is not None:
            absence.to_parent, absence.contacts = True, tuple(dict.fromkeys((*line, *inherited)))
            absence.parent = line[0].name if line else old
            absence.whole, absence.earlier_root = not inherited, absence.parent if inherited else ""
        missed: tuple[Contact, ...] = ()
        if cut_off:
            # So many at once are not dead, or nobody could help; those around them are not known here.
            flush.silent, missed = True, line
            self._begin_epoch()
            self.view.revive((contact.name, contact.epoch) for contact in line)
        elif flush.silent and not flush.waiting:
            # Somebody may come to it whom we do not hear of.
            missed = tuple(contact for contact in line if contact.name == old)
        for contact in missed:
            flush.waiting[contact.name] = Twig(contact.name, "broker", contact.epoch, contact.address)
        passed_over = {old, *(contact.name for contact in missed)}
        self._inherit(tuple(one for one in inherited if one.name not in passed_over), old)
        self._tell_down()
        self._recount()
        return flush

    def _inherit(self, lost: tuple[Contact, ...], root: str) -> None:
        """Go on with the search of a root that has died.

        1. 1 has lost 0 and is the root of its part; it looks for 0, and keeps what the others lack. 1 dies.
        2. 4 is its heir, and repairs that loss with all the others of the part: nobody is missing.
        3. If 4 does not look for 0, nobody does, and there are two trees for ever.
        And what was wanted around the `root` that has died may have its top at 0: 1 has turned nothing total on it.
        """
        if lost:
            self.view.revive((one.name, one.epoch) for one in lost)
            self.absences.inherit(lost, self._now).doubts(self.interests.table.interests(root))
            self._ask_for_all()
            self._keep_seeking()

    def _note_absence(self, flush: Flush, mine: OwnHistory) -> None:
        super()._note_absence(flush, mine)
        absence = self.absences.find(flush.key)
        if self.parent is None and not any(one.to_parent for one in self.absences):
            self.view.lost = ()
        if absence is None:
            return
        if absence.to_parent:
            self.absences.unite(absence)
            # The others take this epoch for dead; they have to be able to tell us from it.
            self._begin_epoch()
            absence.contacts += absence.last_resorts(self.name, self.config.parent)
            self.view.revive((contact.name, contact.epoch) for contact in absence.contacts)
            self.view.lost = absence.contacts
        self._keep_seeking()

    def _say_who_is_lost(self) -> None:
        """Of a part's root: everybody below knows whom it looks for. One that looks for nobody takes in others:

        1. 2 looks for 0 and 3. 3 comes to 2, and 0 is dead. 1, which is alone, insists on joining 2.
        2. If 2 still said that it looks for somebody, it would have to be the one that joins, and would not look for 1.
        """
        if self.parent is not None or self.absences.any_begun:
            return
        lost = self.absences.sought(self.view.lost)
        if lost != self.view.lost:
            self.view.lost = lost
            self._tell_down()

    def _keep_seeking(self) -> None:
        if not self._seeking:
            self._seeking = True
            self.hub.out.append(SetTimer(SEEK_TIMER, self.config.seek_s))

    # --------------------------------------------------------------------------------------------------------- seeking

    def timer(self, name: str, now: float) -> Effects:
        if name != SEEK_TIMER:
            if name == BEAT_TIMER and self._is_short():
                self._keep_seeking()
            return super().timer(name, now)
        self._now = now
        self._seeking = False
        self._ticks += 1
        if self.phase is Phase.GONE:
            return []
        self._forget_overdue(now)
        patience_s = CONFIRM_SILENCES * self.config.link.silence_s
        self.confirmations.wait_no_longer(THE_ABSENT, patience_s, self.absences.finding())
        if self.parent is None or self.search.is_returning_to(self.parent):
            self._seek(now)
        else:
            self._ask_all_lost(now)
        if any(absence.missing for absence in self.absences) or self._is_short():
            self._keep_seeking()
        return self.hub.take()

    def _is_short(self) -> bool:
        """Whether this is a root that counts fewer brokers than there should be, and knows where some were."""
        is_root = self.parent is None and self.phase is Phase.SERVING
        return is_root and bool(self.strays) and self.census.brokers > self.census.size

    def _ask_a_stray(self, now: float) -> None:
        """Ask one of those that were given up whether it is in another tree."""
        stray = self.strays.next()
        if stray.name not in self.hub.links and not self._flushes and self.absences.of_parent() is None:
            self.strays.asked = stray.name
            self._probe(stray, now)

    def _look_for_stray(self, name: str) -> None:
        """It is alive, in another tree: join that, or have it join us."""
        contact = self.strays.get(name)
        if contact is not None and self.parent is None and not self._flushes and self.absences.of_parent() is None:
            self.hub.out.append(Report("stray", peer=name, detail="it is in another tree"))
            self.view.lost = (contact,)
            self.view.revive([(contact.name, contact.epoch)])
            self.absences.look_for(contact, self._now)
            self._ask_for_all()
            self._keep_seeking()
            self._begin_epoch()
            self._tell_down()

    def _forget_overdue(self, now: float) -> None:
        for absence in self.absences.overdue(now, self.config.absent_s):
            detail = f"what {', '.join(sorted(absence.missing))} may lack is kept no longer"
            if absence.to_parent and absence.contacts:
                if absence.whole:
                    self.hub.out.append(Report("gap", peer=absence.key, detail=detail))
                    self.absences.let_go(absence)
                # Total messages wait no longer for a broker that may never come back.
                absence.no_longer_doubted()
                self.healing_turning.ask_others(absence.key)
                continue
            self.hub.out.append(Report("gap", peer=absence.key, detail=detail))
            self._give_up_absence(absence)

    def _seek(self, now: float) -> None:
        """Ask one of those whom we have lost whether it is there."""
        absence = self.absences.of_parent()
        if absence is not None and self._is_short() and self._ticks % STRAY_TICKS == 0:
            self.strays.widen(absence)
            self._say_who_is_lost()
        if any(flush.key for flush in self._flushes) or not self.search.has_time():
            return
        if absence is not None and absence.contacts:
            self.search.ask_next(absence, now)
        else:
            self._ask_all_lost(now)

    def _ask_all_lost(self, now: float) -> None:
        if self._is_short() and self._ticks % STRAY_TICKS == 1:
            self._ask_a_stray(now)
        if self._ticks % PROBE_TICKS == 1:
            for absence in self.absences:
                if absence.missing and not absence.to_parent:
                    self._ask_the_lost(absence, now)

    def _ask_the_lost(self, absence: Absence, now: float) -> None:
        """Ask a lost child whether it has given us up, or has begun anew: nobody may be there to tell us.

        And, one at a time, those who are missing with it. They may be in the tree by now, far away:
        1. 0 has lost 1, with 2 behind it. 1 begins anew, and 0 takes it in.
        2. 2 insists on joining 1. Nobody else tells 0, which would keep everything for 2 for ever.
        """
        for contact in absence.contacts:
            self._probe(contact, now)
        for contact in absence.next_missing():
            self._missing_asked = contact.name
            self._probe(contact, now)

    def _probe(self, contact: Contact, now: float) -> None:
        if contact.name not in self.hub.links:
            self._probes.add(contact.name)
            self.hub.out.append(CancelTimer(SUSPECT_TIMER + contact.name))
            self.hub.dial(contact.name, now, contact.address)

    def link_opened(self, link: Link, fresh: bool) -> None:
        if link.dialler and self.search.is_asking(link.peer):
            self.search.say(self.absences.of_parent(), self.config.address)
        elif link.peer in self._probes and (self.absences.of(link.peer) or self.strays.get(link.peer)):
            # It does not take us for dead. Perhaps it is not the one any more whom we have lost.
            lost = {one.name: one.epoch for absence in self.absences for one in absence.contacts}
            for stray in self.strays:
                lost.setdefault(stray.name, stray.epoch)
            self.hub.send(link.peer, Seek(tuple(lost.items()), root=self.view.root()))
        else:
            super().link_opened(link, fresh)

    def link_closed(self, link: Link) -> None:
        if not self.search.is_asking(link.peer):
            super().link_closed(link)

    def peer_down(self, peer: str, now: float) -> Effects:
        if self.search.is_asking(peer):
            self._now = now
            self.search.unheard(self.absences.of_parent())
            return self.hub.take()
        return super().peer_down(peer, now)

    def nobody_listens(self, peer: str, now: float) -> Effects:
        """A lost neighbour is dead, not out of reach: its machine says so.

        1. 0, the root, loses its power. 1 cannot tell that from a broken network, and total messages wait at 1.
        2. The machine of 0 is there again, without the broker. Clients of 0 that are alive can reach 1 now, too.
        3. So 1 gives them the time to join that they have in any other repair, and waits no longer.
        """
        self._now = now
        for absence in self.absences:
            if absence.key == peer and absence.missing:
                if absence.refused_s is None:
                    absence.refused_s = now
                if now - absence.refused_s >= self.config.join_s:
                    self._reborn(peer)
        return self.hub.take()

    def link_refused(self, link: Link, refusal: Refusal) -> None:
        if link.peer in self._probes and self._is_answer(link.peer, refusal):
            return
        if self.search.is_returning_to(link.peer):
            self._resume_search(refusal.reason)
            return
        if not self.search.is_asking(link.peer):
            if refusal.code == "unknown-session" and link.peer == self.parent:
                # Somebody answers under that name: it is not we who are out of reach.
                self._tried = ()
            super().link_refused(link, refusal)
            return
        self.search.give_up()
        absence = self.absences.of_parent()
        if absence is None:
            return
        if refusal.code == "excluded":
            # The epoch in which we were lost is over for that broker; it will know us by the next one.
            self._begin_epoch()
            self._tell_down()
            return
        if refusal.code == "moved":
            self._reborn(link.peer)
        elif refusal.code == "same-tree":
            self._returned_elsewhere(link.peer)
        self.search.refused(link.peer, refusal, absence)

    def _is_answer(self, peer: str, refusal: Refusal) -> bool:
        """Whether a broker that was only asked has said what became of it, or cannot answer now (`name`: it asks us).

        One that takes us for dead may have heard that from the root of its part, which looks for us.
        """
        excluded = refusal.code == "excluded" and peer in (self.strays.asked, self._missing_asked)
        if refusal.code not in ANSWERS and refusal.code != "name" and not excluded:
            return False
        self._drop_probe(peer)
        if refusal.code == "apart":
            self._look_for_stray(peer)
        elif refusal.code == "moved":
            self._reborn(peer)
        elif not excluded and refusal.code != "name":
            self.strays.forget(peer)
            self._returned_elsewhere(peer)
        elif excluded and peer == self.strays.asked:
            # Each of the two has given the other up. It will know us by our next epoch, and say where it is.
            self._begin_epoch()
            self._tell_down()
        elif excluded:
            self._given_up_by_the_missing(peer)
        return True

    def link_ended(self, link: Link, reason: str) -> None:
        if self.search.is_asking(link.peer):
            self.search.end()
        else:
            super().link_ended(link, reason)

    # ------------------------------------------------------------------------------------------------------- reunion

    def _on_seek(self, link: Link, seek: Seek) -> None:
        settles = self.phase is Phase.SERVING and not self._fenced
        answer = answer_to(seek, link.peer, self.view, Standing(self._life, self._is_expected(link.peer), settles))
        if isinstance(answer, Refusal):
            self.hub.refuse(link.peer, answer)
            if has_to_be_joined(seek, link.peer, self.view):
                self._sought(Sought(Contact(link.peer, link.session, seek.address)))
            return
        if not answer.kept or (seek.keeper not in ("", self.name) and self.absences.of(link.peer) is None):
            # It is expected, but because its keeper is lost, and with that what was kept for it.
            self._insisting.add(link.peer)
        self.hub.send(link.peer, answer)

    def _sought(self, sought: Sought) -> None:
        """The root of another part has asked here, and it is our part that has to join it.

        1. 1 and 2 have lost 0, which is dead by now. 2 was told that 1 is dead, so 2 looks for 0 alone.
        2. 1 asks 2, and insists. Of the two the one with the larger name joins the other: that is 2.
        3. If 2 does not hear that 1 is there, it looks for 0 for ever, and there are two trees.
        """
        if self.parent is not None:
            self._send(self.parent, sought)
            return
        absence = self.absences.of_parent()
        if absence is not None and not absence.knows(sought.root.name):
            absence.contacts += (sought.root,)
            self._say_who_is_lost()

    def _on_found(self, link: Link) -> None:
        """Join it with everything that was processed here since, and be its child again."""
        absence, peer = self.absences.of_parent(), link.peer
        if peer in self._probes:
            # It will come by itself: it looks for us.
            self._end_probe(peer)
        if not self.search.is_asking(peer) or absence is None or self.parent is not None:
            return
        self.search.found()
        # It may have been taken for dead since we look for it. It must not hear that from us.
        self.view.revive((one.name, self.view.last_epoch(one)) for one in absence.contacts)
        self.hub.out.append(Report("repair_start", peer=absence.key, detail=f"asking {peer} to take us back in"))
        self._asked_before = self.healing_turning.asked_of(absence.key)
        self._begin_return(peer, absence)
        self._returning_from = absence.key
        self._join(link)
        self._returning_from = ""

    def _is_whole(self) -> bool:
        absence = self.absences.of_parent()
        if absence is None or self.search.state is not SearchState.RETURNING:
            return super()._is_whole()
        return absence.whole or self.search.contact == absence.earlier_root

    def _arrived(self, peer: str) -> None:
        """Our new parent has opened the link: what was kept for its side is unstable traffic on that link now."""
        self._part_broke = False
        if not self.search.is_returning_to(peer):
            return
        self.search.arrived()
        self.log.merge_over(peer)
        self._settling_merge = True
        absence = self.absences.of_parent()
        if absence is not None:
            self.absences.end(absence)
            self._ask_for_less()

    def _resume_search(self, reason: str) -> None:
        """The broker that was to take our part in is lost, or will not: all is as it was before it was asked.

        1. 1 asks 0 to take its part in, and cannot hear the answer: the network is parted again.
        2. An orphan would turn to the next in line and say that 0 is dead. 1 is the root of its part, and 0 is alive.
        3. 0 may have let 1 in, and given it up again. So 1 comes back in another epoch.
        """
        absence, peer = self.absences.of_parent(), self.search.contact
        self.search.end()
        self.hub.out.append(Report("repair_broken", peer=peer, detail=reason))
        self.hub.out.append(CancelTimer(SUSPECT_TIMER + peer))
        self._unreachable.discard(peer)
        self._crossings.clear()
        self._undo_return(peer)
        if absence is not None:
            self.healing_turning.ask_as_before(peer, absence.key, self._asked_before)
        self._begin_epoch()
        self._tell_down()
        self._recount()
        self.view.settle()
        self._keep_seeking()
        self._tick()

    # ------------------------------------------------------------------------------------------------------ inspection

    def status(self) -> dict[str, object]:
        counted = {"brokers_here": self.census.size, "majority": self.census.majority} if self.census.brokers else {}
        return {**super().status(), **counted, "absent": self.absences.missing()}

    def waiting_for(self) -> list[str]:
        reasons = super().waiting_for()
        if self.census.minority and not self.turning.idle():
            reasons.append(
                f"a majority: {self.census.size} of {self.census.brokers} brokers are here, and total needs more"
            )
        return reasons + self.absences.doubts(self.healing_turning.held_topics(), self._now, self.config.absent_s)
