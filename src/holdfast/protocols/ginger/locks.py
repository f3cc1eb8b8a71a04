"""Ginger with the thesis' key locks taken literally, kept to show what they break (docs/papers/ginger.md, 12).

A total batch climbs to the root of its topic's subtree, which locks its keys at every broker of the subtree and
releases the batch when all have locked (`cuts`). Meanwhile everything on a locked key waits, wherever it comes from,
also what is in transit from inside the cut and belongs before it. A publisher has one total batch under way at a time.
"""

from collections import deque
from typing import ClassVar

from holdfast.model.batches import BATCH_BYTES_MAX, Batch, merged
from holdfast.model.guarantees import TOTAL
from holdfast.model.hole_messages import Hole
from holdfast.model.messages import (
    Confirm,
    Publish,
    SessionMessage,
    TotalAck,
    TotalMarker,
    TotalProcessed,
    TotalRequest,
)
from holdfast.model.plurals import counted
from holdfast.protocols.border import Border
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.ginger.border import LOCKING_BORDER
from holdfast.protocols.ginger.broker import GingerBroker
from holdfast.protocols.ginger.cuts import BatchId, CutMap
from holdfast.protocols.links import Link

MERGED_COUNT_MAX = 256
"""A total batch is ordered as one message with all its keys: what is merged does not tie too many keys together."""


class _Held:
    """A message that waits; `arrived` is what its session brought, and counts as consumed when it goes on."""

    __slots__ = ("arrived", "link", "message")

    def __init__(self, link: Link, message: SessionMessage, arrived: SessionMessage) -> None:
        self.link, self.message, self.arrived = link, message, arrived


class LockingBroker(GingerBroker):
    """One broker that locks keys."""

    protocol: ClassVar[str] = "ginger-locks"
    border: ClassVar[Border] = LOCKING_BORDER

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        super().__init__(config, incarnation)
        self.cuts = CutMap(self, self.interests, self._send)
        self._lanes: dict[str, deque[_Held]] = {}
        self._under_way: dict[str, BatchId] = {}
        self._retrying = self._retry_again = False

    def _idle(self) -> bool:
        return self.cuts.idle() and not self._lanes

    def _session_ends(self, peer: str) -> None:
        self._thin_out(peer)
        super()._session_ends(peer)
        self.cuts.drop(peer)

    # ---------------------------------------------------------------------------------------------------- lanes

    def _take(self, link: Link, message: SessionMessage, arrived: SessionMessage) -> None:
        """Handle a message now, or let it wait behind what waits."""
        if not isinstance(message, Publish) and link.kind != "client":
            super()._take(link, message, arrived)
            return
        lane = self._lanes.get(link.peer)
        if lane is not None:
            lane.append(_Held(link, message, arrived))
        elif self._must_wait(link.peer, message):
            self._lanes[link.peer] = deque((_Held(link, message, arrived),))
        else:
            super()._take(link, message, arrived)

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
        return bool(self.cuts.on(message.batch.topic, message.batch.key_set()))

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

    def _publish(self, link: Link, message: Publish) -> None:
        if message.batch.guarantee == TOTAL:
            self._under_way[link.peer] = (message.batch.publisher, message.batch.first)
            self.cuts.request(message.batch, link.peer)
        else:
            self._pass_on(message, link.peer)

    def _interests_changed(self) -> None:
        self.cuts.pump()

    def _handle_from_neighbour(self, peer: str, message: SessionMessage) -> None:
        if isinstance(message, TotalRequest):
            self.cuts.request(message.batch, peer)
        elif isinstance(message, TotalMarker):
            self.cuts.on_marker(peer, message)
        elif isinstance(message, TotalAck):
            self.cuts.on_ack(peer, message)
        elif isinstance(message, TotalProcessed):
            self.cuts.on_processed(peer, message)
        else:
            super()._handle_from_neighbour(peer, message)

    # -------------------------------------------------------------------------------------------- the cuts' owner

    def deliver_total(self, batch: Batch, source: str) -> None:  # noqa: ARG002
        message = Publish(batch)
        for destination, choice in self.interests.table.takers(batch).items():
            if destination not in self.interests.neighbours:
                self._deliver(destination, batch, choice, message)

    def total_done(self, client: str, batch_id: BatchId) -> None:
        if self._under_way.get(client) == batch_id:
            del self._under_way[client]
            self._retry()

    def cut_ended(self) -> None:
        if self._lanes:
            self._retry()

    # ---------------------------------------------------------------------------------------------- inspection

    def status(self) -> dict[str, object]:
        return {**super().status(), "cuts": len(self.cuts.under_way()), "held": sum(map(len, self._lanes.values()))}

    def check_invariants(self) -> None:
        super().check_invariants()
        self.cuts.check_invariants()
        for peer, lane in self._lanes.items():
            assert lane, f"the lane of {peer} is shut for nothing"
        if self._lanes:
            assert self.cuts.under_way() or self._under_way, "messages wait, but for no cut and no total batch"

    def waiting_for(self) -> list[str]:
        reasons = super().waiting_for() + self.cuts.waiting_for()
        reasons += [
            f"a cut to end, for {counted(len(lane), 'message')} from {peer}" for peer, lane in self._lanes.items()
        ]
        return reasons + [
            f"the release of {client}'s total batch #{first}" for client, (_, first) in self._under_way.items()
        ]


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
        if count > MERGED_COUNT_MAX or size > BATCH_BYTES_MAX:
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
