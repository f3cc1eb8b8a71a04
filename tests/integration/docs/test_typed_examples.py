"""The programs that a newcomer copies pass `mypy --strict` as a user's program would: no configuration of ours helps.

A block of Python in the README or the docs is a whole program, or a piece of one that uses names which its page has
introduced. A piece becomes the body of a coroutine whose parameters are these names; `GIVEN` says what each of them is.
"""

import ast
import builtins
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.tidy.sources import ROOT

LIMIT_S = 300.0
GIVEN = {
    "batch": "holdfast.model.batches.Batch",
    "bill": "Callable[[bytes], Awaitable[None]]",
    "bury": "Callable[[holdfast.Message], None]",
    "client": "holdfast.Client",
    "fetch_elsewhere": "Callable[..., None]",
    "frame": "pyspark.sql.DataFrame",
    "orders": "holdfast.Subscription",
    "PrinterError": "type[Exception]",
    "spark": "pyspark.sql.SparkSession",
    "stream": "pyspark.sql.DataFrame",
    "summary": "holdfast.cluster.demo.DemoSummary",
    "yesterday_ns": "int",
}
"""What the names are that pieces of programs use."""
IMPORTED = {
    "asyncio": "import asyncio",
    "holdfast": "import holdfast",
    "time": "import time",
    "partial": "from functools import partial",
    "Path": "from pathlib import Path",
    "Kind": "from holdfast.cluster.campaign import Kind",
    "run_seed": "from holdfast.cluster.campaign import run_seed",
}
"""What a page has imported before, or says in words that it is."""
HEAD = "from collections.abc import Awaitable, Callable\n"


class Block(NamedTuple):
    """Python in a document, and the line on which it begins."""

    document: Path
    line: int
    text: str

    @property
    def name(self) -> str:
        place = self.document.relative_to(ROOT).with_suffix("")
        return f"{re.sub(r'[^a-z]', '_', str(place).lower())}_{self.line}.py"


def blocks() -> Iterator[Block]:
    for document in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = document.read_text()
        for found in re.finditer(r"^( *)```python\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE):
            body = re.sub(f"^{found[1]}", "", found[2], flags=re.MULTILINE)
            yield Block(document, text.count("\n", 0, found.start()) + 2, body)


def names_missing(text: str) -> set[str]:
    """The names that a block uses and has not defined before."""
    tree = compile(text, "block", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    used: dict[str, tuple[int, int]] = {}
    defined: dict[str, tuple[int, int]] = dict.fromkeys(dir(builtins), (0, 0))
    for node in ast.walk(tree):
        place = (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                used[name] = min(place, used.get(name, place))
            case ast.Name(id=name) | ast.ExceptHandler(name=str(name)):
                defined[name] = min(place, defined.get(name, place))
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.arg(arg=name)
            ):
                defined[name] = (0, 0)  # A function may be used above its definition, in another one.
            case ast.alias(name=name, asname=alias):
                defined[(alias or name).split(".")[0]] = (0, 0)
    return {name for name, place in used.items() if name not in defined or place < defined[name]}


def is_whole(text: str) -> bool:
    try:
        compile(text, "block", "exec")
    except SyntaxError:
        return False
    return not names_missing(text)


def program_of(block: Block) -> str:
    """The block as a module that a type checker can read."""
    if is_whole(block.text):
        return block.text
    missing = names_missing(block.text)
    unknown = sorted(missing - GIVEN.keys() - IMPORTED.keys())
    assert not unknown, f"{block.document}:{block.line} uses {unknown}: define them there, or in GIVEN"
    given = {name: GIVEN[name] for name in sorted(missing & GIVEN.keys())}
    modules = {found for kind in given.values() for found in re.findall(r"((?:holdfast|pyspark)[.\w]*)\.\w+", kind)}
    imports = {IMPORTED[name] for name in missing & IMPORTED.keys()} | {f"import {module}" for module in modules}
    parameters = ", ".join(f"{name}: {kind}" for name, kind in given.items())
    body = "".join(f"    {line}" if line.strip() else line for line in block.text.splitlines(keepends=True))
    head = HEAD + "".join(f"{line}\n" for line in sorted(imports))
    return f"{head}\n\nasync def piece({parameters}) -> None:\n{body}"


def test_every_example_passes_a_strict_type_checker(tmp_path: Path):
    found = list(blocks())
    assert found
    for block in found:
        (tmp_path / block.name).write_text(program_of(block))
    for program in (ROOT / "examples").glob("*.py"):
        (tmp_path / f"examples_{program.name}").write_text(program.read_text())
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent"),
            f"--cache-dir={ROOT / '.mypy_cache' / 'examples'}",
            *sorted(path.name for path in tmp_path.glob("*.py")),
        ],
        cwd=tmp_path,
        env={"MYPYPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
