"""Which process a process identifier means. The system reuses the numbers, so a number alone may be somebody else."""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

_STATE_FIELD, _START_FIELD = 0, 19  # of /proc/PID/stat, counted behind the command's closing parenthesis
_DEAD = ("Z", "X")
_FROZEN = ("T", "t")


class ProcessId(Struct, frozen=True):
    """A process: its number, and when it began, by which a later process of the same number is told apart."""

    pid: int
    born: str

    def is_alive(self) -> bool:
        return born(self.pid) == self.born

    def is_frozen(self) -> bool:
        """Whether the process is there and stopped; where the system does not say, it is not."""
        fields = _fields(self.pid) if self.is_alive() else []
        return bool(fields) and fields[_STATE_FIELD] in _FROZEN

    def signal(self, number: signal.Signals) -> bool:
        """Signal the process if it is still there; whether it was. Its whole session gets a SIGKILL."""
        if not self.is_alive():
            return False
        with suppress(ProcessLookupError):
            if number is signal.SIGKILL:
                os.killpg(self.pid, number)
            else:
                os.kill(self.pid, number)
            return True
        return False


def process_id(pid: int) -> ProcessId:
    """Who has that number now."""
    return ProcessId(pid, born(pid))


def born(pid: int) -> str:
    """When the process of that number began, on a clock of the system's own; empty if there is none, or a zombie."""
    if Path("/proc/self/stat").exists():
        return _born_by_proc(pid)
    return _born_by_ps(pid)


def _born_by_proc(pid: int) -> str:
    fields = _fields(pid)
    return "" if not fields or fields[_STATE_FIELD] in _DEAD else fields[_START_FIELD]


def _fields(pid: int) -> list[str]:
    """What the system says of the process behind its command, which may hold spaces and parentheses itself."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _born_by_ps(pid: int) -> str:
    listed = subprocess.run(
        ["ps", "-o", "state=,lstart=", "-p", str(pid)], check=False, capture_output=True, text=True
    ).stdout.split(maxsplit=1)
    return "" if len(listed) < 2 or listed[0][:1] in _DEAD else listed[1].strip()
