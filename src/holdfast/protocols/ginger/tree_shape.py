"""The number of neighbours that a broker keeps to: children beyond it are moved below others, make before break.

The problem: after a repair, or many joins, one broker may have more neighbours than it can serve well. The idea: it
moves one child at a time below another child of its own. P decides, C is moved, S is the new parent:

    P -> C  ask       C connects to S, and tells those below it that S may become its parent
    C -> P  ready
    P -> C  freeze    the link P-C carries nothing more, in either direction
    P -> S  adopt     in the same instant: all that C wants is sent to S from now on, and S keeps it for C
    C -> P  frozen    the last that C has passed is before it
    C -> P  drained   and P is, too: what went over the link is stable, nothing climbs over it, no question crosses it
    P -> S  commit    S is C's parent from here on: S -> C `Open`, and all that was kept
    S -> P  committed

What C gets is gapless and in order: all of P's stream up to `freeze`; then, from S, what P has passed to S behind
`adopt`, and what S has passed to P that P had not taken when it froze the link (`position`). What C sends goes to P up
to `frozen`, and to S after `Open`; all of the former has reached S, as far as S wants it, before `commit` has. Nothing
with keys turns on what C wants meanwhile.

Until `commit` is sent, P may take everything back (`cancel`, `thaw`): the link was slow for a while. From then on S
decides, and says so. Whoever is lost meanwhile:
- C, before `commit`: P repairs that. After it: whoever of P and S the loss belongs to; P waits until S has said so.
- P: S drops C, if it has not heard `commit`. C asks S whether it is S's child, and joins P's repair if it is not.
- S: P thaws C. After `commit`, C may have heard `Open`: then it joins the repair of S, and otherwise says `thawed`.

A child is moved only below one that comes before it in the line of succession: whoever finds itself first in that line
then has no parent who is alive, moved or not (`treeview`).
"""

from typing import TYPE_CHECKING

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
from holdfast.protocols.ginger.departure import Departure, Loss, Moves
from holdfast.protocols.ginger.relocation import OUTBOX_MAX
from holdfast.protocols.links import Link
from holdfast.protocols.node import CancelTimer, Report, SetTimer
from holdfast.protocols.parents import Candidate, rank

if TYPE_CHECKING:
    from holdfast.protocols.ginger.repairing_broker import RepairingBroker

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


class TreeShape:
    """The children of one broker, one of which at a time is moved below another."""

    def __init__(self, broker: "RepairingBroker") -> None:
        self._broker = broker
        self._hub = broker.hub
        self._log = broker.log
        self._view = broker.view
        self._interests = broker.interests
        self._turning = broker.healing_turning
        self._confirmations = broker.confirmations
        self._census = broker.majority.census
        self._departure: Departure | None = None
        self._departed: set[str] = set()
        """Former children whose old connection has yet to close."""
        self.moves = Moves()
        self._pause_s = broker.config.move_pause_s
        self._shape_set = False

    @property
    def is_busy(self) -> bool:
        """Whether a child of this broker is being moved."""
        return self._departure is not None

    # ------------------------------------------------------------------------------------------------------- deciding

    def _child_brokers(self) -> list[str]:
        """In the line of succession."""
        children = [
            one
            for one in self._broker.neighbours.children()
            if one in self._view.children and not self._broker.wards.is_ward(one)
        ]
        line = (
            {contact.name: place for place, contact in enumerate(self._view.senior)}
            if self._broker.parent is None
            else {}
        )
        order = {name: place for place, name in enumerate(self._view.children)}
        return sorted(children, key=lambda name: (line.get(name, len(line)), order[name]))

    @property
    def degree(self) -> int:
        """How many brokers are neighbours of this one."""
        return len(self._child_brokers()) + (self._broker.parent is not None)

    @property
    def _has_too_many(self) -> bool:
        return 0 < self._broker.config.degree_max < self.degree

    def _brokers_below(self, child: str) -> int:
        return sum(twig.kind == "broker" for twig in self._view.children[child].twigs)

    def _candidate(self, name: str, mover: str) -> Candidate:
        table, link = self._interests.table, self._hub.links[name]
        return Candidate(
            name,
            round_trip_s=self._broker.neighbours.round_trip_s.get(name, 0.0),
            common_topics=len({*table.interests(name)} & {*table.interests(mover)}),
            degree=self._brokers_below(name) + 1,
            backlog_bytes=link.backlog_bytes,
        )

    def _choose(self) -> tuple[str, str] | None:
        """Whom to move below whom: first who has the fewest below it, then the most junior.

        After every move that was given up another one is tried.
        """
        children = [name for name in self._child_brokers() if name in self._hub.links and self._hub.links[name].is_open]
        movers = sorted(children[:0:-1], key=self._brokers_below)
        skip = self.moves.given_up % len(movers) if movers else 0
        for mover in movers[skip:] + movers[:skip]:
            before = children[: children.index(mover)]
            found = rank([self._candidate(name, mover) for name in before], self._broker.config.degree_max)
            if found:
                return mover, found[0].name
        return None

    def settle(self) -> None:
        """Go on with a move, or see whether one is due."""
        if self._departure is not None:
            self._pursue(self._departure)
        elif not self._shape_set and self._has_too_many:
            self._shape_set = True
            self._hub.out.append(SetTimer(SHAPE_TIMER, self._pause_s))

    def timer(self, name: str) -> bool:
        """Returns whether that timer is of moves."""
        if name == SHAPE_TIMER:
            self._shape_set = False
            if self._has_too_many and self._broker.is_calm and not self._broker.is_moving:
                self._begin_move()
        elif name == MOVE_TIMER:
            self._move_overdue()
        else:
            return False
        return True

    def _move_overdue(self) -> None:
        """A frozen link must not stay so; as long as nothing is, a quiet moment may be waited for."""
        departure = self._departure
        if departure is None or departure.committed:
            return
        departure.rounds += 1
        if departure.froze or departure.rounds > ROUNDS_MAX:
            self._give_move_up("it took too long")
        else:
            self._hub.out.append(SetTimer(MOVE_TIMER, SEARCH_S))

    def _begin_move(self) -> None:
        chosen = self._choose()
        if chosen is None:
            return
        mover, target = chosen
        self.moves.begun += 1
        self._departure = Departure(self.moves.begun, mover, target)
        twig = self._view.children[target]
        contact = Contact(twig.name, twig.epoch, twig.address)
        self._broker.send(mover, Move("ask", self.moves.begun, mover, contact=contact))
        self._hub.out.append(SetTimer(MOVE_TIMER, SEARCH_S))
        self._hub.out.append(Report("move_start", peer=mover, detail=f"below {target}"))

    # --------------------------------------------------------------------------------------------------------- a move

    def _pursue(self, departure: Departure) -> None:
        """Go on with the move as far as it can go now."""
        if departure.committed:
            return
        if not self._broker.is_calm:
            self._give_move_up("something else has to be repaired first")
        elif len(self._broker.relocation.outbox) > OUTBOX_MAX:
            self._give_move_up("too much is waiting")
        elif not departure.froze:
            if departure.ready and self._broker.now >= departure.not_before and self._is_quiet(departure.mover):
                self._freeze_link(departure)
        elif departure.is_frozen and departure.drained and departure.adopted and self._may_commit(departure):
            departure.committed = True
            size = self._census.below.get(departure.mover, 0)
            self._broker.send(departure.target, Move("commit", departure.serial, departure.mover, size=size))

    def _freeze_s(self, mover: str) -> float:
        """How long a link may be frozen: what went over it becomes stable within a few round trips."""
        return self._broker.config.move_s + FREEZE_ROUND_TRIPS * self._broker.neighbours.round_trip_s.get(mover, 0.0)

    def _is_quiet(self, mover: str) -> bool:
        """Whether nothing is under way between us that waits for an answer."""
        waiting = self._interests.waiting.get(mover, 0) or self._confirmations.awaits(mover)
        return not waiting and not self._turning.involves(mover) and not self._is_asked_for(mover)

    def _is_asked_for(self, mover: str) -> bool:
        """Whether something climbs that has to cross the link: nothing behind it would become stable."""
        wants = self._interests.table.wants
        return any(
            record.pending and (record.concerns(mover) or wants(mover, record.batch.topic))
            for record in self._log.records()
        )

    def _freeze_link(self, departure: Departure) -> None:
        mover, target = departure.mover, departure.target
        departure.twig = self._view.children[mover]
        departure.interests = tuple(self._interests.table.interests(mover))
        self._hub.send(mover, Move("freeze", departure.serial, mover))
        departure.base = self._broker.relocation.freeze(mover)
        departure.lent = self._interests.lend(departure.interests, target)
        position = self._log.flows[target].received
        adopt = Move("adopt", departure.serial, mover, None, departure.twig, departure.interests, position)
        self._broker.send(target, adopt)
        self._hub.out.append(SetTimer(MOVE_TIMER, self._freeze_s(mover)))

    def _may_commit(self, departure: Departure) -> bool:
        mover = departure.mover
        superseded = all(isinstance(message, SUPERSEDED) for message in self._broker.relocation.outbox)
        return (
            superseded
            and not self._interests.waiting.get(mover, 0)
            and self._broker.relocation.is_drained(mover, departure.base)
        )

    def handled(self, peer: str, message: SessionMessage) -> None:
        """What the new parent wants or takes back while the mover's interests are lent to it."""
        departure = self._departure
        if departure is None or not departure.froze or peer != departure.target:
            return
        # What the new parent wants itself it keeps, whatever becomes of the move; what the mover wants it gets.
        if isinstance(message, Subscribe):
            departure.lent.discard((message.pattern, message.where))
        elif isinstance(message, Unsubscribe) and (message.pattern, message.where) in departure.interests:
            departure.lent |= self._interests.lend([(message.pattern, message.where)], departure.target)

    def on_move(self, peer: str, move: Move) -> bool:
        """A step of a move; returns whether it concerns one that this broker has begun."""
        departure = self._departure
        if departure is None or move.serial != departure.serial or peer not in (departure.mover, departure.target):
            return False
        if peer == departure.mover:
            self._on_step_of_mover(departure, move)
        elif move.step == "adopted":
            departure.adopted = True
        elif move.step == "committed":
            self._let_go(departure)
        elif move.step == "declined":
            self._declined(departure, peer)
        return True

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
        departure.not_before = self._broker.now + BUSY_S
        self._turning.pump()

    def _take_back(self, departure: Departure, say: bool) -> None:
        self._broker.relocation.unfreeze(say)
        self._interests.take_back(departure.lent, departure.target)
        self._broker.send(departure.target, Move("cancel", departure.serial, departure.mover))

    def _declined(self, departure: Departure, peer: str) -> None:
        departure.committed = False
        loss = departure.loss
        self._give_move_up(f"{peer} declined")
        if loss is not None:
            self._broker.suspicion.lose_neighbour(*loss)
        elif departure.mover in self._interests.neighbours and departure.mover not in self._hub.links:
            epoch = departure.twig.epoch if departure.twig is not None else 0
            self._broker.suspicion.suspect(departure.mover, epoch, "its connection is gone")
        self._hear_held(departure)

    # ------------------------------------------------------------------------------------------------- how a move ends

    def _give_move_up(self, reason: str) -> None:
        """As if nothing had been: the mover stays our child, and its link was merely slow."""
        departure, self._departure = self._departure, None
        if departure is None:
            return
        alive = departure.mover in self._hub.links and departure.loss is None
        if alive:
            self._hub.send(departure.mover, Move("thaw", departure.serial, departure.mover))
        if departure.froze:
            self._take_back(departure, alive)
        self.moves.given_up += 1
        self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)
        self._hub.out += [CancelTimer(MOVE_TIMER), Report("move_given_up", peer=departure.mover, detail=reason)]
        self._turning.pump()

    def _let_go(self, departure: Departure) -> None:
        """The new parent has it."""
        mover, target = departure.mover, departure.target
        self._departure = None
        self._broker.relocation.unfreeze(say=False)
        twig = self._view.children.pop(mover, None) or departure.twig
        self._interests.replace(mover, {})
        self._turning.replace(mover)
        self._confirmations.replace(mover, (), self._interests.table.wants)
        self._log.unlink(mover)
        self._view.give_up_on(mover)
        self._broker.sessions.detached_at.pop(mover, None)
        self._departed.add(mover)
        if twig is not None:
            self._put_below(target, twig)
            self._broker.wards.disown(twig)
        size = self._census.below.pop(mover, 0)
        if size and target in self._census.below:
            self._census.below[target] += size
        self.moves.done += 1
        self._pause_s = self._broker.config.move_pause_s
        self._hub.out += [CancelTimer(MOVE_TIMER), Report("move_end", peer=mover, detail=f"below {target}")]
        self._broker.neighbours.tell_neighbours(self._view.hops - 2)
        self._view.settle()
        self._turning.pump()
        self._broker.repairs.tick()
        self._hear_held(departure)

    def _put_below(self, target: str, mover: Twig) -> None:
        """So that it is expected here if the new parent dies before it has said itself who is below it."""
        above = self._view.children.get(target)
        if above is not None and all(twig.name != mover.name for twig in above.twigs):
            twigs = (*above.twigs, mover)
            self._view.children[target] = Twig(above.name, above.kind, above.epoch, above.address, twigs)

    def _regain(self, departure: Departure) -> None:
        """The new parent died before it had the mover: that is our child as before."""
        self._departure = None
        self.moves.given_up += 1
        self._broker.relocation.unfreeze(say=True)
        self._interests.take_back(departure.lent, departure.target)
        for flush in self._broker.repairs.flushes:
            flush.waiting.pop(departure.mover, None)
        self._hub.out.append(Report("move_given_up", peer=departure.mover, detail=f"{departure.target} is lost"))
        self._turning.pump()
        self._broker.repairs.tick()

    # ------------------------------------------------------------------------------------------------ losing somebody

    def moves_for(self, topic: str) -> bool:
        """Whether a child that wants that topic is being moved: nothing total turns on it meanwhile."""
        departure = self._departure
        return departure is not None and departure.froze and self._interests.table.wants(departure.mover, topic)

    def has_handed_over(self, peer: str) -> bool:
        """Whether the new parent decides about that child by now."""
        departure = self._departure
        return departure is not None and departure.committed and departure.mover == peer

    def link_ended(self, link: Link, reason: str) -> bool:
        """Returns whether that session is of a child that was handed over."""
        if not self._has_left(link.peer):
            return False
        self._hub.out.append(Report("end", peer=link.peer, detail=reason))
        return True

    def before_loss(self, name: str, epoch: int) -> Departure | None:
        """That node is about to be given up; returns the move whose new parent it is, if that move was decided."""
        departure = self._departure
        if departure is None or name not in (departure.mover, departure.target) or self._view.is_gone(name, epoch):
            return None
        if name == departure.mover:
            if departure.stranded:
                # Whoever was below it is expected in the place of the new parent.
                self._let_go(departure)
        elif departure.committed:
            self._strand(departure)
            return departure
        else:
            self._give_move_up(f"{name} is lost")
        return None

    def _strand(self, departure: Departure) -> None:
        """The new parent is dead: only the mover knows whether it had been taken in."""
        departure.stranded = True
        if departure.loss is not None:
            self._put_below(departure.target, departure.twig or self._view.children[departure.mover])
            self._let_go(departure)

    def after_loss(self, departure: Departure | None) -> None:
        """The new parent of a move that was decided was given up."""
        if departure is None or self._departure is not departure or departure.twig is None:
            return
        mover = departure.mover
        for flush in self._broker.repairs.flushes:
            if flush.key == departure.target:
                flush.waiting[mover] = departure.twig
                flush.known[mover] = departure.twig.twigs
        if mover in self._hub.links:
            # Our own side thaws when it answers: if it has left already, this session is over.
            self._hub.send(mover, Move("thaw", departure.serial, mover))

    def keeps_loss(self, loss: Loss) -> bool:
        """Whether it is not known yet whose loss that is, since the lost child was about to be handed over."""
        departure = self._departure
        if departure is None or departure.mover != loss[0]:
            return False
        departure.loss = loss
        if departure.committed:
            return True
        self._give_move_up("it is lost")
        return False

    def _has_left(self, peer: str) -> bool:
        """Whether that child was handed over, as far as we know: its old session is good for nothing new."""
        return self.has_handed_over(peer) or (peer in self._departed and peer not in self._interests.neighbours)

    def greeted(self, peer: str, hello: Hello) -> None:
        """A child that was handed over says hello."""
        if not hello.resume and self._has_left(peer):
            # It has been taken in and has lost that parent: this is no longer the session that we had.
            self._hub.set_aside(peer)

    def holds_join(self, link: Link, join: Join) -> bool:
        """Keep a joiner whose loss may be another broker's to repair; returns whether it was kept."""
        departure = self._departure
        if departure is not None and link.peer == departure.mover:
            self._let_go(departure)
            self._broker.wards.own(link.peer)
        elif departure is not None and departure.loss is not None and departure.mover in dict(join.dead):
            departure.held.append((link, join, self._broker.repairs.ahead_of.pop(link.peer, [])))
            return True
        self._departed.discard(link.peer)
        return False

    def _hear_held(self, departure: Departure) -> None:
        held, departure.held = departure.held, []
        for link, join, ahead in held:
            if self._hub.links.get(link.peer) is link:
                self._broker.repairs.ahead_of[link.peer] = ahead
                self._broker.repairs.on_join(link, join)

    # ----------------------------------------------------------------------------------------------------- inspection

    def status(self) -> dict[str, object]:
        """What a snapshot of the broker says of its moves."""
        counts = {"done": self.moves.done, "given_up": self.moves.given_up}
        return {"degree": self.degree, "degree_max": self._broker.config.degree_max, "moves": counts}

    def waiting_for(self) -> list[str]:
        """In words, the move that this broker has begun."""
        departure = self._departure
        if departure is None:
            return []
        whom = f"{departure.target} to take it" if departure.committed else "their link to fall silent"
        return [f"{departure.mover} to be moved below {departure.target}: {whom}"]
