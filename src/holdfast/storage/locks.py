"""One writer at a time: a lock that the system gives back when its holder ends, however it ends."""

import fcntl
from pathlib import Path
from typing import BinaryIO


class Locked(Exception):  # noqa: N818 - it says what is the matter
    """Raised when another process holds the lock."""


def hold(path: Path) -> BinaryIO:
    """Lock this file, which is made if needed, until what is returned is closed."""
    lock = path.open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise Locked from None
    return lock
