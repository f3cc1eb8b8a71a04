"""What a subscription wants to happen when its subscriber does not read, and how a broker says what it has dropped."""

from typing import Annotated, Literal, get_args

from msgspec import Meta, Struct

from holdfast.model.batches import Name, TopicText
from holdfast.model.terms import Counter, Where

Slow = Literal["block", "drop-oldest", "drop-newest", "disconnect"]
SLOW: tuple[Slow, ...] = get_args(Slow)
SLOW_S = 30.0
"""How long a subscription that asks for `disconnect` may be behind, if it does not say so itself."""
SLOW_S_MAX = 86_400.0
SlowSeconds = Annotated[float, Meta(ge=0)]

SKIPPED_MAX = 1024
"""How many subscriptions, and how many publishers, one `Skipped` names."""
SkippedEntry = tuple[TopicText, Where, Counter]


class Skipped(Struct, frozen=True, array_like=True, tag=91, gc=False):
    """From a broker to its client, in the place of messages that the client did not take in time and asked to drop.

    `entries` say how many messages each subscription misses: pattern, filter, count. With `more` other subscriptions
    miss some as well. `numbers` are the last dropped message of each publisher. `places` is how many deliveries this
    message stands for that had been counted as sent when they were dropped.
    """

    entries: Annotated[tuple[SkippedEntry, ...], Meta(max_length=SKIPPED_MAX)] = ()
    numbers: Annotated[tuple[tuple[Name, Counter], ...], Meta(max_length=SKIPPED_MAX)] = ()
    places: Counter = 0
    more: bool = False

    def joined(self, later: "Skipped") -> "Skipped":
        """What both say: nothing was delivered between them."""
        counts = {(pattern, where): count for pattern, where, count in self.entries}
        for pattern, where, count in later.entries:
            counts[pattern, where] = counts.get((pattern, where), 0) + count
        numbers = dict(self.numbers) | dict(later.numbers)
        entries = tuple((*interest, count) for interest, count in counts.items())
        return Skipped(
            entries[:SKIPPED_MAX],
            tuple(numbers.items())[-SKIPPED_MAX:],
            self.places + later.places,
            self.more or later.more or len(entries) > SKIPPED_MAX,
        )
