"""A broker of LoCaMu: localized causal multicast on a tree with redundant links (thesis 003, chapters 3 and 4).

Brokers are connected with everybody within f+1 edges of the tree. Messages follow the tree; where a broker is suspected
they pass it over on the redundant links. Every broker keeps numbers for the brokers around it, and only these, by which
it recognises what comes twice, notices what is missing, and puts in order what overtook. A broker that crashed comes
back with what it had written down and is given what it has missed; its clients go on with their sessions.

    JOINING --taken in--> SERVING --stop--> LEAVING --drained--> GONE
                          SERVING --leave--> RETIRING --everybody knows--> GONE

Whoever stops comes back to its place; whoever leaves does not.

The parts: `core` (the rules), `durable` and `journal` (what survives), `exchange` and `peers` (between brokers),
`groups` (who wants what), `headers` (as bytes).
"""

from enum import Enum
from typing import ClassVar

from holdfast.model.errors import LocalMisuse, PeerViolation
from holdfast.model.guarantees import CAUSAL, EVENTUAL, FIFO
from holdfast.model.identities import name_of
from holdfast.model.local_tree_messages import Admission, Admitted, Farewell, Surroundings
from holdfast.model.messages import (
    Frame,
    Hello,
    Levels,
    Refusal,
    SessionMessage,
)
from holdfast.model.name_messages import Named
from holdfast.model.relay_messages import Relay, Standing
from holdfast.protocols.border import Border, Place, border, check_place
from holdfast.protocols.client_sessions import ClientSessions
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.hub import BEAT_TIMER, Hub
from holdfast.protocols.links import Link
from holdfast.protocols.locamu.copies import Reaches, reaches
from holdfast.protocols.locamu.core import Core
from holdfast.protocols.locamu.durable import Durable
from holdfast.protocols.locamu.exchange import SUSPECT_TIMER, TICK_TIMER, Exchange
from holdfast.protocols.locamu.journal import (
    Began,
    Bequeathed,
    Left,
    Released,
    Retired,
    Said,
    Welcomed,
    decode_state,
    encode_state,
)
from holdfast.protocols.locamu.newcomer_state import newcomer_state
from holdfast.protocols.names import NameBook, taking_from
from holdfast.protocols.neighbourhoods import Neighbourhood
from holdfast.protocols.node import Disconnect, Effects, Report, SetTimer
from holdfast.protocols.publishers import relay_problem

BEGIN_TIMER = "begin:"
BEGIN_S = 0.05
"""How long after a session has ended the next one is begun."""
STORE_MAX = 50_000
"""While so many messages are kept for others, clients get no new credit."""


class Phase(Enum):
    JOINING = "joining"
    SERVING = "serving"
    LEAVING = "leaving"
    RETIRING = "retiring"
    GONE = "gone"


class LocamuBroker:
    """One broker. See `protocols.node.BrokerNode`."""

    protocol: ClassVar[str] = "locamu"
    guarantees: ClassVar[tuple[int, ...]] = (EVENTUAL, FIFO, CAUSAL)
    border: ClassVar[Border] = border(Surroundings, Relay, Standing, Admission, Admitted, Farewell)
    rules: ClassVar[type[Core]] = Core
    exchanging: ClassVar[type[Exchange]] = Exchange

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        self.name, self.config = config.name, config
        near, reach = Neighbourhood(config.name, config.edges), self.reaches(config.tolerance)
        self.phase = Phase.SERVING
        self.hub = Hub(self, config.name, "broker", config.cluster, config.link, incarnation)
        self.hub.border, self.hub.is_broker = self._cross_border, self._is_broker
        self.durable = Durable(config, near, reach, self.hub, self.rules)
        self.exchange = self.exchanging(config, near, reach, self.hub, self.durable)
        self.names = NameBook(
            self.name, self._brokers, self.hub.send, taking_from(self.hub), self.durable.publishers.last
        )
        self.hub.taken = self.names.refusal
        self.sessions = ClientSessions(config, self.hub, self.durable.slow_readers, lambda _: None)
        self._now = 0.0

    @property
    def parent(self) -> str | None:
        """The broker above, or the one that is to take us in."""
        return self.config.parent if self.phase is Phase.JOINING else self.durable.core.near.parent

    @staticmethod
    def reaches(tolerance: int) -> Reaches:
        return reaches(tolerance)

    @classmethod
    def hops(cls, tolerance: int) -> int:
        """How far around it a broker must know the tree."""
        return cls.reaches(tolerance).safe

    # -------------------------------------------------------------------------------------------- entry points

    def restore(self, pairs: dict[str, bytes]) -> None:
        """Go on from what an earlier life has written down; before `start`."""
        self.durable.restore(pairs)

    def start(self, now: float) -> Effects:
        self._at(now)
        for link in self.hub.links.values():
            link.heard_at = link.spoke_at = link.progress_at = now
            self.sessions.detached_at[link.peer] = now
            self.names.opened(link.peer)
        self.hub.start()
        if self.config.parent is not None and not self.config.edges and self.durable.is_blank:
            self._enter(Phase.JOINING)
            self.hub.dial(self.config.parent, now)
            return self.hub.take()
        self.durable.be_born()
        self._enter(Phase.RETIRING if self.durable.core.local_tree.leaving else Phase.SERVING)
        self.exchange.start(now)
        return self.hub.take()

    def _enter(self, phase: Phase) -> None:
        self.phase = phase
        self.hub.out.append(Report(phase.value))

    def receive(self, peer: str, frame: Frame, now: float) -> Effects:
        self._at(now)
        self.hub.receive(peer, frame, now)
        return self.hub.take()

    def timer(self, name: str, now: float) -> Effects:
        self._at(now)
        if self.hub.timer(name, now):
            if name == BEAT_TIMER:
                self.sessions.expire(now)
        elif name == TICK_TIMER:
            self.exchange.tick()
        elif name.startswith(SUSPECT_TIMER):
            self.exchange.suspect(name.removeprefix(SUSPECT_TIMER))
            if self.phase is Phase.RETIRING:
                # A parent that has forgotten us does not dial.
                self._begin(name.removeprefix(SUSPECT_TIMER))
        elif name.startswith(BEGIN_TIMER):
            self._begin(name.removeprefix(BEGIN_TIMER))
        return self.hub.take()

    def peer_up(self, peer: str, now: float) -> Effects:
        self._at(now)
        self.hub.peer_up(peer, now)
        return self.hub.take()

    def peer_down(self, peer: str, now: float) -> Effects:
        self._at(now)
        self.hub.peer_down(peer)
        return self.hub.take()

    def settle(self, now: float) -> Effects:
        self._now = self.exchange.now = now
        if self.phase is not Phase.GONE:
            if self.exchange.hurried:
                self.exchange.hurry()
            if self.durable.journal.is_full:
                self.durable.compact()
            if len(self.durable.core.store) >= STORE_MAX or not self.hub.granting:
                self._hold_back()
            if self.durable.finished:
                self._tell_finished()
            self.hub.settle()
            if self.phase is Phase.LEAVING:
                self._leave_if_drained()
        return self.hub.take()

    def stop(self, now: float) -> Effects:
        """Take nothing more in, then say goodbye. What others lack is on disk, for when this broker comes back."""
        if self.phase not in (Phase.LEAVING, Phase.GONE):
            self._enter(Phase.LEAVING)
            self.hub.granting = False
        return self.settle(now)

    def leave(self, now: float) -> Effects:
        """Leave the tree for good, as a leaf. Raises `LocalMisuse` where that cannot be."""
        self._at(now)
        local_tree = self.durable.core.local_tree
        if self.phase is not Phase.SERVING or not local_tree.may_leave(self.name):
            raise LocalMisuse(
                f"broker {self.name} cannot leave the tree: only a leaf that serves can, below a parent; it is "
                f"{self.phase.value} and next to {', '.join(local_tree.near.neighbours(self.name)) or 'nobody'}"
            )
        self._enter(Phase.RETIRING)
        self.hub.granting = False
        for link in [link for link in self.hub.links.values() if link.kind == "client"]:
            self.hub.end(link.peer, f"broker {self.name} leaves the tree: go to another one")
        self.durable.put(Retired())
        self.exchange.progress()
        return self.hub.take()

    def _at(self, now: float) -> None:
        self._now = self.exchange.now = now

    def _leave_if_drained(self) -> None:
        if self.hub.drained() and not self.exchange.owes_now():
            self.phase = Phase.GONE
            self.hub.abandon(f"broker {self.name} is leaving")
            self.hub.out.append(Report("stopped"))

    def _hold_back(self) -> None:
        """Clients are granted nothing while too much is kept for brokers that are away."""
        serving = self.phase is Phase.SERVING
        kept = len(self.durable.core.store)
        if self.hub.granting and kept >= STORE_MAX:
            self.hub.granting = False
            self.hub.out.append(Report("full", detail=f"{kept} messages are kept for others"))
        elif serving and not self.hub.granting and 2 * kept <= STORE_MAX:
            self.hub.granting = True
            for link in self.hub.links.values():
                self.hub.acknowledge_soon(link.peer)

    # ------------------------------------------------------------------------------------------ the hub's owner

    def admit(self, hello: Hello) -> Refusal | None:
        if self.phase is not Phase.SERVING and (hello.kind == "client" or self.phase is not Phase.RETIRING):
            return Refusal("not-ready", f"broker {self.name} is {self.phase.value}: try again, or another broker")
        if hello.kind == "broker" and hello.node in self.durable.core.local_tree.gone:
            return Refusal("excluded", f"broker {hello.node} has left the tree: whoever comes anew has a new name")
        full = self.sessions.refusal(hello)
        return full or (self.names.refusal(hello.node) if hello.kind == "client" else None)

    def turn_away(self, hello: Hello) -> Refusal | None:
        return self.hub.turn_away(hello)

    def throw_out(self, peer: str, reason: str, now: float) -> Effects:
        self._at(now)
        self.hub.throw_out(peer, reason)
        return self.hub.take()

    def _is_broker(self, name: str) -> bool:
        return name in self.durable.core.near or name in self.durable.core.local_tree.gone

    def welcome(self, hello: Hello) -> tuple[int, str, tuple[int, ...]]:
        link = self.hub.links[hello.node]
        if link.kind == "client" and not link.resumable:
            # It stands on disk before the client hears that it is welcome.
            self.durable.put(Began(link.peer, link.session))
        return self.durable.publishers.last(hello.node), self.protocol, self.guarantees

    def link_opened(self, link: Link, fresh: bool) -> None:
        self.sessions.detached_at.pop(link.peer, None)
        self.hub.out.append(Report("attach" if fresh else "resume", peer=link.peer))
        if link.kind == "broker":
            self.exchange.opened(link.peer, fresh)
            if self.phase is Phase.JOINING and fresh:
                self.hub.send(link.peer, Admission(self.config.address))
            elif self.phase is Phase.RETIRING and fresh:
                self._say_farewell()
            if link.peer in self.exchange.peers:
                self.names.greet(link.peer)
        elif fresh:
            self.names.opened(link.peer)

    def link_closed(self, link: Link) -> None:
        if link.kind == "broker":
            self.exchange.closed(link.peer)
        else:
            self.sessions.detached_at[link.peer] = self._now
        self.hub.out.append(Report("detach", peer=link.peer))

    def link_refused(self, link: Link, refusal: Refusal) -> None:
        """It has begun anew since, or does not want us now: a new session is begun in a while."""
        self.hub.set_aside(link.peer)
        if self.phase is Phase.JOINING and refusal.code == "excluded":
            raise LocalMisuse(f"broker {self.name} cannot join below {link.peer}, and ends: {refusal.reason}")
        if self.phase is Phase.RETIRING and refusal.code == "excluded":
            # The word that we may go was lost.
            self._leave_tree()
            return
        self.exchange.ended(link.peer)
        self.hub.out.append(Report("refused", peer=link.peer, detail=refusal.reason))
        self.hub.out.append(SetTimer(BEGIN_TIMER + link.peer, BEGIN_S))

    def link_ended(self, link: Link, reason: str) -> None:
        self.hub.out.append(Report("end", peer=link.peer, detail=reason))
        if link.kind == "client":
            self.sessions.detached_at.pop(link.peer, None)
            # What the name has numbered is known before the session is forgotten.
            self.names.ended(link.peer)
            self.durable.put(Left(link.peer))
            self.exchange.progress()
            return
        self.exchange.ended(link.peer)
        if link.dialler:
            self.hub.out.append(SetTimer(BEGIN_TIMER + link.peer, BEGIN_S))

    def _brokers(self) -> list[str]:
        """Whom to tell of our clients' sessions: where one is away, the next hears of them all the same."""
        return [name for name in self.exchange.peers if name in self.hub.links]

    def _begin(self, peer: str) -> None:
        if peer in self.hub.links or self.phase in (Phase.LEAVING, Phase.GONE):
            return
        # Each session has a number of its own: the peer may know an earlier one of this life.
        self.hub.incarnation += 1
        if self.phase is Phase.JOINING:
            self.hub.dial(peer, self._now)
        elif peer in self.exchange.peers:
            self.exchange.dial(peer)

    def link_levels(self, link: Link, levels: Levels) -> None:
        """Standings say what is stable."""

    def link_acknowledged(self, link: Link) -> None:
        if link.kind == "broker":
            self.exchange.acknowledged(link.peer)

    def _cross_border(self, link: Link, message: SessionMessage) -> None:
        place = Place.CLIENT if link.kind == "client" else Place.NEIGHBOUR
        check_place(self.border, place, link.peer, message)

    def link_message(self, link: Link, message: SessionMessage) -> None:
        self.hub.consumed(link, message)
        if link.kind == "client":
            self.durable.put(Said(link.peer, message))
            self.hub.wait_no_longer(link.peer)
            self.exchange.progress()
        elif isinstance(message, Admission | Admitted | Farewell):
            self._on_membership(link, message)
        elif link.peer not in self.exchange.peers:
            # A sponsor may take us for one of the tree before we are.
            if self.phase is not Phase.JOINING:
                raise PeerViolation(f"broker {self.name} was not told that {link.peer} is near it in the tree")
        elif isinstance(message, Named):
            self.names.hear(link.peer, message)
        elif isinstance(message, Surroundings | Relay | Standing):
            self._on_exchange(link.peer, message)
        else:
            raise PeerViolation(f"broker {link.peer} sent {type(message).__name__}, which LoCaMu does not know")

    def _on_exchange(self, sender: str, message: Surroundings | Relay | Standing) -> None:
        try:
            if isinstance(message, Relay):
                self._on_relay(sender, message)
            elif isinstance(message, Standing):
                self.exchange.on_standing(sender, message)
            else:
                self.exchange.on_surroundings(sender, message)
        except PeerViolation as violation:
            # What comes next builds on this: the session cannot go on, and a new one begins with everything.
            self.hub.out.append(Report("violation", peer=sender, detail=str(violation)))
            self.hub.end(sender, str(violation))

    def _on_relay(self, sender: str, relay: Relay) -> None:
        problem, notice = relay_problem(relay), relay.notice
        if notice is not None and notice.what in ("l", "g") and notice.pattern == self.name:
            problem = f"that {self.name} leaves the tree, which only {self.name} can say"
        if problem:
            raise PeerViolation(f"{sender} relayed what cannot be: {problem}")
        self.exchange.on_relay(sender, relay)

    # ------------------------------------------------------------------------------------------ coming and going

    def _on_membership(self, link: Link, message: Admission | Admitted | Farewell) -> None:
        if isinstance(message, Admission):
            self._on_admission(link.peer, message)
        elif isinstance(message, Admitted):
            if self.phase is Phase.JOINING:
                self._on_admitted(link.peer, message)
        elif link.peer == self.parent and self.durable.core.local_tree.leaving:
            self._leave_tree()
        else:
            self._on_farewell(link.peer)

    def _on_admission(self, newcomer: str, message: Admission) -> None:
        """Whoever is new is told when everybody knows of it; it may ask again, and begins with what we have then."""
        local_tree = self.durable.core.local_tree
        if self.phase is not Phase.SERVING:
            why = f"broker {self.name} is {self.phase.value}: join another one"
            self._turn_away(newcomer, Refusal("late", why))
        elif local_tree.is_taken(newcomer):
            why = f"there is, or was, a broker {newcomer} in the tree near {self.name}: choose another name"
            self._turn_away(newcomer, Refusal("excluded", why))
        elif newcomer not in local_tree.near:
            self.durable.put(Welcomed(newcomer, message.address))
            self.exchange.progress()
        elif not self._is_pending("j", newcomer):
            self._admit(newcomer)

    def _turn_away(self, newcomer: str, refusal: Refusal) -> None:
        self.hub.refuse(newcomer, refusal)
        self.exchange.ended(newcomer)

    def _is_pending(self, what: str, node: str) -> bool:
        pending = self.durable.core.pending.values()
        return any(one.notice.what == what and one.notice.pattern == node and not one.up for one in pending)

    def _admit(self, newcomer: str) -> None:
        if newcomer in self.hub.links:
            if newcomer in self.durable.core.local_tree.expected:
                self.durable.put(Bequeathed(newcomer))
            self.hub.send(newcomer, Admitted(encode_state(newcomer_state(self.durable.core, newcomer))))
            self.hub.out.append(Report("joined", peer=newcomer))

    def _on_admitted(self, sponsor: str, message: Admitted) -> None:
        """Go on as one of the tree, with sessions of that kind."""
        self.hub.set_aside(sponsor)
        self.hub.out.append(Disconnect(sponsor, "taken in"))
        self.durable.inherit(decode_state(message.state))
        self._enter(Phase.SERVING)
        self.hub.incarnation += 1
        self.exchange.start(self._now)

    def _tell_finished(self) -> None:
        finished, self.durable.finished = self.durable.finished, []
        for notice in finished:
            if notice.what == "j":
                self._admit(notice.pattern)
            elif notice.what == "l":
                self._say_farewell()

    def _say_farewell(self) -> None:
        """All that we have ever said was processed by everybody: nobody needs us."""
        parent = self.parent
        if parent is not None and parent in self.hub.links and not self._is_pending("l", self.name):
            self.hub.send(parent, Farewell())

    def _on_farewell(self, leaf: str) -> None:
        """Everybody knows that it leaves: it is forgotten, in the order of everything else."""
        local_tree = self.durable.core.local_tree
        if leaf not in local_tree.gone and not local_tree.may_be_released(leaf):
            raise PeerViolation(
                f"{leaf} said farewell, but {self.name} has heard of no leaf {leaf} below it that leaves"
            )
        self.hub.send(leaf, Farewell())
        if leaf not in local_tree.gone:
            self.hub.out.append(Report("left", peer=leaf))
            self.durable.put(Released(leaf))
            self.exchange.progress()

    def _leave_tree(self) -> None:
        self._enter(Phase.GONE)
        self.hub.out += self.durable.journal.erase()
        self.hub.abandon(f"broker {self.name} has left the tree")
        self.hub.out.append(Report("stopped"))

    # ---------------------------------------------------------------------------------------------- inspection

    def ready(self) -> bool:
        return self.phase is Phase.SERVING

    def status(self) -> dict[str, object]:
        links, core = self.hub.links.values(), self.durable.core
        return {
            "name": self.name,
            "protocol": self.protocol,
            "phase": self.phase.value,
            "parent": self.parent,
            "children": [name for name in core.near.neighbours(self.name) if name != self.parent],
            "clients": sorted(name_of(link.peer) for link in links if link.kind == "client"),
            "links": {link.peer: link.state.value for link in links},
            "suspected": sorted(peer.name for peer in self.exchange.peers.values() if peer.suspected),
            "backlog_bytes": {link.peer: link.backlog_bytes for link in links if link.backlog_bytes},
            "slow": self.durable.slow_readers.status(),
            "dropped_messages": self.durable.slow_readers.dropped_total,
            "slow_ended": self.hub.slow_ended + self.durable.slow_readers.ended_total,
            "subscriptions": len(core.groups.local) + len(core.groups.remote),
            "kept": len(core.store),
            "waiting": len(self.exchange.buffer),
            "numbers": len(core.past),
            "unmarked": len(core.unmarked),
        }

    def check_invariants(self) -> None:
        self.hub.check_invariants()
        self.durable.core.check_invariants()
        self.exchange.check_invariants()
        self.names.check_invariants()

    def waiting_for(self) -> list[str]:
        own = [f"{self.config.parent} to take it in"] if self.phase is Phase.JOINING else []
        if self.phase is Phase.RETIRING:
            own.append(f"{self.parent} to let it go")
        return [*own, *self.exchange.waiting_for(), *self.hub.waiting_for()]
