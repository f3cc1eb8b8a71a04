"""What a repository knows of one durable subscription, and how it keeps that in its store."""

from contextlib import suppress

import msgspec
from msgspec import Struct

from holdfast.model.ranges import Range
from holdfast.protocols.narada.consumed_position import NOTHING, ConsumedPosition, merged_position
from holdfast.protocols.narada.events import RANGES_MAX, Out
from holdfast.protocols.trackers import RangeTracker, WindowFull

SYNC_RANGES_MAX = 1024


class SavedSubscription(Struct, array_like=True):
    """A subscription as it is kept in the store."""

    pattern: str
    sync: int
    ranges: list[Range]
    since_ns: int = 0
    anew: bool = False
    reader: int = 0
    consumed: ConsumedPosition = NOTHING
    begun_by: int = 0
    account: int = 0
    beyond: ConsumedPosition = NOTHING
    out: Out = ()


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(SavedSubscription)


class Subscription:
    """What a repository knows of one subscriber."""

    __slots__ = (
        *("account", "acked", "anew", "begun_by", "beyond", "consumed", "consumed_at", "name", "out", "pattern"),
        *("pending", "reader", "said_sync", "since_ns", "steering", "translated"),
    )

    def __init__(self, name: str, pattern: str, since_ns: int, sync: int = 0) -> None:
        self.name, self.pattern, self.steering, self.since_ns = name, pattern, "", since_ns
        self.acked = RangeTracker(ranges_max=SYNC_RANGES_MAX, start=sync)
        """What it has, in our sequence numbers; the prefix is its sync."""
        self.pending: dict[str, RangeTracker] = {}
        """By repository: what it acknowledged there, in that one's numbers, and could not be translated yet."""
        self.translated: dict[str, int] = {}
        """By repository: up to which of its numbers a gossiped sync was looked at."""
        self.said_sync = -1
        self.anew = False
        """Whether it was begun anew: what others know of it may be from before."""
        self.consumed, self.consumed_at = NOTHING, -1
        """What it has had, whoever knew it, as of which sync of ours: sequence numbers mean nothing to others."""
        self.reader = self.begun_by = 0
        """The last of those who read under this name, and whose beginning it was that we answered."""
        self.account, self.beyond = 0, NOTHING
        """Of a reader that acknowledges each message: the number of its last account, and what it has acknowledged
        above its sync, by identity."""
        self.out: Out = ()
        """What was handed out to its application and not acknowledged, and how often."""

    @property
    def sync(self) -> int:
        return self.acked.prefix

    def hear_out(self, out: Out) -> None:
        """A sibling says what was handed out; what is known of the same messages stays."""
        known = [(publisher, first, last) for publisher, first, last, _ in self.out]
        new = [
            one
            for one in out
            if not any(who == one[0] and first <= one[2] and one[1] <= last for who, first, last in known)
        ]
        self.out = (*self.out, *new)[:RANGES_MAX]

    def known(self, by_sync: ConsumedPosition) -> ConsumedPosition:
        """All that it is known to have had: by its sync, by what others said, and by its own account."""
        return merged_position(self.beyond, merged_position(by_sync, self.consumed), RANGES_MAX)


def saved(one: Subscription) -> bytes:
    whose = (one.since_ns, one.anew, one.reader, one.consumed, one.begun_by)
    account = (one.account, one.beyond, one.out)
    return _encoder.encode(SavedSubscription(one.pattern, one.acked.prefix, one.acked.ranges(), *whose, *account))


def restored(name: str, value: bytes) -> Subscription:
    kept = _decoder.decode(value)
    one = Subscription(name, kept.pattern, kept.since_ns, kept.sync)
    one.anew, one.reader, one.consumed, one.begun_by = kept.anew, kept.reader, kept.consumed, kept.begun_by
    one.account, one.beyond, one.out = kept.account, kept.beyond, kept.out
    for first, last in kept.ranges:
        with suppress(WindowFull):
            one.acked.add(first, last)
    return one
