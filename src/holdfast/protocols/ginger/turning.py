"""Total order by turning at the top of a topic's subtree.

The problem: all subscribers of a topic have to get its `total` messages in one order, and each weaker message that
shares a key with a total one on one side of it. An agreement of the subtree before each total message does that, and
makes its publisher, and all who publish on its keys, wait for a round trip.

The idea: a topic's subscribers lie in a subtree of the brokers. Its *top* is the lowest broker that has all of them
below it or at it. A message that must be sequenced *climbs* to the top and *turns* there: it spreads from the top as
any message spreads from its origin. All copies pass the top, so its processing order is everybody's, and the FIFO
links carry it there. Nobody waits, and any number of messages are under way.

Rules:
1. A message climbs if it has keys (a total one always has) and somebody above wants its topic; and if an earlier
   message of its publisher went up from here and has not turned. *Behind what went up, go up*: that keeps the
   publisher's order, and with it causal order. Each broker on the way applies it by itself.
2. Where neither holds, the message turns: it spreads to all who want it, also by the link by which it came. Whoever
   sent it up is told so (`Turned`) behind the copy, unless the copy itself says it, and tells those below in turn.
3. A broker above the top (nobody but one child wants the topic) spreads the message down as it is. It passes the top
   like everything else, so it has its place in the top's order.

Why it is right: the common subscribers of two sequenced messages of a topic lie below both brokers at which they
turned. These two are on one way to the root, and the lower one fixes the order for all of them. Whoever has delivered a
message and publishes then is behind it on every link on which both travel, by the median of the three places on the
tree, also if the answer climbs first. A publisher's own order is kept by rule 1, and by `Turned` being behind the copy.

Tops move as subscriptions come and go, and need not know that they are tops: each broker decides by what it knows when
the message passes. What is under way when a subscription comes is not owed to it.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from holdfast.model.batches import Batch
from holdfast.model.guarantees import TOTAL
from holdfast.model.messages import Climb, Publish, SessionMessage, Turned
from holdfast.model.plurals import counted
from holdfast.protocols.ginger.brake import CLIMBING_BYTES_MAX, Brake
from holdfast.protocols.interests import InterestMap

HERE = ""
"""The hop of a climb that waits at this broker."""


def is_sequenced(batch: Batch) -> bool:
    """Whether the batch has a place in the order of its topic."""
    return batch.guarantee == TOTAL or bool(batch.keys)


class TurningOwner(Protocol):
    """What turning asks of its broker."""

    parent: str | None

    def spread_turned(self, batch: Batch, came_from: str) -> None:
        """Pass a batch to everybody who wants it, also to the neighbour that sent it up."""
        ...

    def has_turned(self, client: str) -> None:
        """Something that this client published has turned: questions about it may have waited for that."""
        ...


class Climbing:
    """A batch that came here on its way up and has not turned."""

    __slots__ = ("batch", "bytes", "hop", "sources")

    def __init__(self, batch: Batch, source: str, hop: str) -> None:
        self.batch, self.bytes, self.hop = batch, batch.cost_bytes, hop
        self.sources = [source]
        """By which links it came: clients, or brokers that are told when it turns."""


class Turning:
    """The climbs at one broker: which batches went up from here, or wait here, and have not turned."""

    def __init__(
        self, owner: TurningOwner, interests: InterestMap, send: Callable[[str, SessionMessage], None]
    ) -> None:
        self._owner, self._interests, self._send = owner, interests, send
        self._of: dict[str, deque[Climbing]] = {}
        """By publisher, in the order of their numbers."""
        self.bytes = 0
        """What all of that weighs."""
        self.brake = Brake()

    # --------------------------------------------------------------------------------------------------- questions

    def goes_up(self, batch: Batch) -> bool:
        """Whether a batch that a client publishes here may not simply spread from here."""
        return batch.publisher in self._of or (is_sequenced(batch) and self._hop(batch) is not None)

    def is_full_for(self, message: SessionMessage) -> bool:
        """Whether a client's message goes up, where so much climbs already that nothing is granted for it."""
        return self.bytes > CLIMBING_BYTES_MAX and isinstance(message, Publish) and self.goes_up(message.batch)

    def has_climbing(self, publisher: str, seq: int) -> bool:
        """Whether a message of that publisher with that number, or a lower one, has not turned."""
        climbs = self._of.get(publisher)
        return climbs is not None and climbs[0].batch.first <= seq

    def _hop(self, batch: Batch) -> str | None:
        """Where a batch goes that has nothing of its publisher before it: up, nowhere yet (`HERE`), or it turns."""
        parent = self._owner.parent
        if is_sequenced(batch) and parent is not None and self._interests.table.wants(parent, batch.topic):
            return parent
        return HERE if self._must_wait(batch) else None

    def _must_wait(self, batch: Batch) -> bool:  # noqa: ARG002
        """Whether the batch may not turn here yet."""
        return False

    # ------------------------------------------------------------------------------------------------------- steps

    def enter(self, batch: Batch, came_from: str) -> None:
        """A batch comes from a client, or on its climb from a neighbour."""
        before = self._of.get(batch.publisher)
        hop = self._behind(before[-1]) if before else self._hop(batch)
        if hop is None:
            self._turn(batch, (came_from,))
            return
        climbing = Climbing(batch, came_from, hop)
        self._of.setdefault(batch.publisher, deque()).append(climbing)
        self.bytes += climbing.bytes
        if hop != HERE:
            self._pass_up(hop, batch)

    def _behind(self, before: Climbing) -> str:
        """Where a batch goes that has this one of its publisher before it: the same way, if that is open."""
        return before.hop if self._is_open(before.hop) else HERE

    def _is_open(self, hop: str) -> bool:
        return hop != HERE

    def _pass_up(self, hop: str, batch: Batch) -> None:
        self._send(hop, Climb(batch))

    def _turn(self, batch: Batch, sources: Sequence[str]) -> None:
        self._owner.spread_turned(batch, sources[0])
        self._tell(batch, sources, self._interests.table.takers(batch))

    def _tell(self, batch: Batch, sources: Iterable[str], told: Collection[str]) -> None:
        """Tell those that sent the batch up that it has turned; a copy of it says so, too."""
        for source in sources:
            if source not in self._interests.neighbours:
                self._owner.has_turned(source)
            elif source not in told:
                self._send(source, Turned(batch.publisher, batch.last))

    def on_turned(self, publisher: str, last: int) -> None:
        """What a publisher sent up until that number has turned above, and is not for us."""
        self._finish(publisher, last, ())

    def passed(self, batch: Batch) -> None:
        """A copy of that batch has passed here: if it went up from here, it has turned."""
        if batch.publisher in self._of:
            self._finish(batch.publisher, batch.last, self._interests.table.takers(batch))

    def _finish(self, publisher: str, last: int, told: Collection[str]) -> None:
        climbs = self._of.get(publisher)
        over = []
        while climbs and climbs[0].batch.last <= last:
            over.append(climbs.popleft())
            self._let_go(over[-1])
        if climbs is not None and not climbs:
            del self._of[publisher]
        for climbing in over:
            self._tell(climbing.batch, climbing.sources, told)
        if over:
            self.pump()

    def _let_go(self, climbing: Climbing) -> None:
        """It climbs no longer, and may make room for others."""
        self.bytes -= climbing.bytes
        self.brake.ease(self.bytes)

    def pump(self) -> None:
        """What waits here goes on as far as it can: whatever it waited for may be over."""
        for publisher in [name for name, climbs in self._of.items() if climbs[-1].hop == HERE]:
            self._go_on(publisher)

    def _go_on(self, publisher: str) -> None:
        climbs = self._of.get(publisher)
        while climbs and climbs[0].hop == HERE and self._hop(climbs[0].batch) is None:
            climbing = climbs.popleft()
            self._let_go(climbing)
            if not climbs:
                del self._of[publisher]
            self._turn(climbing.batch, climbing.sources)
            climbs = self._of.get(publisher)
        before: Climbing | None = None
        for climbing in climbs or ():
            if climbing.hop == HERE:
                hop = self._hop(climbing.batch) if before is None else self._behind(before)
                if not hop:
                    break
                climbing.hop = hop
                self._pass_up(hop, climbing.batch)
            before = climbing

    def drop(self, peer: str) -> None:
        """A neighbour has left in order, with nothing under way: what it was sent and did not take enters anew."""
        for climbs in self._of.values():
            for climbing in climbs:
                if climbing.hop == peer:
                    climbing.hop = HERE
        self.pump()

    # -------------------------------------------------------------------------------------------------- inspection

    def idle(self) -> bool:
        return not self._of

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def waiting_for(self) -> list[str]:
        """In words, the messages that have not turned, and the publishers that may publish nothing more until then."""
        reasons = []
        for publisher, climbs in sorted(self._of.items()):
            hops = sorted({climbing.hop for climbing in climbs})
            for hop in hops:
                many = sum(climbing.batch.count for climbing in climbs if climbing.hop == hop)
                went = f"went up to {hop}" if hop else "wait here"
                reasons.append(f"{counted(many, 'message')} of {publisher}, which {went} and have not turned")
        return reasons + self.brake.waiting_for()

    def check_invariants(self) -> None:
        known = sum(climbing.bytes for climbs in self._of.values() for climbing in climbs)
        assert self.bytes == known, f"{self.bytes} bytes climb by the count, and {known} do"
        for publisher, climbs in self._of.items():
            assert climbs, f"{publisher} is remembered for nothing"
            firsts = [climbing.batch.first for climbing in climbs]
            assert firsts == sorted(firsts), f"{publisher} climbs out of the order of its numbers: {firsts}"
            hops = [climbing.hop for climbing in climbs]
            waits = [hop == HERE for hop in hops]
            assert waits == sorted(waits), f"something of {publisher} went up behind what waits: {hops}"
