"""What a broker does at its edge, whatever protocol runs behind it: sessions of clients, and what they ask for.

A client attaches, publishes under its own name and numbers, subscribes, leaves or is missed. All of that is the same
for every protocol; what becomes of a publication or a subscription is not, and is left to `_take`.

    STARTING --start--> JOINING --ready--> SERVING --stop--> LEAVING --drained--> GONE

Only a serving broker admits clients.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from enum import Enum
from typing import ClassVar

from holdfast.model.batches import SEQ_MAX, Batch
from holdfast.model.crossed_messages import Crossed
from holdfast.model.errors import PeerViolation
from holdfast.model.guarantees import GUARANTEES
from holdfast.model.hole_messages import Hole
from holdfast.model.identities import is_tagged, name_of
from holdfast.model.messages import (
    Confirm,
    Frame,
    Hello,
    Interest,
    Levels,
    Publish,
    Refusal,
    Rejected,
    SessionMessage,
    Subscribe,
    Unsubscribe,
)
from holdfast.model.name_messages import Named, Recall, Recalled
from holdfast.model.receipt_messages import CLEAN, UNKNOWN_AGE_S, Finding
from holdfast.model.terms import Contact
from holdfast.protocols.allowances import Allowances
from holdfast.protocols.border import FROM_CLIENTS, Border, Place, check_place
from holdfast.protocols.client_sessions import ClientSessions
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.crossed import CrossedMessages
from holdfast.protocols.durable import Notebook
from holdfast.protocols.given_up import ON_ITS_WAY_S, GivenUp
from holdfast.protocols.holes import HoleNotices
from holdfast.protocols.hub import BEAT_TIMER, Hub
from holdfast.protocols.links import Link
from holdfast.protocols.names import NameBook, taking_from
from holdfast.protocols.node import Effects, Report
from holdfast.protocols.publishers import PublicationRefused, PublisherMemory, accept_publication, request_problem
from holdfast.protocols.slow_readers import SlowReaders


class Phase(Enum):
    STARTING = "starting"
    JOINING = "joining"
    SERVING = "serving"
    LEAVING = "leaving"
    GONE = "gone"


class EdgeBroker(ABC):
    """The part of a broker that clients see. See `protocols.node.BrokerNode`."""

    protocol: ClassVar[str]
    guarantees: ClassVar[tuple[int, ...]]
    queues_holes: ClassVar[bool] = False
    """Whether a notice of a hole waits behind what waits from the same neighbour: then `_take` is given it."""
    border: ClassVar[Border]
    """Who may send what."""

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        self.name, self.parent, self.config = config.name, config.parent, config
        self.phase = Phase.STARTING
        self.hub = Hub(self, config.name, "broker", config.cluster, config.link, incarnation)
        self.hub.border, self.hub.is_broker = self._cross_border, self._is_broker
        self.publishers = PublisherMemory(durable=config.durable)
        self.hub.uncertain = self.publishers.uncertain
        self.allowances = Allowances(config.subscriptions_max, config.subscription_characters_max)
        self.notebook = Notebook(config.durable)
        self.names = NameBook(
            self.name, self._brokers, self._send, taking_from(self.hub, self._note_given_up), self._highest
        )
        self.hub.taken = self.names.refusal
        self.slow_readers = SlowReaders(self.hub.links, config.link.backlog_bytes_max)
        self.hub.are_waited_for = self.slow_readers.are_waited_for
        self.holes = HoleNotices(
            config.name,
            incarnation,
            self._send,
            self._told_of_holes,
            self.hub.report,
            lambda: self._now,
            lambda peer: peer in self.hub.links.brokers,
        )
        self.given_up = GivenUp()
        self.crossed = CrossedMessages(self.hub.report, self._tell_publisher)
        self.sessions = ClientSessions(config, self.hub, self.slow_readers, self._note_given_up)
        self._detached_at = self.sessions.detached_at
        self._now = 0.0
        self.remembered: tuple[Contact, ...] = ()
        """The brokers that an earlier life of this one knew."""

    def restore(self, pairs: dict[str, bytes]) -> None:
        """Be told, before the start, what an earlier life has written down."""
        kept = self.notebook.restore(pairs, self.hub.incarnation)
        self.remembered = kept.tree
        self.publishers.restore(kept.numbered)

    # -------------------------------------------------------------------------------------------- entry points

    def receive(self, peer: str, frame: Frame, now: float) -> Effects:
        if type(frame) is Hello:
            refusal = self._greeted(peer, frame)
            if refusal is not None:
                return refusal
        self._now = now
        self.hub.receive(peer, frame, now)
        return self.hub.take()

    def _greeted(self, peer: str, hello: Hello) -> Effects | None:  # noqa: ARG002
        """Somebody says hello; what to answer if the hub is not to hear of it."""
        return None

    def timer(self, name: str, now: float) -> Effects:
        self._now = now
        if self.hub.timer(name, now) and name == BEAT_TIMER:
            self._expire_sessions(now)
        return self.hub.take()

    def peer_up(self, peer: str, now: float) -> Effects:
        self._now = now
        self.hub.peer_up(peer, now)
        return self.hub.take()

    def peer_down(self, peer: str, now: float) -> Effects:
        self._now = now
        self.hub.peer_down(peer)
        return self.hub.take()

    def settle(self, now: float) -> Effects:
        self._now = now
        if self.publishers.due:
            self._write_numbers()
        for peer in self.hub.overfull():
            self.given_up.note(peer, self._interests_of(peer), now)
        self.hub.settle()
        self._leave_if_drained()
        return self.hub.take()

    def stop(self, now: float) -> Effects:
        """Take nothing more in, finish what is under way, then say goodbye."""
        if self.phase is not Phase.GONE:
            self._enter(Phase.LEAVING)
            self.hub.granting = False
        return self.settle(now)

    def _enter(self, phase: Phase) -> None:
        self.phase = phase
        self.hub.out.append(Report(phase.value))

    def _leave_if_drained(self) -> None:
        if self.phase is Phase.LEAVING and self._idle() and self.hub.drained():
            self.hub.close_all(f"broker {self.name} is leaving")
            self.phase = Phase.GONE
            self._write_last_words()
            self.hub.out.append(Report("stopped"))

    def _write_last_words(self) -> None:
        """Who leaves in order knows exactly how far everybody is."""
        if self.notebook.durable:
            self.hub.out += self.notebook.left()
            for name, last in self.publishers.exact().items():
                self.hub.out += self.notebook.numbered(name, last, exact=True)

    @abstractmethod
    def _idle(self) -> bool:
        """Whether nothing that this broker took in is under way any more, as far as the links do not know it."""

    # ------------------------------------------------------------------------------------------ the hub's owner

    def admit(self, hello: Hello) -> Refusal | None:
        if self.phase is not Phase.SERVING:
            return Refusal("not-ready", f"broker {self.name} is {self.phase.value}: try again, or another broker")
        full = self.sessions.refusal(hello)
        return full or (self.names.refusal(hello.node) if hello.kind == "client" else None)

    def turn_away(self, hello: Hello) -> Refusal | None:
        return self.hub.turn_away(hello)

    def throw_out(self, peer: str, reason: str, now: float) -> Effects:
        self._now = now
        self.hub.throw_out(peer, reason)
        return self.hub.take()

    @abstractmethod
    def _is_broker(self, name: str) -> bool:
        """Whether that is the name of a broker, as far as this one knows."""

    def welcome(self, hello: Hello) -> tuple[int, str, tuple[int, ...]]:
        return self.publishers.last(hello.node), self.protocol, self.guarantees

    def link_opened(self, link: Link, fresh: bool) -> None:
        self._detached_at.pop(link.peer, None)
        self.hub.out.append(Report("attach" if fresh else "resume", peer=link.peer))
        if link.kind == "broker":
            self.names.greet(link.peer)
        elif fresh:
            self.names.opened(link.peer)

    def link_closed(self, link: Link) -> None:
        if not link.dialler:
            self._detached_at[link.peer] = self._now
        self.hub.out.append(Report("detach", peer=link.peer))

    def link_refused(self, link: Link, refusal: Refusal) -> None:
        self.hub.out.append(Report("refused", peer=link.peer, detail=refusal.reason))

    def link_ended(self, link: Link, reason: str) -> None:
        self._detached_at.pop(link.peer, None)
        self.slow_readers.forget(link.peer)
        self.allowances.forget(link.peer)
        self.hub.out.append(Report("end", peer=link.peer, detail=reason))
        if link.kind == "client":
            self._session_over(link.peer)

    def _session_over(self, client: str) -> None:
        """A session of ours has ended for good; whoever has its name next goes on behind its numbers."""
        self.names.ended(client)
        self.publishers.retire(client)

    def _brokers(self) -> Iterable[str]:
        """Whom to tell of our clients' sessions."""
        return list(self.hub.links.brokers)

    def link_levels(self, link: Link, levels: Levels) -> None:  # noqa: B027 - most protocols have no use for it
        """Without repairs nobody needs to know."""

    def link_acknowledged(self, link: Link) -> None:
        if self.phase is Phase.LEAVING and not link.sent:
            self._leave_if_drained()

    def _cross_border(self, link: Link, message: SessionMessage) -> None:
        """Refuse what this peer may not send, and what a broker should have refused before it."""
        check_place(self.border, self._place_of(link), link.peer, message)
        if link.kind == "broker" or type(message) not in FROM_CLIENTS:
            problem = request_problem(message)
            if problem:
                raise PeerViolation(f"{link.kind} {link.peer} sent {type(message).__name__}: {problem}")

    def _place_of(self, link: Link) -> Place:
        return Place.CLIENT if link.kind == "client" else Place.NEIGHBOUR

    def link_message(self, link: Link, message: SessionMessage) -> None:
        if link.kind == "client":
            self._from_client(link, message)
            return
        if type(message) is Hole and not self.queues_holes:
            self.hub.consumed(link, message)
            self.holes.on_hole(link.peer, message)
        elif type(message) is Named:
            self.hub.consumed(link, message)
            self.names.hear(link.peer, message)
        else:
            self._take(link, message, message)

    def _told_of_holes(self) -> Iterable[str]:
        """Those to whom a notice of a hole goes: everybody who has a session here."""
        return list(self.hub.links)

    def _from_client(self, link: Link, message: SessionMessage) -> None:
        taken: SessionMessage | None = message
        if isinstance(message, Publish):
            taken = self._accepted(link.peer, message)
        elif isinstance(message, Recall):
            # A client asks for itself, whatever it says.
            self._recall(link.peer, Recall(message.token, link.peer, message.stride, message.used))
            taken = None
        elif isinstance(message, Subscribe | Unsubscribe | Confirm):
            problem = self.allowances.problem_with(link.peer, message)
            if problem:
                self._send(link.peer, Rejected(message.token, 0, 0, problem))
                taken = None
            elif not isinstance(message, Confirm):
                self.slow_readers.note(link.peer, message)
                self.hub.wait_no_longer(link.peer)
        if taken is not None:
            self._take(link, taken, message)
        else:
            self.hub.consumed(link, message)

    def _recall(self, peer: str, recall: Recall) -> None:
        """Say which numbers are used under a client's name; whoever asks goes on behind them. The edge knows its own.

        Others may draw numbers under the name, elsewhere and at the same time. So the numbers of a name begin at each
        edge at a place that was drawn, and go on there.
        """
        last = self.publishers.last(name_of(peer))
        if is_tagged(peer):
            last = last or min(self.names.highest(peer) + recall.stride, SEQ_MAX)
        last = min(max(last, recall.used), SEQ_MAX)
        if is_tagged(peer) or recall.used:
            self.publishers.note(peer, last)
        self._send(peer, Recalled(recall.token, last, not is_tagged(peer)))

    def _highest(self, publisher: str) -> int:
        """The highest number that is known here of a publisher."""
        return self.publishers.last(publisher)

    def _accepted(self, client: str, message: Publish) -> Publish | None:
        """What is new of a publication. Its numbers are used now, not when it goes on: its next session may ask."""
        batch = message.batch
        try:
            new = accept_publication(client, batch, self.publishers)
            self._check_given(batch)
        except PublicationRefused as refused:
            self._send(client, Rejected(0, batch.first, batch.last, str(refused)))
            return None
        if self.publishers.due:
            self._write_numbers()
        if new is batch:
            return message
        return None if new is None else Publish(new)

    def _write_numbers(self) -> None:
        """Numbers are reserved on disk before anything that has them goes on."""
        for name, last in self.publishers.due.items():
            self.hub.out += self.notebook.numbered(name, last, exact=False)
        self.publishers.due.clear()

    def _check_given(self, batch: Batch) -> None:
        """Refuse what the protocol does not give, rather than give less."""
        if batch.guarantee not in self.guarantees:
            given = ", ".join(GUARANTEES[rank] for rank in self.guarantees)
            wanted = GUARANTEES[batch.guarantee].value
            raise PublicationRefused(f"protocol {self.protocol} does not give {wanted!r}: it gives {given}")

    @abstractmethod
    def _take(self, link: Link, message: SessionMessage, arrived: SessionMessage) -> None:
        """Handle what came over a link: `message` is what of it is new, `arrived` what counts as consumed."""

    def _consumed(self, link: Link, arrived: SessionMessage) -> None:
        """A session that is over, or another one under the same name, is granted nothing for it."""
        if self.hub.links.get(link.peer) is link:
            self.hub.consumed(link, arrived)

    def _send(self, peer: str, message: SessionMessage) -> None:
        """To a session that is over nothing needs to be said."""
        if peer in self.hub.links:
            self.hub.send(peer, message)

    # ------------------------------------------------------------------------------------------------- sessions

    def _expire_sessions(self, now: float) -> None:
        self.given_up.forget_old(now)
        self.sessions.expire(now)

    def slow_status(self) -> dict[str, object]:
        """What a broker says of clients that do not take what they asked for."""
        return {
            "left_out": dict(self.slow_readers.left_out),
            "slow": self.slow_readers.status(),
            "dropped_messages": self.slow_readers.dropped_total,
            "slow_ended": self.hub.slow_ended + self.slow_readers.ended_total,
        }

    def _note_given_up(self, peer: str) -> None:
        """Nobody can say any more what its application has got: receipts name it."""
        self.given_up.note(peer, self._interests_of(peer), self._now)

    def _interests_of(self, peer: str) -> Iterable[Interest]:  # noqa: ARG002
        """What that peer wants; receipts name it by that if its session is given up."""
        return ()

    def _tell_publisher(self, publisher: str, crossed: Crossed) -> None:
        """To a publisher that has its session elsewhere its receipts tell it, if it asks."""
        link = self.hub.links.get(publisher)
        if link is not None and link.kind == "client":
            self._send(publisher, crossed)

    def _account(self, asked: Confirm, age_s: float) -> Finding:
        """What this broker knows against a confirmation besides what those behind it say: see `confirmations`."""
        if age_s == UNKNOWN_AGE_S:
            return CLEAN
        crossed = self.crossed.has(asked.publisher, asked.seq)
        hole = Finding(broken=self.holes.since(age_s + ON_ITS_WAY_S), crossed=crossed)
        return self.given_up.since(asked, age_s, self._now).joined(hole)

    def ready(self) -> bool:
        return self.phase is Phase.SERVING
