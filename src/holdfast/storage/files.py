"""What append-only files of all kinds need from the system."""

import os
from collections.abc import Sequence
from pathlib import Path

_PIECES_MAX = 512
"""How many pieces the system takes at once; every system takes as many."""


def write_all(descriptor: int, data: bytes) -> None:
    """Write at the end, in as many calls as it takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def write_pieces_at(descriptor: int, pieces: Sequence[bytes], at: int) -> int:
    """Write pieces one behind the other from a byte on; returns the byte behind them."""
    for begin in range(0, len(pieces), _PIECES_MAX):
        some = pieces[begin : begin + _PIECES_MAX]
        size = sum(map(len, some))
        done = os.pwritev(descriptor, some, at)
        if done < size:
            # The system took a part; what is left goes in one piece.
            view = memoryview(b"".join(some))
            while done < size:
                done += os.pwrite(descriptor, view[done:], at + done)
        at += size
    return at


def sync_directory(path: Path) -> None:
    """Make the directory know its files: a machine that loses power would lose a file that nobody knows."""
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
