"""Child processes that do one job and report in JSON lines: the clients of the demonstration, the roles of the bench.

A worker is started as `python -m MODULE JSON`, prints one JSON object a line with an `event` in each, and obeys the
words it reads, one a line. It is in a session of its own, so that Ctrl-C reaches only whoever started it, and it ends
when its standard input does, so that it never outlives its starter.
"""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, TypeVar

import msgspec

from holdfast.model.errors import HoldfastError, WorkFailed
from holdfast.runtime.process import run

LINE_BYTES_MAX = 1 << 26
STOP_S = 3.0
GOODBYE_S = 5.0
"""How long a worker whose starter is gone may take to end by itself."""
LOG_TAIL_LINES = 8
T = TypeVar("T")


class HasRole(Protocol):
    """Settings that say what their process is to do."""

    @property
    def role(self) -> str: ...


Part = TypeVar("Part", bound=HasRole)


class WorkerError(WorkFailed):
    """Raised when a child process ended, or stayed silent, before it had reported what it was started for."""


class Worker:
    """One child process. Use `async with`: leaving the block ends it, whatever happened inside."""

    def __init__(
        self,
        name: str,
        module: str,
        settings: dict[str, Any],
        log: Path,
        *,
        patient: bool = True,
        launcher: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`patient`: give the worker time to end by itself before it is killed; one that only computes needs none.

        `launcher` is put before its command. Its `environment` is that of this process if none is given.
        """
        self.name, self.log, self._patient, self._environment = name, log, patient, environment
        self._command = [*launcher, sys.executable, "-m", module, msgspec.json.encode(settings).decode()]
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        return self._running().pid

    async def start(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                env=self._environment,
                limit=LINE_BYTES_MAX,
            )

    async def __aenter__(self) -> "Worker":
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def tell(self, word: str) -> None:
        """Write one word to the worker; one that is gone is noticed when its next report is awaited."""
        stdin = self._running().stdin
        if stdin is not None:
            with suppress(ConnectionError):
                stdin.write(word.encode() + b"\n")

    async def report(self, event: str, timeout_s: float, other: Callable[[dict[str, Any]], None] | None = None) -> Any:
        """The worker's next report of that event; reports of other events are handed to `other`."""
        try:
            async with asyncio.timeout(timeout_s):
                while (found := await self._next_report()).get("event") != event:
                    if other is not None:
                        other(found)
                return found
        except TimeoutError:
            raise WorkerError(
                f"{self.name} did not report {event!r} within {timeout_s:g} s; it is being stopped.{self._tail()}"
            ) from None

    async def _next_report(self) -> dict[str, Any]:
        stdout = self._running().stdout
        line = await stdout.readline() if stdout is not None else b""
        if not line:
            code = await self._running().wait()
            raise WorkerError(f"{self.name} ended with exit code {code} before its work was done.{self._tail()}")
        decoded: dict[str, Any] = msgspec.json.decode(line)
        if decoded.get("event") == "failed":
            raise WorkerError(f"{self.name}: {decoded.get('reason')}")
        return decoded

    async def stop(self) -> None:
        """End the worker: first its input, then SIGTERM, then SIGKILL, to its whole session."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        if process.stdin is not None:
            process.stdin.close()
        for number in (None, signal.SIGTERM, signal.SIGKILL) if self._patient else (signal.SIGKILL,):
            if number is not None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_S):
                    await process.wait()
                    return

    def _running(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise WorkerError(f"{self.name} was not started.")
        return self._process

    def _tail(self) -> str:
        tail = log_tail(self.log)
        return f" Its log ends:\n{tail}" if tail else ""


def log_tail(log: Path, lines: int = LOG_TAIL_LINES) -> str:
    """The last lines of a log, indented; empty when there is none."""
    try:
        text = log.read_text(errors="replace")
    except OSError:
        return ""
    return "\n".join(f"  {line}" for line in text.splitlines()[-lines:])


# ---------------------------------------------------------------------------------------------- inside the worker


async def share_out(
    module: str,
    settings: Any,
    workers: int,
    keep_busy: Callable[[Worker], Coroutine[Any, Any, None]],
    environment: Mapping[str, str] | None = None,
) -> None:
    """Start so many workers that only compute, each with these settings, and keep each busy until all are done."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-workers-")))
        told = msgspec.to_builtins(settings)
        group = [
            Worker(f"worker {n}", module, told, directory / f"{n}.log", patient=False, environment=environment)
            for n in range(workers)
        ]
        for worker in group:
            await stack.enter_async_context(worker)
        async with asyncio.TaskGroup() as tasks:
            for worker in group:
                tasks.create_task(keep_busy(worker))


def say(event: str, **fields: object) -> None:
    """Report to whoever started this process."""
    sys.stdout.buffer.write(msgspec.json.encode({"event": event, **fields}) + b"\n")
    sys.stdout.buffer.flush()


def settings_of_this_process(kind: type[T]) -> T:
    """The settings that this process was started with."""
    return msgspec.json.decode(sys.argv[1].encode(), type=kind)


def work(main: Coroutine[Any, Any, None]) -> None:
    """Run this process's work to its end, and report why if it fails."""
    try:
        run(main)
    except HoldfastError as error:
        say("failed", reason=str(error))
    except asyncio.CancelledError:
        # Whoever started us is gone, or wants no more: there is nobody to tell.
        return


class Orders:
    """The words that the starter writes; the end of them cancels the task that runs this process."""

    def __init__(self) -> None:
        self._words: asyncio.Queue[str] = asyncio.Queue()
        self._rest = b""

    def listen(self) -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        os.set_blocking(0, False)

        def on_readable() -> None:
            with suppress(BlockingIOError):
                data = os.read(0, 4096)
                if not data:
                    loop.remove_reader(0)
                    if task is not None:
                        task.cancel()
                    # Brokers that were started with us are going, too: nobody may be left to say goodbye to.
                    loop.call_later(GOODBYE_S, os._exit, 1)
                    return
                *words, self._rest = (self._rest + data).split(b"\n")
                for word in words:
                    self._words.put_nowait(word.decode())

        loop.add_reader(0, on_readable)

    async def next(self) -> str:
        return await self._words.get()

    async def wait_for(self, word: str) -> None:
        while await self.next() != word:
            pass


def play(kind: type[Part], roles: Mapping[str, Callable[[Part, Orders], Coroutine[Any, Any, None]]]) -> None:
    """Run this process as the one of these roles that its settings name."""

    async def main() -> None:
        settings = settings_of_this_process(kind)
        orders = Orders()
        orders.listen()
        await roles[settings.role](settings, orders)

    work(main())
