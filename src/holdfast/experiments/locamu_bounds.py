"""Figure 5.4 of the LoCaMu thesis: the most that a header, and a broker's memory, can come to.

LoCaMu's figures are counted on a tree, by the very classes that number and write headers; those of the others follow
from what they have to say (003, section 5.6). An identifier and a number are four bytes each.
"""

from functools import cache
from math import ceil

from holdfast.experiments.locamu_worlds import complete_tree
from holdfast.experiments.scales import GINGER_BYTES
from holdfast.protocols.locamu.copies import Copy, Numbers, reaches
from holdfast.protocols.locamu.headers import ID_BYTES, NUMBER_BYTES, Encoder, LinkTerms, thesis_identifier_bytes
from holdfast.protocols.neighbourhoods import Neighbourhood, children_of, edges_around

GROUPS = 1500
SIZES = (64, 256, 1024, 4096, 16_384, 65_536)
TOLERANCES = (1, 2, 3)
DEGREES = (3, 4, 5, 6)
"""Neighbours of a broker, its parent included."""
DEEP_BROKERS_MAX = 1 << 14
"""A tree of so many brokers has one in the middle whose surroundings are as full as they can be."""
ENTRY_BYTES = ID_BYTES + NUMBER_BYTES
GINGER_NUMBERS = 6
"""What a Ginger broker with a tolerance of 1 counts on a link: positions and levels, in both directions."""


def group_sizes(brokers: int) -> list[int]:
    """The thesis' groups: Zipf-like, the first with everybody (5.6; of 65,536 brokers they have 260,518 members)."""
    return [min(brokers, ceil(brokers * number**-1.25 + 0.5)) for number in range(1, GROUPS + 1)]


class LocamuBound:
    """What LoCaMu can come to at a broker in the middle of a tree."""

    def __init__(self, tolerance: int, fan_out: int) -> None:
        reach = reaches(tolerance)
        depth = 1
        while fan_out**depth < DEEP_BROKERS_MAX and depth < 2 * reach.safe + 1:
            depth += 1
        tree = complete_tree((fan_out ** (depth + 1) - 1) // (fan_out - 1), fan_out)
        children = children_of(tree)
        middle = "0"
        for _ in range(depth // 2):
            middle = children[middle][0]
        near = Neighbourhood(middle, edges_around(tree, children, middle, reach.safe))
        self.terms = terms = LinkTerms(near, middle, children[middle][0], reach)
        self.pairs = sum(
            near.distance(one, other) <= reach.marks for one in near.paths(middle) for other in near.paths(middle)
        ) - len(near.paths(middle))
        self.numberers = len(near.within(reach.marks))
        path = [middle]
        while len(path) < reach.safe and (above := tree[path[-1]]) in terms.index:
            path.append(above)
        self.path = tuple(reversed(path))
        marks = {node: dict.fromkeys(terms.candidates(node, ""), 1) for node in path if node}
        self.header_bytes = NUMBER_BYTES * len(terms.pairs) + thesis_identifier_bytes(marks, {})

    def wire_bytes(self, number: int) -> tuple[int, int]:
        """What headers with all pairs come to on our wire: the first of a session, with such numbers, and the next one.

        In the first, earlier forwarders are as far again ahead of the past. In the next, all pairs have changed by one,
        and all marks are the next ones.
        """
        encoder = Encoder(self.terms, self.path[-1])
        first = self._whole(dict.fromkeys(self.terms.pairs, number), number)
        size = encoder.encode(first)[1].wire_bytes
        raised = {pair: first.marks.get(pair[0], {}).get(pair[1], number) + 1 for pair in self.terms.pairs}
        return size, encoder.encode(self._whole(raised, 1))[1].wire_bytes

    def _whole(self, past: Numbers, ahead: int) -> Copy:
        """A copy that everybody on the way has numbered for everybody; the last forwarder gives its next numbers."""
        marks = {
            node: {
                target: past[node, target] + (ahead if node != self.path[-1] else 1)
                for target in self.terms.candidates(node, before)
            }
            for before, node in zip(("", *self.path), self.path, strict=False)
        }
        return Copy(self.path, marks, past)

    @property
    def memory_bytes(self) -> int:
        """The past, and what was seen of everybody who numbers for us."""
        return NUMBER_BYTES * (self.pairs + self.numberers)


@cache
def locamu_bound(tolerance: int, fan_out: int) -> LocamuBound:
    """The same, counted once."""
    return LocamuBound(tolerance, fan_out)


def header_bytes(protocol: str, brokers: int, bound: LocamuBound) -> int:
    """The largest header."""
    if protocol == "locamu":
        return bound.header_bytes
    if protocol == "cbcast":
        return sum(ID_BYTES + NUMBER_BYTES * size for size in group_sizes(brokers))
    if protocol == "barriers":
        return ENTRY_BYTES * (brokers + brokers * brokers)
    return GINGER_BYTES


def memory_bytes(protocol: str, brokers: int, degree: int, bound: LocamuBound) -> int:
    """What the largest of brokers has to remember to keep messages in order."""
    if protocol == "locamu":
        return bound.memory_bytes
    if protocol == "cbcast":
        return sum(NUMBER_BYTES * size for size in group_sizes(brokers))
    if protocol == "barriers":
        return (ENTRY_BYTES + NUMBER_BYTES) * brokers * brokers
    return NUMBER_BYTES * GINGER_NUMBERS * degree
