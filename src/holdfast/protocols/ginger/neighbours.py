"""The peers around one broker: what each of them is to it, how far away it is, and what it is told of the tree."""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.model.errors import PeerViolation
from holdfast.model.messages import (
    Hello,
    Interest,
    Interests,
    Join,
    Numbers,
    Open,
    Ping,
    Refusal,
    SessionMessage,
    Twig,
    Unstable,
    Upward,
    View,
    ViewAck,
)
from holdfast.protocols.border import Place
from holdfast.protocols.edges import Phase
from holdfast.protocols.ginger.border import check_join, check_open, check_unstable, check_view
from holdfast.protocols.ginger.suspicion import SUSPECT_TIMER
from holdfast.protocols.links import Link
from holdfast.protocols.node import Send, SetTimer
from holdfast.protocols.treeview import contacts_in
from holdfast.protocols.wanted_parts import wanted_by

if TYPE_CHECKING:
    from holdfast.protocols.ginger.repairing_broker import RepairingBroker

FIRST_QUESTION = 1 << 32
"""Pings with larger numbers are ours, not the hub's."""
QUESTIONS_MAX = 1000


class Neighbours:
    """The neighbours of one broker, and those that become neighbours."""

    def __init__(self, broker: "RepairingBroker") -> None:
        self._broker = broker
        self._hub = broker.hub
        self._log = broker.log
        self._view = broker.view
        self._interests = broker.interests
        self._turning = broker.healing_turning
        self._confirmations = broker.confirmations
        self._questions = 0
        self._asked_at: dict[int, tuple[str, float]] = {}
        self.round_trip_s: dict[str, float] = {}
        self._unreachable: set[str] = set()
        """Contacts that could not be dialled, and will be given up soon."""
        self._wanted_above: dict[str, list[Interest]] = {}
        """What a new parent has said so far of what is wanted on its side."""
        self._someone_left = False
        """Whether others have yet to hear that clients of ours have left."""

    def is_here(self, peer: str) -> bool:
        """Whether that peer was taken in. Others only came to ask something, or wait at the door."""
        taken_in = peer in self._log.flows or peer in self._interests.neighbours
        return taken_in and not self._broker.wards.is_ward(peer)

    def neighbours_alive(self) -> list[str]:
        """The brokers to tell of a change. One that is in doubt whether it was moved tells its new parent, too."""
        broker = self._broker
        passed_over = {flush.key for flush in broker.repairs.flushes}
        alive = [
            peer
            for peer in broker.interests.neighbours
            if (peer in broker.hub.links or peer == broker.rejoin.fenced)
            and peer not in passed_over
            and not broker.wards.is_ward(peer)
        ]
        in_doubt = broker.relocation.parent_in_doubt()
        return [*alive, in_doubt] if in_doubt else alive

    def tell_neighbours(self, hops: int) -> int:
        return self._view.tell(self._broker.parent, self.neighbours_alive(), hops, self._broker.repairs.tick)

    def tell_down(self) -> None:
        """Everybody below learns who is above; nobody waits for it."""
        brokers = self._hub.links.brokers
        has_brokers = any(peer != self._broker.parent for peer in brokers)
        upward, fresh, for_clients = self._view.news_below(self._broker.parent is None, has_brokers)
        links = brokers if for_clients is None else self._hub.links
        for peer, link in links.items():
            if peer == self._broker.parent or peer not in self._log.flows:
                continue
            if link.kind == "broker":
                dead = self._view.deaths.news_for(peer)
                if fresh or dead:
                    self._broker.send(peer, View(0, 0, None, upward, dead))
            elif for_clients is not None:
                self._broker.send(peer, for_clients)

    def wanted_besides(self, *peers: str) -> tuple[Interest, ...]:
        """Everything that somebody else than these peers wants."""
        table = self._interests.table
        return tuple(one for one in table.distinct() if any(source not in peers for source in table.sources(*one)))

    def epoch_of(self, link: Link) -> int:
        if not link.dialler:
            return link.session
        known = (
            *contacts_in(Upward(self._view.chain, self._view.senior, self._view.siblings)),
            *self._view.lost,
        )
        return next((contact.epoch for contact in known if contact.name == link.peer), 0)

    def is_over(self, hello: Hello) -> bool:
        """Whether the epoch of the one who says hello was given up."""
        if hello.kind == "client":
            return self._broker.farewells.covers(hello.node, hello.session)
        return self._view.is_gone(hello.node, hello.session)

    def farewell(self, hello: Hello) -> Refusal:
        """To a node that was given up."""
        name = self._broker.name
        if self._broker.reunion.contests(hello.node):
            return Refusal("not-ready", f"{name} has yet to find out what became of {hello.node}")
        return Refusal("excluded", f"{name} has given this epoch of {hello.node} up: begin a new one")

    def measure(self, peer: str) -> None:
        """Ask once how far away a neighbour is: patience with it depends on that."""
        self._questions += 1
        number = FIRST_QUESTION + self._questions
        self._asked_at[number] = (peer, self._broker.now)
        while len(self._asked_at) > QUESTIONS_MAX:
            del self._asked_at[next(iter(self._asked_at))]
        self._hub.out.append(Send(peer, Ping(number)))

    def patience_s(self, peer: str) -> float:
        """How long a lost connection may take to come back: the first redial, and a few round trips."""
        return self._broker.config.suspect_s + 6 * self.round_trip_s.get(peer, 0.0) + self._broker.config.link.redial_s

    def join_s(self, lost: str) -> float:
        """Those below it may be as far away from it, and as patient, as it was from us."""
        return self._broker.config.join_s + 2 * self.patience_s(lost)

    def write_down_tree(self) -> None:
        if self._broker.notebook.durable and self._broker.phase is Phase.SERVING:
            self._hub.out += self._broker.notebook.tree(self._view.near())

    def has_joined(self, client: str) -> bool:
        """Whether that client belongs here. One that only asked has its session elsewhere, and is nobody's loss."""
        return client in self._log.flows or any(client in flush.joined for flush in self._broker.repairs.flushes)

    def can_be_reached(self, peer: str) -> None:
        """Nobody waits any more for an attempt to reach that broker."""
        self._unreachable.discard(peer)

    def matters(self, peer: str) -> bool:
        """Whether that peer is a neighbour or becomes one; others only came to ask something."""
        broker = self._broker
        coming = any(peer in flush.joined or peer in flush.waiting for flush in broker.repairs.flushes)
        mine = coming or peer == broker.parent or peer in broker.interests.neighbours
        taken = (mine and not broker.wards.is_ward(peer)) or broker.relocation.parent_in_doubt() == peer
        return taken and not broker.tree_shape.has_handed_over(peer)

    def has_only_asked(self, peer: str) -> bool:
        """Whether that peer, which may be out of reach, has come and gone without asking to be taken in.

        1. 2 loses 0, its parent, which is cut off, and repairs that: it waits for 0, which may be out of reach.
        2. 0 asks 2 what became of it, hears that 2 looks for it, and hangs up. If 2 took it for dead because of that,
           it would repair the loss as if nobody were missing, and confirm what the clients of 0 have never got.
        """
        is_neighbour = self.is_neighbour(peer) and peer in self._interests.neighbours
        if is_neighbour or self._broker.repairs.ahead_of.get(peer):
            return False
        return any(flush.silent and peer in flush.waiting for flush in self._broker.repairs.flushes)

    def is_neighbour(self, peer: str) -> bool:
        """Not a parent that has yet to open the link, nor whoever waits at the door to be let in or is being moved.

        A newcomer may wait there under the name of a broker whose loss is repaired: until that repair has ended the
        name stands for a neighbour that is dead.
        """
        broker = self._broker
        if peer == broker.rejoin.fenced or broker.wards.is_ward(peer) or broker.relocation.is_target(peer):
            return False
        if peer and peer == broker.admissions.replacing:
            return False
        # Asked for every message that is sent: while nothing is repaired, without a generator.
        flushes = broker.repairs.flushes
        return not (flushes and any(flush.key == peer or peer in flush.joined for flush in flushes))

    def check_contents(self, link: Link, message: SessionMessage) -> None:
        if isinstance(message, Join):
            ahead = self._broker.repairs.ahead_of.get(link.peer, ())
            check_join(link, message, ahead)
            if link.kind == "client" and (
                problem := self._broker.allowances.problem_of(link.peer, wanted_by(message, ahead))
            ):
                raise PeerViolation(problem)
        elif isinstance(message, Unstable | Numbers | Interests):
            check_unstable(link, self._broker.repairs.ahead_of.get(link.peer, ()))
        elif isinstance(message, View):
            check_view(link.peer, message, self._view.hops)
        elif isinstance(message, Open):
            check_open(link.peer, len(self._wanted_above.get(link.peer, ())))

    def on_open(self, peer: str, message: Open) -> None:
        """A part of an `Open`, or the last of them: then the link is open."""
        wanted = self._wanted_above.setdefault(peer, [])
        wanted += message.interests
        if not message.more:
            del self._wanted_above[peer]
            self._broker.rejoin.on_open(peer, replace(message, interests=tuple(wanted)))

    def on_view_ack(self, peer: str, message: ViewAck) -> None:
        """Everybody around that peer has heard of a change."""
        self._view.on_ack(peer, message.version)
        self._broker.repairs.tick()

    def on_view(self, peer: str, view: View) -> None:
        dead = self._view.dead()
        self._broker.suspicion.hear_of(view.dead, peer)
        if peer not in self._interests.neighbours or self._broker.phase is Phase.GONE:
            return
        below = () if view.version else self._view.below()
        known = self._view.children.get(peer)
        if view.twigs is not None and known is not None:
            self._view.children[peer] = Twig(known.name, known.kind, known.epoch, known.address, view.twigs)
            if self._broker.parent is None:
                self.tell_down()
        elif view.upward is not None and peer == self._broker.parent and self._view.learn(view.upward):
            self.tell_down()
        # A root may miss whoever has begun anew far away from it, and is dead by now.
        death = self._view.dead() != dead and not view.hops
        left = not view.version and self._view.below() != below
        if (death or left) and self._broker.parent not in (None, peer):
            self._broker.send(self._broker.parent, self._view.message(self._broker.parent, True, 0, 0, False))
        if not view.version:
            return
        if view.hops:
            neighbours = self.neighbours_alive()
            self._view.tell(
                self._broker.parent, neighbours, view.hops - 1, lambda: self._broker.send(peer, ViewAck(view.version))
            )
        else:
            self._broker.send(peer, ViewAck(view.version))

    def client_ended(self, name: str, epoch: int) -> None:
        """Only its broker has to know: nobody turns to a client, and nobody is behind it."""
        self._broker.farewells.add(name, epoch, self._broker.now)
        self._broker.majority.forget(name)
        self._view.lose(name, epoch)
        for flush in self._broker.repairs.flushes:
            flush.lose(name, epoch)
        if name in self._log.flows:
            self.client_left(name)
        self._broker.repairs.tick()

    def client_left(self, name: str) -> None:
        self._broker.forget_questions(name)
        self._log.unlink(name)
        self._interests.drop(name)
        self._confirmations.drop(name)
        self._broker.slow_readers.forget(name)
        self._broker.recalls.drop(name)
        self._broker.session_over(name)
        self._turning.pump()
        self._someone_left = True

    def settle(self) -> None:
        """Once a turn: a thousand sessions may expire in one, and each would tell of all that are left."""
        if not self._someone_left:
            return
        self._someone_left = False
        parent, view = self._broker.parent, self._view
        if parent is None:
            self.tell_down()
        else:
            self._broker.send(parent, view.message(parent, True, 0, 0, False))

    def children(self) -> list[str]:
        """All brokers that are neighbours of this one, but for its parent."""
        return [peer for peer in self._interests.neighbours if peer != self._broker.parent]

    def on_pong(self, number: int, now: float) -> None:
        """The answer to a question how far away a neighbour is, or to something else."""
        if number in self._asked_at:
            peer, asked_at = self._asked_at.pop(number)
            self.round_trip_s[peer] = now - asked_at

    def opens(self, peer: str) -> None:
        """A session begins, or has ended: its `Open` has said nothing yet, or never will."""
        self._wanted_above.pop(peer, None)

    def unreachable(self, peer: str) -> None:
        """An attempt to connect has failed: a contact that was never reached counts as lost, too."""
        broker = self._broker
        link, fenced = broker.hub.links.get(peer), broker.rejoin.fenced
        refused = link is not None and link.dialler and not link.resumable
        first = broker.phase is Phase.JOINING and peer == broker.parent and bool(broker.remembered)
        if refused and (first or peer == fenced) and peer not in self._unreachable:
            # Patience counts from the first attempt on: one that is dialled again sooner would never be given up.
            # A broker that begins anew waits longer for its parent, which may be about to do the same.
            self._unreachable.add(peer)
            patience_s = self.patience_s(peer) if peer == fenced else self.join_s(peer)
            broker.hub.out.append(SetTimer(SUSPECT_TIMER + peer, patience_s))

    def place_of(self, link: Link) -> Place:
        """Where a peer stands: what it may send depends on that."""
        broker, peer = self._broker, link.peer
        if broker.repairs.is_at_the_door(peer):
            return Place.JOINER
        if link.kind == "client":
            return Place.CLIENT if peer in broker.log.flows else Place.CALLER
        # One whose link carries nothing yet, or whose loss is being repaired, may come to be let in.
        is_neighbour = peer in broker.interests.neighbours and self.is_neighbour(peer)
        return Place.NEIGHBOUR if is_neighbour else Place.VISITOR
