"""The interface of the participants of a reliable topic, and the contract of whoever drives them.

A publisher, a subscriber or a repository is a pure machine above an ordinary client session: all that it can do is to
publish, to listen to patterns, to set timers, and (a repository) to use a store. Each entry point takes what happened
and the time, and returns the effects in the order in which they must happen.

The driver's duties
1. Call `start` once, first. Never call an entry point from inside another one, nor two at a time.
2. Carry the effects out in order, all of them, before the next entry point is called.
3. `Listen` subscribes; whatever arrives that matches a pattern listened to is handed over by `heard`, however often it
   arrives and in whatever order. What was listened to before it was confirmed may be missed: the layer repairs that.
4. `Say` publishes one control event, with the weakest guarantee. It may get lost.
5. `Emit` publishes the messages of an application, one after the other and nothing in between, with the guarantee that
   it names, and is answered at once by `emitted` with the number that the session gave the first of them.
6. `Append`, `Mend`, `Discard` and `Put` go to the store; `Commit` makes everything since the last one durable at that
   level, all of it or nothing, and is answered by `stored`. There is one commit at a time. `Read` and `Find` are
   answered by `fetched`, `Locate` by `located`; they see what was committed. The answers may come any time later, or
   never, if the driver dies. `Inspect` has the driver look at everything that is stored; `harmed` is the answer.
7. `Release` and `StreamGap` are handed to the application in order. A `Persist` that follows them in the same list says
   what was released; a driver that stores both in one transaction gives its application each message once, across
   crashes of the subscriber too. `start` gets back what was persisted.
8. Call `consumed` when the application has taken what was released: the subscriber releases so much more.
   A subscriber whose application acknowledges each message releases nothing: `Ready` says that `hand_out` may have the
   next message, or a gap. Its application answers with `ack` or `nack`; `Acknowledged` says which of these are stored.
9. Call `settle` soon after something was handed over and nothing more is waiting right now. What is published, stored
   and acknowledged leaves there, so a driver that forgets it stalls.
10. A timer fires once, at or after its time, by `timer(name)`. Setting a name again replaces it.
11. `now` is in seconds on a clock that never goes back. A publisher's `life` is larger than that of every earlier one
    of its name: seconds of the wall clock since the year 2020 will do, if a new life waits for the next second.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from holdfast.model.batches import Batch
from holdfast.model.reliable import Entry, Level
from holdfast.protocols.narada.event_checks import is_sensible
from holdfast.protocols.narada.events import ControlEvent, decode
from holdfast.protocols.node import CancelTimer, Persist, Report, SetTimer

# ------------------------------------------------------------------------------------------------------ effects


class Listen(Struct, frozen=True, gc=False):
    pattern: str


class Unlisten(Struct, frozen=True, gc=False):
    pattern: str


class Say(Struct, frozen=True, gc=False):
    """Publish one control event."""

    topic: str
    payload: bytes


class Emit(Struct, frozen=True, gc=False):
    """Publish these messages, and answer by `emitted`. The session gives them their numbers: `batch.first` is none."""

    token: int
    batch: Batch


# ---- effects of repositories


class Append(Struct, frozen=True, gc=False):
    stream: str
    entries: Sequence[Entry]


class Discard(Struct, frozen=True, gc=False):
    """Forget everything below this sequence number, with the next commit."""

    stream: str
    before: int


class Mend(Struct, frozen=True, gc=False):
    """Put these entries in the place of what is damaged."""

    stream: str
    entries: Sequence[Entry]


class Put(Struct, frozen=True, gc=False):
    key: str
    value: bytes


class Commit(Struct, frozen=True, gc=False):
    token: int
    level: Level


class Read(Struct, frozen=True, gc=False):
    """What is stored under first..last, until `bytes_max` are exceeded; answered by `fetched`."""

    token: int
    stream: str
    first: int
    last: int
    bytes_max: int


class Find(Struct, frozen=True, gc=False):
    """The same by the catenation numbers of a publisher; answered by `fetched`, too."""

    token: int
    stream: str
    publisher: str
    cat_first: int
    cat_last: int
    bytes_max: int


class Inspect(Struct, frozen=True, gc=False):
    """Something is not there that was stored: look at everything, and answer by `harmed`, sooner or later."""

    stream: str


class Locate(Struct, frozen=True, gc=False):
    """The first sequence number stored at or after that time; answered by `located`."""

    token: int
    stream: str
    time_ns: int


# ---- effects of publishers and subscribers, for the application above them


class Opening(Struct, frozen=True, gc=False):
    """The publisher may publish. `last` is the catenation number of the last message that is known of earlier lives."""

    stream: str
    life: int
    last: int


class Stored(Struct, frozen=True, gc=False):
    """Every publication up to `number` is stored at that level by so many repositories."""

    stream: str
    number: int
    level: str
    copies: int


class Rejected(Struct, frozen=True, gc=False):
    """Publications from `first` on were refused, or the subscription was.

    `definite` when they surely are nowhere; else some repository may have them, and others may get them from it.
    """

    stream: str
    first: int
    definite: bool
    reason: str


class SubscriptionEnded(Struct, frozen=True, gc=False):
    """That repository has stored that the subscription is over."""

    stream: str
    subscription: str
    repository: str


class Begun(Struct, frozen=True, gc=False):
    """The subscription is known to that repository; whatever is stored from now on will be released."""

    stream: str
    repository: str


class Release(Struct, frozen=True, gc=False):
    """Hand these messages to the application. `entry.first` is their sequence number at `repository`."""

    stream: str
    repository: str
    entry: Entry


class StreamGap(Struct, frozen=True, gc=False):
    """These messages of a publisher were given up, forgotten before they were read, or damaged: they will not come.

    Where it cannot be told any more whose they were there is no publisher, and these are sequence numbers.
    """

    stream: str
    publisher: str
    first: int
    last: int
    forgotten: bool = False
    damaged: bool = False


class Ready(Struct, frozen=True, gc=False):
    """There may be something for `hand_out`, where an application acknowledges each message."""

    stream: str


class Acknowledged(Struct, frozen=True, gc=False):
    """These acknowledgements are stored: what they are of does not come again."""

    stream: str
    tickets: tuple[int, ...]


Effect = (
    Listen
    | Unlisten
    | Say
    | Emit
    | Append
    | Discard
    | Mend
    | Put
    | Commit
    | Read
    | Find
    | Inspect
    | Locate
    | Opening
    | Stored
    | Rejected
    | SubscriptionEnded
    | Begun
    | Release
    | StreamGap
    | Ready
    | Acknowledged
    | SetTimer
    | CancelTimer
    | Persist
    | Report
)
Effects = list[Effect]


def control_events(batch: Batch, effects: Effects) -> Iterator[ControlEvent]:
    """What is said in a batch on a communication topic; nonsense goes to `effects`, as a report."""
    for payload in batch.payload_list():
        event = decode(payload)
        if event is None or not is_sensible(event):
            effects.append(Report("nonsense", detail=f"on {batch.topic} from {batch.publisher}"))
        else:
            yield event


# ---------------------------------------------------------------------------------------------------- interface


class Participant(Protocol):
    """What every participant offers its driver."""

    name: str

    def start(self, now: float) -> Effects: ...

    def heard(self, batch: Batch, now: float) -> Effects: ...

    def timer(self, name: str, now: float) -> Effects: ...

    def settle(self, now: float) -> Effects: ...

    def check_invariants(self) -> None:
        """Raise `AssertionError` with a sentence if the state is one that cannot be."""
        ...

    def waiting_for(self) -> list[str]:
        """In words, what this participant is waiting for; empty when it waits for nothing."""
        ...

    def status(self) -> dict[str, object]:
        """A snapshot for people: JSON-able values only."""
        ...
