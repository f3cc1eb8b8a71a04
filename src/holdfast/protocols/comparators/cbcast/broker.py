"""CBCAST among brokers (Birman, Schiper, Stephenson, *Lightweight Causal and Atomic Group Multicast*, 1991, 5.1, 6.1).

A group is a topic: the brokers that have a client for it. A broker sends what its clients publish to every member of
the group directly, with its vector clocks, one a group (`clocks`). A receiver delivers a cast when it is the next of
its sender to that group and everything that it depends on, in the receiver's own groups, is delivered (`queues`).

Who is there and who belongs to which group is the *view*, the same for all. Whoever subscribes, joins, leaves or dies
changes it, and every change is a flush (`flush`): multicasts stop, what was sent arrives everywhere, then all go on in
the next view with clocks at nothing. A cast is so delivered in the view in which it was sent, by all that live on or by
none of them.

Invariants: casts are delivered in the view in which they were sent; while a view is flushed nothing new is sent in it;
a view begins with nothing under way.
"""

from collections import deque
from typing import ClassVar

from holdfast.model.direct_messages import Cast, Copied, Enlist, Enlisted, Flushed, FlushRequest, Roster, Stable, Wish
from holdfast.model.errors import PeerViolation
from holdfast.model.guarantees import CAUSAL, EVENTUAL, FIFO
from holdfast.model.messages import (
    Confirm,
    ConfirmAck,
    Publish,
    SessionMessage,
    Subscribe,
    SubscribeAck,
    Unsubscribe,
    UnsubscribeAck,
)
from holdfast.model.plurals import counted
from holdfast.protocols.border import Border, border
from holdfast.protocols.comparators.cbcast.clocks import ClockReader, ClockWriter
from holdfast.protocols.comparators.cbcast.flush import FlushingBroker
from holdfast.protocols.comparators.cbcast.queues import CastArrival
from holdfast.protocols.comparators.cbcast.stability import KeptCast
from holdfast.protocols.comparators.meshes import relayed
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.edges import Phase
from holdfast.protocols.links import Link
from holdfast.protocols.node import Effects, SetTimer

STABLE_TIMER = "stable"
STABLE_S = 0.02
"""How long a broker waits for a cast that could say what is stable, before it says it by itself."""
Waiting = tuple[Link, SessionMessage, SessionMessage]
Early = tuple[Link | None, Cast | Copied | Confirm]
"""A message, and the link that is still to be granted credit for it."""


class CbcastBroker(FlushingBroker):
    """One broker. See `protocols.node.BrokerNode`."""

    protocol: ClassVar[str] = "cbcast"
    guarantees: ClassVar[tuple[int, ...]] = (EVENTUAL, FIFO, CAUSAL)
    border: ClassVar[Border] = border(
        *(Enlist, Enlisted, Roster, Wish, FlushRequest, Flushed),
        *(Cast, Copied, Stable, Confirm, ConfirmAck),
    )

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        super().__init__(config, incarnation)
        self._lane: deque[Waiting] = deque()
        """What clients published and asked while the view is flushed."""
        self._subscribing: list[tuple[str, Subscribe]] = []
        self._ahead: dict[str, list[Early]] = {}
        """What members sent in a view that we have not heard of yet. It is bounded by the windows of their links; while
        somebody is suspected, by what a member may send before it has noticed the same and is asked to flush."""
        self._stable_set = False

    # ------------------------------------------------------------------------------------------------- messages

    def _take(self, link: Link, message: SessionMessage, arrived: SessionMessage) -> None:
        if link.kind == "client":
            if self.flushing and isinstance(message, Publish | Confirm):
                self._lane.append((link, message, arrived))
            else:
                self._consumed(link, arrived)
                self._from_own(link.peer, message)
        elif isinstance(message, Cast | Copied | Confirm):
            self._from_member(link.peer, link, message)
        else:
            self._consumed(link, arrived)
            self._about_the_mesh(link.peer, message)

    def _about_the_mesh(self, peer: str, message: SessionMessage) -> None:
        if isinstance(message, Enlist):
            self._on_enlist(peer, message)
        elif isinstance(message, Enlisted):
            self._on_enlisted(peer)
        elif isinstance(message, Roster):
            self._check_roster(peer, message)
            self._on_roster(message)
        elif isinstance(message, Wish):
            self._on_wish(message)
        elif isinstance(message, FlushRequest):
            self._on_flush_request(peer, message)
        elif isinstance(message, Flushed):
            self._on_flushed(peer, message)
        elif isinstance(message, Stable):
            if message.view == self.roster.number:
                self.kept.setdefault(peer, KeptCast()).release(message.serial)
        elif isinstance(message, ConfirmAck):
            self.confirmations.on_ack(peer, message.token, finding=message.finding)
        else:
            raise PeerViolation(f"broker {peer} sent {type(message).__name__}, which is not for a mesh")

    # ------------------------------------------------------------------------------------------------- multicasts

    def _multicast(self, message: Publish) -> None:
        batch = message.batch
        receivers = self.targets(batch.topic)
        if receivers:
            place = self.places[self.name]
            self.clocks.advance(batch.topic, place, self.clocks.count(batch.topic, place) + 1)
            self.serial += 1
            ticket = self.outbox.begin(receivers)
            self.own.append((ticket, self.serial))
            for receiver in receivers:
                clock = self.writers.setdefault(receiver, ClockWriter()).changes(self.clocks)
                cast = Cast(self.roster.number, self.serial, self.stable, clock, batch)
                self._tell(receiver, cast, ticket)
                self.hub.out.append(relayed(cast, receiver))
        self._deliver_here(batch)

    def _from_member(self, peer: str, link: Link | None, message: Cast | Copied | Confirm) -> None:
        number = self.roster.number
        if peer in self._ahead or _view(message) > number:
            self._ahead.setdefault(peer, []).append(self._early(link, message))
        elif isinstance(message, Copied):
            self._grant(link, message)
            self._on_copied(message)
        elif isinstance(message, Confirm):
            self._queue(peer, CastArrival(None, [], message, link, message))
        elif message.view < number or peer in self.suspected:
            self._grant(link, message)
        elif peer not in self.places:
            raise PeerViolation(f"broker {peer} sent a cast of view {number}, of which it is no member")
        else:
            self._on_cast(peer, link, message)

    def _early(self, link: Link | None, message: Cast | Copied | Confirm) -> Early:
        """Keep it until we have its view; if somebody may be dead, without a claim on the link's window.

        1. The coordinator tells a member the next view, and dies before it tells us. 2. That member multicasts in it
        until our window is full. 3. We are to get the view from that member, behind its casts, which wait for the view.
        """
        if not self.suspected:
            return link, message
        self._grant(link, message)
        return None, message

    def _grant_all(self) -> None:
        super()._grant_all()
        for peer, messages in self._ahead.items():
            self._ahead[peer] = [self._early(*early) for early in messages]

    def _on_cast(self, peer: str, link: Link | None, cast: Cast) -> None:
        entries = self.readers.setdefault(peer, ClockReader()).read(cast.clock)
        if self.config.tolerance:
            kept = self.kept.setdefault(peer, KeptCast())
            kept.add(cast, entries)
            kept.release(cast.stable)
        self._queue(peer, CastArrival(cast, entries, None, link, cast))

    def _queue(self, peer: str, arrival: CastArrival) -> None:
        if self.in_doubt:
            # What it waits for may have died; the flush that decides so must not wait for the credit of this.
            self._grant(arrival.link, arrival.arrived)
            arrival.link = None
        self.arrivals.add(peer, arrival)

    def _deliver(self, sender: str, arrival: CastArrival) -> None:
        self._grant(arrival.link, arrival.arrived)
        if arrival.cast is not None:
            self._deliver_here(arrival.cast.batch)
        elif arrival.confirm is not None and sender in self.members:
            self._confirm(sender, arrival.confirm)

    # ----------------------------------------------------------------------------------------------- subscriptions

    def _on_subscribe(self, client: str, message: Subscribe) -> None:
        self.clients.add(message.pattern, message.where, client)
        # While the view is flushed, what we wished for the next one may have been said without this pattern.
        if message.pattern in self._patterns_in_view() and not self.flushing:
            self._send(client, SubscribeAck(message.token))
        else:
            self._subscribing.append((client, message))
            self._wish()

    def _on_unsubscribe(self, client: str, message: Unsubscribe) -> None:
        if self.clients.remove(message.pattern, message.where, client):
            self._wish_if_changed()
        # What it asked for and takes back before it has it comes with no view any more.
        for one in [one for one in self._subscribing if one[0] == client]:
            if (one[1].pattern, one[1].where) == (message.pattern, message.where):
                self._subscribing.remove(one)
                self._send(client, SubscribeAck(one[1].token))
        self._send(client, UnsubscribeAck(message.token))

    def _wish_if_changed(self) -> None:
        if self.patterns() != self._patterns_in_view():
            self._wish()

    def link_ended(self, link: Link, reason: str) -> None:
        if link.kind == "client":
            self._subscribing = [one for one in self._subscribing if one[0] != link.peer]
            self._lane = deque(one for one in self._lane if one[0].peer != link.peer or not isinstance(one[1], Confirm))
            if self.clients.remove_destination(link.peer):
                self._wish_if_changed()
            self.confirmations.drop(link.peer)
        super().link_ended(link, reason)

    # -------------------------------------------------------------------------------------------------- next view

    def _begin_view(self) -> None:
        """Everybody is where we are, and nothing is under way: what waited goes on."""
        in_view = self._patterns_in_view()
        subscribing, self._subscribing = self._subscribing, []
        for client, subscribe in subscribing:
            if subscribe.pattern in in_view:
                self._send(client, SubscribeAck(subscribe.token))
            else:
                self._subscribing.append((client, subscribe))
        lane, self._lane = self._lane, deque()
        for link, message, arrived in lane:
            self._consumed(link, arrived)
            self._from_own(link.peer, message)
        ahead, self._ahead = self._ahead, {}
        for peer, messages in ahead.items():
            for early in messages:
                if peer in self.members:
                    self._from_member(peer, *early)

    # --------------------------------------------------------------------------------------------------- stability

    def _note_arrivals(self) -> None:
        """Something has arrived: our own casts before the first that somebody may lack are stable."""
        first_open, stable = self.outbox.first_open, self.stable
        while self.own and self.own[0][0] < first_open:
            stable = self.own.popleft()[1]
        if stable > self.stable:
            self.stable = stable
            if self.config.tolerance and not self._stable_set:
                self._stable_set = True
                self.hub.out.append(SetTimer(STABLE_TIMER, STABLE_S))
        super()._note_arrivals()

    def timer(self, name: str, now: float) -> Effects:
        if name == STABLE_TIMER:
            self._now, self._stable_set = now, False
            for peer in self.writers:
                if peer not in self.suspected:
                    self._tell(peer, Stable(self.roster.number, self.stable))
            return self.hub.take()
        return super().timer(name, now)

    # -------------------------------------------------------------------------------------------------- inspection

    def _idle(self) -> bool:
        return self.name not in self.members and not self._lane

    def may_leave(self) -> bool:
        return not self._lane

    def check_invariants(self) -> None:
        super().check_invariants()
        assert self.flushing or not self._lane, "publications wait, but for no flush"
        assert self.phase is Phase.JOINING or self.name in self.members or self.leaving, "not in its own view"

    def waiting_for(self) -> list[str]:
        reasons = super().waiting_for()
        reasons += [f"a view in which {client} has {message.pattern}" for client, message in self._subscribing]
        reasons += [
            f"the view that {peer} is in, with {counted(len(kept), 'message')}" for peer, kept in self._ahead.items()
        ]
        if self._lane:
            reasons.append(f"a view to begin, for {counted(len(self._lane), 'message')} of clients")
        return reasons


def _view(message: Cast | Copied | Confirm) -> int:
    """The view that a message belongs to; a question belongs wherever it comes."""
    if isinstance(message, Copied):
        return message.cast.view
    return message.view if isinstance(message, Cast) else 0
