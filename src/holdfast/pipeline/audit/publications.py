"""The names and publications that a task knows: every hash becomes a small number, in the order of the names.

Publications are numbered by run, publisher and seq, so those of a run, and in it those of a publisher, are neighbours.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.pipeline.audit.inbox import NAME, PUBLISH, TOPIC, Bools, Inbox, Ints, Longs

TABLE_SPARSENESS_MAX = 4
"""How many times larger than the publications a table of them by (publisher, seq) may be."""


class Names:
    """Clients and publishers of all runs that the task sees, ranked by run and name."""

    def __init__(self, inbox: Inbox) -> None:
        hashes = inbox.numbers(NAME, "node")
        texts, runs = inbox.words(NAME, "text").to_pylist(), inbox.words(NAME, "more").to_pylist()
        order = sorted(range(len(hashes)), key=lambda at: (runs[at], texts[at]))
        self.hashes = hashes[np.array(order, np.int64)]
        self.texts: list[str] = [texts[at] for at in order]
        self.runs: list[str] = sorted(set(runs))
        number = {run: at for at, run in enumerate(self.runs)}
        self.run_of = np.array([number[runs[at]] for at in order], np.int64)
        self._ranks = np.argsort(self.hashes, kind="stable")
        self._sorted = self.hashes[self._ranks]

    def __len__(self) -> int:
        return len(self.texts)

    def ranks(self, hashes: Longs) -> Longs:
        """The rank of each name, -1 for those that nobody has."""
        return _found(self._sorted, self._ranks, hashes)


def _found(ordered: Longs, values: Longs, wanted: Longs) -> Longs:
    if not len(ordered):
        return np.full(len(wanted), -1, np.int64)
    at = np.searchsorted(ordered, wanted)
    np.minimum(at, len(ordered) - 1, out=at)
    return np.where(ordered[at] == wanted, values[at], -1)


class Topics:
    """The topics on which something was published, by run."""

    def __init__(self, inbox: Inbox) -> None:
        hashes = inbox.numbers(TOPIC, "topic")
        texts, runs = inbox.words(TOPIC, "text").to_pylist(), inbox.words(TOPIC, "more").to_pylist()
        self.texts: list[str] = texts
        self.of_run: dict[str, dict[str, int]] = {}
        """The number of each topic of a run, by its text."""
        for number, run in enumerate(runs):
            self.of_run.setdefault(run, {})[texts[number]] = number
        order = np.argsort(hashes, kind="stable")
        self._order, self._sorted = order, hashes[order]

    def numbers(self, hashes: Longs) -> Longs:
        return _found(self._sorted, self._order, hashes)


class AuditedPublications:
    """What was published, once each: a publisher that sends again what it published before has published it once."""

    def __init__(self, inbox: Inbox, names: Names, topics: Topics) -> None:
        ranks = np.concatenate([np.full(inbox.count(PUBLISH + rank), rank, np.int8) for rank in range(4)])
        columns = {
            name: np.concatenate([inbox.numbers(PUBLISH + rank, name) for rank in range(4)])
            for name in ("publisher", "seq", "node", "index", "time", "content", "topic")
        }
        lanes, nodes = names.ranks(columns["publisher"]), names.ranks(columns["node"])
        order = np.lexsort((columns["index"], nodes, columns["seq"], lanes))
        kept = order[_is_new(lanes[order], columns["seq"][order])]
        self.rows = kept
        """Where each publication stands among the rows that came."""
        self.lane, self.seq, self.node = lanes[kept], columns["seq"][kept], nodes[kept]
        self.hash = columns["publisher"][kept]
        self.rank = ranks[kept]
        self.index, self.time, self.content = columns["index"][kept], columns["time"][kept], columns["content"][kept]
        self.topic = topics.numbers(columns["topic"][kept])
        self._repeated_nodes, self._repeated_indexes = nodes, columns["index"]
        self._words = {
            name: pa.concat_arrays([inbox.words(PUBLISH + rank, name) for rank in range(4)])
            for name in ("keys", "past", "text")
        }
        self.run = names.run_of[self.lane]
        self.numbers = PublisherNumbers(self.lane, self.seq, len(names))
        self._by_topic = np.argsort(self.topic, kind="stable")
        self._topic_starts = np.searchsorted(self.topic[self._by_topic], np.arange(len(topics.texts) + 1))

    def __len__(self) -> int:
        return len(self.lane)

    def on_topic(self, topic: int) -> Longs:
        """The numbers of the publications on a topic, in their order."""
        return self._by_topic[self._topic_starts[topic] : self._topic_starts[topic + 1]]

    def publish_rows(self) -> tuple[Longs, Longs]:
        """Node and index of every publish row, repeats included."""
        return self._repeated_nodes, self._repeated_indexes

    def keys(self) -> tuple[Longs, Longs]:
        """For every (publication, key) the publication's number and the hash of topic and key, by number."""
        return self._flat("keys")

    def pasts(self) -> tuple[Longs, Longs]:
        """For every number in a given past (publisher, seq, publisher, seq and so on) the publication's, and itself."""
        return self._flat("past")

    def _flat(self, name: str) -> tuple[Longs, Longs]:
        lists = self._words[name].take(pa.array(self.rows))
        return np.asarray(pc.list_parent_indices(lists)).astype(np.int64), lists.flatten().to_numpy()

    def has_past(self) -> Bools:
        """Of which publications the past is given, be it an empty one."""
        return np.asarray(self._words["past"].is_valid().take(pa.array(self.rows)))

    def attributes(self, numbers: Longs) -> pa.Array:
        """The attributes of some publications, as JSON texts; null for none."""
        return self._words["text"].take(pa.array(self.rows[numbers]))

    def run_bounds(self, run: int) -> tuple[int, int]:
        start, end = np.searchsorted(self.run, [run, run + 1])
        return int(start), int(end)


def _is_new(*columns: Longs) -> Bools:
    """Of sorted rows, those that differ from the row before."""
    new = np.ones(len(columns[0]), np.bool_)
    same = np.ones(max(len(columns[0]) - 1, 0), np.bool_)
    for column in columns:
        same &= column[1:] == column[:-1]
    new[1:] = ~same
    return new


class PublisherNumbers:
    """From (lane, seq) to the number of the publication."""

    def __init__(self, lanes: Longs, seqs: Longs, lanes_count: int) -> None:
        self._seqs = seqs
        self._starts = np.searchsorted(lanes, np.arange(lanes_count + 1))
        held = np.flatnonzero(np.diff(self._starts))
        self._lowest = np.zeros(lanes_count, np.int64)
        self._spans = np.zeros(lanes_count, np.int64)
        self._lowest[held] = seqs[self._starts[held]]
        self._spans[held] = seqs[self._starts[held + 1] - 1] - self._lowest[held] + 1
        # As floats, since the sum of wild numbers may not fit an integer.
        self._dense = float(self._spans.astype(np.float64).sum()) <= TABLE_SPARSENESS_MAX * len(seqs) + 1024
        if self._dense:
            self._offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(self._spans)])
            self._table: Ints = np.full(int(self._offsets[-1]) + 1, -1, np.int32)
            self._table[self._offsets[lanes] + seqs - self._lowest[lanes]] = np.arange(len(seqs), dtype=np.int32)

    def find(self, lanes: Longs, seqs: Longs) -> Longs:
        """The numbers of these publications, -1 where there is none."""
        if not self._dense:
            return self._search(lanes, seqs)
        lanes_or_any = np.maximum(lanes, 0)
        at = seqs - self._lowest[lanes_or_any]
        inside = (lanes >= 0) & (at >= 0) & (at < self._spans[lanes_or_any])
        at += self._offsets[lanes_or_any]
        at[~inside] = -1  # The last place of the table, which says -1.
        found: Longs = self._table[at].astype(np.int64)
        return found

    def _search(self, lanes: Longs, seqs: Longs) -> Longs:
        found = np.full(len(lanes), -1, np.int64)
        for lane in np.unique(lanes[lanes >= 0]).tolist():
            start, end = self._starts[lane], self._starts[lane + 1]
            rows = np.flatnonzero(lanes == lane)
            if start == end:
                continue
            at = np.minimum(start + np.searchsorted(self._seqs[start:end], seqs[rows]), end - 1)
            found[rows] = np.where(self._seqs[at] == seqs[rows], at, -1)
        return found

    def upto(self, lane: int, seqs: Longs) -> Longs:
        """The number of the last publication of a lane whose seq is not above each of these, -1 for none."""
        start, end = int(self._starts[lane]), int(self._starts[lane + 1])
        if self._spans[lane] == end - start:
            at = start + np.minimum(seqs - self._lowest[lane], end - start - 1)
        else:
            at = start + np.searchsorted(self._seqs[start:end], seqs, side="right") - 1
        return np.where(seqs < self._lowest[lane], -1, at)

    def bounds(self, lane: int) -> tuple[int, int]:
        """The first number of a lane and the one after its last."""
        return int(self._starts[lane]), int(self._starts[lane + 1])
