"""What brokers say to each other directly, beside and across the tree: CBCAST, causal barriers, delta-neighbourhood.

See `protocols.comparators`.
"""

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.model.batches import Batch, Name, Seq, TopicText
from holdfast.model.terms import Contact, Counter, Text

MEMBERS_MAX = 1 << 16
ENTRIES_MAX = 1 << 20
Member = Annotated[int, Meta(ge=0, lt=MEMBERS_MAX)]
"""A member's place in the roster, from 0 for the most senior."""
Group = Counter | TopicText
"""A topic, or the number that its first mention on this link, in this view, has given it."""
Patterns = Annotated[tuple[TopicText, ...], Meta(max_length=ENTRIES_MAX)]


class Enlist(Struct, frozen=True, array_like=True, tag=70, gc=False):
    """The first word of whoever dials another broker of a mesh: it wants to be a member (0), or is one by that roster.

    `Enlisted` answers the latter when the receiver knows that, too.
    """

    contact: Contact
    number: Counter


class Enlisted(Struct, frozen=True, array_like=True, tag=71, gc=False):
    pass


class Roster(Struct, frozen=True, array_like=True, tag=72):
    """Who belongs to the mesh, by seniority; where groups are part of the view, which patterns each member wants."""

    number: Counter
    members: Annotated[tuple[Contact, ...], Meta(max_length=MEMBERS_MAX)]
    patterns: Annotated[tuple[Patterns, ...], Meta(max_length=MEMBERS_MAX)] = ()


class Wish(Struct, frozen=True, array_like=True, tag=73):
    """To whoever keeps the roster: it should change, at least by these newcomers and without those who are lost.

    Who is lost was a member by the roster of that number: the next one under the same name is somebody else.
    """

    newcomers: Annotated[tuple[Contact, ...], Meta(max_length=MEMBERS_MAX)] = ()
    lost: Annotated[tuple[Name, ...], Meta(max_length=MEMBERS_MAX)] = ()
    number: Counter = 0


class FlushRequest(Struct, frozen=True, array_like=True, tag=74, gc=False):
    """The view ends: start no multicast, settle what the dead have left behind, answer `Flushed` when all is stable."""

    number: Counter
    attempt: Counter
    dead: Annotated[tuple[Name, ...], Meta(max_length=MEMBERS_MAX)]


class Flushed(Struct, frozen=True, array_like=True, tag=75):
    """Everything that the sender has sent in this view has arrived. What it wants of the next one is in here."""

    attempt: Counter
    patterns: Patterns
    newcomers: Annotated[tuple[Contact, ...], Meta(max_length=MEMBERS_MAX)]
    leaving: bool


class Cast(Struct, frozen=True, array_like=True, tag=76, gc=False):
    """A batch to a group, from the broker where it was published (CBCAST).

    `clock` has the entries of the sender's vector clocks that changed since its last cast to this receiver: by group, a
    flat row of member, count, member, count. All casts of the sender up to number `stable` have arrived everywhere.
    """

    view: Counter
    serial: Counter
    stable: Counter
    clock: Annotated[tuple[tuple[Group, tuple[Counter, ...]], ...], Meta(max_length=ENTRIES_MAX)]
    batch: Batch


class Copied(Struct, frozen=True, array_like=True, tag=77, gc=False):
    """A cast of a member that died, for whoever may lack it; its clock is whole."""

    sender: Name
    cast: Cast


class Stable(Struct, frozen=True, array_like=True, tag=78, gc=False):
    """All casts of the sender in this view, up to that number, have arrived everywhere: nobody need keep them."""

    view: Counter
    serial: Counter


class Barred(Struct, frozen=True, array_like=True, tag=80, gc=False):
    """A batch to these targets, number `serial` of its sender (causal barriers).

    `barriers` says for every broker which messages, as pairs of sender and number, it must have before this one; names
    are written as places in `names`.
    """

    serial: Seq
    names: Annotated[tuple[Name, ...], Meta(max_length=MEMBERS_MAX)]
    targets: Annotated[tuple[Counter, ...], Meta(max_length=MEMBERS_MAX)]
    barriers: Annotated[tuple[tuple[Counter, tuple[Counter, ...]], ...], Meta(max_length=ENTRIES_MAX)]
    batch: Batch


class Passed(Struct, frozen=True, array_like=True, tag=81, gc=False):
    """A batch on its way along a tree, of which it may skip brokers that do not answer (delta-neighbourhood).

    `path` has the last brokers on its way, oldest first, each with the number that it gave the batch; one that was
    skipped has no name and no number.
    """

    path: Annotated[tuple[tuple[Text, Counter], ...], Meta(max_length=MEMBERS_MAX)]
    batch: Batch


class PassedAck(Struct, frozen=True, array_like=True, tag=82, gc=False):
    """Everybody behind the sender, as seen from the receiver, has the batch to which the receiver gave this number."""

    serial: Counter
