"""What is said about names that several sessions may have: who has one, and which numbers were used under it."""

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.model.batches import Name
from holdfast.model.identities import STRIDE_BITS
from holdfast.model.terms import Counter

Stride = Annotated[int, Meta(ge=0, le=(1 << STRIDE_BITS) - 1)]


class Recall(Struct, frozen=True, array_like=True, tag=35, gc=False):
    """What is the highest number that anybody here, or behind the receiver, knows of this publisher's name?

    `stride` was drawn by the client. Where it is not certain that nobody else draws numbers under the name now, its
    edge broker adds it, so that no two sessions use the same. Up to `used` the client itself has used the numbers, in a
    session that was lost: the broker that knew may have forgotten.
    """

    token: Counter
    publisher: Name
    stride: Stride = 0
    used: Counter = 0


class Recalled(Struct, frozen=True, array_like=True, tag=36, gc=False):
    """Everything up to `last` is used; `certain` if nothing beyond it is, and whoever used it has ended."""

    token: Counter
    last: Counter
    certain: bool = True


class Presence(Struct, frozen=True, array_like=True, gc=False):
    """A session of a client that was given its name: with which broker it began, and, if it has ended, how far it got.

    See `protocols.names`.
    """

    identity: Name
    home: Name
    ended: bool = False
    last: Counter = 0


PRESENCES_MAX = 1024
"""How many of them one message holds."""


class Named(Struct, frozen=True, array_like=True, tag=37, gc=False):
    """Between brokers: these sessions have begun, or have ended."""

    entries: Annotated[tuple[Presence, ...], Meta(max_length=PRESENCES_MAX)]
