"""Where the unstable records of a log stand in the streams of its links, found without walking the log.

The problem: what a node tells a neighbour of a level is the first position, of that neighbour's stream, among all
records from the first one on that has not reached the level. A client that is away blocks the log for half a minute:
nothing behind the first record that it lacks is stable. A node that walked the log each time would walk thousands of
records a hundred times a second, and serve nobody else.

The idea: by level, remember the place of the first record that has not reached it; it only moves on, and is asked for
its level again at each survey. By stream, remember those records behind which no smaller position stands: places and
positions both grow along that list, so the first position from some place on is found by halving it.

What cannot be kept up to date in small steps (positions that a repair gives anew) makes the owner build another index.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter

from holdfast.protocols.records import Flow, Record

DROPPED_AT_ONCE = 1024
Positions = tuple[tuple[int, ...], tuple[int, ...]]
"""By level, of what came from a peer and of what went to it."""


class _Stream:
    """Places in the log and positions of one direction of one link, both growing."""

    __slots__ = ("places", "positions")

    def __init__(self) -> None:
        self.places: list[int] = []
        self.positions: list[int] = []

    def add(self, place: int, position: int) -> None:
        """A record has its last place there. Those before it with larger positions do not matter any more."""
        places, positions = self.places, self.positions
        while positions and positions[-1] >= position:
            positions.pop()
            places.pop()
        places.append(place)
        positions.append(position)

    def add_newest(self, place: int, position: int) -> None:
        """The largest position of all: behind it in the log there are only smaller ones, if there are any."""
        if not self.places or self.places[-1] < place:
            self.places.append(place)
            self.positions.append(position)

    def first_from(self, place: int, else_: int) -> int:
        """The smallest position from that place of the log on."""
        found = bisect_left(self.places, place)
        return self.positions[found] if found < len(self.places) else else_

    def drop_before(self, place: int) -> None:
        if self.places and self.places[0] < place:
            found = bisect_left(self.places, place)
            if found >= DROPPED_AT_ONCE or found == len(self.places):
                del self.places[:found], self.positions[:found]


class LogIndex:
    """The index of one log, whose records stand at consecutive places."""

    def __init__(self, levels: int, first: int, records: Iterable[Record]) -> None:
        self._came: dict[str, _Stream] = {}
        self._went: dict[str, _Stream] = {}
        self._next = first
        self._reached = [first] * (levels + 1)
        """By level: the place of the first record that may not have reached it."""
        self._climbed: dict[str, deque[tuple[int, Record]]] = {}
        self._brought: dict[str, deque[tuple[int, Record]]] = {}
        """Records that are pending, by the peer to which they went up and by the one from which they came, each with
        its position, in that order. Those that are pending no more are dropped when they are the first."""
        kept = list(records)
        for record in kept:
            record.first_place = -1
        for record in kept:
            self.append(record)
        for found in (*self._climbed.values(), *self._brought.values()):
            in_order = sorted(found, key=itemgetter(0))
            found.clear()
            found.extend(in_order)

    def append(self, record: Record) -> None:
        """The record, or another copy of it, stands last."""
        place, self._next = self._next, self._next + 1
        if record.first_place < 0:
            record.first_place = place
        record.last_place = place
        for peer, position in record.ins.items():
            _stream(self._came, peer).add(place, position)
        for peer, position in record.outs.items():
            _stream(self._went, peer).add(place, position)
        if record.pending:
            for peer, position in record.outs.items():
                _note(self._climbed, peer, position, record)
            for peer in record.requested:
                if peer in record.ins:
                    _note(self._brought, peer, record.ins[peer], record)

    def came(self, record: Record, peer: str, position: int) -> None:
        """The record has the newest position of what the peer sends; it had none before."""
        _stream(self._came, peer).add_newest(record.last_place, position)
        if record.pending and peer in record.requested:
            _note(self._brought, peer, position, record)
        self._reopen(record)

    def went(self, record: Record, peer: str, position: int) -> None:
        """The record has the newest position of what we send to the peer; it had none before."""
        _stream(self._went, peer).add_newest(record.last_place, position)
        if record.pending:
            _note(self._climbed, peer, position, record)
        self._reopen(record)

    def _reopen(self, record: Record) -> None:
        """A record that concerns one more neighbour is less stable than before."""
        self._reached = [min(place, record.first_place) for place in self._reached]

    def knows(self, peer: str) -> bool:
        return peer in self._came or peer in self._went

    def drop(self, peer: str) -> None:
        """Nobody is there any more, and no record concerns it."""
        for streams in (self._came, self._went):
            streams.pop(peer, None)
        for pending in (self._climbed, self._brought):
            pending.pop(peer, None)

    def advance(self, first: int, at: Callable[[int], Record], level_of: Callable[[Record], int]) -> None:
        """Find out how far each level has come; the log begins with the place `first`."""
        for level in range(1, len(self._reached)):
            place = max(self._reached[level], first)
            while place < self._next and level_of(at(place)) >= level:
                place += 1
            self._reached[level] = place
        for stream in (*self._came.values(), *self._went.values()):
            stream.drop_before(first)

    def levels(self, peer: str, received: int, sent: int) -> Positions:
        """Up to which positions each level holds, of what came from the peer and of what went to it."""
        came, went = self._came.get(peer), self._went.get(peer)
        above = self._reached[1:]
        in_ = [received, *(_up_to(came, place, received) for place in above)]
        out = [sent, *(_up_to(went, place, sent) for place in above)]
        climbed, brought = self._climbed.get(peer), self._brought.get(peer)
        while climbed and not climbed[0][1].pending:
            climbed.popleft()
        if climbed:
            out[0] = min(out[0], climbed[0][0] - 1)
        while brought and not (brought[0][1].pending and peer in brought[0][1].requested):
            brought.popleft()
        if brought:
            in_[0] = min(in_[0], brought[0][0] - 1)
        return tuple(in_), tuple(out)

    def compare_with(self, walked: Mapping[str, Positions], flows: Mapping[str, Flow]) -> None:
        """Check that these levels are found."""
        for peer, flow in flows.items():
            found = self.levels(peer, flow.received, flow.sent)
            assert found == walked[peer], f"levels told to {peer}: {found}, not {walked[peer]}"


def _stream(streams: dict[str, _Stream], peer: str) -> _Stream:
    found = streams.get(peer)
    if found is None:
        found = streams[peer] = _Stream()
    return found


def _note(table: dict[str, deque[tuple[int, Record]]], peer: str, position: int, record: Record) -> None:
    found = table.setdefault(peer, deque())
    if found and found[-1][0] > position:
        # A repair puts a record in another place: that is no newer position.
        in_order = sorted((*found, (position, record)), key=itemgetter(0))
        found.clear()
        found.extend(in_order)
    else:
        found.append((position, record))


def _up_to(stream: _Stream | None, place: int, all_: int) -> int:
    """All positions before the first from that place on."""
    return all_ if stream is None else min(all_, stream.first_from(place, all_ + 1) - 1)


def walk(
    records: Iterable[Record], flows: Mapping[str, Flow], levels: int, level_of: Callable[[Record], int]
) -> dict[str, Positions]:
    """What `LogIndex.levels` finds of each peer, as it is defined: for checks, since it takes a walk over the log."""
    came = {peer: [flow.received] * (levels + 1) for peer, flow in flows.items()}
    went = {peer: [flow.sent] * (levels + 1) for peer, flow in flows.items()}
    low = levels
    for record in records:
        low = min(low, level_of(record))
        for level in range(low + 1, levels + 1):
            _lower(came, record.ins, level)
            _lower(went, record.outs, level)
        if record.pending:
            _lower(went, record.outs, 0)
            _lower(came, {peer: record.ins[peer] for peer in record.requested if peer in record.ins}, 0)
    return {peer: (tuple(came[peer]), tuple(went[peer])) for peer in flows}


def _lower(table: dict[str, list[int]], positions: dict[str, int], level: int) -> None:
    for peer, position in positions.items():
        row = table.get(peer)
        if row is not None and row[level] >= position:
            row[level] = position - 1
