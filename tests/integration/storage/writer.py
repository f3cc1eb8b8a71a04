"""A process that stores as fast as it can and says what it was promised, until somebody kills it.

`python writer.py URL [BYTES]`: commit number N holds the entries N.1 to N.3 and the pair `commit` = N; when it is
fsynced, N is written to stdout. It goes on where the store ends. No file may become larger than so many bytes; a store
that says that it cannot go on is asked once more, and then the writer ends.
"""

import random
import resource
import sys

from holdfast.model.batches import make_batch
from holdfast.model.reliable import Entry, Level
from holdfast.storage.stores import Store, StoreFailed, open_store
from holdfast.storage.stores.segments import SegmentStore

ENTRIES = 3
MESSAGES = 4
BYTES_MAX = 3000
SEGMENT_BYTES = 200_000
EXIT_FULL = 3


def opened(url: str) -> Store:
    """Segments are short, so that kills meet their ends, too."""
    scheme, _, rest = url.partition(":")
    return SegmentStore(rest, segment_bytes=SEGMENT_BYTES) if scheme == "segments" else open_store(url)


def payload(cat: int) -> bytes:
    """What message number `cat` is, for whoever looks afterwards."""
    return random.Random(cat).randbytes(1 + cat * 37 % BYTES_MAX)


def commit_of(number: int) -> list[Entry]:
    first = 1 + (number - 1) * ENTRIES * MESSAGES
    return [
        Entry(at, at, make_batch("alice", at, "orders", 1, [payload(at + more) for more in range(MESSAGES)]), at)
        for at in range(first, first + ENTRIES * MESSAGES, MESSAGES)
    ]


def main(url: str, bytes_max: int) -> None:
    if bytes_max:
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_max, bytes_max))
    store = opened(url)
    try:
        write(store)
    except StoreFailed:
        try:
            store.commit(Level.FSYNCED)
        except StoreFailed:
            sys.exit(EXIT_FULL)


def write(store: Store) -> None:
    number = (store.bounds("orders")[1] - 1) // (ENTRIES * MESSAGES)
    while True:
        number += 1
        store.append("orders", commit_of(number))
        store.put("commit", b"%d" % number)
        level = Level.WRITTEN if number % 4 == 0 else Level.FSYNCED
        store.commit(level)
        if level is Level.FSYNCED:
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
