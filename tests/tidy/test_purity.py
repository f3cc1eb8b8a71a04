"""The pure rooms stay pure: nothing in them can reach a socket, a clock, a disk or a shared source of chance."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy.sources import PACKAGE, imports_of, package_modules

PURE_ROOMS = ("model", "protocols")
IMPURE_MODULES = frozenset(
    {
        "asyncio",
        "concurrent",
        "datetime",
        "glob",
        "http",
        "importlib",
        "io",
        "logging",
        "multiprocessing",
        "os",
        "pathlib",
        "secrets",
        "select",
        "selectors",
        "shutil",
        "signal",
        "socket",
        "socketserver",
        "sqlite3",
        "ssl",
        "subprocess",
        "tempfile",
        "threading",
        "time",
        "urllib",
        "uuid",
        "uvloop",
    }
)
LOADER = "holdfast/protocols/on_demand.py"
"""The one pure module that may import others by name: those of its own room."""
IMPURE_CALLS = frozenset({"__import__", "breakpoint", "input", "open", "print"})


def purity_violations(source: str, path: Path) -> list[str]:
    """Say whatever in `source` reaches outside the machine; `path` is relative to the package's parent."""
    tree = ast.parse(source)
    found = [*_impure_imports(source, path), *_impure_calls(tree), *_global_chance(tree)]
    return [f"{path}:{line}: {what}" for line, what in sorted(found)]


def _impure_imports(source: str, path: Path) -> Iterator[tuple[int, str]]:
    for imported in imports_of(source, path):
        top = imported.module.split(".")[0]
        if top in IMPURE_MODULES and (top, path.as_posix()) != ("importlib", LOADER):
            yield imported.line, f"imports {top}; the driver of a machine gives it what it needs, as events"


def _impure_calls(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS:
            yield node.lineno, f"calls {node.func.id}(); a machine answers with effects only"


def _global_chance(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """`random` may serve as the type of what is injected, `random.Random`, and as nothing else."""
    why = "chance is injected as a random.Random, and random is imported to name that type alone"
    annotations = _nodes_in_annotations(tree)
    modules, classes = set(), set()
    for node in _nodes_at_run_time(tree):
        match node:
            case ast.Import(names=names):
                modules |= {alias.asname or "random" for alias in names if alias.name == "random"}
            case ast.ImportFrom(module="random", level=0, names=names):
                classes |= {alias.asname or "Random" for alias in names if alias.name == "Random"}
                if any(alias.name != "Random" for alias in names):
                    yield node.lineno, why
            case _:
                pass
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) if name in modules | classes and id(node) not in annotations:
                yield node.lineno, why
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in modules and attribute != "Random":
                if id(node) in annotations:
                    yield node.lineno, why
            case _:
                pass


def _nodes_in_annotations(tree: ast.Module) -> set[int]:
    roots: list[ast.expr | None] = []
    for node in ast.walk(tree):
        match node:
            case ast.AnnAssign(annotation=annotation) | ast.arg(annotation=annotation):
                roots.append(annotation)
            case ast.FunctionDef(returns=returns) | ast.AsyncFunctionDef(returns=returns):
                roots.append(returns)
            case _:
                pass
    return {id(inner) for root in roots if root is not None for inner in ast.walk(root)}


def _nodes_at_run_time(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk everything but the bodies of `if TYPE_CHECKING:`, which never run."""
    for node in ast.iter_child_nodes(tree):
        yield node
        if isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}:
            for other in node.orelse:
                yield other
                yield from _nodes_at_run_time(other)
        else:
            yield from _nodes_at_run_time(node)


def _pure_modules() -> list[Path]:
    return [path for path in package_modules() if path.relative_to(PACKAGE).parts[0] in PURE_ROOMS]


@pytest.mark.parametrize("path", _pure_modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_module_of_a_pure_room_is_pure(path: Path):
    assert purity_violations(path.read_text(), path.relative_to(PACKAGE.parent)) == []


@pytest.mark.parametrize(
    "source",
    [
        *(f"import {module}" for module in sorted(IMPURE_MODULES)),
        "import os.path",
        "from time import monotonic",
        "from concurrent.futures import Future",
        "def late():\n    import socket",
        "if TYPE_CHECKING:\n    import asyncio",
        "open('x')",
        "print('here')",
        "answer = input()",
        "clock = __import__('ti' + 'me')",
        "import random\nrandom.random()",
        "import random as chance\nchance.shuffle([])",
        "import random\nx = random.Random(7)",
        "import random\ndef f(r: random.SystemRandom): ...",
        "from random import Random\nx = Random(7)",
        "from random import Random as Chance\nx = Chance()",
        "from random import choice",
    ],
)
def test_a_reach_outside_is_reported_with_its_place(source: str):
    [violation] = purity_violations(source, Path("holdfast/protocols/links.py"))
    line = 1 if source == "from random import choice" else source.count("\n") + 1
    assert violation.startswith(f"holdfast/protocols/links.py:{line}: ")


@pytest.mark.parametrize(
    "source",
    [
        "from random import Random\ndef f(chance: Random) -> Random: ...",
        "from random import Random\nclass Node:\n    chance: Random | None = None",
        "import random\ndef f(chance: random.Random): ...",
        "if TYPE_CHECKING:\n    import random",
        "if typing.TYPE_CHECKING:\n    from random import Random\nelse:\n    Random = object",
        "import heapq\nimport msgspec\nfrom holdfast.model import time",
        "self.open()\nreader.input()",
    ],
)
def test_what_a_machine_may_do_is_no_violation(source: str):
    assert purity_violations(source, Path("holdfast/protocols/links.py")) == []
