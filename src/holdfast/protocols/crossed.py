"""Weaker messages that have crossed a total one, as far as a broker knows: their promise is smaller, and it is said.

A weaker message with keys that a minority publishes, or that is on its way while two parts of the network come
together, may stand before a total message on its key at some subscribers and behind it at others. Whoever finds that
out notes it here: it is reported for the trace, the batch is passed on with a flag from then on (`Message.crossed`),
its publisher is told if it is a client of this broker, and receipts that ask about it say so.

Bounds: the latest `REMEMBERED_MAX` runs of consecutive numbers are remembered for receipts.
"""

from collections import deque
from collections.abc import Callable

from holdfast.model.batches import Batch
from holdfast.model.crossed_messages import Crossed
from holdfast.protocols.node import Report

REMEMBERED_MAX = 10_000


class CrossedMessages:
    """`tell` sends a publisher that has its session here the word about its own messages."""

    def __init__(self, report: Callable[[Report], None], tell: Callable[[str, Crossed], None]) -> None:
        self._report, self._tell = report, tell
        self._last: dict[str, dict[int, int]] = {}
        """By publisher, the last number of each run by its first."""
        self._order: deque[tuple[str, int]] = deque()

    def note(self, batch: Batch) -> Batch:
        """This batch has crossed a total one, or may; returns it as it is to be passed on."""
        known = self._last.get(batch.publisher, {})
        new = [run for run in _keyed_runs(batch) if known.get(run.first, 0) < run.last]
        for run in new:
            self._remember(batch.publisher, run)
            self._tell(batch.publisher, run)
        if new:
            self._report(Report("crossed", batch=batch))
        return batch.as_crossed()

    def _remember(self, publisher: str, run: Crossed) -> None:
        runs = self._last.setdefault(publisher, {})
        if run.first not in runs:
            self._order.append((publisher, run.first))
        runs[run.first] = run.last
        if len(self._order) > REMEMBERED_MAX:
            oldest, first = self._order.popleft()
            del self._last[oldest][first]
            if not self._last[oldest]:
                del self._last[oldest]

    def has(self, publisher: str, seq: int) -> bool:
        return any(first <= seq <= last for first, last in self._last.get(publisher, {}).items())


def _keyed_runs(batch: Batch) -> list[Crossed]:
    """Runs of messages that have keys: others are in no total order with anything."""
    if len(batch.keys) <= 1:
        return [Crossed(batch.first, batch.last)] if batch.keys else []
    runs: list[Crossed] = []
    for seq, keys in enumerate(batch.keys, batch.first):
        if keys and runs and runs[-1].last == seq - 1:
            runs[-1] = Crossed(runs[-1].first, seq)
        elif keys:
            runs.append(Crossed(seq, seq))
    return runs


class CrossedNumbers:
    """Which of its publications a client was told of; the latest `REMEMBERED_MAX` runs."""

    def __init__(self) -> None:
        self._runs: deque[Crossed] = deque(maxlen=REMEMBERED_MAX)

    def note(self, crossed: Crossed) -> None:
        self._runs.append(crossed)

    def __contains__(self, seq: object) -> bool:
        return isinstance(seq, int) and any(one.first <= seq <= one.last for one in self._runs)
