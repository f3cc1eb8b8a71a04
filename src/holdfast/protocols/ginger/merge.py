"""The order in which a repair settles what a dead broker had passed to some and not to others.

Each participant contributes the records of its link with the dead broker, in that link's order, each flagged: sent to
it, received from it, or asked of it (a total batch, whose place on the link is that of its request).

What is certain, and must be kept:
- a publisher's order;
- for one participant, whatever it had sent or received before it sent b, or asked for b, comes before b;
- where one of the two is total and they share a key of a topic, the order in which anybody has processed them: that
  order is the same everywhere. Who has one of them and lacks the other should get it in that order, too. Where that
  cannot be, the dead broker had passed the first of them when this participant did not want it yet: it is not owed,
  and coming now it would come too late (`late`). The same holds for a causal record in the causal past of one that a
  participant has received. A total one that the dead broker is not known to have processed comes behind all that a
  participant that lacks it has processed on its keys.

What a participant received *after* it sent something is in no order with it: enforcing that makes cycles
(docs/repair.md, trap 2). Everything else is a preference: the order in which somebody received two records is kept if
it can be, and that in which somebody sent two up that have turned; what nobody alive has sent comes last, since its
dependencies died with its entry point (trap 16); and a participant that received a and lacks b, though it wants it,
shows that the dead broker had passed a before b.

A repair after a long silence settles thousands of records, and whoever computes is silent. So sets of records are
integers, a bit a record, and of each publisher only the next record can be ready.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from functools import partial
from itertools import groupby, pairwise

from msgspec import Struct

from holdfast.model.batches import Batch
from holdfast.model.guarantees import CAUSAL, TOTAL
from holdfast.protocols.records import RecordId


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
    `awaited` are the total batches that the lost broker is not known to have processed.
    """

    entries: Sequence[Contribution]
    passes: bool
    awaited: frozenset[RecordId] = frozenset()


class Merge:
    """One merge; `order` is its result. `forced` counts how often a certain order had to be broken: never.

    `settled` are the records that the coordinator holds, in its processing order; `new` those that it has yet to
    process for somebody outside the repair. `orders` are those in which others have got records by way of it before.
    What has `crossed` a total one takes no part in the order of its keys any more, nor do batches that say so:
    1. B takes a part in, whose d#1 has crossed a#1: A and B have the two in one order, and D has them in the other.
    2. B dies, and C joins A. Each keeps to what it has passed on, and no order of both is both.
    """

    def __init__(
        self,
        histories: Mapping[str, History],
        batches: Mapping[RecordId, Batch],
        lacks: Callable[[str, Batch], bool],
        settled: Sequence[RecordId],
        new: set[RecordId],
        orders: Iterable[Sequence[RecordId]] = (),
        crossed: Collection[RecordId] = (),
    ) -> None:
        self._records = sorted(batches)
        self._bits = {rid: 1 << place for place, rid in enumerate(self._records)}
        ordered = {rid: batch for rid, batch in batches.items() if not (batch.crossed or rid in crossed)}
        self._conflicts = {**dict.fromkeys(self._records, 0), **_conflicts(ordered, self._bits)}
        self._sent = 0
        # Of each record, those that come before it for certain, and those that would rather.
        self._before = dict.fromkeys(self._records, 0)
        self._past = dict.fromkeys(self._records, 0)
        """Those that the dead broker had when the record came to it: nothing that a total order adds."""
        self._firm = dict.fromkeys(self._records, 0)
        self._liked = dict.fromkeys(self._records, 0)
        self._shown = dict.fromkeys(self._records, 0)
        self.forced = 0
        self._keep_publishers()
        passed = {who: self._keep_history(history) for who, history in sorted(histories.items())}
        for order in orders:
            self._keep_processed([rid for rid in order if rid in self._bits])
        missing = {who: [rid for rid, batch in batches.items() if lacks(who, batch)] for who in passed}
        for who, records in missing.items():
            self._keep_shown(passed[who], records)
        self.untimely: set[RecordId] = set()
        """What comes before something that the coordinator has passed on already: those outside may not have it now."""
        self.order = self._arrange(settled, new)
        self._totals = self._set_of(rid for rid, batch in batches.items() if batch.guarantee == TOTAL)
        self.crossed: set[RecordId] = set()
        """The weaker ones of all pairs that make somebody late."""
        self.late = self._find_late(passed, missing)
        causal = self._set_of(rid for rid, batch in batches.items() if batch.guarantee >= CAUSAL)
        for who, records in missing.items():
            self.late |= self._find_overtaken(who, passed[who], records, causal)

    def _set_of(self, records: Iterable[RecordId]) -> int:
        found = 0
        for rid in records:
            found |= self._bits[rid]
        return found

    def _keep_publishers(self) -> None:
        for early, late in pairwise(self._records):
            if early[0] == late[0]:
                self._before[late] |= self._bits[early]
                self._past[late] |= self._bits[early]

    def _keep_history(self, history: History) -> dict[RecordId, Flag]:
        """Constrain by one participant's history; returns what it has processed of it."""
        gone_by: list[int] = [0]
        places: dict[RecordId, int] = {}
        for place, (rid, flag, _, _) in enumerate(history.entries):
            places.setdefault(rid, place)
            gone_by.append(gone_by[-1] | (0 if flag.is_request else self._bits.get(rid, 0)))
        entries = [entry for entry in history.entries if entry[0] in self._bits]
        received = turned = 0
        for rid, flag, after, _ in entries:
            bit = self._bits[rid]
            if flag is not Flag.RECEIVED or after <= places[rid]:
                # Sent or asked for when `after` of the others had gone by: those are before it.
                self._sent |= bit
                earlier = gone_by[min(after, len(history.entries))] & ~bit
                self._before[rid] |= earlier
                self._past[rid] |= earlier
            if flag is Flag.RECEIVED:
                self._liked[rid] |= received & ~self._conflicts[rid]
                received |= bit
            elif flag is Flag.DONE:
                # It went up after those, and has turned. Nearly always they have turned in that order.
                self._liked[rid] |= turned
                turned |= bit
        passed = [entry for entry in entries if entry[1] is Flag.RECEIVED or (entry[1] is Flag.SENT and history.passes)]
        # Those whose place is not known have no number.
        self._keep_processed([rid for rid, _, _, number in sorted(passed, key=lambda entry: entry[3]) if number > 0])
        self._keep_awaited(history.awaited, [entry[0] for entry in passed])
        return {rid: flag for rid, flag, *_ in passed}

    def _keep_awaited(self, awaited: Iterable[RecordId], passed: Sequence[RecordId]) -> None:
        """What somebody has who lacks an awaited batch comes before that batch, for everybody."""
        earlier = self._set_of(passed)
        for rid in awaited:
            bit = self._bits.get(rid, 0)
            if bit & ~earlier:
                self._before[rid] |= earlier & self._conflicts[rid]

    def _keep_processed(self, order: Sequence[RecordId]) -> None:
        earlier = 0
        for rid in order:
            self._before[rid] |= earlier & self._conflicts[rid]
            earlier |= self._bits[rid]

    def _keep_shown(self, passed: Mapping[RecordId, Flag], missing: Sequence[RecordId]) -> None:
        """Who has a and lacks b will have a before b."""
        has = self._set_of(passed)
        received = self._set_of(rid for rid, flag in passed.items() if flag is Flag.RECEIVED)
        for rid in missing:
            conflicts, others = self._conflicts[rid], ~self._bits[rid]
            self._firm[rid] |= has & conflicts & others
            self._shown[rid] |= received & ~conflicts & others

    def _find_late(
        self, passed: Mapping[str, Mapping[RecordId, Flag]], missing: Mapping[str, Sequence[RecordId]]
    ) -> set[tuple[str, RecordId]]:
        """Who would get what behind something that it has and that comes after it."""
        has = {who: self._set_of(records) for who, records in passed.items()}
        lacking: dict[RecordId, list[str]] = {}
        for who, records in missing.items():
            for rid in records:
                lacking.setdefault(rid, []).append(who)
        late: set[tuple[str, RecordId]] = set()
        after = 0
        for rid in reversed(self.order):
            conflicts = after & self._conflicts[rid]
            for who in lacking.get(rid, ()):
                if conflicts & has[who]:
                    late.add((who, rid))
                    self._note_crossed(rid, conflicts & has[who])
            after |= self._bits[rid]
        return late

    def _note_crossed(self, rid: RecordId, behind: int) -> None:
        """One of each pair is total: the other is what has passed it by."""
        if not self._totals & self._bits[rid]:
            self.crossed.add(rid)
        weaker = behind & ~self._totals
        while weaker:
            self.crossed.add(self._records[(weaker & -weaker).bit_length() - 1])
            weaker &= weaker - 1

    def _find_overtaken(
        self, who: str, passed: Mapping[RecordId, Flag], missing: Sequence[RecordId], causal: int
    ) -> set[tuple[str, RecordId]]:
        """What is in the causal past of something that this participant received.

        The dead broker had it first, and passed it by: it was not wanted here yet. What it passed on later was.
        """
        received = self._set_of(rid for rid, flag in passed.items() if flag is Flag.RECEIVED)
        reached = causal & received
        for rid in reversed(self.order):
            if reached & self._bits[rid]:
                reached |= self._past[rid]
        # Who has the first messages of a batch lacks the rest of it.
        return {(who, rid) for rid in missing if reached & causal & ~received & self._bits[rid]}

    def _arrange(self, settled: Sequence[RecordId], new: set[RecordId]) -> list[RecordId]:
        """The order, with what the coordinator has passed on in its place."""
        certain = dict(self._before)
        order = self._arrange_by(certain.__getitem__, settled, new)
        if self.forced:
            # Rarely, what makes something untimely is known by way of others only: that takes longer to find out.
            self._before, self.forced = certain, 0
            order = self._arrange_by(self._all_before, settled, new)
        return order

    def _arrange_by(
        self, before: Callable[[RecordId], int], settled: Sequence[RecordId], new: set[RecordId]
    ) -> list[RecordId]:
        self.untimely = self._find_untimely(settled, new, before)
        self._keep_settled(settled, new - self.untimely)
        return self._sorted()

    def _find_untimely(
        self, settled: Sequence[RecordId], new: set[RecordId], before: Callable[[RecordId], int]
    ) -> set[RecordId]:
        fresh, found = self._set_of(new), 0
        for rid in settled:
            conflicts = fresh & self._conflicts[rid]
            if conflicts:
                found |= before(rid) & conflicts
        return {rid for rid in new if found & self._bits[rid]}

    def _all_before(self, rid: RecordId) -> int:
        reached, to_visit = 0, self._before[rid]
        while to_visit:
            reached |= to_visit
            further = 0
            while to_visit:
                further |= self._before[self._records[(to_visit & -to_visit).bit_length() - 1]]
                to_visit &= to_visit - 1
            to_visit = further & ~reached
        return reached

    def _keep_settled(self, settled: Sequence[RecordId], new: set[RecordId]) -> None:
        """What the coordinator has passed on keeps its order, and comes before what is new, where they share a key."""
        self._keep_processed(settled)
        held = self._set_of(settled)
        for rid in new:
            self._before[rid] |= held & self._conflicts[rid] & ~self._bits[rid]

    def _sorted(self) -> list[RecordId]:
        order: list[RecordId] = []
        done = 0
        left = {publisher: deque(own) for publisher, own in groupby(self._records, key=lambda rid: rid[0])}
        while left:
            # What a publisher published later is not ready before its next record, unless that was broken already.
            candidates = self._all(left) if self.forced else [own[0] for own in left.values()]
            ready = [rid for rid in candidates if not self._before[rid] & ~done]
            if not ready:
                self.forced += 1
                ready = self._all(left)
            best = min(ready, key=partial(self._rank, done))
            order.append(best)
            done |= self._bits[best]
            left[best[0]].remove(best)
            if not left[best[0]]:
                del left[best[0]]
        return order

    @staticmethod
    def _all(left: Mapping[str, Iterable[RecordId]]) -> list[RecordId]:
        return [rid for own in left.values() for rid in own]

    def _rank(self, done: int, rid: RecordId) -> tuple[int, bool, int, int, RecordId]:
        return (
            (self._firm[rid] & ~done).bit_count(),
            not self._sent & self._bits[rid],
            (self._liked[rid] & ~done).bit_count(),
            (self._shown[rid] & ~done).bit_count(),
            rid,
        )


def conflict(one: Batch, other: Batch) -> bool:
    """Whether two batches share a key of a topic, one of the two is total, and the other has not crossed any."""
    return (
        TOTAL in (one.guarantee, other.guarantee)
        and not (one.crossed or other.crossed)
        and one.topic == other.topic
        and not set(one.key_set()).isdisjoint(other.key_set())
    )


def _conflicts(batches: Mapping[RecordId, Batch], bits: Mapping[RecordId, int]) -> dict[RecordId, int]:
    """Of each record those that share a key of a topic with it, one of the two being total; itself, if it is total."""
    all_on: dict[tuple[str, str], int] = {}
    totals_on: dict[tuple[str, str], int] = {}
    for rid, batch in batches.items():
        for key in batch.key_set():
            place = (batch.topic, key)
            all_on[place] = all_on.get(place, 0) | bits[rid]
            if batch.guarantee == TOTAL:
                totals_on[place] = totals_on.get(place, 0) | bits[rid]
    found = {}
    for rid, batch in batches.items():
        sets = all_on if batch.guarantee == TOTAL else totals_on
        found[rid] = 0
        for key in batch.key_set():
            found[rid] |= sets.get((batch.topic, key), 0)
    return found
