"""Everything that two nodes say to each other.

Frames are what a connection carries. Most are about the connection itself; `Data` is the numbered frame that carries
one session message. Session messages are lossless and in order across connections: see `protocols.links`.
Every struct travels as a tagged array; tags are never reused.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from holdfast.model.batches import BATCH_COUNT_MAX, KEYS_MAX, Attributes, Batch, Key, Name, Rank, Seq, TopicText
from holdfast.model.crossed_messages import Crossed
from holdfast.model.delta_messages import Conf, Greeting, Multicast, RoutingPart, Status
from holdfast.model.direct_messages import (
    Barred,
    Cast,
    Copied,
    Enlist,
    Enlisted,
    Flushed,
    FlushRequest,
    Passed,
    PassedAck,
    Roster,
    Stable,
    Wish,
)
from holdfast.model.hole_messages import Hole
from holdfast.model.local_tree_messages import Admission, Admitted, Farewell, Surroundings
from holdfast.model.name_messages import Named, Recall, Recalled
from holdfast.model.receipt_messages import CLEAN, UNKNOWN_AGE_S, Age, Finding
from holdfast.model.relay_messages import Relay, Standing
from holdfast.model.site_messages import (
    Agreed,
    Announce,
    Announced,
    Assignment,
    Attendance,
    Contacts,
    Establish,
    Forward,
    Marks,
    Notification,
    Notified,
    Offer,
    Owed,
    Promised,
    Propose,
    Replicate,
    Replicated,
    Retransmission,
    SiteAnswer,
    SiteRequest,
    SiteState,
    StateEnd,
    StateRequest,
    StreamState,
    TakeOver,
    Yielded,
)
from holdfast.model.slow_messages import SLOW_S, Skipped, Slow, SlowSeconds
from holdfast.model.terms import Contact, Counter, Text, Where

WIRE_VERSION = 3

REASON_CHARACTERS_MAX = 1024
Reason = Annotated[str, Meta(max_length=REASON_CHARACTERS_MAX)]
Interest = tuple[TopicText, Where]
INTERESTS_MAX = 1024
"""How many of them one message holds."""
NUMBERS_MAX = 4096
"""How many publishers' last numbers one message holds."""


# ---------------------------------------------------------------------------------------------- session messages


class Publish(Struct, frozen=True, array_like=True, tag=20, gc=False):
    """A batch on its way from its publisher to everybody interested; from a broker to a client it is a delivery."""

    batch: Batch


class Subscribe(Struct, frozen=True, array_like=True, tag=21, gc=False):
    """The sender wants what matches; `SubscribeAck` says that every broker behind the receiver knows.

    A client's subscription that `spills` is one for whose messages somebody else stands in: if the client does not take
    them in time its broker leaves them out. Of another one `slow` says what its broker does then, for `disconnect`
    after `slow_s` seconds; `dropped` is how many messages the client itself has dropped of it, for people to see.
    """

    token: Counter
    pattern: TopicText
    where: Where
    spills: bool = False
    slow: Slow = "block"
    slow_s: SlowSeconds = SLOW_S
    dropped: Counter = 0


class SubscribeAck(Struct, frozen=True, array_like=True, tag=22, gc=False):
    token: Counter


class Unsubscribe(Struct, frozen=True, array_like=True, tag=23, gc=False):
    """The sender takes a subscription back; `UnsubscribeAck` says that nothing more will come because of it.

    `slow`: the client has ended the subscription because its application did not read.
    """

    token: Counter
    pattern: TopicText
    where: Where
    slow: bool = False


class UnsubscribeAck(Struct, frozen=True, array_like=True, tag=24, gc=False):
    token: Counter


class Interests(Struct, frozen=True, array_like=True, tag=25, gc=False):
    """What is wanted on the sender's side of a link that is new; `complete` with the last part."""

    entries: Annotated[tuple[Interest, ...], Meta(max_length=INTERESTS_MAX)]
    complete: bool


class Confirm(Struct, frozen=True, array_like=True, tag=26, gc=False):
    """Follows a publication on its own streams, to everybody whom that was routed to; each client among them judges.

    `attributes` are the message's, for filters. `age_s` is how long before this question the message was published: a
    subscription that was confirmed less long ago is not owed it. A question of unknown age is answered by whoever gets
    it as if the message had come. With `taken`, the message has to be the application's, not only its client's.
    """

    token: Counter
    topic: TopicText
    publisher: Name
    seq: Seq
    attributes: Attributes = {}
    age_s: Age = UNKNOWN_AGE_S
    taken: bool = False


class ConfirmAck(Struct, frozen=True, array_like=True, tag=27, gc=False):
    """What is known of everybody behind the sender."""

    token: Counter
    finding: Finding = CLEAN


class Rejected(Struct, frozen=True, array_like=True, tag=28, gc=False):
    """A request of a client that surely was not carried out: `token` for a request, `first..last` for publications."""

    token: Counter
    first: Counter
    last: Counter
    reason: Reason


class TotalRequest(Struct, frozen=True, array_like=True, tag=30, gc=False):
    """A total batch on its way to the root of its topic's subtree (Ginger, section 3.5).

    Of `ginger-locks` alone, as the three that follow.
    """

    batch: Batch


class TotalMarker(Struct, frozen=True, array_like=True, tag=31, gc=False):
    """From the topic's root down: cut these keys for the total batch `(publisher, first)`."""

    publisher: Name
    first: Seq
    topic: TopicText
    keys: Annotated[tuple[Key, ...], Meta(max_length=KEYS_MAX * BATCH_COUNT_MAX)]


class TotalAck(Struct, frozen=True, array_like=True, tag=32, gc=False):
    """Everybody below the sender has cut; what the sender had passed before stands before it on the link."""

    publisher: Name
    first: Seq


class TotalProcessed(Struct, frozen=True, array_like=True, tag=33, gc=False):
    """The cut is complete: deliver the batch, let go what waited. Without a batch: it is done, and not for you."""

    publisher: Name
    first: Seq
    batch: Batch | None


class Climb(Struct, frozen=True, array_like=True, tag=38, gc=False):
    """A batch on its way up to the top of its topic's subtree, or behind one (see `protocols.ginger.turning`)."""

    batch: Batch


class Turned(Struct, frozen=True, array_like=True, tag=39, gc=False):
    """What the sender was sent up of this publisher, until that number, has turned: it spreads from there."""

    publisher: Name
    last: Seq


# ---- the tree: views, joins and repairs (Ginger, chapter 4; see protocols.ginger.repairing_broker)

Kind = Literal["broker", "client"]


class Twig(Struct, frozen=True, array_like=True):
    """A node of the tree with what is below it, as deep as whoever tells it knows or cares."""

    name: Name
    kind: Kind
    epoch: Counter
    address: Text
    twigs: tuple["Twig", ...] = ()


Dead = tuple[tuple[Name, Counter], ...]


class Upward(Struct, frozen=True, array_like=True):
    """What a node needs when its parent dies: its ancestors, the root's children by seniority, the root's view.

    `alive` are those who were taken for dead while the network was parted, and are not. `lost` are the brokers that
    the root of this part of the tree looks for: its heir looks for them in its place.
    """

    chain: tuple[Contact, ...]
    senior: tuple[Contact, ...]
    siblings: tuple[Twig, ...]
    alive: Dead = ()
    lost: tuple[Contact, ...] = ()


class Unstable(Struct, frozen=True, array_like=True, tag=40, gc=False):
    """Before a `Join`: a record of the joiner's link with its dead parent that may be needed.

    It was sent, received, asked for (`t`), or asked for, said to be done, and never seen here (`d`); the first `after`
    of these records went by before that. `number` is its place in the joiner's processing order.
    """

    flag: Literal["s", "r", "t", "d"]
    batch: Batch
    after: Counter
    number: Counter


class Numbers(Struct, frozen=True, array_like=True, tag=51):
    """Before a `Join`: more of what it says to be `processed`."""

    processed: Annotated[dict[Name, Counter], Meta(max_length=NUMBERS_MAX)]


class Join(Struct, frozen=True, array_like=True, tag=41):
    """The sender asks the receiver to become its parent; nothing else travels on the link before `Open`.

    `old` is the broker that it had before, if it comes from another one. A client that is not `patient` wants total
    publications refused where they are not served now. The first `inherited` of the records are those that it had when
    the link with the lost broker was opened; the others stand in the order in which that one has passed them on.
    Of the interests, the `unconfirmed` are new: nobody was told yet that they are known everywhere.
    `meant` is the epoch of the receiver that the sender turns to, `old_epoch` that of `old` that it had; 0 is any.
    A part of the tree that is not `whole` has let go of messages that the receiver's side lacks. The sender is
    `merging` if two parts of the tree had not quite come together over the link that it has lost. On topics that are
    `doubtful`, total messages may have turned where the sender has lost somebody. A broker that is `apart` has not
    been in a part with a majority, or has yet to get what one has ordered.
    """

    twig: Twig
    old: Text
    dead: Dead
    processed: Annotated[dict[str, Counter], Meta(max_length=NUMBERS_MAX)]
    interests: tuple[Interest, ...]
    version: Counter
    published: Counter
    patient: bool = True
    inherited: Counter = 0
    unconfirmed: tuple[Interest, ...] = ()
    meant: Counter = 0
    old_epoch: Counter = 0
    whole: bool = True
    merging: bool = False
    doubtful: tuple[Interest, ...] = ()
    apart: bool = False


class Open(Struct, frozen=True, array_like=True, tag=42):
    """The receiver is taken in. The next `hold` records on the link settle the repair; `taken` of its own were used.

    If there are `more`, it says only a part of what is wanted, and the rest follows in others.
    """

    interests: tuple[Interest, ...]
    upward: Upward
    dead: Dead
    hold: Counter
    taken: Counter
    more: bool = False


class View(Struct, frozen=True, array_like=True, tag=43):
    """What changed around the sender; `ViewAck` when everybody within so many hops knows.

    `dead` are those that the receiver was not told of on this link.
    """

    version: Counter
    hops: Counter
    twigs: tuple[Twig, ...] | None
    upward: Upward | None
    dead: Dead


class ViewAck(Struct, frozen=True, array_like=True, tag=44, gc=False):
    version: Counter


class Seek(Struct, frozen=True, array_like=True, tag=45, gc=False):
    """From the root of one part of a tree that was parted: are you one of these, whom I have lost?

    The one that was lost first, the `keeper`, would keep what the sender lacks. A root that nobody keeps anything for
    `insists`: it joins all the same, and its subscribers hear of the hole. `root` is that of the sender's tree. Without
    a keeper it only asks what became of the receiver. `address` is where the sender can be reached.
    """

    lost: Dead
    insists: bool = False
    keeper: Text = ""
    root: Text = ""
    address: Text = ""


class Found(Struct, frozen=True, array_like=True, tag=46, gc=False):
    """The receiver of `Seek` may join: what it lacks is `kept` for it, or it has insisted."""

    kept: bool = True


class Sought(Struct, frozen=True, array_like=True, tag=52, gc=False):
    """Up to the root of a part: the root of another part was here, and cannot join this one. It can be joined."""

    root: Contact


class Census(Struct, frozen=True, array_like=True, tag=47, gc=False):
    """From child to parent: so many of the configured brokers are below and including the sender."""

    version: Counter
    size: Counter


class Counted(Struct, frozen=True, array_like=True, tag=48, gc=False):
    """From the root down: whether it has a majority of the `brokers`, that `Census` included (0: nobody asked)."""

    version: Counter
    majority: bool
    brokers: Counter


class Merged(Struct, frozen=True, array_like=True, tag=49, gc=False):
    """Behind what a merge brings: from here on total messages of the majority come before what is published there."""


StepDown = Literal["adopt", "adopted", "commit", "committed", "cancel"]
Step = Literal["ask", "ready", "freeze", "frozen", "drained", "thaw", "thawed", "declined", "doubt", "no"] | StepDown


class Move(Struct, frozen=True, array_like=True, tag=50):
    """One step of moving the broker `name`, a child of the one that decides, below another child of it.

    `serial` is that one's number of the attempt. What the other fields say is told in `protocols.ginger.tree_shape`.
    """

    step: Step
    serial: Counter
    name: Name
    contact: Contact | None = None
    twig: Twig | None = None
    interests: tuple[Interest, ...] = ()
    position: Counter = 0
    size: Counter = 0
    dead: Dead = ()


SessionMessage = (
    Publish
    | Subscribe
    | SubscribeAck
    | Unsubscribe
    | UnsubscribeAck
    | Interests
    | Confirm
    | ConfirmAck
    | Recall
    | Recalled
    | Named
    | Rejected
    | Climb
    | Turned
    | TotalRequest
    | TotalMarker
    | TotalAck
    | TotalProcessed
    | Unstable
    | Numbers
    | Join
    | Open
    | View
    | ViewAck
    | Seek
    | Found
    | Census
    | Counted
    | Merged
    | Sought
    | Move
    | Enlist
    | Enlisted
    | Roster
    | Wish
    | FlushRequest
    | Flushed
    | Cast
    | Copied
    | Stable
    | Barred
    | Passed
    | PassedAck
    | Relay
    | Standing
    | Surroundings
    | Admission
    | Admitted
    | Farewell
    | Contacts
    | Offer
    | Forward
    | Replicate
    | Replicated
    | Marks
    | Retransmission
    | Notification
    | Notified
    | SiteRequest
    | SiteAnswer
    | Attendance
    | Propose
    | Promised
    | Establish
    | TakeOver
    | Yielded
    | Announce
    | Announced
    | SiteState
    | StreamState
    | Owed
    | StateEnd
    | StateRequest
    | Assignment
    | Agreed
    | Hole
    | Crossed
    | Skipped
    | Multicast
    | Conf
    | Greeting
    | RoutingPart
    | Status
)

# ------------------------------------------------------------------------------------------------------- frames


class Hello(Struct, frozen=True, array_like=True, tag=1, gc=False):
    """The first frame of whoever dialled: who it is, which session this connection goes on with, what it has of it.

    `received` and `credit` are as in `Ack`. `resume` is true when the session exists already: a peer that does not
    know it must refuse, since going on would hide a loss.
    """

    version: int
    node: Name
    kind: Kind
    cluster: Annotated[str, Meta(max_length=128)]
    session: Counter
    resume: bool
    received: Counter
    credit: Counter
    sited: bool = False
    """Whether this client knows what to do at a site of several brokers: see protocols.sesdad."""


class Welcome(Struct, frozen=True, array_like=True, tag=2, gc=False):
    """The answer to `Hello`: who is here, what it has of the session, and what it can do.

    `published` is the highest number known of that publisher: a new session under an old name goes on after it. It is
    not `exact` if the broker has lost count in a crash: then it is merely high enough.
    """

    node: Name
    received: Counter
    credit: Counter
    published: Counter
    protocol: Name
    guarantees: tuple[Rank, ...]
    payload_bytes_max: int
    tolerance: Annotated[int, Meta(ge=0, le=8)] = 0
    exact: bool = True


class Refusal(Struct, frozen=True, array_like=True, tag=3, gc=False):
    """The answer to a `Hello` that cannot be accepted; the connection closes after it.

    To a client whose name was `taken` by another one, `later` is that one's identity.
    """

    code: Literal[
        "version",
        "cluster",
        "name",
        "unknown-session",
        "not-ready",
        "full",
        "misuse",
        "kind",
        "excluded",
        "moved",
        "late",
        "elsewhere",
        "apart",
        "same-tree",
        "taken",
        "site",
    ]
    reason: Reason
    later: Text = ""


LAP = 128
"""Link numbers are told modulo this: one byte is enough, since a connection neither loses nor reorders anything."""


class Data(Struct, frozen=True, array_like=True, tag=4, gc=False):
    """The next session message; `seq` is its number modulo `LAP`, counted from 1 in each direction.

    Where to go on is agreed in `Hello` and `Welcome`, with the whole number; this one shows that nothing was skipped.
    """

    seq: Annotated[int, Meta(ge=0, le=LAP - 1)]
    message: SessionMessage


class Ack(Struct, frozen=True, array_like=True, tag=5, gc=False):
    """Everything up to `received` has arrived; the sender may have sent `credit` bytes of cost since the beginning."""

    received: Counter
    credit: Counter


class Levels(Struct, frozen=True, array_like=True, tag=9, gc=False):
    """Up to which position of each direction every level of stability holds: see `protocols.stability`."""

    came: tuple[Counter, ...]
    went: tuple[Counter, ...]


class Ping(Struct, frozen=True, array_like=True, tag=6, gc=False):
    """Are you there? Answered by `Pong` with the same number."""

    number: Counter


class Pong(Struct, frozen=True, array_like=True, tag=7, gc=False):
    number: Counter


class Goodbye(Struct, frozen=True, array_like=True, tag=8, gc=False):
    """The session ends here, on purpose: nothing more will come, nothing will be resumed."""

    reason: Reason


Frame = Hello | Welcome | Refusal | Data | Ack | Levels | Ping | Pong | Goodbye
