"""What the house is like to live in, in figures: chains of classes, large classes, overridden methods, a crash's way.

    python scripts/house.py [--json]        the figures
    python scripts/house.py --shrink        forget exceptions of tests/tidy/house.toml that are none any more

Figures are read from the sources, without importing them; only the way of a crash is run, in the simulator.
`tests/tidy/test_house.py` holds classes to the limits below. What is over a limit today is listed in
`tests/tidy/house.toml` with its figure: nothing may be added to that list, and no figure in it may grow.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import json
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "holdfast"
EXCEPTIONS = ROOT / "tests" / "tidy" / "house.toml"

LEVELS_MAX = 2
"""Classes of ours in a chain of inheritance, the class itself among them; interfaces and errors are not counted."""
METHODS_MAX = 45
ATTRIBUTES_MAX = 25
"""Of an instance, with everything that its class inherits from classes of ours."""
ERRORS = {name for name, one in vars(builtins).items() if isinstance(one, type) and issubclass(one, BaseException)}
VALUES = {"_replace", "_asdict", "_fields", "_make", "_value_", "_name_"}
"""What named tuples and enumerations call their own, though it begins like something private."""


@dataclass
class Class:
    """One class of the package, as its source says it."""

    name: str
    """With its module: `protocols.links.Link`."""
    bases: list[str]
    methods: set[str]
    attributes: set[str]
    is_interface: bool
    used: set[str]
    """What its methods read or set on `self`."""
    is_error: bool = False
    ancestors: list[Class] = field(default_factory=list)
    """All classes of ours from which it inherits, the nearest first, without interfaces."""
    levels: int = 1

    @property
    def all_methods(self) -> set[str]:
        return self.methods.union(*(one.methods for one in self.ancestors))

    @property
    def all_attributes(self) -> set[str]:
        return self.attributes.union(*(one.attributes for one in self.ancestors))

    @property
    def inherited_privates(self) -> set[str]:
        """Private names on `self` that only an ancestor in another module defines."""
        elsewhere = [one for one in self.ancestors if one.module != self.module]
        theirs = set().union(*(one.methods | one.attributes for one in elsewhere))
        return {one for one in self.used & theirs - self.methods - self.attributes if one.startswith("_")}

    @property
    def module(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def overridden(self) -> set[str]:
        """Its methods that an ancestor has, too."""
        return self.methods & set().union(*(one.methods for one in self.ancestors)) - {"__init__"}


def modules() -> dict[str, ast.Module]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text())
    return found


def classes(trees: Mapping[str, ast.Module]) -> dict[str, Class]:
    """All classes on the top level of modules, with what they inherit."""
    found: dict[str, Class] = {}
    for module, tree in trees.items():
        names = _imported(tree)
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                bases, own = [_base(base) for base in node.bases], _on_self(node)
                called = [names.get(base, f"{module}.{base}") for base in bases]
                found[f"{module}.{node.name}"] = Class(
                    f"{module}.{node.name}",
                    called,
                    {one.name for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)},
                    {one.attr for one in own if isinstance(one.ctx, ast.Store)},
                    "Protocol" in bases,
                    {one.attr for one in own},
                    any(base in ERRORS for base in bases),
                )
    for one in found.values():
        one.ancestors = [base for base in _ancestors(one, found) if not base.is_interface]
        one.levels = _levels(one, found)
        one.is_error |= any(base.is_error for base in one.ancestors)
    return found


def _imported(tree: ast.Module) -> dict[str, str]:
    return {
        alias.asname or alias.name: f"{(node.module or '').removeprefix('holdfast.')}.{alias.name}"
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and not node.level
        for alias in node.names
    }


def _base(node: ast.expr) -> str:
    return ast.unparse(node.value if isinstance(node, ast.Subscript) else node)


def _on_self(node: ast.ClassDef) -> list[ast.Attribute]:
    """What its methods read or set on `self`."""
    return [one for one in ast.walk(node) if isinstance(one, ast.Attribute) and _is_self(one.value)]


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _ancestors(one: Class, known: Mapping[str, Class]) -> list[Class]:
    found: dict[str, Class] = {}
    for base in (known[name] for name in one.bases if name in known):
        found |= {base.name: base} | {further.name: further for further in _ancestors(base, known)}
    return list(found.values())


def _levels(one: Class, known: Mapping[str, Class]) -> int:
    if one.is_interface:
        return 0
    return 1 + max((_levels(known[name], known) for name in one.bases if name in known), default=0)


def touched_privates(trees: Mapping[str, ast.Module]) -> dict[str, int]:
    """How often a module touches something private of an object that another module defines, by module and name."""
    found: dict[str, int] = {}
    for module, tree in trees.items():
        private = [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and _is_private(node)]
        own = set(_defined(tree)) if private else set()
        for name in private:
            if name not in own:
                found[f"{module}: {name}"] = found.get(f"{module}: {name}", 0) + 1
    return found


def _defined(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value):
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("_"):
            yield node.value  # A name among `__slots__`.


def _is_private(node: ast.Attribute) -> bool:
    """Whether it is something private of another object."""
    if not node.attr.startswith("_") or node.attr.startswith("__") or node.attr in VALUES:
        return False
    return not _is_self(node.value) and not _is_super(node.value)


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def repeated_names(known: Mapping[str, Class]) -> dict[str, int]:
    """Names of classes that more than one module defines; what begins with `_` is its module's own."""
    places: dict[str, int] = {}
    for name in known:
        last = name.rpartition(".")[2]
        if not last.startswith("_"):
            places[last] = places.get(last, 0) + 1
    return {name: count for name, count in sorted(places.items()) if count > 1}


def over_limits() -> dict[str, dict[str, int]]:
    """What is over a limit, by limit: the figure of each."""
    trees = modules()
    known = classes(trees)
    return {
        "levels": {one.name: one.levels for one in known.values() if one.levels > LEVELS_MAX and not one.is_error},
        "methods": {one.name: len(one.all_methods) for one in known.values() if len(one.all_methods) > METHODS_MAX},
        "attributes": {
            one.name: len(one.all_attributes)
            for one in known.values()
            if len(one.all_attributes) > ATTRIBUTES_MAX and not one.is_interface
        },
        "privates": touched_privates(trees),
        "names": repeated_names(known),
    }


def listed() -> dict[str, dict[str, int]]:
    """The exceptions of today."""
    return tomllib.loads(EXCEPTIONS.read_text())


def written(exceptions: Mapping[str, Mapping[str, int]]) -> str:
    """The text of the list of exceptions."""
    blocks = [
        f"[{limit}]\n" + "".join(f"{json.dumps(name)} = {figure}\n" for name, figure in sorted(entries.items()))
        for limit, entries in exceptions.items()
    ]
    return "# What is over a limit of scripts/house.py today. No entry is added, and no figure grows.\n\n" + "\n".join(
        blocks
    )


def shrunk(before: Mapping[str, Mapping[str, int]], now: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """The list without entries that are none any more, and with figures that have become smaller."""
    return {
        limit: {name: min(figure, now[limit][name]) for name, figure in entries.items() if name in now[limit]}
        for limit, entries in before.items()
    }


# ------------------------------------------------------------------------------------------------- the way of a crash

CRASH_S = 2.5


def crash_modules() -> list[str]:
    """The modules of `protocols` that run from a broker's death on, and do not run then in the same run without it."""
    from holdfast.simulation.faults import Command, Crash, Publish, Subscribe  # noqa: PLC0415 - only here
    from holdfast.simulation.scenarios import Scenario, Timed  # noqa: PLC0415

    traffic: list[tuple[float, Command]] = [(0.0, Subscribe("bob@3", "t")), (0.0, Subscribe("eve@2", "t"))]
    traffic += [(2.0 + at / 20, Publish("alice@4", "t", b"x", "causal")) for at in range(20)]

    def visited(*more: tuple[float, Command]) -> set[str]:
        timetable = tuple(Timed(time_s, command) for time_s, command in sorted([*traffic, *more], key=lambda it: it[0]))
        sim = Scenario(tree="0-1 0-2 1-3 1-4", name="crash", tolerance=1, seed=1, timetable=timetable).build()
        sim.run_for(CRASH_S - 0.01)
        seen: set[str] = set()

        def note(frame: object, event: str, _: object) -> None:
            if event == "call":
                seen.add(frame.f_code.co_filename)  # type: ignore[attr-defined]

        sys.setprofile(note)
        try:
            sim.run_until_quiet(60.0)
        finally:
            sys.setprofile(None)
        return {name for name in seen if "/holdfast/protocols/" in name}

    places = visited((CRASH_S, Crash("1"))) - visited()
    return sorted(name.partition("/holdfast/")[2].removesuffix(".py").replace("/", ".") for name in places)


def figures() -> dict[str, object]:
    trees = modules()
    known = classes(trees)
    deepest = max(
        (one for one in known.values() if not one.is_error), key=lambda one: (one.levels, len(one.all_methods))
    )
    largest = max(known.values(), key=lambda one: len(one.all_methods))
    chain = [deepest, *deepest.ancestors]
    crash = crash_modules()
    return {
        "classes": len(known),
        "longest_chain": [one.name for one in chain],
        "longest_chain_levels": deepest.levels,
        "largest_class": largest.name,
        "methods": len(largest.all_methods),
        "attributes": len(largest.all_attributes),
        "overridden_in_longest_chain": len(set().union(*(one.overridden for one in chain))),
        "overridden_in_all": sum(len(one.overridden) for one in known.values()),
        "inherited_privates_used": sum(len(one.inherited_privates) for one in known.values()),
        "privates_touched": sum(touched_privates(trees).values()),
        "names_repeated": len(repeated_names(known)),
        "crash_modules": crash,
        "crash_modules_count": len(crash),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--shrink", action="store_true", help="Write the list of exceptions without what is none.")
    arguments = parser.parse_args()
    if arguments.shrink:
        EXCEPTIONS.write_text(written(shrunk(listed(), over_limits())))
        return
    found = figures()
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    for name, value in found.items():
        print(f"{name.replace('_', ' '):28} {', '.join(value) if isinstance(value, list) else value}")


if __name__ == "__main__":
    main()
