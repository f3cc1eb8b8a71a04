"""A subscriber's consumed position: the messages of each publisher's life that the subscriber has consumed.

A repository counts with its own sequence numbers: everything up to the subscriber's *sync* is consumed. Another
repository cannot read these numbers. So a position is translated into publishers, lives and catenation numbers
(`position_at`), which is what a subscriber without memory is told when it comes back, and what siblings are told
(`position_for_siblings`). A position that a subscriber or a sibling tells is translated into a sync by
`sync_of_position`.
"""

from collections.abc import Iterator

from holdfast.model.ranges import Range, without
from holdfast.model.reliable import Level
from holdfast.protocols.narada.answers import expired
from holdfast.protocols.narada.chains import Chain
from holdfast.protocols.narada.events import MESSAGES, RANGES_MAX, Cut, Lacks, Row, catenation, life_of, number_of
from holdfast.protocols.narada.stream_state import RepositoryStream
from holdfast.protocols.trackers import RangeTracker

Life = tuple[str, int]
ConsumedPosition = tuple[Cut, Lacks]
NOTHING: ConsumedPosition = ((), ())
LIVES_MAX = 256
"""For a stream with more lives of publishers no position is kept beside the sync."""


def position_at(stream_state: RepositoryStream, sync: int) -> tuple[Cut, Lacks]:
    """For each life, the number up to which all messages lie at or below `sync`; and the given-up numbers among them.

    A message that was given up is not consumed: if it arrives late, it is new, from whichever repository it comes.
    """
    if sync + 1 < stream_state.table_from or len(stream_state.chains) > RANGES_MAX:
        cut = expired(stream_state) if sync + 1 >= stream_state.kept else ()
        gone = tuple(_came_late(stream_state, {(publisher, life_of(cat)): number_of(cat) for publisher, cat in cut}))
        return (cut, gone) if len(gone) <= RANGES_MAX else NOTHING
    low: dict[Life, int] = {}
    late: list[tuple[Life, Range]] = []
    for row in _rows(stream_state, sync):
        if row.last > sync:
            # A sync in the middle of a row: the rest of the row is not consumed.
            left = row.part(sync + 1, row.last)
            who, number = (row.publisher, life_of(row.cat)), number_of(left.cat)
            if row.kind == MESSAGES and _was_given_up(stream_state, who, (number, number + left.count - 1)):
                late.append((who, (number, number + left.count - 1)))
            else:
                low[who] = min(low.get(who, number), number)
    # Messages that are not above the sync lie below it, stored or being stored: the subscriber has consumed them.
    reached = {who: low.get(who, chain.top + 1) - 1 for who, chain in stream_state.chains.items()}
    lacks = tuple(_given_up(stream_state, reached))
    for who, (first, last) in late:
        if first <= reached[who]:
            lacks += ((who[0], catenation(who[1], first), catenation(who[1], min(last, reached[who]))),)
    if len(lacks) > RANGES_MAX:
        return (), ()
    # A life with a row above the sync is named even at 0: its first message may not be the first that arrives.
    told = ((who, number) for who, number in reached.items() if number > 0 or who in low)
    return tuple((publisher, catenation(life, number)) for (publisher, life), number in told), lacks


def _rows(stream_state: RepositoryStream, sync: int) -> Iterator[Row]:
    """Rows of messages that lie above `sync`, have a place reserved, are being stored, or were given up."""
    yield from (row for row in stream_state.table.between(sync + 1, stream_state.end) if row.kind == MESSAGES)
    yield from (row for row in stream_state.voids if row.publisher)
    for chain, place in stream_state.place_rows():
        yield Row(place.first, place.count, chain.publisher, chain.cat(place.number))
    for entry in (*stream_state.staged, *stream_state.committing):
        # It has left its place and is not in the table yet.
        yield Row(entry.first, entry.count, entry.publisher, entry.cat)


def _was_given_up(stream_state: RepositoryStream, who: Life, part: Range) -> bool:
    """Whether these messages were given up and came late, and so lie behind messages published after them."""
    chain = stream_state.chains.get(who)
    return chain is not None and part[1] <= chain.given_upto and not without(part, chain.given)


def _came_late(stream_state: RepositoryStream, reached: dict[Life, int]) -> Iterator[tuple[str, int, int]]:
    """Messages at or below these numbers that were given up and came late: the repository has them."""
    for who, upto in reached.items():
        chain = stream_state.chains[who]
        for first, last in _late_parts(chain, 1, upto):
            yield chain.publisher, chain.cat(first), chain.cat(last)


def _late_parts(chain: Chain, low: int, high: int) -> list[Range]:
    """The numbers within low..high that were given up and came late."""
    parts = [(max(low, first), min(high, last)) for first, last in chain.given if max(low, first) <= min(high, last)]
    return [late for part in parts for late in _stored_parts(chain, part)]


def _stored_parts(chain: Chain, part: Range) -> list[Range]:
    return without(part, chain.stored.new_part(*part))


def _given_up(stream_state: RepositoryStream, reached: dict[Life, int]) -> Iterator[tuple[str, int, int]]:
    """Messages at or below these numbers that were given up and did not come late."""
    for who, upto in reached.items():
        chain = stream_state.chains[who]
        for first, last in chain.given:
            low, high = max(first, chain.forgotten + 1), min(last, upto)
            for number, end in chain.stored.new_part(low, high) if low <= high else ():
                yield chain.publisher, chain.cat(number), chain.cat(end)


def sync_of_position(stream_state: RepositoryStream, cut: Cut, lacks: Lacks = ()) -> int:
    """The sequence number up to which a subscriber with this position has consumed everything; 0 if that is unknown.

    Forgotten messages that the position has not reached count as missing: the subscriber will be told of a gap there.
    Of the messages in `lacks` it was told already.
    """
    has = {(publisher, life_of(cat)): number_of(cat) for publisher, cat in cut}
    first = min([stream_state.next, *(place.first for _, place in stream_state.place_rows())])
    for entry in (*stream_state.staged, *stream_state.committing):
        first = min(first, entry.first)
    for row in stream_state.voids:
        number, reached = number_of(row.cat), has.get((row.publisher, life_of(row.cat)), 0)
        if row.publisher and number + row.count - 1 > reached:
            first = min(first, row.first + max(0, reached + 1 - number))
    for (publisher, life), chain in stream_state.chains.items():
        number = has.get((publisher, life), 0)
        if number < chain.forgotten and stream_state.kept > 1:
            return 0
        # A message that was given up and came late lies behind its successors: a lacking one must not be skipped.
        parts = [(max(low, number + 1), high) for low, high in chain.given if high > number]
        mine = [(low, high) for who, low, high in lacks if (who, life_of(low)) == (publisher, life)]
        for low, high in ((number_of(low), number_of(high)) for low, high in mine):
            if high > chain.expired:
                parts.append((max(low, chain.expired + 1), high))
            # Of what has expired here it will not get anything here, but for what came late and lies behind it.
            for late_first, late_last in _late_parts(chain, low, min(high, chain.expired)):
                places = stream_state.table.places_of(publisher, chain.cat(late_first), chain.cat(late_last))
                first = min([first, *(begin for _, begin, _ in places)])
                if (
                    stream_state.table_from > stream_state.kept
                    and sum(count for _, _, count in places) <= late_last - late_first
                ):
                    return 0
        late = [part for lacking in parts for part in _stored_parts(chain, lacking)]
        for low, high in (*_seen_above(chain.stored, number)[:1], *late):
            places = stream_state.table.places_of(publisher, chain.cat(low), chain.cat(high))
            if not places or places[0][0] != chain.cat(low):
                return 0
            # The first of them may have come late, and lie behind the others.
            first = min([first, *(begin for _, begin, _ in places)])
    return first - 1


def position_for_siblings(stream_state: RepositoryStream, sync: int, cut: Cut = ()) -> ConsumedPosition:
    """The position at `sync` as siblings are told it: numbers that this repository has not stored count as lacking.

    `cut` is a position that the subscriber told itself. The answer is `NOTHING` if the position is not known, and at
    levels below `fsynced`, where a repository may have lost the messages that the position speaks of.
    """
    told = sync and len(stream_state.chains) <= LIVES_MAX and stream_state.config.level is Level.FSYNCED
    if cut:
        return (cut, ()) if told else NOTHING
    cut, passed = position_at(stream_state, sync) if told else NOTHING
    lacks: list[tuple[str, int, int]] = []
    for publisher, cat in cut:
        chain = stream_state.chains[publisher, life_of(cat)]
        low, high = chain.forgotten + 1, number_of(cat)
        parts = chain.stored.new_part(low, high) if low <= high else []
        lacks += [(publisher, chain.cat(first), chain.cat(last)) for first, last in parts]
    # And with what came late: it is here, and lies behind its sync.
    for publisher, low, high in passed:
        chain = stream_state.chains[publisher, life_of(low)]
        late = _stored_parts(chain, (number_of(low), number_of(high)))
        lacks += [(publisher, chain.cat(first), chain.cat(last)) for first, last in late]
    return (cut, tuple(lacks)) if len(lacks) <= RANGES_MAX else NOTHING


def merged_position(one: ConsumedPosition, other: ConsumedPosition, lives_max: int = LIVES_MAX) -> ConsumedPosition:
    """Everything that at least one of two positions of one subscriber has consumed; the first one if that is long."""
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
    """The ranges above `number` that a tracker contains, in order."""
    parts = [(number + 1, tracker.prefix)] if tracker.prefix > number else []
    return parts + [(max(first, number + 1), last) for first, last in tracker.ranges() if last > number]
