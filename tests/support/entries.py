"""Entries for the tests of stores."""

from collections.abc import Sequence

from holdfast.model.batches import make_batch
from holdfast.model.reliable import Entry


def entry(
    first: int, cat: int = 1, payloads: Sequence[bytes] = (b"a",), publisher: str = "alice", time_ns: int = 1
) -> Entry:
    """Messages whose publisher has numbered them as the stream does: nothing else of hers went elsewhere."""
    return Entry(first, cat, make_batch(publisher, cat, "orders", 1, payloads), time_ns)


def payloads(entries: Sequence[Entry]) -> list[bytes]:
    return [payload for one in entries for payload in one.batch.payload_list()]
