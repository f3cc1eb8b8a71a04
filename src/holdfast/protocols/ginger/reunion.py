"""The search for brokers that were lost and may be alive, and the return to them when the network is whole again.

A repair in which somebody is missed (`absences`) leaves two trees, if the missing are alive. Both serve `eventual`,
`fifo` and `causal`; where `total` goes on, and what a merge puts out of order, is the affair of `majority`. Nothing
that is certain to have happened on one side only is repeated on the other: a total batch that was asked of the lost
neighbour is not asked of anybody else.

Who lost its parent looks for it, and for all that stood before it in the line of succession:

    ROOT OF A PART --Seek--> lost broker --Found--> JOINING it, with all that was processed since --Open--> CHILD again

The other side never looks; so two parts do not join each other. A root that has lost children only asks them whether
they have given it up: if they have, it begins anew. And whoever has lost a child alone asks it whether it is another by
now: one that has begun anew may have gone elsewhere, and nobody else would say so.
"""

from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.model.messages import (
    Refusal,
    Seek,
    Sought,
    Twig,
)
from holdfast.model.terms import Contact
from holdfast.protocols.edges import Phase
from holdfast.protocols.ginger.absences import Absence
from holdfast.protocols.ginger.diaries import THE_ABSENT
from holdfast.protocols.ginger.flush import Flush
from holdfast.protocols.ginger.search import Search, SearchState
from holdfast.protocols.ginger.seek_answers import ANSWERS, Standing, answer_to, has_to_be_joined
from holdfast.protocols.ginger.strays import Strays
from holdfast.protocols.ginger.suspicion import SUSPECT_TIMER
from holdfast.protocols.links import Link
from holdfast.protocols.node import CancelTimer, Disconnect, Effects, Report, Send, SetTimer
from holdfast.protocols.records import RecordId

if TYPE_CHECKING:
    from holdfast.protocols.ginger.repairing_broker import RepairingBroker

SEEK_TIMER = "seek"
CONFIRM_SILENCES = 10
"""A question about a message waits for those out of reach as many times as long as a silence; then it is answered."""
STRAY_TICKS = 8
PROBE_TICKS = 4
"""Who only has to hear whether it was given up need not ask often."""


class Loss(Struct, frozen=True):
    """What is known of those who were above a broker that is the root of its part now."""

    line: tuple[Contact, ...]
    inherited: tuple[Contact, ...]
    """Those for whom an earlier root of the part has looked."""
    cut_off: bool
    """Whether it must be this part that is out of reach."""


class Reunion:
    """The search of one broker for those that it has lost, and its return to them."""

    def __init__(self, broker: "RepairingBroker") -> None:
        self._broker = broker
        self._absences = broker.absences
        self._hub = broker.hub
        self._log = broker.log
        self._view = broker.view
        self._interests = broker.interests
        self._turning = broker.healing_turning
        self._confirmations = broker.confirmations
        self.search, self.strays = Search(broker.hub, broker.neighbours.matters), Strays()
        self._ticks, self._seeking = 0, False
        self._missing_asked: set[str] = set()
        """Of those missing behind lost children the ones that were asked, and may answer.

        1. 1 has lost two children, with somebody behind each, and asks one of either in one tick.
        2. Both take 1 for dead. If 1 remembered one of them, the answer of the other would have it begin anew.
        """
        self._asked_before: frozenset[RecordId] = frozenset()
        """Total batches that were asked of the lost neighbour before we turned to its side."""
        self._tried: tuple[Contact, ...] = ()
        """Our parent and those whom we have turned to in its place, if nobody has let us in since."""
        self._part_broke = False
        """Whether the root of our part is lost, and with it what it kept for those out of reach."""

    # ----------------------------------------------------------------------------------------------------- going apart

    def takes_loss(self, name: str, epoch: int, reason: str) -> bool:
        """Whether the loss of that node ends an attempt to come back to it, and means nothing more."""
        if not self.search.is_returning_to(name):
            return False
        if self._is_news(name, epoch):
            self._resume_search(reason)
        return True

    def before_loss(self, name: str, epoch: int) -> None:
        """That node is about to be given up: it is a stray from then on."""
        if not self._is_news(name, epoch):
            return
        self.strays.note(name, self._view.near())
        if name == self._broker.parent:
            self._tried += self._view.contact_of(name)
            self._part_broke = self._part_broke or bool(self._view.lost)
        self._broker.majority.lose(name)

    def _is_news(self, name: str, epoch: int) -> bool:
        return not self._view.is_gone(name, epoch) and not self._broker.suspicion.lives_on(name, epoch)

    def is_cut_off(self) -> bool:
        """More losses in a row than the tree is made to survive: rather than they, it is we who are out of reach.

        Whoever told the next one alive that all these are dead would have them begin anew, healthy as they are.
        So are we if a merge is interrupted after the link was opened: nobody but that parent has what we still lack.

        What the root of our part has lost, and does not look for yet, counts as one more, if it falls silent itself:
        1. 1 has lost 0, and is repairing that with 3, which is below it. The link between 1 and 3 breaks.
        2. If 3 turned to 2, which 1 has expected in vain, and said that 0 and 1 are dead, 2 would give up 0, its own
           parent, which is healthy, and might turn what 0 has turned already.
        """
        given_up = any(self._view.is_gone(one.name, one.epoch) for one in self._view.lost)
        above = given_up and self._broker.rejoin.parent_fell_silent
        in_a_row = len(self._tried) + above
        return in_a_row > self._broker.config.tolerance or self._broker.majority.settling_merge

    def contests(self, name: str) -> bool:
        """Whether it is in doubt who is out of whose reach: nobody is told meanwhile that it is dead."""
        return any(absence.to_parent and absence.knows(name) for absence in self._absences)

    def greeted(self, peer: str) -> Effects | None:
        """A broker that is just being asked comes by itself; what to answer."""
        if not self._broker.self_doubt.is_probed(peer):
            return None
        # So nobody has to ask it. Our own attempt to reach it ends with this connection.
        self._broker.self_doubt.drop_probe(peer)
        reason = f"{self._broker.name} was just asking for {peer}: try again"
        return [Send(peer, Refusal("not-ready", reason)), Disconnect(peer, reason)]

    def begins_to_rule(self) -> Loss:
        """Nobody is left above this broker; returns what is known of those who were."""
        view = self._view
        line = tuple(dict.fromkeys((*self._tried, *view.line_before_us())))
        cut_off = self.is_cut_off() or len(view.chain) > self._broker.config.tolerance
        inherited, self._tried = view.lost, ()
        self._broker.majority.taken_over()
        # Whoever loses us, too, before this repair has ended, may look for them.
        away = line if cut_off or self._broker.rejoin.parent_fell_silent else ()
        view.lost = tuple(dict.fromkeys((*away, *inherited)))
        if cut_off:
            view.forget_heirs()
        return Loss(line, inherited, cut_off)

    def rules(self, old: str, flush: Flush, loss: Loss) -> None:
        """This broker is the root of its part, and repairs the loss of its parent."""
        line, inherited = loss.line, loss.inherited
        absence = self._absences.find(old)
        if absence is not None:
            absence.to_parent, absence.contacts = True, tuple(dict.fromkeys((*line, *inherited)))
            absence.parent = line[0].name if line else old
            absence.lacks = loss.cut_off
            absence.whole, absence.earlier_root = not inherited, absence.parent if inherited else ""
        missed: tuple[Contact, ...] = ()
        if loss.cut_off:
            # So many at once are not dead, or nobody could help; those around them are not known here.
            flush.silent, flush.unheard, missed = True, True, line
            self._broker.rejoin.begin_epoch()
            self._view.revive((contact.name, contact.epoch) for contact in line)
        elif flush.silent and not flush.waiting:
            # Somebody may come to it whom we do not hear of.
            missed = tuple(contact for contact in line if contact.name == old)
        for contact in missed:
            flush.waiting[contact.name] = Twig(contact.name, "broker", contact.epoch, contact.address)
        passed_over = {old, *(contact.name for contact in missed)}
        self._inherit(tuple(one for one in inherited if one.name not in passed_over), old)
        self._broker.neighbours.tell_down()
        self._broker.majority.recount()

    def _inherit(self, lost: tuple[Contact, ...], root: str) -> None:
        """Go on with the search of a root that has died.

        1. 1 has lost 0 and is the root of its part; it looks for 0, and keeps what the others lack. 1 dies.
        2. 4 is its heir, and repairs that loss with all the others of the part: nobody is missing.
        3. If 4 does not look for 0, nobody does, and there are two trees for ever.
        And what was wanted around the `root` that has died may have its top at 0: 1 has turned nothing total on it.
        """
        if lost:
            self._view.revive((one.name, one.epoch) for one in lost)
            self._absences.inherit(lost, self._broker.now).doubts(self._interests.table.interests(root))
            self._broker.diaries.ask_for_all()
            self._keep_seeking()

    def absence_noted(self, flush: Flush) -> None:
        """A repair is settled: those who have not come to it are missed, and looked for."""
        absence = self._absences.find(flush.key)
        if self._broker.parent is None and not any(one.to_parent for one in self._absences):
            self._view.lost = ()
        if absence is None:
            return
        if absence.to_parent:
            for key in self._absences.unite(absence):
                # What went up to that one waits for this one: nobody else would send it on.
                self._turning.rename(key, absence.key)
            # The others take this epoch for dead; they have to be able to tell us from it.
            self._broker.rejoin.begin_epoch()
            absence.contacts += absence.last_resorts(self._broker.name, self._broker.config.parent)
            self._view.revive((contact.name, contact.epoch) for contact in absence.contacts)
            self._view.lost = absence.contacts
        self._keep_seeking()

    def say_who_is_lost(self) -> None:
        """Of a part's root: everybody below knows whom it looks for. One that looks for nobody takes in others:

        1. 2 looks for 0 and 3. 3 comes to 2, and 0 is dead. 1, which is alone, insists on joining 2.
        2. If 2 still said that it looks for somebody, it would have to be the one that joins, and would not look for 1.
        """
        if self._broker.parent is not None or self._absences.any_begun:
            return
        lost = self._absences.sought(self._view.lost)
        if lost != self._view.lost:
            self._view.lost = lost
            self._broker.neighbours.tell_down()

    def _keep_seeking(self) -> None:
        if not self._seeking:
            self._seeking = True
            self._hub.out.append(SetTimer(SEEK_TIMER, self._broker.config.seek_s))

    # --------------------------------------------------------------------------------------------------------- seeking

    def beat(self) -> None:
        """A heartbeat: whether brokers are missing that nobody looks for."""
        if self._is_short():
            self._keep_seeking()

    def tick(self, now: float) -> None:
        """The timer of the search: ask one of those that are lost, or all of them."""
        self._seeking = False
        self._ticks += 1
        if self._broker.phase is Phase.GONE:
            return
        self._forget_overdue(now)
        patience_s = CONFIRM_SILENCES * self._broker.config.link.silence_s
        self._confirmations.wait_no_longer(THE_ABSENT, patience_s, self._absences.finding())
        if self._broker.parent is None or self.search.is_returning_to(self._broker.parent):
            self._seek(now)
        else:
            self._ask_all_lost(now)
        if any(absence.missing for absence in self._absences) or self._is_short():
            self._keep_seeking()

    def _is_short(self) -> bool:
        """Whether this is a root that counts fewer brokers than there should be, and knows where some were."""
        is_root = self._broker.parent is None and self._broker.phase is Phase.SERVING
        return (
            is_root and bool(self.strays) and self._broker.majority.census.brokers > self._broker.majority.census.size
        )

    def _ask_a_stray(self, now: float) -> None:
        """Ask one of those that were given up whether it is in another tree."""
        stray = self.strays.next()
        if (
            stray.name not in self._hub.links
            and not self._broker.repairs.flushes
            and self._absences.of_parent() is None
        ):
            # 1. The first of two strays is asked, and cannot be reached for long; then the second one is asked.
            # 2. The first takes us for dead. If nobody knew that it was asked, its answer would have us begin anew.
            self.strays.asked = {stray.name, *filter(self._broker.self_doubt.is_probed, self.strays.asked)}
            self._probe(stray, now)

    def _look_for_stray(self, name: str) -> None:
        """It is alive, in another tree: join that, or have it join us."""
        contact = self.strays.get(name)
        if (
            contact is not None
            and self._broker.parent is None
            and not self._broker.repairs.flushes
            and self._absences.of_parent() is None
        ):
            self._hub.out.append(Report("stray", peer=name, detail="it is in another tree"))
            self._view.lost = (contact,)
            self._view.revive([(contact.name, contact.epoch)])
            self._absences.look_for(contact, self._broker.now)
            self._broker.diaries.ask_for_all()
            self._keep_seeking()
            self._broker.rejoin.begin_epoch()
            self._broker.neighbours.tell_down()

    def _forget_overdue(self, now: float) -> None:
        for absence in self._absences.overdue(now, self._broker.config.absent_s):
            detail = f"what {', '.join(sorted(absence.missing))} may lack is kept no longer"
            if absence.to_parent and absence.contacts:
                if absence.whole:
                    self._hub.out.append(Report("gap", peer=absence.key, detail=detail))
                    self._absences.let_go(absence)
                # Total messages wait no longer for a broker that may never come back.
                absence.no_longer_doubted()
                self._turning.ask_others(absence.key)
                continue
            self._hub.out.append(Report("gap", peer=absence.key, detail=detail))
            self._broker.diaries.give_up_absence(absence)

    def _seek(self, now: float) -> None:
        """Ask one of those whom we have lost whether it is there."""
        absence = self._absences.of_parent()
        if absence is not None and self._is_short() and self._ticks % STRAY_TICKS == 0:
            self.strays.widen(absence)
            self.say_who_is_lost()
        if any(flush.key for flush in self._broker.repairs.flushes) or not self.search.has_time():
            return
        if absence is not None and absence.contacts:
            self.search.ask_next(absence, now)
        else:
            self._ask_all_lost(now)

    def _ask_all_lost(self, now: float) -> None:
        if self._is_short() and self._ticks % STRAY_TICKS == 1:
            self._ask_a_stray(now)
        if self._ticks % PROBE_TICKS == 1:
            # What was asked longer ago, and not answered yet, may be answered still.
            self._missing_asked = set(filter(self._broker.self_doubt.is_probed, self._missing_asked))
            for absence in self._absences:
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
            self._missing_asked.add(contact.name)
            self._probe(contact, now)

    def _probe(self, contact: Contact, now: float) -> None:
        if contact.name not in self._hub.links:
            self._broker.self_doubt.add_probe(contact.name)
            self._hub.out.append(CancelTimer(SUSPECT_TIMER + contact.name))
            self._hub.dial(contact.name, now, contact.address)

    def link_opened(self, link: Link) -> bool:
        """Returns whether that link was opened to ask something."""
        if link.dialler and self.search.is_asking(link.peer):
            self.search.say(self._absences.of_parent(), self._broker.config.address)
            return True
        if not self._broker.self_doubt.is_probed(link.peer):
            return False
        if not (self._absences.of(link.peer) or self.strays.get(link.peer)):
            return False
        # It does not take us for dead. Perhaps it is not the one any more whom we have lost.
        lost = {one.name: one.epoch for absence in self._absences for one in absence.contacts}
        for stray in self.strays:
            lost.setdefault(stray.name, stray.epoch)
        self._hub.send(link.peer, Seek(tuple(lost.items()), root=self._view.root()))
        return True

    def unheard(self) -> None:
        """The broker that is asked cannot be reached."""
        self.search.unheard(self._absences.of_parent())

    def nobody_listens(self, peer: str) -> None:
        """The root that we have lost is dead, not out of reach: its machine says so.

        1. 0, the root, loses its power. 1 cannot tell that from a broken network, and total messages wait at 1.
        2. The machine of 0 is there again, without the broker. Clients of 0 that are alive can reach 1 now, too.
        3. So 1 gives them the time to notice that, and to join as in any other repair, and waits no longer.
        """
        now, config = self._broker.now, self._broker.config
        absence = self._absences.of_parent()
        if absence is not None and absence.key == peer:
            if absence.refused_s is None:
                absence.refused_s = now
            if now - absence.refused_s >= config.link.silence_s + config.join_s:
                self._broker.diaries.reborn(peer)

    def link_refused(self, link: Link, refusal: Refusal) -> bool:
        """Returns whether that was an answer to a question of the search."""
        if self._broker.self_doubt.is_probed(link.peer) and self._is_answer(link.peer, refusal):
            return True
        if self.search.is_returning_to(link.peer):
            self._resume_search(refusal.reason)
            return True
        if not self.search.is_asking(link.peer):
            if refusal.code == "unknown-session" and link.peer == self._broker.parent:
                # Somebody answers under that name: it is not we who are out of reach.
                self._tried = ()
            return False
        self.search.give_up()
        absence = self._absences.of_parent()
        if absence is not None:
            self._denied(link.peer, refusal, absence)
        return True

    def _denied(self, peer: str, refusal: Refusal, absence: Absence) -> None:
        if refusal.code == "excluded":
            # The epoch in which we were lost is over for that broker; it will know us by the next one.
            self._broker.rejoin.begin_epoch()
            self._broker.neighbours.tell_down()
            return
        if refusal.code == "moved":
            self._broker.diaries.reborn(peer)
        elif refusal.code == "same-tree":
            self._broker.diaries.returned_elsewhere(peer)
        self.search.refused(peer, refusal, absence)

    def _is_answer(self, peer: str, refusal: Refusal) -> bool:
        """Whether a broker that was only asked has said what became of it, or cannot answer now (`name`: it asks us).

        One that takes us for dead may have heard that from the root of its part, which looks for us.
        """
        excluded = refusal.code == "excluded" and (peer in self.strays.asked or peer in self._missing_asked)
        if refusal.code not in ANSWERS and refusal.code != "name" and not excluded:
            return False
        self._broker.self_doubt.drop_probe(peer)
        if refusal.code == "apart":
            self._look_for_stray(peer)
        elif refusal.code == "moved":
            self._broker.diaries.reborn(peer)
        elif not excluded and refusal.code != "name":
            self.strays.forget(peer)
            self._broker.diaries.returned_elsewhere(peer)
        elif excluded and peer in self.strays.asked:
            # Each of the two has given the other up. It will know us by our next epoch, and say where it is.
            self._broker.rejoin.begin_epoch()
            self._broker.neighbours.tell_down()
        elif excluded:
            self._broker.diaries.given_up_by_the_missing(peer)
        return True

    def link_ended(self, peer: str) -> bool:
        """Returns whether that session was with the broker that is asked."""
        if not self.search.is_asking(peer):
            return False
        self.search.end()
        return True

    # ------------------------------------------------------------------------------------------------------- reunion

    def on_seek(self, link: Link, seek: Seek) -> None:
        settles = self._broker.phase is Phase.SERVING and not self._broker.rejoin.fenced
        answer = answer_to(
            seek,
            link.peer,
            self._view,
            Standing(self._broker.rejoin.life, self._broker.repairs.is_expected(link.peer), settles),
        )
        if isinstance(answer, Refusal):
            self._hub.refuse(link.peer, answer)
            if has_to_be_joined(seek, link.peer, self._view):
                self.on_sought(Sought(Contact(link.peer, link.session, seek.address)))
            return
        if not answer.kept or (seek.keeper not in ("", self._broker.name) and self._absences.of(link.peer) is None):
            # It is expected, but because its keeper is lost, and with that what was kept for it.
            self._broker.repairs.insists(link.peer)
        self._hub.send(link.peer, answer)

    def on_sought(self, sought: Sought) -> None:
        """The root of another part has asked here, and it is our part that has to join it.

        1. 1 and 2 have lost 0, which is dead by now. 2 was told that 1 is dead, so 2 looks for 0 alone.
        2. 1 asks 2, and insists. Of the two the one with the larger name joins the other: that is 2.
        3. If 2 does not hear that 1 is there, it looks for 0 for ever, and there are two trees.
        """
        if self._broker.parent is not None:
            self._broker.send(self._broker.parent, sought)
            return
        absence = self._absences.of_parent()
        if absence is not None and not absence.knows(sought.root.name):
            absence.contacts += (sought.root,)
            self.say_who_is_lost()

    def on_found(self, link: Link) -> None:
        """Join it with everything that was processed here since, and be its child again."""
        absence, peer = self._absences.of_parent(), link.peer
        if self._broker.self_doubt.is_probed(peer):
            # It will come by itself: it looks for us.
            self._broker.self_doubt.end_probe(peer)
        if not self.search.is_asking(peer) or absence is None or self._broker.parent is not None:
            return
        self.search.found()
        # It may have been taken for dead since we look for it. It must not hear that from us.
        self._view.revive((one.name, self._view.last_epoch(one)) for one in absence.contacts)
        self._hub.out.append(Report("repair_start", peer=absence.key, detail=f"asking {peer} to take us back in"))
        self._asked_before = self._turning.asked_of(absence.key)
        self._broker.rejoin.begin_return(peer, absence)
        self._broker.rejoin.join_again(link, absence.key)

    def is_whole(self) -> bool:
        """Whether everything that our side has processed, and the others lack, is kept by somebody."""
        absence = self._absences.of_parent()
        if absence is None or self.search.state is not SearchState.RETURNING:
            return not self._part_broke
        return absence.whole or self.search.contact == absence.earlier_root

    def arrived(self, peer: str) -> None:
        """Our new parent has opened the link: what was kept for its side is unstable traffic on that link now."""
        self._tried = ()
        self._part_broke = False
        if not self.search.is_returning_to(peer):
            return
        self.search.arrived()
        self._log.merge_over(peer)
        self._broker.majority.returned()
        absence = self._absences.of_parent()
        if absence is not None:
            self._absences.end(absence)
            self._broker.diaries.ask_for_less()

    def _resume_search(self, reason: str) -> None:
        """The broker that was to take our part in is lost, or will not: all is as it was before it was asked.

        1. 1 asks 0 to take its part in, and cannot hear the answer: the network is parted again.
        2. An orphan would turn to the next in line and say that 0 is dead. 1 is the root of its part, and 0 is alive.
        3. 0 may have let 1 in, and given it up again. So 1 comes back in another epoch.
        """
        absence, peer = self._absences.of_parent(), self.search.contact
        self.search.end()
        self._hub.out.append(Report("repair_broken", peer=peer, detail=reason))
        self._hub.out.append(CancelTimer(SUSPECT_TIMER + peer))
        self._broker.neighbours.can_be_reached(peer)
        self._broker.majority.begins_join()
        self._broker.rejoin.undo_return(peer)
        if absence is not None:
            self._turning.ask_as_before(peer, absence.key, self._asked_before)
        else:
            # Nobody is looked for any more, so nobody will say what became of it.
            self._turning.ask_others(peer)
        self._broker.rejoin.begin_epoch()
        self._broker.neighbours.tell_down()
        self._broker.majority.recount()
        self._view.settle()
        self._keep_seeking()
        self._broker.repairs.tick()

    # ------------------------------------------------------------------------------------------------------ inspection

    def waiting_for(self) -> list[str]:
        """In words, which total messages wait since their top may be out of reach, and alive."""
        held = self._turning.held_topics()
        return self._absences.doubts(held, self._broker.now, self._broker.config.absent_s)
