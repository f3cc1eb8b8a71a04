"""How much a node remembers, counted: what must not grow with the network that it is a part of.

    entries = count_entries(sim.node("3"))

Everything that can be reached from the node is walked: an entry is an element of a dictionary, list, set or queue.
What a node was configured with counts as well. Functions, types and plain values are not looked into.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from msgspec import Struct

CONTAINERS = (dict, OrderedDict, list, tuple, set, frozenset, deque)
PLAIN = (
    str,
    bytes,
    int,
    float,
    bool,
    type(None),
    type,
    Enum,
    FunctionType,
    MethodType,
    BuiltinFunctionType,
    ModuleType,
)


def count_entries(node: object) -> int:
    """How many entries all containers of the node have, together."""
    seen: set[int] = set()
    waiting: list[Any] = [node]
    entries = 0
    while waiting:
        one = waiting.pop()
        if isinstance(one, PLAIN) or id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, CONTAINERS):
            entries += len(one)
        waiting.extend(_parts(one))
    return entries


def _parts(one: Any) -> Iterator[Any]:
    if isinstance(one, Mapping):
        yield from one.keys()
        yield from one.values()
    elif isinstance(one, CONTAINERS):
        yield from one
    elif isinstance(one, Struct):
        yield from (getattr(one, name) for name in one.__struct_fields__)
    else:
        yield from vars(one).values() if hasattr(one, "__dict__") else ()
        for kind in type(one).__mro__:
            names = getattr(kind, "__slots__", ())
            for name in (names,) if isinstance(names, str) else names:
                yield getattr(one, name, None)
