"""What brokers of sites, and their clients, say to each other. See protocols.sesdad.

A stream is what one publisher sends over one hop: from itself to its site, from site to site, from a site to a
subscriber. The messages of a stream are numbered from 1 on each hop (on the first one as the publisher numbers them);
a batch of several messages has as many consecutive numbers. Where a stream comes from is its `source`: the name of a
site, or nothing if the publisher is a client of the site itself.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from holdfast.model.batches import Batch, Name, Seq, TopicText
from holdfast.model.terms import Contact, Counter, Text, Where

MEMBERS_MAX = 16
ENTRIES_MAX = 1 << 16
Version = Counter
"""The number of a state of the routing table: the epoch of its designated broker, then a count of 32 bits."""
Mark = tuple[Text, Name, Counter]
"""Source, publisher and the number up to which everything of that stream has come."""
MarkList = Annotated[tuple[Mark, ...], Meta(max_length=ENTRIES_MAX)]
InterestList = Annotated[tuple[tuple[TopicText, Where], ...], Meta(max_length=ENTRIES_MAX)]


class Contacts(Struct, frozen=True, array_like=True, tag=100):
    """To a client: the brokers of its site, and by how many of them a publication has to be held."""

    members: Annotated[tuple[Contact, ...], Meta(max_length=MEMBERS_MAX)]
    needed: Counter


class Offer(Struct, frozen=True, array_like=True, tag=101, gc=False):
    """A publication, from its publisher to the broker of its site that it has chosen."""

    batch: Batch


class Forward(Struct, frozen=True, array_like=True, tag=102, gc=False):
    """A publication on its way to the next site, or to a subscriber, under the numbers of that hop."""

    number: Seq
    batch: Batch


class Replicate(Struct, frozen=True, array_like=True, tag=103, gc=False):
    """From the broker that was `chosen` for a publication to the others of its site; `Replicated` answers.

    `version` is the last state of the routing table that the sender has promised to wait for.
    """

    source: Text
    number: Seq
    version: Version
    chosen: Name
    batch: Batch


class Replicated(Struct, frozen=True, array_like=True, tag=104, gc=False):
    source: Text
    publisher: Name
    number: Seq
    version: Version


class Marks(Struct, frozen=True, array_like=True, tag=105):
    """How far the sender has the streams that have grown: to its site, to brokers of their sources, to publishers.

    A subscriber tells its site in the same way. `established` and `promised` are the sender's states of the routing
    table: the one in force, unless its epoch is over (then 0), and the last one that it has promised to wait for.
    """

    entries: MarkList
    established: Version = 0
    promised: Version = 0


class Retransmission(Struct, frozen=True, array_like=True, tag=106, gc=False):
    """A request: these numbers of the stream are missing here, and later ones have come."""

    source: Text
    publisher: Name
    first: Seq
    last: Seq


class Notification(Struct, frozen=True, array_like=True, tag=107):
    """These are the last numbers that have come, a while ago: is there anything behind them? `Notified` answers."""

    serial: Counter
    entries: MarkList


class Notified(Struct, frozen=True, array_like=True, tag=108, gc=False):
    serial: Counter


class Change(Struct, frozen=True, array_like=True, gc=False):
    """One change of a site's state, asked for by a subscriber (or in its name) under a number of its own.

    `s` subscribes, `u` unsubscribes, `g`: the subscriber has gone; `b`: the publisher begins behind that number; `a`
    and `r`: another site, the subscriber, wants a pattern, or wants it no more; `n`: nothing changes.
    """

    what: Literal["s", "u", "g", "b", "a", "r", "n"]
    subscriber: Text
    token: Counter = 0
    pattern: str = ""
    where: Where = ""
    number: Counter = 0


ChangeList = Annotated[tuple[Change, ...], Meta(max_length=ENTRIES_MAX)]


class SiteRequest(Struct, frozen=True, array_like=True, tag=109, gc=False):
    """To the designated broker, from the broker that a client has asked; `SiteAnswer` when it is done everywhere.

    `after` is the number of the client's request before this one, if that was not answered yet, or 0.
    """

    change: Change
    after: Counter = 0


class SiteAnswer(Struct, frozen=True, array_like=True, tag=110, gc=False):
    subscriber: Text
    token: Counter
    number: Counter = 0


class Attendance(Struct, frozen=True, array_like=True, tag=111, gc=False):
    """To the designated broker: these subscribers have a session with the sender, or that one has ended."""

    present: Annotated[tuple[Text, ...], Meta(max_length=ENTRIES_MAX)] = ()
    absent: Annotated[tuple[Text, ...], Meta(max_length=ENTRIES_MAX)] = ()


class Propose(Struct, frozen=True, array_like=True, tag=112, gc=False):
    """From the designated broker: there will be this state. Answer with the numbers up to which you have anything."""

    version: Version


class Promised(Struct, frozen=True, array_like=True, tag=113):
    version: Version
    marks: MarkList


class Establish(Struct, frozen=True, array_like=True, tag=114):
    """The state after `previous`: these changes count for each stream from the number that `cuts` names, or 1."""

    version: Version
    previous: Version
    changes: ChangeList
    cuts: MarkList


class TakeOver(Struct, frozen=True, array_like=True, tag=115, gc=False):
    """The sender wants to be the designated broker of this epoch; `Yielded` answers."""

    epoch: Counter
    established: Version


class Yielded(Struct, frozen=True, array_like=True, tag=116, gc=False):
    epoch: Counter
    established: Version


class Announce(Struct, frozen=True, array_like=True, tag=117):
    """From the designated broker of a site to another site: what is wanted behind it has changed.

    A `whole` one tells everything. The numbers of an epoch are consecutive; `Announced` answers each. Whoever gets it
    passes it to the designated broker of its own site.
    """

    site: Name
    epoch: Counter
    number: Counter
    whole: bool
    wanted: InterestList
    unwanted: InterestList = ()


class Announced(Struct, frozen=True, array_like=True, tag=118, gc=False):
    site: Name
    epoch: Counter
    number: Counter


class Pending(Struct, frozen=True, array_like=True, gc=False):
    """A change that counts for a stream from that number on, which the stream has not reached."""

    version: Version
    cut: Counter
    change: Change


class SiteState(Struct, frozen=True, array_like=True, tag=119):
    """The first part of what a broker tells another one of its site that has missed something.

    `blank`: the sender knows nothing itself. `done` has the last request of each subscriber that was carried out.
    """

    blank: bool
    epoch: Counter
    established: Version
    promised: Version
    table: Annotated[tuple[tuple[Text, TopicText, Where], ...], Meta(max_length=ENTRIES_MAX)] = ()
    done: Annotated[tuple[tuple[Text, Counter], ...], Meta(max_length=ENTRIES_MAX)] = ()
    placed: MarkList = ()
    """With agreement on every message: what has a place and is not processed, in its order, by its last numbers."""
    founding: bool = False
    """The site began with the receiver's word that it knows nothing, and the session has not ended since."""


class StreamState(Struct, frozen=True, array_like=True, tag=120):
    """How far the sender has processed a stream, and the next number and the acknowledged one of each way out."""

    source: Text
    publisher: Name
    next: Counter
    last_seq: Counter
    pending: Annotated[tuple[Pending, ...], Meta(max_length=ENTRIES_MAX)] = ()
    lanes: Annotated[tuple[tuple[Text, Counter, Counter], ...], Meta(max_length=ENTRIES_MAX)] = ()


class Owed(Struct, frozen=True, array_like=True, tag=121, gc=False):
    """A part of the state: what a subscriber or a site has not acknowledged, under its numbers there."""

    destination: Text
    source: Text
    number: Seq
    chosen: Name
    batch: Batch


class StateEnd(Struct, frozen=True, array_like=True, tag=122, gc=False):
    """That was all of the state."""


class StateRequest(Struct, frozen=True, array_like=True, tag=123, gc=False):
    """The sender has missed a state of the routing table: tell it everything."""


# ------------------------------------------------------------------------------------- agreement on every message


class PlacedUnit(Struct, frozen=True, array_like=True, gc=False):
    """A publication that has a place in the order of its site."""

    source: Text
    number: Seq
    chosen: Name
    batch: Batch


class Assignment(Struct, frozen=True, array_like=True, tag=124):
    """With `sesdad-agreement`, from the designated broker: these publications have the next places. `Agreed` answers.

    It is the state after `previous`, as `Establish` is one that changes the routing table.
    """

    version: Version
    previous: Version
    units: Annotated[tuple[PlacedUnit, ...], Meta(max_length=ENTRIES_MAX)]


class Agreed(Struct, frozen=True, array_like=True, tag=125, gc=False):
    """The sender has that state in force, and all publications that have a place in it."""

    version: Version
