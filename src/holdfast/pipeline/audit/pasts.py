"""The causal pasts of causal-or-stronger publications, from the `past` column or from the histories, as one clock each.

A clock has a place for every publisher of a causal-or-stronger message of the run, in the order of their names: the
highest seq known. Kept is the clock *after* a publication, itself included: its own publisher's place is no matter of
causal order. Weaker messages make no dependency, so neither their publications nor their deliveries are looked at. Only
clients that publish pass anything on, so only their histories are needed, as far as their last publication.

A publication's clock is the highest of its client's clock before and of the clocks of all that the client delivered
since. Publications are taken in the order of their times if no history contradicts it; else each history is followed
until it delivers what is not published yet. Neighbours in that order of which none has delivered another, a *wave*, are
computed at once: the highest of what each delivered, and then along each client's publications.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.model.guarantees import CAUSAL
from holdfast.pipeline.audit.blocks import block_of, unpacked
from holdfast.pipeline.audit.inbox import CLOCK, DELIVER, Inbox, Longs
from holdfast.pipeline.audit.publications import AuditedPublications, Names, Topics

SCHEMA = "run string, block binary"
WAVE_MIN = 4
"""Shorter waves are computed one by one: it costs less."""
BATCH_BYTES = 8 << 20
SEQ_BITS_MAX = 31
STEP_BITS = 40
"""Seqs above this many bits are computed one by one."""


def find_clocks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A clock for every causal-or-stronger publication of every run that was sent: rows of kind `CLOCK`, as blocks."""
    inbox = Inbox(unpacked(batches), without={(DELIVER, "content")})
    names = Names(inbox)
    publications = AuditedPublications(inbox, names, Topics(inbox))
    given = Given(publications, names)
    deliveries = _heard(inbox, publications, names)
    for run, name in enumerate(names.runs):
        pasts = Pasts(run, publications, given, deliveries)
        if len(pasts.lanes) > 1:
            for batch in _batches(publications, publications.run_bounds(run), pasts.clocks(pasts.lanes)):
                yield pa.record_batch([pa.array([name]), pa.array([block_of(batch)], pa.binary())], ["run", "block"])


class Given:
    """The `past` columns: publish rows carry them as a list of publisher, seq, publisher, seq and so on."""

    def __init__(self, publications: AuditedPublications, names: Names) -> None:
        self.present = publications.has_past()
        parents, values = publications.pasts()
        self._parents, self._lanes, self._seqs = parents[::2], names.ranks(values[::2]), values[1::2]

    def put(self, clocks: Any, start: int, row_of: Longs, columns: Longs, highest: int) -> None:
        """Write the given pasts of the publications from `start` on into their rows of the clocks; -1 means no row."""
        first, last = np.searchsorted(self._parents, [start, start + len(row_of)])
        lanes, rows = self._lanes[first:last], row_of[self._parents[first:last] - start]
        places = np.where(lanes >= 0, columns[np.maximum(lanes, 0)], -1)
        kept = np.flatnonzero((places >= 0) & (rows >= 0))
        # A number above all that were published is as good as the highest of them.
        seqs = np.minimum(self._seqs[first:last][kept], highest)
        clocks[rows[kept], places[kept]] = seqs


class Heard:
    """Deliveries of messages that somebody published: client, index, publication; one run after the other."""

    def __init__(self, names: Names, nodes: Longs, indexes: Longs, numbers: Longs) -> None:
        known = np.flatnonzero((numbers >= 0) & (nodes >= 0))
        runs = names.run_of[nodes[known]]
        # A stable sort leaves a single run as it is.
        known = known[np.argsort(runs, kind="stable")] if len(names.runs) > 1 else known
        self.nodes, self.indexes, self.numbers = nodes[known], indexes[known], numbers[known]
        self._starts = np.searchsorted(names.run_of[self.nodes], np.arange(len(names.runs) + 1))

    def of_run(self, run: int) -> slice:
        return slice(int(self._starts[run]), int(self._starts[run + 1]))


def _heard(inbox: Inbox, publications: AuditedPublications, names: Names) -> Heard:
    lanes, seqs = names.ranks(inbox.numbers(DELIVER, "publisher")), inbox.numbers(DELIVER, "seq")
    numbers = publications.numbers.find(lanes, seqs)
    return Heard(names, names.ranks(inbox.numbers(DELIVER, "node")), inbox.numbers(DELIVER, "index"), numbers)


def causal_lanes(publications: AuditedPublications, start: int, end: int) -> Longs:
    """The publishers of a run that have a place in its clocks."""
    return np.unique(publications.lane[start:end][publications.rank[start:end] >= CAUSAL])


def causal_numbers(publications: AuditedPublications, start: int, end: int) -> Longs:
    """The numbers of the causal-or-stronger publications from `start` to `end`: the rows of their clocks."""
    return start + np.flatnonzero(publications.rank[start:end] >= CAUSAL)


class Pasts:
    """The causal pasts of one run's causal-or-stronger publications, in their order.

    There is nothing to judge unless the run has two `lanes` (publishers of such messages) at least.
    """

    def __init__(self, run: int, publications: AuditedPublications, given: Given, heard: Heard) -> None:
        self._publications, self._given = publications, given
        start, end = publications.run_bounds(run)
        self._start = start
        self.lanes = causal_lanes(publications, start, end)
        self._numbers = numbers = causal_numbers(publications, start, end)
        self._row_of = np.full(end - start, -1, np.int64)
        self._row_of[numbers - start] = np.arange(len(numbers))
        self._seqs, self._present = publications.seq[numbers], given.present[numbers]
        self._steps: _Steps | None = None
        if len(self.lanes) > 1 and not self._present.all():
            at = heard.of_run(run)
            rows = self._row_of[heard.numbers[at] - start]
            ordered = np.flatnonzero(rows >= 0)
            history = _history(
                publications.node[numbers],
                publications.index[numbers],
                heard.nodes[at][ordered],
                heard.indexes[at][ordered],
                rows[ordered],
            )
            self._steps = _Steps(history, publications.time[numbers], self._seqs, self._present)

    def clocks(self, lanes: Longs) -> Any:
        """A row for each causal-or-stronger publication of the run, with a column for each of these lanes."""
        columns = np.full(int(self._publications.lane.max()) + 1, -1, np.int64)
        columns[lanes] = np.arange(len(lanes))
        own, highest = columns[self._publications.lane[self._numbers]], int(self._seqs.max())
        clocks = np.zeros((len(own), len(lanes)), np.int32 if highest >> SEQ_BITS_MAX == 0 else np.int64)
        self._given.put(clocks, self._start, self._row_of, columns, highest)
        # A message is known with its past: whoever delivers it knows the message too.
        rows = np.flatnonzero(self._present & (own >= 0))
        clocks[rows, own[rows]] = np.maximum(clocks[rows, own[rows]], self._seqs[rows])
        if self._steps is not None:
            self._steps.fill(clocks, own)
        return clocks


def _batches(publications: AuditedPublications, bounds: tuple[int, int], clocks: Any) -> Iterator[pa.RecordBatch]:
    numbers = causal_numbers(publications, *bounds)
    hashes, seqs = publications.hash[numbers], publications.seq[numbers]
    width = clocks.shape[1] * clocks.itemsize
    size = max(BATCH_BYTES // width, 1)
    for first in range(0, len(numbers), size):
        rows = np.arange(first, min(first + size, len(numbers)))
        offsets = (np.arange(len(rows) + 1) * width).astype(np.int32)
        packed = pa.Array.from_buffers(
            pa.binary(), len(rows), [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(clocks[rows]))]
        )
        kinds = pa.array(np.full(len(rows), CLOCK, np.int8))
        yield pa.record_batch(
            [kinds, pa.array(hashes[rows]), pa.array(seqs[rows]), packed], names=["kind", "publisher", "seq", "clock"]
        )


# ----------------------------------------------------------------------------------------------------------- history


@dataclass
class _History:
    """Publications by node and index, each with the slice of deliveries between it and the one before at its node."""

    order: Longs
    node: Longs
    starts: Longs
    ends: Longs
    delivered: Longs
    """Numbers of the publications delivered, by node and index."""

    def first_of_node(self) -> Any:
        first = np.ones(len(self.node), np.bool_)
        first[1:] = self.node[1:] != self.node[:-1]
        return first


def _history(pub_nodes: Longs, pub_indexes: Longs, nodes: Longs, indexes: Longs, numbers: Longs) -> _History:
    order = np.lexsort((pub_indexes, pub_nodes))
    pub_nodes, pub_indexes = pub_nodes[order], pub_indexes[order]
    highest = int(max(pub_indexes.max(), indexes.max(initial=0))) + 1
    if int(pub_nodes.max() + 1) * highest >= 1 << 62:
        # Indexes of this size are no count of anything; their order is all that matters.
        unique = np.unique(np.concatenate([pub_indexes, indexes]))
        pub_indexes, indexes = np.searchsorted(unique, pub_indexes), np.searchsorted(unique, indexes)
        highest = len(unique)
    places = pub_nodes * highest + pub_indexes
    last = np.full(int(max(pub_nodes.max(), nodes.max(initial=0))) + 1, -1, np.int64)
    last[pub_nodes] = pub_indexes
    useful = np.flatnonzero(indexes < last[nodes])
    keys = nodes[useful] * highest + indexes[useful]
    by_place = np.argsort(keys, kind="stable")
    ends = np.searchsorted(keys[by_place], places)
    starts = np.zeros_like(ends)
    starts[1:] = ends[:-1]
    return _History(order, pub_nodes, starts, ends, numbers[useful[by_place]])


class _Steps:
    """In which order the clocks of a run are computed. The order is the same for whichever lanes they have."""

    def __init__(self, history: _History, times: Longs, seqs: Longs, present: Any) -> None:
        sequence, self._cyclic = _sequence(history, times)
        self._plan = _Plan(history, sequence, seqs, present)
        self._plain = not self._cyclic and int(seqs.max()) >> STEP_BITS == 0

    def fill(self, clocks: Any, own: Longs) -> None:
        """Compute the clocks of all publications whose past is not given."""
        while self._plan.play(clocks, own, waves=self._plain, repeated=self._cyclic):
            pass


def _sequence(history: _History, times: Longs) -> tuple[Longs, bool]:
    """An order of the rows of the history in which causes come first; and whether that could not be."""
    numbers = history.order
    by_time = np.lexsort((np.arange(len(numbers)), times[numbers]))
    if _is_causal(history, by_time):
        return by_time, False
    return _followed(history)


def _dependencies(history: _History, sequence: Longs) -> Longs:
    """For every row of the history the last place in the sequence of what was delivered before it, -1 for none."""
    place = np.empty(len(sequence), np.int64)
    place[sequence] = np.arange(len(sequence))
    row_of = np.empty(len(sequence), np.int64)
    row_of[history.order] = np.arange(len(sequence))
    last = np.full(len(sequence), -1, np.int64)
    full = np.flatnonzero(history.ends > history.starts)
    if len(full):
        last[full] = np.maximum.reduceat(place[row_of[history.delivered]], history.starts[full])
    return last


def _is_causal(history: _History, sequence: Longs) -> bool:
    place = np.empty(len(sequence), np.int64)
    place[sequence] = np.arange(len(sequence))
    follows = np.flatnonzero(~history.first_of_node())
    in_turn = place[follows - 1] < place[follows]
    return bool(in_turn.all() and (_dependencies(history, sequence) < place).all())


def _followed(history: _History) -> tuple[Longs, bool]:
    """Each node's rows in turn, as far as what they deliver is published; what is left over is in a cycle."""
    row_of = np.empty(len(history.order), np.int64)
    row_of[history.order] = np.arange(len(history.order))
    delivered = row_of[history.delivered]
    published = np.zeros(len(history.order), np.bool_)
    starts = np.flatnonzero(history.first_of_node()).tolist()
    ends = [*starts[1:], len(history.order)]
    done: list[int] = []
    waiting: dict[int, list[tuple[int, int]]] = {}
    ready = list(zip(starts, ends, strict=True))[::-1]
    while ready:
        row, end = ready.pop()
        while row < end:
            causes = delivered[history.starts[row] : history.ends[row]]
            missing = causes[~published[causes]]
            if len(missing):
                waiting.setdefault(int(missing[0]), []).append((row, end))
                break
            done.append(row)
            published[row] = True
            ready.extend(waiting.pop(row, ()))
            row += 1
    stuck = [row for rows in waiting.values() for first, end in rows for row in range(first, end)]
    return np.array(done + stuck, np.int64), bool(stuck)


class _Plan:
    """The publications in the order in which their clocks are computed, with what each one's client delivered."""

    def __init__(self, history: _History, sequence: Longs, seqs: Longs, present: Any) -> None:
        self.numbers = history.order[sequence]
        self.nodes = history.node[sequence]
        self.nodes_count = int(self.nodes.max()) + 1
        self.own = np.zeros(0, np.int64)
        self.seqs = seqs[self.numbers]
        self.present = present[self.numbers]
        lengths = (history.ends - history.starts)[sequence]
        self.bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        shift = np.repeat(history.starts[sequence] - self.bounds[:-1], lengths)
        self.delivered = history.delivered[shift + np.arange(len(shift))]
        self.last = _dependencies(history, sequence)[sequence]

    def play(self, clocks: Any, own: Longs, waves: bool, repeated: bool) -> bool:
        """Compute every clock once; says, if it is to be repeated, whether one of them has grown.

        `own` is the column of each publication's own publisher, or -1.
        """
        self.own = own[self.numbers]
        nodes = np.zeros((self.nodes_count, clocks.shape[1]), clocks.dtype)
        before = clocks.copy() if repeated else None
        ends = self._wave_ends() if waves else range(1, len(self.numbers) + 1)
        start = 0
        for end in ends:
            if end - start < WAVE_MIN:
                for at in range(start, end):
                    self._step(at, clocks, nodes)
            else:
                self._wave(start, end, clocks, nodes)
            start = end
        return before is not None and not np.array_equal(before, clocks)

    def _wave_ends(self) -> list[int]:
        ends, start = [], 0
        for at, last in enumerate(self.last.tolist()):
            if last >= start:
                ends.append(at)
                start = at
        return [*ends, len(self.last)]

    def _step(self, at: int, clocks: Any, nodes: Any) -> None:
        clock = nodes[self.nodes[at]]
        first, last = self.bounds[at], self.bounds[at + 1]
        if last > first:
            np.maximum(clock, np.maximum.reduce(clocks[self.delivered[first:last]], axis=0), out=clock)
        number, own = self.numbers[at], self.own[at]
        if own >= 0 and clock[own] < self.seqs[at]:
            clock[own] = self.seqs[at]
        if self.present[at]:
            np.maximum(clock, clocks[number], out=clock)
        else:
            clocks[number] = clock

    def _wave(self, start: int, end: int, clocks: Any, nodes: Any) -> None:
        by_node = start + np.argsort(self.nodes[start:end], kind="stable")
        owners, numbers, own, present = (
            column[by_node] for column in (self.nodes, self.numbers, self.own, self.present)
        )
        heard = np.zeros((end - start, clocks.shape[1]), np.int64)
        first, last = self.bounds[start], self.bounds[end]
        if last > first:
            offsets = self.bounds[start:end] - first
            full = np.flatnonzero(self.bounds[start + 1 : end + 1] - first > offsets)
            highest = np.maximum.reduceat(clocks[self.delivered[first:last]], offsets[full], axis=0)
            place = np.empty(end - start, np.int64)
            place[by_node - start] = np.arange(end - start)
            heard[place[full]] = highest
        rows = np.flatnonzero(own >= 0)
        heard[rows, own[rows]] = np.maximum(heard[rows, own[rows]], self.seqs[by_node[rows]])
        if present.any():
            heard[present] = np.maximum(heard[present], clocks[numbers[present]])
        turns = np.concatenate([np.ones(1, np.bool_), owners[1:] != owners[:-1]])
        firsts = np.flatnonzero(turns)
        heard[firsts] = np.maximum(heard[firsts], nodes[owners[firsts]])
        # Along each node: with a step between nodes that is higher than any seq, none reaches into the next.
        steps = (np.cumsum(turns) << STEP_BITS)[:, None]
        known = (np.maximum.accumulate(heard + steps, axis=0) - steps).astype(clocks.dtype)
        clocks[numbers[~present]] = known[~present]
        nodes[owners[np.append(firsts[1:], len(owners)) - 1]] = known[np.append(firsts[1:], len(owners)) - 1]
