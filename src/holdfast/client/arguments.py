"""What the arguments of public calls must be, apart from messages (`checks.py`): refused before anything is queued.

A value that cannot be encoded, or that the broker could not read, would be sent again over every new connection. So no
value of the wrong type gets as far as the client's machine. Every refusal says which argument of which call is wrong,
and what would have been right.
"""

import math
from collections.abc import Iterable
from typing import Any

from holdfast.model.errors import ConfigError, HoldfastError, LocalMisuse

NAME_BYTES_MAX = 128
SECONDS_MAX = 1e9
"""Thirty years: longer times are mistakes, and more than some event loops can count."""
COUNT_MAX = (1 << 63) - 1
SHOWN_CHARACTERS_MAX = 60


def shown(value: object) -> str:
    """The value as an error shows it, cut where the sentence would drown in it."""
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS_MAX else text[: SHOWN_CHARACTERS_MAX - 3] + "..."


def plain(text: str) -> str:
    """The same characters as a `str` and no subclass: `str(text)` of an enumeration's member is the member's name."""
    return str.__str__(text)


def wrong(call: str, name: str, value: object, expected: str, kind: type[HoldfastError] = LocalMisuse) -> HoldfastError:
    """The error about one argument of one call."""
    return kind(f"{call}({name}={shown(value)}): expected {expected}. Nothing was begun.")


def option_text(name: str, value: object, call: str = "connect") -> str:
    """A string that is short enough, and that can be printed and sent."""
    if not isinstance(value, str) or not 0 < len(value.encode("utf-8", "replace")) <= NAME_BYTES_MAX:
        raise wrong(call, name, value, f"a string of 1 to {NAME_BYTES_MAX} bytes", ConfigError)
    if not value.isprintable():
        raise wrong(call, name, value, "characters that can be printed", ConfigError)
    return plain(value)


def option_seconds(name: str, value: object, call: str = "connect") -> float:
    """A time above 0."""
    seconds = _number(value)
    if seconds is None or not 0 < seconds <= SECONDS_MAX:
        raise wrong(call, name, value, f"seconds above 0, up to {SECONDS_MAX:g}", ConfigError)
    return float(seconds)


def option_count(name: str, value: int, least: int, call: str = "connect") -> int:
    if not is_count(value, least, COUNT_MAX):
        raise wrong(call, name, value, f"a whole number from {least}", ConfigError)
    return int(value)


def option_flag(name: str, value: object, call: str = "connect") -> bool:
    if not isinstance(value, bool):
        raise wrong(call, name, value, "True or False", ConfigError)
    return value


def option_of_type(name: str, value: Any, kind: type, call: str = "connect") -> Any:
    """An object of that type, or none."""
    if value is not None and not isinstance(value, kind):
        raise wrong(call, name, value, f"a {kind.__name__}, or None", ConfigError)
    return value


def option_texts(name: str, value: object, call: str = "connect") -> tuple[str, ...]:
    """One string, or several; their own rules are checked elsewhere."""
    if isinstance(value, str):
        return (plain(value),)
    if isinstance(value, bytes | bytearray) or not isinstance(value, Iterable):
        raise wrong(call, name, value, "a string, or a list of strings", ConfigError)
    found = tuple(value)
    for one in found:
        if not isinstance(one, str):
            raise wrong(call, name, value, f"strings, not {shown(one)} among them", ConfigError)
    return tuple(map(plain, found))


def patience(call: str, timeout_s: object) -> float | None:
    """How long somebody wants to wait: `None` for ever, and what is below 0 is over already."""
    if timeout_s is None:
        return None
    if type(timeout_s) in _NUMBERS and 0 <= timeout_s <= SECONDS_MAX:  # type: ignore[operator]  # the common case
        return timeout_s  # type: ignore[return-value]
    seconds = _number(timeout_s)
    if seconds is None or math.isnan(seconds):
        raise wrong(call, "timeout_s", timeout_s, "seconds, or None to wait for ever")
    return float(max(min(seconds, SECONDS_MAX), -SECONDS_MAX))


def subscription_name(call: str, argument: str, name: object) -> str:
    """The name of a durable subscription."""
    if not isinstance(name, str) or not name or not name.isprintable():
        raise LocalMisuse(
            f"{call}({argument}={shown(name)}): a durable subscription has a name, a string such as 'billing'. "
            "Nothing was begun."
        )
    if len(name.encode()) > NAME_BYTES_MAX:
        raise LocalMisuse(
            f"{call}({argument}={shown(name)}): the name of a durable subscription has at most {NAME_BYTES_MAX} bytes. "
            "Nothing was begun."
        )
    return plain(name)


def is_count(value: object, least: int, most: int) -> bool:
    """Whether it is a whole number between those, and no truth value."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def is_time(value: object, most: float) -> bool:
    """Whether it is a number of seconds from 0 to that."""
    seconds = _number(value)
    return seconds is not None and 0 <= seconds <= most


_NUMBERS = frozenset({int, float})


def _number(value: object) -> int | float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
