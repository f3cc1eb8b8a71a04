"""Streams as a site receives them: units held back until their turn, and what is known of the others that hold them.

A unit is a batch with the numbers that it has on its hop. Units may come out of order, from the broker that was chosen
for each; they are processed in order, and only when f other brokers of the site surely hold them, too.

A unit counts for a state of the routing table if each of the f + 1 brokers held it before it promised any later state.
1. Brokers a and b hold number 7 of a stream when they process it under state 3.
2. The designated broker proposes state 4, and hears from f + 1 brokers up to which number each has anything.
3. a or b is one of them: state 4 counts from number 8 on. Nobody has processed a number that a later state counts for.
"""

from msgspec import Struct

from holdfast.model.batches import Batch
from holdfast.model.site_messages import Pending
from holdfast.protocols.sesdad.retransmission import InVain

UNITS_AHEAD_MAX = 65_536
"""Units of one stream that wait for earlier ones; beyond that they are not taken, and come again."""


class Unit(Struct):
    """A batch under the numbers of its hop."""

    number: int
    batch: Batch
    chosen: str
    """The broker of this site that the sender has chosen."""
    holders: dict[str, int]
    """The brokers of the site that have it, ourselves included, each with the last state that it had promised then."""

    @property
    def last(self) -> int:
        return self.number + self.batch.count - 1


class Stream:
    """What has come of one publisher from one source."""

    __slots__ = (
        "_promises",
        "gap_since",
        "in_vain",
        "known",
        "last_seq",
        "marks",
        "next",
        "pending",
        "prefix",
        "publisher",
        "source",
        "units",
    )

    def __init__(self, source: str, publisher: str) -> None:
        self.source, self.publisher = source, publisher
        self.next = 1
        """The number that is processed next."""
        self.prefix = 0
        """Everything up to this number has come."""
        self.last_seq = 0
        """The publisher's own number of the last message that was processed."""
        self.units: dict[int, Unit] = {}
        """By first number: what has not been processed, or some broker of the site may lack."""
        self.pending: list[Pending] = []
        """Changes that count from a number on which is not processed yet, and beginnings that are not confirmed yet."""
        self.marks: dict[str, int] = {}
        """Up to which number each other broker of the site has said to have everything."""
        self._promises: dict[str, int] = {}
        """The last state that it had promised when it said so."""
        self.known = 0
        """The highest number that anybody has spoken of."""
        self.in_vain = InVain()
        """How often what is missing next was asked for."""
        self.gap_since: float | None = None
        """Since when something is known to be missing."""

    @property
    def highest(self) -> int:
        """The highest number that has come."""
        return max(self.prefix, max((unit.last for unit in self.units.values()), default=0))

    @property
    def has_gap(self) -> bool:
        return self.prefix < self.known

    def add(self, unit: Unit) -> bool:
        """Whether that is new."""
        self.known = max(self.known, unit.last)
        if unit.number <= self.prefix or unit.number in self.units:
            return False
        if len(self.units) >= UNITS_AHEAD_MAX and unit.number != self.prefix + 1:
            return False
        self.units[unit.number] = unit
        for member, number in self.marks.items():
            if unit.last <= number:
                unit.holders.setdefault(member, self._promises[member])
        self._grow()
        return True

    def _grow(self) -> None:
        while (following := self.units.get(self.prefix + 1)) is not None:
            self.prefix = following.last

    def begin_behind(self, number: int) -> None:
        """Everything up to that number was processed, here or by others."""
        if number >= self.next:
            self.next = number + 1
            self.prefix = max(self.prefix, number)
            self.known = max(self.known, number)
            self._grow()
            self.trim()

    @property
    def beginning(self) -> int:
        """The number behind which this stream goes on, or will when the state in force is confirmed."""
        return max((one.cut - 1 for one in self.pending if one.change.what == "b"), default=self.next - 1)

    def begin(self) -> bool:
        """Begin where the changes that wait for it say; whether there were any. The state in force is confirmed."""
        beginnings = [one for one in self.pending if one.change.what == "b"]
        if beginnings:
            self.pending = [one for one in self.pending if one.change.what != "b"]
            self.begin_behind(max(one.cut for one in beginnings) - 1)
        return bool(beginnings)

    def missing(self) -> tuple[int, int] | None:
        """The first numbers that are missing, as far as is known."""
        if not self.has_gap:
            return None
        following = min((number for number in self.units if number > self.prefix), default=self.known + 1)
        return self.prefix + 1, following - 1

    def is_held_by_others(self) -> bool:
        """Whether another broker of the site has what is missing here next."""
        return any(number > self.prefix for number in self.marks.values())

    def note_mark(self, member: str, number: int, promised: int) -> None:
        """Another broker of the site has everything up to that number."""
        self.known = max(self.known, number)
        if number > self.marks.get(member, 0):
            self.marks[member], self._promises[member] = number, promised
        for unit in self.units.values():
            if unit.last <= number:
                unit.holders.setdefault(member, promised)

    def ready(self, losses_max: int, name: str, established: int) -> Unit | None:
        """The next unit, if f others surely hold it, and no state counts for it that is not in force here."""
        unit = self.units.get(self.next)
        if unit is None or unit.holders.get(name, established + 1) > established:
            return None
        sure = sum(version <= established for member, version in unit.holders.items() if member != name)
        return unit if sure >= losses_max else None

    def processed(self, unit: Unit) -> None:
        self.next = unit.last + 1
        self.last_seq = max(self.last_seq, unit.batch.last)
        if self.pending:
            self.pending = [one for one in self.pending if one.cut > self.next]

    def trim(self, members: list[str] | None = None) -> None:
        """Forget units that were processed and that these brokers of the site, which are there, all have."""
        if members is None:
            members = list(self.marks)
        held = min((self.marks.get(member, 0) for member in members), default=self.next - 1)
        for number in [number for number, unit in self.units.items() if unit.last <= held and number < self.next]:
            del self.units[number]
