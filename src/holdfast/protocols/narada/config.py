"""The settings of participants: every bound and every pace has a name here."""

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.model.batches import PAYLOAD_BYTES_MAX
from holdfast.model.reliable import Level

Seconds = Annotated[float, Meta(gt=0, le=86_400)]
PositiveInt = Annotated[int, Meta(ge=1)]

RELIABLE_PAYLOAD_BYTES_MAX = PAYLOAD_BYTES_MAX - (1 << 14)
"""A stored message is sent again inside a control event, which is a message too."""


class SteeringConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """How a client finds its steering repository, and when it gives one up."""

    probe_s: Seconds = 0.5
    """How long answers are waited for before the bundle is asked again; doubles up to `probe_max_s`."""
    probe_max_s: Seconds = 4.0
    grace_s: Seconds = 0.02
    """How much later than the first answer another one may come and still be chosen."""
    failover_s: Seconds = 1.5
    """A steering repository that was asked and said nothing for so long is given up."""


class PublisherConfig(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    stream: str
    copies: PositiveInt = 1
    """A publication counts as stored when so many repositories have it."""
    buffer_bytes_max: PositiveInt = 8 << 20
    buffer_count_max: PositiveInt = 100_000
    """Beyond either bound `publish` is refused until some are stored."""
    batch_bytes_max: PositiveInt = 1 << 18
    """More than what is not stored travels in: each batch has an order, a row and a place in an index to itself."""
    batch_count_max: PositiveInt = 1024
    resend_s: Seconds = 0.2
    """Silence after which what is not acknowledged is ordered again; doubles up to `resend_max_s`."""
    resend_max_s: Seconds = 2.0
    resend_runs_max: PositiveInt = 64
    steering: SteeringConfig = SteeringConfig()


class SubscriberConfig(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    stream: str
    pattern: str = ""
    """What of the stream is wanted; all of it if empty."""
    where: str = ""
    start: Annotated[str, Meta(pattern="^(start|seq|time|live)$")] = "start"
    """Where a subscription begins that no repository knows; a known one goes on where it was, unless `anew`."""
    value: Annotated[int, Meta(ge=0)] = 0
    """The sequence number, or the time in nanoseconds, to start from."""
    anew: bool = False
    reader: Annotated[int, Meta(ge=0)] = 0
    """Greater than that of everybody who read under this name before: those are refused. 0: all may read."""
    remember: bool = False
    """Whether the beginning and every release is followed by a `Persist` of what was released, or is not wanted."""
    buffer_bytes_max: PositiveInt = 8 << 20
    """Messages that wait for their persistence events; beyond it the oldest go, and are asked for when they are due."""
    rows_max: PositiveInt = 4096
    """Persistence events that wait for their messages; beyond it the highest go, and are asked for when due."""
    unconsumed_bytes_max: PositiveInt = 4 << 20
    """What the application has not consumed; beyond it nothing is released.

    Beyond it, and with half of the buffer full, nothing more is listened to: what comes is got out of the store later.
    """
    unacked_max: Annotated[int, Meta(ge=1, le=2048)] = 1000
    """Messages handed out and not acknowledged, where each is; at the bound no more are handed out."""
    by_key: bool = False
    """Whether messages that are given back are kept in order with others of their keys, and not of their publisher."""
    nak_s: Seconds = 0.05
    """How long a message is waited for after its persistence event before it is asked for."""
    fetching_s: Seconds = 0.2
    """How long an answer is waited for while messages come out of the store, and not as they are published."""
    ack_s: Seconds = 0.25
    beat_s: Seconds = 1.0
    """A subscriber acknowledges at least so often, and thereby asks for a sign of life."""
    steering: SteeringConfig = SteeringConfig()


class RepositoryConfig(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    level: Level = Level.FSYNCED
    """What an acknowledgement stands for."""
    buffer_bytes_max: PositiveInt = 32 << 20
    """Messages that wait for their order; beyond it the oldest go, and are fetched again."""
    commit_bytes_max: PositiveInt = 2 << 20
    """When so much waits for the next commit, what comes waits for the one after it: small ones follow each other."""
    orders_max: PositiveInt = 4096
    """Orders of one publisher that wait for their messages; beyond it the highest go, and come again."""
    places_max: PositiveInt = 1024
    """Ranges of places set aside; beyond it nothing that would take one more is stored."""
    chains_max: PositiveInt = 100_000
    """Lives of publishers that a stream remembers; beyond it a new publisher is refused."""
    lives_max: PositiveInt = 16
    """Lives of one publisher that are remembered; what comes from one before is dropped."""
    subscribers_max: PositiveInt = 10_000
    table_rows_max: PositiveInt = 8192
    """Rows of the repository table, for each repository; older ones are asked for again, or read from the store."""
    pending_max: PositiveInt = 1024
    """Acknowledged ranges of a subscriber that wait for the gossip that translates them, for each repository."""
    read_bytes_max: PositiveInt = 384 << 10
    fetch_bytes_max: PositiveInt = 1 << 20
    """The same for what another repository has missed, which is more as a rule."""
    reads_max: PositiveInt = 64
    """Reads under way at once; beyond it requests are dropped, and come again."""
    reserve: PositiveInt = 1 << 20
    """Sequence numbers reserved at once, where an acknowledgement does not wait for the disk."""
    ripen_s: Seconds = 0.5
    """How long syncs and covers wait for a commit that is made for something else, before they get one."""
    nak_s: Seconds = 0.03
    gossip_s: Seconds = 0.05
    beat_s: Seconds = 1.0
    fetch_s: Seconds = 0.15
    """How long a message that another repository has is waited for before it is fetched from there."""
    learn_s: Seconds = 0.4
    """How long a repository that begins waits for another one to learn from, before it serves alone."""
    alone_s: Seconds = 0.05
    """The same for one that knew of no other when it ended."""
    mend_s: Seconds = 30.0
    """How long another repository may take to send what is damaged here, before readers are told of a gap."""
    assist_s: Seconds = 2.0
    """How long an assisting repository may say nothing."""
