"""Stores for repositories: one interface, and `open_store`, which makes one from its URL."""

import re

from holdfast.storage.stores.memory import MemoryStore
from holdfast.storage.stores.segments import SegmentStore
from holdfast.storage.stores.sqlite import SqliteStore
from holdfast.storage.stores.store import Damage, Store, StoreAway, StoreError, StoreFailed, StreamInfo

__all__ = [
    "Damage",
    "MemoryStore",
    "Store",
    "StoreAway",
    "StoreError",
    "StoreFailed",
    "StreamInfo",
    "open_store",
    "shown_url",
]

_PASSWORD = re.compile(r"(//[^/@:]*):[^/@]*@|(password=)[^&#]*")


def open_store(url: str, write: bool = True) -> Store:
    """The store that a URL names; it is made if it is not there, unless it is only to be read."""
    scheme, _, rest = url.partition(":")
    match scheme:
        case "memory" if not rest:
            return MemoryStore()
        case "sqlite" if rest:
            return SqliteStore(rest, write)
        case "segments" if rest:
            return SegmentStore(rest, write)
        case "postgresql" | "postgres":
            # psycopg takes a tenth of a second to import, and most stores do without.
            from holdfast.storage.stores.postgres import PostgresStore  # noqa: PLC0415

            return PostgresStore(url, write)
        case _:
            raise StoreError(
                f"{url!r} names no store; write sqlite:FILE, segments:DIRECTORY, postgresql://HOST/DATABASE "
                "or memory:, which forgets everything when it ends."
            )


def shown_url(url: str) -> str:
    """The URL for logs and people: without a password."""
    return _PASSWORD.sub(lambda found: f"{found[1]}:…@" if found[1] else f"{found[2]}…", url)
