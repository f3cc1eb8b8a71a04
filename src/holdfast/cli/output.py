"""Where the command line writes: results to stdout, everything else to stderr."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

console = Console(highlight=False)
notes = Console(stderr=True, highlight=False)

Advance = Callable[[str, int, int], None]
"""Says in which phase the work is, how much of it is done, and how much there is."""


def print_json(value: Any) -> None:
    """A value as indented JSON."""
    encoded = msgspec.json.encode(value, enc_hook=str)
    sys.stdout.write(msgspec.json.format(encoded, indent=2).decode() + "\n")
    sys.stdout.flush()


def print_line(text: str) -> None:
    """One line, at once: whoever reads a pipe sees it now."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """Something about the work, not of its result."""
    notes.print(text, markup=False, soft_wrap=True)


def complain(sentence: str) -> None:
    """The one sentence of a command that cannot be carried out."""
    sys.stderr.write(f"holdfast: {sentence}\n")
    sys.stderr.flush()


@contextmanager
def progress() -> Iterator[Advance]:
    """A progress bar on stderr if somebody is looking; each phase has a line of its own."""
    bar = Progress(
        SpinnerColumn(finished_text="✓"),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=notes,
        disable=not notes.is_terminal,
    )
    tasks: dict[str, Any] = {}
    with bar:

        def advance(phase: str, done: int, total: int) -> None:
            if phase not in tasks:
                tasks[phase] = bar.add_task(phase, total=total)
            bar.update(tasks[phase], completed=done, total=total)

        yield advance


def table(title: str, *columns: str) -> Table:
    """A table whose first column is text and whose other columns are figures."""
    made = Table(title=title, title_justify="left", title_style="bold")
    for index, column in enumerate(columns):
        made.add_column(column, justify="right" if index else "left")
    return made
