"""What messages weigh in flow control: both ends of a link compute the same figures."""

from holdfast.model.direct_messages import Barred, Cast, Copied, Passed
from holdfast.model.land_messages import Admitted, Surroundings
from holdfast.model.messages import (
    Census,
    Counted,
    Found,
    Interests,
    Numbers,
    Open,
    Publish,
    Seek,
    SessionMessage,
    TotalMarker,
    TotalProcessed,
    TotalRequest,
    Unstable,
    View,
    ViewAck,
)
from holdfast.model.name_messages import Named
from holdfast.model.relay_messages import Relay

SMALL_COST_BYTES = 64
SMALL_ENTRY_BYTES = 8
URGENT = (Open, View, ViewAck, Seek, Found, Census, Counted)
"""They cost nothing and wait for no credit: what credit waits for may itself wait for a repair to end."""


def cost_bytes(message: SessionMessage) -> int:
    """What a message weighs in flow control; both ends compute the same figure."""
    if isinstance(message, Publish):
        return message.batch.cost_bytes
    if isinstance(message, TotalRequest | Unstable):
        return message.batch.cost_bytes
    if isinstance(message, TotalProcessed) and message.batch is not None:
        return message.batch.cost_bytes
    if isinstance(message, Cast):
        return message.batch.cost_bytes + sum(SMALL_ENTRY_BYTES * len(row) for _, row in message.clock)
    if isinstance(message, Copied):
        return cost_bytes(message.cast)
    if isinstance(message, Barred):
        entries = sum(len(row) for _, row in message.barriers)
        return message.batch.cost_bytes + SMALL_ENTRY_BYTES * (len(message.names) + len(message.targets) + entries)
    if isinstance(message, Passed):
        return message.batch.cost_bytes + SMALL_ENTRY_BYTES * len(message.path)
    if isinstance(message, TotalMarker):
        return SMALL_COST_BYTES + 16 * len(message.keys)
    if isinstance(message, Relay):
        return SMALL_COST_BYTES + len(message.header) + (message.batch.cost_bytes if message.batch is not None else 0)
    if isinstance(message, Surroundings):
        return SMALL_COST_BYTES + SMALL_ENTRY_BYTES * len(message.edges)
    if isinstance(message, Admitted):
        return SMALL_COST_BYTES + len(message.state)
    if isinstance(message, Interests | Named | Numbers):
        return SMALL_COST_BYTES + 64 * len(message.processed if isinstance(message, Numbers) else message.entries)
    return 0 if isinstance(message, URGENT) else SMALL_COST_BYTES
