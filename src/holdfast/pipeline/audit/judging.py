"""One task of the audit: it is sent everything about some clients, and all publications of their runs."""

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.model.guarantees import CAUSAL
from holdfast.model.trace import TraceError
from holdfast.pipeline.audit.clients import (
    AuditedDeliveries,
    ClientFinding,
    ClientFindings,
    ClientJudge,
    clients_in_order,
)
from holdfast.pipeline.audit.clocks import Clocks
from holdfast.pipeline.audit.groups import KeyGroups, Prints
from holdfast.pipeline.audit.inbox import CLOCK, SUSPECT, Inbox, Longs
from holdfast.pipeline.audit.pasts import Given, Heard, Pasts, causal_lanes, causal_numbers
from holdfast.pipeline.audit.publications import AuditedPublications, Names, Topics
from holdfast.pipeline.audit.subscriptions import AuditedSubscriptions, Interest

COUNT, EXAMPLE, PRINT, TIES, REFUSED = "count", "example", "print", "ties", "refused"
"""What a row of the result is: a number of faults, one of them, a print, a disorder, or what is wrong in the trace."""

SCHEMA = (
    "what string, run string, kind string, count bigint, node string, index bigint, publisher string, seq bigint, "
    "other_publisher string, other_seq bigint, detail string, `group` bigint, first_print bigint, second_print bigint"
)
_FIELDS = pa.schema(
    [
        (name, pa.string() if kind == "string" else pa.int64())
        for name, kind in (field.strip().replace("`", "").split(" ") for field in SCHEMA.split(","))
    ]
)
BATCH_ROWS = 100_000


class JudgingTask:
    """What was sent, put in order, and the walk over the clients."""

    def __init__(self, inbox: Inbox, suspects: Longs | None = None) -> None:
        """`suspects` are the hashes of groups; with them deliveries of other messages are left out."""
        self.names = Names(inbox)
        topics = Topics(inbox)
        self.publications = AuditedPublications(inbox, self.names, topics)
        self.subscriptions = AuditedSubscriptions(inbox, self.names)
        self.groups = KeyGroups(self.publications, suspects)
        chosen = None if suspects is None else self.groups.members()
        self.deliveries = AuditedDeliveries(inbox, self.publications, self.names, chosen)
        self.interest = Interest(self.publications, topics, self.names)
        self._sent = inbox.count(CLOCK) > 0
        self._clock_rows = self.publications.numbers.find(
            self.names.ranks(inbox.numbers(CLOCK, "publisher")), inbox.numbers(CLOCK, "seq")
        )
        self._clocks = inbox.words(CLOCK, "clock")

    def clients(self) -> Iterator[tuple[int, int]]:
        """Every client to judge, with the number of its run, by run."""
        for client in clients_in_order(self.names, self.deliveries, self.subscriptions):
            yield client, int(self.names.run_of[client])

    def clocks(self, run: int, bytes_max: int) -> Iterator[Clocks]:
        """The causal pasts of a run, some publishers at a time; none if nothing can be out of causal order."""
        bounds = self.publications.run_bounds(run)
        lanes = causal_lanes(self.publications, *bounds)
        if len(lanes) < 2:
            return
        if self._sent:
            at = np.flatnonzero((self._clock_rows >= bounds[0]) & (self._clock_rows < bounds[1]))
            chosen = self._clocks if len(at) == len(self._clock_rows) else self._clocks.take(pa.array(at))
            yield Clocks(self.publications, bounds, lanes, self._clock_rows[at], _matrix(chosen, len(lanes)))
            return
        pasts = Pasts(run, self.publications, self._given, self._heard)
        numbers = causal_numbers(self.publications, *bounds)
        width = max(bytes_max // (4 * len(numbers)), 1)
        for first in range(0, len(lanes), width):
            some = lanes[first : first + width]
            yield Clocks(self.publications, bounds, some, numbers, pasts.clocks(some))

    @cached_property
    def _given(self) -> Given:
        return Given(self.publications, self.names)

    @cached_property
    def _heard(self) -> Heard:
        return Heard(self.names, self.deliveries.nodes(), self.deliveries.index, self.deliveries.number)

    def has_ties(self) -> bool:
        """Whether two rows of one client have the same index, so that their order is not known."""
        index, starts = self.deliveries.index, self.deliveries.starts
        same = index[1:] == index[:-1]
        borders = starts[(starts > 0) & (starts < len(index))]
        same[borders - 1] = False
        if same.any():
            return True
        nodes, indexes = self.publications.publish_rows()
        ours = np.flatnonzero(np.isin(nodes, [client for client, _ in self.clients()]))
        rows = np.array(self.subscriptions.rows, np.int64).reshape(-1, 2)
        nodes, indexes = np.concatenate([nodes[ours], rows[:, 0]]), np.concatenate([indexes[ours], rows[:, 1]])
        order = np.lexsort((indexes, nodes))
        nodes, indexes = nodes[order], indexes[order]
        if ((nodes[1:] == nodes[:-1]) & (indexes[1:] == indexes[:-1])).any():
            return True
        for client in np.unique(nodes).tolist():
            others, delivered = (
                indexes[slice(*np.searchsorted(nodes, [client, client + 1]))],
                self.deliveries.slice_of(client),
            )
            at = np.searchsorted(index[delivered], others)
            inside = at < delivered.stop - delivered.start
            if (index[delivered][at[inside]] == others[inside]).any():
                return True
        return False


def _matrix(packed: pa.Array, columns: int) -> Any:
    if isinstance(packed, pa.ChunkedArray):
        packed = packed.combine_chunks()
    offsets = np.frombuffer(packed.buffers()[1], np.int32)[packed.offset : packed.offset + len(packed) + 1]
    data = np.frombuffer(packed.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    item = np.int32 if len(data) == len(packed) * columns * 4 else np.int64
    return data.view(item).reshape(len(packed), columns).copy()


def judge(batches: Iterable[pa.RecordBatch], examples_max: int, clock_bytes_max: int) -> Iterator[pa.RecordBatch]:
    """Judge every client that was sent: rows of `SCHEMA`.

    Clocks that were not sent are computed here, from the whole runs that were; at most so many bytes of them at once.
    """
    try:
        task = JudgingTask(Inbox(batches))
    except TraceError as error:
        yield _rows([{"what": REFUSED, "detail": str(error)}])
        return
    if task.has_ties():
        yield _rows([{"what": TIES, "count": 1}])
        return
    findings = ClientFindings(examples_max)
    one = ClientJudge(task.publications, task.deliveries, task.interest, findings)
    prints = Prints(task.groups)
    for run, clients in groupby(task.clients(), key=lambda pair: pair[1]):
        sequences = list(_arrived(task, one, prints, clients))
        one.causal(run, sequences, task.clocks(run, clock_bytes_max) if sequences else ())
    yield _rows(
        [
            {"what": COUNT, "run": task.names.runs[run], "kind": kind, "count": count}
            for (run, kind), count in one.counts.items()
        ]
        + [_example(task.names, finding) for finding in findings.kept]
    )
    yield from _prints(*prints.different())


def _arrived(
    task: JudgingTask, judge: ClientJudge, prints: Prints, clients: Iterable[tuple[int, int]]
) -> Iterator[tuple[int, Longs]]:
    """Judge all but causal order at some clients; each with the causal-or-stronger messages that arrived."""
    for client, run in clients:
        arrived = judge.deliveries_of(client, run, task.subscriptions.of.get(client, []))
        if len(arrived):
            judge.fifo(client, run, arrived)
            prints.add(arrived)
            yield client, arrived[task.publications.rank[arrived] >= CAUSAL]


def _example(names: Names, finding: ClientFinding) -> dict[str, Any]:
    publishers = np.array([finding.publisher, finding.other_publisher], np.int64)
    first, second = names.ranks(publishers).tolist()
    return {
        "what": EXAMPLE,
        "run": names.runs[int(names.run_of[finding.client])],
        "kind": finding.kind,
        "node": names.texts[finding.client],
        "index": finding.index,
        "publisher": names.texts[first] if first >= 0 else None,
        "seq": finding.seq,
        "other_publisher": names.texts[second] if second >= 0 else None,
        "other_seq": finding.other_seq,
        "detail": finding.detail,
    }


def _rows(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, _FIELDS)


def _prints(groups: Longs, first: Longs, second: Longs) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(groups), BATCH_ROWS):
        part = slice(start, start + BATCH_ROWS)
        size = len(groups[part])
        columns = [pa.nulls(size, field.type) for field in _FIELDS]
        columns[0] = pa.array([PRINT] * size)
        columns[-3:] = [pa.array(column[part]) for column in (groups, first, second)]
        yield pa.record_batch(columns, schema=_FIELDS)


def arrivals(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What arrived of the groups that are suspect: rows of `disputes.ARRIVALS`."""
    inbox = Inbox(batches)
    task = JudgingTask(inbox, inbox.numbers(SUSPECT, "topic"))
    groups = task.groups
    one = ClientJudge(task.publications, task.deliveries, task.interest, ClientFindings(0))
    texts = pa.array(task.names.texts, pa.string())
    for client, run in task.clients():
        arrived = one.arrived_at(client, task.subscriptions.of.get(client, []))
        places, found = groups.pairs(arrived)
        numbers = arrived[places]
        size = len(found)
        if not size:
            continue
        lanes = pa.array(task.publications.lane[numbers])
        columns = {
            "group": pa.array(groups.hashes[found]),
            "client": pa.array(np.full(size, client)),
            "place": pa.array(places),
            "publisher": lanes,
            "seq": pa.array(task.publications.seq[numbers]),
            "total": pa.array(groups.is_total(numbers)),
            "run": pa.repeat(task.names.runs[run], size),
            "client_name": pa.repeat(task.names.texts[client], size),
            "publisher_name": texts.take(lanes),
        }
        yield pa.RecordBatch.from_pydict(columns)
