"""What can be read of a damaged SQLite file, written into a sound one.

Rows are asked for in ranges; where a range cannot be read its halves are tried, down to single rows. Columns are
written anew from the entry beside them. A row whose entry is harmed comes along if its columns are sound: they say what
to ask a sibling for.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.storage.stores.rows import checksum, columns_of, decoded, row_of, sound_head

RANGE_ROWS = 1024
_STREAM_COLUMNS = "id, name, kept, next, messages, bytes, sum"


def salvage(harmed: sqlite3.Connection, repaired: sqlite3.Connection, columns: str) -> None:
    """Fill a new store with what another one still says."""
    streams = {row[0]: row for row in _rows(harmed, "streams", _STREAM_COLUMNS)}
    repaired.execute("BEGIN")
    names = {number: row[1] for number, row in streams.items()}
    marks = ", ".join("?" * 11)
    found = {number: [0, 0, 0, 0] for number in names}
    for number, *row in _rows(harmed, "entries", f"stream, {columns}"):
        kept = _mended(names.get(number), row)
        if kept is None:
            continue
        repaired.execute(f"INSERT INTO entries (id, stream, {columns}) VALUES ({marks})", (None, number, *kept))
        low, following, messages, weight = found[number]
        found[number] = [
            min(low or kept[0], kept[0]),
            max(following, kept[0] + kept[1]),
            messages + kept[1],
            weight + len(kept[8]),
        ]
    for number, stream in streams.items():
        repaired.execute("INSERT INTO streams VALUES (?, ?, ?, ?, ?, ?, ?)", _stream_row(stream, found[number]))
    for key, value, total in _rows(harmed, "pairs", "key, value, sum"):
        if checksum(key, value) == total:
            repaired.execute("INSERT OR REPLACE INTO pairs VALUES (?, ?, ?)", (key, value, total))
    for (what,) in _as_far_as_it_goes(harmed, "SELECT what FROM notes"):
        repaired.execute("INSERT INTO notes VALUES (?)", (what,))
    repaired.execute("COMMIT")


def _mended(stream: str | None, columns: Sequence[Any]) -> Sequence[Any] | None:
    """A row whose columns say what its entry is, or at least what it was."""
    if stream is None:
        return None
    entry = decoded(columns[8], columns[7])
    if entry is not None:
        return columns_of(row_of(stream, entry, columns[5] != 0))
    return columns if sound_head(stream, columns) is not None and isinstance(columns[8], bytes) else None


def _stream_row(row: Sequence[Any], found: list[int]) -> tuple[Any, ...]:
    """The row of a stream as it was, so that what is lost stays missed; if it is harmed, as it can be counted."""
    number, name, kept, following, messages, *_ = row
    low, behind, counted, weight = found
    if checksum(*row[1:6]) != row[6]:
        kept, following, messages = low or 1, behind or 1, counted
    return number, name, kept, following, messages, weight, checksum(name, kept, following, messages, weight)


def _rows(db: sqlite3.Connection, table: str, columns: str) -> Iterator[Sequence[Any]]:
    if table == "pairs":
        yield from _as_far_as_it_goes(db, f"SELECT {columns} FROM pairs")
        return
    for low in range(1, _highest(db, table) + 1, RANGE_ROWS):
        yield from _range(db, f"SELECT {columns} FROM {table} WHERE id BETWEEN ? AND ?", low, low + RANGE_ROWS - 1)


def _as_far_as_it_goes(db: sqlite3.Connection, question: str) -> Iterator[Sequence[Any]]:
    try:
        yield from db.execute(question)
    except sqlite3.DatabaseError:
        return


def _range(db: sqlite3.Connection, question: str, low: int, high: int) -> list[Sequence[Any]]:
    try:
        return db.execute(question, (low, high)).fetchall()
    except sqlite3.DatabaseError:
        if low == high:
            return []
        middle = (low + high) // 2
        return [*_range(db, question, low, middle), *_range(db, question, middle + 1, high)]


def _highest(db: sqlite3.Connection, table: str) -> int:
    """The highest row that there may be: by the table, or by its indexes if the table cannot say."""
    for question in (f"SELECT max(id) FROM {table}", f"SELECT count(*) FROM {table}"):
        try:
            return int(db.execute(question).fetchone()[0] or 0)
        except sqlite3.DatabaseError:
            continue
    return 0
