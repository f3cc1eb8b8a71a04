"""TOML in and out for scenarios: tables become structs, and whatever is wrong is said by the name of its key."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, get_args

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from holdfast.model.choices import meant
from holdfast.model.errors import ConfigError

T = TypeVar("T")
_ERROR = re.compile(r"^(?P<what>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"unknown field `(?P<key>.*?)`")
_MISSING = re.compile(r"missing required field `(?P<key>.*?)`")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+\Z")


def converted(raw: object, kind: type[T], place: str, legal: Iterable[str] = ()) -> T:
    """`raw` as a value of that kind; an error names `place`, the key in it, and what was expected."""
    if isinstance(raw, Mapping):
        names = list(legal) or _names(kind)
        for key in raw:
            if names and key not in names:
                raise ConfigError(f"{place}: unknown key {key!r}{meant(key, names)}; legal are {', '.join(names)}.")
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{place}{_sentence(str(error))}") from None


def _names(kind: Any) -> list[str]:
    """The keys of a struct, as they are written."""
    return list(kind.__struct_encode_fields__) if isinstance(kind, type) and issubclass(kind, Struct) else []


def _sentence(error: str) -> str:
    found = _ERROR.match(error)
    what, path = (found["what"], found["path"] or "") if found else (error, "")
    if unknown := _UNKNOWN.search(what):
        return f"{path}: unknown key {unknown['key']!r}."
    if missing := _MISSING.search(what):
        return f"{path}: the key {missing['key']!r} is missing."
    return f"{path}: {what[0].lower()}{what[1:].replace('`', '')}."


def tagged(raw: Mapping[str, Any], union: Any, tag_field: str, place: str) -> Any:
    """A table that one of several structs describes; `tag_field` says which."""
    kinds = {kind.__struct_config__.tag: kind for kind in get_args(union)}
    tag = raw.get(tag_field)
    if tag not in kinds:
        said = f"{tag!r} is none of" if tag_field in raw else "the key is missing; choose one of"
        near = meant(tag, kinds) if isinstance(tag, str) else ""
        raise ConfigError(f"{place}.{tag_field}: {said} {', '.join(kinds)}{near}.")
    kind = kinds[tag]
    return converted(raw, kind, place, (tag_field, *_names(kind)))


# ------------------------------------------------------------------------------------------------------------- out


def plain(value: Any) -> Any:
    """A value as TOML knows it; what is as by default is left out of structs."""
    if isinstance(value, Struct):
        config, table = value.__struct_config__, {}
        if config.tag is not None:
            table[config.tag_field] = config.tag
        for field in fields(value):
            one = getattr(value, field.name)
            default = field.default if field.default_factory is NODEFAULT else field.default_factory()
            if one != default:
                table[field.encode_name] = plain(one)
        return table
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    return value


def print_toml(document: Mapping[str, Any]) -> str:
    """A document as TOML: scalars first, then tables, then lists of tables."""
    lines, tables = [], []
    for key, value in document.items():
        if isinstance(value, dict):
            tables += ["", f"[{key}]", *(f"{_key(name)} = {_inline(one)}" for name, one in value.items())]
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for row in value:
                tables += ["", f"[[{key}]]", *(f"{_key(name)} = {_inline(one)}" for name, one in row.items())]
        else:
            lines.append(f"{_key(key)} = {_inline(value)}")
    return "\n".join([*lines, *tables, ""])


def _inline(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_key(name)} = {_inline(one)}' for name, one in value.items())} }}"
    return repr(value)


def _key(name: str) -> str:
    return name if _BARE_KEY.match(name) else _quoted(name)


def _quoted(text: str) -> str:
    """A string as JSON quotes it; TOML wants one control character more to be escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
