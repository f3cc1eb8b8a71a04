"""What a subscriber has had of each publisher's lives, by what a repository knows of it, its sync; and the way back.

A subscriber without memory is told so when it comes back, for another repository may not know it. What it says itself,
or another repository says of it, becomes a sync.
"""

from collections.abc import Iterator

from holdfast.model.reliable import Level
from holdfast.protocols.narada.answers import expired
from holdfast.protocols.narada.chains import Chain, without
from holdfast.protocols.narada.events import MESSAGES, RANGES_MAX, Cut, Lacks, Row, catenation, life_of, number_of
from holdfast.protocols.narada.keeping import Keeping
from holdfast.protocols.trackers import Range, RangeTracker

Life = tuple[str, int]
Had = tuple[Cut, Lacks]
NOTHING: Had = ((), ())
LIVES_MAX = 256
"""Of more lives of publishers it is not kept what a subscription has had: its sync has to do."""


def had(keeping: Keeping, sync: int) -> tuple[Cut, Lacks]:
    """Up to where everything of each life lies at or below that sequence number; and what of it was given up.

    A gap that was passed is not had: if it turns up, it is new, wherever it comes from.
    """
    if sync + 1 < keeping.table_from or len(keeping.chains) > RANGES_MAX:
        cut = expired(keeping) if sync + 1 >= keeping.kept else ()
        gone = tuple(_came_late(keeping, {(publisher, life_of(cat)): number_of(cat) for publisher, cat in cut}))
        return (cut, gone) if len(gone) <= RANGES_MAX else NOTHING
    low: dict[Life, int] = {}
    late: list[tuple[Life, Range]] = []
    for row in _rows(keeping, sync):
        if row.last > sync:
            # Whoever begins in the midst of it wants the rest.
            left = row.part(sync + 1, row.last)
            who, number = (row.publisher, life_of(row.cat)), number_of(left.cat)
            if row.kind == MESSAGES and _was_given_up(keeping, who, (number, number + left.count - 1)):
                late.append((who, (number, number + left.count - 1)))
            else:
                low[who] = min(low.get(who, number), number)
    # What is not above its sync lies below it, stored or on its way: whoever begins there does not want it.
    reached = {who: low.get(who, chain.top + 1) - 1 for who, chain in keeping.chains.items()}
    lacks = tuple(_given_up(keeping, reached))
    for who, (first, last) in late:
        if first <= reached[who]:
            lacks += ((who[0], catenation(who[1], first), catenation(who[1], min(last, reached[who]))),)
    if len(lacks) > RANGES_MAX:
        return (), ()
    # Where the first message of a life is to come, what is seen first of it need not be the first.
    told = ((who, number) for who, number in reached.items() if number > 0 or who in low)
    return tuple((publisher, catenation(life, number)) for (publisher, life), number in told), lacks


def _rows(keeping: Keeping, sync: int) -> Iterator[Row]:
    """Whose messages lie above that sequence number, are to come there, or were given up."""
    yield from (row for row in keeping.table.between(sync + 1, keeping.end) if row.kind == MESSAGES)
    yield from (row for row in keeping.voids if row.publisher)
    for chain, place in keeping.place_rows():
        yield Row(place.first, place.count, chain.publisher, chain.cat(place.number))
    for entry in (*keeping.staged, *keeping.committing):
        # It has left its place and is not in the table yet.
        yield Row(entry.first, entry.count, entry.publisher, entry.cat)


def _was_given_up(keeping: Keeping, who: Life, part: Range) -> bool:
    """Whether these came late, and so lie behind what was published after them."""
    chain = keeping.chains.get(who)
    return chain is not None and part[1] <= chain.given_upto and not without(part, chain.given)


def _came_late(keeping: Keeping, reached: dict[Life, int]) -> Iterator[tuple[str, int, int]]:
    """Of what lies at or below these numbers, what was given up and is here all the same, wherever that is."""
    for who, upto in reached.items():
        chain = keeping.chains[who]
        for first, last in _late_parts(chain, 1, upto):
            yield chain.publisher, chain.cat(first), chain.cat(last)


def _late_parts(chain: Chain, low: int, high: int) -> list[Range]:
    """Which of these numbers were given up and have come late."""
    parts = [(max(low, first), min(high, last)) for first, last in chain.given if max(low, first) <= min(high, last)]
    return [late for part in parts for late in _stored_parts(chain, part)]


def _stored_parts(chain: Chain, part: Range) -> list[Range]:
    return without(part, chain.stored.new_part(*part))


def _given_up(keeping: Keeping, reached: dict[Life, int]) -> Iterator[tuple[str, int, int]]:
    """Of what lies at or below these numbers, what was given up and has not come late."""
    for who, upto in reached.items():
        chain = keeping.chains[who]
        for first, last in chain.given:
            low, high = max(first, chain.forgotten + 1), min(last, upto)
            for number, end in chain.stored.new_part(low, high) if low <= high else ():
                yield chain.publisher, chain.cat(number), chain.cat(end)


def had_upto(keeping: Keeping, cut: Cut, lacks: Lacks = ()) -> int:
    """Up to which sequence number whoever has had so much has everything; 0 if that is not known.

    What it has not come to and is forgotten here is not passed over: it will be told of a gap. Of what it lacks it was.
    """
    has = {(publisher, life_of(cat)): number_of(cat) for publisher, cat in cut}
    first = min([keeping.next, *(place.first for _, place in keeping.place_rows())])
    for entry in (*keeping.staged, *keeping.committing):
        first = min(first, entry.first)
    for row in keeping.voids:
        number, reached = number_of(row.cat), has.get((row.publisher, life_of(row.cat)), 0)
        if row.publisher and number + row.count - 1 > reached:
            first = min(first, row.first + max(0, reached + 1 - number))
    for (publisher, life), chain in keeping.chains.items():
        number = has.get((publisher, life), 0)
        if number < chain.forgotten and keeping.kept > 1:
            return 0
        # What was given up and came late lies behind what came after it: it is not passed over if it is lacking.
        parts = [(max(low, number + 1), high) for low, high in chain.given if high > number]
        mine = [(low, high) for who, low, high in lacks if (who, life_of(low)) == (publisher, life)]
        for low, high in ((number_of(low), number_of(high)) for low, high in mine):
            if high > chain.expired:
                parts.append((max(low, chain.expired + 1), high))
            # Of what has expired here it will not get anything here, but for what came late and lies behind it.
            for late_first, late_last in _late_parts(chain, low, min(high, chain.expired)):
                places = keeping.table.places_of(publisher, chain.cat(late_first), chain.cat(late_last))
                first = min([first, *(begin for _, begin, _ in places)])
                if keeping.table_from > keeping.kept and sum(count for _, _, count in places) <= late_last - late_first:
                    return 0
        late = [part for lacking in parts for part in _stored_parts(chain, lacking)]
        for low, high in (*_seen_above(chain.stored, number)[:1], *late):
            places = keeping.table.places_of(publisher, chain.cat(low), chain.cat(high))
            if not places or places[0][0] != chain.cat(low):
                return 0
            # The first of them may have come late, and lie behind the others.
            first = min([first, *(begin for _, begin, _ in places)])
    return first - 1


def account(keeping: Keeping, sync: int, cut: Cut = ()) -> Had:
    """The same for others, with all that is not here: it may be missing there, too; or `cut`, if that is given.

    Nothing if it is not known, or if what we know may be of messages that somebody has lost since.
    """
    told = sync and len(keeping.chains) <= LIVES_MAX and keeping.config.level is Level.FSYNCED
    if cut:
        return (cut, ()) if told else NOTHING
    cut, passed = had(keeping, sync) if told else NOTHING
    lacks: list[tuple[str, int, int]] = []
    for publisher, cat in cut:
        chain = keeping.chains[publisher, life_of(cat)]
        low, high = chain.forgotten + 1, number_of(cat)
        parts = chain.stored.new_part(low, high) if low <= high else []
        lacks += [(publisher, chain.cat(first), chain.cat(last)) for first, last in parts]
    # And with what came late: it is here, and lies behind its sync.
    for publisher, low, high in passed:
        chain = keeping.chains[publisher, life_of(low)]
        late = _stored_parts(chain, (number_of(low), number_of(high)))
        lacks += [(publisher, chain.cat(first), chain.cat(last)) for first, last in late]
    return (cut, tuple(lacks)) if len(lacks) <= RANGES_MAX else NOTHING


def both(one: Had, other: Had, lives_max: int = LIVES_MAX) -> Had:
    """What is had by at least one of two accounts of the same subscriber; the first if that is too much."""
    if not other[0] or one == other:
        return one
    cuts, lacking = ({}, {}), ({}, {})  # type: tuple[dict[Life, int], ...], tuple[dict[Life, list[Range]], ...]
    for at, (cut, lacks) in enumerate((one, other)):
        for publisher, cat in cut:
            cuts[at][publisher, life_of(cat)] = cat
        for publisher, low, high in lacks:
            lacking[at].setdefault((publisher, life_of(low)), []).append((low, high))
    merged = {who: max(cuts[0].get(who, 0), cuts[1].get(who, 0)) for who in {**cuts[0], **cuts[1]}}
    left: list[tuple[str, int, int]] = []
    for who, upto in merged.items():
        more = 0 if cuts[0].get(who, 0) == upto else 1
        less, known = 1 - more, lacking[1 - more].get(who, [])
        for low, high in lacking[more].get(who, []):
            # The other account has it, as far as it reaches, but for what it lacks itself.
            reached = cuts[less].get(who, 0)
            missing = [(max(low, first), min(high, last)) for first, last in known] + [(max(low, reached + 1), high)]
            left += [(who[0], first, last) for first, last in missing if first <= last]
    if len(merged) > lives_max or len(left) > RANGES_MAX:
        return one
    return tuple((who[0], cat) for who, cat in sorted(merged.items())), tuple(sorted(left))


def _seen_above(tracker: RangeTracker, number: int) -> list[Range]:
    """What a tracker has above that number, in order."""
    parts = [(number + 1, tracker.prefix)] if tracker.prefix > number else []
    return parts + [(max(first, number + 1), last) for first, last in tracker.ranges() if last > number]
