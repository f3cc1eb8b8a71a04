"""A broker of the delta-neighbourhood (Kazemzadeh, Jacobsen, *Partition-Tolerant Distributed Publish/Subscribe
Systems*, 2011), as the thesis of LoCaMu has it for comparison (003, 2.3.3 and 4.3.2): without partition detectors.

Messages follow the tree. A broker is connected with everybody within f+1 hops; where its neighbour does not answer it
gives the message to those behind that one as well, who recognise what comes twice by its way (`transits`). It passes
nothing on by a way on which it could not be recognised. Each broker acknowledges a message when everybody behind it
has; the absent are given it when they are back, and waited for.

A publisher has one message in transit: the next is sent when all have acknowledged. That alone gives fifo order, and
nothing else does: between publishers there is none.

Subscriptions go along the tree and are confirmed by every broker, as in Ginger.

The fault model: of any 2f+1 brokers on a path f may be out of reach, for a while; they come back with what they knew.

Invariants: a publisher has one message in transit; whoever acknowledges a message has nobody behind it who lacks it.
"""

from collections import deque
from typing import ClassVar

from holdfast.model.direct_messages import Passed, PassedAck
from holdfast.model.errors import ConfigError, PeerViolation
from holdfast.model.guarantees import EVENTUAL, FIFO
from holdfast.model.identities import name_of
from holdfast.model.messages import (
    Confirm,
    ConfirmAck,
    Hello,
    Interests,
    Publish,
    Refusal,
    SessionMessage,
    Subscribe,
    SubscribeAck,
    Unsubscribe,
    UnsubscribeAck,
)
from holdfast.model.plurals import counted
from holdfast.protocols.border import Border, border
from holdfast.protocols.comparators.delta_neighbourhood.transits import BLANK, Path, Transit, Transits, extended, safe
from holdfast.protocols.comparators.meshes import relayed
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.confirmations import Confirmations
from holdfast.protocols.edges import EdgeBroker, Phase
from holdfast.protocols.interests import InterestMap
from holdfast.protocols.links import Link
from holdfast.protocols.neighbourhoods import Neighbourhood
from holdfast.protocols.node import Effects, Report, SetTimer

SUSPECT_TIMER = "suspect:"
Waiting = tuple[Link, Publish | Confirm, SessionMessage]


class NeighbourhoodBroker(EdgeBroker):
    """One broker. See `protocols.node.BrokerNode`."""

    protocol: ClassVar[str] = "delta-neighbourhood"
    guarantees: ClassVar[tuple[int, ...]] = (EVENTUAL, FIFO)
    border: ClassVar[Border] = border(
        *(Passed, PassedAck, Confirm, ConfirmAck),
        *(Interests, Subscribe, SubscribeAck, Unsubscribe, UnsubscribeAck),
    )

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        super().__init__(config, incarnation)
        self.near = Neighbourhood(config.name, config.edges)
        if self.near.parent != config.parent:
            raise ConfigError(
                f"broker {config.name} has the parent {config.parent}, but was told edges of a tree in which it is "
                f"{self.near.parent}: tell it those within {self.hops(config.tolerance)} hops."
            )
        self.neighbours = self.near.neighbours(config.name)
        self.reachable = self.near.within(config.tolerance + 1)
        self.interests = InterestMap(self._send)
        self.confirmations = Confirmations(self._send)
        self.transits = Transits()
        self.suspected: set[str] = set()
        self.serial = 0
        self._lanes: dict[str, deque[Waiting]] = {}
        """What clients with a message in transit published and asked since."""
        self._in_transit: dict[str, int] = {}

    @staticmethod
    def hops(tolerance: int) -> int:
        """How far around it a broker must know the tree: to those behind the ones that it may skip."""
        return tolerance + 1

    # ------------------------------------------------------------------------------------------------------ sessions

    def start(self, now: float) -> Effects:
        self._now = now
        self.hub.start()
        if self.parent is None:
            self._serve()
        else:
            self._enter(Phase.JOINING)
            self.hub.dial(self.parent, now)
        return self.hub.take()

    def _serve(self) -> None:
        self._enter(Phase.SERVING)
        for name in self.reachable:
            if name not in self.neighbours and name < self.name:
                self.hub.dial(name, self._now)

    def admit(self, hello: Hello) -> Refusal | None:
        if hello.kind == "broker" and hello.node not in self.reachable:
            return Refusal("misuse", f"broker {self.name} was not told that {hello.node} is near it in the tree")
        return super().admit(hello)

    def _is_broker(self, name: str) -> bool:
        return name in self.near

    def link_opened(self, link: Link, fresh: bool) -> None:
        if fresh and link.peer in self.neighbours:
            self.interests.join(link.peer, tell=not link.dialler)
        super().link_opened(link, fresh)
        if link.kind == "broker":
            if link.peer in self.suspected:
                self.suspected.discard(link.peer)
                self.hub.out.append(Report("trust", peer=link.peer))
            self._spread_all()

    def link_closed(self, link: Link) -> None:
        super().link_closed(link)
        if link.kind == "broker":
            # Brokers come back, however long it takes.
            self._detached_at.pop(link.peer, None)
            if self.config.tolerance:
                self.hub.out.append(SetTimer(SUSPECT_TIMER + link.peer, self.config.suspect_s))

    def timer(self, name: str, now: float) -> Effects:
        if not name.startswith(SUSPECT_TIMER):
            return super().timer(name, now)
        self._now = now
        peer = name.removeprefix(SUSPECT_TIMER)
        link = self.hub.links.get(peer)
        if (link is None or not link.is_open) and peer not in self.suspected:
            self.suspected.add(peer)
            self.hub.out.append(Report("suspect", peer=peer))
            self._spread_all()
        return self.hub.take()

    def link_refused(self, link: Link, refusal: Refusal) -> None:
        super().link_refused(link, refusal)
        self.hub.restore(link)

    def link_ended(self, link: Link, reason: str) -> None:
        lane = self._lanes.get(link.peer)
        if lane is not None:
            # What it published was accepted and goes out when it can; what it asked is void.
            self._lanes[link.peer] = deque(one for one in lane if isinstance(one[1], Publish))
        self.interests.drop(link.peer)
        self.confirmations.drop(link.peer)
        super().link_ended(link, reason)

    # ------------------------------------------------------------------------------------------------------ messages

    def _take(self, link: Link, message: SessionMessage, arrived: SessionMessage) -> None:
        if link.kind == "client" and isinstance(message, Publish | Confirm) and self._must_wait(link.peer):
            self._lanes.setdefault(link.peer, deque()).append((link, message, arrived))
            return
        self._consumed(link, arrived)
        if link.kind == "client" and isinstance(message, Publish):
            self._publish(link.peer, message)
        elif isinstance(message, Passed):
            self._on_passed(link.peer, message)
        elif isinstance(message, PassedAck):
            self._on_passed_ack(link.peer, message)
        elif isinstance(message, Confirm):
            self._on_confirm(link.peer, message)
        elif isinstance(message, ConfirmAck):
            self.confirmations.on_ack(link.peer, message.token, finding=message.finding)
        else:
            self._about_interests(link.peer, message)

    def _about_interests(self, peer: str, message: SessionMessage) -> None:
        if isinstance(message, Subscribe):
            self.interests.subscribe(peer, message)
        elif isinstance(message, Unsubscribe):
            self.interests.unsubscribe(peer, message)
        elif isinstance(message, SubscribeAck | UnsubscribeAck):
            self.interests.on_ack(message.token)
        elif isinstance(message, Interests):
            self.interests.learn(peer, message.entries)
            if message.complete and self.phase is Phase.JOINING:
                self._serve()
        else:
            raise PeerViolation(f"broker {peer} sent {type(message).__name__}, which is not for a neighbourhood")

    def _on_confirm(self, peer: str, confirm: Confirm) -> None:
        concerned = self.interests.table.destinations(confirm.topic)
        behind = [name for name in concerned if name != peer or name not in self.interests.neighbours]
        self.confirmations.begin(peer, confirm, behind)

    # ------------------------------------------------------------------------------------------- one at a time

    def _must_wait(self, client: str) -> bool:
        return client in self._in_transit or bool(self._lanes.get(client))

    def _publish(self, client: str, message: Publish) -> None:
        self.serial += 1
        self._in_transit[client] = self.serial
        self._begin(Transit(message.batch, ((self.name, self.serial),), self.serial, self._route(message, ""), client))

    def _next_of(self, client: str) -> None:
        """Everybody has the message in transit: the next one goes."""
        del self._in_transit[client]
        lane = self._lanes.pop(client, deque())
        while lane:
            link, message, arrived = lane.popleft()
            self._consumed(link, arrived)
            if isinstance(message, Publish):
                if lane:
                    self._lanes[client] = lane
                self._publish(client, message)
                return
            self._on_confirm(client, message)

    # --------------------------------------------------------------------------------------------------- in transit

    def _route(self, message: Publish | Passed, towards: str) -> list[str]:
        """The neighbours behind whom a message is wanted, except the one that it comes from."""
        takers = self.interests.table.takers(message.batch)
        return [name for name in takers if name in self.neighbours and name != towards]

    def _begin(self, transit: Transit, came: Path = ()) -> None:
        self.transits.begin(transit)
        self.transits.learn(transit, came)
        for name, choice in self.interests.table.takers(transit.batch).items():
            if name not in self.neighbours and not self.slow_readers.leaves_out(name, transit.batch):
                for part in transit.batch.chosen(choice):
                    self._send(name, Publish(part))
        self._spread(transit)
        self._finish_if_complete(transit)

    def _on_passed(self, peer: str, message: Passed) -> None:
        known = self.transits.find(message.path)
        number = next((serial for name, serial in reversed(message.path) if name), 0)
        if known is not None:
            self.transits.learn(known, message.path)
            known.senders[peer] = number
            if known.complete:
                self._finish_if_complete(known)
            return
        self.serial += 1
        came_from = self.near.towards(self.name, peer)
        path = extended(message.path, ((self.name, self.serial),), self.config.tolerance)
        transit = Transit(message.batch, path, self.serial, self._route(message, came_from), "")
        transit.senders[peer] = number
        self._begin(transit, message.path)

    def _spread_all(self) -> None:
        for transit in list(self.transits.open.values()):
            self._spread(transit)

    def _spread(self, transit: Transit) -> None:
        """To the neighbours on its route; where one does not answer, to those behind it, too."""
        for name in transit.route:
            if name in transit.awaiting:
                self._give(transit, name, transit.path)

    def _give(self, transit: Transit, name: str, path: Path) -> None:
        on_route = name not in self.suspected or name in transit.route
        if name not in transit.given and name in self.hub.links and on_route:
            transit.given.add(name)
            transit.awaiting.add(name)
            passed = Passed(path, transit.batch)
            self.hub.send(name, passed)
            self.hub.out.append(relayed(passed, name))
        beyond = extended(path, (BLANK,), self.config.tolerance)
        if name in self.suspected and safe(beyond, self.config.tolerance):
            here = self.near.distance(self.name, name)
            for other in self.near.neighbours(name):
                if other in self.reachable and self.near.distance(self.name, other) > here:
                    self._give(transit, other, beyond)

    def _on_passed_ack(self, peer: str, message: PassedAck) -> None:
        transit = self.transits.open.get(message.serial)
        if transit is not None:
            transit.awaiting.discard(peer)
            self._finish_if_complete(transit)

    def _finish_if_complete(self, transit: Transit) -> None:
        if not transit.complete:
            return
        self.transits.end(transit)
        senders, transit.senders = transit.senders, {}
        for sender, number in senders.items():
            self._send(sender, PassedAck(number))
        if transit.client and self._in_transit.get(transit.client) == transit.serial:
            self._next_of(transit.client)

    # ---------------------------------------------------------------------------------------------------- inspection

    def _idle(self) -> bool:
        return not self.transits.open and not any(self._lanes.values())

    def status(self) -> dict[str, object]:
        links = self.hub.links.values()
        return {
            "name": self.name,
            "protocol": self.protocol,
            "phase": self.phase.value,
            "parent": self.parent,
            "children": [name for name in self.neighbours if name != self.parent],
            "clients": sorted(name_of(link.peer) for link in links if link.kind == "client"),
            "links": {link.peer: link.state.value for link in links},
            "backlog_bytes": {link.peer: link.backlog_bytes for link in links if link.backlog_bytes},
            **self.slow_status(),
            "subscriptions": len(self.interests.table),
            "suspected": sorted(self.suspected),
            "in_transit": len(self.transits.open),
        }

    def check_invariants(self) -> None:
        self.hub.check_invariants()
        self.interests.check_invariants()
        self.transits.check_invariants()
        for client, lane in self._lanes.items():
            assert not lane or client in self._in_transit, f"publications of {client} wait for nothing"

    def waiting_for(self) -> list[str]:
        reasons = [
            f"{counted(count, 'answer')} about subscriptions from {peer}"
            for peer, count in self.interests.waiting.items()
        ]
        for transit in self.transits.open.values():
            batch, lacking = transit.batch, ", ".join(sorted(transit.awaiting))
            reasons.append(f"{lacking} to acknowledge {batch.publisher}#{batch.first}")
        for client, lane in self._lanes.items():
            reasons.append(f"the message of {client} in transit, for {len(lane)} more")
        reasons += self.hub.waiting_for()
        reasons += self.confirmations.waiting_for()
        if self.phase is Phase.JOINING:
            reasons.append(f"what {self.parent} knows of interests")
        return reasons
