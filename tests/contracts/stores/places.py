"""Where the stores of the contract are: each can be opened, closed and opened again."""

from itertools import count
from pathlib import Path

from holdfast.storage.stores import MemoryStore, Store, open_store
from holdfast.storage.stores.segments import SegmentStore

SHORT_SEGMENT_BYTES = 1500
"""A few commits fill it."""

_numbers = count(1)


class Place:
    """One store, by its URL. Whatever it was opened as last is closed with it."""

    def __init__(self, url: str, segment_bytes: int = 0) -> None:
        self.url, self._segment_bytes = url, segment_bytes
        self._store: Store | None = None
        self._memory = MemoryStore() if url == "memory:" else None

    def open(self) -> Store:
        self.close()
        if self._segment_bytes:
            self._store = SegmentStore(self.url.removeprefix("segments:"), segment_bytes=self._segment_bytes)
        else:
            self._store = self._memory or open_store(self.url)
        return self._store

    def look(self) -> Store:
        """A reader, beside whoever writes."""
        return open_store(self.url, write=False)

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None


def new_place(kind: str, directory: Path, server_url: str) -> Place:
    """A place where nothing is stored yet."""
    number = next(_numbers)
    match kind:
        case "memory":
            return Place("memory:")
        case "sqlite":
            return Place(f"sqlite:{directory / f'store-{number}.db'}")
        case "segments":
            return Place(f"segments:{directory / f'store-{number}'}")
        case "short segments":
            return Place(f"segments:{directory / f'store-{number}'}", SHORT_SEGMENT_BYTES)
        case "postgres":
            return Place(f"{server_url}#store_{number}")
        case _:
            raise AssertionError(kind)
