"""One client after the other: what it delivered against what was published, wanted and in order.

Positions are places in the client's sequence of deliveries. Whatever is asked of all publications at once is an array
by their numbers, made once and reused for every client.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from holdfast.model.guarantees import FIFO
from holdfast.pipeline.audit.clocks import Clocks
from holdfast.pipeline.audit.inbox import DELIVER, Bools, Inbox, Longs
from holdfast.pipeline.audit.publications import AuditedPublications, Names
from holdfast.pipeline.audit.subscriptions import AuditedSubscription, AuditedSubscriptions, Interest

UNSUBSCRIBED = "unsubscribed"


@dataclass(frozen=True, slots=True)
class ClientFinding:
    """A fault at a client, by numbers: the delivery's index, its message, and what it is at odds with."""

    kind: str
    client: int
    index: int
    publisher: int
    """Hash of the name."""
    seq: int
    other_publisher: int = 0
    other_seq: int = 0
    detail: str = ""


class ClientFindings:
    """Keeps the first few faults of every kind; the others are only counted."""

    def __init__(self, kept_max: int) -> None:
        self.kept: list[ClientFinding] = []
        self._left: dict[str, int] = {}
        self._kept_max = kept_max

    def room(self, kind: str) -> int:
        """How many more of this kind will be kept."""
        return self._left.get(kind, self._kept_max)

    def add(self, finding: ClientFinding) -> None:
        self._left[finding.kind] = self.room(finding.kind) - 1
        self.kept.append(finding)


class AuditedDeliveries:
    """All deliveries of a task by client and index."""

    def __init__(
        self, inbox: Inbox, publications: AuditedPublications, names: Names, chosen: Bools | None = None
    ) -> None:
        """All, or only those of the chosen publications."""
        publishers, seqs = inbox.numbers(DELIVER, "publisher"), inbox.numbers(DELIVER, "seq")
        numbers = publications.numbers.find(names.ranks(publishers), seqs)
        contents = inbox.numbers(DELIVER, "content")
        nodes, indexes = inbox.numbers(DELIVER, "node"), inbox.numbers(DELIVER, "index")
        if chosen is not None:
            rows = np.flatnonzero((numbers >= 0) & chosen[numbers])
            publishers, seqs, numbers, contents = publishers[rows], seqs[rows], numbers[rows], contents[rows]
            nodes, indexes = nodes[rows], indexes[rows]
        same = numbers >= 0
        same[same] = publications.content[numbers[same]] == contents[same]
        del contents
        nodes = names.ranks(nodes)
        order = sorted_by(nodes, indexes)
        self.index, self.number, self.same = indexes[order], numbers[order], same[order]
        self.publisher, self.seq = publishers[order], seqs[order]
        self.starts = np.searchsorted(nodes[order], np.arange(len(names) + 1))

    def nodes(self) -> Longs:
        """The client of every delivery."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def slice_of(self, client: int) -> slice:
        return slice(int(self.starts[client]), int(self.starts[client + 1]))


def sorted_by(nodes: Longs, indexes: Longs) -> Longs:
    """The order of rows by node and index."""
    highest = int(indexes.max(initial=0)) + 1
    if (int(nodes.max(initial=0)) + 1) * highest < 1 << 62:
        return np.argsort(nodes * highest + indexes, kind="stable")
    return np.lexsort((indexes, nodes))


class ClientJudge:
    """Judges clients: counts faults by run and kind, and keeps some as examples."""

    def __init__(
        self,
        publications: AuditedPublications,
        deliveries: AuditedDeliveries,
        interest: Interest,
        findings: ClientFindings,
    ) -> None:
        self._publications, self._deliveries, self._interest = publications, deliveries, interest
        self._findings = findings
        self._first_place = np.zeros(len(publications), np.int64)
        self._seen = np.zeros(len(publications), np.bool_)
        self.counts: dict[tuple[int, str], int] = {}

    def _count(self, run: int, kind: str, count: int) -> None:
        if count:
            self.counts[run, kind] = self.counts.get((run, kind), 0) + count

    def deliveries_of(self, client: int, run: int, subscriptions: list[AuditedSubscription]) -> Longs:
        """Count what is duplicated, created and lost; return the numbers of what arrived, in order."""
        part = self._deliveries.slice_of(client)
        numbers = self._deliveries.number[part]
        first, arrived = self._first_and_arrived(client, subscriptions)
        self._count(run, "duplicated", len(first) - int(np.count_nonzero(first)))
        self._count(run, "created", int(np.count_nonzero(first)) - len(arrived))
        if len(arrived) < len(first):
            good = np.zeros(len(first), np.bool_)
            good[arrived] = True
            self._keep("duplicated", client, part.start + np.flatnonzero(~first))
            self._keep("created", client, part.start + np.flatnonzero(first & ~good), subscriptions)
        self._lost(client, run, numbers[numbers >= 0], subscriptions)
        return numbers[arrived]

    def arrived_at(self, client: int, subscriptions: list[AuditedSubscription]) -> Longs:
        """The numbers of what arrived, in order; nothing is counted."""
        return self._deliveries.number[self._deliveries.slice_of(client)][
            self._first_and_arrived(client, subscriptions)[1]
        ]

    def _first_and_arrived(self, client: int, subscriptions: list[AuditedSubscription]) -> tuple[Bools, Longs]:
        """Which deliveries are the first of their message, and the places of those that are so and were wanted."""
        part = self._deliveries.slice_of(client)
        first = self._first(part)
        wanted = np.flatnonzero(first & self._deliveries.same[part])
        numbers, indexes = self._deliveries.number[part], self._deliveries.index[part]
        return first, wanted[self._wanted(client, numbers[wanted], indexes[wanted], subscriptions)]

    def _keep(
        self, kind: str, client: int, rows: Longs, subscriptions: list[AuditedSubscription] | None = None
    ) -> None:
        found = self._deliveries
        for at in rows[: self._findings.room(kind)].tolist():
            late = subscriptions is not None and self._was_wanted(client, at, subscriptions)
            self._findings.add(
                ClientFinding(
                    kind,
                    client,
                    int(found.index[at]),
                    int(found.publisher[at]),
                    int(found.seq[at]),
                    detail=UNSUBSCRIBED if late else "",
                )
            )

    def _was_wanted(self, client: int, at: int, subscriptions: list[AuditedSubscription]) -> bool:
        """Whether a delivery that is not wanted then was so at another time."""
        number = self._deliveries.number[at : at + 1]
        always = [replace(one, ended_at=None) for one in subscriptions]
        return bool(self._deliveries.same[at]) and bool(self._wanted(client, number, number, always)[0])

    def _first(self, part: slice) -> Bools:
        """Which deliveries are the first of their message here."""
        numbers = self._deliveries.number[part]
        places = np.arange(len(numbers))
        known = numbers >= 0
        # Written from the last to the first, so what remains is the first place of each.
        self._first_place[numbers[known][::-1]] = places[known][::-1]
        first = np.zeros(len(numbers), np.bool_)
        first[known] = self._first_place[numbers[known]] == places[known]
        unknown = np.flatnonzero(~known)
        if len(unknown):
            pairs = np.stack([self._deliveries.publisher[part][unknown], self._deliveries.seq[part][unknown]], axis=1)
            first[unknown[np.unique(pairs, axis=0, return_index=True)[1]]] = True
        return first

    def _wanted(self, client: int, numbers: Longs, indexes: Longs, subscriptions: list[AuditedSubscription]) -> Bools:
        """Which of these deliveries a subscription of the client accounts for."""
        topics = self._publications.topic[numbers]
        allowed = np.zeros(self._interest.topics_count, np.bool_)
        for one in subscriptions:
            if one.ended_at is None and not one.where:
                allowed[self._interest.topics(client, one.pattern)] = True
        ok = allowed[topics]
        for one in subscriptions:
            if one.ended_at is None and not one.where:
                continue
            of_topic = np.zeros_like(allowed)
            of_topic[self._interest.topics(client, one.pattern)] = True
            rest = np.flatnonzero(~ok & of_topic[topics])
            if one.ended_at is not None:
                rest = rest[indexes[rest] < one.ended_at]
            if one.where:
                rest = rest[self._interest.passes(one.where, numbers[rest])]
            ok[rest] = True
        return ok

    def _lost(self, client: int, run: int, delivered: Longs, subscriptions: list[AuditedSubscription]) -> None:
        self._seen[delivered] = True
        missing: list[Longs] = []
        for one in subscriptions:
            if one.confirmed_at is None or one.ended_at is not None:
                continue
            for topic in self._interest.topics(client, one.pattern):
                owed = self._publications.on_topic(topic)
                owed = owed[~self._seen[owed]]
                owed = owed[self._confirmed_before(one, client, owed)] if len(owed) else owed
                if one.where and len(owed):
                    owed = owed[self._interest.passes(one.where, owed)]
                if len(owed):
                    self._seen[owed] = True
                    missing.append(owed)
                    self._report_lost(client, owed, one)
        self._seen[delivered] = False
        for owed in missing:
            self._seen[owed] = False
        self._count(run, "lost", sum(map(len, missing)))

    def _report_lost(self, client: int, owed: Longs, subscription: AuditedSubscription) -> None:
        publications = self._publications
        for number in owed[: self._findings.room("lost")].tolist():
            publisher, seq = int(publications.hash[number]), int(publications.seq[number])
            self._findings.add(ClientFinding("lost", client, 0, publisher, seq, detail=str(subscription)))

    def _confirmed_before(self, one: AuditedSubscription, client: int, numbers: Longs) -> Bools:
        times = self._publications.time[numbers]
        equal = (times == one.confirmed_time) & (self._publications.node[numbers] == client)
        later: Bools = equal & (self._publications.index[numbers] > one.confirmed_at)
        return later | (times > one.confirmed_time)

    # --------------------------------------------------------------------------------------------------------- order

    def fifo(self, client: int, run: int, arrived: Longs) -> None:
        """Count what overtook an earlier message of its own publisher."""
        strong = np.flatnonzero(self._publications.rank[arrived] >= FIFO)
        numbers = arrived[strong]
        by_number = np.argsort(numbers, kind="stable")
        ordered = numbers[by_number]
        lanes = self._publications.lane[ordered]
        segments = np.zeros(len(ordered), np.int64)
        np.cumsum(lanes[1:] != lanes[:-1], out=segments[1:])
        # A publisher's messages in the order of publication must be at rising places.
        places = by_number + segments * (len(ordered) + 1)
        early = np.flatnonzero(np.maximum.accumulate(places) > places)
        self._count(run, "fifo", len(early))
        for at in np.sort(by_number[early])[: self._findings.room("fifo")].tolist():
            later = numbers[at + 1 :]
            own = later[self._publications.lane[later] == self._publications.lane[numbers[at]]]
            self._findings.add(self._overtaking("fifo", client, int(numbers[at]), int(own.min()), at))

    def _overtaking(self, kind: str, client: int, early: int, late: int, place: int) -> ClientFinding:
        publications = self._publications
        return ClientFinding(
            kind,
            client,
            place,
            int(publications.hash[early]),
            int(publications.seq[early]),
            int(publications.hash[late]),
            int(publications.seq[late]),
        )

    def causal(self, run: int, sequences: Sequence[tuple[int, Longs]], clocks: Iterable[Clocks]) -> None:
        """Count what overtook another publisher's message in its causal past, at every client of a run.

        `sequences` are the clients with the causal-or-stronger messages that arrived. Each of the `clocks` knows some
        publishers; what is found with several of them is counted once.
        """
        found: dict[int, Longs] = {}
        for some in clocks:
            for client, numbers in sequences:
                early = some.overtaking(numbers)
                if len(early):
                    before = found.get(client, early[:0])
                    new = np.setdiff1d(early, before, assume_unique=True)
                    found[client] = np.union1d(before, new)
                    self._report_causal(client, run, numbers, new, some)

    def _report_causal(self, client: int, run: int, numbers: Longs, early: Longs, clocks: Clocks) -> None:
        self._count(run, "causal", len(early))
        for at in early[: self._findings.room("causal")].tolist():
            late = clocks.overtaken(numbers, at)
            self._findings.add(self._overtaking("causal", client, int(numbers[at]), late, at))


def clients_in_order(names: Names, deliveries: AuditedDeliveries, subscriptions: AuditedSubscriptions) -> Iterator[int]:
    """The clients that this task has to judge: those that were sent to it."""
    for client in range(len(names)):
        part = deliveries.slice_of(client)
        if part.stop > part.start or client in subscriptions.of:
            yield client
