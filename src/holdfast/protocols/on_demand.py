"""Members of this room that are imported when they are asked for.

A process that reads a cluster file needs a handful of the classes of a layer, and a broker one machine of many.
Importing all of them takes a third of the time in which `holdfast pub` starts. Every module that is imported here lies
in this room, and is as pure as the module that asks for it.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

ROOM = "holdfast.protocols"


def member(module: str, name: str) -> Any:
    """What a module of this room calls by that name."""
    return getattr(import_module(f"{ROOM}.{module}"), name)


def on_demand(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package of this room; `homes` has the module of each name."""

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return member(f"{package.removeprefix(f'{ROOM}.')}.{homes[name]}", name)

    return load
