"""Clocks against deliveries: which message came before one that its publisher knew?"""

from typing import Any

import numpy as np

from holdfast.pipeline.audit.inbox import Longs
from holdfast.pipeline.audit.publications import AuditedPublications

CELLS_AT_ONCE = 1 << 17
"""Numbers of clocks that are looked up at once: what is in hand stays in the cache."""
LANE_BITS = 32


class Clocks:
    """The causal pasts of one run's publications: for each a number per lane, that of the last one it knows.

    A client's place of the last message that it delivered of a lane, up to any of them, is a running maximum along the
    lane. With a step between lanes that is higher than any place, one running maximum does for all of them.
    """

    def __init__(
        self, publications: AuditedPublications, bounds: tuple[int, int], lanes: Longs, rows: Longs, known: Any
    ) -> None:
        """`rows` are numbers of publications, `known` the clocks of these, a seq for each lane; it is overwritten."""
        self._run_start, run_end = bounds
        self._lanes = [publications.numbers.bounds(lane) for lane in lanes.tolist()]
        self._start, self._end = self._lanes[0][0], self._lanes[-1][1]
        self._row_of = np.zeros(run_end - self._run_start, np.int64)
        self._row_of[rows - self._run_start] = np.arange(len(rows))
        of_lanes = publications.lane[self._start : self._end]
        self._steps = (of_lanes - of_lanes[0]) << LANE_BITS
        for column, lane in enumerate(lanes.tolist()):
            last = publications.numbers.upto(lane, known[:, column].astype(np.int64)) - self._start
            # Nothing known of a lane, and the message's own lane, point to the place that nobody delivers.
            nothing = (last < 0) | (publications.lane[rows] == lane)
            known[:, column] = np.where(nothing, self._end - self._start, last)
        self._known = known

    def overtaking(self, numbers: Longs) -> Longs:
        """The places in a sequence of deliveries at which a message comes before one of its past."""
        last = self._last_places(numbers)
        at_once = max(CELLS_AT_ONCE // len(self._lanes), 1)
        rows = self._row_of[numbers - self._run_start]
        found = []
        for first in range(0, len(numbers), at_once):
            places = np.arange(first, min(first + at_once, len(numbers)), dtype=np.int32)
            later = last[self._known[rows[first : first + at_once]]].max(axis=1) > places
            found.append(first + np.flatnonzero(later))
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def _last_places(self, numbers: Longs) -> Any:
        """For every publication of the lanes the last place of it or of an earlier one of its lane, -1 for none."""
        inside = np.flatnonzero((numbers >= self._start) & (numbers < self._end))
        highest = self._steps.copy()
        highest[numbers[inside] - self._start] += inside + 1
        np.maximum.accumulate(highest, out=highest)
        places = np.empty(len(highest) + 1, np.int32)
        places[:-1] = highest & ((1 << LANE_BITS) - 1)
        places[-1] = 0
        places -= 1
        return places

    def overtaken(self, numbers: Longs, at: int) -> int:
        """The first message, of the first lane by name, that the one at a place has overtaken."""
        later = numbers[at + 1 :]
        clock = self._known[self._row_of[int(numbers[at]) - self._run_start]].tolist()
        for (start, end), known in zip(self._lanes, clock, strict=True):
            if known == self._end - self._start:
                continue
            past = later[(later >= start) & (later < end) & (later <= known + self._start)]
            if len(past):
                return int(past.min())
        raise AssertionError("nothing was overtaken")
