"""A broker that keeps to a number of neighbours: children beyond that are moved below others, make before break.

The problem: after a repair, or many joins, one broker may have more neighbours than it can serve well. The idea: it
moves one child at a time below another child of its own. P decides, C is moved, S is the new parent:

    P -> C  ask       C connects to S, and tells those below it that S may become its parent
    C -> P  ready
    P -> C  freeze    the link P-C carries nothing more, in either direction
    P -> S  adopt     in the same instant: all that C wants is sent to S from now on, and S keeps it for C
    C -> P  frozen    the last that C has passed is before it
    C -> P  drained   and P is, too: everything that went over the link is stable, no cut and no question crosses it
    P -> S  commit    S is C's parent from here on: S -> C `Open`, and all that was kept
    S -> P  committed

What C gets is gapless and in order: all of P's stream up to `freeze`; then, from S, what P has passed to S behind
`adopt`, and what S has passed to P that P had not taken when it froze the link (`position`). What C sends goes to P up
to `frozen`, and to S after `Open`; all of the former has reached S, as far as S wants it, before `commit` has. Total
batches do not start on what C wants meanwhile, so no cut ever sees the link move.

Until `commit` is sent, P may take everything back (`cancel`, `thaw`): the link was slow for a while. From then on S
decides, and says so. Whoever is lost meanwhile:
- C, before `commit`: P repairs that. After it: whoever of P and S the loss belongs to; P waits until S has said so.
- P: S drops C, if it has not heard `commit`. C asks S whether it is S's child, and joins P's repair if it is not.
- S: P thaws C. After `commit`, C may have heard `Open`: then it joins the repair of S, and otherwise says `thawed`.

A child is moved only below one that comes before it in the line of succession: whoever finds itself first in that line
then has no parent who is alive, moved or not (`treeview`).
"""

from holdfast.model.messages import (
    Confirm,
    ConfirmAck,
    Counted,
    Hello,
    Join,
    Move,
    Publish,
    SessionMessage,
    Subscribe,
    SubscribeAck,
    Twig,
    Unsubscribe,
    UnsubscribeAck,
    View,
    ViewAck,
)
from holdfast.model.terms import Contact
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.ginger.departures import Departure, Moves
from holdfast.protocols.ginger.relocating import OUTBOX_MAX, RelocatingBroker
from holdfast.protocols.links import Link
from holdfast.protocols.node import CancelTimer, Effects, Report, SetTimer
from holdfast.protocols.parents import Candidate, rank

SHAPE_TIMER = "shape"
MOVE_TIMER = "move"
PAUSE_MAX_S = 30.0
"""The pause doubles with every move that was given up, up to this."""
SEARCH_S, ROUNDS_MAX = 2.0, 10
"""So long, and so often, a quiet moment is waited for while nothing is frozen."""
FREEZE_ROUND_TRIPS = 12
BUSY_S = 0.02
"""How long a mover that was busy is left alone."""
SUPERSEDED = (Publish, View, ViewAck, Counted, Confirm, ConfirmAck, SubscribeAck, UnsubscribeAck)
"""What may lie in the outbox at the end of a move: the new parent says the same, or is asked for it again."""


class ShapingBroker(RelocatingBroker):
    """One broker of a tree whose brokers have no more neighbours than they should."""

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        super().__init__(config, incarnation)
        self._departure: Departure | None = None
        self._departed: set[str] = set()
        """Former children whose old connection has yet to close."""
        self.moves = Moves()
        self._pause_s = config.move_pause_s
        self._shape_set = False

    @property
    def _is_moving(self) -> bool:
        return super()._is_moving or self._departure is not None

    # ------------------------------------------------------------------------------------------------------- deciding

    def _child_brokers(self) -> list[str]:
        """In the line of succession."""
        children = [one for one in self._children() if one in self.view.children and not self._is_ward(one)]
        line = {contact.name: place for place, contact in enumerate(self.view.senior)} if self.parent is None else {}
        order = {name: place for place, name in enumerate(self.view.children)}
        return sorted(children, key=lambda name: (line.get(name, len(line)), order[name]))

    @property
    def degree(self) -> int:
        """How many brokers are neighbours of this one."""
        return len(self._child_brokers()) + (self.parent is not None)

    @property
    def _has_too_many(self) -> bool:
        return 0 < self.config.degree_max < self.degree

    def _brokers_below(self, child: str) -> int:
        return sum(twig.kind == "broker" for twig in self.view.children[child].twigs)

    def _candidate(self, name: str, mover: str) -> Candidate:
        table, link = self.interests.table, self.hub.links[name]
        return Candidate(
            name,
            round_trip_s=self._round_trip_s.get(name, 0.0),
            common_topics=len({*table.interests(name)} & {*table.interests(mover)}),
            degree=self._brokers_below(name) + 1,
            backlog_bytes=link.backlog_bytes,
        )

    def _choose(self) -> tuple[str, str] | None:
        """Whom to move below whom: first who has the fewest below it, then the most junior.

        After every move that was given up another one is tried.
        """
        children = [name for name in self._child_brokers() if name in self.hub.links and self.hub.links[name].is_open]
        movers = sorted(children[:0:-1], key=self._brokers_below)
        skip = self.moves.given_up % len(movers) if movers else 0
        for mover in movers[skip:] + movers[:skip]:
            before = children[: children.index(mover)]
            found = rank([self._candidate(name, mover) for name in before], self.config.degree_max)
            if found:
                return mover, found[0].name
        return None

    def settle(self, now: float) -> Effects:
        self._now = now
        if self._departure is not None:
            self._pursue(self._departure)
        elif not self._shape_set and self._has_too_many:
            self._shape_set = True
            self.hub.out.append(SetTimer(SHAPE_TIMER, self._pause_s))
        return super().settle(now)

    def timer(self, name: str, now: float) -> Effects:
        if name == SHAPE_TIMER:
            self._now, self._shape_set = now, False
            if self._has_too_many and self._is_calm and not self._is_moving:
                self._begin_move()
        elif name == MOVE_TIMER:
            self._now = now
            self._move_overdue()
        else:
            return super().timer(name, now)
        return self.hub.take()

    def _move_overdue(self) -> None:
        """A frozen link must not stay so; as long as nothing is, a quiet moment may be waited for."""
        departure = self._departure
        if departure is None or departure.committed:
            return
        departure.rounds += 1
        if departure.froze or departure.rounds > ROUNDS_MAX:
            self._give_move_up("it took too long")
        else:
            self.hub.out.append(SetTimer(MOVE_TIMER, SEARCH_S))

    def _begin_move(self) -> None:
        chosen = self._choose()
        if chosen is None:
            return
        mover, target = chosen
        self.moves.begun += 1
        self._departure = Departure(self.moves.begun, mover, target)
        twig = self.view.children[target]
        contact = Contact(twig.name, twig.epoch, twig.address)
        self._send(mover, Move("ask", self.moves.begun, mover, contact=contact))
        self.hub.out.append(SetTimer(MOVE_TIMER, SEARCH_S))
        self.hub.out.append(Report("move_start", peer=mover, detail=f"below {target}"))

    # --------------------------------------------------------------------------------------------------------- a move

    def _pursue(self, departure: Departure) -> None:
        """Go on with the move as far as it can go now."""
        if departure.committed:
            return
        if not self._is_calm:
            self._give_move_up("something else has to be repaired first")
        elif len(self._outbox) > OUTBOX_MAX:
            self._give_move_up("too much is waiting")
        elif not departure.froze:
            if departure.ready and self._now >= departure.not_before and self._is_quiet(departure.mover):
                self._freeze_link(departure)
        elif departure.is_frozen and departure.drained and departure.adopted and self._may_commit(departure):
            departure.committed = True
            size = self.census.below.get(departure.mover, 0)
            self._send(departure.target, Move("commit", departure.serial, departure.mover, size=size))

    def _freeze_s(self, mover: str) -> float:
        """How long a link may be frozen: what went over it becomes stable within a few round trips."""
        return self.config.move_s + FREEZE_ROUND_TRIPS * self._round_trip_s.get(mover, 0.0)

    def _is_quiet(self, mover: str) -> bool:
        """Whether nothing is under way between us that waits for an answer."""
        waiting = self.interests.waiting.get(mover, 0) or self.confirmations.awaits(mover)
        return not waiting and not self.healing_turning.involves(mover) and not self._is_asked_for(mover)

    def _is_asked_for(self, mover: str) -> bool:
        """Whether a total batch is under way that has to cross the link: nothing behind it would become stable."""
        wants = self.interests.table.wants
        return any(
            record.pending and (record.concerns(mover) or wants(mover, record.batch.topic))
            for record in self.log.records()
        )

    def _freeze_link(self, departure: Departure) -> None:
        mover, target = departure.mover, departure.target
        departure.twig = self.view.children[mover]
        departure.interests = tuple(self.interests.table.interests(mover))
        self.hub.send(mover, Move("freeze", departure.serial, mover))
        departure.base = self._freeze(mover)
        departure.lent = self.interests.lend(departure.interests, target)
        position = self.log.flows[target].received
        adopt = Move("adopt", departure.serial, mover, None, departure.twig, departure.interests, position)
        self._send(target, adopt)
        self.hub.out.append(SetTimer(MOVE_TIMER, self._freeze_s(mover)))

    def _may_commit(self, departure: Departure) -> bool:
        mover = departure.mover
        superseded = all(isinstance(message, SUPERSEDED) for message in self._outbox)
        return superseded and not self.interests.waiting.get(mover, 0) and self._is_drained(mover, departure.base)

    def _handle(self, link: Link, message: SessionMessage) -> None:
        super()._handle(link, message)
        departure = self._departure
        if departure is None or not departure.froze or link.peer != departure.target:
            return
        # What the new parent wants itself it keeps, whatever becomes of the move; what the mover wants it gets.
        if isinstance(message, Subscribe):
            departure.lent.discard((message.pattern, message.where))
        elif isinstance(message, Unsubscribe) and (message.pattern, message.where) in departure.interests:
            departure.lent |= self.interests.lend([(message.pattern, message.where)], departure.target)

    def _on_move(self, peer: str, move: Move) -> None:
        departure = self._departure
        if departure is None or move.serial != departure.serial or peer not in (departure.mover, departure.target):
            super()._on_move(peer, move)
        elif peer == departure.mover:
            self._on_step_of_mover(departure, move)
        elif move.step == "adopted":
            departure.adopted = True
        elif move.step == "committed":
            self._let_go(departure)
        elif move.step == "declined":
            self._declined(departure, peer)

    def _on_step_of_mover(self, departure: Departure, move: Move) -> None:
        if move.step == "ready":
            departure.ready = True
        elif move.step == "frozen":
            departure.is_frozen = True
        elif move.step == "drained":
            departure.drained = True
        elif move.step == "declined" and not departure.committed:
            if departure.froze:
                self._try_again(departure)
            else:
                self._declined(departure, departure.mover)
        elif move.step == "thawed" and departure.stranded:
            self._regain(departure)

    def _try_again(self, departure: Departure) -> None:
        """The mover was busy: the link is not frozen on its side."""
        self._take_back(departure, say=True)
        departure.twig, departure.adopted = None, False
        departure.not_before = self._now + BUSY_S
        self.turning.pump()

    def _take_back(self, departure: Departure, say: bool) -> None:
        self._unfreeze(say)
        self.interests.take_back(departure.lent, departure.target)
        self._send(departure.target, Move("cancel", departure.serial, departure.mover))

    def _declined(self, departure: Departure, peer: str) -> None:
        departure.committed = False
        loss = departure.loss
        self._give_move_up(f"{peer} declined")
        if loss is not None:
            super()._lose_neighbour(*loss)
        elif departure.mover in self.interests.neighbours and departure.mover not in self.hub.links:
            epoch = departure.twig.epoch if departure.twig is not None else 0
            self.suspect(departure.mover, epoch, "its connection is gone")
        self._hear_held(departure)

    # ------------------------------------------------------------------------------------------------- how a move ends

    def _give_move_up(self, reason: str) -> None:
        """As if nothing had been: the mover stays our child, and its link was merely slow."""
        departure, self._departure = self._departure, None
        if departure is None:
            return
        alive = departure.mover in self.hub.links and departure.loss is None
        if alive:
            self.hub.send(departure.mover, Move("thaw", departure.serial, departure.mover))
        if departure.froze:
            self._take_back(departure, alive)
        self.moves.given_up += 1
        self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)
        self.hub.out += [CancelTimer(MOVE_TIMER), Report("move_given_up", peer=departure.mover, detail=reason)]
        self.turning.pump()

    def _let_go(self, departure: Departure) -> None:
        """The new parent has it."""
        mover, target = departure.mover, departure.target
        self._departure = None
        self._unfreeze(say=False)
        twig = self.view.children.pop(mover, None) or departure.twig
        self.interests.replace(mover, {})
        self.healing_turning.replace(mover)
        self.confirmations.replace(mover, (), self.interests.table.wants)
        self.log.unlink(mover)
        self.view.give_up_on(mover)
        self._detached_at.pop(mover, None)
        self._departed.add(mover)
        if twig is not None:
            self._put_below(target, twig)
            self._disown(twig)
        size = self.census.below.pop(mover, 0)
        if size and target in self.census.below:
            self.census.below[target] += size
        self.moves.done += 1
        self._pause_s = self.config.move_pause_s
        self.hub.out += [CancelTimer(MOVE_TIMER), Report("move_end", peer=mover, detail=f"below {target}")]
        self._tell(self.view.hops - 2)
        self.view.settle()
        self.turning.pump()
        self._tick()
        self._hear_held(departure)

    def _put_below(self, target: str, mover: Twig) -> None:
        """So that it is expected here if the new parent dies before it has said itself who is below it."""
        above = self.view.children.get(target)
        if above is not None and all(twig.name != mover.name for twig in above.twigs):
            twigs = (*above.twigs, mover)
            self.view.children[target] = Twig(above.name, above.kind, above.epoch, above.address, twigs)

    def _regain(self, departure: Departure) -> None:
        """The new parent died before it had the mover: that is our child as before."""
        self._departure = None
        self.moves.given_up += 1
        self._unfreeze(say=True)
        self.interests.take_back(departure.lent, departure.target)
        for flush in self._flushes:
            flush.waiting.pop(departure.mover, None)
        self.hub.out.append(Report("move_given_up", peer=departure.mover, detail=f"{departure.target} is lost"))
        self.turning.pump()
        self._tick()

    # ------------------------------------------------------------------------------------------------ losing somebody

    def in_transit(self, topic: str) -> bool:
        departure, wants = self._departure, self.interests.table.wants
        moves = departure is not None and departure.froze and wants(departure.mover, topic)
        return super().in_transit(topic) or moves

    def _matters(self, peer: str) -> bool:
        departure = self._departure
        decided = departure is not None and departure.committed and departure.mover == peer
        return super()._matters(peer) and not decided

    def link_ended(self, link: Link, reason: str) -> None:
        if self._has_left(link.peer):
            self.hub.out.append(Report("end", peer=link.peer, detail=reason))
        else:
            super().link_ended(link, reason)

    def suspect(self, name: str, epoch: int, reason: str) -> None:
        departure = self._departure
        if departure is None or name not in (departure.mover, departure.target) or self.view.is_gone(name, epoch):
            super().suspect(name, epoch, reason)
        elif name == departure.mover:
            if departure.stranded:
                # Whoever was below it is expected in the place of the new parent.
                self._let_go(departure)
            super().suspect(name, epoch, reason)
        elif departure.committed:
            self._strand(departure, epoch, reason)
        else:
            self._give_move_up(f"{name} is lost")
            super().suspect(name, epoch, reason)

    def _strand(self, departure: Departure, epoch: int, reason: str) -> None:
        """The new parent is dead: only the mover knows whether it had been taken in."""
        mover, loss = departure.mover, departure.loss
        departure.stranded = True
        if loss is not None:
            self._put_below(departure.target, departure.twig or self.view.children[mover])
            self._let_go(departure)
        super().suspect(departure.target, epoch, reason)
        if self._departure is not departure or departure.twig is None:
            return
        for flush in self._flushes:
            if flush.key == departure.target:
                flush.waiting[mover] = departure.twig
                flush.known[mover] = departure.twig.twigs
        if mover in self.hub.links:
            # Our own side thaws when it answers: if it has left already, this session is over.
            self.hub.send(mover, Move("thaw", departure.serial, mover))

    def _lose_neighbour(self, name: str, below: tuple[Twig, ...], silent: bool, contact: tuple[Contact, ...]) -> None:
        departure = self._departure
        if departure is None or departure.mover != name:
            super()._lose_neighbour(name, below, silent, contact)
        elif departure.committed:
            departure.loss = (name, below, silent, contact)
        else:
            departure.loss = (name, below, silent, contact)
            self._give_move_up("it is lost")
            super()._lose_neighbour(name, below, silent, contact)

    def _has_left(self, peer: str) -> bool:
        """Whether that child was handed over, as far as we know: its old session is good for nothing new."""
        departure = self._departure
        decided = departure is not None and departure.committed and peer == departure.mover
        return decided or (peer in self._departed and peer not in self.interests.neighbours)

    def _greeted(self, peer: str, hello: Hello) -> Effects | None:
        if not hello.resume and self._has_left(peer):
            # It has been taken in and has lost that parent: this is no longer the session that we had.
            self.hub.set_aside(peer)
        return super()._greeted(peer, hello)

    def _on_join(self, link: Link, join: Join) -> None:
        departure = self._departure
        if departure is not None and link.peer == departure.mover:
            self._let_go(departure)
            self._not_ours.pop(link.peer, None)
        elif departure is not None and departure.loss is not None and departure.mover in dict(join.dead):
            departure.held.append((link, join, self._ahead_of.pop(link.peer, [])))
            return
        self._departed.discard(link.peer)
        super()._on_join(link, join)

    def _hear_held(self, departure: Departure) -> None:
        held, departure.held = departure.held, []
        for link, join, ahead in held:
            if self.hub.links.get(link.peer) is link:
                self._ahead_of[link.peer] = ahead
                self._on_join(link, join)

    # ----------------------------------------------------------------------------------------------------- inspection

    def status(self) -> dict[str, object]:
        counts = {"done": self.moves.done, "given_up": self.moves.given_up}
        return {**super().status(), "degree": self.degree, "degree_max": self.config.degree_max, "moves": counts}

    def waiting_for(self) -> list[str]:
        reasons, departure = super().waiting_for(), self._departure
        if departure is not None:
            whom = f"{departure.target} to take it" if departure.committed else "their link to fall silent"
            reasons.append(f"{departure.mover} to be moved below {departure.target}: {whom}")
        return reasons
