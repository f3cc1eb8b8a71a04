"""The examples in README.md and docs/: fenced blocks, and the HTML comments in front of them that say how they are run.

A document is a session that a reader types from top to bottom. Without a comment a block of `sh` is run by a shell, a
block of `python` as a program, a block of `toml` is read as a cluster file, and each line of a block of `filter` is
parsed as a filter. A comment `<!-- example: ... -->` in front of the block says something else:

    not run: REASON             for a reason that the reader of the source can judge
    file NAME                   the block is written to that file, for the blocks behind it
    given NAME, NAME            a piece of a program that uses these names; awaits are allowed
    second terminal: TEXT       runs beside the rest, which goes on when the block has printed that text
    output                      (a block of `text`) lines that the block before has printed, in this order
    output of second terminal   the same, of the last block that runs beside the rest
    part of a cluster file      goes with `CLUSTER_REST`

In expected output `…` stands for any characters. Blocks in other languages, or in none, are pictures.
"""

import re
from pathlib import Path
from typing import NamedTuple

from tests.tidy.sources import ROOT

RUN_LANGUAGES = ("sh", "python", "toml", "filter")
CLUSTER_REST = """
[brokers.a]
[brokers.b]
parent = "a"
[brokers.c]
parent = "a"
[repositories.r1]
broker = "b"
streams = ["bank/#"]
"""
ELLIPSIS = "…"

_MARKER = re.compile(r"^ *<!-- example: (.*) -->$")
_FENCE = re.compile(r"^( *)```(\w*)$")


class Example(NamedTuple):
    """One fenced block; `line` is where it begins, `said` the comment in front of it."""

    document: str
    line: int
    language: str
    said: str
    text: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"

    @property
    def is_run(self) -> bool:
        return self.language in RUN_LANGUAGES and not self.said.startswith("not run: ")

    def option(self, name: str) -> str:
        """What the comment says behind that word; empty if it says something else."""
        return self.said.removeprefix(name).strip() if self.said.startswith(name) else ""

    @property
    def given(self) -> list[str]:
        """The names that a piece of a program uses; empty for whole programs."""
        return [name.strip() for name in self.option("given ").split(",")] if self.option("given ") else []


def documents() -> list[Path]:
    """Where there are examples: the decisions have none, and the change log speaks of the past."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def examples_of(document: Path) -> list[Example]:
    """The fenced blocks of a document, in their order."""
    return examples_in(document.read_text(), str(document.relative_to(ROOT)))


def examples_in(text: str, name: str) -> list[Example]:
    """The fenced blocks of a text that is called by that name."""
    found: list[Example] = []
    said, opened, indent, language = "", 0, "", ""
    body: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        fence = _FENCE.match(line)
        if opened:
            if fence and not fence[2]:
                found.append(Example(name, opened, language, said, "".join(body)))
                said, opened = "", 0
            else:
                body.append(line.removeprefix(indent) + "\n")
        elif fence:
            opened, indent, language, body = number, fence[1], fence[2], []
        elif marker := _MARKER.match(line):
            said = marker[1]
        elif line.strip():
            said = ""
    if opened:
        raise AssertionError(f"{name}:{opened}: the block is not closed")
    return found


def problems_with(expected: str, printed: str) -> list[str]:
    """The first line of what is expected that was not printed behind the one before it; nothing if all were."""
    left = printed.splitlines()
    for line in filter(str.strip, expected.splitlines()):
        pattern = re.compile(".*".join(map(re.escape, line.strip().split(ELLIPSIS))))
        while left and not pattern.fullmatch(left[0].strip()):
            left.pop(0)
        if not left:
            return [f"expected, and not printed: {line.strip()!r}; printed was:\n{printed}"]
        left.pop(0)
    return []
