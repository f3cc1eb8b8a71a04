"""A digest of any value or machine that is equal for states that are the same.

Two machines that came to one state in different ways have different objects in different places of memory, and their
dictionaries were filled in different orders. None of that is part of a state: objects are known by their class and
attributes, dictionaries are taken in the order of their keys, and an object that occurs a second time is named by the
place of its first occurrence, which also ends circles. Frozen structs are values: they are known by their fields alone.

A digest can be taken with names exchanged for each other (`Renaming`): that of the state that the machine would be in
if they had been the other way round from the beginning. In a text of several words each word counts for itself.

Of a regular expression the pattern counts. A value of a kind that has no canonical form is refused, since leaving it
out would call different states the same.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
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


class Renaming:
    """Names and payloads, and what each of them becomes in everything that is written."""

    __slots__ = ("_words", "forms", "names", "texts")

    def __init__(self, names: Mapping[str | bytes, str | bytes]) -> None:
        self.names = dict(names)
        words = "|".join(re.escape(name) for name in names if isinstance(name, str))
        self._words = re.compile(rf"(?<!\w)(?:{words})(?!\w)")
        self.forms: dict[int, tuple[object, str]] = {}
        """By address, a frozen struct and its form; as long as the struct is here no other one has its address."""
        self.texts: dict[str | bytes, str] = {}

    def text(self, value: str | bytes) -> str:
        """How a text is written."""
        known = self.texts.get(value)
        if known is None:
            known = self.texts[value] = repr(self._renamed(value))
        return known

    def _renamed(self, value: str | bytes) -> str | bytes:
        if value in self.names:
            return self.names[value]
        if isinstance(value, bytes):
            return self._renamed(value.decode("latin-1")).encode("latin-1")  # type: ignore[union-attr]
        return self._words.sub(lambda found: str(self.names[found[0]]), value)


AS_IT_IS: Final = Renaming({})


def digest_of(value: object, renaming: Renaming = AS_IT_IS) -> bytes:
    """The digest of a value: equal for equal states, and, but for a chance of 2^-64, for no others."""
    return blake2b(canonical(value, renaming), digest_size=DIGEST_BYTES).digest()


def canonical(value: object, renaming: Renaming = AS_IT_IS) -> bytes:
    """The canonical form itself."""
    return _written(value, renaming).encode()


def _written(value: object, renaming: Renaming) -> str:
    writer = _Writer(renaming)
    writer.write(value)
    return "".join(writer.parts)


class _Writer:
    """Writes the canonical form of one value, piece by piece."""

    __slots__ = ("_kept", "_places", "_renaming", "parts")

    def __init__(self, renaming: Renaming) -> None:
        self.parts: list[str] = []
        self._renaming = renaming
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
        self.parts.append(f"{type(value).__name__}{value!r};")

    def whole(self, value: int) -> None:
        self.parts.append(f"{value};")

    def constant(self, value: object) -> None:
        self.parts.append(f"{value};")

    def text(self, value: str | bytes) -> None:
        self.parts.append(repr(value) if self._renaming is AS_IT_IS else self._renaming.text(value))

    def sequence(self, values: Iterable[Any], opening: str = "(") -> None:
        parts = self.parts
        parts.append(opening)
        ways = _ways
        for value in values:
            way = ways.get(type(value))
            if way is None:
                self.write(value)
            else:
                way(self, value)
        parts.append(")")

    def mapping(self, mapping: dict[Any, Any]) -> None:
        parts = self.parts
        parts.append("[")
        if mapping:
            renaming = self._renaming
            texts = [(_key_text(key, renaming), key) for key in mapping]
            if len(texts) > 1:
                texts.sort(key=_first)
            for name, key in texts:
                parts.append(name)
                self.write(mapping[key])
        parts.append("]")

    def members(self, values: Iterable[Any]) -> None:
        renaming = self._renaming
        self.parts += ["{", *sorted([_key_text(value, renaming) for value in values]), "}"]

    def bytes_like(self, value: Any) -> None:
        self.text(bytes(value))

    def enum(self, value: Any) -> None:
        self.parts.append(f"{type(value).__qualname__}.{value.name};")

    def pattern(self, value: Any) -> None:
        self.parts.append(f"pattern {value.pattern!r};")

    def class_itself(self, value: Any) -> None:
        self.parts.append(f"class {value.__qualname__};")

    # -------------------------------------------------------------------------------------------------------- functions

    def method(self, value: Any) -> None:
        self.parts.append(f"method {value.__func__.__qualname__} of ")
        self.write(value.__self__)

    def builtin_method(self, value: Any) -> None:
        self.parts.append(f"method {value.__name__} of ")
        self.write(None if isinstance(value.__self__, ModuleType) else value.__self__)

    def function(self, value: Any) -> None:
        self.parts.append(f"function {value.__module__}.{value.__qualname__}")
        self.sequence(cell.cell_contents for cell in value.__closure__ or ())

    def partial(self, value: Any) -> None:
        self.sequence((value.func, value.args, value.keywords), "partial(")

    # ---------------------------------------------------------------------------------------------------------- objects

    def frozen(self, value: Any) -> None:
        self.parts.append(_form(value, self._renaming))

    def thing(self, value: Any) -> None:
        """An object that has an identity."""
        places, parts = self._places, self.parts
        place = places.get(id(value))
        if place is not None:
            parts.append(f"@{place};")
            return
        places[id(value)] = len(places)
        self._kept.append(value)
        kind = type(value)
        shape = _shapes.get(kind)
        if shape is None:
            shape = _shapes[kind] = _Shape(kind)
        parts.append(shape.head)
        if shape.plain is not None:
            self.write(shape.plain(value))
        ways = _ways
        for name, label in shape.names(value):
            held = getattr(value, name, _NOTHING)
            if held is not _NOTHING:
                parts.append(label)
                way = ways.get(type(held))
                if way is None:
                    self.write(held)
                else:
                    way(self, held)
        parts.append(">")


class _Shape:
    """What is the same for all objects of a class, or of a class and with the same attributes."""

    __slots__ = ("_known", "_slots", "_slotted", "_where", "head", "plain")

    def __init__(self, kind: type) -> None:
        self.head = f"{kind.__qualname__}<"
        self.plain: Any = next((base for base in _CONTAINERS if issubclass(kind, base)), None)
        self._slots = _slots_of(kind)
        self._slotted = [(name, f"{name}=") for name in sorted(self._slots)]
        self._known: dict[tuple[str, ...], list[tuple[str, str]]] = {}
        self._where = f"{kind.__module__}.{kind.__qualname__}"

    def names(self, value: Any) -> list[tuple[str, str]]:
        """The attributes that such an object may have, in order, and how each is announced."""
        own = getattr(value, "__dict__", None)
        if own:
            key = tuple(own)
            known = self._known.get(key)
            if known is None:
                known = self._known[key] = [(name, f"{name}=") for name in sorted(self._slots.union(own))]
            return known
        if own is None and not self._slots and self.plain is None:
            raise NotCanonicalError(
                f"a {self._where} has no canonical form; an explored machine keeps plain values and objects with "
                "attributes."
            )
        return self._slotted


def _form(value: Any, renaming: Renaming) -> str:
    """The form of a frozen struct: it is a value, and known by its fields alone."""
    forms = renaming.forms
    known = forms.get(id(value))
    if known is not None:
        return known[1]
    kind = type(value)
    form = _Writer(renaming)
    form.sequence([getattr(value, name) for name in kind.__struct_fields__], f"{kind.__qualname__}(")
    text = "".join(form.parts)
    if len(forms) >= FORMS_MAX:
        forms.clear()
    forms[id(value)] = (value, text)
    return text


def _key_text(value: Any, renaming: Renaming) -> str:
    """The form of a key or of a member of a set, by which they are sorted."""
    if type(value) is str:
        return repr(value) if renaming is AS_IT_IS else renaming.text(value)
    return _written(value, renaming)


_NOTHING: Final = object()

Way = Callable[[_Writer, Any], None]
_EXACT: Final[dict[type, Way]] = {
    **dict.fromkeys((float, complex, count), _Writer.atom),
    **dict.fromkeys((str, bytes), _Writer.text),
    **dict.fromkeys((bool, type(None)), _Writer.constant),
    int: _Writer.whole,
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


_shapes: dict[type, _Shape] = {}


def _slots_of(kind: type) -> frozenset[str]:
    if issubclass(kind, Struct):
        return frozenset(kind.__struct_fields__)
    found = set[str]()
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        found.update((slots,) if isinstance(slots, str) else slots)
    return frozenset(found - {"__dict__", "__weakref__"})


def _first(pair: tuple[str, Any]) -> str:
    return pair[0]
