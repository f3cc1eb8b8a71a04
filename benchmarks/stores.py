"""How fast stores store and find, beside a bare loop that writes the same bytes with the same syncs in the same run.

    python benchmarks/stores.py                          # SQLite and segments, written and fsynced, every size
    python benchmarks/stores.py --url postgresql:///db   # and this one
    python benchmarks/stores.py --recovery               # reading 1,000 messages out of 10,000 and of 1,000,000

Each row: microseconds a message, for appending and for reading, and how much is left of the rate of two bare loops that
take turns with the store, commit by commit. Both write the payloads of each commit and nothing else: one to a file,
with one `write` and, where the level asks for it, one `fdatasync`; the other into one column of a table of the same
database, with the same settings.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from holdfast.cluster.bench.bare import Writer, bare_file, bare_in_kind
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


@contextmanager
def bare_postgresql(url: str, level: Level) -> Iterator[Writer]:
    """The same into a table of PostgreSQL."""
    import psycopg  # noqa: PLC0415

    with psycopg.connect(url, autocommit=True) as db, db.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS bare")
        cursor.execute("CREATE TABLE bare (id bigserial PRIMARY KEY, payloads bytea)")
        cursor.execute("ALTER TABLE bare ALTER COLUMN payloads SET STORAGE EXTERNAL")
        cursor.execute(f"SET synchronous_commit = {'on' if level is Level.FSYNCED else 'off'}")

        def write(batches: Sequence[bytes]) -> None:
            with db.transaction():
                cursor.executemany("INSERT INTO bare (payloads) VALUES (%s)", [(one,) for one in batches])

        yield write
        cursor.execute("DROP TABLE bare")


def bare_like(url: str, place: Path, level: Level) -> AbstractContextManager[Writer]:
    """The bare loop into what the store keeps things in."""
    kind = url.partition(":")[0]
    if kind in ("sqlite", "segments"):
        return bare_in_kind(kind, place, level)
    return bare_postgresql(url.partition("#")[0], level)


def payloads_of(entries: list[Entry]) -> list[bytes]:
    return [entry.batch.payloads for entry in entries]


def timed(writers: list[Callable[[list[Entry]], None]], prepared: list[list[Entry]]) -> list[float]:
    """Seconds that each has spent. They take turns, so that whatever disturbs the machine disturbs all of them."""
    spent = [0.0] * len(writers)
    for entries in prepared:
        for at, write in enumerate(writers):
            begin = time.perf_counter()
            write(entries)
            spent[at] += time.perf_counter() - begin
    return spent


def rates_of(url: str, place: Path, level: Level, prepared: list[list[Entry]]) -> list[float]:
    """Seconds a message: into the store, into a file, into the same kind of storage; and read again."""
    stored = sum(entry.count for entries in prepared for entry in entries)
    with open_store(url) as store:

        def write(entries: list[Entry]) -> None:
            store.append(STREAM, entries)
            store.commit(level)

        with bare_file(place / "bare", level) as file, bare_like(url, place, level) as own:
            spent = timed(
                [write, lambda entries: file(payloads_of(entries)), lambda entries: own(payloads_of(entries))], prepared
            )
        reading, count = read(store)
    assert count == stored
    return [*(one / stored for one in spent), reading / count]


def read(store: Store) -> tuple[float, int]:
    """Seconds to read everything, and how many messages that were."""
    count, (first, following) = 0, store.bounds(STREAM)
    begin = time.perf_counter()
    while first < following and (entries := store.read(STREAM, first, following, READ_BYTES)):
        count += sum(entry.count for entry in entries)
        first = entries[-1].last + 1
    return time.perf_counter() - begin, count


def rates(urls: dict[str, str], place: Path, messages: int, alone: bool) -> None:
    titles = ("append µs", "file µs", "ratio", "bare µs", "ratio", "read µs")
    print(f"{'store':12}{'level':10}{'bytes':>7}" + "".join(f"{title:>11}" for title in titles))
    for size in SIZES:
        total = min(messages, 200) if alone else max(messages * 1024 // max(size, 256), COMMIT_MESSAGES[size])
        prepared = list(commits(size, total, alone))
        for level in LEVELS[1:]:
            for name, url in urls.items():
                where = url.replace("NUMBER", f"{name}_{size}_{level}_{int(alone)}")
                own, file, bare, reading = rates_of(where, place, level, prepared)
                figures = (own * 1e6, file * 1e6, file / own, bare * 1e6, bare / own, reading * 1e6)
                print(f"{name:12}{level:10}{size:7}" + "".join(f"{value:11.2f}" for value in figures), flush=True)


def recovery(urls: dict[str, str], stored: tuple[int, ...], alone: bool) -> None:
    """Opening, and reading the 1,000 messages that somebody missed, in the middle of what is stored."""
    titles = ("open ms", "first read ms", "1,000 by seq ms", "by identity ms", "at time ms")
    print(f"{'store':12}{'stored':>10}" + "".join(f"{title:>17}" for title in titles))
    for name, url in urls.items():
        for total in stored:
            where = url.replace("NUMBER", f"{name}_recovery_{total}")
            with open_store(where) as store:
                for many in commits(32, total, False):
                    entries = many if not alone else [one.part(at, at) for one in many for at in _numbers(one)]
                    store.append(STREAM, entries)
                    store.commit(Level.WRITTEN)
            times = []
            begin = time.perf_counter()
            store = open_store(where)
            times.append(time.perf_counter() - begin)
            middle = total // 2
            for ask, repeats in (
                (lambda: store.read(STREAM, middle, middle + 999, 1 << 30), 1),  # noqa: B023
                (lambda: store.read(STREAM, middle, middle + 999, 1 << 30), 20),  # noqa: B023
                (lambda: store.by_identity(STREAM, "alice", middle, middle + 999, 1 << 30), 20),  # noqa: B023
                (lambda: store.at_time(STREAM, 0), 20),  # noqa: B023
            ):
                times.append(best(ask, repeats))
            store.close()
            print(f"{name:12}{total:10,}" + "".join(f"{spent * 1e3:17.3f}" for spent in times))


def best(ask: Callable[[], object], repeats: int) -> float:
    """The shortest time of so many: what disturbs a run only ever makes it longer."""
    spent = []
    for _ in range(repeats):
        begin = time.perf_counter()
        ask()
        spent.append(time.perf_counter() - begin)
    return min(spent)


def _numbers(entry: Entry) -> range:
    return range(entry.first, entry.last + 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="another store, such as postgresql:///database?host=/run/postgresql")
    parser.add_argument("--messages", type=int, default=20_000, help="how many of 1 KiB; of other sizes the same bytes")
    parser.add_argument(
        "--alone", action="store_true", help="one message a commit; with --recovery, one message an entry"
    )
    parser.add_argument("--recovery", action="store_true", help="what it costs to read 1,000 messages")
    parser.add_argument("--place", type=Path, help="where the files go; a directory that is removed by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.place) as directory:
        place = Path(directory)
        urls = {"sqlite": f"sqlite:{place}/NUMBER.db", "segments": f"segments:{place}/NUMBER"}
        if options.url:
            urls["postgresql"] = f"{options.url}#NUMBER"
        if options.recovery:
            recovery(urls, (10_000, 1_000_000), options.alone)
        else:
            rates(urls, place, options.messages, options.alone)


if __name__ == "__main__":
    main()
