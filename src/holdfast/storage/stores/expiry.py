"""What of a stream in a store has expired, and whose it was: the driver's part of retention, real or simulated."""

from msgspec import Struct

from holdfast.model.reliable import Retention
from holdfast.protocols.narada.events import Cut
from holdfast.protocols.narada.retention import last_of_each
from holdfast.storage.stores.store import Store

STEP_BYTES = 4 << 20
"""So much is forgotten at a time: whoever wants something stored does not wait for more than that."""
STEP_S = 0.02
"""If there is more than a step of it, the next step comes so much later, and not with the next round."""


class Expired(Struct, frozen=True):
    """What lies below may go; the last of each publisher's life that goes, and whether there is more."""

    before: int
    whose: Cut
    more: bool


def expired(
    store: Store, stream: str, retention: Retention, limit: int, now_ns: int, step_bytes: int = STEP_BYTES
) -> Expired | None:
    """What has expired and lies below the limit, at most a step of it; what goes is read, to know whose it was."""
    age_ns = int(retention.keep_s * 1e9) if retention.keep_s is not None else None
    kept = store.bounds(stream)[0]
    before = min(store.expired(stream, now_ns, age_ns, retention.keep_bytes), limit)
    if before <= kept:
        return None
    entries = store.read(stream, kept, before - 1, step_bytes)
    full = sum(len(entry.batch.payloads) for entry in entries) >= step_bytes
    reached = entries[-1].last + 1 if full else before
    return Expired(reached, last_of_each((entry.publisher, entry.cat_last) for entry in entries), reached < before)
