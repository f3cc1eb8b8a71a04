"""Who is given up, on which evidence, and what follows from it.

A node is given up when its connection is gone for too long, when a neighbour says that it is dead, or when it says so
itself by beginning anew. It is dead in its epoch from then on: it is refused ever after, and comes back as a newcomer
under a later one.
"""

from typing import TYPE_CHECKING

from holdfast.model.messages import (
    Dead,
    Refusal,
    Twig,
)
from holdfast.model.terms import Contact
from holdfast.protocols.edges import Phase
from holdfast.protocols.ginger.flush import Flush
from holdfast.protocols.links import Link
from holdfast.protocols.node import Report, SetTimer
from holdfast.protocols.treeview import find_twigs

if TYPE_CHECKING:
    from holdfast.protocols.ginger.repairing_broker import RepairingBroker

SUSPECT_TIMER = "suspect:"


class Suspicion:
    """The losses at one broker."""

    def __init__(self, broker: "RepairingBroker") -> None:
        self._broker = broker
        self._hub = broker.hub
        self._view = broker.view
        self._interests = broker.interests

    def suspect_lost(self, timer: str) -> None:
        """A neighbour whose connection is gone has not come back in time."""
        broker, name = self._broker, timer.removeprefix(SUSPECT_TIMER)
        link = broker.hub.links.get(name)
        broker.neighbours.can_be_reached(name)
        if link is None or link.is_open:
            return
        if not broker.neighbours.matters(name) or broker.neighbours.has_only_asked(name):
            broker.hub.set_aside(name)
            broker.repairs.ahead_of.pop(name, None)
        elif broker.self_doubt.is_in_doubt_of(name):
            # The connection was there when we woke up, and only then turned out to be gone.
            wait_s = broker.self_doubt.asks_about(name)
            broker.hub.out.append(SetTimer(timer, max(wait_s, broker.neighbours.patience_s(name))))
        else:
            self.suspect(name, broker.neighbours.epoch_of(link), "its connection is gone")

    def hear_of(self, dead: Dead, peer: str) -> None:
        for name, epoch in dead:
            if self._is_hearsay(name, epoch, peer):
                self._view.revive([(name, epoch)])
            if peer == self._broker.parent or not self._view.is_rumour(name, epoch):
                self.suspect(name, epoch, f"{peer} says so")

    def _is_hearsay(self, name: str, epoch: int, peer: str) -> bool:
        """Whether that node has just come to us itself, and the one who speaks was not its neighbour.

        Of two that lost each other one is given up. What it has said of the other must not outlive it.
        """
        for flush in self._broker.repairs.flushes:
            joiner = flush.joined.get(name)
            if joiner is not None and joiner.join.twig.epoch == epoch:
                return all(below.name != peer for below in joiner.join.twig.twigs)
        return False

    def suspect(self, name: str, epoch: int, reason: str) -> None:
        """That node is dead in that epoch, whatever it may think itself."""
        broker = self._broker
        stranded = broker.tree_shape.before_loss(name, epoch)
        is_target = broker.relocation.may_lose(name, epoch)
        broker.wards.before_loss(name, epoch)
        if not broker.reunion.takes_loss(name, epoch, reason):
            broker.reunion.before_loss(name, epoch)
            self._bury(name, epoch, reason)
        if is_target:
            broker.relocation.lost(name)
        broker.tree_shape.after_loss(stranded)

    def _bury(self, name: str, epoch: int, reason: str) -> None:
        if name == self._broker.name:
            if epoch >= self._view.epoch and self._broker.phase is not Phase.GONE:
                self._broker.begin_anew(reason)
            return
        if self._broker.phase is Phase.GONE or self._view.is_gone(name, epoch):
            return
        if self._broker.phase is Phase.JOINING and name == self._broker.parent:
            self._broker.rejoin.ask_elsewhere(name)
            return
        self._view.bury(name, epoch)
        self._hub.out.append(Report("suspect", peer=name, detail=reason))
        link = self._hub.links.get(name)
        lives_on = self.lives_on(name, epoch)
        contact = self._view.child_contact(name)
        silent = self._broker.self_doubt.was_parted_asleep(name) or (link is not None and self._is_silent(link))
        below = () if lives_on else self._forget_session(name, epoch)
        for flush in list(self._broker.repairs.flushes):
            if flush.lose(name, epoch):
                self._lost_before_it_was_let_in(flush, below or flush.known.get(name, ()))
        if not lives_on:
            self.lose_neighbour(name, below, silent, contact)
            self._broker.diaries.outlived(name, epoch)
        self._view.settle()
        self._broker.repairs.tick()

    def lives_on(self, name: str, epoch: int) -> bool:
        """Whether our neighbour of that name is another one than the node that is dead in that epoch.

        The same name may have begun anew already: then it is not our neighbour of today that is dead.
        And a client of ours may have the name of a broker that is dead elsewhere.
        1. 2 has lost 3, taken it for dead, and taken it in again in a later epoch, with six brokers below it.
        2. 2 loses its parent, 1, and turns to 0, which has heard of the death of the earlier 3, and says so in `Open`.
        3. If 2 struck out what 3 has counted, nobody would count it again: there is no majority any more.
        """
        link = self._hub.links.get(name)
        return link is not None and (link.kind == "client" or self._broker.neighbours.epoch_of(link) > epoch)

    def _lost_before_it_was_let_in(self, flush: Flush, below: tuple[Twig, ...]) -> None:
        """Those below somebody who was to come to a repair come in its place.

        Not those below a broker that comes by itself: until it is let in, they are its part, and one of them is its
        heir. What is kept for them here, if anything, is kept until they are found again (`absences`).
        """
        if flush.key:
            self._broker.repairs.expect(flush, below)
        elif not flush.joined:
            self._broker.repairs.end_visit(flush)

    def _is_silent(self, link: Link) -> bool:
        """Not one whose connection was closed, however long ago that is."""
        quiet = link.is_open and self._broker.now - link.heard_at >= self._broker.config.link.silence_s
        return quiet or link.fell_silent

    def lose_neighbour(self, name: str, below: tuple[Twig, ...], silent: bool, contact: tuple[Contact, ...]) -> None:
        """A neighbour is dead: its loss is repaired, unless it is another broker's to repair."""
        if self._broker.tree_shape.keeps_loss((name, below, silent, contact)):
            return
        if name == self._broker.parent:
            if not self._broker.rejoin.fenced:
                self._broker.rejoin.lost_parent(silent)
            self._broker.rejoin.orphaned(name)
        elif name in self._interests.neighbours and not any(
            flush.key == name for flush in self._broker.repairs.flushes
        ):
            self._broker.repairs.begin_repair(name, below, silent, contact)

    def _forget_session(self, name: str, epoch: int) -> tuple[Twig, ...]:
        """End the session, drop what it sent and was not processed; returns what was below it."""
        link = self._hub.links.get(name)
        if link is not None and (link.dialler or link.session <= epoch):
            self._hub.refuse(name, Refusal("excluded", f"{self._broker.name} has given {name} up"))
        self._broker.recalls.drop(name)
        below = find_twigs(self._view.children.values(), name)
        self._view.lose(name, epoch)
        self._view.give_up_on(name)
        self._view.deaths.told_nothing(name)
        return below
