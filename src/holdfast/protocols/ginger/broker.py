"""A broker of the Ginger tree, without faults yet (thesis 000, chapter 3).

Each link is one FIFO stream over all topics, and the overlay is a tree, so whatever could depend on a message travels
behind it on every path: fifo and causal order need no metadata. Total order is a consistent cut per key (`cuts`),
subscriptions are confirmed by every broker (`interests`), what must wait waits in `lanes`.

    STARTING --start--> JOINING --Interests complete--> SERVING --stop--> LEAVING --drained--> GONE
       (a root goes from STARTING to SERVING at once)

Only a serving broker admits clients and children, so a newcomer knows every interest before anybody can publish there.

Invariants: a client's publications pass in the order of their numbers, each once; a publisher with a total batch under
way has nothing else under way; whatever waits in a lane waits for a cut or for such a batch.
"""

from collections import deque
from collections.abc import Iterable
from typing import ClassVar

from holdfast.model.batches import BATCH_BYTES_MAX, SEQ_MAX, Batch, Choice, merged
from holdfast.model.errors import PeerViolation
from holdfast.model.guarantees import CAUSAL, EVENTUAL, FIFO, TOTAL
from holdfast.model.hole_messages import Hole
from holdfast.model.identities import name_of
from holdfast.model.messages import (
    Confirm,
    ConfirmAck,
    Interest,
    Interests,
    Publish,
    SessionMessage,
    Subscribe,
    SubscribeAck,
    TotalAck,
    TotalMarker,
    TotalProcessed,
    TotalRequest,
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
from holdfast.protocols.ginger.cuts import BatchId, CutMap
from holdfast.protocols.given_up import UNACCOUNTED
from holdfast.protocols.hub import BEAT_TIMER
from holdfast.protocols.interests import InterestMap
from holdfast.protocols.links import Link, LinkState
from holdfast.protocols.node import Effects
from holdfast.protocols.recalls import Recalls
from holdfast.protocols.runs import TOTAL_BATCH_COUNT_MAX


class _Held:
    """A message that waits; `arrived` is what its session brought, and counts as consumed when it goes on."""

    __slots__ = ("arrived", "link", "message")

    def __init__(self, link: Link, message: SessionMessage, arrived: SessionMessage) -> None:
        self.link, self.message, self.arrived = link, message, arrived


class GingerBroker(EdgeBroker):
    """One broker. See `protocols.node.BrokerNode`."""

    protocol: ClassVar[str] = "ginger"
    guarantees: ClassVar[tuple[int, ...]] = (EVENTUAL, FIFO, CAUSAL, TOTAL)
    queues_holes: ClassVar[bool] = True
    border: ClassVar[Border] = FIXED_BORDER

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        super().__init__(config, incarnation)
        self.interests = InterestMap(self._send)
        self.cuts = CutMap(self, self.interests, self._send)
        self.confirmations = Confirmations(self._send, self._account, lambda: self._now)
        self.recalls = Recalls(self._send, self._recalled)
        self._lanes: dict[str, deque[_Held]] = {}
        self._under_way: dict[str, Batch] = {}
        self._retrying = self._retry_again = False

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
        return self.cuts.idle() and not self._lanes

    # ------------------------------------------------------------------------------------------ the hub's owner

    def _is_broker(self, name: str) -> bool:
        return name in self.interests.neighbours or name == self.parent

    def link_opened(self, link: Link, fresh: bool) -> None:
        if fresh and link.kind == "broker":
            self.interests.join(link.peer, tell=not link.dialler)
        super().link_opened(link, fresh)

    def link_ended(self, link: Link, reason: str) -> None:
        self._thin_out(link.peer)
        self.interests.drop(link.peer)
        self.confirmations.drop(link.peer)
        self.recalls.drop(link.peer)
        self.cuts.drop(link.peer)
        super().link_ended(link, reason)

    # ---------------------------------------------------------------------------------------------------- lanes

    def _take(self, link: Link, message: SessionMessage, arrived: SessionMessage) -> None:
        """Handle a message now, or let it wait.

        Behind what waits, everything from the same peer waits, whatever its topic and guarantee:
        1. alice publishes x, which waits here, then y on another topic, which does not pass here.
        2. bob delivers y elsewhere and publishes z, which comes along the same link as x.
        3. z is after x in causal order, and nothing in z says so.
        """
        lane = self._lanes.get(link.peer)
        if lane is not None:
            lane.append(_Held(link, message, arrived))
        elif self._must_wait(link.peer, message):
            self._lanes[link.peer] = deque((_Held(link, message, arrived),))
        else:
            self._consumed(link, arrived)
            self._handle(link, message)

    def _thin_out(self, peer: str) -> None:
        """A session is over: what it published was accepted and goes out when it can, what it asked for is void."""
        lane = self._lanes.pop(peer, None)
        if lane is not None:
            kept = deque(held for held in lane if isinstance(held.message, Publish | TotalRequest | Hole))
            if kept:
                self._lanes[peer] = kept

    def _must_wait(self, peer: str, message: SessionMessage) -> bool:
        if peer in self._under_way and isinstance(message, Publish | Confirm):
            return True
        if not isinstance(message, Publish):
            return False
        if message.batch.guarantee == TOTAL and peer not in self.interests.neighbours:
            # It asks for a cut of its own. Between brokers a total batch that is published was released long ago.
            return False
        return bool(message.batch.keys) and self._cut_off(peer, message.batch)

    def _cut_off(self, peer: str, batch: Batch) -> bool:
        """Whether some cut on the batch's keys puts it, coming from this peer, after the cut."""
        return any(cut.closed and not cut.includes(peer) for cut in self.cuts.on(batch.topic, batch.key_set()))

    def _retry(self) -> None:
        """Something ended that messages waited for: let each lane go as far as it can."""
        if self._retrying:
            self._retry_again = True
            return
        self._retrying = self._retry_again = True
        while self._retry_again:
            self._retry_again = False
            for peer in list(self._lanes):
                self._run_lane(peer, self._lanes.pop(peer))
        self._retrying = False

    def _run_lane(self, peer: str, lane: deque[_Held]) -> None:
        while lane:
            held = lane.popleft()
            more = _totals_to_merge(held, lane) if held.link.kind == "client" else []
            if more and peer not in self._under_way and peer not in self._lanes:
                for one in more:
                    self._consumed(one.link, one.arrived)
                batches = [one.message.batch for one in more if isinstance(one.message, Publish)]
                self._handle_merged(held.link, batches)
            else:
                lane.extendleft(reversed(more[1:]))
                self._take(held.link, held.message, held.arrived)

    def _handle_merged(self, link: Link, batches: list[Batch]) -> None:
        self._handle(link, Publish(merged(batches)))

    # ------------------------------------------------------------------------------------------------- messages

    def _handle(self, link: Link, message: SessionMessage) -> None:
        peer = link.peer
        if isinstance(message, Publish):
            if link.kind == "client" and message.batch.guarantee == TOTAL:
                self._under_way[peer] = message.batch
                self.cuts.request(message.batch, peer)
            else:
                self._pass_on(message, peer)
        elif isinstance(message, Subscribe):
            self.interests.subscribe(peer, message)
            self.cuts.pump()
        elif isinstance(message, Unsubscribe):
            self.interests.unsubscribe(peer, message)
            self.cuts.pump()
        elif isinstance(message, SubscribeAck | UnsubscribeAck):
            self.interests.on_ack(message.token)
        elif isinstance(message, Confirm):
            self._on_confirm(peer, message)
        elif isinstance(message, ConfirmAck):
            self.confirmations.on_ack(peer, message.token, finding=message.finding)
        else:
            self._handle_from_neighbour(peer, message)

    def _handle_from_neighbour(self, peer: str, message: SessionMessage) -> None:
        if isinstance(message, TotalRequest):
            self.cuts.request(message.batch, peer)
        elif isinstance(message, TotalMarker):
            self.cuts.on_marker(peer, message)
        elif isinstance(message, TotalAck):
            self.cuts.on_ack(peer, message)
        elif isinstance(message, TotalProcessed):
            self.cuts.on_processed(peer, message)
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

    # -------------------------------------------------------------------------------------------- the cuts' owner

    def deliver_total(self, batch: Batch, source: str) -> None:  # noqa: ARG002
        message = Publish(batch)
        for destination, choice in self.interests.table.takers(batch).items():
            if destination not in self.interests.neighbours:
                self._deliver(destination, batch, choice, message)

    def total_done(self, client: str, batch_id: BatchId) -> None:
        batch = self._under_way.get(client)
        if batch is not None and (batch.publisher, batch.first) == batch_id:
            del self._under_way[client]
            self._retry()

    def cut_ended(self) -> None:
        if self._lanes:
            self._retry()

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
            "cuts": len(self.cuts.under_way()),
            "held": sum(map(len, self._lanes.values())),
        }

    def check_invariants(self) -> None:
        self.hub.check_invariants()
        self.interests.check_invariants()
        self.cuts.check_invariants()
        self.names.check_invariants()
        for peer, lane in self._lanes.items():
            assert lane, f"the lane of {peer} is shut for nothing"
        if self._lanes:
            assert self.cuts.under_way() or self._under_way, "messages wait, but for no cut and no total batch"

    def waiting_for(self) -> list[str]:
        reasons = [
            f"{counted(count, 'answer')} about subscriptions from {peer}"
            for peer, count in self.interests.waiting.items()
        ]
        reasons += self.cuts.waiting_for()
        reasons += [
            f"a cut to end, for {counted(len(lane), 'message')} from {peer}" for peer, lane in self._lanes.items()
        ]
        reasons += [f"the release of {client}'s total batch #{one.first}" for client, one in self._under_way.items()]
        reasons += self.hub.waiting_for()
        reasons += self.confirmations.waiting_for() + self.recalls.waiting_for()
        if self.parent is not None and self.phase is not Phase.GONE and self._parent_away():
            reasons.append(f"a connection to its parent {self.parent}")
        return reasons

    def _parent_away(self) -> bool:
        link = self.hub.links.get(self.parent or "")
        return link is None or link.state is not LinkState.OPEN


class LockingBroker(GingerBroker):
    """Ginger with the thesis' key locks taken literally: everything on a locked key waits, wherever it comes from.

    Kept to show what that breaks (docs/papers/ginger.md, 12): what is in transit from inside the cut belongs before it.
    """

    protocol: ClassVar[str] = "ginger-locks"

    def _take(self, link: Link, message: SessionMessage, arrived: SessionMessage) -> None:
        if isinstance(message, Publish) or link.kind == "client":
            super()._take(link, message, arrived)
        else:
            self._consumed(link, arrived)
            self._handle(link, message)

    def _cut_off(self, peer: str, batch: Batch) -> bool:  # noqa: ARG002
        return bool(self.cuts.on(batch.topic, batch.key_set()))


def _totals_to_merge(held: _Held, lane: deque[_Held]) -> list[_Held]:
    """The total publications at the head of a client's lane that may go as one batch; taken out of the lane."""
    message = held.message
    if not isinstance(message, Publish) or message.batch.guarantee != TOTAL:
        return []
    found, last, count, size = [held], message.batch, message.batch.count, message.batch.cost_bytes
    while lane:
        follower = lane[0].message
        if not isinstance(follower, Publish) or not _adjacent(last, follower.batch):
            break
        last = follower.batch
        count, size = count + last.count, size + last.cost_bytes
        if count > TOTAL_BATCH_COUNT_MAX or size > BATCH_BYTES_MAX:
            break
        found.append(lane.popleft())
    return found


def _adjacent(batch: Batch, follower: Batch) -> bool:
    return (
        follower.guarantee == batch.guarantee
        and follower.topic == batch.topic
        and follower.publisher == batch.publisher
        and follower.first == batch.last + 1
    )
