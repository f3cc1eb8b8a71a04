"""Agreement on every message, for the comparator `sesdad-agreement`: one order of all publications of a site.

A broker that is chosen for a publication hands it to the designated one, which gives it a place (`Assignment`) as it
changes the routing table (`designation`): the next state is proposed when f others have the last one in force. An
`Assignment` needs no first round, since it counts from no number of a stream: the place is the order. What waits
meanwhile goes together.

    chosen broker --Replicate--> designated --Assignment--> all others --Agreed--> designated (and each other, if f > 1)

A broker processes what has a place, in that order, as soon as f others have it, too. So a majority stands behind every
place, and the next designated broker hears of it from one of the f others that yield to it.
"""

from collections import deque
from collections.abc import Callable, Iterable

from holdfast.model.messages import SessionMessage
from holdfast.model.site_messages import Assignment, Change, Establish, Mark, PlacedUnit, StateRequest
from holdfast.protocols.sesdad.designation import EPOCH_BITS, Designation
from holdfast.protocols.sesdad.sites import Site
from holdfast.protocols.sesdad.streams import Unit
from holdfast.protocols.sesdad.traffic import Key, Traffic

UNITS_MAX = 256
PLACE_BYTES_MAX = 1 << 18
"""So much gets a place at a time, or a single publication that is larger."""
WAITING_MAX = 65_536
"""So many places may wait until they are confirmed; beyond that none is taken, and all are asked for again."""


class Places:
    """The one order of a site's publications, as one of its brokers has it."""

    def __init__(self, name: str, traffic: Traffic) -> None:
        self._name, self._traffic = name, traffic
        self._queue: deque[Mark] = deque()
        """What has a place and is not processed: source, publisher and last number."""
        self._last: dict[Key, int] = {}
        """The last number of each stream that has a place; what was processed had one."""
        self._fresh: dict[Key, None] = {}
        """Streams that may have something without a place."""

    # -------------------------------------------------------------------------------------------- at the designated one

    def note(self, key: Key) -> None:
        """Something of that stream has come."""
        self._fresh[key] = None

    def note_all(self) -> None:
        """We are designated from now on: whatever came here without a place needs one."""
        self._fresh = dict.fromkeys(self._traffic.streams)

    def next_units(self) -> tuple[PlacedUnit, ...]:
        """What gets a place next: of each stream what is here without a gap, in the order in which it was noted."""
        found: list[PlacedUnit] = []
        size_bytes = 0
        while self._fresh:
            key = next(iter(self._fresh))
            for unit in self._unplaced(key):
                size_bytes += unit.batch.cost_bytes
                if found and (len(found) == UNITS_MAX or size_bytes > PLACE_BYTES_MAX):
                    return tuple(found)
                found.append(PlacedUnit(key[0], unit.number, unit.chosen, unit.batch))
                self._last[key] = unit.last
            del self._fresh[key]
        return tuple(found)

    def _unplaced(self, key: Key) -> Iterable[Unit]:
        units = self._traffic.stream(*key).units
        while (unit := units.get(self._placed(key) + 1)) is not None:
            yield unit

    def _placed(self, key: Key) -> int:
        return max(self._last.get(key, 0), self._traffic.stream(*key).next - 1)

    # ---------------------------------------------------------------------------------------------------- at every one

    def unplaced(self) -> list[tuple[str, Unit]]:
        """What has no place as far as we know, with its source."""
        return [
            (key[0], unit)
            for key, stream in self._traffic.streams.items()
            for _, unit in sorted(stream.units.items())
            if unit.number > self._placed(key)
        ]

    def take(self, units: Iterable[PlacedUnit], promised: int) -> bool:
        """Keep what has a place now; whether all of it is here."""
        complete = True
        for one in units:
            stream = self._traffic.stream(one.source, one.batch.publisher)
            stream.add(Unit(one.number, one.batch, one.chosen, {self._name: promised}))
            known = stream.units.get(one.number)
            if known is not None and one.number >= stream.next:
                known.chosen = one.chosen
            complete = complete and (known is not None or one.number < stream.next)
        return complete and len(self._queue) < WAITING_MAX

    def put(self, units: Iterable[PlacedUnit]) -> None:
        """These places are in force."""
        for one in units:
            key, last = (one.source, one.batch.publisher), one.number + one.batch.count - 1
            self._queue.append((*key, last))
            self._last[key] = max(last, self._last.get(key, 0))

    def entries(self) -> tuple[Mark, ...]:
        return tuple(self._queue)

    def replace(self, entries: Iterable[Mark]) -> None:
        """Another broker's later state is in force: what it knows has a place, and nothing else."""
        self._queue = deque(entries)
        self._last = {(source, publisher): last for source, publisher, last in self._queue}

    def advance(self) -> list[Key]:
        """Process everything that has a place here, in order; which streams that were."""
        found: dict[Key, None] = {}
        while self._queue:
            source, publisher, last = self._queue[0]
            stream = self._traffic.stream(source, publisher)
            if stream.next > last:
                self._queue.popleft()
                continue
            unit = stream.units.get(stream.next)
            if unit is None:
                break  # A state was told without what it needs, which is on its way: it is asked for like all else.
            self._traffic.process(stream, unit)
            found[source, publisher] = None
        return list(found)

    def waiting_for(self) -> list[str]:
        return [f"f others to have the place of {publisher} up to {last}" for _, publisher, last in self._queue]


class Agreement(Designation):
    """The designated broker of a site that agrees on every message. `put` keeps and puts places in force."""

    def __init__(
        self,
        name: str,
        site: Site,
        tell: Callable[[str, SessionMessage], None],
        tell_all: Callable[[SessionMessage], None],
        marks: Callable[[], tuple[Mark, ...]],
        apply: Callable[[Establish], None],
        send_state: Callable[[str], None],
        expand: Callable[[Change], list[Change]],
        begin: Callable[[], None],
        places: Places,
    ) -> None:
        super().__init__(name, site, tell, tell_all, marks, apply, send_state, expand, begin)
        self._places = places

    def advance(self) -> None:
        """Propose changes of the routing table, if some wait; else give places to what waits for one."""
        super().advance()
        if not self.leading or self._proposed is not None or self._queue or not self.confirmed:
            return
        units = self._places.next_units()
        if units:
            self._count += 1
            version = self.epoch << EPOCH_BITS | self._count
            self._tell_all(Assignment(version, self.established, units))
            self._places.put(units)
            self.in_force(version)

    def on_assignment(self, member: str, message: Assignment) -> bool:
        """Whether that state is in force here now."""
        epoch = message.version >> EPOCH_BITS
        if epoch < self.epoch or message.version <= self.established:
            return False
        if epoch > self.epoch:
            self._follow(epoch)
        if message.previous != self.established or not self._places.take(message.units, self.promised):
            self._tell(member, StateRequest())
            return False
        self._places.put(message.units)
        self.in_force(message.version)
        return True
