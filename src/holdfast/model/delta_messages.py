"""What the nodes of a delta-fault-tolerant tree say to each other: see protocols.delta."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from holdfast.model.batches import Batch, Name, TopicText
from holdfast.model.terms import Counter, Text, Where

HOPS_MAX = 16
NODES_MAX = 1 << 16
PART_MAX = 1024
"""So many links, or entries, one part of the routing information holds."""
NUMBERS_MAX = 4096

Visit = tuple[Name, Counter, Counter]
"""A node that passed a message on, its life, and the number that it gave the message; 0 if it was skipped."""
Path = tuple[Annotated[tuple[Name, ...], Meta(max_length=HOPS_MAX)], bool]
"""The nodes on the way to a destination, which is the last of them; and whether that is a client."""
Place = tuple[Name, Name, bool, Text]
"""A link of the tree: parent, child, whether the child is a client, and the child's address."""
Entry = tuple[TopicText, Where, Name]
"""A filter, and the node towards which its messages go: the subscriber, or the broker delta+1 hops on the way."""


class Change(Struct, frozen=True, array_like=True, gc=False):
    """Something that all, or all nearby, have to know before it counts.

    `s`: somebody wants the filter `pattern`, `where`, on the way to `node`; `u`: nobody there wants it any more. `j`:
    `node` has joined below `parent`; `l`: it has left. `r`: `node` is back and has what was kept for it.
    """

    source: Name
    life: Counter
    serial: Counter
    what: Literal["s", "u", "j", "l", "r"]
    node: Name
    pattern: Annotated[str, Meta(max_length=1024)] = ""
    where: Where = ""
    parent: Text = ""
    client: bool = False
    address: Text = ""


class Multicast(Struct, frozen=True, array_like=True, tag=130, gc=False):
    """A batch, or a change, on its way. `number` is the sender's own; `Conf` repeats it.

    `visited` has the last hops. To a node that recovers it is `guided`: `to` has the ways to those who must get it.
    In its `turn` the receiver stands in for these skipped brokers towards their clients.
    """

    number: Counter
    visited: Annotated[tuple[Visit, ...], Meta(max_length=HOPS_MAX)]
    change: Change | None
    guided: bool
    to: Annotated[tuple[Path, ...], Meta(max_length=NODES_MAX)]
    turn: Annotated[tuple[Name, ...], Meta(max_length=NODES_MAX)]
    batch: Batch | None


class Conf(Struct, frozen=True, array_like=True, tag=131, gc=False):
    """All non-failed destinations behind the sender have these; to the failed ones named it is kept."""

    numbers: Annotated[tuple[Counter, ...], Meta(max_length=NUMBERS_MAX)]
    lacking: tuple[tuple[Counter, tuple[Name, ...]], ...] = ()


class Greeting(Struct, frozen=True, array_like=True, tag=132):
    """The first word of each side on a new link: its operational state, and whom it has skipped since they were there.

    A client says where its home is, and whether it has joined there.
    """

    state: Literal["operational", "recovering", "joining", "client"]
    life: Counter
    skipped: Annotated[tuple[Name, ...], Meta(max_length=NODES_MAX)] = ()
    home: Text = ""
    joined: bool = False
    address: Text = ""


class RoutingPart(Struct, frozen=True, array_like=True, tag=133):
    """A part of the sender's routing information as the receiver needs it, behind all traffic."""

    links: Annotated[tuple[Place, ...], Meta(max_length=PART_MAX)]
    entries: Annotated[tuple[Entry, ...], Meta(max_length=PART_MAX)]
    complete: bool


class Status(Struct, frozen=True, array_like=True, tag=134):
    """The sender is operational, or recovers from now on; or `node`, between it and the receiver, is back; or the
    receiver was skipped; or somebody has gone past `node`, which has to hear of it."""

    what: Literal["operational", "recovering", "back", "skipped", "past"]
    node: Text = ""
