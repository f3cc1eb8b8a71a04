"""Climbs that survive the loss of brokers.

A batch that climbs has either turned, and then it is a record like any other that a repair settles, or it has not, and
then it is sent up again: every broker on its way keeps it, as a record that is *pending*, until it hears that it has
turned. Who loses its parent says what it had sent up; the coordinator takes it as if it came by the new link, unless
the batch is known to have turned.

Nothing that must be sequenced turns where a repair is pending on a link that wants the topic: what the lost broker had
turned before it was lost comes first. And a total batch turns only where a majority of the brokers is.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from holdfast.model.batches import Batch
from holdfast.model.guarantees import TOTAL
from holdfast.model.messages import SessionMessage
from holdfast.protocols.ginger.turning import HERE, Climbing, Turning, TurningOwner, is_sequenced
from holdfast.protocols.interests import InterestMap
from holdfast.protocols.records import RecordId
from holdfast.protocols.stability import StabilityLog


class HealingOwner(TurningOwner, Protocol):
    """What healing asks of its broker besides."""

    log: StabilityLog

    def is_done(self, publisher: str, seq: int) -> bool:
        """Whether that message was passed on, here or elsewhere."""
        ...

    def note_done(self, publisher: str, seq: int) -> None:
        """That message has turned elsewhere."""
        ...

    def unsettled(self, topic: str) -> bool:
        """Whether a repair is pending that may bring something on this topic."""
        ...

    def in_transit(self, topic: str) -> bool:
        """Whether a neighbour that wants this topic is being moved."""
        ...

    def in_doubt(self, topic: str) -> bool:
        """Whether the top of the topic may be out of reach, and alive."""
        ...

    @property
    def settling(self) -> bool:
        """Whether a repair is just being settled: nothing turns meanwhile."""
        ...

    @property
    def serves_total(self) -> bool:
        """Whether this part of the tree may order total batches."""
        ...


class HealingTurning(Turning):
    """The climbs of a broker that takes part in repairs."""

    def __init__(
        self, owner: HealingOwner, interests: InterestMap, send: Callable[[str, SessionMessage], None]
    ) -> None:
        super().__init__(owner, interests, send)
        self._healer = owner
        self.hushed = False
        """Whether this broker is being moved, so that nothing new climbs (see `relocation`)."""

    # ------------------------------------------------------------------------------------------------- the climb

    def enter(self, batch: Batch, came_from: str) -> None:
        log, climbing = self._healer.log, self._find(batch)
        record = log.find((batch.publisher, batch.first))
        if record is None and not self._healer.is_done(batch.publisher, batch.last):
            record = log.append(batch, pending=True)
        elif record is not None and record.pending and climbing is None:
            log.change(record, batch)
        log.came(record, came_from, request=True)
        self.submit(batch, came_from)

    def submit(self, batch: Batch, came_from: str) -> None:
        """A batch that climbs, and whose record is in the log already."""
        climbing = self._find(batch)
        if self._healer.is_done(batch.publisher, batch.last):
            self._tell(batch, (came_from,), ())
        elif climbing is None:
            super().enter(batch, came_from)
        elif came_from not in climbing.sources:
            climbing.sources.append(came_from)

    def _find(self, batch: Batch) -> Climbing | None:
        climbs = self._of.get(batch.publisher)
        if not climbs or climbs[-1].batch.first < batch.first:
            # Mostly so: what is new comes behind all the others, which may be many.
            return None
        return next((one for one in climbs if one.batch.first == batch.first), None)

    def _hop(self, batch: Batch) -> str | None:
        hop = super()._hop(batch)
        return HERE if hop and self.hushed else hop

    def _must_wait(self, batch: Batch) -> bool:
        if not is_sequenced(batch):
            return False
        if self._healer.in_transit(batch.topic) or self._healer.unsettled(batch.topic):
            return True
        if batch.guarantee != TOTAL:
            return False
        return not self._healer.serves_total or self._healer.in_doubt(batch.topic) or self._is_news(batch.topic)

    def _is_news(self, topic: str) -> bool:
        """Whether somebody below who orders the topic has not heard yet that it is wanted here, too.

        1. Somebody above 1 subscribes to a topic, of which 1 is the top. 0 tells 1, and the network is parted then.
        2. 0 turns c0#1, a total message, for the newcomer and for those at 1, which do not get it.
        3. 1 knows of nobody who wants the topic above, and so of no doubt: it turns c1#1 on the same key.
        """
        return self._interests.is_news(topic)

    def _is_open(self, hop: str) -> bool:
        """Not a neighbour that was lost, and that may have turned what went up to it: what is behind that waits.

        1. 3 loses its parent, 0, to which c3#23 went up, and is the root of its part. 0 begins anew, and comes to 3.
        2. c3#24 goes up behind c3#23, to "0": that is a child of 3 now, which sends it up again, to 3, and both wait.
        """
        return hop == self._healer.parent and hop in self._healer.log.flows and not self.hushed

    def _pass_up(self, hop: str, batch: Batch) -> None:
        record = self._healer.log.find((batch.publisher, batch.first))
        if record is not None:
            self._healer.log.asked(record, hop)
        super()._pass_up(hop, batch)

    def hush(self, hushed: bool) -> None:
        """What climbs is under way for a round trip or more: on a busy link it never falls silent by itself.

        1. 2 is moved from 0 to 3. Its clients publish with keys all the time, and something is always on its climb.
        2. 0 never finds their link quiet, or 2 refuses to freeze it, or does and then sends up what is not drained.
        So nothing new climbs from the moment when 2 is ready, for as long as the old parent may freeze a link.
        """
        self.hushed = hushed
        if not hushed:
            self.pump()

    def no_longer_hushed(self) -> None:
        """The move is over; what waits goes on when the repair does that follows."""
        self.hushed = False

    def pump(self) -> None:
        if not self._healer.settling:
            super().pump()

    def _finish(self, publisher: str, last: int, told: Collection[str]) -> None:
        for climbing in self._of.get(publisher, ()):
            if climbing.batch.last > last:
                break
            record = self._healer.log.find((publisher, climbing.batch.first))
            if record is not None:
                self._healer.log.released(record)
            self._healer.note_done(publisher, climbing.batch.last)
        super()._finish(publisher, last, told)

    # -------------------------------------------------------------------------------------------------- repairs

    def rename(self, old: str, new: str) -> None:
        """The parent is lost; what was sent up to it is told to the new one when it takes us in.

        A child of its name is another one, which has begun anew, and still has to hear what has turned.
        """
        if old not in self._healer.log.flows:
            self._forget_source(old)
        for climbing in self._all():
            if climbing.hop == old:
                climbing.hop = new

    def _all(self) -> list[Climbing]:
        return [climbing for climbs in self._of.values() for climbing in climbs]

    def _forget_source(self, old: str) -> None:
        for climbing in self._all():
            if old in climbing.sources:
                climbing.sources.remove(old)

    def replace(self, old: str, in_doubt: bool = False) -> None:
        """That neighbour is lost, and the repair is settled.

        While it is in doubt whether it is dead or out of reach, what went up to it is not sent elsewhere: it may have
        turned there.
        """
        self._forget_source(old)
        if not in_doubt:
            self.ask_others(old)

    def ask_others(self, old: str) -> None:
        """What was sent up to that neighbour goes where it belongs now."""
        for climbing in self._all():
            if climbing.hop == old:
                climbing.hop = HERE
        self.pump()

    def held_topics(self) -> set[str]:
        """The topics of total batches that wait here."""
        return {one.batch.topic for one in self._all() if one.hop == HERE and one.batch.guarantee == TOTAL}

    def asked_of(self, peer: str) -> frozenset[RecordId]:
        """What that neighbour was sent and is not known to have turned."""
        return frozenset((one.batch.publisher, one.batch.first) for one in self._all() if one.hop == peer)

    def ask_as_before(self, peer: str, lost: str, before: Collection[RecordId]) -> None:
        """The new parent did not let us in: it has heard of none of the climbs.

        What was sent up to the `lost` neighbour `before` may have turned there, and waits for it again.
        """
        for climbing in self._all():
            if climbing.hop == peer:
                known = (climbing.batch.publisher, climbing.batch.first) in before
                climbing.hop = lost if known else HERE
        self.pump()

    def involves(self, peer: str) -> bool:
        """Whether something is under way between us and that neighbour."""
        return any(climbing.hop == peer or peer in climbing.sources for climbing in self._all())

    def _turn(self, batch: Batch, sources: Sequence[str]) -> None:
        # Those that sent it up may all be lost.
        super()._turn(batch, sources or (HERE,))

    def _tell(self, batch: Batch, sources: Iterable[str], told: Collection[str]) -> None:
        super()._tell(batch, [one for one in sources if one != HERE], told)
