"""How much of an SQLite log was ever committed, by the log itself.

SQLite reads its log up to the first frame that is not whole and takes that for the end: after a crash it is. After a
bit has flipped it is not, and what was committed behind it would vanish without a word. Whoever counts the frames that
bear the mark of this log first knows how many SQLite should have found. (The layout: sqlite.org/walformat.html.)
"""

import os
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
    try:
        with path.with_name(f"{path.name}-wal").open("rb") as log:
            head = log.read(HEADER.size)
            if len(head) < HEADER.size:
                return 0
            return _last_commit(log.fileno(), head, _page_bytes(path, head))
    except FileNotFoundError:
        return 0


def _page_bytes(path: Path, head: bytes) -> int:
    """As the database says, which is older than the log; as the log says if there is no database yet."""
    try:
        with path.open("rb") as file:
            said = int.from_bytes(file.read(18)[16:], "big")
    except FileNotFoundError:
        said = 0
    said = 65536 if said == 1 else said
    return said if said >= _PAGE_BYTES_MIN else int(HEADER.unpack(head)[2])


def _last_commit(descriptor: int, head: bytes, page_bytes: int) -> int:
    if not _PAGE_BYTES_MIN <= page_bytes <= _PAGE_BYTES_MAX:
        return 0
    size, step = os.fstat(descriptor).st_size, FRAME.size + page_bytes
    salts: tuple[int, int] | None = HEADER.unpack(head)[4:6] if _is_sound(head) else None
    last = 0
    for number, at in enumerate(range(HEADER.size, size - step + 1, step), 1):
        _, commits, *marks = FRAME.unpack(os.pread(descriptor, FRAME.size, at))
        # A head that is harmed says nothing; then the first frame says which log this is.
        salts = salts or (marks[0], marks[1])
        if commits and (marks[0], marks[1]) == salts:
            last = number
    return last


def _is_sound(head: bytes) -> bool:
    order = _MAGICS.get(int.from_bytes(head[:4], "big"))
    if order is None:
        return False
    words = Layout(f"{order}6I").unpack(head[:24])
    one = two = 0
    for at in (0, 2, 4):
        one = (one + words[at] + two) & _MASK
        two = (two + words[at + 1] + one) & _MASK
    return (one, two) == HEADER.unpack(head)[6:]
