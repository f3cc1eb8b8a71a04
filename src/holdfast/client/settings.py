"""How a client behaves beyond who it is (`ClientConfig`)."""

from msgspec import Struct

from holdfast.model.batches import BATCH_BYTES_MAX
from holdfast.runtime.connection import ConnectionLimits

TURN_BYTES = 4 * BATCH_BYTES_MAX
"""A publisher that never pauses hands its messages over, and lets the loop run, every few full batches."""


class ClientSettings(Struct, frozen=True, kw_only=True):
    """What `holdfast.connect` was told of times and bounds."""

    timeout_s: float = 10.0
    """How long to wait for the first attachment, and for the last words when closing."""
    backlog_bytes_max: int = 4 << 20
    """`publish` waits while this much is not accepted by the broker yet."""
    recall: bool = False
    """Whether somebody may have published under this name before, at whatever broker."""
    reliable: tuple[str, ...] = ()
    """What is published on topics that these match is durable if nothing else is said."""
    reconnect_s: float = 0.0
    """How long to try to come back when a session is lost; 0: not at all."""
    limits: ConnectionLimits = ConnectionLimits()
