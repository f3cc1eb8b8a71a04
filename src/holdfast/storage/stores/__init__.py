"""Stores for repositories: one interface, and `open_store`, which makes one from its URL."""

from holdfast.storage.stores.memory import MemoryStore
from holdfast.storage.stores.store import Damage, Store, StoreError, StoreFailed, StreamInfo

__all__ = ["Damage", "MemoryStore", "Store", "StoreError", "StoreFailed", "StreamInfo", "open_store"]


def open_store(url: str) -> Store:
    """The store that a URL names; it is made if it is not there."""
    scheme, colon, _ = url.partition(":")
    if scheme == "memory" and colon:
        return MemoryStore()
    raise StoreError(f"{url!r} names no store; write memory:.")
