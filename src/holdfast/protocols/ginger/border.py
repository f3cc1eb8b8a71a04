"""The border of a Ginger broker: who may send what (`protocols.border`), and what a `Join` may say of its sender.

A client speaks for itself alone. It cannot say that others are dead, or that it has brokers below it; and what it says
of its own epoch is what it said hello with, so that its session and its place in a repair end together. What a client
says to have received from a broker that is lost is believed: there may be no other witness.
"""

from collections.abc import Sequence

from holdfast.model.costs import cost_bytes
from holdfast.model.errors import PeerViolation
from holdfast.model.hole_messages import Hole
from holdfast.model.messages import (
    Census,
    Climb,
    Confirm,
    ConfirmAck,
    Counted,
    Found,
    Interests,
    Join,
    Merged,
    Move,
    Numbers,
    Open,
    Publish,
    Seek,
    Sought,
    Subscribe,
    SubscribeAck,
    TotalAck,
    TotalMarker,
    TotalProcessed,
    TotalRequest,
    Turned,
    Unstable,
    Unsubscribe,
    UnsubscribeAck,
    View,
    ViewAck,
)
from holdfast.model.name_messages import Named, Recall, Recalled
from holdfast.protocols.border import FROM_CLIENTS, NOTHING, Border, Place, border
from holdfast.protocols.last_numbers import Ahead
from holdfast.protocols.links import Link
from holdfast.protocols.wanted_parts import wanted_by

ALONG_THE_TREE = (
    Publish,
    Subscribe,
    SubscribeAck,
    Unsubscribe,
    UnsubscribeAck,
    Confirm,
    ConfirmAck,
    Recall,
    Recalled,
    Hole,
)
TURNING = (Climb, Turned)
LOCKING = (TotalRequest, TotalMarker, TotalAck, TotalProcessed)
"""How `ginger-locks` orders, in place of turning."""
ABOUT_THE_TREE = (Open, View, ViewAck, Census, Counted, Move, Named)
"""Of neighbours, and of those who are about to be, or are no more."""
TO_BE_LET_IN = (Unstable, Numbers, Interests, Join, Seek, Found)
"""Of those who are not: neighbours look for nobody, and join nobody."""

FIXED_BORDER: Border = border(*ALONG_THE_TREE, *TURNING, Interests)
LOCKING_BORDER: Border = border(*ALONG_THE_TREE, *LOCKING, Interests)
HEALING_BORDER: Border = {
    Place.CALLER: frozenset((Unstable, Numbers, Interests, Join)),
    Place.JOINER: NOTHING,
    Place.CLIENT: FROM_CLIENTS,
    Place.VISITOR: frozenset((*TO_BE_LET_IN, *ABOUT_THE_TREE)),
    Place.NEIGHBOUR: frozenset((*ALONG_THE_TREE, *TURNING, *ABOUT_THE_TREE, *TO_BE_LET_IN, Merged, Sought)),
}
UNSTABLE_BYTES_MAX = 64 << 20
"""What a peer may bring to a repair before it says `Join`."""
WANTED_MAX = 4 << 20
"""How many interests a new parent may tell."""


def check_view(peer: str, view: View, hops: int) -> None:
    """Raise `PeerViolation` if a change is to be told farther than is ever needed: it would be passed on for ever."""
    if view.hops >= hops:
        raise PeerViolation(f"{peer} told of a change to be passed on {view.hops} hops; at most {hops - 1} are needed")


def check_open(peer: str, wanted: int) -> None:
    """Raise `PeerViolation` if a new parent goes on and on telling what is wanted on its side."""
    if wanted > WANTED_MAX:
        raise PeerViolation(f"{peer} told of more than {WANTED_MAX} interests before it opened the link")


def check_unstable(link: Link, records: Sequence[Ahead]) -> None:
    """Raise `PeerViolation` if the sender brings more to a repair than anybody may keep."""
    if link.received_bytes > UNSTABLE_BYTES_MAX and sum(map(cost_bytes, records)) > UNSTABLE_BYTES_MAX:
        raise PeerViolation(f"{link.peer} brought more than {UNSTABLE_BYTES_MAX} bytes of records to a repair")


def check_join(link: Link, join: Join, ahead: Sequence[Ahead]) -> None:
    """Raise `PeerViolation` if the sender speaks for somebody else, or says what a client cannot know."""
    twig, peer = join.twig, link.peer
    said = ""
    if (twig.name, twig.kind, twig.epoch) != (peer, link.kind, link.session):
        said = f"as the {twig.kind} {twig.name} of epoch {twig.epoch}"
    elif not set(join.unconfirmed) <= set(wanted_by(join, ahead)):
        said = "with a new interest that is none of its interests"
    elif link.kind == "client" and (twig.twigs or join.dead):
        said = "with brokers below it, or with the dead, of which a client knows nothing"
    elif link.kind == "client" and not join.old and (_brings_messages(ahead) or join.processed):
        said = "as a newcomer, with messages of another broker"
    if said:
        raise PeerViolation(f"{peer} is a {link.kind} with session {link.session} and asked to be let in {said}")


def _brings_messages(ahead: Sequence[Ahead]) -> bool:
    return any(not isinstance(one, Interests) for one in ahead)
