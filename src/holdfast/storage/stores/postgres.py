"""A store in a PostgreSQL database, for where there is a server already.

All tables live in one schema, `holdfast` unless the URL ends in another (`postgresql://host/database#schema`), so that
several repositories can share a database. A commit is one transaction: few rows travel in one pipeline with whatever
else changes, many by `COPY`. `fsynced` waits for the server's log to be on disk (`synchronous_commit = on`); `written`
and `memory` leave the server a moment to get it there: a crash of the repository loses nothing, one of the server may.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any, NoReturn

import psycopg
from psycopg import sql
from psycopg.types.string import StrBinaryDumper, TextBinaryLoader

from holdfast.model.reliable import Level
from holdfast.storage.stores.buffered import BufferedChange
from holdfast.storage.stores.rows import columns_of, decoded, row_of
from holdfast.storage.stores.sql import COLUMNS, SqlStore
from holdfast.storage.stores.store import Damage, StoreAway, StoreError, StoreFailed

LAYOUT = 1
SCHEMA_NAME = "holdfast"
COPY_ROWS_MIN = 256
"""From so many rows on `COPY` is worth its two round trips."""
CONNECT_S_MAX = 10
LOCK_S_MAX = 5
REPAIR_ROWS = 256

TABLES = (
    "CREATE TABLE layout (version integer, syncs bigint)",
    f"INSERT INTO layout VALUES ({LAYOUT}, 0)",
    """CREATE TABLE streams (id integer PRIMARY KEY, name text, kept bigint, next bigint, messages bigint, bytes bigint,
        sum bigint)""",
    """CREATE TABLE entries (id bigserial PRIMARY KEY, stream integer, first bigint, count integer, publisher text,
        cat bigint, time_ns bigint, late integer, head_sum bigint, body_sum bigint, entry bytea)""",
    # What a broker has packed is not worth packing again, and a row that is kept whole is read at once.
    "ALTER TABLE entries ALTER COLUMN entry SET STORAGE EXTERNAL",
    "CREATE INDEX by_seq ON entries (stream, first)",
    "CREATE INDEX by_identity ON entries (stream, publisher, cat)",
    "CREATE INDEX by_time ON entries (stream, late, time_ns, first)",
    "CREATE TABLE pairs (key text PRIMARY KEY, value bytea, sum bigint)",
)
_TYPES = ("int4", "int8", "int4", "text", "int8", "int8", "int4", "int8", "int8", "bytea")
_INSERT = f"INSERT INTO entries (stream, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_ESCAPED = re.compile(r"\\(.)")
_SAFETY = {Level.MEMORY: "off", Level.WRITTEN: "off", Level.FSYNCED: "on"}


class PostgresStore(SqlStore):
    """Keeps streams in a PostgreSQL database; tables are made if they are not there."""

    def __init__(self, url: str, write: bool = True) -> None:
        """Connect; one process at a time may write to a schema, and any number may read meanwhile."""
        super().__init__()
        self._address, _, schema = url.partition("#")
        self._schema = schema or SCHEMA_NAME
        self.name = url
        self._write = write
        self._db: psycopg.Connection[tuple[Any, ...]]
        self._closed = False
        self._bound = False
        """Whether what is under way belongs to one connection: it cannot go on over another."""
        self._connect()

    def _connect(self) -> None:
        try:
            self._db = psycopg.connect(self._address, autocommit=True, connect_timeout=CONNECT_S_MAX)
        except psycopg.Error as error:
            raise StoreAway(f"no PostgreSQL server answers at {self._shown()}: {str(error).strip()}") from None
        self._safety = ""
        self._db.adapters.register_dumper(str, _EscapedDumper)
        self._db.adapters.register_loader("text", _EscapedLoader)
        try:
            if self._write:
                self._hold()
            self._make()
            self._load()
        except BaseException:
            self._db.close()
            raise

    def _shown(self) -> str:
        """The address without a password."""
        before, at, behind = self._address.rpartition("@")
        return f"postgresql://…@{behind}" if at and ":" in before.removeprefix("postgresql://") else self._address

    def _hold(self) -> None:
        # The lock goes with the session, and the server ends the session of a writer that was killed when it notices:
        # what that writer was committing is then done or undone, and until then nobody may look.
        self._do(f"SET lock_timeout = '{LOCK_S_MAX}s'")
        try:
            self._db.execute("SELECT pg_advisory_lock(hashtext(%s))", (f"holdfast {self._schema}",))
        except psycopg.errors.LockNotAvailable:
            raise StoreError(
                f"the schema {self._schema} of {self._shown()} is being written by another process; end it first, or "
                "name another schema behind a # at the end of the URL."
            ) from None
        self._do("SET lock_timeout = DEFAULT")

    def _make(self) -> None:
        [(there,)] = self._ask("SELECT to_regclass(?) IS NOT NULL", (f"{self._schema}.layout",))
        path = sql.SQL("SET search_path = {}").format(sql.Identifier(self._schema))
        if not there:
            if not self._write:
                raise StoreError(f"there is no store in the schema {self._schema} of {self._shown()}.")
            with self._db.transaction():
                self._db.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(self._schema)))
                self._db.execute(path)
                for statement in TABLES:
                    self._do(statement)
        self._db.execute(path)
        [(version,)] = self._ask("SELECT version FROM layout")
        if version != LAYOUT:
            raise StoreError(f"{self._shown()} was written by another version (layout {version}, here {LAYOUT}).")

    # -------------------------------------------------------------------------------------------------- for a database

    def _ask(self, question: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            cursor = self._connected().execute(_translated(question), values, binary=True)
            return cursor.fetchall()
        except psycopg.Error as error:
            self._failed(error)

    def _connected(self) -> psycopg.Connection[tuple[Any, ...]]:
        if self._db.closed and not self._closed:
            if self._bound or not self._change.is_empty():
                # Whoever goes on as if nothing had happened would commit a half of what belongs together.
                raise StoreAway(
                    f"PostgreSQL at {self._shown()} was away: what was buffered is not stored. Commit, which fails, "
                    "and then begin with all of it again."
                )
            # What was concluded from what the server said before may not hold any more.
            self._begin()
            self._connect()
        return self._db

    @contextmanager
    def _on_one_connection(self) -> Iterator[None]:
        self._bound = True
        try:
            yield
        finally:
            self._bound = False

    def _carry_out(self, change: BufferedChange, level: Level) -> None:
        with self._on_one_connection():
            super()._carry_out(change, level)

    def _do(self, statement: str, values: Sequence[Any] = ()) -> None:
        try:
            self._connected().execute(_translated(statement), values)
        except psycopg.Error as error:
            self._failed(error)

    def _do_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        for row in rows:
            self._do(statement, row)

    def _insert_entries(self, rows: list[Sequence[Any]]) -> None:
        with self._db.cursor() as cursor:
            if len(rows) < COPY_ROWS_MIN:
                cursor.executemany(_translated(_INSERT), rows)
                return
            with cursor.copy(f"COPY entries (stream, {COLUMNS}) FROM STDIN (FORMAT BINARY)") as copy:
                copy.set_types(_TYPES)
                for row in rows:
                    copy.write_row(row)

    @contextmanager
    def _transaction(self, level: Level, rows: int) -> Iterator[None]:
        if not self._write:
            raise StoreError(f"{self.name} was opened for reading only; open it for writing to change it.")
        self._set_safety(_SAFETY[level])
        # Nothing waits for an answer in a pipeline, and `COPY` cannot be in one.
        together = self._db.pipeline() if rows < COPY_ROWS_MIN else nullcontext()
        try:
            with together, self._db.transaction():
                yield
        except psycopg.Error as error:
            self._failed(error)

    def _sync(self) -> None:
        # A transaction that writes is waited for, and the log is one: everything before it is on disk as well.
        self._set_safety("on")
        self._do("UPDATE layout SET syncs = syncs + 1")

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        connected = self._connected()
        try:
            with self._on_one_connection(), connected.transaction():
                self._do("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                yield
        except psycopg.Error as error:
            self._failed(error)

    def _set_safety(self, safety: str) -> None:
        self._connected()
        if safety == self._safety:
            return
        if safety == "on":
            [(syncs,)] = self._ask("SHOW fsync")
            if syncs != "on":
                raise StoreError(
                    f"the server at {self._shown()} runs with fsync = off: nothing can be called fsynced there. Turn "
                    "it on, or ask for `written`."
                )
        self._do(f"SET synchronous_commit = {safety}")
        self._safety = safety

    def _failed(self, error: psycopg.Error) -> NoReturn:
        kind = StoreAway if self._db.closed else StoreFailed
        raise kind(f"PostgreSQL at {self._shown()} could not go on: {str(error).strip()}") from None

    # ---------------------------------------------------------------------------------------------------- housekeeping

    def compact(self) -> None:
        for table in ("entries", "pairs", "streams"):
            self._do(f"VACUUM FULL {table}")

    def verify(self) -> list[Damage]:
        found: list[Damage] = []
        try:
            with self._snapshot():
                found += self._verify_rows()
        except StoreAway:
            raise
        except StoreFailed as error:
            found.append(Damage(stream="", first=0, last=0, what=str(error)))
        return found

    def repair(self) -> None:
        """Write the indexes anew, and the columns of rows whose entry is sound."""
        for table in ("entries", "pairs", "streams"):
            self._do(f"REINDEX TABLE {table}")
        names = {state.id: name for name, state in self._known.items()}
        places = ", ".join(f"{column.strip()} = ?" for column in COLUMNS.split(","))
        low = 0
        while page := self._ask(
            f"SELECT id, stream, {COLUMNS} FROM entries WHERE id > ? ORDER BY id LIMIT ?", (low, REPAIR_ROWS)
        ):
            for number, stream, *columns in page:
                low = number
                entry = decoded(columns[8], columns[7])
                if entry is None or stream not in names:
                    continue
                right = columns_of(row_of(names[stream], entry, columns[5] != 0))
                if list(right) != columns:
                    self._do(f"UPDATE entries SET {places} WHERE id = ?", (*right, number))
        self._save(self._known)
        self._begin()
        self._load()

    def close(self) -> None:
        self._closed = True
        self._db.close()


class _EscapedDumper(StrBinaryDumper):
    """PostgreSQL keeps no text with the character 0 in it, and a publisher may call itself anything."""

    def dump(self, obj: str) -> Any:
        return super().dump(obj.replace("\\", "\\\\").replace("\0", "\\0") if "\\" in obj or "\0" in obj else obj)


class _EscapedLoader(TextBinaryLoader):
    """The way back."""

    def load(self, data: Any) -> str:
        text = str(super().load(data))
        return _ESCAPED.sub(lambda found: "\0" if found[1] == "0" else "\\", text) if "\\" in text else text


@cache
def _translated(statement: str) -> Any:
    """Question marks as psycopg writes them."""
    return sql.SQL(statement.replace("?", "%s"))
