"""How fast stores store and find, beside a bare loop that writes the same bytes with the same syncs in the same run.

    python benchmarks/stores.py                          # SQLite and segments, every level and size
    python benchmarks/stores.py --url postgresql:///db   # and this one
    python benchmarks/stores.py --recovery               # reading 1,000 messages out of 10,000 and of 1,000,000

Each row: microseconds a message, for appending and for reading, and how much of the bare loop's rate is left. The bare
loop writes each commit's payloads to a file with one `write`, and one `fdatasync` where the level asks for it.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from holdfast.model.batches import make_batch
from holdfast.model.reliable import LEVELS, Entry, Level
from holdfast.storage.stores import Store, open_store

SIZES = (32, 1024, 8192)
COMMIT_MESSAGES = {32: 2048, 1024: 512, 8192: 64}
BATCH_BYTES = 1 << 16
BATCH_MESSAGES_MAX = 256
STREAM = "bench"
READ_BYTES = 1 << 20


def commits(size: int, total: int, alone: bool) -> Iterator[list[Entry]]:
    """Commits of batches as a broker passes them under load; or, `alone`, of one message each."""
    count = 1 if alone else min(BATCH_MESSAGES_MAX, max(1, BATCH_BYTES // size))
    a_commit = 1 if alone else COMMIT_MESSAGES[size]
    payload, first = os.urandom(size), 1
    while first <= total:
        yield [
            Entry(at, at, make_batch("alice", at, "bench", 1, [payload] * count), time.time_ns())
            for at in range(first, first + a_commit, count)
        ]
        first += a_commit


def bare(path: Path, prepared: list[list[Entry]], level: Level) -> float:
    """Seconds to write the payloads of these commits, and nothing else."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    begin = time.perf_counter()
    for entries in prepared:
        os.write(descriptor, b"".join([entry.batch.payloads for entry in entries]))
        if level is Level.FSYNCED:
            os.fdatasync(descriptor)
    spent = time.perf_counter() - begin
    os.close(descriptor)
    path.unlink()
    return spent


def appended(store: Store, prepared: list[list[Entry]], level: Level) -> float:
    begin = time.perf_counter()
    for entries in prepared:
        store.append(STREAM, entries)
        store.commit(level)
    return time.perf_counter() - begin


def read(store: Store) -> tuple[float, int]:
    """Seconds to read everything, and how many messages that were."""
    count, (first, following) = 0, store.bounds(STREAM)
    begin = time.perf_counter()
    while first < following and (entries := store.read(STREAM, first, following, READ_BYTES)):
        count += sum(entry.count for entry in entries)
        first = entries[-1].last + 1
    return time.perf_counter() - begin, count


def rates(urls: dict[str, str], place: Path, messages: int, alone: bool) -> None:
    print(f"{'store':12}{'level':10}{'bytes':>7}{'append µs':>12}{'bare µs':>10}{'ratio':>8}{'read µs':>10}")
    for size in SIZES:
        total = min(messages, 200) if alone else max(messages * 1024 // max(size, 256), COMMIT_MESSAGES[size])
        for level in LEVELS:
            for name, url in urls.items():
                prepared = list(commits(size, total, alone))
                stored = sum(entry.count for entries in prepared for entry in entries)
                least = bare(place / "bare", prepared, level)
                with open_store(url.replace("NUMBER", f"{name}_{size}_{level}_{int(alone)}")) as store:
                    spent = appended(store, prepared, level)
                    least = (least + bare(place / "bare", prepared, level)) / 2
                    reading, count = read(store)
                assert count == stored
                print(
                    f"{name:12}{level:10}{size:7}{spent / stored * 1e6:12.2f}{least / stored * 1e6:10.2f}"
                    f"{least / spent:8.2f}{reading / count * 1e6:10.2f}"
                )


def recovery(urls: dict[str, str], stored: tuple[int, ...]) -> None:
    """Opening, and reading the 1,000 messages that somebody missed, in the middle of what is stored."""
    print(f"{'store':12}{'stored':>10}{'open ms':>10}{'1,000 by seq ms':>17}{'by identity ms':>16}{'at time ms':>12}")
    for name, url in urls.items():
        for total in stored:
            where = url.replace("NUMBER", f"{name}_recovery_{total}")
            with open_store(where) as store:
                appended(store, list(commits(32, total, False)), Level.WRITTEN)
            times = []
            begin = time.perf_counter()
            store = open_store(where)
            times.append(time.perf_counter() - begin)
            middle = total // 2
            for ask in (
                lambda: store.read(STREAM, middle, middle + 999, 1 << 30),  # noqa: B023
                lambda: store.by_identity(STREAM, "alice", middle, middle + 999, 1 << 30),  # noqa: B023
                lambda: store.at_time(STREAM, 0),  # noqa: B023
            ):
                best = 1e9
                for _ in range(20):
                    begin = time.perf_counter()
                    ask()
                    best = min(best, time.perf_counter() - begin)
                times.append(best)
            store.close()
            print(
                f"{name:12}{total:10,}{times[0] * 1e3:10.2f}{times[1] * 1e3:17.3f}{times[2] * 1e3:16.3f}"
                f"{times[3] * 1e3:12.3f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="another store, such as postgresql:///database?host=/run/postgresql")
    parser.add_argument("--messages", type=int, default=20_000, help="how many of 1 KiB; of other sizes the same bytes")
    parser.add_argument("--alone", action="store_true", help="one message a commit")
    parser.add_argument("--recovery", action="store_true", help="what it costs to read 1,000 messages")
    parser.add_argument("--place", type=Path, help="where the files go; a directory that is removed by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.place) as directory:
        place = Path(directory)
        urls = {"sqlite": f"sqlite:{place}/NUMBER.db", "segments": f"segments:{place}/NUMBER"}
        if options.url:
            urls["postgresql"] = f"{options.url}#NUMBER"
        if options.recovery:
            recovery(urls, (10_000, 1_000_000))
        else:
            rates(urls, place, options.messages, options.alone)


if __name__ == "__main__":
    main()
