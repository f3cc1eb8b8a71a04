"""What a message costs beyond itself: as our wire writes it, and as the thesis of LoCaMu counts it (003, section 4.3).

`wire_bytes` takes the frame and leaves topic, payload, keys and attributes out: what remains says whose message it is,
how it is told apart, and what orders it. `thesis_bytes` counts only what orders it, with four bytes an identifier and
four a number, as if written by that thesis' prototype; whose message it is costs nothing there. Both are of one copy on
one link, for one message of its batch.
"""

from msgspec.structs import replace

from holdfast.model.batches import Batch
from holdfast.model.direct_messages import Barred, Cast, Copied, Passed
from holdfast.model.messages import Data, SessionMessage
from holdfast.model.wire import encode

IDENTIFIER_BYTES = 4
PAIR_BYTES = 8
"""An identifier and a number."""


def wire_bytes(message: SessionMessage) -> int:
    """Header bytes of a frame that carries this message, for each message of its batch."""
    if isinstance(message, Copied):
        inner = message.cast
        bare: SessionMessage = Copied(message.sender, replace(inner, batch=_bare(inner.batch)))
        count = inner.batch.count
    elif hasattr(message, "batch") and message.batch is not None:
        bare, count = replace(message, batch=_bare(message.batch)), message.batch.count
    else:
        bare, count = message, 1
    size = len(encode(Data(1, bare)))
    return -(-(size if bare is message else size - 1) // count)


def _bare(batch: Batch) -> Batch:
    """The batch with a topic of one byte, and nothing that a reader would see."""
    return replace(batch, topic="-", payloads=b"", keys=(), attributes=())


def thesis_bytes(message: SessionMessage) -> int:
    """What the thesis counts: 4.3.2 for path vectors, 4.3.3 for vector clocks, 4.3.4 for barriers; nothing for others.

    For clocks 4.3.3 gives a formula of four bytes a changed entry and an example, of one entry in one group, of twelve.
    The example is right: an entry is the member and its count.
    """
    if isinstance(message, Copied):
        return thesis_bytes(message.cast)
    if isinstance(message, Cast):
        return sum(IDENTIFIER_BYTES + PAIR_BYTES * (len(row) // 2) for _, row in message.clock)
    if isinstance(message, Barred):
        entries = sum(len(row) // 2 for _, row in message.barriers)
        return PAIR_BYTES * (len(message.targets) + entries)
    if isinstance(message, Passed):
        return PAIR_BYTES * len(message.path)
    return 0
