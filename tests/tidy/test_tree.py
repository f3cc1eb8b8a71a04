"""The tree is kept clean: modules that say what they are, and no trace of where or how they were written.

How large classes may be, and how long chains of them, is in `test_house.py`.
"""

import ast
import re
import subprocess
from pathlib import Path

import pytest

from tests.tidy.sources import PACKAGE, ROOT, package_modules

# Where people keep their checkouts. Docs and code speak of relative paths, or of system ones such as a bin directory.
WORKPLACE = re.compile(r"(?<![\w.~$}-])/(?:work|workspace|root|home|Users|builds)/\w|[A-Z]:\\Users\\")
# The brackets keep this file from reporting itself.
UNFINISHED = re.compile(r"\b(?:TO[D]O|FIX[M]E)\b")


def module_violations(source: str, name: str) -> list[str]:
    """Say what is wrong with one module of the package."""
    if (ast.get_docstring(ast.parse(source)) or "").strip():
        return []
    return [f"{name}: no docstring; a module says first what it is for"]


def text_violations(text: str, name: str) -> list[str]:
    """Say what no file of the project should contain."""
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if WORKPLACE.search(line):
            found.append(f"{name}:{number}: a path that exists on one machine only: {line.strip()}")
        if UNFINISHED.search(line):
            found.append(f"{name}:{number}: unfinished work is an issue, not a comment: {line.strip()}")
    return found


def tracked_files(root: Path) -> list[Path]:
    """List what git tracks and is still there; a copy without git (an archive) has nothing to say about tracking."""
    if not (root / ".git").exists():
        return []
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True).stdout
    return [path for name in listed.split("\0") if name and (path := root / name).is_file()]


@pytest.mark.parametrize("path", package_modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_module_says_what_it_is_for(path: Path):
    assert module_violations(path.read_text(), str(path.relative_to(ROOT))) == []


def test_no_tracked_file_tells_where_it_was_written_or_what_is_missing():
    violations = []
    for path in tracked_files(ROOT):
        try:
            text = path.read_bytes().decode()
        except UnicodeDecodeError:
            continue  # An image or an archive: there are no sentences in it.
        violations += text_violations(text, str(path.relative_to(ROOT)))
    assert violations == []


@pytest.mark.parametrize("source", ["", "x = 1\n", '"""   """\n', "# A comment is no docstring.\n"])
def test_a_module_without_a_docstring_is_reported(source: str):
    assert module_violations(source, "m.py") == ["m.py: no docstring; a module says first what it is for"]


@pytest.mark.parametrize(
    "path",
    [
        "/work" + "/main/x",
        "/home" + "/ada/x",
        "/root" + "/x",
        "/Users" + "/ada",
        "file:///home" + "/a",
        "C:" + "\\Users\\a",
    ],
)
def test_a_path_of_somebodys_machine_is_reported(path: str):
    [violation] = text_violations(f"fine\nsee '{path}' there\n", "notes.md")
    assert violation.startswith("notes.md:2: a path that exists on one machine only")


@pytest.mark.parametrize(
    "text", ["/usr/bin/python3", "https://example.org/home/page", "docs/work/plan", "$HOME/work/x"]
)
def test_other_paths_are_no_violation(text: str):
    assert text_violations(text, "notes.md") == []


@pytest.mark.parametrize("word", ["TO" + "DO", "FIX" + "ME"])
def test_unfinished_work_is_reported(word: str):
    [violation] = text_violations(f"a = 1  # {word}: later", "m.py")
    assert violation.startswith("m.py:1: unfinished work")
    assert text_violations(word.lower() + word + "s", "m.py") == []


def test_only_files_that_git_tracks_and_that_exist_are_read(tmp_path: Path):
    assert tracked_files(tmp_path) == []
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    for name in ("kept.md", "removed.md", "untracked.md"):
        (tmp_path / name).write_text("words")
    subprocess.run(["git", "add", "kept.md", "removed.md"], cwd=tmp_path, check=True)
    (tmp_path / "removed.md").unlink()
    assert tracked_files(tmp_path) == [tmp_path / "kept.md"]
