"""What publishers, repositories and subscribers of a reliable topic say to each other, and on which topics.

Every control event is one message on a communication topic, encoded as MessagePack. It may be lost, repeated or
reordered: each says enough to be understood by itself, and none does harm when it is heard twice. Names follow the
paper: `Order` is its P2R-Order, `PublisherAck` its R2P-ACK, `Persistent` its R2S-Persistent and so on. Everything is
said about ranges, so that the cost of control is per batch.

A stored message's identity is `(publisher, cat)`. A catenation number `cat` holds the publisher's life in its upper
bits and counts from 1, without gaps, in the lower ones: a publisher that begins anew and cannot reach the repository
which had its last messages never gives a number that was given before.
"""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from holdfast.model.batches import Batch, Name, TopicText
from holdfast.model.reliable import Entry

NUMBER_BITS = 32
LIFE_MAX = (1 << 31) - 1
NUMBER_MAX = (1 << NUMBER_BITS) - 1
RANGES_MAX = 4096
ROWS_MAX = 4096
LIVES_TOLD_MAX = 4

Stream = TopicText
Number = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Life = Annotated[int, Meta(ge=0, le=LIFE_MAX)]
Short = Annotated[str, Meta(max_length=512)]
Past = Annotated[tuple[Number, ...], Meta(max_length=LIVES_TOLD_MAX)]
"""The last catenation number of each earlier life, as far as they are told; mostly there is none, or one."""
Ranges = Annotated[tuple[tuple[Number, Number], ...], Meta(max_length=RANGES_MAX)]
Cut = Annotated[tuple[tuple[Name, Number], ...], Meta(max_length=RANGES_MAX)]
"""For each publisher and life, the catenation number up to which everything is meant."""
Lacks = Annotated[tuple[tuple[Name, Number, Number], ...], Meta(max_length=RANGES_MAX)]
"""Publisher, first and last catenation number of messages that are not meant though a cut reaches above them."""

Out = Annotated[tuple[tuple[Name, Number, Number, Number], ...], Meta(max_length=RANGES_MAX)]
"""Publisher, first and last catenation number of messages that were handed out and not acknowledged; how often."""

MESSAGES, GIVEN_UP, SKIPPED, SET_ASIDE, FORGOTTEN, DAMAGED = range(6)


def catenation(life: int, number: int) -> int:
    """The catenation number of a publisher's n-th message in that life."""
    return (life << NUMBER_BITS) | number


def life_of(cat: int) -> int:
    return cat >> NUMBER_BITS


def number_of(cat: int) -> int:
    return cat & NUMBER_MAX


# ------------------------------------------------------------------------------------------------------ parts of them


class Run(Struct, frozen=True, array_like=True, gc=False):
    """Messages published together: their catenation number, the numbers they travel under, and their fingerprint."""

    number: Number
    seq: Number
    count: Number
    crc: Number


class Row(Struct, frozen=True, array_like=True, gc=False):
    """What lies under consecutive sequence numbers of one repository.

    `kind` says whether these are messages, places that were given up, numbers that were never used, places that are set
    aside, what retention has taken (with whose it was, if it went before it was stored here), or what is damaged and
    lost (with whose it was, if that can be read). Numbers that a subscriber has acknowledged count as never used, with
    the messages that lie there. Messages of which it is told carry what it takes to find them in its buffer.
    """

    first: Number
    count: Number
    publisher: Annotated[str, Meta(max_length=128)]
    cat: Number
    kind: Annotated[int, Meta(ge=0, le=DAMAGED)] = MESSAGES
    topic: Annotated[str, Meta(max_length=1024)] = ""
    seq: Number = 0
    crc: Number = 0
    after: Past = ()
    """Among repositories: what of earlier lives comes before this life."""

    @property
    def last(self) -> int:
        return self.first + self.count - 1

    def part(self, first: int, last: int) -> "Row":
        """What of it lies within first..last; the fingerprint is that of the whole, and of no use for a part."""
        first, last = max(first, self.first), min(last, self.last)
        if first == self.first and last == self.last:
            return self
        skipped = first - self.first
        return Row(
            first, last - first + 1, self.publisher, self.cat + skipped if self.cat else 0, self.kind, self.topic
        )


Rows = Annotated[tuple[Row, ...], Meta(max_length=ROWS_MAX)]

# ----------------------------------------------------------------------------------------------------------- clients


class Probe(Struct, frozen=True, array_like=True, tag=1):
    """Who serves this stream? A client asks the bundle, and measures how long each answer takes."""

    stream: Stream
    client: Name
    token: Number


class ProbeReply(Struct, frozen=True, array_like=True, tag=2):
    stream: Stream
    repository: Name
    token: Number


class Refusal(Struct, frozen=True, array_like=True, tag=3):
    """The owner of the stream has not registered this client in that role; or somebody else, the reader, has it."""

    stream: Stream
    repository: Name
    role: Annotated[str, Meta(max_length=16)]
    reason: Short
    reader: Number = 0


class Migrate(Struct, frozen=True, array_like=True, tag=4):
    """The repository is about to leave: whoever it steers chooses another one."""

    stream: Stream
    repository: Name


# -------------------------------------------------------------------------------------------------------- publishers


class Open(Struct, frozen=True, array_like=True, tag=10):
    """A publisher begins a life: may it publish, and what was its last catenation number?"""

    stream: Stream
    publisher: Name
    life: Life
    steering: Name


class Opened(Struct, frozen=True, array_like=True, tag=11):
    stream: Stream
    repository: Name
    life: Life
    last: Past
    """The highest catenation number known of each of the publisher's latest lives before this one."""
    taken: Life
    """The highest life that was seen, this one excepted."""


class Order(Struct, frozen=True, array_like=True, tag=12):
    """P2R-Order: which messages have which catenation numbers; said to the whole bundle with every batch."""

    stream: Stream
    publisher: Name
    life: Life
    steering: Name
    after: Past
    """What of earlier lives comes before the first of this one."""
    low: Number
    """What is below was acknowledged: the publisher has it no longer."""
    high: Number
    runs: Annotated[tuple[Run, ...], Meta(max_length=RANGES_MAX)]


class Retransmit(Struct, frozen=True, array_like=True, tag=13):
    """P2R-Retransmit: messages with their catenation number, to the whole bundle."""

    stream: Stream
    publisher: Name
    life: Life
    steering: Name
    after: Past
    number: Number
    batch: Batch


class PublisherAck(Struct, frozen=True, array_like=True, tag=14):
    """R2P-ACK: everything up to `upto[k]` is stored by k+1 repositories; `ranges` above `upto[0]` are stored here."""

    stream: Stream
    repository: Name
    life: Life
    level: Annotated[str, Meta(max_length=16)]
    upto: Annotated[tuple[Number, ...], Meta(min_length=1, max_length=64)]
    ranges: Ranges


class PublisherNak(Struct, frozen=True, array_like=True, tag=15):
    """R2P-NAK: these numbers did not arrive."""

    stream: Stream
    repository: Name
    life: Life
    ranges: Ranges


# ------------------------------------------------------------------------------------------------------- subscribers


class Recovery(Struct, frozen=True, array_like=True, tag=20):
    """S2R-Recovery: a subscriber begins, comes back, or goes on with another repository."""

    stream: Stream
    subscriber: Name
    steering: Name
    pattern: TopicText
    start: Annotated[str, Meta(max_length=16)]
    """`start`, `seq`, `time`, `live`: where a subscription that is new begins. A known one goes on where it was."""
    value: Number
    position: Number
    """The sequence number from which rows are wanted, 0 for that after the sync."""
    cut: Cut = ()
    """What the subscriber has released or does not want, if it remembers."""
    anew: bool = False
    """Whether the subscription's earlier position is to be forgotten."""
    begun: bool = False
    """Whether it goes on: what was forgotten before it had it is a gap, and no matter of before its time."""
    reader: Number = 0  # Of two who read under one name, the one with the higher number may.


class Rectify(Struct, frozen=True, array_like=True, tag=21):
    """R2S-Rectify: the subscriber's sync, and what lies under the sequence numbers first..upto."""

    stream: Stream
    repository: Name
    era: Number
    sync: Number
    first: Number
    upto: Number
    end: Number
    rows: Rows
    cut: Cut = ()
    """When a subscription begins in the midst of a stream: what it does not want, or has had already."""
    session: Number = 0  # Of the repository, if it does not wait for its disk: it may have lost what it told before.
    forgotten: Cut = ()
    """If retention has reached what the subscriber had not read: up to where messages were forgotten."""
    lacks: Lacks = ()
    """Of what the cut says, what was given up: the subscriber passed over it, and if it turns up, it is new."""
    begins: bool = False  # It answers one that comes, or comes back, with all that it has to know first.
    out: Out = ()
    beyond: Cut = ()
    """The lives of which it has acknowledged something above its sync."""


class SubscriberAck(Struct, frozen=True, array_like=True, tag=22):
    """S2R-ACK: the subscriber has released these sequence numbers of its steering repository. Said to the bundle."""

    stream: Stream
    subscriber: Name
    steering: Name
    era: Number
    ranges: Ranges
    cut: Cut = ()
    """Now and then, of a few publishers: what it has released, for repositories that cannot translate its ranges."""
    reader: Number = 0
    account: Number = 0
    """Of one that acknowledges each message: the number of what follows, which is answered when it is stored."""
    reached: Cut = ()
    """The lives of which something was acknowledged above what was acknowledged as a whole, and up to where."""
    lacks: Lacks = ()
    """What of that was not acknowledged."""
    out: Out = ()
    partial: bool = False  # There is too much to tell: what was told before is true, and not all.
    waits: bool = False  # Whether it is to be stored at once, and answered then.


class SubscriberNak(Struct, frozen=True, array_like=True, tag=23):
    """S2R-NAK: these messages are missing."""

    stream: Stream
    subscriber: Name
    steering: Name
    ranges: Ranges


class Persistent(Struct, frozen=True, array_like=True, tag=24):
    """R2S-Persistent: these messages are stored; `end` is the highest sequence number given."""

    stream: Stream
    repository: Name
    era: Number
    end: Number
    rows: Rows
    session: Number = 0


class Sync(Struct, frozen=True, array_like=True, tag=25):
    """R2S-Sync: the repository is sure that the subscriber has everything up to `sync`."""

    stream: Stream
    repository: Name
    era: Number
    sync: Number
    end: Number
    session: Number = 0
    account: Number = 0  # What one that acknowledges each message has told up to this number is stored.


class Resent(Struct, frozen=True, array_like=True, tag=26):
    """Messages out of a repository's store, for a subscriber or for another repository."""

    stream: Stream
    repository: Name
    era: Number
    entries: Annotated[tuple[Entry, ...], Meta(max_length=ROWS_MAX)]
    session: Number = 0
    more: bool = False
    """Whether more follows of what was read at once."""


class Forget(Struct, frozen=True, array_like=True, tag=27):
    """These subscriptions are over. A client says so, with the time 0; repositories, to it and each other, say when."""

    stream: Stream
    teller: Name
    ends: Annotated[tuple[tuple[Name, Number, Number], ...], Meta(max_length=RANGES_MAX)]
    """Name, time in nanoseconds, and the token of whoever asked for it."""


# ------------------------------------------------------------------------------------------------------ repositories


class Gossip(Struct, frozen=True, array_like=True, tag=30):
    """Gossip-ACK, and the sign of life: what the repository stored, and how far it has what others stored.

    `rows` are complete between `first` and `upto`, if that is not 0; else they are what was just stored.
    """

    stream: Stream
    repository: Name
    era: Number
    end: Number
    serving: bool
    covers: Annotated[tuple[tuple[Name, Number, Number], ...], Meta(max_length=256)]
    registration: Number
    rows: Rows = ()
    first: Number = 0
    upto: Number = 0
    syncs: Annotated[tuple[tuple[Name, Number, Number], ...], Meta(max_length=RANGES_MAX)] = ()
    """How far subscribers are, and when their subscriptions began."""
    asks: bool = False
    """Whether everybody is to say where it is: somebody has just begun."""
    forgotten: Cut = ()
    """If it was asked for what retention has reached: up to where messages were forgotten."""
    ended: Number = 0
    """The digest of the subscriptions that are over."""
    known: Number = 0
    """The digest of the names of those that are known."""


class Tidings(Struct, frozen=True, array_like=True, tag=37):
    """Durable subscriptions, each with the time at which it began, that have had so much of each publisher's lives."""

    stream: Stream
    repository: Name
    cut: Cut
    lacks: Lacks
    subscriptions: Annotated[tuple[tuple[Name, Number], ...], Meta(max_length=RANGES_MAX)]
    out: Out = ()
    """What of the messages that they lack was handed out: a subscriber that is told no more of these gets a gap."""


class Explain(Struct, frozen=True, array_like=True, tag=31):
    """What lies under your sequence numbers from `first` on?"""

    stream: Stream
    repository: Name
    asker: Name
    first: Number


class Fetch(Struct, frozen=True, array_like=True, tag=32):
    """Send these messages out of your store."""

    stream: Stream
    repository: Name
    asker: Name
    ranges: Ranges


class Refetch(Struct, frozen=True, array_like=True, tag=36):
    """Send these messages of a publisher out of your store: what I have of them is damaged."""

    stream: Stream
    repository: Name
    asker: Name
    publisher: Name
    cat: Number
    count: Number


class Leave(Struct, frozen=True, array_like=True, tag=33):
    """Gossip-LEAVE: the repository has left the bundle."""

    stream: Stream
    repository: Name
    era: Number


class Registration(Struct, frozen=True, array_like=True, tag=34):
    """Who may publish and subscribe on a stream, as its owner says; a higher version replaces a lower one.

    `None` means everybody. `proof` is what a signature over the rest will be.
    """

    stream: Stream
    owner: Name
    version: Number
    publishers: tuple[Name, ...] | None = None
    subscribers: tuple[Name, ...] | None = None
    proof: bytes = b""

    def refusal(self, client: str, role: str) -> str:
        """Why this client may not, or nothing."""
        listed = self.publishers if role == "publish" else self.subscribers
        if listed is None or client in listed:
            return ""
        return f"{self.owner}, who owns the stream {self.stream}, has not registered {client} to {role} on it"


class AskRegistration(Struct, frozen=True, array_like=True, tag=35):
    stream: Stream
    asker: Name


ControlEvent = (
    Probe
    | ProbeReply
    | Refusal
    | Migrate
    | Open
    | Opened
    | Order
    | Retransmit
    | PublisherAck
    | PublisherNak
    | Recovery
    | Rectify
    | SubscriberAck
    | SubscriberNak
    | Persistent
    | Sync
    | Resent
    | Forget
    | Gossip
    | Tidings
    | Explain
    | Fetch
    | Refetch
    | Leave
    | Registration
    | AskRegistration
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[ControlEvent] = msgspec.msgpack.Decoder(ControlEvent)


def encode(event: ControlEvent) -> bytes:
    return _encoder.encode(event)


def decode(payload: bytes) -> ControlEvent | None:
    """The event, or `None` for what is none: whoever may publish may publish nonsense."""
    try:
        return _decoder.decode(payload)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None
