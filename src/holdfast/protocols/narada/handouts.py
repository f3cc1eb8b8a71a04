"""Messages that an application has, or had, and has not acknowledged: which comes next, and which comes again.

Each message is in lanes: that of its publisher or, if asked, those of its keys. A message is *out* while the
application has it, and *waits* when it is to come again, or must not come yet. The rule: a message is handed out only
if no earlier message of one of its lanes waits. So when a message is given back (`nack`), those of its lanes that were
handed out after it come again too, behind it and in order, unless they are acknowledged before; those that were not
handed out yet stay behind it. Other lanes go on. A message without keys, where lanes are those of keys, is in none: it
comes again by itself.

Bound: `unacked_max` messages are out or wait. At the bound nothing new is handed out until something is acknowledged;
what waits still comes again.
"""

from bisect import insort
from collections.abc import Callable, Iterator

from msgspec import Struct

from holdfast.model.reliable import Entry
from holdfast.protocols.narada.events import Out

KNOWN_MAX = 2048
"""Of so many messages it is known how often earlier readers had them."""

Identity = tuple[str, int]
"""Publisher and catenation number."""


class Handout(Struct):
    """One message, by its place in the order of release."""

    index: int
    entry: Entry
    lanes: frozenset[str]
    earlier: bool
    """Whether its sequence number is one of a repository that steers no more."""
    count: int = 0
    """How often it was handed out, as far as is known."""
    waits: bool = True
    due_s: float = 0.0
    """Before this time it does not come again."""

    @property
    def identity(self) -> Identity:
        return self.entry.publisher, self.entry.cat


class Handouts:
    """What is out, and what waits."""

    def __init__(self, unacked_max: int, by_key: bool) -> None:
        self._unacked_max, self._by_key = unacked_max, by_key
        self._handouts: dict[Identity, Handout] = {}
        self._waiting: list[Handout] = []
        """In the order of release."""
        self._counts: dict[Identity, int] = {}
        """How often messages were handed out to earlier readers."""
        self._index = 0

    def __len__(self) -> int:
        return len(self._handouts)

    def __iter__(self) -> Iterator[Handout]:
        """In the order of release."""
        return iter(self._handouts.values())

    def get(self, identity: Identity) -> Handout | None:
        return self._handouts.get(identity)

    def know(self, out: Out) -> None:
        """These were handed out before, so often."""
        for publisher, first, last, count in out:
            for cat in range(first, min(last, first + self._unacked_max) + 1):
                if len(self._counts) < KNOWN_MAX:
                    self._counts[publisher, cat] = count

    def begin(self) -> None:
        """Another repository steers: sequence numbers mean nothing any more."""
        for handout in self._handouts.values():
            handout.earlier = True

    # ----------------------------------------------------------------------------------------------------- handing out

    @property
    def is_full(self) -> bool:
        return len(self._handouts) >= self._unacked_max

    def again(self, now: float) -> Handout | None:
        """What waits and comes next, if it is time."""
        blocked: set[str] = set()
        for handout in self._waiting:
            if handout.due_s <= now and blocked.isdisjoint(handout.lanes):
                self._waiting.remove(handout)
                return self._hand_out(handout)
            blocked |= handout.lanes
        return None

    def add(self, entry: Entry, earlier: bool) -> Handout | None:
        """The next new message: handed out, or `None` if it has to wait behind one that does."""
        self._index += 1
        keys = (key for keys in entry.batch.keys for key in keys)
        lanes = frozenset(keys if self._by_key else (entry.publisher,))
        handout = Handout(self._index, entry, lanes, earlier)
        handout.count = self._counts.pop(handout.identity, 0)
        self._handouts[handout.identity] = handout
        if any(not one.lanes.isdisjoint(lanes) for one in self._waiting):
            self._wait(handout)
            return None
        return self._hand_out(handout)

    def _hand_out(self, handout: Handout) -> Handout:
        handout.waits = False
        handout.count += 1
        return handout

    def due_s(self, now: float) -> float | None:
        """When something is to be looked at again that is not due yet."""
        return min((one.due_s for one in self._waiting if one.due_s > now), default=None)

    # -------------------------------------------------------------------------------------------------------- answers

    def ack(self, identity: Identity) -> Handout | None:
        """The application has done with it; `None` if that was known."""
        handout = self._handouts.pop(identity, None)
        if handout is not None and handout.waits:
            self._waiting.remove(handout)
        return handout

    def upto(self, identity: Identity) -> list[Identity]:
        """The message, and all that are out and came before it."""
        last = self._handouts.get(identity)
        if last is None:
            return []
        out = [one.identity for one in self if one.index < last.index and not one.waits]
        return [*out, identity]

    def nack(self, identity: Identity, count: int, due_s: float) -> bool:
        """It is to come again, with what came after it in its lanes; false if that is not for this handing out to say.

        1. m is handed out, and given back; it is handed out again, to another task, which works on it.
        2. The first task, late, gives m back once more. If that counted, the other one's work would be repeated.
        """
        handout = self._handouts.get(identity)
        if handout is None or handout.count != count:
            return False
        handout.due_s = max(handout.due_s, due_s)
        if handout.waits:
            return True
        self._wait(handout)
        blocked = set(handout.lanes)
        for later in self._handouts.values():
            if later.index > handout.index and not blocked.isdisjoint(later.lanes):
                blocked |= later.lanes
                if not later.waits:
                    self._wait(later)
        return True

    def _wait(self, handout: Handout) -> None:
        handout.waits = True
        insort(self._waiting, handout, key=lambda one: one.index)

    # ---------------------------------------------------------------------------------------------------------- telling

    def entries(self) -> list[Entry]:
        return [handout.entry for handout in self._handouts.values()]

    def earlier(self) -> list[Entry]:
        """Those whose sequence numbers are of a repository that steers no more."""
        return [handout.entry for handout in self._handouts.values() if handout.earlier]

    def lowest(self, otherwise: int) -> int:
        """The lowest sequence number of the repository that steers among them."""
        return min((one.entry.first for one in self if not one.earlier), default=otherwise)

    def out(self) -> Out:
        """Those that were handed out, and how often, as ranges of a publisher's numbers."""
        told = sorted(
            [(*one.identity, one.count) for one in self if one.count]
            # What earlier readers had and has not come by yet.
            + [(*identity, count) for identity, count in self._counts.items()]
        )
        found: list[tuple[str, int, int, int]] = []
        for publisher, cat, count in told:
            if found and (found[-1][0], found[-1][2] + 1, found[-1][3]) == (publisher, cat, count):
                found[-1] = (publisher, found[-1][1], cat, count)
            else:
                found.append((publisher, cat, cat, count))
        return tuple(found)


def next_of(handouts: Handouts, now: float, fresh: Callable[[], tuple[Entry, bool] | None]) -> Handout | None:
    """What comes next: something again, or the first new message that need not wait behind another one."""
    found = handouts.again(now)
    while found is None and not handouts.is_full:
        taken = fresh()
        if taken is None:
            return None
        found = handouts.add(*taken)
    return found
