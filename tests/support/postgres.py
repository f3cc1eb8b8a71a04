"""A PostgreSQL server for tests: found, not installed; started in a directory of its own, on a socket of its own."""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

START_S_MAX = 60
_USERS = ("postgres", "nobody")


class NoServer(Exception):  # noqa: N818 - it says what is the matter
    """There is no PostgreSQL to be had here; the sentence says what was looked for."""


def find_binaries() -> Path:
    """The directory of `initdb` and `postgres`: on PATH, where Debian has it, or of the package pgserver."""
    candidates = []
    if found := shutil.which("initdb"):
        candidates.append(Path(found).resolve().parent)
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    candidates += [Path(place) / "pgserver" / "pginstall" / "bin" for place in sys.path]
    for candidate in candidates:
        if (candidate / "initdb").is_file() and (candidate / "postgres").is_file():
            return candidate
    raise NoServer(
        "there is no PostgreSQL server here: neither initdb on PATH, nor the package pgserver. Run `make setup`, or "
        "apt-get install postgresql."
    )


def _unprivileged() -> str | None:
    """PostgreSQL refuses to run as root: then as somebody who may do nothing."""
    if os.geteuid() != 0:
        return None
    for user in _USERS:
        try:
            pwd.getpwnam(user)
        except KeyError:
            continue
        return user
    raise NoServer("PostgreSQL does not run as root, and there is no user postgres or nobody to run it as.")


class PostgresServer:
    """A server that can be killed and started again."""

    def __init__(self, place: Path) -> None:
        self._binaries, self._user = find_binaries(), _unprivileged()
        self.place, self.data = place, place / "data"
        if self._user:
            os.chown(place, pwd.getpwnam(self._user).pw_uid, -1)
        place.chmod(0o755)
        made = subprocess.run(
            [self._binaries / "initdb", "-D", self.data, "-U", "holdfast", "-A", "trust", "-N", "-E", "UTF8"],
            cwd=place,
            user=self._user,
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode != 0:
            raise NoServer(f"initdb of {self._binaries} failed: {made.stderr.strip()}")

    @property
    def url(self) -> str:
        return f"postgresql:///postgres?host={self.place}&user=holdfast"

    def start(self) -> None:
        settings = {"listen_addresses": "", "unix_socket_directories": str(self.place), "max_connections": "20"}
        with (self.place / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._binaries / "postgres",
                    "-D",
                    self.data,
                    *(word for name, value in settings.items() for word in ("-c", f"{name}={value}")),
                ],
                cwd=self.place,
                user=self._user,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._wait_until_it_answers()

    def _wait_until_it_answers(self) -> None:
        end = time.monotonic() + START_S_MAX
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=5).close()
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > end:
                    raise NoServer(f"the server did not start: {(self.place / 'log').read_text()[-2000:]}") from None
                # Nobody tells when a server is ready: it is asked again.
                time.sleep(0.02)
            else:
                return

    def stop(self) -> None:
        """Stop it, with everything on disk."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """End it as a crash does: it recovers from its log when it is started again."""
        self._end(signal.SIGQUIT)

    def _end(self, how: signal.Signals) -> None:
        self._process.send_signal(how)
        self._process.wait(START_S_MAX)


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    """A server until the end of the block."""
    place = Path(tempfile.mkdtemp(prefix="holdfast-postgres-"))
    try:
        server = PostgresServer(place)
        server.start()
        try:
            yield server
        finally:
            server.kill()
    finally:
        shutil.rmtree(place, ignore_errors=True)


def server_or_skip() -> Iterator[PostgresServer]:
    """The same for a fixture: without a server its tests are left out, with a sentence."""
    try:
        with running_server() as server:
            yield server
    except NoServer as error:
        pytest.skip(str(error))
