"""The tables of a TOML file as structs, and the sentences about what is wrong with them."""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from holdfast.model.choices import listed, meant
from holdfast.model.errors import ConfigError

__all__ = ["converted", "listed", "meant"]

_PATH_IN_ERROR = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?$", re.DOTALL)
T = TypeVar("T", bound=Struct)


def converted(raw: Mapping[str, Any], kind: type[T], source: str, prefix: str) -> T:
    """`raw` as a struct; an unknown key or a wrong value is an error that names it."""
    known = [field.name for field in msgspec.structs.fields(kind)]
    for key in raw:
        if key not in known:
            raise ConfigError(f"{source}: {prefix}{key}: unknown key{meant(key, known)}; expected {listed(known)}.")
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        found = _PATH_IN_ERROR.match(str(error))
        what, path = (found["what"], found["path"] or "") if found else (str(error), "")
        where = f"{prefix}{path}".removesuffix(".").replace("[...]", "")
        sentence = what[:1].lower() + what[1:]
        raise ConfigError(f"{source}: {where}: {sentence}." if where else f"{source}: {sentence}.") from None
