"""A Ginger broker that survives the loss of its neighbours (docs/repair.md; docs/papers/ginger.md, 1 to 11).

The problem: a broker dies having passed some messages to some of its neighbours. The idea: its former neighbours
settle that among themselves before the new links carry anything else. Its children, brokers and clients alike, join its
parent with what they keep (`rejoin`, `stability`); the parent merges, hands to each what it lacks, and opens the
links (`admissions`). Only those links wait; everything else flows on. If the coordinator dies in the middle, nothing
special happens: what was joined is unstable traffic like any other, and its holders join the next contact.

Every node keeps its records until they are K-stable and knows the tree K+1 hops around (`treeview`), K being the
tolerance: that many adjacent brokers may be lost before a repair has ended.

A link begins with `Join` and `Open`, for newcomers and for repairs alike. A broker that is suspected is dead in its
epoch: it is refused ever after, and comes back as a newcomer under a later one.

The broker owns its parts, each with its own state, and says which of them a message, a timer or the end of a session
goes to:

    data_path    the way of a batch, and the log        repairs        those that are expected, and that have come
    majority     total order in a parted network        admissions     a repair is settled, and they are let in
    neighbours   what each peer is, and what is told    rejoin         this broker turns to another parent
    suspicion    losses, and what follows from them     diaries        those that are missed, and what they lack
    self_doubt   after a sleep                          late_sessions  clients that may still come
    reunion      the search for those out of reach      wards, relocation, tree_shape: moves

Which message goes to which part stands in the tables at the end.
"""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from holdfast.model.batches import Batch
from holdfast.model.messages import (
    Census,
    Counted,
    Found,
    Frame,
    Hello,
    Interests,
    Join,
    Levels,
    Merged,
    Move,
    Numbers,
    Open,
    Pong,
    Publish,
    Refusal,
    Seek,
    SessionMessage,
    Sought,
    Unstable,
    View,
    ViewAck,
)
from holdfast.protocols.border import Border, Place
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.edges import Phase
from holdfast.protocols.farewells import Farewells
from holdfast.protocols.ginger.absences import Absences
from holdfast.protocols.ginger.admissions import Admissions
from holdfast.protocols.ginger.border import HEALING_BORDER
from holdfast.protocols.ginger.broker import GingerBroker
from holdfast.protocols.ginger.data_path import DataPath
from holdfast.protocols.ginger.diaries import Diaries
from holdfast.protocols.ginger.healing_turning import HealingTurning
from holdfast.protocols.ginger.late_clients import LateClients
from holdfast.protocols.ginger.late_sessions import LateSessions
from holdfast.protocols.ginger.majority import Majority
from holdfast.protocols.ginger.neighbours import Neighbours
from holdfast.protocols.ginger.rejoin import Rejoin
from holdfast.protocols.ginger.relocation import Relocation
from holdfast.protocols.ginger.repairs import JOIN_TIMER, Repairs
from holdfast.protocols.ginger.reunion import SEEK_TIMER, Reunion
from holdfast.protocols.ginger.self_doubt import SelfDoubt
from holdfast.protocols.ginger.suspicion import SUSPECT_TIMER, Suspicion
from holdfast.protocols.ginger.tree_shape import TreeShape
from holdfast.protocols.ginger.wards import Wards
from holdfast.protocols.hub import BEAT_TIMER
from holdfast.protocols.links import Link
from holdfast.protocols.node import Disconnect, Effects, Report, Restart, Send, SetTimer
from holdfast.protocols.stability import SURVEY_TIMER, StabilityLog
from holdfast.protocols.treeview import TreeView
from holdfast.protocols.watchdog import Watchdog

CHECKED_AT_THE_BORDER = frozenset((Join, Unstable, Numbers, Interests, View, Open))


class RepairingBroker(GingerBroker):
    """One broker of a tree that repairs itself."""

    border: ClassVar[Border] = HEALING_BORDER

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        super().__init__(config, incarnation)
        self.hub.tolerance = config.tolerance
        self.log: StabilityLog = StabilityLog(config.tolerance)
        self.healing_turning: HealingTurning = HealingTurning(self, self.interests, self._send)
        self.turning = self.healing_turning
        self.view: TreeView = TreeView(config.name, incarnation, config.address, config.tolerance + 1, self._send)
        self.absences: Absences = Absences(config.absent_bytes_max)
        self.late: LateClients = LateClients(config.link.away_bytes_max, config.session_keep_s)
        self.farewells: Farewells = Farewells(config.session_keep_s)
        self.watchdog: Watchdog = Watchdog(config.link.silence_s)
        self.data_path: DataPath = DataPath(self)
        self.neighbours: Neighbours = Neighbours(self)
        self.suspicion: Suspicion = Suspicion(self)
        self.self_doubt: SelfDoubt = SelfDoubt(self)
        self.repairs: Repairs = Repairs(self)
        self.admissions: Admissions = Admissions(self)
        self.rejoin: Rejoin = Rejoin(self)
        self.diaries: Diaries = Diaries(self)
        self.late_sessions: LateSessions = LateSessions(self)
        self.majority: Majority = Majority(self)
        self.reunion: Reunion = Reunion(self)
        self.wards: Wards = Wards(self)
        self.relocation: Relocation = Relocation(self)
        self.tree_shape: TreeShape = TreeShape(self)

    # ------------------------------------------------------------------------------------------- what parts may ask

    @property
    def now(self) -> float:
        """The time of the entry point that is under way."""
        return self._now

    def send(self, peer: str, message: SessionMessage) -> None:
        """To a neighbour or client, if it is one and its link is not frozen."""
        self._send(peer, message)

    @property
    def is_calm(self) -> bool:
        """Whether nothing is going on around here that a move could get in the way of."""
        busy = self.repairs.are_under_way or self.rejoin.is_under_way or self.admissions.settling or len(self.absences)
        return self.phase is Phase.SERVING and not busy

    @property
    def is_moving(self) -> bool:
        """Whether this broker takes part in a move already."""
        return self.wards.is_busy or self.relocation.is_busy or self.tree_shape.is_busy

    def enter(self, phase: Phase) -> None:
        """From now on the broker is in that phase."""
        self._enter(phase)

    def session_over(self, client: str) -> None:
        """A session of ours has ended for good."""
        self._session_over(client)

    def forget_questions(self, client: str) -> None:
        """Nobody waits any more for answers about what that client has published, or for leave to publish more."""
        self._early_questions.pop(client, None)
        self.turning.brake.forget(client)

    def begin_anew(self, reason: str) -> None:
        """This broker was suspected and is alive: nobody may hear from this epoch any more."""
        self.phase = Phase.GONE
        self.hub.abandon("this broker was given up and begins anew")
        self.hub.out.append(Report("excluded", detail=reason))
        self.hub.out.append(Restart(reason))

    # ------------------------------------------------------------------------------------------ the turning's owner

    @property
    def serves_total(self) -> bool:
        return self.majority.serves_total

    @property
    def settling(self) -> bool:
        return self.admissions.settling

    def is_done(self, publisher: str, seq: int) -> bool:
        return self.data_path.is_done(publisher, seq)

    def note_done(self, publisher: str, seq: int) -> None:
        self.data_path.note_done(publisher, seq)

    def unsettled(self, topic: str) -> bool:
        return self.repairs.unsettled(topic) or self.rejoin.unsettled(topic)

    def in_doubt(self, topic: str) -> bool:
        return any(absence.missing and absence.doubt.is_wanted(topic) for absence in self.absences)

    def in_transit(self, topic: str) -> bool:
        return self.wards.wants(topic) or self.tree_shape.moves_for(topic)

    def spread_turned(self, batch: Batch, came_from: str) -> None:  # noqa: ARG002
        self.data_path.turn(self.majority.turning(batch))

    # ------------------------------------------------------------------------------------------------- entry points

    def start(self, now: float) -> Effects:
        self._now = now
        effects = super().start(now)
        if self.parent is None:
            self.majority.recount()
        return effects + self.hub.take()

    def receive(self, peer: str, frame: Frame, now: float) -> Effects:
        if isinstance(frame, Pong):
            self.neighbours.on_pong(frame.number, now)
        return super().receive(peer, frame, now)

    def timer(self, name: str, now: float) -> Effects:
        self._now = now
        if name == SURVEY_TIMER:
            self.data_path.surveyed()
            return []
        if name == SEEK_TIMER:
            self.reunion.tick(now)
        elif name.startswith(SUSPECT_TIMER):
            self.suspicion.suspect_lost(name)
        elif name.startswith(JOIN_TIMER):
            self.repairs.join_overdue(name.removeprefix(JOIN_TIMER))
        elif not self.tree_shape.timer(name):
            if name == BEAT_TIMER:
                self._beat(now)
            return super().timer(name, now)
        return self.hub.take()

    def _beat(self, now: float) -> None:
        self.reunion.beat()
        self.majority.beat(now)
        self.self_doubt.check_sleep(now)
        self.diaries.forget_unaccounted()
        for reason in self.watchdog.look(self.waiting_for(), now):
            self.hub.out.append(Report("stuck", detail=f"waits for {reason}"))
        self.neighbours.write_down_tree()
        self.farewells.expire(now)

    def peer_down(self, peer: str, now: float) -> Effects:
        self._now = now
        if self.reunion.search.is_asking(peer):
            self.reunion.unheard()
        elif self.self_doubt.is_probed(peer):
            self.self_doubt.drop_probe(peer)
        else:
            self.neighbours.unreachable(peer)
            return super().peer_down(peer, now)
        return self.hub.take()

    def nobody_listens(self, peer: str, now: float) -> Effects:
        """See `node.Dialler`."""
        self._now = now
        self.reunion.nobody_listens(peer)
        return self.hub.take()

    def settle(self, now: float) -> Effects:
        self._now = now
        self.tree_shape.settle()
        self.relocation.settle()
        self.neighbours.settle()
        self.late_sessions.settle(now)
        if self.phase is not Phase.GONE:
            self.data_path.settle(now)
        return super().settle(now)

    # --------------------------------------------------------------------------------------------------- sessions

    def admit(self, hello: Hello) -> Refusal | None:
        if self.neighbours.is_over(hello):
            return self.names.refusal(hello.node) or self.neighbours.farewell(hello)
        return super().admit(hello)

    def _is_broker(self, name: str) -> bool:
        return super()._is_broker(name) or self.view.knows_broker(name)

    def _greeted(self, peer: str, hello: Hello) -> Effects | None:
        self.tree_shape.greeted(peer, hello)
        answer = self.reunion.greeted(peer)
        if answer is None and self.neighbours.is_over(hello):
            # Whatever it wants to resume: it has to hear that it was given up, not that its session is unknown.
            refusal = self.names.refusal(hello.node) or self.neighbours.farewell(hello)
            answer = [Send(peer, refusal), Disconnect(peer, refusal.reason)]
        elif answer is None and not hello.resume:
            self.repairs.forget_visit(peer, hello.session)
        return answer

    def link_opened(self, link: Link, fresh: bool) -> None:
        peer = link.peer
        if self.relocation.link_opened(link, fresh) or self.reunion.link_opened(link):
            return
        if self.self_doubt.is_probed(peer):
            self.self_doubt.end_probe(peer)
            return
        self._detached_at.pop(peer, None)
        self.self_doubt.is_back(peer)
        self.hub.out.append(Report("attach" if fresh else "resume", peer=peer))
        self.log.say_again(peer)
        if link.kind == "broker":
            self.neighbours.measure(peer)
        if fresh and link.dialler:
            self.neighbours.opens(peer)
            self.rejoin.join(link)
        elif fresh:
            self.repairs.ahead_of[peer] = []

    def link_closed(self, link: Link) -> None:
        if self.relocation.link_closed(link) or self.reunion.search.is_asking(link.peer):
            return
        super().link_closed(link)
        if link.kind == "broker":
            self.hub.out.append(SetTimer(SUSPECT_TIMER + link.peer, self.neighbours.patience_s(link.peer)))
            self.self_doubt.lost_connection(link.peer)

    def link_refused(self, link: Link, refusal: Refusal) -> None:
        if self.relocation.link_refused(link, refusal) or self.reunion.link_refused(link, refusal):
            return
        super().link_refused(link, refusal)
        if refusal.code == "excluded":
            self.begin_anew(refusal.reason)
        elif refusal.code == "unknown-session":
            self.suspicion.suspect(link.peer, self.neighbours.epoch_of(link), refusal.reason)
        elif refusal.code == "moved" and link.peer == self.rejoin.fenced:
            self.view.avoided.add(link.peer)
            self.hub.set_aside(link.peer)
            self.rejoin.orphaned(link.peer)
        elif link.peer == self.parent and self.hub.links.get(link.peer) is link:
            # It may still know us by an epoch that is over: it will learn.
            self.hub.restore(link)

    def link_ended(self, link: Link, reason: str) -> None:
        over = self.tree_shape.link_ended(link, reason) or self.relocation.link_ended(link)
        if over or self.reunion.link_ended(link.peer):
            return
        self._detached_at.pop(link.peer, None)
        self.repairs.ahead_of.pop(link.peer, None)
        self.neighbours.opens(link.peer)
        self.slow_readers.forget(link.peer)
        self.allowances.forget(link.peer)
        self.hub.out.append(Report("end", peer=link.peer, detail=reason))
        if self.phase is Phase.LEAVING:
            return
        if link.kind == "broker":
            self.suspicion.suspect(link.peer, self.neighbours.epoch_of(link), reason)
        elif self.neighbours.has_joined(link.peer):
            if not link.is_open and any(isinstance(item.message, Publish) for item in (*link.sent, *link.waiting)):
                self.late_sessions.drop(link.peer)
            self.neighbours.client_ended(link.peer, link.session)

    def link_levels(self, link: Link, levels: Levels) -> None:
        self.log.on_levels(link.peer, levels)

    # ---------------------------------------------------------------------------------------------------- messages

    def _place_of(self, link: Link) -> Place:
        return self.neighbours.place_of(link)

    def _cross_border(self, link: Link, message: SessionMessage) -> None:
        super()._cross_border(link, message)
        if type(message) in CHECKED_AT_THE_BORDER:
            self.neighbours.check_contents(link, message)

    def link_message(self, link: Link, message: SessionMessage) -> None:
        handler = FROM_ALL.get(type(message))
        if handler is None and link.kind == "broker":
            handler = FROM_BROKERS.get(type(message))
        if handler is None:
            super().link_message(link, message)
            return
        self.hub.consumed(link, message)
        handler(self, link, message)

    def _handle(self, link: Link, message: SessionMessage) -> None:
        super()._handle(link, message)
        if isinstance(message, Publish):
            self.rejoin.handled(link.peer)
        self.tree_shape.handled(link.peer, message)

    def _handle_from_neighbour(self, peer: str, message: SessionMessage) -> None:
        handler = FROM_NEIGHBOURS.get(type(message))
        if handler is None:
            super()._handle_from_neighbour(peer, message)
        else:
            handler(self, peer, message)

    def on_move(self, peer: str, message: Move) -> None:
        """A step of a move: of a child of this broker, of this broker itself, or of one that comes below it."""
        if not (self.tree_shape.on_move(peer, message) or self.relocation.on_move(peer, message)):
            self.wards.on_move(peer, message)

    def _send(self, peer: str, message: SessionMessage) -> None:
        """What is said to a parent that has not opened the link yet is worked out anew when it does."""
        if not self.relocation.holds_back(peer, message) and self.neighbours.is_neighbour(peer):
            super()._send(peer, message)

    def _told_of_holes(self) -> Iterable[str]:
        """Not those at the door: nothing else travels on their links before `Open`, and then they are told."""
        return [peer for peer in self.hub.links if self.neighbours.is_here(peer)]

    # -------------------------------------------------------------------------------------------------- the data path

    def _accepted(self, client: str, message: Publish) -> Publish | None:
        taken = super()._accepted(client, message)
        return None if taken is None else self.majority.accepted(client, taken)

    def _pass_on(self, message: Publish, arrived_from: str) -> None:
        self.data_path.pass_on(self.majority.marked(message, arrived_from), arrived_from)

    def _highest(self, publisher: str) -> int:
        return max(super()._highest(publisher), self.data_path.highest(publisher))

    def _sees_everybody(self) -> bool:
        under_repair = self.rejoin.fenced or any(flush.key for flush in self.repairs.flushes)
        return self.serves_total and not under_repair

    # -------------------------------------------------------------------------------------------------- inspection

    def status(self) -> dict[str, object]:
        kept: dict[str, object] = {"kept": len(self.log), "kept_bytes": self.log.bytes, "late": self.late.status()}
        absent = {"absent": self.absences.missing()}
        return {**super().status(), **kept, **self.majority.status(), **absent, **self.tree_shape.status()}

    def check_invariants(self) -> None:
        super().check_invariants()
        self.log.check_invariants()

    def waiting_for(self) -> list[str]:
        reasons = [*super().waiting_for(), *self.repairs.waiting_for(), *self.rejoin.waiting_for()]
        reasons += [*self.majority.waiting_for(), *self.reunion.waiting_for()]
        return [*reasons, *self.relocation.waiting_for(), *self.tree_shape.waiting_for()]


# ------------------------------------------------------------------------------- which message goes to which part

Handler = Callable[[RepairingBroker, Link, Any], None]
FROM_ALL: dict[type[SessionMessage], Handler] = {
    Unstable: lambda broker, link, message: broker.repairs.hears(link.peer, message),
    Numbers: lambda broker, link, message: broker.repairs.hears(link.peer, message),
    Interests: lambda broker, link, message: broker.repairs.hears(link.peer, message),
    Join: lambda broker, link, message: broker.repairs.comes(link, message),
}
"""What joiners say, brokers and clients alike."""
FROM_BROKERS: dict[type[SessionMessage], Handler] = {
    Open: lambda broker, link, message: broker.neighbours.on_open(link.peer, message),
    View: lambda broker, link, message: broker.neighbours.on_view(link.peer, message),
    ViewAck: lambda broker, link, message: broker.neighbours.on_view_ack(link.peer, message),
    Seek: lambda broker, link, message: broker.reunion.on_seek(link, message),
    Found: lambda broker, link, _: broker.reunion.on_found(link),
    Census: lambda broker, link, message: broker.majority.on_census(link.peer, message),
    Counted: lambda broker, link, message: broker.majority.on_counted(link.peer, message),
}
"""What brokers say of the tree, also those that are no neighbours."""
FROM_NEIGHBOURS: dict[type[SessionMessage], Callable[[RepairingBroker, str, Any], None]] = {
    Merged: lambda broker, peer, _: broker.majority.merged(peer),
    Sought: lambda broker, _, message: broker.reunion.on_sought(message),
    Move: RepairingBroker.on_move,
}
"""What neighbours say besides what they say in a tree without faults (`broker`): publications, climbs, interests."""
