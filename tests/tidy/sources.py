"""What the tidy scanners share: where the sources are and what a module imports."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "holdfast"


@dataclass(frozen=True)
class Import:
    """One imported module, by its absolute name, and the line on which it is imported."""

    module: str
    line: int


def package_modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def imports_of(source: str, path: Path) -> Iterator[Import]:
    """Yield every import in a module of the package, wherever it stands; `path` is relative to the package's parent.

    `from holdfast import model` counts as `holdfast.model`: what is named may be a module, and a scanner that only
    saw `holdfast` would let it through.
    """
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (Import(alias.name, node.lineno) for alias in names)
            case ast.ImportFrom(names=names):
                base = _absolute_base(node, path)
                yield from (Import(f"{base}.{alias.name}", node.lineno) for alias in names)
            case ast.Call(func=ast.Name(id="__import__") | ast.Attribute(attr="import_module"), args=[first, *_]):
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    yield Import(first.value, node.lineno)
            case _:
                pass


def _absolute_base(node: ast.ImportFrom, path: Path) -> str:
    if not node.level:
        return node.module or ""
    package = path.parts[: len(path.parts) - node.level]
    return ".".join([*package, *([node.module] if node.module else [])])
