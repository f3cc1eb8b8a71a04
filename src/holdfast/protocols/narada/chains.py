"""What a repository knows of one life of one publisher: which of its messages it has, and where they go.

Numbers count from 1. Up to `top` every number has a sequence number: its message is stored or about to be, or its place
is set aside, or it was given up. So a publisher's messages lie in the repository's order in their own order, whichever
of them came first (paper, 3.5).

Invariants: places are sorted and disjoint, at or below `top`, and nothing in them was taken.
"""

from bisect import insort

import msgspec
from msgspec import Struct

from holdfast.model.ranges import Range
from holdfast.protocols.narada.events import Run, catenation
from holdfast.protocols.trackers import RangeTracker

WINDOW = 4096
COPIES_MAX = 512


class Place(Struct, frozen=True, array_like=True, gc=False, order=True):
    """Sequence numbers set aside for messages that are missing."""

    number: int
    first: int
    count: int

    @property
    def last(self) -> int:
        return self.number + self.count - 1


class SavedChain(Struct, array_like=True):
    """A chain as it is kept in the store."""

    after: tuple[int, ...]
    top: int
    prefix: int
    ranges: list[Range]
    given: list[Range]
    places: list[Place]
    forgotten: int = 0
    expired: int | None = None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(SavedChain)


class Chain:
    """One life of one publisher."""

    def __init__(self, publisher: str, life: int, after: tuple[int, ...] = ()) -> None:
        self.publisher, self.life, self.after = publisher, life, after
        self.top = 0
        self.taken = RangeTracker(ranges_max=WINDOW)
        """What has been stored, or is about to be."""
        self.stored = RangeTracker(ranges_max=WINDOW)
        """What a commit has made safe."""
        self.settled = RangeTracker(ranges_max=WINDOW)
        """What is stored or was given up: the publisher need not keep it."""
        self.forgotten = 0
        """Everything up to this number was forgotten by retention, here or where we would have got it from."""
        self.expired = 0
        """Everything up to this number lay below what is kept here, and is gone with it."""
        self.given: list[Range] = []
        self.given_upto = 0
        self.places: list[Place] = []
        self.orders: dict[int, Run] = {}
        self.steering = ""
        self.low, self.high = 1, 0
        self.naks = 0
        self.ack_due = False
        self.said: tuple[int, ...] = ()
        self.copies: list[Range] = []
        """Number and sequence number of the last message of each run that some repository may lack."""
        self.everywhere: Range = (0, 0)
        """The last of what every repository had that was there, and the highest sequence number of all that."""

    def cat(self, number: int) -> int:
        return catenation(self.life, number)

    def missing(self) -> list[Range]:
        """Which numbers the publisher says that it gave, still keeps, and are not here."""
        if self.high < self.low:
            return []
        parts = self.taken.new_part(self.low, self.high)
        return [part for part in parts if not _within(part, self.given)]

    def taken_or_given(self) -> int:
        """Up to which number everything was taken or given up."""
        both = RangeTracker(ranges_max=WINDOW, start=self.taken.prefix)
        for first, last in (*self.taken.ranges(), *self.given):
            both.add(first, last)
        return both.prefix

    # --------------------------------------------------------------------------------------------------------- places

    def set_aside(self, number_last: int, first: int) -> Place:
        """Set the numbers above the top, up to that one, aside; `first` is the first sequence number for them."""
        place = Place(self.top + 1, first, number_last - self.top)
        self.top = number_last
        before = self.places[-1] if self.places else None
        if before is not None and before.last + 1 == place.number and before.first + before.count == first:
            self.places[-1] = Place(before.number, before.first, before.count + place.count)
        else:
            self.places.append(place)
        return place

    def cut_out(self, number_first: int, number_last: int) -> list[Place]:
        """Take what lies in first..last out of the places; what is left of them stays."""
        found: list[Place] = []
        left: list[Place] = []
        for place in self.places:
            low, high = max(place.number, number_first), min(place.last, number_last)
            if low > high:
                left.append(place)
                continue
            found.append(_part(place, low, high))
            if place.number < low:
                left.append(_part(place, place.number, low - 1))
            if high < place.last:
                left.append(_part(place, high + 1, place.last))
        if found:
            self.places = left
        return found

    def give_up(self, number_first: int, number_last: int) -> None:
        self.given.append((number_first, number_last))
        self.given_upto = max(self.given_upto, number_last)
        self.settled.add(number_first, number_last)
        for number in [
            one for one, run in self.orders.items() if one <= number_last and one + run.count > number_first
        ]:
            del self.orders[number]

    # --------------------------------------------------------------------------------------------------------- copies

    def stored_at(self, number_last: int, last: int) -> None:
        """A run that ends with that number is stored; it ends with that sequence number."""
        if not self.copies or number_last > self.copies[-1][0]:
            self.copies.append((number_last, last))
        else:
            insort(self.copies, (number_last, last))
        if len(self.copies) > COPIES_MAX:
            # Two runs become one: their copies count when both have as many.
            (_, one), (number, other) = self.copies[:2]
            self.copies[:2] = [(number, max(one, other))]

    def covered(self, cover: int) -> int:
        """Up to which number everything lies at or below that sequence number."""
        reached, highest = self.everywhere
        if highest > cover:
            return 0  # Somebody who came later.
        for number, last in self.copies:
            if last > cover:
                break
            reached = number
        return min(reached, self.settled.prefix)

    def forget_copies(self, cover: int) -> None:
        """Every repository that is there has what lies at or below that sequence number."""
        while self.copies and self.copies[0][1] <= cover:
            number, last = self.copies.pop(0)
            self.everywhere = (max(self.everywhere[0], number), max(self.everywhere[1], last))

    # -------------------------------------------------------------------------------------------------------- storing

    def save(self) -> bytes:
        taken, gone = (self.taken.prefix, self.taken.ranges()), (self.forgotten, self.expired)
        return _encoder.encode(SavedChain(self.after, self.top, *taken, self.given, self.places, *gone))

    @classmethod
    def restored(cls, publisher: str, life: int, value: bytes) -> "Chain":
        saved = _decoder.decode(value)
        chain = cls(publisher, life, saved.after)
        chain.top, chain.places, chain.given = saved.top, saved.places, saved.given
        chain.given_upto = max((last for _, last in saved.given), default=0)
        chain.forgotten = saved.forgotten
        chain.expired = saved.forgotten if saved.expired is None else saved.expired
        for tracker in (chain.taken, chain.stored, chain.settled):
            for first, last in [(1, saved.prefix)] * bool(saved.prefix) + saved.ranges:
                tracker.add(first, last)
        for first, last in saved.given:
            chain.settled.add(first, last)
        return chain

    def check(self) -> None:
        who = f"{self.publisher} in its life {self.life}"
        for before, after in zip(self.places, self.places[1:], strict=False):
            assert before.last < after.number, f"places of {who} are out of order: {self.places}"
            assert before.first + before.count <= after.first, f"places of {who} run backwards: {self.places}"
        for place in self.places:
            assert place.last <= self.top, f"{who} has a place above its top: {place}"
            assert self.taken.new_part(place.number, place.last) == [(place.number, place.last)], (
                f"a place of {who} is set aside and taken: {place}"
            )
        assert self.taken.highest <= self.top, f"{who} has {self.taken} above its top {self.top}"
        assert self.stored.prefix <= self.taken.prefix, f"{who} has stored what it did not take"


def _part(place: Place, low: int, high: int) -> Place:
    return Place(low, place.first + low - place.number, high - low + 1)


def _within(part: Range, ranges: list[Range]) -> bool:
    return any(first <= part[0] and part[1] <= last for first, last in ranges)
