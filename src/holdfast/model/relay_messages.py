"""What brokers of LoCaMu send each other: copies, notices, and how far they are. See protocols.locamu."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from holdfast.model.batches import Batch, TopicText
from holdfast.model.terms import Counter, Text, Where

HEADER_BYTES_MAX = 1 << 18


class Notice(Struct, frozen=True, array_like=True, gc=False):
    """What travels in causal order with everything else: somebody wants a pattern (`s`), wants it no more (`u`), or
    asks whether a publication has arrived (`c`; then `pattern` is its topic).

    Or a broker, which `pattern` names, comes to the tree (`j`: below `publisher`, and is reached at `where`), is about
    to leave it (`l`), or has left it (`g`).
    """

    what: Literal["s", "u", "c", "j", "l", "g"]
    pattern: TopicText
    where: Where = ""
    publisher: Text = ""
    seq: Counter = 0


class Relay(Struct, frozen=True, array_like=True, tag=60, gc=False):
    """A copy of a message from one broker to another; what `header` says is in `protocols.locamu.headers`."""

    header: Annotated[bytes, Meta(max_length=HEADER_BYTES_MAX)]
    batch: Batch | None
    notice: Notice | None


class Standing(Struct, frozen=True, array_like=True, tag=61):
    """How far the sender is: `column` says up to which number it has processed what each broker had for it.

    Up to `complete`, everybody behind the sender has what the receiver had for it. Up to the sender's number `closed`
    for the receiver, all before the sender have marked what it sent, and the receiver has heard of these marks.
    `asking`: the receiver is to send again what is missing. The first one of a session tells the sender's `birth`, and
    by which birth it has `known` the receiver, if it has (else 0): see `protocols.locamu.journal_identity`.
    """

    column: dict[str, Counter]
    complete: Counter
    closed: Counter
    asking: bool = False
    birth: Counter = 0
    known: Counter = 0
