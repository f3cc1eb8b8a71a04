"""The prompt of `holdfast play`: lines are typed while the cluster runs, and what happens is shown above them.

The line editor is readline of the standard library: history and completion without another package. It needs the main
thread, where Ctrl-C arrives; the stage has an event loop in a thread of its own.
"""

import asyncio
import os
import sys
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from pathlib import Path
from time import monotonic
from types import ModuleType
from typing import Any, TypeVar

from holdfast.cli.output import print_line
from holdfast.cluster.play.cast import Cast
from holdfast.cluster.play.completion import completions
from holdfast.cluster.play.grammar import FORMS, parse_line
from holdfast.cluster.play.performance import Performance, PlayError, Summary
from holdfast.cluster.play.recording import Recording
from holdfast.cluster.play.words import ScriptError
from holdfast.model.trace import Event

PROMPT = "play> "
SOURCE = "prompt"
HISTORY_MAX = 1000
CATCH_UP_S = 0.25
CANCEL_S = 10.0
ENDS = ("exit", "quit")
WELCOME = (
    "Begin with brokers and clients: Broker a, Broker b Parent a, Publisher p At a, Subscriber s At b.\n"
    "The first action starts the cluster. Help lists all commands, Tab completes words, Ctrl-C breaks off\n"
    "a command, Ctrl-D ends."
)
T = TypeVar("T")


class Screen:
    """Writes lines above the one that is being typed."""

    def __init__(self) -> None:
        self.editor: ModuleType | None = None
        self.typing = False

    def say(self, line: str) -> None:
        if self.editor is None or not self.typing:
            print_line(line)
            return
        sys.stdout.write(f"\r\x1b[K{line}\n{PROMPT}{self.editor.get_line_buffer()}")
        sys.stdout.flush()


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def begin(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Let the work go on beside everything else."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for the work; Ctrl-C cancels it, and it is waited for until it has ended."""
        future = self.begin(work)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            self.begin(asyncio.sleep(0)).result(CANCEL_S)
            raise

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CANCEL_S)
        self._loop.close()


class Prompt:
    """A session at the prompt."""

    def __init__(self, performance: Performance, screen: Screen, record: Recording | None) -> None:
        self._performance, self._screen, self._record = performance, screen, record
        self._loop = Loop()
        self._lock = asyncio.Lock()
        self._line = 0
        self.wrong_lines = 0

    def run(self) -> tuple[Summary, list[Event]]:
        """Take lines until there are no more; the verdict at the end."""
        watching = self._loop.begin(self._watch())
        try:
            while (line := self._next_line()) is not None and line.strip().casefold() not in ENDS:
                self._carry_out(line)
            watching.cancel()
            return self._loop.run(self._performance.finish(wait=False))
        finally:
            watching.cancel()
            self._loop.run(self._performance.end())
            self._loop.close()

    def _next_line(self) -> str | None:
        self._line += 1
        if self._screen.editor is None:
            return sys.stdin.readline() or None
        while True:
            self._screen.typing = True
            try:
                return input(PROMPT)
            except EOFError:
                print_line("")
                return None
            except KeyboardInterrupt:
                # As in a shell: the line is dropped, and the next one begins.
                print_line("")
            finally:
                self._screen.typing = False

    def _carry_out(self, line: str) -> None:
        words = line.split()
        if words and words[0].casefold() in ("help", "?"):
            show_help(words[1:])
            return
        try:
            self._loop.run(self._perform(line))
        except (ScriptError, PlayError) as error:
            self.wrong_lines += 1
            print_line(str(error))
        except (KeyboardInterrupt, CancelledError):
            if self._screen.editor is None:
                raise KeyboardInterrupt from None
            print_line("broken off")

    async def _perform(self, line: str) -> None:
        statement = parse_line(line, self._line, SOURCE)
        if statement is None:
            return
        begun_at = monotonic()
        async with self._lock:
            await self._performance.perform(statement)
        if self._record is not None:
            self._record.add(statement, begun_at)

    async def _watch(self) -> None:
        """Show what happens while nobody types."""
        while True:
            await asyncio.sleep(CATCH_UP_S)
            async with self._lock:
                await self._performance.catch_up()


def show_help(words: list[str]) -> None:
    """All commands, or those that begin with the words."""
    wanted = [form for key, form in FORMS.items() if not words or key.startswith(words[0].casefold())]
    for form in wanted or FORMS.values():
        print_line(f"{form.usage}\n    {form.meaning}")


def open_editor(cast: Cast) -> ModuleType | None:
    """The line editor, if somebody types at a terminal."""
    if not sys.stdin.isatty():
        return None
    import readline  # noqa: PLC0415 - importing it changes the terminal

    def complete(text: str, state: int) -> str | None:
        line = readline.get_line_buffer()[: readline.get_endidx()]
        found = completions(line, cast)
        del text
        return f"{found[state]} " if state < len(found) else None

    readline.set_completer_delims(" \t")
    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")
    with suppress(OSError):
        readline.read_history_file(_history())
    return readline


def close_editor(editor: ModuleType | None) -> None:
    """Keep what was typed for the next session."""
    if editor is None:
        return
    with suppress(OSError):
        file = _history()
        file.parent.mkdir(parents=True, exist_ok=True)
        editor.set_history_length(HISTORY_MAX)
        editor.write_history_file(file)


def _history() -> Path:
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "holdfast" / "play-history"
