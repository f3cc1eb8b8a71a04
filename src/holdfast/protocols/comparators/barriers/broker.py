"""Causal barriers among brokers (Prakash, Raynal, Singhal, *An Efficient Causal Ordering Algorithm for Mobile Computing
Environments*, 1996; thesis 003, 2.4.2 and 4.3.4).

A message goes to any set of brokers directly, here those that have a client for its topic, and says to whom it goes
and, for every broker, which messages must be delivered there before it: its *barriers* (`dependencies`). All receivers
get the same. A receiver delivers when its own barriers are down.

There is nothing to synchronise when groups change: whoever subscribes tells all brokers, and is confirmed when they
have answered; from then on their messages go there, too.

The paper's processes and channels do not fail, and neither do ours: a connection that breaks is resumed, a broker that
stands still is waited for. A broker may join at any time; one that is lost holds up whatever depends on it.

Invariants: a sender's messages to one receiver are delivered in its order; a message is delivered at most once.
"""

from collections import deque
from functools import lru_cache
from typing import ClassVar

from msgspec.structs import replace

from holdfast.model.batches import Batch
from holdfast.model.direct_messages import Barred, Enlist, Enlisted, Roster, Wish
from holdfast.model.errors import PeerViolation
from holdfast.model.guarantees import CAUSAL, EVENTUAL, FIFO
from holdfast.model.messages import (
    INTERESTS_MAX,
    Confirm,
    ConfirmAck,
    Interests,
    Publish,
    SessionMessage,
    Subscribe,
    SubscribeAck,
    Unsubscribe,
    UnsubscribeAck,
)
from holdfast.model.plurals import counted
from holdfast.model.terms import Contact
from holdfast.protocols.border import Border, border
from holdfast.protocols.comparators.barriers.dependencies import Barriers, Dependencies, Identity, Past, past_of
from holdfast.protocols.comparators.meshes import MeshBroker, relayed
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.links import Link

UNPACKED_MAX = 256
Waiting = tuple[Link, Barred | Confirm]


class BarriersBroker(MeshBroker):
    """One broker. See `protocols.node.BrokerNode`."""

    protocol: ClassVar[str] = "barriers"
    guarantees: ClassVar[tuple[int, ...]] = (EVENTUAL, FIFO, CAUSAL)
    border: ClassVar[Border] = border(
        *(Enlist, Enlisted, Roster, Wish, Interests, Subscribe, SubscribeAck, Unsubscribe),
        *(Barred, Confirm, ConfirmAck),
    )

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        super().__init__(config, incarnation)
        self.dependencies = Dependencies(config.name)
        self._told: dict[str, None] = {}
        """Members that know what our clients want, or will hear it on their link."""
        self._heard: set[str] = set()
        """Seniors that have said what their clients want."""
        self._known: set[str] = set()
        """Patterns that everybody knows our clients to want."""
        self._requests: dict[int, tuple[str, Subscribe, set[str]]] = {}
        """By our own token: which client asked for what, and who has not answered."""
        self._latest: dict[str, int] = {}
        """The last token under which each pattern was announced: an earlier one may have been taken back since."""
        self._tokens = 0
        self._queues: dict[str, deque[Waiting]] = {}
        self._blocked: dict[str, set[str]] = {}
        """By the sender of what they wait for, whose queues wait."""

    # ------------------------------------------------------------------------------------------------- the roster

    def _say_wishes(self) -> None:
        newcomers = tuple(one for _, one in sorted(self._sponsored.items()))
        keeper = next(iter(self.members))
        if keeper != self.name:
            self._tell(keeper, Wish(newcomers))
        else:
            self._take_in(newcomers)

    def _take_in(self, newcomers: tuple[Contact, ...]) -> None:
        """Nothing has to be settled first: whoever comes is told what is wanted when it dials."""
        strangers = [one for one in newcomers if one.name not in self.members]
        if strangers:
            roster = Roster(self.roster.number + 1, (*self.members.values(), *strangers))
            for name in self._others():
                self._tell(name, roster)
            self._adopt(roster)

    def _member_arrived(self, peer: str) -> None:
        self._told[peer] = None
        patterns = self.patterns()
        portions = [patterns[at : at + INTERESTS_MAX] for at in range(0, len(patterns), INTERESTS_MAX)] or [[]]
        for number, portion in enumerate(portions, 1):
            entries = tuple((pattern, "") for pattern in portion)
            self._tell(peer, Interests(entries, complete=number == len(portions)))

    def _on_interests(self, peer: str, message: Interests) -> None:
        for pattern, _ in message.entries:
            self.groups.add(pattern, "", peer)
        if message.complete:
            self._told[peer] = None
            self._heard.add(peer)
            self._serve_if_known()

    def _serve_if_known(self) -> None:
        if self._heard >= set(self.seniors()):
            super()._serve_if_known()

    # --------------------------------------------------------------------------------------------------- messages

    def _take(self, link: Link, message: SessionMessage, arrived: SessionMessage) -> None:
        if link.kind == "broker" and isinstance(message, Barred | Confirm):
            queue = self._queues.setdefault(link.peer, deque())
            queue.append((link, message))
            if len(queue) == 1:
                self._run([link.peer])
            return
        self._consumed(link, arrived)
        if link.kind == "client":
            self._from_own(link.peer, message)
        else:
            self._about_the_mesh(link.peer, message)

    def _about_the_mesh(self, peer: str, message: SessionMessage) -> None:
        if isinstance(message, Enlist):
            self._on_enlist(peer, message)
        elif isinstance(message, Enlisted):
            self._on_enlisted(peer)
        elif isinstance(message, Roster):
            self._check_roster(peer, message)
            if message.number > self.roster.number:
                self._adopt(message)
        elif isinstance(message, Wish):
            self._take_in(message.newcomers)
        elif isinstance(message, Interests):
            self._on_interests(peer, message)
        elif isinstance(message, ConfirmAck):
            self.confirmations.on_ack(peer, message.token, finding=message.finding)
        else:
            self._about_groups(peer, message)

    def _about_groups(self, peer: str, message: SessionMessage) -> None:
        if isinstance(message, Subscribe):
            self.groups.add(message.pattern, "", peer)
            self._tell(peer, SubscribeAck(message.token))
        elif isinstance(message, Unsubscribe):
            self.groups.remove(message.pattern, "", peer)
        elif isinstance(message, SubscribeAck):
            self._answered(peer, message.token)
        else:
            raise PeerViolation(f"broker {peer} sent {type(message).__name__}, which is not for a mesh")

    # ------------------------------------------------------------------------------------------------- multicasts

    def _multicast(self, message: Publish) -> None:
        batch = message.batch
        targets = self.targets(batch.topic)
        if targets:
            serial, barriers = self.dependencies.send(targets)
            barred = packed(serial, targets, barriers, batch)
            # All get the same, so it is weighed once.
            report = relayed(barred, "")
            for target in targets:
                self._tell(target, barred)
                self.hub.out.append(replace(report, peer=target))
        self._deliver_here(batch)

    def _run(self, senders: list[str]) -> None:
        """Deliver what may go, of these senders and of whoever waits for that."""
        ready = deque(senders)
        while ready:
            sender = ready.popleft()
            queue = self._queues.get(sender)
            while queue:
                link, message = queue[0]
                if isinstance(message, Barred) and not self._deliver(sender, message):
                    break
                queue.popleft()
                self._consumed(link, message)
                if isinstance(message, Barred):
                    ready.extend(sorted(self._blocked.pop(sender, ())))
                else:
                    self._confirm(sender, message)

    def _deliver(self, sender: str, message: Barred) -> bool:
        """Deliver it unless it must wait; whether it was delivered."""
        targets, barriers, past = unpacked(message)
        obstacle = self._obstacle(barriers)
        if obstacle is not None:
            self._blocked.setdefault(obstacle[0], set()).add(sender)
            return False
        self.dependencies.deliver(sender, message.serial, targets, barriers, past)
        self._deliver_here(message.batch)
        return True

    def _obstacle(self, barriers: Barriers) -> Identity | None:
        return self.dependencies.obstacle(barriers)

    # ----------------------------------------------------------------------------------------------- subscriptions

    def patterns(self) -> list[str]:
        """What our clients want, whatever their filters."""
        return sorted({pattern for pattern, _ in self.clients.distinct()})

    def _on_subscribe(self, client: str, message: Subscribe) -> None:
        self.clients.add(message.pattern, message.where, client)
        if message.pattern in self._known:
            self._send(client, SubscribeAck(message.token))
            return
        self._tokens += 1
        self._requests[self._tokens] = (client, message, set(self._told))
        self._latest[message.pattern] = self._tokens
        for peer in self._told:
            self._tell(peer, Subscribe(self._tokens, message.pattern, ""))
        self._answer_if_done(self._tokens)

    def _answered(self, peer: str, token: int) -> None:
        if token in self._requests:
            self._requests[token][2].discard(peer)
            self._answer_if_done(token)

    def _answer_if_done(self, token: int) -> None:
        client, message, awaiting = self._requests[token]
        if not awaiting:
            del self._requests[token]
            if self._latest.get(message.pattern) == token:
                self._known.add(message.pattern)
            self._send(client, SubscribeAck(message.token))

    def _on_unsubscribe(self, client: str, message: Unsubscribe) -> None:
        if self.clients.remove(message.pattern, message.where, client):
            self._withdraw()
        self._send(client, UnsubscribeAck(message.token))

    def _withdraw(self) -> None:
        """Tell everybody what our clients do not want any more."""
        wanted = set(self.patterns())
        under_way = {message.pattern for _, message, _ in self._requests.values()}
        for pattern in sorted((self._known | under_way) - wanted):
            self._known.discard(pattern)
            self._latest.pop(pattern, None)
            for peer in self._told:
                self._tell(peer, Unsubscribe(0, pattern, ""))

    def link_ended(self, link: Link, reason: str) -> None:
        if link.kind == "client":
            self._requests = {token: one for token, one in self._requests.items() if one[0] != link.peer}
            if self.clients.remove_destination(link.peer):
                self._withdraw()
        else:
            self._told.pop(link.peer, None)
            self.members.pop(link.peer, None)
            self.groups.remove_destination(link.peer)
            for token in list(self._requests):
                self._answered(link.peer, token)
        self.confirmations.drop(link.peer)
        super().link_ended(link, reason)

    # -------------------------------------------------------------------------------------------------- inspection

    def _idle(self) -> bool:
        return not any(self._queues.values())

    def status(self) -> dict[str, object]:
        return super().status() | {"held": sum(map(len, self._queues.values()))}

    def waiting_for(self) -> list[str]:
        reasons = super().waiting_for()
        reasons += [
            f"what {counted(len(queue), 'message')} of {peer} depend on"
            for peer, queue in self._queues.items()
            if queue
        ]
        for client, message, awaiting in self._requests.values():
            reasons.append(f"{', '.join(sorted(awaiting))} to know that {client} wants {message.pattern}")
        return reasons


def packed(serial: int, targets: list[str], barriers: Barriers, batch: Batch) -> Barred:
    """The message, every name in it written once."""
    names: dict[str, int] = {}

    def place(name: str) -> int:
        return names.setdefault(name, len(names))

    to = tuple(place(target) for target in targets)
    rows = tuple(
        (place(broker), tuple(number for sender, count in row.items() for number in (place(sender), count)))
        for broker, row in barriers.items()
    )
    return Barred(serial, tuple(names), to, rows, batch)


def unpacked(message: Barred) -> tuple[list[str], Barriers, Past]:
    """To whom it goes, what each broker must have first, and the latest of each sender among that.

    What is returned is shared with later calls: look at it, do not change it.
    """
    try:
        return _unpacked(message.names, message.targets, message.barriers)
    except IndexError:
        count = len(message.names)
        what = f"message {message.serial} has a place beyond its {count} names, or half a pair"
        raise PeerViolation(what) from None


# All receivers get the same message, and one that waits is looked at again: what it says is worked out once.
@lru_cache(maxsize=UNPACKED_MAX)
def _unpacked(
    names: tuple[str, ...], targets: tuple[int, ...], rows: tuple[tuple[int, tuple[int, ...]], ...]
) -> tuple[list[str], Barriers, Past]:
    barriers = {names[broker]: {names[row[at]]: row[at + 1] for at in range(0, len(row), 2)} for broker, row in rows}
    return [names[place] for place in targets], barriers, past_of(barriers)
