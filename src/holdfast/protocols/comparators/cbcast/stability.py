"""What has arrived where: when a broker's own casts are stable, and which casts of others it must keep until then."""

from bisect import insort
from collections import deque
from collections.abc import Iterable

from holdfast.model.direct_messages import Cast
from holdfast.protocols.comparators.cbcast.clocks import Entry


class CastOutbox:
    """What this broker sent to others and is not known to have arrived, by the numbers of the links."""

    def __init__(self) -> None:
        self._open: dict[int, set[str]] = {}
        """By ticket, who may lack it."""
        self._sent: dict[str, deque[tuple[int, int]]] = {}
        """By receiver, the link's number and the ticket of each message."""
        self._tickets = 0

    def begin(self, receivers: Iterable[str]) -> int:
        """A message goes to these; its ticket."""
        self._tickets += 1
        awaiting = set(receivers)
        if awaiting:
            self._open[self._tickets] = awaiting
        return self._tickets

    def sent(self, ticket: int, receiver: str, number: int) -> None:
        """It went to that receiver under that number of the link."""
        if receiver in self._open.get(ticket, ()):
            self._sent.setdefault(receiver, deque()).append((number, ticket))

    def arrived(self, receiver: str, number: int) -> bool:
        """The receiver has everything up to that number; whether something is on its way no longer."""
        waiting = self._sent.get(receiver)
        done = False
        while waiting and waiting[0][0] <= number:
            done = self._have(receiver, waiting.popleft()[1]) or done
        return done

    def drop(self, receiver: str) -> None:
        """Nothing has to arrive there any more."""
        self._sent.pop(receiver, None)
        for ticket in [ticket for ticket, awaiting in self._open.items() if receiver in awaiting]:
            self._have(receiver, ticket)

    def _have(self, receiver: str, ticket: int) -> bool:
        awaiting = self._open.get(ticket)
        if awaiting is None:
            return False
        awaiting.discard(receiver)
        if not awaiting:
            del self._open[ticket]
        return not awaiting

    @property
    def first_open(self) -> int:
        """The first ticket that somebody may lack; one more than there are if nobody lacks anything."""
        return next(iter(self._open), self._tickets + 1)

    def missing(self) -> dict[str, int]:
        """How much each receiver may lack."""
        found: dict[str, int] = {}
        for awaiting in self._open.values():
            for receiver in awaiting:
                found[receiver] = found.get(receiver, 0) + 1
        return dict(sorted(found.items()))

    def __bool__(self) -> bool:
        return bool(self._open)


class KeptCast:
    """The casts of one sender that others may lack, with what their clocks build on."""

    __slots__ = ("_base", "_casts", "_released", "_serials")

    def __init__(self) -> None:
        self._released = 0
        self._base: dict[tuple[str, int], int] = {}
        self._casts: dict[int, tuple[Cast, list[Entry]]] = {}
        self._serials: list[int] = []

    def add(self, cast: Cast, entries: list[Entry]) -> None:
        if cast.serial not in self._casts:
            self._casts[cast.serial] = (cast, entries)
            insort(self._serials, cast.serial)

    def has(self, serial: int) -> bool:
        """Whether that cast has come: it is kept, or it is stable."""
        return serial <= self._released or serial in self._casts

    def release(self, serial: int) -> None:
        """Everything up to that number is stable."""
        self._released = max(self._released, serial)
        while self._serials and self._serials[0] <= serial:
            _raise(self._base, self._casts.pop(self._serials.pop(0))[1])

    def with_whole_clocks(self) -> list[tuple[Cast, list[Entry]]]:
        """The casts in order, each with all that its sender's clocks said by then."""
        clock, found = dict(self._base), []
        for serial in self._serials:
            cast, entries = self._casts[serial]
            _raise(clock, entries)
            found.append((cast, [(*place, count) for place, count in clock.items()]))
        return found

    def __len__(self) -> int:
        return len(self._serials)


def _raise(clock: dict[tuple[str, int], int], entries: list[Entry]) -> None:
    for topic, member, count in entries:
        if count > clock.get((topic, member), 0):
            clock[topic, member] = count
