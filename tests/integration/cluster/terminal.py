"""A terminal for the tests: runs `holdfast` as a user would, in a directory of its own, and presses Ctrl-C."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event
from time import monotonic

from holdfast.cluster.pids import ProcessId, process_id

LIMIT_S = 180.0
"""No command takes so long, also where other work leaves it a tenth of a core."""
POLL_S = 0.02
INTERRUPTED = "holdfast: interrupted.\n"
"""What a command says that was ended by Ctrl-C."""


class Terminal:
    """Commands run in `directory`; those that are still running when the test ends are killed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._started: list[subprocess.Popen[str]] = []

    def run(self, *arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            self._command(arguments),
            cwd=self.directory,
            env=self._environment(),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    def start(self, *arguments: object, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
        """Start a command in a session of its own, as a terminal does."""
        process = subprocess.Popen(
            self._command(arguments),
            cwd=self.directory,
            env=self._environment(),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=LIMIT_S)

    @staticmethod
    def _command(arguments: Sequence[object]) -> list[str]:
        return [sys.executable, "-m", "holdfast", *map(str, arguments)]

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "COLUMNS": "100", "PYTHONWARNINGS": "error", "TMPDIR": str(self.directory)}


def press_ctrl_c(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """SIGINT to the whole foreground group; the exit code and what was written."""
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT_S)
    return process.returncode, out, err


def processes_that_mention(text: str) -> list[int]:
    """The processes of this machine that have the text on their command line, zombies excluded."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if text.encode() in command:
                found.append(int(entry.name))
    return found


def children(parent: int) -> list[ProcessId]:
    """The living processes that a process has started."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, ppid = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if int(ppid) == parent and state != "Z":
                found.append(process_id(int(entry.name)))
    return found


def eventually(condition: Callable[[], bool], limit_s: float = LIMIT_S) -> bool:
    """Whether it becomes true in time."""
    deadline = monotonic() + limit_s
    pause = Event()
    while not condition():
        if monotonic() > deadline:
            return False
        pause.wait(POLL_S)
    return True
