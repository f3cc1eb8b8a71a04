"""A broker of LoCaMu: localized causal multicast on a tree with redundant links (thesis 003, chapters 3 and 4).

Brokers are connected with everybody within f+1 edges of the tree. Messages follow the tree; where a broker is suspected
they pass it over on the redundant links. Every broker keeps numbers for the brokers around it, and only these, by which
it recognises what comes twice, notices what is missing, and puts in order what overtook. A broker that crashed comes
back with what it had written down and is given what it has missed; its clients go on with their sessions.

    SERVING --stop--> LEAVING --drained--> GONE

The parts: `core` (the rules), `durable` and `journal` (what survives), `exchange` and `peers` (between brokers),
`groups` (who wants what), `headers` (as bytes).
"""

from enum import Enum

from holdfast.model.errors import PeerViolation
from holdfast.model.guarantees import CAUSAL, EVENTUAL, FIFO
from holdfast.model.messages import (
    Confirm,
    ConfirmAck,
    Frame,
    Hello,
    Levels,
    Publish,
    Recall,
    Refusal,
    Relay,
    SessionMessage,
    Standing,
    Subscribe,
    Unsubscribe,
)
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.hub import BEAT_TIMER, Hub
from holdfast.protocols.links import Link
from holdfast.protocols.locamu.copies import Reaches, reaches
from holdfast.protocols.locamu.core import Core
from holdfast.protocols.locamu.durable import Durable
from holdfast.protocols.locamu.exchange import SUSPECT_TIMER, TICK_TIMER, Exchange
from holdfast.protocols.locamu.headers import HeaderError
from holdfast.protocols.locamu.journal import Began, Left, Said
from holdfast.protocols.neighbourhoods import Neighbourhood
from holdfast.protocols.node import Effects, Report, SetTimer
from holdfast.protocols.publishers import topic_problem

FROM_CLIENTS = (Publish, Subscribe, Unsubscribe, Confirm, ConfirmAck, Recall)
BEGIN_TIMER = "begin:"
BEGIN_S = 0.05
"""How long after a session has ended the next one is begun."""
STORE_MAX = 50_000
"""While so many messages are kept for others, clients get no new credit."""


class Phase(Enum):
    SERVING = "serving"
    LEAVING = "leaving"
    GONE = "gone"


class LocamuBroker:
    """One broker. See `protocols.node.BrokerNode`."""

    protocol = "locamu"
    guarantees: tuple[int, ...] = (EVENTUAL, FIFO, CAUSAL)
    rules: type[Core] = Core
    exchanging: type[Exchange] = Exchange

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        self.name, self.config = config.name, config
        near, reach = Neighbourhood(config.name, config.edges), self.reaches(config.tolerance)
        self.parent = near.parent
        self.phase = Phase.SERVING
        self.hub = Hub(self, config.name, "broker", config.cluster, config.link, incarnation)
        self.durable = Durable(config, near, reach, self.hub, self.rules)
        self.exchange = self.exchanging(config, near, reach, self.hub, self.durable)
        self._detached_at: dict[str, float] = {}
        self._congested_at: dict[str, float] = {}
        self._now = 0.0

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
            self._detached_at[link.peer] = now
        self.hub.start()
        self.hub.out.append(Report(self.phase.value))
        self.exchange.start(now)
        return self.hub.take()

    def receive(self, peer: str, frame: Frame, now: float) -> Effects:
        self._at(now)
        self.hub.receive(peer, frame, now)
        return self.hub.take()

    def timer(self, name: str, now: float) -> Effects:
        self._at(now)
        if self.hub.timer(name, now):
            if name == BEAT_TIMER:
                self._expire_sessions(now)
        elif name == TICK_TIMER:
            self.exchange.tick()
        elif name.startswith(SUSPECT_TIMER):
            self.exchange.suspect(name.removeprefix(SUSPECT_TIMER))
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
            self.hub.settle()
            if self.phase is Phase.LEAVING:
                self._leave_if_drained()
        return self.hub.take()

    def stop(self, now: float) -> Effects:
        """Take nothing more in, then say goodbye. What others lack is on disk, for when this broker comes back."""
        if self.phase is Phase.SERVING:
            self.phase = Phase.LEAVING
            self.hub.granting = False
            self.hub.out.append(Report(self.phase.value))
        return self.settle(now)

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
        if self.phase is not Phase.SERVING:
            return Refusal("not-ready", f"broker {self.name} is {self.phase.value}: try again, or another broker")
        if hello.kind == "broker" and hello.node not in self.exchange.peers:
            return Refusal("misuse", f"broker {self.name} was not told that {hello.node} is near it in the tree")
        newcomer = hello.kind == "client" and hello.node not in self.hub.links
        if newcomer and len(self.hub.links) >= self.config.sessions_max:
            return Refusal("full", f"broker {self.name} has {self.config.sessions_max} sessions: try another broker")
        return None

    def welcome(self, hello: Hello) -> tuple[int, str, tuple[int, ...]]:
        link = self.hub.links[hello.node]
        if link.kind == "client" and not link.resumable:
            # It stands on disk before the client hears that it is welcome.
            self.durable.put(Began(link.peer, link.session))
        return self.durable.publishers.last(hello.node), self.protocol, self.guarantees

    def link_opened(self, link: Link, fresh: bool) -> None:
        self._detached_at.pop(link.peer, None)
        self.hub.out.append(Report("attach" if fresh else "resume", peer=link.peer))
        if link.kind == "broker":
            self.exchange.opened(link.peer, fresh)

    def link_closed(self, link: Link) -> None:
        if link.kind == "broker":
            self.exchange.closed(link.peer)
        else:
            self._detached_at[link.peer] = self._now
        self.hub.out.append(Report("detach", peer=link.peer))

    def link_refused(self, link: Link, refusal: Refusal) -> None:
        """It has begun anew since, or does not want us now: a new session is begun in a while."""
        self.hub.set_aside(link.peer)
        self.exchange.ended(link.peer)
        self.hub.out.append(Report("refused", peer=link.peer, detail=refusal.reason))
        self.hub.out.append(SetTimer(BEGIN_TIMER + link.peer, BEGIN_S))

    def link_ended(self, link: Link, reason: str) -> None:
        self.hub.out.append(Report("end", peer=link.peer, detail=reason))
        if link.kind == "client":
            self._detached_at.pop(link.peer, None)
            self.durable.put(Left(link.peer))
            self.exchange.progress()
            return
        self.exchange.ended(link.peer)
        if link.dialler:
            self.hub.out.append(SetTimer(BEGIN_TIMER + link.peer, BEGIN_S))

    def _begin(self, peer: str) -> None:
        if peer not in self.hub.links and self.phase is Phase.SERVING:
            # Each session has a number of its own: the peer may know an earlier one of this life.
            self.hub.incarnation += 1
            self.hub.dial(peer, self._now)

    def link_levels(self, link: Link, levels: Levels) -> None:
        """Standings say what is stable."""

    def link_acknowledged(self, link: Link) -> None:
        if link.kind == "broker":
            self.exchange.acknowledged(link.peer)

    def link_message(self, link: Link, message: SessionMessage) -> None:
        self.hub.consumed(link, message)
        if link.kind == "client":
            if not isinstance(message, FROM_CLIENTS):
                raise PeerViolation(f"client {link.peer} sent {type(message).__name__}, which only brokers may send")
            self.durable.put(Said(link.peer, message))
            self.exchange.progress()
        elif isinstance(message, Relay):
            problem = topic_problem(message.batch.topic) if message.batch is not None else ""
            if problem:
                raise PeerViolation(f"{link.peer} relayed what cannot be: {problem}")
            try:
                self.exchange.on_relay(link.peer, message)
            except HeaderError as error:
                # The next header builds on this one: the session cannot go on, and a new one begins with a whole one.
                self.hub.out.append(Report("violation", peer=link.peer, detail=str(error)))
                self.hub.end(link.peer, str(error))
        elif isinstance(message, Standing):
            self.exchange.on_standing(link.peer, message)
        else:
            raise PeerViolation(f"broker {link.peer} sent {type(message).__name__}, which LoCaMu does not know")

    # ------------------------------------------------------------------------------------------------- sessions

    def _expire_sessions(self, now: float) -> None:
        """End the sessions of clients that do not come back, or do not take what they asked for."""
        links, config = self.hub.links, self.config
        for peer, since in list(self._detached_at.items()):
            if now - since >= config.session_keep_s:
                self.hub.end(peer, f"{peer} was away for {now - since:.1f} s", say=False)
        self._congested_at = {peer: self._congested_at.get(peer, now) for peer in self.hub.congested}
        for peer, since in list(self._congested_at.items()):
            limit_s = config.stall_s if links[peer].is_open else config.stall_away_s
            if links[peer].kind == "client" and now - max(since, links[peer].progress_at) >= limit_s:
                self.hub.end(peer, f"{peer} has left a full buffer untouched for {limit_s:g} s")

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
            "clients": sorted(link.peer for link in links if link.kind == "client"),
            "links": {link.peer: link.state.value for link in links},
            "suspected": sorted(peer.name for peer in self.exchange.peers.values() if peer.suspected),
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

    def waiting_for(self) -> list[str]:
        return [*self.exchange.waiting_for(), *self.hub.waiting_for()]
