"""What brokers of LoCaMu say to each other about the tree they stand in: see protocols.locamu.local_tree."""

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.model.batches import Name
from holdfast.model.terms import Text

EDGES_MAX = 1 << 14
"""More than a neighbourhood has of which a header can tell: see `protocols.locamu.surroundings`."""
STATE_BYTES_MAX = 1 << 26


class Surroundings(Struct, frozen=True, array_like=True, tag=62, gc=False):
    """The edges of the tree around the sender, as (parent, child): what comes after this on the link refers to them."""

    edges: Annotated[tuple[tuple[Name, Name], ...], Meta(max_length=EDGES_MAX)]


class Admission(Struct, frozen=True, array_like=True, tag=63, gc=False):
    """A newcomer wants to be a leaf below the receiver; `address` says where it is reached."""

    address: Text


class Admitted(Struct, frozen=True, array_like=True, tag=64, gc=False):
    """Everybody knows of the newcomer, which goes on from this state: see `protocols.locamu.local_tree`."""

    state: Annotated[bytes, Meta(max_length=STATE_BYTES_MAX)]


class Farewell(Struct, frozen=True, array_like=True, tag=65, gc=False):
    """Everybody knows that the sender leaves; and the answer, that it may go."""
