"""A broker that loses its parent, or has none yet, turns to another (thesis 000, section 4.2.2).

Of those whom it was told of it asks the next in line, with all that it keeps, and passes nothing up before that one has
opened the link: what it processes meanwhile waits behind the fence. A broker that finds itself first in line is the
root. A newcomer belongs to nobody yet. It has nothing to settle, and simply asks on, each time as another.
"""

from typing import TYPE_CHECKING, Literal

from holdfast.model.messages import (
    Climb,
    Dead,
    Join,
    Open,
    Publish,
    SessionMessage,
    Twig,
    Unstable,
)
from holdfast.model.terms import Contact
from holdfast.protocols.edges import Phase
from holdfast.protocols.ginger.absences import Absence, take_up
from holdfast.protocols.ginger.diaries import THE_ABSENT
from holdfast.protocols.ginger.flush import Flush
from holdfast.protocols.interests import ALL
from holdfast.protocols.last_numbers import in_parts
from holdfast.protocols.links import Link
from holdfast.protocols.node import Disconnect, Report
from holdfast.protocols.records import Record
from holdfast.protocols.wanted_parts import ahead_of_join, at_most, doubtful

if TYPE_CHECKING:
    from holdfast.protocols.ginger.repairing_broker import RepairingBroker

REPAIRED = "repair_end"
"""The report of a broker that has a new parent because it lost its old one."""


class Rejoin:
    """The joining side of a repair."""

    def __init__(self, broker: "RepairingBroker") -> None:
        self._broker = broker
        self._log = broker.log
        self._hub = broker.hub
        self._view = broker.view
        self._interests = broker.interests
        self._turning = broker.healing_turning
        self._confirmations = broker.confirmations
        self._holes = broker.holes
        self._absences = broker.absences
        self.life: int = broker.hub.incarnation
        """The epoch in which this broker began: of what was before it knows nothing."""
        self.fenced: str = ""
        """The parent that we have asked to take us in, until it opens the link."""
        self.hold: int = 0
        """How many records our new parent will still send to settle the repair."""
        self._opened_as = REPAIRED
        """What is reported when a new parent has opened the link and handed over what was lacking."""
        self._fence_base = self._fence_version = 0
        self._fence_view: tuple[Twig, Dead] = (broker.view.twig(), ())
        """What we have told of ourselves and of the dead when we joined."""
        self.parent_fell_silent: bool = False
        self._returning_from = ""
        """Whom we had lost, when we come back to those who have lost us."""

    def begin_epoch(self) -> None:
        """From now on nobody takes us for whom they knew by this name, or gave up."""
        self._view.epoch += 1
        self._hub.incarnation = self._view.epoch
        self._hub.out += self._broker.notebook.epoch(self._view.epoch)

    def orphaned(self, old: str) -> None:
        """Turn to the next contact; whoever finds itself first in line is the root now."""
        if self._broker.relocation.orphaned(old):
            return
        if self._broker.phase is Phase.JOINING:
            self.ask_elsewhere(old)
            return
        contact = self._view.next_contact()
        if contact is None or contact.name == self._broker.name or self._broker.reunion.is_cut_off():
            self._take_over(old)
            return
        self._hub.out.append(Report("repair_start", peer=old, detail=f"asking {contact.name} to take us in"))
        self._turn_to(old, contact.name, contact.address)

    def ask_elsewhere(self, old: str) -> None:
        """Nobody is known to have let us in: nobody has lost anything, and whom we cannot reach is not dead to others.

        All whom we have heard of are asked in turn, and those whom we were told of at first, again and again: in a new
        epoch, since whoever has let us in and could not tell us has to know us from the one it took in.
        """
        self.begin_epoch()
        self.life = self._view.epoch
        if self._hub.set_aside(old) is not None:
            # Not a refusal: it would begin anew if it heard that it was given up.
            self._hub.out.append(Disconnect(old, "it has not let us in in time"))
        self._view.give_up_on(old)
        self._view.avoided.add(old)
        contact = self._view.next_contact() or self._next_remembered()
        if contact is None or contact.name == self._broker.name:
            self._view.avoided.clear()
            contact = Contact(self._broker.config.parent or old, 0, "")
        self._hub.out.append(Report("joining", peer=contact.name, detail=f"{old} was lost before it has let us in"))
        self._turn_to(old, contact.name, contact.address)

    def _next_remembered(self) -> Contact | None:
        """One of those that an earlier life knew: the broker that we were told to join may be dead."""
        passed_over = {self._broker.name, *self._view.avoided}
        return next((one for one in self._broker.remembered if one.name not in passed_over), None)

    def _turn_to(self, old: str, name: str, address: str) -> None:
        self._broker.parent, self.fenced, self.hold = name, name, 0
        if name != old and old in self._log.flows:
            self._log.relabel(old, name)
            self._interests.rename(old, name)
            self._turning.rename(old, name)
            self._confirmations.rename(old, name)
            self._holes.rename(old, name)
            self._view.also_wait_for(name)
        if any(name in flush.joined for flush in self._broker.repairs.flushes):
            # 1. 1 has begun anew, and waits at our door to be let in. 0, our parent, is lost, and we turn to 1.
            # 2. Our connection to 1 takes the place of its own. If 1 were let in all the same, there would be no link.
            self._broker.repairs.turn_away(name)
            self._hub.out.append(Disconnect(name, f"{self._broker.name} asks {name} to take it in"))
        self._hub.dial(name, self._broker.now, address)

    def lost_parent(self, silent: bool) -> None:
        """The parent is given up; whether it fell silent, and may be out of reach."""
        self.parent_fell_silent = silent

    def switch_parent(self, old: str, new: str, message: Open) -> None:
        """A move ends: the new parent has taken this broker over from the old one, which is no longer a neighbour."""
        self._broker.parent, self.fenced, self.hold = new, new, 0
        self._log.relabel(old, new)
        self._log.restack(new)
        self._interests.rename(old, new)
        self._turning.rename(old, new)
        self._confirmations.rename(old, new)
        self._holes.rename(old, new)
        self._view.also_wait_for(new)
        self._fence_base = self._fence_version = 0
        self._opened_as = "moved"
        self.on_open(new, message)
        self._opened_as = REPAIRED

    def _take_over(self, old: str) -> Flush:
        """Nobody is left above us."""
        loss = self._broker.reunion.begins_to_rule()
        self._broker.parent, self.fenced, self.hold = None, "", 0
        self._view.become_root()
        self._hub.out.append(Report("root", detail=f"in the place of {old}"))
        siblings = tuple(twig for twig in self._view.siblings if twig.name != self._broker.name)
        flush = self._broker.repairs.begin_repair(old, siblings, self.parent_fell_silent)
        self._broker.reunion.rules(old, flush, loss)
        return flush

    def join(self, link: Link) -> None:
        """The first words on a link that we dialled."""
        self._broker.majority.begins_join()
        peer = link.peer
        if peer not in self._log.flows:
            self._log.link(peer)
            self._interests.neighbours[peer] = None
            self._interests.suspend(peer)
        # A request that was asked again meanwhile has taken two positions.
        self._log.restack(peer)
        for record, after in self._log.history(peer):
            self._hub.send(peer, Unstable(_flag(record, peer), record.batch, after, max(record.number, 0)))
        self._fence_base, self._fence_version = self._log.flows[peer].sent, self._view.version
        self._fence_view = twig, dead = self._view.twig(), self._view.dead()
        numbers, processed = in_parts(self._broker.data_path.processed)
        interests, wanted = ahead_of_join(self._broker.neighbours.wanted_besides(peer))
        parts: list[SessionMessage] = [*numbers, *interests]
        for part in parts:
            self._hub.send(peer, part)
        join = Join(
            twig,
            self._returning_from,
            dead,
            processed,
            wanted,
            self._view.version,
            0,
            inherited=self._log.inherited(peer, instead=True),
            unconfirmed=at_most(self._interests.unconfirmed(peer)),
            meant=self._meant(link),
            whole=self._broker.reunion.is_whole(),
            merging=self._log.is_merging(peer),
            doubtful=doubtful(self._absences.doubted()),
            apart=self._broker.majority.is_apart,
        )
        self._hub.send(peer, join)
        self.fenced = peer

    def join_again(self, link: Link, lost: str) -> None:
        """Join a broker of those that this one has lost, `lost` the first of them."""
        self._returning_from = lost
        self.join(link)
        self._returning_from = ""

    def _meant(self, link: Link) -> int:
        """Which epoch of the broker that we turn to we mean; 0 is any."""
        if self._returning_from or self._broker.phase is not Phase.SERVING or not self._view.has_others(link.peer):
            return 0
        return self._broker.neighbours.epoch_of(link)

    def begin_return(self, peer: str, absence: Absence) -> None:
        """That broker of those whom we have lost will be our parent, if it takes us in."""
        self._broker.parent, self.fenced, self.hold = peer, peer, 0
        take_up(self._log, peer, self._absences.history(absence))
        self._interests.neighbours[peer] = None
        self._interests.suspend(peer)
        # What it wants now it will say; until then everything is kept for it.
        self._interests.learn(peer, [ALL])
        self._turning.rename(absence.key, peer)
        # 1. 1 has lost 0 and 3, both are out of reach, and is asked whether everybody has c3#1. 0 takes 1 in again.
        # 2. If 0 alone were asked now, c3#1 would be confirmed before 3 is back.
        others = any(one.missing and one is not absence for one in self._absences)
        self._confirmations.rename(THE_ABSENT, peer, in_doubt=others)
        self._view.also_wait_for(peer)

    def undo_return(self, peer: str) -> None:
        """It has not taken us in: we are the root of our part, as before."""
        if self._hub.set_aside(peer) is not None:
            self._hub.out.append(Disconnect(peer, "it has not let us in in time"))
        self._broker.repairs.ahead_of.pop(peer, None)
        self._broker.sessions.detached_at.pop(peer, None)
        self._broker.parent, self.fenced, self.hold = None, "", 0
        self._log.unlink(peer)
        self._interests.drop(peer)
        self._confirmations.rename(peer, THE_ABSENT)
        self._view.give_up_on(peer)
        self._view.chain = ()

    def on_open(self, peer: str, message: Open) -> None:
        """A broker opens the link to this one."""
        broker = self._broker
        if broker.relocation.on_open(peer, message) or peer != self.fenced:
            return
        broker.reunion.arrived(peer)
        self._let_in(peer, message)
        if broker.parent == peer and broker.phase is not Phase.GONE:
            broker.majority.recount()

    def _let_in(self, peer: str, message: Open) -> None:
        self.fenced = ""
        unsaid = self._fence_view != (self._view.twig(), self._view.dead())
        self._view.avoided.clear()
        self._view.learn(message.upward)
        for name, epoch in message.dead:
            self._broker.suspicion.suspect(name, epoch, f"{peer} says so")
        if self._broker.parent != peer or self._broker.phase is Phase.GONE:
            return
        # What was to be said to it before was not sent.
        self._view.deaths.told_nothing(peer)
        self.hold = message.hold
        self._send_behind_fence(peer)
        self._holes.retell(peer)
        self._interests.replace(peer, {peer: message.interests})
        self._confirmations.replace(peer, (peer,), self._interests.table.wants)
        self._view.on_ack(peer, self._fence_version)
        if self._view.version > self._fence_version:
            self._broker.send(
                peer,
                self._view.message(peer, True, self._view.version, max(0, self._view.hops - 2), False),
            )
        elif unsaid:
            self._broker.send(peer, self._view.message(peer, True, 0, 0, False))
        if self._broker.phase is Phase.JOINING:
            self._broker.enter(Phase.SERVING)
        self._broker.neighbours.tell_down()
        if not self.hold:
            self.settled()
        self._broker.names.greet(peer)
        self._broker.repairs.tick()

    def _send_behind_fence(self, peer: str) -> None:
        """What was processed for the parent while it had not opened the link."""
        behind = [record for record in self._log.concerning(peer) if record.outs.get(peer, 0) > self._fence_base]
        for record in sorted(behind, key=lambda record: record.outs[peer]):
            self._broker.send(peer, Climb(record.batch) if record.pending else Publish(record.batch))

    def settled(self) -> None:
        """Everything that the new parent handed over to settle the repair is here."""
        self._broker.majority.settled()
        if self._broker.parent is not None:
            self._log.begin(self._broker.parent)
            self._hub.out.append(Report(self._opened_as, peer=self._broker.parent))
        self._turning.pump()

    def unsettled(self, topic: str) -> bool:
        """Whether the new parent may still bring something on this topic."""
        parent = self._broker.parent
        return parent is not None and self.is_under_way and self._interests.table.wants(parent, topic)

    @property
    def is_under_way(self) -> bool:
        """Whether a new parent has yet to open the link, or to hand over what settles the repair."""
        return bool(self.fenced or self.hold)

    def handled(self, peer: str) -> None:
        """A publication of that peer has passed: it may be the last that the new parent hands over."""
        if self.hold and peer == self._broker.parent:
            self.hold -= 1
            if not self.hold:
                self.settled()

    def waiting_for(self) -> list[str]:
        """In words, the parent that has yet to open the link."""
        return [f"{self.fenced} to open the link"] if self.fenced else []


def _flag(record: Record, peer: str) -> Literal["s", "r", "t", "d"]:
    if not record.number or record.was_only_requested(peer):
        return "t" if record.pending else "d"
    return "r" if record.received_from == peer else "s"
