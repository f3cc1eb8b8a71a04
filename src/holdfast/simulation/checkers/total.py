"""Total: is everything that shares a key with a total message on the same side of it everywhere?

Messages are judged by (topic, key). First a quick test: what each client delivered becomes edges, from a total message
to what follows it and from what precedes it, as far as the next total message. If there is no cycle there is one order
that all clients agree with. If there is one, clients may still agree on every pair (they need not have delivered the
same messages), so then the pairs are judged, many at a time: sets of messages are the bits of integers.
"""

from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from holdfast.model.guarantees import TOTAL
from holdfast.model.verdicts import wrong_side
from holdfast.simulation.checkers.history import ClientHistory, Publication, RunHistory
from holdfast.simulation.checkers.verdict import VerdictTally

Sequences = dict[ClientHistory, list[Publication]]
"""What each client delivered of one (topic, key), clients in order of their names."""

CHECKPOINT_EVERY = 64


def judge_total(run: RunHistory, tally: VerdictTally) -> None:
    """Count the deliveries of total messages on the wrong side of another. `judge_deliveries` has been here before."""
    counted: set[tuple[Publication, ClientHistory]] = set()
    for (_, key), sequences in _by_key(run).items():
        if len(sequences) < 2 or _one_order_fits(sequences):
            continue
        for total, client, other, rightful in _wrong_sides(sequences):
            if (total, client) not in counted:
                counted.add((total, client))
                tally.add("total", _wrong_side, total, client, other, rightful, key)


def _by_key(run: RunHistory) -> dict[tuple[str, str], Sequences]:
    contested = {
        (publication.topic, key)
        for publication in run.publications.values()
        if publication.rank == TOTAL
        for key in publication.keys
    }
    groups: dict[tuple[str, str], Sequences] = {group: {} for group in sorted(contested)}
    for client in run.clients.values():
        for publication in client.arrived:
            if publication.rank < TOTAL and (publication.publisher, publication.seq) in run.crossed:
                continue
            for key in publication.keys:
                if (publication.topic, key) in contested:
                    groups[publication.topic, key].setdefault(client, []).append(publication)
    return groups


def _one_order_fits(sequences: Sequences) -> bool:
    before: defaultdict[int, set[int]] = defaultdict(set)
    for sequence in sequences.values():
        last_total: set[int] = set()
        since: set[int] = set()
        for publication in sequence:
            number = publication.number
            before[number] |= last_total
            if publication.rank == TOTAL:
                before[number] |= since
                last_total, since = {number}, set()
            else:
                since.add(number)
    try:
        TopologicalSorter(before).prepare()
    except CycleError:
        return False
    return True


def _wrong_sides(sequences: Sequences) -> Iterator[tuple[Publication, ClientHistory, Publication, ClientHistory]]:
    """Every total message and client whose order of it and another message is not the right one, which is elsewhere."""
    members = sorted({one for sequence in sequences.values() for one in sequence}, key=lambda one: one.number)
    bits = {publication: bit for bit, publication in enumerate(members)}
    views = {client: _View(sequence, bits) for client, sequence in sequences.items()}
    weaker = sum(1 << bit for bit, publication in enumerate(members) if publication.rank < TOTAL)
    for bit, total in enumerate(members):
        if total.rank < TOTAL:
            continue
        # Of two totals the larger is counted, so the larger looks at the smaller alone.
        judged = weaker | ((1 << bit) - 1)
        sides = {client: view.sides_of(total, judged) for client, view in views.items() if total in view.positions}
        rightful_before = _rightful(list(sides.values()))
        for client, (before, after) in sides.items():
            wrong = (before & ~rightful_before) | (after & rightful_before)
            if wrong:
                other = _lowest(wrong)
                yield total, client, members[other], _holder(sides, other, bool(rightful_before >> other & 1))


class _View:
    """One client's sequence, with the set of messages before any position at hand."""

    def __init__(self, sequence: list[Publication], bits: dict[Publication, int]) -> None:
        self.positions = {publication: position for position, publication in enumerate(sequence)}
        self._bits = [bits[publication] for publication in sequence]
        # Sets of all prefixes would take memory by the square of the length: some are kept, the others made from them.
        self._checkpoints = [0]
        for start in range(0, len(sequence), CHECKPOINT_EVERY):
            self._checkpoints.append(self._checkpoints[-1] | _bit_set(self._bits[start : start + CHECKPOINT_EVERY]))
        self._all = self._checkpoints[-1]

    def sides_of(self, total: Publication, judged: int) -> tuple[int, int]:
        """What of `judged` this client delivered before `total`, and what after it."""
        position = self.positions[total]
        checkpoint = position // CHECKPOINT_EVERY
        rest = self._bits[checkpoint * CHECKPOINT_EVERY : position]
        before = self._checkpoints[checkpoint] | _bit_set(rest)
        return before & judged, self._all & ~before & judged


def _rightful(sides: list[tuple[int, int]]) -> int:
    """What belongs before: what the majority has there or, of what has none, the first that has it at all."""
    ever_before = ever_after = 0
    for before, after in sides:
        ever_before |= before
        ever_after |= after
    disputed = ever_before & ever_after
    if not disputed:
        return ever_before
    befores: list[int] = []
    afters: list[int] = []
    first_before = 0
    for before, after in reversed(sides):
        _count(befores, before & disputed)
        _count(afters, after & disputed)
        first_before = (first_before & ~after) | before
    more, equal = _compared(befores, afters, disputed)
    return (ever_before & ~disputed) | more | (equal & first_before)


def _count(planes: list[int], bits: int) -> None:
    """Add one to the counters of these bits. Plane i holds binary digit i of the counters of all bits."""
    for digit, plane in enumerate(planes):
        planes[digit], bits = plane ^ bits, plane & bits
        if not bits:
            return
    if bits:
        planes.append(bits)


def _compared(left: list[int], right: list[int], bits: int) -> tuple[int, int]:
    """The bits whose counter is higher in `left`, and those for which both are equal."""
    higher, equal = 0, bits
    for digit in reversed(range(max(len(left), len(right)))):
        ours = left[digit] if digit < len(left) else 0
        theirs = right[digit] if digit < len(right) else 0
        higher |= equal & ours & ~theirs
        equal &= ~(ours ^ theirs)
    return higher, equal


def _bit_set(bits: list[int]) -> int:
    result = 0
    for bit in bits:
        result |= 1 << bit
    return result


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _holder(sides: dict[ClientHistory, tuple[int, int]], other: int, before: bool) -> ClientHistory:
    """The first client that has the other message on that side."""
    return next(client for client, (ahead, behind) in sides.items() if (ahead if before else behind) >> other & 1)


# ------------------------------------------------------------------------------------------------------- sentences


def _wrong_side(
    total: Publication, client: ClientHistory, other: Publication, rightful: ClientHistory, key: str
) -> str:
    first, second = (other, total) if rightful.arrived.index(other) < rightful.arrived.index(total) else (total, other)
    return wrong_side(client.name, str(first), str(second), rightful.name, total.event, key)
