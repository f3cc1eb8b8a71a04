"""Bare loops: payloads written to what a store keeps them in, with the same syncs, and nothing else done.

What a store, or a repository with its brokers and clients around it, does on top of that is measured against them.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from holdfast.model.reliable import Level
from holdfast.storage.stores.sqlite import LOG_PAGES_MAX, PAGE_BYTES

Writer = Callable[[Sequence[bytes]], None]
"""Writes one commit: the payloads of its batches."""


@contextmanager
def bare_file(path: Path, level: Level) -> Iterator[Writer]:
    """One commit behind the other: a `write`, and where the level asks for it a `fdatasync`."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

    def write(batches: Sequence[bytes]) -> None:
        os.write(descriptor, b"".join(batches))
        if level is Level.FSYNCED:
            os.fdatasync(descriptor)

    yield write
    os.close(descriptor)
    path.unlink()


@contextmanager
def bare_sqlite(path: Path, level: Level) -> Iterator[Writer]:
    """The same into one column of a table of SQLite, with the settings of the store."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES_MAX}")
    db.execute(f"PRAGMA synchronous = {'FULL' if level is Level.FSYNCED else 'NORMAL'}")
    db.execute("CREATE TABLE bare (id INTEGER PRIMARY KEY, payloads BLOB)")

    def write(batches: Sequence[bytes]) -> None:
        db.execute("BEGIN")
        db.executemany("INSERT INTO bare (payloads) VALUES (?)", [(one,) for one in batches])
        db.execute("COMMIT")

    yield write
    db.close()
    path.unlink()


def bare_in_kind(kind: str, place: Path, level: Level) -> AbstractContextManager[Writer]:
    """The bare loop into what that kind of store keeps things in."""
    return bare_sqlite(place / "bare.db", level) if kind == "sqlite" else bare_file(place / "bare.log", level)
