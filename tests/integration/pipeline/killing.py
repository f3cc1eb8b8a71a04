"""Killing a job with SIGKILL at random moments, letting it go on, and counting afterwards what is there how often."""

import json
import math
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from threading import Event
from time import monotonic
from typing import Literal

import pyarrow.parquet as pq

from holdfast.model.batches import Message
from tests.integration.pipeline.hall import Hall
from tests.integration.pipeline.recorded import record

ROOT = Path(__file__).parents[3]
MESSAGES_PER_KILL = 1500
"""By so much the recording grows before each kill, which comes after up to as many messages were published."""
LIMIT_S = 240
FINISH_S_PER_KILL = 6
"""So much longer the last life may take: about half of what was recorded is still to be done."""
LOOK_EVERY_S = 0.2
ENDS_MAX = 4
LINES_MAX, LINE_MAX = 30, 300
_SESSION_FIELD = 3  # of /proc/PID/stat, counted behind the command's closing parenthesis

Kind = Literal["workers", "driver", "everything"]
KINDS: Sequence[Kind] = ("workers",) * 8 + ("driver", "everything")
"""`workers`: Spark's Python workers, whose tasks are repeated. `driver`: the program and its Java, while workers live
on until they notice, and publish into the next life. `everything`: at once, as when a machine loses power."""


@dataclass(frozen=True)
class Count:
    """How often something is wrong, among how many messages."""

    messages: int
    duplicates: int
    losses: int
    out_of_order: int = 0
    """Publishers whose numbers did not arrive as 1, 2, 3 and so on."""

    @property
    def is_exact(self) -> bool:
        return not (self.duplicates or self.losses or self.out_of_order)


@dataclass(frozen=True)
class Outcome:
    """What was found after the last life, and how many kills of each kind there were before it."""

    kills: dict[Kind, int]
    archived: Count
    published: Count


class Job:
    """The job as a process of its own."""

    def __init__(self, place: Path, *arguments: object, module: str = "killed_job") -> None:
        self._log = place / "stderr"
        with self._log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"tests.integration.pipeline.{module}", str(place), *map(str, arguments)],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )

    def kill(self, kind: Kind) -> None:
        # First everybody is listed, then all are killed: who is killed first must not have time for last words.
        doomed = [pid for pid in _session(self._process.pid) if kind == "everything" or _is_worker(pid)]
        if kind != "workers":
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        for pid in doomed if kind != "driver" else []:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def goes_on_until(self, there: Callable[[], bool]) -> None:
        """Return when that is so; it is an error if the job ends first."""
        while not there():
            assert not self.has_ended(), self.said()
            Event().wait(LOOK_EVERY_S)

    def wait(self, longer_s: float = 0.0) -> int:
        """Wait until it has ended; its exit code."""
        try:
            return self._process.wait(LIMIT_S + longer_s)
        finally:
            self.kill("everything")
            self._process.wait()

    def said(self) -> str:
        """The end of what it said on stderr, without where in Java that was."""
        lines = [line for line in self._log.read_text().splitlines() if not line.startswith("\tat ")]
        return "\n".join(line[:LINE_MAX] for line in lines[-LINES_MAX:])


def kill_and_restart(
    place: Path, kills: int, seed: int, say: Callable[[str], None] = lambda _: None, limit_s: float = math.inf
) -> Outcome:
    """Kill the job so many times, whenever some random number of messages more has been published; then count.

    No more than `limit_s` are spent on killing.
    """
    random = Random(seed)
    until = monotonic() + limit_s
    recording, total, ended = place / "recording", 0, 0
    counted: Counter[Kind] = Counter()
    with Hall() as hall:
        job: Job | None = None
        for number in range(kills):
            if monotonic() > until:
                break
            kind: Kind = KINDS[(number + seed) % len(KINDS)]
            total = _grow(recording, total)
            at = hall.heard_so_far() + random.randrange(1, MESSAGES_PER_KILL)
            say(f"kill {number + 1}: {kind}, when {at} of {total} messages are published")
            job = job or Job(place, recording, hall.address)
            while not _kill_when(job, hall, kind, at):
                # Spark gives a query up whose task has failed too often; whoever supervises it starts it again.
                ended += 1
                assert ended <= ENDS_MAX, f"it ended by itself {ended} times: {job.said()}"
                say(f"it ended by itself, and is started again: {job.said()}")
                job.wait()
                job = Job(place, recording, hall.address)
            counted[kind] += 1
            if kind != "workers":
                job.wait()
                job = None
        total = _grow(recording, total)
        (place / "finish").touch()
        job = job or Job(place, recording, hall.address)
        while job.wait(FINISH_S_PER_KILL * kills) != 0:
            ended += 1
            assert ended <= ENDS_MAX, f"it ended by itself {ended} times: {job.said()}"
            job = Job(place, recording, hall.address)
        heard = hall.heard()
    published = _count((each.payload for each in heard), total, _out_of_order(heard))
    return Outcome(dict(counted), _count(_archived_payloads(place / "archive"), total), published)


def _grow(recording: Path, total: int) -> int:
    record(recording, total, MESSAGES_PER_KILL, lot=100)
    return total + MESSAGES_PER_KILL


def _kill_when(job: Job, hall: Hall, kind: Kind, at: int) -> bool:
    """Kill it when so many messages are published; whether it lived that long."""
    killed = Event()

    def kill() -> None:
        job.kill(kind)
        killed.set()

    hall.when_heard(at, kill)
    limit = monotonic() + LIMIT_S
    while not killed.wait(LOOK_EVERY_S):
        if job.has_ended() and not killed.wait(LOOK_EVERY_S):
            hall.when_heard(at, lambda: None)
            return False
        if monotonic() > limit:
            job.kill("everything")
            job.wait()
            raise AssertionError(f"{hall.heard_so_far()} of {at} messages came, then no more: {job.said()}")
    return True


def _session(leader: int) -> list[int]:
    """Every process of a session: workers have left the group."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[_SESSION_FIELD]) == leader:
            found.append(int(stat.parent.name))
    return found


def _is_worker(pid: int) -> bool:
    try:
        return b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _archived_payloads(archive: Path) -> list[bytes]:
    """By a reader that knows nothing of Spark's list of files: of every file that is there."""
    files = [file for file in archive.rglob("*.parquet") if not file.relative_to(archive).parts[0].startswith("_")]
    return [payload for file in files for payload in pq.read_table(file, columns=["payload"])["payload"].to_pylist()]


def _count(payloads: Iterable[bytes], total: int, out_of_order: int = 0) -> Count:
    seen = Counter(json.loads(payload)["number"] for payload in payloads)
    duplicates = sum(seen.values()) - len(seen)
    return Count(total, duplicates, sum(number not in seen for number in range(total)), out_of_order)


def _out_of_order(heard: Sequence[Message]) -> int:
    last: dict[str, int] = {}
    wrong: set[str] = set()
    for each in heard:
        if each.seq != last.get(each.publisher, 0) + 1:
            wrong.add(each.publisher)
        last[each.publisher] = each.seq
    return len(wrong)
