"""A digest of any value or machine that is equal for states that are the same.

Two machines that came to one state in different ways have different objects in different places of memory, and their
dictionaries were filled in different orders. None of that is part of a state: objects are known by their class and
attributes, dictionaries are taken in the order of their keys, and an object that occurs a second time is named by the
place of its first occurrence, which also ends circles. Frozen structs are values: they are known by their fields alone.

Of a regular expression the pattern counts. A value of a kind that has no canonical form is refused, since leaving it
out would call different states the same.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial
from hashlib import blake2b
from itertools import count
from types import BuiltinMethodType, FunctionType, MethodType, MethodWrapperType, ModuleType
from typing import Any, Final

from msgspec import Struct

from holdfast.model.errors import LocalMisuse

DIGEST_BYTES: Final = 16
FORMS_MAX: Final = 200_000
"""So many canonical forms of frozen structs are remembered: batches stand in many places of many machines."""
_CONTAINERS: Final = (dict, list, deque, set, frozenset, str, int, tuple)


class NotCanonicalError(LocalMisuse, TypeError):
    """A value of a kind of which nobody has said when two of them are the same."""


def digest_of(value: object) -> bytes:
    """The digest of a value: equal for equal states, and, but for a chance of 2^-64, for no others."""
    return blake2b(canonical(value), digest_size=DIGEST_BYTES).digest()


def canonical(value: object) -> bytes:
    """The canonical form itself."""
    writer = _Writer()
    writer.write(value)
    return b"".join(writer.parts)


class _Writer:
    """Writes the canonical form of one value, piece by piece."""

    __slots__ = ("_kept", "_places", "parts")

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self._places: dict[int, int] = {}
        self._kept: list[object] = []
        """Objects that may exist only while they are written: their addresses must not be used again meanwhile."""

    def write(self, value: Any) -> None:
        kind = type(value)
        way = _ways.get(kind)
        if way is None:
            way = _ways[kind] = _way_of(kind)
        way(self, value)

    # ----------------------------------------------------------------------------------------------------- plain values

    def atom(self, value: Any) -> None:
        self.parts.append(f"{type(value).__name__}{value!r};".encode())

    def sequence(self, values: Iterable[Any], opening: bytes = b"(") -> None:
        self.parts.append(opening)
        for value in values:
            self.write(value)
        self.parts.append(b")")

    def mapping(self, mapping: dict[Any, Any]) -> None:
        self.parts.append(b"[")
        for name, key in sorted(((canonical(key), key) for key in mapping), key=_first):
            self.parts.append(name)
            value = mapping[key]
            self.write(value)
        self.parts.append(b"]")

    def members(self, values: Iterable[Any]) -> None:
        self.parts += [b"{", *sorted(map(canonical, values)), b"}"]

    def bytes_like(self, value: Any) -> None:
        self.atom(bytes(value))

    def enum(self, value: Any) -> None:
        self.parts.append(f"{type(value).__qualname__}.{value.name};".encode())

    def pattern(self, value: Any) -> None:
        self.parts.append(f"pattern {value.pattern!r};".encode())

    def class_itself(self, value: Any) -> None:
        self.parts.append(f"class {value.__qualname__};".encode())

    # -------------------------------------------------------------------------------------------------------- functions

    def method(self, value: Any) -> None:
        self.parts.append(f"method {value.__func__.__qualname__} of ".encode())
        self.write(value.__self__)

    def builtin_method(self, value: Any) -> None:
        self.parts.append(f"method {value.__name__} of ".encode())
        self.write(None if isinstance(value.__self__, ModuleType) else value.__self__)

    def function(self, value: Any) -> None:
        self.parts.append(f"function {value.__module__}.{value.__qualname__}".encode())
        self.sequence(cell.cell_contents for cell in value.__closure__ or ())

    def partial(self, value: Any) -> None:
        self.sequence((value.func, value.args, value.keywords), b"partial(")

    # ---------------------------------------------------------------------------------------------------------- objects

    def frozen(self, value: Any) -> None:
        known = _forms.get(id(value))
        if known is not None:
            self.parts.append(known[1])
            return
        kind = type(value)
        form = _Writer()
        form.sequence((getattr(value, name) for name in kind.__struct_fields__), f"{kind.__qualname__}(".encode())
        text = b"".join(form.parts)
        if len(_forms) >= FORMS_MAX:
            _forms.clear()
        _forms[id(value)] = (value, text)
        self.parts.append(text)

    def thing(self, value: Any) -> None:
        """An object that has an identity."""
        place = self._places.get(id(value))
        if place is not None:
            self.parts.append(f"@{place};".encode())
            return
        self._places[id(value)] = len(self._places)
        self._kept.append(value)
        kind = type(value)
        self.parts.append(f"{kind.__qualname__}<".encode())
        if isinstance(value, _CONTAINERS):
            plain: Any = next(base for base in _CONTAINERS if isinstance(value, base))
            self.write(plain(value))
        for name in self._names(value, kind):
            held = getattr(value, name, _NOTHING)
            if held is not _NOTHING:
                self.parts.append(name.encode() + b"=")
                self.write(held)
        self.parts.append(b">")

    def _names(self, value: Any, kind: type) -> Iterable[str]:
        slots = _slots_of(kind)
        own = getattr(value, "__dict__", None)
        if own is None and not slots and not isinstance(value, _CONTAINERS):
            raise NotCanonicalError(
                f"a {kind.__module__}.{kind.__qualname__} has no canonical form; an explored machine keeps plain "
                "values and objects with attributes."
            )
        return sorted(slots.union(own)) if own else sorted(slots)


_NOTHING: Final = object()
_forms: dict[int, tuple[object, bytes]] = {}
"""By address, a frozen struct and its form; as long as the struct is here no other one has its address."""

Way = Callable[[_Writer, Any], None]
_EXACT: Final[dict[type, Way]] = {
    **dict.fromkeys((str, int, float, bytes, bool, complex, type(None), count), _Writer.atom),
    **dict.fromkeys((tuple, list, deque), _Writer.sequence),
    **dict.fromkeys((set, frozenset), _Writer.members),
    **dict.fromkeys((memoryview, bytearray), _Writer.bytes_like),
    dict: _Writer.mapping,
    re.Pattern: _Writer.pattern,
    MethodType: _Writer.method,
    BuiltinMethodType: _Writer.builtin_method,
    MethodWrapperType: _Writer.builtin_method,
    FunctionType: _Writer.function,
    partial: _Writer.partial,
}


_ways: dict[type, Way] = dict(_EXACT)


def _way_of(kind: type) -> Way:
    """How values of a kind are written that is not one of the plain ones."""
    if issubclass(kind, Enum):
        return _Writer.enum
    if issubclass(kind, type):
        return _Writer.class_itself
    if issubclass(kind, Struct) and kind.__struct_config__.frozen:
        return _Writer.frozen
    return _Writer.thing


_slots: dict[type, frozenset[str]] = {}


def _slots_of(kind: type) -> frozenset[str]:
    known = _slots.get(kind)
    if known is None:
        known = _slots[kind] = _found_slots(kind)
    return known


def _found_slots(kind: type) -> frozenset[str]:
    if issubclass(kind, Struct):
        return frozenset(kind.__struct_fields__)
    found = set[str]()
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        found.update((slots,) if isinstance(slots, str) else slots)
    return frozenset(found - {"__dict__", "__weakref__"})


def _first(pair: tuple[bytes, Any]) -> bytes:
    return pair[0]
