"""Messages that a subscriber has released and its application has not taken yet, and the position of its application.

Messages and gaps stand in the order of their release. Each has a sequence number of the repository that steered the
subscriber when it was released. When another repository steers, a message that was released before comes by once more,
under a number of that repository, and is passed over: as long as the application has not taken it, that number *holds*
the acknowledgement back. So a slow application acknowledges what it takes whichever repository the messages came from.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from holdfast.model.errors import LocalMisuse
from holdfast.model.reliable import Entry
from holdfast.protocols.narada.events import life_of
from holdfast.protocols.narada.participant import StreamGap

Life = tuple[str, int]


class Item(Struct):
    """Messages, or a gap, under a sequence number of the repository that steered when they were released."""

    first: int
    entry: Entry | None
    gap: StreamGap | None = None
    told: bool = False
    """Whether the application was told of the gap."""


class Hold(Struct):
    """Messages that lie under these numbers of the repository that steers, and were released before it did."""

    first: int
    publisher: str
    cat: int
    count: int


class UnconsumedMessages:
    """Items in the order of their release: those from the time of earlier repositories, then those of this one."""

    def __init__(self, name: str, out: Callable[[], Iterable[Entry]] = lambda: ()) -> None:
        self._name, self._out = name, out
        """`out` are messages of earlier repositories that the application has, and has to acknowledge."""
        self.bytes = 0
        self._earlier: deque[Item] = deque()
        self._items: deque[Item] = deque()
        self._holds: list[Hold] = []
        self._highest: dict[Life, int] = {}
        """By life: the highest number among the earlier ones."""

    def entries(self) -> Iterator[Entry]:
        """All messages, in order."""
        return _entries((*self._earlier, *self._items))

    # ------------------------------------------------------------------------------------------------------- releasing

    def add(self, entry: Entry) -> None:
        self.bytes += entry.batch.cost_bytes
        self._items.append(Item(entry.first, entry))

    def add_gap(self, first: int, gap: StreamGap) -> None:
        self._items.append(Item(first, None, gap))

    def begin(self) -> None:
        """Another repository steers: what lies here comes by once more, under its numbers."""
        self._earlier.extend(self._items)
        self._items.clear()
        self._holds, self._highest = [], {}
        for entry in (*_entries(self._earlier), *self._out()):
            who = (entry.publisher, life_of(entry.cat))
            self._highest[who] = max(self._highest.get(who, 0), entry.cat_last)

    def passed(self, publisher: str, cat: int, count: int, first: int) -> None:
        """Messages lie there that were released before: those that wait here hold the acknowledgement back."""
        if self._highest and cat <= self._highest.get((publisher, life_of(cat)), 0):
            self._holds.append(Hold(first, publisher, cat, count))

    # ---------------------------------------------------------------------------------------------------------- taking

    def take(self, entry: Entry) -> None:
        """The application has taken these: the next, or the first part of the next."""
        items = self._earlier or self._items
        before = items[0].entry if items else None
        if before is None or not _begins_with(before, entry):
            raise LocalMisuse(f"the application of {self._name} consumed what is not next of what was released to it.")
        items.popleft()
        self.bytes -= before.batch.cost_bytes
        if entry.count < before.count:
            rest = before.part(before.first + entry.count, before.last)
            items.appendleft(Item(rest.first, rest))
            self.bytes += rest.batch.cost_bytes
        self._drop_told()

    def take_one(self) -> tuple[Entry | StreamGap | None, bool]:
        """Take the next message, or gap, if there is one; and whether it came from an earlier repository."""
        earlier = bool(self._earlier)
        items = self._earlier or self._items
        if not items:
            return None, False
        item = items[0]
        if item.entry is None:
            self.tell_gap()
            return item.gap, earlier
        one = item.entry.part(item.entry.first, item.entry.first)
        self.take(one)
        return one, earlier

    @property
    def gap_is_next(self) -> bool:
        items = self._earlier or self._items
        return bool(items) and items[0].entry is None

    def tell_gap(self) -> None:
        """The application was told of the next gap."""
        item = next((one for one in (*self._earlier, *self._items) if one.gap is not None and not one.told), None)
        if item is None:
            raise LocalMisuse(f"the application of {self._name} was told of a gap that was not reported to it.")
        item.told = True
        self._drop_told()

    def _drop_told(self) -> None:
        while (items := self._earlier or self._items) and items[0].told:
            items.popleft()

    # ------------------------------------------------------------------------------------------------ acknowledgements

    @property
    def is_plain(self) -> bool:
        """Whether nothing is left of the time of earlier repositories, so that `upto` costs nothing."""
        return not self._earlier and not self._holds

    def upto(self, position: int) -> int:
        """Up to which number of the repository that steers everything was taken, or passed over.

        What was released earlier and not taken either lies at the position or above it, or is held.
        """
        upto = min(position, self._items[0].first) - 1 if self._items else position - 1
        if any(item.gap is not None for item in self._earlier):
            return 0  # No repository tells of it again: nothing is acknowledged before the application knows of it.
        if not self._holds:
            return upto
        lowest: dict[Life, int] = {}
        for entry in (*_entries(self._earlier), *self._out()):
            who = (entry.publisher, life_of(entry.cat))
            lowest[who] = min(lowest.get(who, entry.cat), entry.cat)
        holds, self._holds = self._holds, []
        for hold in holds:
            low = lowest.get((hold.publisher, life_of(hold.cat)))
            if low is not None and low < hold.cat + hold.count:
                self._holds.append(hold)
                upto = min(upto, hold.first + max(0, low - hold.cat) - 1)
        return upto


def _entries(items: Iterable[Item]) -> Iterator[Entry]:
    return (item.entry for item in items if item.entry is not None)


def _begins_with(entry: Entry, part: Entry) -> bool:
    return (entry.publisher, entry.cat) == (part.publisher, part.cat) and part.count <= entry.count
