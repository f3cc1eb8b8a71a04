"""A broker of the Ginger tree, without faults yet (thesis 000, chapter 3).

Each link is one FIFO stream over all topics, and the overlay is a tree, so whatever could depend on a message travels
behind it on every path: fifo and causal order need no metadata. Total order comes from the top of each
topic's subtree (`turning`), subscriptions are confirmed by every broker (`interests`).

    STARTING --start--> JOINING --Interests complete--> SERVING --stop--> LEAVING --drained--> GONE
       (a root goes from STARTING to SERVING at once)

Only a serving broker admits clients and children, so a newcomer knows every interest before anybody can publish there.

Invariants: a client's publications pass in the order of their numbers, each once; what went up and has not turned is
remembered, and everything that its publisher publishes later goes up behind it.
"""

from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import ClassVar

from holdfast.model.batches import SEQ_MAX, Batch, Choice
from holdfast.model.errors import PeerViolation
from holdfast.model.guarantees import CAUSAL, EVENTUAL, FIFO, TOTAL
from holdfast.model.hole_messages import Hole
from holdfast.model.identities import name_of
from holdfast.model.messages import (
    Climb,
    Confirm,
    ConfirmAck,
    Interest,
    Interests,
    Publish,
    SessionMessage,
    Subscribe,
    SubscribeAck,
    Turned,
    Unsubscribe,
    UnsubscribeAck,
)
from holdfast.model.name_messages import Recall, Recalled
from holdfast.model.plurals import counted
from holdfast.model.receipt_messages import UNKNOWN_AGE_S
from holdfast.protocols.border import Border
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.confirmations import Confirmations
from holdfast.protocols.edges import EdgeBroker, Phase
from holdfast.protocols.ginger.border import FIXED_BORDER
from holdfast.protocols.ginger.turning import Turning
from holdfast.protocols.given_up import UNACCOUNTED
from holdfast.protocols.hub import BEAT_TIMER
from holdfast.protocols.interests import InterestMap
from holdfast.protocols.links import Link, LinkState
from holdfast.protocols.node import Effects
from holdfast.protocols.recalls import Recalls


class GingerBroker(EdgeBroker):
    """One broker. See `protocols.node.BrokerNode`."""

    protocol: ClassVar[str] = "ginger"
    guarantees: ClassVar[tuple[int, ...]] = (EVENTUAL, FIFO, CAUSAL, TOTAL)
    queues_holes: ClassVar[bool] = True
    border: ClassVar[Border] = FIXED_BORDER

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        super().__init__(config, incarnation)
        self.interests = InterestMap(self._send)
        self.turning = Turning(self, self.interests, self._send)
        self.confirmations = Confirmations(self._send, self._account, lambda: self._now)
        self.recalls = Recalls(self._send, self._recalled)
        self._early_questions: dict[str, deque[tuple[Link, Confirm]]] = {}
        """Of clients, about messages that have not turned."""

    # -------------------------------------------------------------------------------------------- entry points

    def start(self, now: float) -> Effects:
        # Nobody hears from an epoch that is not written down.
        self.hub.out += self.notebook.epoch(self.hub.incarnation)
        self.hub.start()
        if self.parent is None:
            self._enter(Phase.SERVING)
        else:
            self._enter(Phase.JOINING)
            self.hub.dial(self.parent, now)
        return self.hub.take()

    def _idle(self) -> bool:
        return self.turning.idle()

    # ------------------------------------------------------------------------------------------ the hub's owner

    def _is_broker(self, name: str) -> bool:
        return name in self.interests.neighbours or name == self.parent

    def link_opened(self, link: Link, fresh: bool) -> None:
        if fresh and link.kind == "broker":
            self.interests.join(link.peer, tell=not link.dialler)
        super().link_opened(link, fresh)

    def link_ended(self, link: Link, reason: str) -> None:
        self._session_ends(link.peer)
        super().link_ended(link, reason)

    def _session_ends(self, peer: str) -> None:
        self._early_questions.pop(peer, None)
        self.turning.brake.forget(peer)
        self.interests.drop(peer)
        self.confirmations.drop(peer)
        self.recalls.drop(peer)
        self.turning.drop(peer)

    # ------------------------------------------------------------------------------------------------ questions

    def _take(self, link: Link, message: SessionMessage, arrived: SessionMessage) -> None:
        if link.kind == "client" and self.turning.is_full_for(message):
            self.turning.brake.hold(link.peer, partial(self._consumed, link, arrived))
        else:
            self._consumed(link, arrived)
        if link.kind == "client" and isinstance(message, Confirm) and self._is_early(message):
            self._early_questions.setdefault(link.peer, deque()).append((link, message))
        else:
            self._handle(link, message)

    def _is_early(self, asked: Confirm) -> bool:
        """Whether a question would overtake the message that it is about, which has not turned."""
        return self.turning.has_climbing(asked.publisher, asked.seq)

    # ------------------------------------------------------------------------------------------------- messages

    def _handle(self, link: Link, message: SessionMessage) -> None:
        peer = link.peer
        if isinstance(message, Publish):
            if link.kind == "client":
                self._publish(link, message)
            else:
                self._pass_on(message, peer)
                self.turning.passed(message.batch)
        elif isinstance(message, Subscribe):
            self.interests.subscribe(peer, message)
            self._interests_changed()
        elif isinstance(message, Unsubscribe):
            self.interests.unsubscribe(peer, message)
            self._interests_changed()
        elif isinstance(message, SubscribeAck | UnsubscribeAck):
            self.interests.on_ack(message.token)
            self._interests_changed()
        elif isinstance(message, Confirm):
            self._on_confirm(peer, message)
        elif isinstance(message, ConfirmAck):
            self.confirmations.on_ack(peer, message.token, finding=message.finding)
        else:
            self._handle_from_neighbour(peer, message)

    def _publish(self, link: Link, message: Publish) -> None:
        if self.turning.goes_up(message.batch):
            self.turning.enter(message.batch, link.peer)
        else:
            self._pass_on(message, link.peer)

    def _interests_changed(self) -> None:
        self.turning.pump()

    def _handle_from_neighbour(self, peer: str, message: SessionMessage) -> None:
        if isinstance(message, Climb):
            self.turning.enter(message.batch, peer)
        elif isinstance(message, Turned):
            self.turning.on_turned(message.publisher, message.last)
        elif isinstance(message, Hole):
            self.holes.on_hole(peer, message)
        elif isinstance(message, Recall):
            self._recall(peer, message)
        elif isinstance(message, Recalled):
            self.recalls.on_answer(peer, message)
        elif isinstance(message, Interests):
            self.interests.learn(peer, message.entries)
            if message.complete and self.phase is Phase.JOINING:
                self._enter(Phase.SERVING)
        else:
            raise PeerViolation(f"broker {peer} sent {type(message).__name__}, which only goes to clients")

    def _pass_on(self, message: Publish, arrived_from: str) -> None:
        """To everybody who wants it, except back to the broker that it came from."""
        batch = message.batch
        neighbours = self.interests.neighbours
        for destination, choice in self.interests.table.takers(batch).items():
            if destination not in neighbours:
                self._deliver(destination, batch, choice, message)
            elif destination != arrived_from:
                self._send(destination, message)

    def _deliver(self, client: str, batch: Batch, choice: Choice, message: Publish) -> None:
        if self.slow_readers.leaves_out(client, batch):
            return
        if choice is None:
            self._send(client, message)
            return
        for part in batch.chosen(choice):
            self._send(client, Publish(part))

    def _on_confirm(self, peer: str, confirm: Confirm) -> None:
        table, neighbours = self.interests.table, self.interests.neighbours
        everybody = confirm.age_s == UNKNOWN_AGE_S
        owed = table.destinations(confirm.topic) if everybody else table.takers_of(confirm.topic, confirm.attributes)
        behind = [name for name in owed if name != UNACCOUNTED and (name != peer or name not in neighbours)]
        self.confirmations.begin(peer, confirm, behind)

    def _interests_of(self, peer: str) -> list[Interest]:
        return self.interests.table.interests(peer)

    def _brokers(self) -> Iterable[str]:
        return self.interests.neighbours

    def _recall(self, peer: str, recall: Recall) -> None:
        behind = [name for name in self.interests.neighbours if name != peer]
        reached = [name for name in behind if name in self.hub.links]
        counted = name_of(recall.publisher) not in self.publishers.uncertain
        certain = counted and reached == behind and self._sees_everybody()
        self.recalls.begin(peer, recall, reached, self.names.highest(recall.publisher), certain, self._now)

    def _sees_everybody(self) -> bool:
        """Whether no client can be in the tree, as far as is known, whose broker a question does not reach."""
        return True

    def _recalled(self, source: str, asked: Recall, last: int, certain: bool) -> None:
        if source not in self.interests.neighbours:
            certain = certain and self.names.is_last(source)
            last = min(max(last, asked.used) + (0 if certain else asked.stride), SEQ_MAX)
            self.publishers.note(source, last)
        self._send(source, Recalled(asked.token, last, certain))

    def timer(self, name: str, now: float) -> Effects:
        if name == BEAT_TIMER:
            self.recalls.expire(now)
        return super().timer(name, now)

    # ------------------------------------------------------------------------------------------ the turning's owner

    def spread_turned(self, batch: Batch, came_from: str) -> None:  # noqa: ARG002
        self._pass_on(Publish(batch), "")

    def has_turned(self, client: str) -> None:
        """Questions of that client go on if they were about what has turned."""
        waiting = self._early_questions.get(client)
        while waiting and not self._is_early(waiting[0][1]):
            link, asked = waiting.popleft()
            if self.hub.links.get(client) is link:
                self._handle(link, asked)
        if waiting is not None and not waiting:
            del self._early_questions[client]

    # ---------------------------------------------------------------------------------------------- inspection

    def status(self) -> dict[str, object]:
        links = self.hub.links.values()
        children = sorted(link.peer for link in links if link.kind == "broker" and not link.dialler)
        return {
            "name": self.name,
            "protocol": self.protocol,
            "phase": self.phase.value,
            "parent": self.parent,
            "children": children,
            "clients": sorted(name_of(link.peer) for link in links if link.kind == "client"),
            "links": {link.peer: link.state.value for link in links},
            "backlog_bytes": {link.peer: link.backlog_bytes for link in links if link.backlog_bytes},
            "away": {
                name_of(link.peer): link.backlog_bytes for link in links if link.kind == "client" and not link.is_open
            },
            **self.slow_status(),
            "subscriptions": len(self.interests.table),
            "climbing": self.turning.waiting_for(),
        }

    def check_invariants(self) -> None:
        self.hub.check_invariants()
        self.interests.check_invariants()
        self.turning.check_invariants()
        self.names.check_invariants()

    def waiting_for(self) -> list[str]:
        reasons = [
            f"{counted(count, 'answer')} about subscriptions from {peer}"
            for peer, count in self.interests.waiting.items()
        ]
        reasons += self.turning.waiting_for()
        reasons += self.hub.waiting_for()
        reasons += self.confirmations.waiting_for() + self.recalls.waiting_for()
        if self.parent is not None and self.phase is not Phase.GONE and self._parent_away():
            reasons.append(f"a connection to its parent {self.parent}")
        return reasons

    def _parent_away(self) -> bool:
        link = self.hub.links.get(self.parent or "")
        return link is None or link.state is not LinkState.OPEN
