"""What LoCaMu says of a message: who numbered it, which way it came, and what it depends on.

A message has no name that is valid everywhere. Each broker that forwards it gives it a number for each *target*, that
is for each broker nearby that takes part in routing it further; `(forwarder, target, number)` is an identifier (thesis
003, section 3.4). Different copies of one message may have passed different forwarders and so carry different
identifiers; one that they have in common shows that they are the same (3.5). A *safe path* makes sure that there is one
(3.6): of the 2f+1 brokers before the receiver at most f were passed over.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from holdfast.model.batches import Batch
from holdfast.model.relay_messages import Notice
from holdfast.protocols.neighbourhoods import Neighbourhood

Pair = tuple[str, str]
"""A forwarder and its target."""
Numbers = dict[Pair, int]
Marks = dict[str, dict[str, int]]
"""By forwarder: its number of the message for each of its targets."""


class Reaches(Struct, frozen=True):
    """How far things reach, in edges of the tree, when f brokers of any path of 2f+1 may be absent.

    With f = 1 these are the figures of the thesis. With more, `marks` and `safe` are larger than its f+1 and 2f+1: see
    docs/protocols/locamu.md, "How far identifiers must reach".
    """

    absent: int
    """f: how many brokers of a path may be passed over."""
    links: int
    """Everybody within this distance is connected."""
    marks: int
    """Everybody within this distance gets a number from a forwarder."""
    safe: int
    """Numbers of and for everybody within this distance are kept."""
    window: int
    """How many brokers before the receiver count for a safe path."""


def reaches(tolerance: int) -> Reaches:
    """What a tolerance of f needs."""
    f = tolerance
    return Reaches(f, f + 1, max(f + 1, 3 * f - 1), max(2 * f + 1, 3 * f), 2 * f + 1)


def reaches_of_the_thesis(tolerance: int) -> Reaches:
    """What the thesis says that it needs (3.2.1, 3.2.4)."""
    f = tolerance
    return Reaches(f, f + 1, f + 1, 2 * f + 1, 2 * f + 1)


class Copy(Struct):
    """One copy of a message on its way.

    `path` is the way that it came in the tree, the last forwarder at the end, those passed over included. `marks` are
    the numbers of the forwarders of this copy, `extra` those of others, learnt from other copies: they help to
    recognise the message. `past` is what the last forwarder had processed before: by pair, the highest number.
    """

    path: tuple[str, ...]
    marks: Marks
    past: Numbers
    extra: Marks = {}
    batch: Batch | None = None
    notice: Notice | None = None
    void: bool = False
    """Somebody on the way had processed what comes after it: it may be delivered to nobody any more."""
    borrowed: bool = False
    """Somebody else than its last forwarder has sent it, who may not have known all numbers on it."""

    @property
    def last(self) -> str:
        return self.path[-1]


class KeptCopy(Struct):
    """A message that was processed here and that somebody nearby may still lack."""

    serial: int
    """Its place in the order of processing."""
    path: tuple[str, ...]
    """The way to us in the tree, ourselves left out; empty if it was published here."""
    marks: Marks
    extra: Marks
    came: Numbers
    """The past with which it came."""
    past: Numbers
    """Our own past before it: what it depends on for whoever gets it from us."""
    own: dict[str, int]
    """Our own number of it for each of our targets."""
    batch: Batch | None
    notice: Notice | None
    void: bool
    borrowed: bool = False
    """Whether somebody passed it on to us as it had come: see `Copy`."""

    @property
    def last(self) -> str:
        """Whose copy it was that came."""
        return next((node for node in reversed(self.path) if node in self.marks), "")

    def numbers_for(self, target: str, own: str) -> Iterator[tuple[str, int]]:
        """Every number that is known of it for that target, ours included under the name `own`."""
        if target in self.own:
            yield own, self.own[target]
        for marks in (self.marks, self.extra):
            for node, numbers in marks.items():
                if target in numbers:
                    yield node, numbers[target]


def triples(*several: Marks) -> Iterator[tuple[str, str, int]]:
    """Every identifier in these marks."""
    for marks in several:
        for node, numbers in marks.items():
            for target, number in numbers.items():
                yield node, target, number


def is_safe(path: Iterable[str], marked: Iterable[str], reach: Reaches) -> bool:
    """Whether a copy that came along this path, marked by these, may be taken by whoever is next."""
    nodes, known = list(path)[-reach.window :], set(marked)
    return sum(node not in known for node in nodes) <= reach.absent


def leads_here(path: tuple[str, ...], near: Neighbourhood) -> bool:
    """Whether the path is the beginning of the way from its first broker to the one whose surroundings these are."""
    first = path[0]
    return first in near and first != near.name and (first, *near.between(first, near.name))[: len(path)] == path


def learn(past: Numbers, more: Numbers) -> None:
    """Raise what is lower."""
    for pair, number in more.items():
        if past.get(pair, 0) < number:
            past[pair] = number
