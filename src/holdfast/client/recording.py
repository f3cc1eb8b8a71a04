"""Recording what a subscription delivers: an endless loop from the client to the disk."""

import asyncio
from collections import deque
from itertools import islice
from time import time_ns

from holdfast.client.subscriptions import Subscription
from holdfast.model.batches import Message
from holdfast.storage.recordings import RecordingWriter

TAKE_BYTES = 1 << 20
"""How much is taken at a time, if that much has arrived: it goes to the disk together."""


async def record(subscription: Subscription, writer: RecordingWriter, count: int = 0) -> int:
    """Record what arrives until the subscription ends, or until `count` messages; how many it were.

    While the disk works on one lot the next arrives, so the lots are as large as the load asks for.
    """
    arrived: deque[Message] = deque()
    recorded = 0
    while await subscription.take_into(arrived, TAKE_BYTES):
        lot = list(islice(arrived, count - recorded) if count else arrived)
        arrived.clear()
        writer.append(lot, time_ns())
        await _flushed(writer)
        recorded += len(lot)
        if count and recorded >= count:
            break
    return recorded


async def _flushed(writer: RecordingWriter) -> None:
    """Flush in a thread: a slow disk must not look like a dead client."""
    flushing = asyncio.ensure_future(asyncio.to_thread(writer.flush))
    try:
        await asyncio.shield(flushing)
    except asyncio.CancelledError:
        # Whoever cancels closes the writer next, and must not do so under the hands of the thread.
        await flushing
        raise
