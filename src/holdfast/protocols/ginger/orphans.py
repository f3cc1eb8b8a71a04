"""A broker that loses its parent, or has none yet, and turns to another (thesis 000, section 4.2.2).

Of those whom it was told of it asks the next in line, with all that it keeps, and passes nothing up before that one has
opened the link: what it processes meanwhile waits behind the fence. Whoever finds itself first in line is the root.
A newcomer belongs to nobody yet. It has nothing to settle, and simply asks on, each time as another.
"""

from typing import Literal

from holdfast.model.messages import Climb, Dead, Join, Open, Publish, SessionMessage, Twig, Unstable, Upward
from holdfast.model.terms import Contact
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.edges import Phase
from holdfast.protocols.ginger.absences import Absence, take_up
from holdfast.protocols.ginger.doubting import DoubtingBroker
from holdfast.protocols.ginger.expecting import THE_ABSENT
from holdfast.protocols.ginger.flush import Flush
from holdfast.protocols.interests import ALL
from holdfast.protocols.last_numbers import in_parts
from holdfast.protocols.links import Link
from holdfast.protocols.node import Disconnect, Report
from holdfast.protocols.records import Record
from holdfast.protocols.treeview import contacts_in
from holdfast.protocols.wanted_parts import ahead_of_join, at_most, doubtful

REPAIRED = "repair_end"
"""The report of a broker that has a new parent because it lost its old one."""


class OrphanBroker(DoubtingBroker):
    """The joining side of a repair. `HealingBroker` is the whole."""

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        super().__init__(config, incarnation)
        self._opened_as = REPAIRED
        """What is reported when a new parent has opened the link and handed over what was lacking."""
        self._fence_base = self._fence_version = 0
        self._fence_view: tuple[Twig, Dead] = (self.view.twig(), ())
        """What we have told of ourselves and of the dead when we joined."""
        self._parent_fell_silent = False
        self._returning_from = ""
        """Whom we had lost, when we come back to those who have lost us."""
        self._part_broke = False
        """Whether the root of our part is lost, and with it what it kept for those out of reach."""

    def _orphaned(self, old: str) -> None:
        """Turn to the next contact; whoever finds itself first in line is the root now."""
        if self.phase is Phase.JOINING:
            self._ask_elsewhere(old)
            return
        contact = self.view.next_contact()
        if contact is None or contact.name == self.name or self._is_cut_off():
            self._take_over(old)
            return
        self.hub.out.append(Report("repair_start", peer=old, detail=f"asking {contact.name} to take us in"))
        self._turn_to(old, contact.name, contact.address)

    def _ask_elsewhere(self, old: str) -> None:
        """Nobody is known to have let us in: nobody has lost anything, and whom we cannot reach is not dead to others.

        All whom we have heard of are asked in turn, and those whom we were told of at first, again and again: in a new
        epoch, since whoever has let us in and could not tell us has to know us from the one it took in.
        """
        self._begin_epoch()
        self._life = self.view.epoch
        if self.hub.set_aside(old) is not None:
            # Not a refusal: it would begin anew if it heard that it was given up.
            self.hub.out.append(Disconnect(old, "it has not let us in in time"))
        self.view.give_up_on(old)
        self.view.avoided.add(old)
        contact = self.view.next_contact() or self._next_remembered()
        if contact is None or contact.name == self.name:
            self.view.avoided.clear()
            contact = Contact(self.config.parent or old, 0, "")
        self.hub.out.append(Report("joining", peer=contact.name, detail=f"{old} was lost before it has let us in"))
        self._turn_to(old, contact.name, contact.address)

    def _next_remembered(self) -> Contact | None:
        """One of those that an earlier life knew: the broker that we were told to join may be dead."""
        passed_over = {self.name, *self.view.avoided}
        return next((one for one in self.remembered if one.name not in passed_over), None)

    def _turn_to(self, old: str, name: str, address: str) -> None:
        self.parent, self._fenced, self._hold = name, name, 0
        if name != old and old in self.log.flows:
            self.log.relabel(old, name)
            self.interests.rename(old, name)
            self.healing_turning.rename(old, name)
            self.confirmations.rename(old, name)
            self.holes.rename(old, name)
            self.view.also_wait_for(name)
        if any(name in flush.joined for flush in self._flushes):
            # 1. 1 has begun anew, and waits at our door to be let in. 0, our parent, is lost, and we turn to 1.
            # 2. Our connection to 1 takes the place of its own. If 1 were let in all the same, there would be no link.
            self._turn_away(name)
            self.hub.out.append(Disconnect(name, f"{self.name} asks {name} to take it in"))
        self.hub.dial(name, self._now, address)

    def _is_whole(self) -> bool:
        """Whether everything that our side has processed, and the others lack, is kept by somebody."""
        return not self._part_broke

    def _is_cut_off(self) -> bool:
        """Whether it must be us, and not all those whom we have lost."""
        return False

    def _take_over(self, old: str) -> Flush:
        """Nobody is left above us."""
        self.parent, self._fenced, self._hold = None, "", 0
        self.view.become_root()
        self.hub.out.append(Report("root", detail=f"in the place of {old}"))
        siblings = tuple(twig for twig in self.view.siblings if twig.name != self.name)
        return self._begin_repair(old, siblings, self._parent_fell_silent)

    def _join(self, link: Link) -> None:
        """The first words on a link that we dialled."""
        peer = link.peer
        if peer not in self.log.flows:
            self.log.link(peer)
            self.interests.neighbours[peer] = None
            self.interests.suspend(peer)
        # A request that was asked again meanwhile has taken two positions.
        self.log.restack(peer)
        for record, after in self.log.history(peer):
            self.hub.send(peer, Unstable(_flag(record, peer), record.batch, after, max(record.number, 0)))
        self._fence_base, self._fence_version = self.log.flows[peer].sent, self.view.version
        self._fence_view = twig, dead = self.view.twig(), self.view.dead()
        numbers, processed = in_parts(self.processed)
        interests, wanted = ahead_of_join(self._wanted_besides(peer))
        parts: list[SessionMessage] = [*numbers, *interests]
        for part in parts:
            self.hub.send(peer, part)
        join = Join(
            twig,
            self._returning_from,
            dead,
            processed,
            wanted,
            self.view.version,
            0,
            inherited=self.log.inherited(peer, instead=True),
            unconfirmed=at_most(self.interests.unconfirmed(peer)),
            meant=self._meant(link),
            whole=self._is_whole(),
            merging=self.log.is_merging(peer),
            doubtful=doubtful(self.absences.doubted()),
        )
        self.hub.send(peer, join)
        self._fenced = peer

    def _meant(self, link: Link) -> int:
        """Which epoch of the broker that we turn to we mean; 0 is any."""
        if self._returning_from or self.phase is not Phase.SERVING or not self.view.has_others(link.peer):
            return 0
        return self._epoch_of(link)

    def _begin_return(self, peer: str, absence: Absence) -> None:
        """That broker of those whom we have lost will be our parent, if it takes us in."""
        self.parent, self._fenced, self._hold = peer, peer, 0
        take_up(self.log, peer, self.absences.history(absence))
        self.interests.neighbours[peer] = None
        self.interests.suspend(peer)
        # What it wants now it will say; until then everything is kept for it.
        self.interests.learn(peer, [ALL])
        self.healing_turning.rename(absence.key, peer)
        # 1. 1 has lost 0 and 3, both are out of reach, and is asked whether everybody has c3#1. 0 takes 1 in again.
        # 2. If 0 alone were asked now, c3#1 would be confirmed before 3 is back.
        others = any(one.missing and one is not absence for one in self.absences)
        self.confirmations.rename(THE_ABSENT, peer, in_doubt=others)
        self.view.also_wait_for(peer)

    def _undo_return(self, peer: str) -> None:
        """It has not taken us in: we are the root of our part, as before."""
        if self.hub.set_aside(peer) is not None:
            self.hub.out.append(Disconnect(peer, "it has not let us in in time"))
        self._ahead_of.pop(peer, None)
        self._detached_at.pop(peer, None)
        self.parent, self._fenced, self._hold = None, "", 0
        self.log.unlink(peer)
        self.interests.drop(peer)
        self.confirmations.rename(peer, THE_ABSENT)
        self.view.give_up_on(peer)
        self.view.chain = ()

    def _on_open(self, peer: str, message: Open) -> None:
        if peer != self._fenced:
            return
        self._fenced = ""
        unsaid = self._fence_view != (self.view.twig(), self.view.dead())
        self.view.avoided.clear()
        self.view.learn(message.upward)
        for name, epoch in message.dead:
            self.suspect(name, epoch, f"{peer} says so")
        if self.parent != peer or self.phase is Phase.GONE:
            return
        # What was to be said to it before was not sent.
        self.view.deaths.told_nothing(peer)
        self._hold = message.hold
        self._send_behind_fence(peer)
        self.holes.retell(peer)
        self.interests.replace(peer, {peer: message.interests})
        self.confirmations.replace(peer, (peer,), self.interests.table.wants)
        self.view.on_ack(peer, self._fence_version)
        if self.view.version > self._fence_version:
            self._send(peer, self.view.message(peer, True, self.view.version, max(0, self.view.hops - 2), False))
        elif unsaid:
            self._send(peer, self.view.message(peer, True, 0, 0, False))
        if self.phase is Phase.JOINING:
            self._enter(Phase.SERVING)
        self._tell_down()
        if not self._hold:
            self._settled()
        self.names.greet(peer)
        self._tick()

    def _send_behind_fence(self, peer: str) -> None:
        """What was processed for the parent while it had not opened the link."""
        behind = [record for record in self.log.concerning(peer) if record.outs.get(peer, 0) > self._fence_base]
        for record in sorted(behind, key=lambda record: record.outs[peer]):
            self._send(peer, Climb(record.batch) if record.pending else Publish(record.batch))

    def _settled(self) -> None:
        """Everything that the new parent handed over to settle the repair is here."""
        if self.parent is not None:
            self.log.begin(self.parent)
            self.hub.out.append(Report(self._opened_as, peer=self.parent))
        self.turning.pump()

    def _epoch_of(self, link: Link) -> int:
        if not link.dialler:
            return link.session
        known = (*contacts_in(Upward(self.view.chain, self.view.senior, self.view.siblings)), *self.view.lost)
        return next((contact.epoch for contact in known if contact.name == link.peer), 0)


def _flag(record: Record, peer: str) -> Literal["s", "r", "t", "d"]:
    if not record.number or record.was_only_requested(peer):
        return "t" if record.pending else "d"
    return "r" if record.received_from == peer else "s"
