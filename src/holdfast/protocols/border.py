"""The border of a broker: which message may come from which peer, in one table, asked before anything else happens.

A peer keeps to the wire and may break every other rule: a client may send what only brokers send, a broker what belongs
to another protocol, anybody something that is legal elsewhere or later. Whatever the table does not list is a
`PeerViolation`: nothing has changed here, and the session of that peer ends, or, if the peer is a broker, its
connection. So handlers meet only messages that their sender may send in its place.
"""

from collections.abc import Mapping
from enum import Enum

from holdfast.model.errors import PeerViolation
from holdfast.model.hole_messages import Hole
from holdfast.model.messages import (
    Confirm,
    ConfirmAck,
    Publish,
    SessionMessage,
    Subscribe,
    Unsubscribe,
)
from holdfast.model.name_messages import Named, Recall


class Place(Enum):
    """What a peer is to a broker."""

    CALLER = "a client that has not asked to be let in"
    JOINER = "one that waits to be let in"
    CLIENT = "a client"
    VISITOR = "a broker that is no neighbour"
    NEIGHBOUR = "a broker"


Messages = frozenset[type[SessionMessage]]
Border = Mapping[Place, Messages]

NOTHING: Messages = frozenset()
FROM_CLIENTS: Messages = frozenset((Publish, Subscribe, Unsubscribe, Confirm, ConfirmAck, Recall))


def border(*from_brokers: type[SessionMessage]) -> Border:
    """The table of a protocol whose peers have one place each: clients, and brokers."""
    return {Place.CLIENT: FROM_CLIENTS, Place.NEIGHBOUR: frozenset((Hole, Named, *from_brokers))}


def check_place(table: Border, place: Place, peer: str, message: SessionMessage) -> None:
    """Raise `PeerViolation` if a peer in that place may not send such a message."""
    allowed = table.get(place, NOTHING)
    if type(message) not in allowed:
        legal = ", ".join(sorted(kind.__name__ for kind in allowed)) or "nothing"
        raise PeerViolation(f"{peer} is {place.value} and sent {type(message).__name__}; it may send {legal}")
