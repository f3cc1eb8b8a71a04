"""How much of an SQLite log was ever committed, by the log itself.

SQLite reads its log up to the first frame that is not whole and takes that for the end: after a crash it is. After a
bit has flipped it is not, and what was committed behind it would vanish without a word. Whoever counts the frames that
bear the mark of this log first knows how many SQLite should have found. (The layout: sqlite.org/walformat.html.)
"""

import os
from collections.abc import Iterator
from pathlib import Path
from struct import Struct as Layout

HEADER = Layout(">8I")
"""Magic, version, bytes of a page, number of the checkpoint, two salts, two checksums."""
FRAME = Layout(">6I")
"""Page, pages in the file if this frame ends a transaction, two salts, two checksums."""
_MAGICS = {0x377F0682: "<", 0x377F0683: ">"}
_MASK = 0xFFFFFFFF
_PAGE_BYTES_MIN, _PAGE_BYTES_MAX = 512, 65536


def committed_frames(path: Path) -> int:
    """The number of the last frame that ends a transaction in the log beside this database; 0 if there is no log."""
    return max((log.last_marked for log in _logs(path)), default=0)


def sound_frames(path: Path) -> int:
    """The number of the last such frame that SQLite will find: every frame up to it is whole. It reads all of them."""
    return max((log.last_sound() for log in _logs(path)), default=0)


class _Log:
    """A log, frame by frame."""

    def __init__(self, descriptor: int, head: bytes, page_bytes: int) -> None:
        self._descriptor, self._head, self._page_bytes = descriptor, head, page_bytes
        self._size, self._step = os.fstat(descriptor).st_size, FRAME.size + page_bytes

    def _frames(self) -> Iterator[tuple[int, int, tuple[int, int]]]:
        """Where each frame is, whether it ends a transaction, and its salts."""
        for at in range(HEADER.size, self._size - self._step + 1, self._step):
            _, commits, one, two, _, _ = FRAME.unpack(os.pread(self._descriptor, FRAME.size, at))
            yield at, commits, (one, two)

    @property
    def last_marked(self) -> int:
        # A head that is harmed says nothing; then the first frame says which log this is.
        marked: tuple[int, int] | None = HEADER.unpack(self._head)[4:6] if _is_sound(self._head) else None
        last = 0
        for number, (_, commits, salts) in enumerate(self._frames(), 1):
            marked = marked or salts
            if commits and salts == marked:
                last = number
        return last

    def last_sound(self) -> int:
        if not _is_sound(self._head):
            return 0
        order, marked = _MAGICS[int.from_bytes(self._head[:4], "big")], HEADER.unpack(self._head)[4:6]
        total: tuple[int, int] = HEADER.unpack(self._head)[6:]
        last = 0
        for number, (at, commits, salts) in enumerate(self._frames(), 1):
            frame = os.pread(self._descriptor, self._step, at)
            total = _summed(order, frame[:8] + frame[FRAME.size :], total)
            if salts != marked or total != FRAME.unpack(frame[: FRAME.size])[4:]:
                break
            last = number if commits else last
        return last


def _logs(path: Path) -> Iterator[_Log]:
    """The log beside a database, if there is one."""
    try:
        log = path.with_name(f"{path.name}-wal").open("rb")
    except FileNotFoundError:
        return
    with log:
        head = log.read(HEADER.size)
        if len(head) == HEADER.size:
            page_bytes = _page_bytes(path, head)
            if _PAGE_BYTES_MIN <= page_bytes <= _PAGE_BYTES_MAX:
                yield _Log(log.fileno(), head, page_bytes)


def _page_bytes(path: Path, head: bytes) -> int:
    """As the database says, which is older than the log; as the log says if there is no database yet."""
    try:
        with path.open("rb") as file:
            said = int.from_bytes(file.read(18)[16:], "big")
    except FileNotFoundError:
        said = 0
    said = 65536 if said == 1 else said
    return said if said >= _PAGE_BYTES_MIN else int(HEADER.unpack(head)[2])


def _is_sound(head: bytes) -> bool:
    order = _MAGICS.get(int.from_bytes(head[:4], "big"))
    return order is not None and _summed(order, head[:24], (0, 0)) == HEADER.unpack(head)[6:]


def _summed(order: str, data: bytes, total: tuple[int, int]) -> tuple[int, int]:
    one, two = total
    for first, second in Layout(f"{order}2I").iter_unpack(data):
        one = (one + first + two) & _MASK
        two = (two + second + one) & _MASK
    return one, two
