"""What messages weigh in flow control: both ends of a link compute the same figures."""

from collections.abc import Callable
from typing import Any

from holdfast.model.delta_messages import Conf, Greeting, Multicast, RoutingPart, Status
from holdfast.model.direct_messages import Barred, Cast, Copied, Passed
from holdfast.model.local_tree_messages import Admitted, Surroundings
from holdfast.model.messages import (
    Census,
    Climb,
    Counted,
    Found,
    Interest,
    Interests,
    Join,
    Move,
    Numbers,
    Open,
    Publish,
    Seek,
    SessionMessage,
    Subscribe,
    TotalMarker,
    TotalProcessed,
    TotalRequest,
    Unstable,
    Unsubscribe,
    View,
    ViewAck,
)
from holdfast.model.name_messages import Named
from holdfast.model.relay_messages import Relay
from holdfast.model.site_messages import (
    Announce,
    Assignment,
    Attendance,
    Change,
    Establish,
    Forward,
    Marks,
    Notification,
    Offer,
    Owed,
    Promised,
    Replicate,
    SiteRequest,
    SiteState,
    StreamState,
)
from holdfast.model.slow_messages import Skipped

SMALL_COST_BYTES = 64
SMALL_ENTRY_BYTES = 8
FILTER_CHARACTER_BYTES = 32
"""A character of a filter takes as long to read as so many bytes to pass on: a window holds a few long ones, so that
whoever takes them in does something else in between."""
URGENT = (Open, View, ViewAck, Seek, Found, Census, Counted, Conf, Greeting, Status)
"""They cost nothing and wait for no credit: what credit waits for may itself wait for a repair to end."""


def cost_bytes(message: SessionMessage) -> int:
    """What a message weighs in flow control; both ends compute the same figure."""
    if type(message) is Publish:
        return message.batch.cost_bytes
    weigh = _WEIGHTS.get(type(message))
    return SMALL_COST_BYTES if weigh is None else weigh(message)


def _of_processed(message: TotalProcessed) -> int:
    return SMALL_COST_BYTES if message.batch is None else message.batch.cost_bytes


def _of_cast(message: Cast) -> int:
    return message.batch.cost_bytes + sum(SMALL_ENTRY_BYTES * len(row) for _, row in message.clock)


def _of_barred(message: Barred) -> int:
    entries = sum(len(row) for _, row in message.barriers)
    return message.batch.cost_bytes + SMALL_ENTRY_BYTES * (len(message.names) + len(message.targets) + entries)


def _of_relay(message: Relay) -> int:
    notice = 0 if message.notice is None else _of_interest(message.notice.pattern, message.notice.where)
    batch = 0 if message.batch is None else message.batch.cost_bytes
    return SMALL_COST_BYTES + len(message.header) + batch + notice


def _of_multicast(message: Multicast) -> int:
    change = message.change
    batch = SMALL_COST_BYTES if message.batch is None else message.batch.cost_bytes
    hops = len(message.visited) + sum(len(path) for path, _ in message.to)
    return batch + SMALL_ENTRY_BYTES * hops + (0 if change is None else _of_interest(change.pattern, change.where))


def _of_part(message: RoutingPart) -> int:
    texts = sum(SMALL_COST_BYTES + _of_interest(pattern, where) for pattern, where, _ in message.entries)
    return SMALL_COST_BYTES * (1 + len(message.links)) + texts


def _of_interest(pattern: str, where: str) -> int:
    return len(pattern) + FILTER_CHARACTER_BYTES * len(where)


def _of_interests(interests: tuple[Interest, ...]) -> int:
    return SMALL_COST_BYTES + sum(SMALL_COST_BYTES + _of_interest(*one) for one in interests)


def _of_request(message: Subscribe | Unsubscribe) -> int:
    return SMALL_COST_BYTES + _of_interest(message.pattern, message.where)


def _of_skipped(message: Skipped) -> int:
    texts = sum(SMALL_ENTRY_BYTES + len(pattern) + len(where) for pattern, where, _ in message.entries)
    return SMALL_COST_BYTES + texts + sum(SMALL_ENTRY_BYTES + len(name) for name, _ in message.numbers)


def _of_change(change: Change) -> int:
    return SMALL_COST_BYTES + _of_interest(change.pattern, change.where)


def _of_site_state(message: SiteState) -> int:
    texts = sum(SMALL_COST_BYTES + _of_interest(pattern, where) for _, pattern, where in message.table)
    return SMALL_COST_BYTES + texts + SMALL_COST_BYTES * len(message.done)


_WEIGHTS: dict[type, Callable[[Any], int]] = {
    Climb: lambda message: message.batch.cost_bytes,
    TotalRequest: lambda message: message.batch.cost_bytes,
    Unstable: lambda message: message.batch.cost_bytes,
    TotalProcessed: _of_processed,
    TotalMarker: lambda message: SMALL_COST_BYTES + sum(16 + len(key) for key in message.keys),
    Cast: _of_cast,
    Copied: lambda message: _of_cast(message.cast),
    Barred: _of_barred,
    Passed: lambda message: message.batch.cost_bytes + SMALL_ENTRY_BYTES * len(message.path),
    Relay: _of_relay,
    Offer: lambda message: message.batch.cost_bytes,
    Forward: lambda message: message.batch.cost_bytes,
    Replicate: lambda message: message.batch.cost_bytes,
    Owed: lambda message: message.batch.cost_bytes,
    Assignment: lambda message: SMALL_COST_BYTES + sum(one.batch.cost_bytes for one in message.units),
    **dict.fromkeys((Marks, Notification), lambda message: SMALL_COST_BYTES + SMALL_COST_BYTES * len(message.entries)),
    Promised: lambda message: SMALL_COST_BYTES + SMALL_COST_BYTES * len(message.marks),
    Establish: lambda message: SMALL_COST_BYTES * (1 + len(message.cuts)) + sum(map(_of_change, message.changes)),
    SiteRequest: lambda message: _of_change(message.change),
    Attendance: lambda message: SMALL_COST_BYTES * (1 + len(message.present) + len(message.absent)),
    Announce: lambda message: _of_interests((*message.wanted, *message.unwanted)),
    SiteState: _of_site_state,
    StreamState: lambda message: SMALL_COST_BYTES * (1 + len(message.lanes) + 2 * len(message.pending)),
    Multicast: _of_multicast,
    RoutingPart: _of_part,
    Surroundings: lambda message: SMALL_COST_BYTES + SMALL_ENTRY_BYTES * len(message.edges),
    Admitted: lambda message: SMALL_COST_BYTES + len(message.state),
    Subscribe: _of_request,
    Unsubscribe: _of_request,
    Interests: lambda message: _of_interests(message.entries),
    Join: lambda message: _of_interests(message.interests) + _of_interests(message.doubtful),
    Move: lambda message: _of_interests(message.interests),
    Numbers: lambda message: SMALL_COST_BYTES + 64 * len(message.processed),
    Named: lambda message: SMALL_COST_BYTES + 64 * len(message.entries),
    Skipped: _of_skipped,
    **dict.fromkeys(URGENT, lambda _: 0),
}
"""What weighs more, or less, than a small message."""
