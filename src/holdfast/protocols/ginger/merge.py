"""The order in which a repair settles what a dead broker had passed to some and not to others.

Each participant contributes the records of its link with the dead broker, in that link's order, each flagged: sent to
it, received from it, or asked of it (a total batch, whose place on the link is that of its request).

What is certain, and must be kept:
- a publisher's order;
- for one participant, whatever it had sent or received before it sent b, or asked for b, comes before b;
- where one of the two is total and they share a key of a topic, the order in which anybody has processed them: that
  order is the same everywhere. Who has one of them and lacks the other should get it in that order, too. Where that
  cannot be, the dead broker had passed the first of them when this participant did not want it yet: it is not owed,
  and coming now it would come too late (`late`).

What a participant received *after* it sent something is in no order with it: enforcing that makes cycles (FLUSH.md,
trap 2). Everything else is a preference: the order in which somebody received two records is kept if it can be; what
nobody alive has sent comes last, since its dependencies died with its entry point (trap 16); and a participant that
received a and lacks b, though it wants it, shows that the dead broker had passed a before b.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from itertools import pairwise

from msgspec import Struct

from holdfast.model.batches import Batch
from holdfast.model.guarantees import TOTAL
from holdfast.protocols.stability import RecordId


class Flag(Enum):
    """What a participant had to do with a record."""

    SENT = "s"
    RECEIVED = "r"
    ASKED = "t"
    DONE = "d"

    @property
    def is_request(self) -> bool:
        """Whether its place on the link is that of the request, not of the record."""
        return self in (Flag.ASKED, Flag.DONE)


Contribution = tuple[RecordId, Flag, int, int]
"""A record, what the participant had to do with it, how many of its records went by on the link before it was sent or
asked for, and its place in the participant's processing order."""


class History(Struct, frozen=True):
    """What one participant contributes, in the order of its link with the dead broker.

    `passes` tells whether it has itself processed what it sent: brokers have, a client's own message has to come back.
    """

    entries: Sequence[Contribution]
    passes: bool

    def place(self, record_id: RecordId) -> int:
        return next(place for place, entry in enumerate(self.entries) if entry[0] == record_id)


class Merge:
    """One merge; `order` is its result. `forced` counts how often a certain order had to be broken: never.

    `settled` are the records that the coordinator holds, in its processing order; `new` those that it has yet to
    process for somebody outside the repair.
    """

    def __init__(
        self,
        histories: Mapping[str, History],
        batches: Mapping[RecordId, Batch],
        lacks: Callable[[str, Batch], bool],
        settled: Sequence[RecordId],
        new: set[RecordId],
    ) -> None:
        self._batches = batches
        self._sent: set[RecordId] = set()
        self._before: dict[RecordId, set[RecordId]] = {rid: set() for rid in batches}
        self._liked: dict[RecordId, set[RecordId]] = {rid: set() for rid in batches}
        self._shown: dict[RecordId, set[RecordId]] = {rid: set() for rid in batches}
        self._firm: dict[RecordId, set[RecordId]] = {rid: set() for rid in batches}
        self.forced = 0
        self._keep_publishers()
        passed = {who: self._keep_history(history) for who, history in sorted(histories.items())}
        missing = {who: [rid for rid, batch in batches.items() if lacks(who, batch)] for who in passed}
        for who, records in missing.items():
            self._keep_shown(passed[who], records)
        self._keep_settled(settled, new)
        self.order = self._sorted()
        self.late = self._find_late(passed, missing)

    def _keep_publishers(self) -> None:
        by_publisher: dict[str, list[RecordId]] = {}
        for rid in sorted(self._batches):
            by_publisher.setdefault(rid[0], []).append(rid)
        for own in by_publisher.values():
            for early, late in pairwise(own):
                self._before[late].add(early)

    def _keep_history(self, history: History) -> dict[RecordId, Flag]:
        """Constrain by one participant's history; returns what it has processed of it."""
        entries = [entry for entry in history.entries if entry[0] in self._batches]
        received: list[RecordId] = []
        for rid, flag, after, _ in entries:
            if flag is not Flag.RECEIVED or after < history.place(rid):
                # Sent or asked for when `after` of the others had gone by: those are before it.
                self._sent.add(rid)
                earlier = {one for one, kind, *_ in history.entries[:after] if not kind.is_request}
                self._before[rid] |= (earlier & self._batches.keys()) - {rid}
            if flag is Flag.RECEIVED:
                self._liked[rid].update(other for other in received if not self._conflict(other, rid))
                received.append(rid)
        passed = [entry for entry in entries if entry[1] is Flag.RECEIVED or (entry[1] is Flag.SENT and history.passes)]
        self._keep_processed([rid for rid, *_ in sorted(passed, key=lambda entry: entry[3])])
        return {rid: flag for rid, flag, *_ in passed}

    def _keep_processed(self, order: Sequence[RecordId]) -> None:
        for place, rid in enumerate(order):
            self._before[rid].update(other for other in order[:place] if self._conflict(other, rid))

    def _keep_shown(self, passed: Mapping[RecordId, Flag], missing: Sequence[RecordId]) -> None:
        """Who has a and lacks b will have a before b."""
        for rid in missing:
            for other, kind in passed.items():
                if other == rid:
                    continue
                if self._conflict(other, rid):
                    self._firm[rid].add(other)
                elif kind is Flag.RECEIVED:
                    self._shown[rid].add(other)

    def _find_late(
        self, passed: Mapping[str, Mapping[RecordId, Flag]], missing: Mapping[str, Sequence[RecordId]]
    ) -> set[tuple[str, RecordId]]:
        """Who would get what behind something that it has and that comes after it."""
        places = {rid: place for place, rid in enumerate(self.order)}
        return {
            (who, rid)
            for who, records in missing.items()
            for rid in records
            if any(places[other] > places[rid] and self._conflict(other, rid) for other in passed[who])
        }

    def _keep_settled(self, settled: Sequence[RecordId], new: set[RecordId]) -> None:
        """What the coordinator has passed on keeps its order, and comes before what is new, where they share a key."""
        self._keep_processed(settled)
        for rid in new:
            self._before[rid].update(other for other in settled if self._conflict(other, rid))

    def _conflict(self, one: RecordId, other: RecordId) -> bool:
        first, second = self._batches[one], self._batches[other]
        if TOTAL not in (first.guarantee, second.guarantee) or first.topic != second.topic:
            return False
        return not set(first.key_set()).isdisjoint(second.key_set())

    def _sorted(self) -> list[RecordId]:
        order: list[RecordId] = []
        done: set[RecordId] = set()
        left = sorted(self._batches)
        while left:
            ready = [rid for rid in left if self._before[rid] <= done]
            if not ready:
                self.forced += 1
                ready = left
            best = min(
                ready,
                key=lambda rid: (
                    len(self._firm[rid] - done),
                    rid not in self._sent,
                    len(self._liked[rid] - done),
                    len(self._shown[rid] - done),
                    rid,
                ),
            )
            order.append(best)
            done.add(best)
            left.remove(best)
        return order
