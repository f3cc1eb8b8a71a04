"""Checks of control events: every client that may publish can send one, and trackers trust the numbers in it.

Numbers count from 1, ranges do not end before they begin, and messages fit into one life of their publisher. An event
that says otherwise is nonsense as a whole, like one that cannot be decoded.
"""

from collections.abc import Callable, Iterable
from typing import Any

from holdfast.model.batches import Batch, BatchError
from holdfast.model.reliable import Entry
from holdfast.protocols.narada.events import (
    GIVEN_UP,
    MESSAGES,
    NUMBER_MAX,
    ControlEvent,
    Fetch,
    Gossip,
    Order,
    Persistent,
    PublisherAck,
    PublisherNak,
    Rectify,
    Refetch,
    Resent,
    Retransmit,
    Row,
    SubscriberAck,
    SubscriberNak,
    Tidings,
    life_of,
    number_of,
)

SEQUENCE_MAX = (1 << 62) - 1
"""Numbers below this can be added to each other and still be stored."""


def is_sensible(event: ControlEvent) -> bool:
    """Whether a participant may take the event at its word."""
    judge = _JUDGES.get(type(event))
    return judge is None or judge(event)


def _ranges(pairs: Iterable[tuple[int, int]]) -> bool:
    return all(1 <= first <= last <= SEQUENCE_MAX for first, last in pairs)


def _named(rows: Iterable[tuple[Any, ...]]) -> bool:
    """Ranges of catenation numbers, each of one life."""
    return all(_in_one_life(row[1], row[2]) for row in rows)


def _cut(cut: Iterable[tuple[str, int]]) -> bool:
    """Up to where something is forgotten: at least the first of a life is."""
    return all(number_of(cat) for _, cat in cut)


def _in_one_life(first: int, last: int) -> bool:
    return number_of(first) >= 1 and first <= last and life_of(first) == life_of(last)


def _rows(rows: Iterable[Row]) -> bool:
    return all(_row(row) for row in rows)


def _row(row: Row) -> bool:
    if not (row.first >= 1 and row.count >= 1 and row.first + row.count <= SEQUENCE_MAX):
        return False
    if row.kind in (MESSAGES, GIVEN_UP) and not row.publisher:
        return False
    if row.publisher and not row.cat:
        return False
    return not row.cat or _in_one_life(row.cat, row.cat + row.count - 1)


def _batch(batch: Batch) -> bool:
    try:
        batch.check()
    except BatchError:
        return False
    return True


def _entry(entry: Entry) -> bool:
    if not (entry.first >= 1 and entry.first + entry.batch.count <= SEQUENCE_MAX):
        return False
    return _in_one_life(entry.cat, entry.cat + entry.batch.count - 1) and _batch(entry.batch)


def _order(event: Order) -> bool:
    return all(
        run.number >= 1 and run.count >= 1 and run.number + run.count - 1 <= NUMBER_MAX and run.seq <= SEQUENCE_MAX
        for run in event.runs
    )


def _retransmit(event: Retransmit) -> bool:
    # A publisher sends its own messages again: those of another would be stored twice, under its numbers and theirs.
    own = event.batch.publisher == event.publisher
    return own and 1 <= event.number <= NUMBER_MAX - event.batch.count and _batch(event.batch)


def _rectify(event: Rectify) -> bool:
    return _rows(event.rows) and _cut(event.forgotten) and _named(event.lacks) and _named(event.out)


def _acknowledged(event: SubscriberAck) -> bool:
    return _ranges(event.ranges) and _named(event.lacks) and _named(event.out)


def _refetch(event: Refetch) -> bool:
    return event.count >= 1 and _in_one_life(event.cat, event.cat + event.count - 1)


_JUDGES: dict[type, Callable[[Any], bool]] = {
    Order: _order,
    Retransmit: _retransmit,
    PublisherAck: lambda event: _ranges(event.ranges),
    PublisherNak: lambda event: _ranges(event.ranges),
    Rectify: _rectify,
    SubscriberAck: _acknowledged,
    SubscriberNak: lambda event: _ranges(event.ranges),
    Persistent: lambda event: _rows(event.rows),
    Resent: lambda event: all(map(_entry, event.entries)),
    Gossip: lambda event: _rows(event.rows) and _cut(event.forgotten),
    Tidings: lambda event: _named(event.lacks),
    Fetch: lambda event: _ranges(event.ranges),
    Refetch: _refetch,
}
