"""How much a machine remembers, counted from outside."""

from collections import deque
from typing import Any


def entries_of(machine: object) -> dict[str, int]:
    """By attribute of the machine: how many entries the containers hold that can be reached through it.

    Values that cannot grow (numbers, text) count nothing. What two attributes share counts for the first.
    """
    seen = {id(machine)}
    return {name: _count(value, seen) for name, value in vars(machine).items()}


def _count(value: Any, seen: set[int]) -> int:
    if isinstance(value, str | bytes | int | float | type | None) or callable(value) or id(value) in seen:
        return 0
    seen.add(id(value))
    if isinstance(value, dict):
        return len(value) + sum(_count(one, seen) for pair in value.items() for one in pair)
    if isinstance(value, list | tuple | set | frozenset | deque):
        return len(value) + sum(_count(one, seen) for one in value)
    return sum(_count(one, seen) for one in _parts(value))


def _parts(value: object) -> list[Any]:
    slots = [slot for kind in type(value).__mro__ for slot in getattr(kind, "__slots__", ())]
    fields = getattr(value, "__struct_fields__", ())
    return [*getattr(value, "__dict__", {}).values(), *(getattr(value, name, None) for name in (*slots, *fields))]
