"""What brokers and clients tell each other about messages that may be missing."""

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.model.batches import Name
from holdfast.model.terms import Counter

ABOUT_MAX = 64
"""So many clients are named in one notice."""
HoleReason = Annotated[str, Meta(max_length=1024)]


class Hole(Struct, frozen=True, array_like=True, tag=29, gc=False):
    """Something may be missing to everybody behind this link, of what was published before this notice.

    `(origin, epoch, number)` is the notice's identity: the broker that let something go, its epoch, and its own count.
    A notice that goes `everywhere` concerns every broker and client; another one only those behind the links that it
    was sent along. A notice `about` clients concerns them alone, wherever they are by now.
    """

    origin: Name
    epoch: Counter
    number: Counter
    everywhere: bool
    reason: HoleReason
    about: Annotated[tuple[Name, ...], Meta(max_length=ABOUT_MAX)] = ()
