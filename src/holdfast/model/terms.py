"""Words that messages of several protocols are made of."""

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.model.batches import Name

Counter = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Text = Annotated[str, Meta(max_length=256)]
Where = Annotated[str, Meta(max_length=4096)]


class Contact(Struct, frozen=True, array_like=True, gc=False):
    """A broker that may be asked to take somebody in."""

    name: Name
    epoch: Counter
    address: Text
