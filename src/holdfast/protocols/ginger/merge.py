"""The order in which a repair settles what a dead broker had passed to some and not to others.

Each participant contributes the records of its link with the dead broker, in that link's order, each flagged: sent to
it, received from it, or asked of it (a total batch requested and, as far as this participant knows, not released).

What is certain, and must be kept: a publisher's order; for one participant, whatever it had sent or received before it
sent b comes before b; and what it received comes in the received order when one of the two is total and they share a
key of a topic, since that order is the same everywhere. What a participant received *after* it sent something is in no
order with it: enforcing that makes cycles (FLUSH.md, trap 2). Everything else is a preference: the order in which
somebody received two records is kept if it can be, and what nobody alive has sent comes last, since its dependencies
died with its entry point (trap 16). A participant that received a and lacks b, though it wants it, shows that the dead
broker had passed a before b: that is kept if it can be, too.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from itertools import pairwise

from holdfast.model.batches import Batch
from holdfast.model.guarantees import TOTAL
from holdfast.protocols.stability import RecordId


class Flag(Enum):
    """What a participant had to do with a record."""

    SENT = "s"
    RECEIVED = "r"
    ASKED = "t"


Contribution = tuple[RecordId, Flag]


class Merge:
    """One merge; `order` is its result. `forced` counts how often a certain order had to be broken: never."""

    def __init__(
        self,
        contributions: Mapping[str, Sequence[Contribution]],
        batches: Mapping[RecordId, Batch],
        lacks: Callable[[str, Batch], bool],
    ) -> None:
        self._lists = {who: list(entries) for who, entries in sorted(contributions.items())}
        self._batches = batches
        self._sent = {rid for entries in self._lists.values() for rid, flag in entries if flag is not Flag.RECEIVED}
        self._before: dict[RecordId, set[RecordId]] = {rid: set() for rid in batches}
        self._liked: dict[RecordId, set[RecordId]] = {rid: set() for rid in batches}
        self._shown: dict[RecordId, set[RecordId]] = {rid: set() for rid in batches}
        self.forced = 0
        self._constrain(lacks)
        self.order = self._sorted()

    def _constrain(self, lacks: Callable[[str, Batch], bool]) -> None:
        by_publisher: dict[str, list[RecordId]] = {}
        for rid in sorted(self._batches):
            by_publisher.setdefault(rid[0], []).append(rid)
        for own in by_publisher.values():
            for early, late in pairwise(own):
                self._before[late].add(early)
        for who, entries in self._lists.items():
            known = [(rid, flag) for rid, flag in entries if rid in self._batches]
            self._constrain_by(known)
            received = {rid for rid, flag in known if flag is Flag.RECEIVED}
            for rid, batch in self._batches.items():
                if lacks(who, batch):
                    self._shown[rid] |= received - {rid}

    def _constrain_by(self, entries: list[Contribution]) -> None:
        earlier: list[RecordId] = []
        received: list[RecordId] = []
        for rid, flag in entries:
            if flag is Flag.RECEIVED:
                for other in received:
                    (self._before if self._conflict(other, rid) else self._liked)[rid].add(other)
                received.append(rid)
            else:
                self._before[rid].update(earlier)
            if flag is not Flag.ASKED:
                earlier.append(rid)
        for rid in self._before:
            self._before[rid].discard(rid)

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
