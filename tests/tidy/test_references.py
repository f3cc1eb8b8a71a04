"""What comments, docstrings and documents refer to is in the repository: files, modules, and what they define.

A reader can open every file that is named, and find every name that is said to be in a module.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.tidy.sources import PACKAGE, ROOT
from tests.tidy.test_layering import ROOMS
from tests.tidy.test_tree import tracked_files

ENDINGS = (".py", ".md", ".toml")
NAMED = (".py", ".md", ".patch")
OLD = ("CHANGELOG.md",)
"""What is said there is about the files of the release that it is said of."""
FILE = re.compile(r"(?<![\w./*<>~@:-])((?:[\w.-]+/)*[\w-]+\.(?:py|md|patch))(?![\w/])")
"""A file with its ending, perhaps with the folders above it; not within an address of the web."""
VARIABLES = ("client", "cluster")
"""Rooms whose names are also those of things: `client.publish` is no place."""
PLACE = re.compile(rf"`((?:{'|'.join(set(ROOMS) - set(VARIABLES))})(?:\.\w+)+)`")
"""A module of a room, or what it defines: `protocols.links.Link`."""
COLLECTION = re.compile(r"\b(ERR" + r"ATA)\b")
"""How the notes on the source documents were called before they were in the repository."""
MADE_UP = {"count.py", "listen.py"}
"""Files that a reader of the tutorial writes."""


def references(text: str, path: Path) -> Iterator[tuple[int, str]]:
    """The files and places that a file of the repository refers to, each with its line."""
    for line, said in _prose(text, path):
        for pattern in (FILE, PLACE, COLLECTION):
            for found in pattern.finditer(said):
                yield line + said.count("\n", 0, found.start()), found[1]


def _prose(text: str, path: Path) -> Iterator[tuple[int, str]]:
    if path.suffix != ".py":
        yield 1, text
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def is_there(name: str, said_in: Path) -> bool:
    if "/" in name or name.endswith(NAMED):
        return name in MADE_UP or _is_file(name, said_in)
    return _is_place(name)


def _is_file(name: str, said_in: Path) -> bool:
    near = [ROOT, ROOT / "src", PACKAGE, PACKAGE / "protocols", ROOT / "docs", *said_in.parents]
    return any((folder / name).exists() for folder in near) or ("/" not in name and name in _names())


@cache
def _names() -> frozenset[str]:
    return frozenset(path.name for path in tracked_files(ROOT))


def _is_place(name: str) -> bool:
    """Whether there is such a module, and, if more is named, whether it has a thing of that name."""
    path, parts = PACKAGE, name.split(".")
    while parts and (path / parts[0]).is_dir():
        path /= parts.pop(0)
    if parts and (path / f"{parts[0]}.py").is_file():
        path = path / f"{parts.pop(0)}.py"
    else:
        path /= "__init__.py"
    return not parts or (path.is_file() and all(re.search(rf"\b{part}\b", path.read_text()) for part in parts))


def violations(text: str, path: Path) -> list[str]:
    named = {found[1] for pattern in (FILE, PLACE, COLLECTION) for found in pattern.finditer(text)}
    if all(is_there(name, path) for name in named):
        return []  # Whether it is said in prose or in code: reading a module for that takes much longer.
    return [
        f"{path.relative_to(ROOT)}:{line}: there is no {name}"
        for line, name in references(text, path)
        if not is_there(name, path)
    ]


def test_what_is_referred_to_is_in_the_repository():
    found = []
    for path in tracked_files(ROOT):
        if path.suffix in ENDINGS and path.name not in OLD:
            found += violations(path.read_text(), path)
    assert found == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("# see FL" + "USH.md, trap 4\n", "FL" + "USH.md"),
        ("# see ERR" + "ATA, Ginger 4\n", "ERR" + "ATA"),
        ('"""The words are those of `protocols/nothing' + '.py`."""\n', "protocols/nothing.py"),
        ("x = 1  # `protocols.links.Chain" + "s`\n", "protocols.links.Chains"),
        ("x = 1  # `protocols.chain" + "s.Link`\n", "protocols.chains.Link"),
    ],
)
def test_a_reference_to_what_is_not_there_is_reported(text: str, name: str):
    assert violations(text, ROOT / "tests" / "tidy" / "some.py") == [f"tests/tidy/some.py:1: there is no {name}"]


def test_a_reference_to_what_is_there_is_none():
    text = "`protocols.links.Link`, `protocols/links.py`, docs/architecture.md, `model`, https://example.org/a/b.md\n"
    assert violations(text, ROOT / "README.md") == []
