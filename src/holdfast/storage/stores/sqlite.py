"""A store in one SQLite file: the embedded default.

The file is in WAL mode: a commit appends to a log and, as `fsynced`, waits for the disk once, however many messages it
holds. From time to time the log is moved into the file. `memory` is as safe as `written` here, because
writing to the log costs little; then the disk is waited for only when the log is moved, so that a machine that loses
power loses the youngest commits and never an older one.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

from holdfast.model.reliable import Level
from holdfast.storage.files import sync_directory
from holdfast.storage.locks import Locked, hold
from holdfast.storage.stores.rows import checksum
from holdfast.storage.stores.sql import COLUMNS, SqlStore
from holdfast.storage.stores.sqlite_log import committed_frames, sound_frames
from holdfast.storage.stores.sqlite_salvage import salvage
from holdfast.storage.stores.store import Damage, StoreError, StoreFailed
from holdfast.storage.stores.tally import KEY, NUMBER, StoreTally

LAYOUT = 1
"""Written into the file: another version of these tables would have another number."""
PAGE_BYTES = 8192
LOG_PAGES_MAX = 4096
"""How long the log grows before it is moved into the file."""
COMMIT_PAGES = 8
"""What a commit takes of the log beside its entries: the ends of tables and indexes."""
CACHE_KIB = 16 << 10
DAMAGE_SHOWN_MAX = 20

SCHEMA = """
CREATE TABLE streams (id INTEGER PRIMARY KEY, name TEXT, kept INTEGER, next INTEGER, messages INTEGER, bytes INTEGER,
    sum INTEGER);
CREATE TABLE entries (id INTEGER PRIMARY KEY, stream INTEGER, first INTEGER, count INTEGER, publisher TEXT, cat INTEGER,
    time_ns INTEGER, late INTEGER, head_sum INTEGER, body_sum INTEGER, entry BLOB);
CREATE INDEX by_seq ON entries (stream, first);
CREATE INDEX by_identity ON entries (stream, publisher, cat);
CREATE INDEX by_time ON entries (stream, late, time_ns, first);
CREATE TABLE pairs (key TEXT PRIMARY KEY, value BLOB, sum INTEGER) WITHOUT ROWID;
CREATE TABLE notes (what TEXT);
"""
_INSERT = f"INSERT INTO entries (stream, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_SAFETY = {Level.MEMORY: "NORMAL", Level.WRITTEN: "NORMAL", Level.FSYNCED: "FULL"}


class SqliteStore(SqlStore):
    """Keeps streams in an SQLite file, which is made if it is not there."""

    def __init__(self, path: Path | str, write: bool = True) -> None:
        """Open the file; one process at a time may write, and any number may read meanwhile."""
        super().__init__()
        self.path = Path(path)
        self.name = str(path)
        self._write = write
        self._lock = self._locked() if write else None
        if not write and not self.path.is_file():
            raise StoreError(f"there is no store at {self.path}; name a file that a repository has written.")
        try:
            logged = committed_frames(self.path)
            self._open()
            self._tally = StoreTally(self.path.with_name(f"{self.path.name}.synced"), write)
            self._commits = self._counted_commits()
            self._note_lost(logged)
            self._load()
        except BaseException:
            self.close()
            raise

    def _locked(self) -> Any:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return hold(self.path.with_name(f"{self.path.name}.lock"))
        except OSError as error:
            raise StoreError(
                f"cannot keep a store at {self.path}: {error.strerror or error}; name a file that can be made."
            ) from None
        except Locked:
            raise StoreError(
                f"{self.path} is being written by another process; end it first, or name another file."
            ) from None

    def _open(self) -> None:
        mode = "rwc" if self._write else "ro"
        try:
            self._db = sqlite3.connect(
                f"file:{quote(str(self.path))}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            self._failed(error)
        # A harmed text may be anything: it is for the checksum to say so, not for the decoder.
        self._db.text_factory = lambda text: text.decode(errors="replace")
        self._safety = ""
        self._unmoved_bytes = 0
        self._do(f"PRAGMA cache_size = -{CACHE_KIB}")
        [(layout,)] = self._ask("PRAGMA user_version")
        if layout not in (0, LAYOUT):
            raise StoreError(f"{self.path} was written by another version (layout {layout}, here {LAYOUT}).")
        if not self._write:
            return
        if layout == 0:
            self._make()
        self._do("PRAGMA journal_mode = WAL")
        # We do it ourselves, so that it is known which commit will take that long.
        self._do("PRAGMA wal_autocheckpoint = 0")

    def _make(self) -> None:
        if list(self._ask("SELECT 1 FROM sqlite_master")):
            raise StoreError(f"{self.path} is the database of something else; name another file.")
        self._do(f"PRAGMA page_size = {PAGE_BYTES}")
        try:
            self._db.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version = {LAYOUT}; COMMIT;")
            sync_directory(self.path.parent)
        except sqlite3.Error as error:
            self._failed(error)

    def _note_lost(self, logged: int) -> None:
        """Write down that the log had more than SQLite took from it: it says nothing of that by itself."""
        if not self._write:
            return
        taken = self._ask("PRAGMA wal_checkpoint(PASSIVE)")[0][1] if logged else 0
        missing = self._tally.read() - self._commits
        if taken < logged:
            self._do("INSERT INTO notes (what) VALUES (?)", (_lost(taken, logged),))
        elif missing > 0:
            self._do("INSERT INTO notes (what) VALUES (?)", (_missing(missing),))
        if missing > 0:
            self._tally.note(self._commits)

    def _counted_commits(self) -> int:
        """How many commits were synced, as the database says; as the tally says if that is harmed, which shows."""
        try:
            found = self._ask("SELECT value, sum FROM pairs WHERE key = ?", (KEY,))
        except StoreFailed:
            return self._tally.read()
        for value, total in found:
            return int.from_bytes(value, "big") if checksum(KEY, value) == total else self._tally.read()
        return 0

    def _lost_to_readers(self) -> Iterator[Damage]:
        """The same for whoever only looks: then nobody has written it down yet, unless somebody is writing now."""
        if self._write:
            return
        missing = self._tally.read() - self._counted_commits()
        if missing > 0:
            yield _general(_missing(missing), tail=True)
            return
        try:
            with hold(self.path.with_name(f"{self.path.name}.lock")):
                logged = committed_frames(self.path)
                taken = sound_frames(self.path) if logged else 0
        except (Locked, OSError):
            return
        if taken < logged:
            yield _general(_lost(taken, logged), tail=True)

    # -------------------------------------------------------------------------------------------------- for a database

    def _ask(self, question: str, values: Sequence[Any] = ()) -> list[Sequence[Any]]:
        try:
            return self._db.execute(question, values).fetchall()
        except (sqlite3.Error, OverflowError) as error:
            self._failed(error)

    def _do(self, statement: str, values: Sequence[Any] = ()) -> None:
        self._ask(statement, values)

    def _do_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        try:
            self._db.executemany(statement, rows)
        except sqlite3.Error as error:
            self._failed(error)

    def _insert_entries(self, rows: list[Sequence[Any]]) -> None:
        self._do_many(_INSERT, rows)
        self._unmoved_bytes += sum(len(row[-1]) + PAGE_BYTES // 2 for row in rows)

    def is_light(self, size_bytes: int) -> bool:
        return self._unmoved_bytes + size_bytes < (LOG_PAGES_MAX - 2 * COMMIT_PAGES) * PAGE_BYTES

    def _move_log(self) -> None:
        """Move the log into the file, as far as nobody is reading it; what is left goes the next time."""
        self._unmoved_bytes += COMMIT_PAGES * PAGE_BYTES
        if self._unmoved_bytes >= LOG_PAGES_MAX * PAGE_BYTES:
            self._do("PRAGMA wal_checkpoint(PASSIVE)")
            self._unmoved_bytes = 0

    @contextmanager
    def _transaction(self, level: Level, rows: int) -> Iterator[None]:
        if not self._write:
            raise StoreError(f"{self.path} was opened for reading only; open it for writing to change it.")
        del rows
        self._set_safety(_SAFETY[level])
        self._do("BEGIN IMMEDIATE")
        try:
            yield
            if level is Level.FSYNCED:
                self._put_pairs({KEY: NUMBER.pack(self._commits + 1)})
            self._do("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        if level is Level.FSYNCED:
            self._commits += 1
            self._tally.note(self._commits)
        self._move_log()

    def _sync(self) -> None:
        # Nothing was written, so nothing would be synced: one row is, and with it the whole log.
        self._set_safety("FULL")
        self._do(f"PRAGMA user_version = {LAYOUT}")

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        self._do("BEGIN")
        try:
            yield
        finally:
            if self._db.in_transaction:
                self._do("ROLLBACK")

    def _settle(self) -> None:
        super()._settle()
        self._do("DELETE FROM notes")

    def _set_safety(self, safety: str) -> None:
        if safety != self._safety:
            self._do(f"PRAGMA synchronous = {safety}")
            self._safety = safety

    def _failed(self, error: Exception) -> NoReturn:
        if isinstance(error, sqlite3.ProgrammingError):
            raise StoreError(f"{self.path} cannot be asked any more: {error}") from None
        if isinstance(error, sqlite3.OperationalError) and not _is_harmed(error):
            raise StoreFailed(f"SQLite could not go on with {self.path}: {error}; nothing of it was stored.") from None
        if "not a database" in str(error):
            raise StoreFailed(
                f"{self.path} cannot be opened: its first page is damaged ({error}). Move it away and start the "
                "repository with a new store: it gets everything from its bundle."
            ) from None
        raise StoreFailed(
            f"{self.path} is damaged ({error}); `holdfast store verify sqlite:{self.path}` says what is left."
        ) from None

    # ---------------------------------------------------------------------------------------------------- housekeeping

    def compact(self) -> None:
        self._do("PRAGMA wal_checkpoint(TRUNCATE)")
        self._do("VACUUM")
        self._do("PRAGMA wal_checkpoint(TRUNCATE)")

    def verify(self) -> list[Damage]:
        found: list[Damage] = []
        try:
            found += [_general(what, tail=True) for (what,) in self._ask("SELECT what FROM notes")]
            # Before the snapshot: the tally of a commit that comes after it would be ahead of it.
            found += self._lost_to_readers()
            said = [text for (text,) in self._ask(f"PRAGMA integrity_check({DAMAGE_SHOWN_MAX})")]
            found += [_general(f"SQLite says: {text}") for text in said if text != "ok"]
            with self._snapshot():
                found += self._verify_rows()
        except StoreFailed as error:
            found.append(_general(str(error)))
        return found

    def lost(self) -> list[str]:
        return [*(str(what) for (what,) in self._ask("SELECT what FROM notes")), *super().lost()]

    def repair(self) -> None:
        """Write what is sound into a new file and put it in the place of this one."""
        draft = self.path.with_name(f"{self.path.name}.repaired")
        draft.unlink(missing_ok=True)
        with SqliteStore(draft) as repaired:
            salvage(self._db, repaired._db, COLUMNS)
            repaired._load()
        self._db.close()
        for suffix in ("-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        draft.replace(self.path)
        for suffix in (".lock", ".synced"):
            draft.with_name(draft.name + suffix).unlink(missing_ok=True)
        self._begin()
        self._open()
        self._commits = self._counted_commits()
        self._tally.note(self._commits)
        self._load()

    def close(self) -> None:
        if hasattr(self, "_db"):
            self._db.close()
        if hasattr(self, "_tally"):
            self._tally.close()
        if self._lock is not None:
            self._lock.close()


def _general(what: str, tail: bool = False) -> Damage:
    return Damage(stream="", first=0, last=0, what=what, tail=tail)


def _lost(taken: int, logged: int) -> str:
    return f"the log was harmed at page {taken + 1:,} of {logged:,}: the youngest commits are lost"


def _missing(count: int) -> str:
    return f"{count:,} of its synced commits are not in it: the log was cut off, or the file is an older one"


def _is_harmed(error: Exception) -> bool:
    return "malformed" in str(error) or "not a database" in str(error)
