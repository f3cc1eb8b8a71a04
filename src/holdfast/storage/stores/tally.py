"""How many commits a store has synced, written down beside it: so that one which has lost some of them shows it.

A log that was cut off, or a file of yesterday in the place of today's, looks whole by itself. The store counts its
synced commits in a pair of its own, in the same transaction; the tally has the same number in a file of its own. It is
written after the commit is done and not synced, since it only has to outlive the process. A store with fewer than its
tally has lost the difference; a tally with fewer says nothing.
"""

import os
from pathlib import Path
from struct import Struct as Layout

from holdfast.model.checksums import crc32

KEY = ""
"""The store's own pair. No other key is empty."""
NUMBER = Layout(">Q")
_TALLY = Layout(">QI")


class StoreTally:
    """The file beside a store; `write` says whether it may be changed."""

    def __init__(self, path: Path, write: bool) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644) if write else -1

    def read(self) -> int:
        """How many commits there were; 0 if nobody has written it, or it is harmed."""
        try:
            said = self.path.read_bytes()
        except OSError:
            return 0
        if len(said) != _TALLY.size:
            return 0
        number, total = _TALLY.unpack(said)
        return int(number) if crc32(NUMBER.pack(number)) == total else 0

    def note(self, number: int) -> None:
        """So many commits are on disk."""
        os.pwrite(self._descriptor, _TALLY.pack(number, crc32(NUMBER.pack(number))), 0)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
