"""Which weaker messages have crossed a total one that a merge hands over, besides those that the merge itself sees.

Two parts come together when one joins the other with all that it has processed. What it processes later is on its way
while the merge is settled, and crosses what is handed over:
1. 4 takes a message when the network is parted and nobody knows it yet; it waits behind a window.
2. 3 asks 0 to take it back in. Only then the message comes by, is delivered, and waits until 0 opens the link.
3. 0 has released a total batch on its key meanwhile, and hands it over: it stands behind the message at 3, and before
   it at 0.

The same can happen further down, between a broker and its neighbour: what that has not got when the batch comes from
there may stand behind the batch there.

3 finds that out when the message has long been delivered there, and is on its way to 0. So 0 looks out for it, too:
until 3 has said that it has processed all that was handed over, what comes from there on the keys of a total batch
that it has not confirmed stands before that batch at 3, and would stand behind it from 0 on. There it arrives with
that word.

Where a majority lives on without the broker that has released a batch, weaker messages cross that batch, too:
1. 0 is the top of a topic, and turns c6#1, which is total. 1 loses 0 before it has got c6#1.
2. 1 is the root of a majority. c5#1, on the same key, turns there and is delivered.
3. 1 joins 0 again, and gets c6#1, which stands before c5#1 at 0.
So a weaker message that passes where the top of its topic may be out of reach takes no part in the total order of its
keys (`majority`).
"""

from collections.abc import Iterable

from holdfast.model.batches import Batch
from holdfast.model.guarantees import TOTAL
from holdfast.protocols.records import Flow
from holdfast.protocols.stability import StabilityLog

BEHIND_MAX = 10_000
"""So many batches are watched while a link is settled; beyond that the oldest is taken for one that has crossed."""


class _Handing:
    """What was handed over to a neighbour, until all that it has sent before it had that has come.

    The word that it has something overtakes what waits for credit; it says how much the neighbour had sent by then.
    """

    __slots__ = ("mark", "places", "until")

    def __init__(self, mark: int, places: set[tuple[str, str]]) -> None:
        self.mark, self.places = mark, places
        self.until: int | None = None

    def is_over(self, flow: Flow | None) -> bool:
        if flow is None:
            return True
        if self.until is None and flow.acked[0] >= self.mark:
            self.until = flow.marked[0]
        return self.until is not None and flow.received >= self.until


def _places(batch: Batch) -> list[tuple[str, str]]:
    return [(batch.topic, key) for key in batch.key_set()]


class Crossings:
    """What is on its way to those who may hand total batches over."""

    def __init__(self, log: StabilityLog) -> None:
        self._log = log
        self._behind: dict[tuple[str, int], Batch] = {}
        """What went to the parent since we have asked it to take us in. The log may forget it before all is settled:
        that it was received is told at once, what is handed over waits for a window."""

        self._handing: dict[str, _Handing] = {}

    def reunited(self, peers: Iterable[str]) -> None:
        """All that these lack has gone to them by now."""
        for peer in peers:
            totals = (one for one in self._on_the_way(peer) if one.guarantee == TOTAL)
            places = {place for one in totals for place in _places(one)}
            if places:
                self._handing[peer] = _Handing(self._log.flows[peer].sent, places)

    def over(self, weaker: Batch, source: str, apart: bool) -> bool:
        """Whether this batch, which comes from there, may stand there before a total one that it is behind here.

        `apart`: there may be more such total ones on their way to that neighbour than those of a merge.
        """
        if weaker.guarantee == TOTAL:
            return False
        handing = self._handing.get(source)
        if handing is not None and handing.is_over(self._log.flows.get(source)):
            del self._handing[source]
            handing = None
        places = {*_places(weaker)}
        if handing is not None and not places.isdisjoint(handing.places):
            return True
        totals = (one for one in self._on_the_way(source) if one.guarantee == TOTAL) if apart else ()
        return any(not places.isdisjoint(_places(one)) for one in totals)

    def _on_the_way(self, peer: str) -> list[Batch]:
        """What was passed to that neighbour, which has not said that it has it. What climbs has no place yet."""
        return [record.batch for record in self._log.unheard_of(peer) if not record.pending]

    def went(self, batch: Batch) -> Batch | None:
        """It goes to a parent that has yet to hand over what settles the repair; returns what is watched no more."""
        if batch.guarantee != TOTAL and batch.keys:
            self._behind[batch.publisher, batch.first] = batch
        return self._behind.pop(next(iter(self._behind))) if len(self._behind) > BEHIND_MAX else None

    def clear(self) -> None:
        """Everything is told to a new parent, or everything is handed over."""
        self._behind.clear()

    def of(self, total: Batch, source: str, settling: bool) -> list[Batch]:
        """What is before this batch here, and behind it where it comes from; `settling`: it settles a repair."""
        keys = {*total.key_set()}
        on_the_way = list(self._behind.values()) if settling else self._on_the_way(source)
        weaker = (one for one in on_the_way if one.guarantee != TOTAL and one.topic == total.topic)
        return [one for one in weaker if not keys.isdisjoint(one.key_set())]
