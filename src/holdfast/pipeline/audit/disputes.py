"""Groups of (topic, key) whose prints differ: do clients disagree about the side of a total message?

They need not: who subscribed later, or filters, delivered fewer messages, not others in another order. So first each
sequence is compared with the longest one, and if it holds no more and agrees with it, all agree with each other. Where
that does not settle it, pairs are judged: of each total message and any other of the group, the order at the majority
of the clients that have both (if equal, at the first of them by name) is the right one.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from holdfast.pipeline.audit.inbox import Bools, Ints, Longs

SCHEMA = (
    "run string, node string, publisher string, seq bigint, other_publisher string, other_seq bigint, "
    "rightful string, other_first boolean"
)
ARRIVALS = (
    "`group` bigint, client bigint, place bigint, publisher bigint, seq bigint, total boolean, "
    "run string, client_name string, publisher_name string"
)
"""Clients and publishers by their rank among the names, and by name."""
_NUMBERS = ("group", "client", "place", "publisher", "seq", "total")
_FIELDS = pa.schema(
    [
        *((name, pa.string()) for name in ("run", "node", "publisher")),
        ("seq", pa.int64()),
        ("other_publisher", pa.string()),
        ("other_seq", pa.int64()),
        ("rightful", pa.string()),
        ("other_first", pa.bool_()),
    ]
)
PAIRS_OF_CLIENTS_MAX = 512
ABSENT = -1

Offence = tuple[int, int, int, int, bool]
"""Client, total message, the other message, a client that has them right, and whether the other comes first there."""


def judge_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Every offence in the groups of this partition, once for each client and total message of a group."""
    sent = list(batches)
    if not sent:
        return
    table = pa.Table.from_batches(sent)
    columns = {name: table.column(name).to_numpy() for name in _NUMBERS}
    order = np.lexsort((columns["place"], columns["client"], columns["group"]))
    groups = columns["group"][order]
    starts = np.flatnonzero(np.concatenate([np.ones(1, np.bool_), groups[1:] != groups[:-1]]))
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(groups)], strict=True):
        found = list(_judged(DisputeGroup(columns, order[start:end]), table))
        if found:
            yield pa.RecordBatch.from_pylist(found, _FIELDS)


class DisputeGroup:
    """One group: its members by number, its clients by rank, and where each client has each member."""

    def __init__(self, columns: dict[str, Longs], rows: Longs) -> None:
        clients, first_rows = np.unique(columns["client"][rows], return_index=True)
        self.client_rows = rows[first_rows]
        """A row of each client."""
        members = np.stack([columns["publisher"][rows], columns["seq"][rows]], axis=1)
        _, firsts, ids = np.unique(members, axis=0, return_index=True, return_inverse=True)
        self.total: Bools = columns["total"][rows[firsts]].astype(np.bool_)
        self.message_rows = rows[firsts]
        """A row of each message."""
        client_ids = np.searchsorted(clients, columns["client"][rows])
        bounds = np.searchsorted(client_ids, np.arange(len(clients) + 1))
        ids = ids.reshape(-1)
        self.sequences = [ids[bounds[at] : bounds[at + 1]] for at in range(len(clients))]


def _judged(group: DisputeGroup, told: pa.Table) -> Iterator[dict[str, object]]:
    if len(group.sequences) < 2 or longest_fits(group.sequences, group.total):
        return

    def word(name: str, row: int) -> object:
        return told.column(name)[row].as_py()

    for client, total, other, rightful, other_first in wrong_sides(group.sequences, group.total):
        own, message, second = (int(row) for row in (group.client_rows[client], *group.message_rows[[total, other]]))
        yield {
            "run": word("run", own),
            "node": word("client_name", own),
            "publisher": word("publisher_name", message),
            "seq": word("seq", message),
            "other_publisher": word("publisher_name", second),
            "other_seq": word("seq", second),
            "rightful": word("client_name", int(group.client_rows[rightful])),
            "other_first": other_first,
        }


def longest_fits(sequences: list[Longs], total: Bools) -> bool:
    """Whether the longest sequence has all members of the others and nobody disagrees with it."""
    longest = max(sequences, key=len)
    side = np.full(len(total), ABSENT, np.int64)
    totals = np.cumsum(total[longest])
    # Its own place for each total message, one between two of them for all others.
    side[longest] = 2 * totals - total[longest]
    for sequence in sequences:
        sides = side[sequence]
        if (sides == ABSENT).any():
            return False
        at = np.flatnonzero(total[sequence])
        before = np.concatenate([[ABSENT], np.maximum.accumulate(sides)[:-1]])
        after = np.concatenate([np.minimum.accumulate(sides[::-1])[::-1][1:], [2 * len(total) + 2]])
        if ((before[at] >= sides[at]) | (after[at] <= sides[at])).any():
            return False
    return True


def wrong_sides(sequences: list[Longs], total: Bools) -> Iterator[Offence]:
    """Every client and total message whose order of it and another message is not the right one."""
    chosen = _disputed(sequences, len(total))
    local = np.full(len(total), ABSENT, np.int64)
    local[chosen] = np.arange(len(chosen))
    places: Ints = np.full((len(sequences), len(chosen)), ABSENT, np.int32)
    for client, sequence in enumerate(sequences):
        held = local[sequence]
        places[client, held[held >= 0]] = np.flatnonzero(held >= 0)
    weaker = ~total[chosen]
    for at in np.flatnonzero(~weaker).tolist():
        # Of two totals the larger is counted, so the larger looks at the smaller alone.
        judged = weaker | (np.arange(len(chosen)) < at)
        for client, other, rightful, other_first in _wrong_about(at, places, judged):
            yield client, int(chosen[at]), int(chosen[other]), rightful, other_first


def _wrong_about(at: int, places: Ints, judged: Bools) -> Iterator[tuple[int, int, int, bool]]:
    clients = np.flatnonzero(places[:, at] != ABSENT)
    held = places[clients]
    both = (held != ABSENT) & judged
    own = held[:, at][:, None]
    before, after = both & (held < own), both & (held > own)
    votes = before.sum(axis=0) - after.sum(axis=0)
    first = np.argmax(both, axis=0)
    right = (votes > 0) | ((votes == 0) & before[first, np.arange(len(judged))])
    wrong = (before & ~right) | (after & right)
    for row in np.flatnonzero(wrong.any(axis=1)).tolist():
        other = int(np.argmax(wrong[row]))
        other_first = bool(right[other])
        rightful = int(np.argmax(before[:, other] if other_first else after[:, other]))
        yield int(clients[row]), other, int(clients[rightful]), other_first


def _disputed(sequences: list[Longs], members: int) -> Longs:
    """Members that are in another order with some member at some two clients: all others need no judging."""
    if len(sequences) * (len(sequences) - 1) // 2 > PAIRS_OF_CLIENTS_MAX:
        return np.arange(members)
    marked = np.zeros(members, np.bool_)
    place = np.full(members, ABSENT, np.int64)
    for number, one in enumerate(sequences):
        place[:] = ABSENT
        place[one] = np.arange(len(one))
        for other in sequences[:number]:
            common = other[place[other] != ABSENT]
            there = place[common]
            overtaken = np.maximum.accumulate(there) > there
            overtaking = np.minimum.accumulate(there[::-1])[::-1] < there
            marked[common[overtaken | overtaking]] = True
    return np.flatnonzero(marked)
