"""Which weaker messages have crossed a total one that a merge hands over, besides those that the merge itself sees.

Two parts come together when one joins the other with all that it has processed. What it processes later is on its way
while the merge is settled, and crosses what is handed over:
1. 4 takes a message when the network is parted and nobody knows it yet; it waits in front of a cut at 3, then behind a
   window.
2. 3 asks 0 to take it back in. Only then the message comes by, is delivered, and waits until 0 opens the link.
3. 0 has released a total batch on its key meanwhile, and hands it over: it stands behind the message at 3, and before
   it at 0.

The same can happen further down, between a broker and its neighbour: what that has not got when the batch comes from
there may stand behind the batch there.
"""

from holdfast.model.batches import Batch
from holdfast.model.guarantees import TOTAL
from holdfast.protocols.stability import StabilityLog

BEHIND_MAX = 10_000
"""So many batches are watched while a link is settled; beyond that the oldest is taken for one that has crossed."""


class Crossings:
    """What is on its way to those who may hand total batches over."""

    def __init__(self, log: StabilityLog) -> None:
        self._log = log
        self._behind: dict[tuple[str, int], Batch] = {}
        """What went to the parent since we have asked it to take us in. The log may forget it before all is settled:
        that it was received is told at once, what is handed over waits for a window."""

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
        on_the_way = list(self._behind.values()) if settling else self._log.unheard_of(source)
        weaker = (one for one in on_the_way if one.guarantee != TOTAL and one.topic == total.topic)
        return [one for one in weaker if not keys.isdisjoint(one.key_set())]
