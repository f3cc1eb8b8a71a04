"""A Ginger broker that survives the loss of its neighbours (docs/repair.md; docs/papers/ginger.md, 1 to 11).

The problem: a broker dies having passed some messages to some of its neighbours. The idea: whoever were its neighbours
settle that among themselves before the new links carry anything else. Its children, brokers and clients alike, join its
parent with what they keep (`orphans`, `stability`); the parent merges, hands to each what it lacks, and opens the
links (`taking_in`). Only those links wait; everything else flows on. If the coordinator dies in the middle, nothing
special happens: what was joined is unstable traffic like any other, and its holders join the next contact.

Every node keeps its records until they are K-stable and knows the tree K+1 hops around (`treeview`), K being the
tolerance: that many adjacent brokers may be lost before a repair has ended.

A link begins with `Join` and `Open`, for newcomers and for repairs alike. Whoever is suspected is dead in its epoch: it
is refused ever after, and comes back as a newcomer under a later one.
"""

from typing import ClassVar

from msgspec.structs import replace

from holdfast.model.errors import PeerViolation
from holdfast.model.messages import (
    Dead,
    Frame,
    Hello,
    Interest,
    Interests,
    Join,
    Numbers,
    Open,
    Ping,
    Pong,
    Publish,
    Refusal,
    SessionMessage,
    Twig,
    Unstable,
    View,
    ViewAck,
)
from holdfast.model.terms import Contact
from holdfast.protocols.border import Border, Place
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.edges import Phase
from holdfast.protocols.farewells import Farewells
from holdfast.protocols.ginger.border import HEALING_BORDER, check_join, check_open, check_unstable, check_view
from holdfast.protocols.ginger.expecting import JOIN_TIMER, SUSPECT_TIMER
from holdfast.protocols.ginger.flush import Flush
from holdfast.protocols.ginger.orphans import OrphanBroker
from holdfast.protocols.hub import BEAT_TIMER
from holdfast.protocols.links import Link
from holdfast.protocols.node import Disconnect, Effects, Report, Restart, Send, SetTimer
from holdfast.protocols.treeview import find_twigs
from holdfast.protocols.wanted_parts import wanted_by
from holdfast.protocols.watchdog import Watchdog

FIRST_QUESTION = 1 << 32
"""Pings with larger numbers are ours, not the hub's."""
QUESTIONS_MAX = 1000
CHECKED_AT_THE_BORDER = frozenset((Join, Unstable, Numbers, Interests, View, Open))


class HealingBroker(OrphanBroker):
    """One broker of a tree that repairs itself."""

    border: ClassVar[Border] = HEALING_BORDER

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        super().__init__(config, incarnation)
        self.watchdog = Watchdog(config.link.silence_s)
        self._questions = 0
        self._asked_at: dict[int, tuple[str, float]] = {}
        self._round_trip_s: dict[str, float] = {}
        self._unreachable: set[str] = set()
        """Contacts that could not be dialled, and will be given up soon."""
        self.farewells = Farewells(config.session_keep_s)
        self._wanted_above: dict[str, list[Interest]] = {}
        """What a new parent has said so far of what is wanted on its side."""
        self._someone_left = False
        """Whether others have yet to hear that clients of ours have left."""

    # --------------------------------------------------------------------------------------------------- sessions

    def admit(self, hello: Hello) -> Refusal | None:
        if self._is_over(hello):
            return self.names.refusal(hello.node) or self._farewell(hello)
        return super().admit(hello)

    def _is_over(self, hello: Hello) -> bool:
        """Whether the epoch of the one who says hello was given up."""
        if hello.kind == "client":
            return self.farewells.covers(hello.node, hello.session)
        return self.view.is_gone(hello.node, hello.session)

    def _is_broker(self, name: str) -> bool:
        return super()._is_broker(name) or self.view.knows_broker(name)

    def link_opened(self, link: Link, fresh: bool) -> None:
        if link.peer in self._probes:
            self._end_probe(link.peer)
            return
        self._detached_at.pop(link.peer, None)
        self._parted_asleep.discard(link.peer)
        self.hub.out.append(Report("attach" if fresh else "resume", peer=link.peer))
        self.log.say_again(link.peer)
        if link.kind == "broker":
            self._measure(link.peer)
        if fresh and link.dialler:
            self._wanted_above.pop(link.peer, None)
            self._join(link)
        elif fresh:
            self._ahead_of[link.peer] = []

    def _greeted(self, peer: str, hello: Hello) -> Effects | None:
        if self._is_over(hello):
            # Whatever it wants to resume: it has to hear that it was given up, not that its session is unknown.
            refusal = self.names.refusal(hello.node) or self._farewell(hello)
            return [Send(peer, refusal), Disconnect(peer, refusal.reason)]
        return super()._greeted(peer, hello)

    def receive(self, peer: str, frame: Frame, now: float) -> Effects:
        if isinstance(frame, Pong) and frame.number in self._asked_at:
            link_peer, asked_at = self._asked_at.pop(frame.number)
            self._round_trip_s[link_peer] = now - asked_at
        return super().receive(peer, frame, now)

    def _farewell(self, hello: Hello) -> Refusal:
        """To one that was given up."""
        return Refusal("excluded", f"{self.name} has given this epoch of {hello.node} up: begin a new one")

    def _measure(self, peer: str) -> None:
        """Ask once how far away a neighbour is: patience with it depends on that."""
        self._questions += 1
        number = FIRST_QUESTION + self._questions
        self._asked_at[number] = (peer, self._now)
        while len(self._asked_at) > QUESTIONS_MAX:
            del self._asked_at[next(iter(self._asked_at))]
        self.hub.out.append(Send(peer, Ping(number)))

    def _patience_s(self, peer: str) -> float:
        """How long a lost connection may take to come back: the first redial, and a few round trips."""
        return self.config.suspect_s + 6 * self._round_trip_s.get(peer, 0.0) + self.config.link.redial_s

    def _join_s(self, lost: str) -> float:
        """Those below it may be as far away from it, and as patient, as it was from us."""
        return self.config.join_s + 2 * self._patience_s(lost)

    def link_closed(self, link: Link) -> None:
        super().link_closed(link)
        if link.kind == "broker":
            self.hub.out.append(SetTimer(SUSPECT_TIMER + link.peer, self._patience_s(link.peer)))
            if self._now < self._doubt_until:
                self._doubted.add(link.peer)

    def link_refused(self, link: Link, refusal: Refusal) -> None:
        super().link_refused(link, refusal)
        if refusal.code == "excluded":
            self._give_up(refusal.reason)
        elif refusal.code == "unknown-session":
            self.suspect(link.peer, self._epoch_of(link), refusal.reason)
        elif refusal.code == "moved" and link.peer == self._fenced:
            self.view.avoided.add(link.peer)
            self.hub.set_aside(link.peer)
            self._orphaned(link.peer)
        elif link.peer == self.parent and self.hub.links.get(link.peer) is link:
            # It may still know us by an epoch that is over: it will learn.
            self.hub.restore(link)

    def link_ended(self, link: Link, reason: str) -> None:
        self._detached_at.pop(link.peer, None)
        self._ahead_of.pop(link.peer, None)
        self.slow_readers.forget(link.peer)
        self.allowances.forget(link.peer)
        self.hub.out.append(Report("end", peer=link.peer, detail=reason))
        if self.phase is Phase.LEAVING:
            return
        if link.kind == "broker":
            self.suspect(link.peer, self._epoch_of(link), reason)
        elif self._has_joined(link.peer):
            if not link.is_open and any(isinstance(item.message, Publish) for item in (*link.sent, *link.waiting)):
                self._dropped_for.add(link.peer)
            self._client_ended(link.peer, link.session)

    def _client_ended(self, name: str, epoch: int) -> None:
        """Only its broker has to know: nobody turns to a client, and nobody is behind it."""
        self.farewells.add(name, epoch, self._now)
        self.view.lose(name, epoch)
        for flush in self._flushes:
            flush.lose(name, epoch)
        if name in self.log.flows:
            self._client_left(name)
        self._tick()

    def timer(self, name: str, now: float) -> Effects:
        self._now = now
        if name == BEAT_TIMER:
            self._check_sleep(now)
            self._forget_unaccounted()
            for reason in self.watchdog.look(self.waiting_for(), now):
                self.hub.out.append(Report("stuck", detail=f"waits for {reason}"))
            self._write_down_tree()
            self.farewells.expire(now)
        if name.startswith(SUSPECT_TIMER):
            self._suspect_lost(name, now)
        elif name.startswith(JOIN_TIMER):
            self._join_overdue(name.removeprefix(JOIN_TIMER))
        else:
            return super().timer(name, now)
        return self.hub.take()

    def _write_down_tree(self) -> None:
        if self.notebook.durable and self.phase is Phase.SERVING:
            self.hub.out += self.notebook.tree(self.view.near())

    def _suspect_lost(self, timer: str, now: float) -> None:
        link = self.hub.links.get(timer.removeprefix(SUSPECT_TIMER))
        self._unreachable.discard(timer.removeprefix(SUSPECT_TIMER))
        if link is None or link.is_open:
            return
        if not self._matters(link.peer):
            self.hub.set_aside(link.peer)
            self._ahead_of.pop(link.peer, None)
        elif link.peer in self._doubted or now < self._doubt_until:
            # The connection was there when we woke up, and only then turned out to be gone.
            self._doubted.discard(link.peer)
            self._parted_asleep.add(link.peer)
            self._ask_around()
            self.hub.out.append(SetTimer(timer, max(self._doubt_until - now, self._patience_s(link.peer))))
        else:
            self.suspect(link.peer, self._epoch_of(link), "its connection is gone")

    def _has_joined(self, client: str) -> bool:
        """Whether that client belongs here. One that only asked has its session elsewhere, and is nobody's loss."""
        return client in self.log.flows or any(client in flush.joined for flush in self._flushes)

    def _matters(self, peer: str) -> bool:
        """Whether that peer is a neighbour or becomes one; others only came to ask something."""
        coming = any(peer in flush.joined or peer in flush.waiting for flush in self._flushes)
        return coming or peer == self.parent or peer in self.interests.neighbours

    def peer_down(self, peer: str, now: float) -> Effects:
        if peer in self._probes:
            self._drop_probe(peer)
            return self.hub.take()
        # A contact that cannot be reached before it ever let us in counts as lost, too.
        link = self.hub.links.get(peer)
        refused = link is not None and link.dialler and not link.resumable
        first = self.phase is Phase.JOINING and peer == self.parent and bool(self.remembered)
        if refused and (first or peer == self._fenced) and peer not in self._unreachable:
            # Patience counts from the first attempt on: one that is dialled again sooner would never be given up.
            # A broker that begins anew waits longer for its parent, which may be about to do the same.
            self._unreachable.add(peer)
            patience_s = self._patience_s(peer) if peer == self._fenced else self._join_s(peer)
            self.hub.out.append(SetTimer(SUSPECT_TIMER + peer, patience_s))
        return super().peer_down(peer, now)

    def _may_tell(self, peer: str) -> bool:
        return self._is_neighbour(peer) and super()._may_tell(peer)

    def _send(self, peer: str, message: SessionMessage) -> None:
        """What is said to a parent that has not opened the link yet is worked out anew when it does."""
        if self._is_neighbour(peer):
            super()._send(peer, message)

    def _is_neighbour(self, peer: str) -> bool:
        """Not a parent that has yet to open the link, nor whoever waits at the door to be let in.

        A newcomer may wait there under the name of a broker whose loss is repaired: until that repair has ended the
        name stands for a neighbour that is dead.
        """
        return peer != self._fenced and not any(flush.key == peer or peer in flush.joined for flush in self._flushes)

    def _sees_everybody(self) -> bool:
        under_repair = self._fenced or any(flush.key for flush in self._flushes)
        return self.serves_total and not under_repair

    def _give_up(self, reason: str) -> None:
        """We were suspected and are alive: nobody may hear from this epoch any more."""
        self.phase = Phase.GONE
        self.hub.abandon("this broker was given up and begins anew")
        self.hub.out.append(Report("excluded", detail=reason))
        self.hub.out.append(Restart(reason))

    # ---------------------------------------------------------------------------------------------------- messages

    def _place_of(self, link: Link) -> Place:
        peer = link.peer
        if peer in self._early or (self._flushes and any(peer in flush.joined for flush in self._flushes)):
            return Place.JOINER
        if link.kind == "client":
            return Place.CLIENT if peer in self.log.flows else Place.CALLER
        # One whose link carries nothing yet, or whose loss is being repaired, may come to be let in.
        is_neighbour = peer in self.interests.neighbours and self._is_neighbour(peer)
        return Place.NEIGHBOUR if is_neighbour else Place.VISITOR

    def _cross_border(self, link: Link, message: SessionMessage) -> None:
        super()._cross_border(link, message)
        if type(message) in CHECKED_AT_THE_BORDER:
            self._check_contents(link, message)

    def _check_contents(self, link: Link, message: SessionMessage) -> None:
        if isinstance(message, Join):
            ahead = self._ahead_of.get(link.peer, ())
            check_join(link, message, ahead)
            if link.kind == "client" and (problem := self.allowances.problem_of(link.peer, wanted_by(message, ahead))):
                raise PeerViolation(problem)
        elif isinstance(message, Unstable | Numbers | Interests):
            check_unstable(link, self._ahead_of.get(link.peer, ()))
        elif isinstance(message, View):
            check_view(link.peer, message, self.view.hops)
        elif isinstance(message, Open):
            check_open(link.peer, len(self._wanted_above.get(link.peer, ())))

    def link_message(self, link: Link, message: SessionMessage) -> None:
        if isinstance(message, Unstable | Numbers | Interests):
            self.hub.consumed(link, message)
            self._ahead_of.setdefault(link.peer, []).append(message)
        elif isinstance(message, Join):
            self.hub.consumed(link, message)
            wanted = wanted_by(message, self._ahead_of.get(link.peer, ()))
            self._on_join(link, message if wanted is message.interests else replace(message, interests=wanted))
        elif isinstance(message, Open | View | ViewAck) and link.kind == "broker":
            # They overtake what waits in a lane: a repair may have to end before the lane can move.
            self.hub.consumed(link, message)
            self._on_tree(link.peer, message)
        else:
            super().link_message(link, message)

    def _on_tree(self, peer: str, message: Open | View | ViewAck) -> None:
        if isinstance(message, Open):
            wanted = self._wanted_above.setdefault(peer, [])
            wanted += message.interests
            if not message.more:
                del self._wanted_above[peer]
                self._on_open(peer, replace(message, interests=tuple(wanted)))
        elif isinstance(message, View):
            self._on_view(peer, message)
        else:
            self.view.on_ack(peer, message.version)
            self._tick()

    def _handle(self, link: Link, message: SessionMessage) -> None:
        super()._handle(link, message)
        if isinstance(message, Publish) and self._hold and link.peer == self.parent:
            self._hold -= 1
            if not self._hold:
                self._settled()

    def _on_view(self, peer: str, view: View) -> None:
        dead = self.view.dead()
        self._hear_of(view.dead, peer)
        if peer not in self.interests.neighbours or self.phase is Phase.GONE:
            return
        below = () if view.version else self.view.below()
        known = self.view.children.get(peer)
        if view.twigs is not None and known is not None:
            self.view.children[peer] = Twig(known.name, known.kind, known.epoch, known.address, view.twigs)
            if self.parent is None:
                self._tell_down()
        elif view.upward is not None and peer == self.parent and self.view.learn(view.upward):
            self._tell_down()
        # A root may miss whoever has begun anew far away from it, and is dead by now.
        death = self.view.dead() != dead and not view.hops
        left = not view.version and self.view.below() != below
        if (death or left) and self.parent not in (None, peer):
            self._send(self.parent, self.view.message(self.parent, True, 0, 0, False))
        if not view.version:
            return
        if view.hops:
            neighbours = self._neighbours_alive()
            self.view.tell(self.parent, neighbours, view.hops - 1, lambda: self._send(peer, ViewAck(view.version)))
        else:
            self._send(peer, ViewAck(view.version))

    # ---------------------------------------------------------------------------------------------------- suspicion

    def _hear_of(self, dead: Dead, peer: str) -> None:
        for name, epoch in dead:
            if self._is_hearsay(name, epoch, peer):
                self.view.revive([(name, epoch)])
            if peer == self.parent or not self.view.is_rumour(name, epoch):
                self.suspect(name, epoch, f"{peer} says so")

    def _is_hearsay(self, name: str, epoch: int, peer: str) -> bool:
        """Whether that node has just come to us itself, and the one who speaks was not its neighbour.

        Of two that lost each other one is given up. What it has said of the other must not outlive it.
        """
        for flush in self._flushes:
            joiner = flush.joined.get(name)
            if joiner is not None and joiner.join.twig.epoch == epoch:
                return all(below.name != peer for below in joiner.join.twig.twigs)
        return False

    def suspect(self, name: str, epoch: int, reason: str) -> None:
        """That node is dead in that epoch, whatever it may think itself."""
        if name == self.name:
            if epoch >= self.view.epoch and self.phase is not Phase.GONE:
                self._give_up(reason)
            return
        if self.phase is Phase.GONE or self.view.is_gone(name, epoch):
            return
        if self.phase is Phase.JOINING and name == self.parent:
            self._ask_elsewhere(name)
            return
        self.view.bury(name, epoch)
        self.hub.out.append(Report("suspect", peer=name, detail=reason))
        link = self.hub.links.get(name)
        lives_on = self._lives_on(name, epoch)
        contact = self.view.child_contact(name)
        silent = name in self._parted_asleep or (link is not None and self._is_silent(link))
        self._parted_asleep.discard(name)
        below = () if lives_on else self._forget_session(name, epoch)
        for flush in list(self._flushes):
            if flush.lose(name, epoch):
                self._lost_before_it_was_let_in(flush, below or flush.known.get(name, ()))
        if not lives_on:
            self._lose_neighbour(name, below, silent, contact)
            self._outlived(name, epoch)
        self.view.settle()
        self._tick()

    def _lives_on(self, name: str, epoch: int) -> bool:
        """Whether our neighbour of that name is another one than the node that is dead in that epoch.

        The same name may have begun anew already: then it is not our neighbour of today that is dead.
        And a client of ours may have the name of a broker that is dead elsewhere.
        1. 2 has lost 3, taken it for dead, and taken it in again in a later epoch, with six brokers below it.
        2. 2 loses its parent, 1, and turns to 0, which has heard of the death of the earlier 3, and says so in `Open`.
        3. If 2 struck out what 3 has counted, nobody would count it again: there is no majority any more.
        """
        link = self.hub.links.get(name)
        return link is not None and (link.kind == "client" or self._epoch_of(link) > epoch)

    def _lost_before_it_was_let_in(self, flush: Flush, below: tuple[Twig, ...]) -> None:
        """Those below somebody who was to come to a repair come in its place.

        Not those below a broker that comes by itself: until it is let in, they are its part, and one of them is its
        heir. What is kept for them here, if anything, is kept until they are found again (`absences`).
        """
        if flush.key:
            self._expect(flush, below)
        elif not flush.joined:
            self._end_visit(flush)

    def _is_silent(self, link: Link) -> bool:
        """Not one whose connection was closed, however long ago that is."""
        quiet = link.is_open and self._now - link.heard_at >= self.config.link.silence_s
        return quiet or link.fell_silent

    def _lose_neighbour(self, name: str, below: tuple[Twig, ...], silent: bool, contact: tuple[Contact, ...]) -> None:
        if name == self.parent:
            if not self._fenced:
                self._parent_fell_silent = silent
            self._orphaned(name)
        elif name in self.interests.neighbours and not any(flush.key == name for flush in self._flushes):
            self._begin_repair(name, below, silent, contact)

    def _forget_session(self, name: str, epoch: int) -> tuple[Twig, ...]:
        """End the session, drop what it sent and was not processed; returns what was below it."""
        link = self.hub.links.get(name)
        if link is not None and (link.dialler or link.session <= epoch):
            self.hub.refuse(name, Refusal("excluded", f"{self.name} has given {name} up"))
        self.recalls.drop(name)
        below = find_twigs(self.view.children.values(), name)
        self.view.lose(name, epoch)
        self.view.give_up_on(name)
        self.view.deaths.told_nothing(name)
        return below

    def _client_left(self, name: str) -> None:
        self._early_questions.pop(name, None)
        self.log.unlink(name)
        self.interests.drop(name)
        self.confirmations.drop(name)
        self.slow_readers.forget(name)
        self.recalls.drop(name)
        self._session_over(name)
        self.turning.pump()
        self._someone_left = True

    def settle(self, now: float) -> Effects:
        if self._someone_left:
            # Once a turn: a thousand sessions may expire in one, and each would tell of all that are left.
            self._someone_left = False
            if self.parent is None:
                self._tell_down()
            else:
                self._send(self.parent, self.view.message(self.parent, True, 0, 0, False))
        return super().settle(now)
