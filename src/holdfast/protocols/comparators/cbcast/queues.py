"""What has come from other members and waits for what it depends on.

A sender's casts are delivered in its own order. The next one of a sender may go when everything in its clock that
concerns a group of ours has been delivered here; if not, it is found again as soon as the one entry changes that it was
seen to wait for.
"""

from bisect import insort
from collections import deque
from collections.abc import Callable

from holdfast.model.direct_messages import Cast
from holdfast.model.messages import Confirm, SessionMessage
from holdfast.protocols.comparators.cbcast.clocks import Entry, GroupClocks
from holdfast.protocols.links import Link


class CastArrival:
    """A cast, or a question behind one, that came from a member; `link` is to be granted credit for it."""

    __slots__ = ("arrived", "cast", "confirm", "entries", "link")

    def __init__(
        self,
        cast: Cast | None,
        entries: list[Entry],
        confirm: Confirm | None = None,
        link: Link | None = None,
        arrived: SessionMessage | None = None,
    ) -> None:
        self.cast, self.entries, self.confirm, self.link, self.arrived = cast, entries, confirm, link, arrived

    @property
    def serial(self) -> int:
        return self.cast.serial if self.cast is not None else 0


class Arrivals:
    """The queues of all senders. `deliver` is called with the sender and whatever may go, in causal order."""

    def __init__(
        self,
        clocks: GroupClocks,
        ours: Callable[[str], bool],
        deliver: Callable[[str, CastArrival], None],
    ) -> None:
        self.clocks, self._ours, self._deliver = clocks, ours, deliver
        self.places: dict[str, int] = {}
        """Each member's place in the view."""
        self._queues: dict[str, deque[CastArrival]] = {}
        self._blocked: dict[tuple[str, int], set[str]] = {}

    def add(self, sender: str, arrival: CastArrival) -> None:
        """Behind everything that came from the sender before."""
        queue = self._queues.setdefault(sender, deque())
        queue.append(arrival)
        if len(queue) == 1:
            self._run([sender])

    def insert(self, sender: str, arrival: CastArrival) -> None:
        """Where the number of the cast says: copies come by many ways."""
        queue = list(self._queues.get(sender, ()))
        insort(queue, arrival, key=lambda one: one.serial)
        self._queues[sender] = deque(queue)
        self._run([sender])

    def forget_questions(self, sender: str) -> None:
        """The sender is dead: nobody waits for an answer, and its casts stand by their numbers."""
        queue = self._queues.get(sender)
        if queue is not None:
            self._queues[sender] = deque(one for one in queue if one.cast is not None)
            self._run([sender])

    def _run(self, senders: list[str]) -> None:
        """Deliver what may go, from these senders and from whoever waits for that."""
        ready = deque(senders)
        while ready:
            sender = ready.popleft()
            queue = self._queues.get(sender)
            while queue:
                obstacle = self._obstacle(sender, queue[0])
                if obstacle is not None:
                    self._blocked.setdefault(obstacle, set()).add(sender)
                    break
                arrival = queue.popleft()
                ready.extend(self._count(arrival))
                self._deliver(sender, arrival)

    def _obstacle(self, sender: str, arrival: CastArrival) -> tuple[str, int] | None:
        """The first entry that has to change before this one may go."""
        cast = arrival.cast
        if cast is None:
            return None
        own, topic, counts = self.places[sender], cast.batch.topic, self.clocks.counts
        for group, place, count in arrival.entries:
            missing = count - counts.get((group, place), 0)
            if missing <= 0:
                continue
            if group == topic and place == own:
                missing -= 1
            if missing > 0 and self._ours(group):
                return group, place
        return None

    def _count(self, arrival: CastArrival) -> list[str]:
        """The clocks after a delivery, and whom that may let go."""
        freed: set[str] = set()
        clocks, counts, blocked = self.clocks, self.clocks.counts, self._blocked
        for group, place, count in arrival.entries:
            if count > counts.get((group, place), 0):
                clocks.advance(group, place, count)
                if blocked:
                    freed |= blocked.pop((group, place), set())
        return sorted(freed)

    def force(self) -> int:
        """Deliver all that is left, in causal order, past what died with its senders; how many had to be forced.

        Everything that can come has come. What something still waits for, nobody alive has ever seen.
        """
        forced = 0
        while True:
            heads = {sender: queue[0] for sender, queue in self._queues.items() if queue}
            if not heads:
                return forced
            sender = next(name for name in sorted(heads) if not self._any_before(heads[name], heads))
            for group, place, count in heads[sender].entries:
                own = place == self.places[sender] and group == _topic(heads[sender])
                self.clocks.advance(group, place, count - 1 if own else count)
            forced += 1
            self._blocked.clear()
            self._run(sorted(heads))

    def _any_before(self, arrival: CastArrival, heads: dict[str, CastArrival]) -> bool:
        """Whether the first that waits of some sender is before this one. If none is, nothing that waits is."""
        counts = {(group, place): count for group, place, count in arrival.entries}
        for sender, other in heads.items():
            if other is arrival:
                continue
            place, topic = self.places[sender], _topic(other)
            own = next((count for group, at, count in other.entries if (group, at) == (topic, place)), 0)
            if counts.get((topic, place), 0) >= own > 0:
                return True
        return False

    def waiting(self) -> dict[str, int]:
        """How many casts of each sender wait."""
        return {sender: len(queue) for sender, queue in sorted(self._queues.items()) if queue}

    def all(self) -> list[CastArrival]:
        return [arrival for queue in self._queues.values() for arrival in queue]

    def __bool__(self) -> bool:
        return any(self._queues.values())


def _topic(arrival: CastArrival) -> str:
    return arrival.cast.batch.topic if arrival.cast is not None else ""
