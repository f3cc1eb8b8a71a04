"""What a repository makes of a store whose pairs are lost in part, or that has more than they tell of.

The messages are what counts: they carry sequence numbers and identities, so nearly all that the pairs said can be made
anew from them. Of a publisher's life whose pair is lost, numbers that are missing below the highest that is stored had
places set aside, or were given up: they get places again, under sequence numbers that are free and lie between those of
their neighbours, so that they are in order when they come. What had the nearer end goes first: if there is a way to
give everybody a place, and there was one, this finds it. Whatever is free afterwards will never be used.

A life that begins with a higher number than 1 in a store which has forgotten something is taken for one whose beginning
was forgotten.
"""

from collections.abc import Iterable
from heapq import heappop, heappush

from holdfast.model.ranges import Range, without
from holdfast.model.reliable import Entry
from holdfast.protocols.narada.chains import Chain, Place
from holdfast.protocols.narada.events import life_of, number_of
from holdfast.protocols.narada.stream_state import RepositoryStream

Life = tuple[str, int]
Job = tuple[int, int, Life, int]
"""Between which sequence numbers a place must lie, and whose it is."""


def adopt(stream_state: RepositoryStream, entries: Iterable[Entry]) -> Entry | None:
    """Make the state of a stream fit what is stored; an entry that fits in nowhere, if there is one."""
    told, lost, stored = set(stream_state.chains), dict[Life, list[Entry]](), list[Range]()
    for entry in entries:
        stored.append((entry.first, entry.last))
        if (entry.publisher, life_of(entry.cat)) not in told:
            lost.setdefault((entry.publisher, life_of(entry.cat)), []).append(entry)
        elif not stream_state.adopt(entry):
            return entry
    known = [(place.first, place.first + place.count - 1) for _, place in stream_state.place_rows()]
    known += [(row.first, row.last) for row in stream_state.voids]
    stream_state.next = max([stream_state.next, *(last + 1 for _, last in (*stored, *known))])
    free = (
        without((stream_state.kept, stream_state.end), [*stored, *known])
        if stream_state.end >= stream_state.kept
        else []
    )
    jobs = [job for life, its in lost.items() for job in _missing(life, its, stream_state.kept)]
    places = _assigned(jobs, free)
    for life, its in lost.items():
        _restore(stream_state, life, its, places.get(life, []))
    taken = [(place.first, place.first) for its in places.values() for place in its]
    for first, last in free:
        for low, high in without((first, last), taken):
            stream_state.skip(low, high)
    stream_state.go_on()
    return None


def _missing(life: Life, entries: list[Entry], kept: int) -> list[Job]:
    """Which numbers of a life are missing between those that are stored, and where they belong."""
    jobs: list[Job] = []
    number, after = (0, 0) if kept == 1 else (number_of(entries[0].cat) - 1, 0)
    for entry in entries:
        first = number_of(entry.cat)
        jobs += [(after, entry.first, life, one) for one in range(number + 1, first)]
        number, after = max(number, number_of(entry.cat_last)), entry.last
    return jobs


def _assigned(jobs: list[Job], free: list[Range]) -> dict[Life, list[Place]]:
    """A free sequence number for each, if there is one in time."""
    waiting = sorted(jobs, reverse=True)
    due: list[tuple[int, Life, int]] = []
    places: dict[Life, list[Place]] = {}
    for first, last in free:
        slot = first
        while slot <= last and (waiting or due):
            while waiting and waiting[-1][0] < slot:
                _, end, life, number = waiting.pop()
                heappush(due, (end, life, number))
            while due and due[0][0] <= slot:
                heappop(due)
            if due:
                _, life, number = heappop(due)
                places.setdefault(life, []).append(Place(number, slot, 1))
            elif not waiting or waiting[-1][0] >= last:
                break
            slot += 1
    return places


def _restore(stream_state: RepositoryStream, life: Life, entries: list[Entry], places: list[Place]) -> None:
    chain = stream_state.chain(*life)
    if chain is None:
        return
    for entry in entries:
        number, last = number_of(entry.cat), number_of(entry.cat_last)
        for tracker in (chain.taken, chain.stored, chain.settled):
            tracker.add(number, last)
        chain.top = max(chain.top, last)
    chain.places = _joined(places)
    stream_state.places += len(chain.places)
    _pass_over(chain)
    stream_state.touch(chain)


def _pass_over(chain: Chain) -> None:
    """What is neither stored nor has a place was forgotten, or given up and forgotten."""
    for first, last in without((1, chain.top), [*_ranges(chain), *((one.number, one.last) for one in chain.places)]):
        chain.forgotten, chain.expired = max(chain.forgotten, last), max(chain.expired, last)
        for tracker in (chain.taken, chain.stored, chain.settled):
            tracker.add(first, last)


def _ranges(chain: Chain) -> list[Range]:
    return [(1, chain.taken.prefix)] * bool(chain.taken.prefix) + chain.taken.ranges()


def _joined(places: list[Place]) -> list[Place]:
    """Places in order; those that continue each other are one."""
    made: list[Place] = []
    for place in sorted(places):
        before = made[-1] if made else None
        if before is not None and before.last + 1 == place.number and before.first + before.count == place.first:
            made[-1] = Place(before.number, before.first, before.count + 1)
        else:
            made.append(place)
    return made
