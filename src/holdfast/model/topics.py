"""Topics and topic patterns: what is legal, and which pattern matches which topic.

A topic is one or more levels separated by `/`, such as `bank/lisbon/orders`. A pattern is the same with two wildcards,
each standing alone in its level: `+` is exactly one level, `#` is all the levels that remain, none included, and only
comes last. So `IST/#` matches `IST` and `IST/a/b`, `+/#` matches every topic, and so does `#`.

Topics that begin with `~` are reserved: there the parts of Holdfast speak with each other, and applications do not
publish. A wildcard in the first level does not match them, so that whoever asks for `#` gets what applications say and
nothing else. Whoever wants to hear them names their first level, or asks for `~#`, which is everything there is.

The functions that check return what they were given, as a `str` and no subclass of it (a member of an enumeration of
strings is its value), or raise a `TopicError` that says what would be legal.
"""

from __future__ import annotations

import re
from functools import lru_cache

from holdfast.model.errors import TopicError

TOPIC_BYTES_MAX = 1024
TOPIC_LEVELS_MAX = 32
RESERVED = "~"
EVERYTHING = "~#"
CHECKED_MAX = 4096  # how many legal topics and patterns are remembered as such, each

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SHOWN_CHARACTERS_MAX = 80


def check_topic(topic: str) -> str:
    """Returns `topic` if one can publish on it; raises `TopicError` if not. A wildcard is for patterns only."""
    _check_type("topic", topic)
    return _checked_topic(topic)


def check_pattern(pattern: str) -> str:
    """Returns `pattern` if one can subscribe with it; raises `TopicError` if not."""
    _check_type("topic pattern", pattern)
    return _checked_pattern(pattern)


def matches(pattern: str, topic: str) -> bool:
    """Whether a legal pattern matches a legal topic. This is the definition; routing tables are a faster way to it."""
    if pattern == EVERYTHING:
        return True
    levels = topic.split("/")
    wanted = pattern.split("/")
    if wanted[0] in ("+", "#") and is_reserved(topic):
        return False
    if wanted[-1] == "#":
        wanted.pop()
        levels = levels[: len(wanted)]
    return len(wanted) == len(levels) and all(want in ("+", level) for want, level in zip(wanted, levels, strict=True))


def is_reserved(text: str) -> bool:
    """Whether a topic is one on which applications do not publish, or a pattern asks for such topics alone."""
    return text.startswith(RESERVED)


def check_unreserved(topic: str) -> str:
    """Returns `topic` if an application can publish on it; raises `TopicError` if not."""
    checked = check_topic(topic)
    if is_reserved(checked):
        raise TopicError(
            f"Topic {_shown(topic)} begins with {RESERVED!r}: such topics are for what the parts of Holdfast say to "
            "each other; publish on one that begins otherwise. Nothing was published."
        )
    return checked


def check_stream(pattern: str) -> str:
    """Returns `pattern` if what is published there can be kept; raises `TopicError` if not."""
    checked = check_pattern(pattern)
    if is_reserved(checked):
        raise TopicError(
            f"Reliable topic {_shown(pattern)} begins with {RESERVED!r}: such topics are for what the parts of "
            "Holdfast say to each other, which is not kept; name one that begins otherwise."
        )
    return checked


# Publishers use few topics and check each message's: remembering the legal ones makes the check one look-up.
@lru_cache(maxsize=CHECKED_MAX)
def _checked_topic(topic: str) -> str:
    for level in _checked_levels("Topic", topic):
        if "+" in level or "#" in level:
            raise TopicError(
                f"Topic {_shown(topic)} has a wildcard in its level {_shown(level)}; a message is published on one "
                "topic, without '+' and '#', which are for subscriptions."
            )
    return str.__str__(topic)


@lru_cache(maxsize=CHECKED_MAX)
def _checked_pattern(pattern: str) -> str:
    if pattern == EVERYTHING:
        return EVERYTHING
    levels = _checked_levels("Topic pattern", pattern)
    for index, level in enumerate(levels):
        if level in ("#", "+"):
            if level == "#" and index < len(levels) - 1:
                legal = "/".join(levels[: index + 1])
                raise TopicError(
                    f"Topic pattern {_shown(pattern)} goes on after '#', which already stands for all the levels that "
                    f"remain; end it there, as in {_shown(legal)}, or write '+' for exactly one level."
                )
        elif "+" in level or "#" in level:
            raise TopicError(
                f"Topic pattern {_shown(pattern)} has a wildcard inside its level {_shown(level)}; '+' and '#' stand "
                "alone in their level, as in 'bank/+/orders' or 'bank/#'."
            )
    return str.__str__(pattern)


def _checked_levels(what: str, text: str) -> list[str]:
    """The levels of a topic or pattern, after the rules that both share."""
    if not text:
        raise TopicError(f"{what} '' is empty; write at least one level, such as 'orders'.")
    _check_characters(what, text)
    levels = text.split("/")
    if "" in levels:
        legal = "/".join(level for level in levels if level)
        advice = f"write {_shown(legal)}" if legal else "write a name between every two '/', as in 'bank/orders'"
        raise TopicError(f"{what} {_shown(text)} has an empty level (level {levels.index('') + 1}); {advice}.")
    if len(levels) > TOPIC_LEVELS_MAX:
        raise TopicError(f"{what} {_shown(text)} has {len(levels)} levels; at most {TOPIC_LEVELS_MAX} are allowed.")
    return levels


def _check_characters(what: str, text: str) -> None:
    # Length in characters first: whatever is far too long is refused before it is encoded.
    if len(text) > TOPIC_BYTES_MAX:
        raise TopicError(
            f"{what} {_shown(text)} is {len(text)} characters long; at most {TOPIC_BYTES_MAX} bytes in UTF-8 "
            "are allowed."
        )
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError as error:
        raise TopicError(
            f"{what} {_shown(text)} has half a surrogate pair at character {error.start + 1}, which UTF-8 cannot "
            "carry; use whole characters only."
        ) from None
    if size_bytes > TOPIC_BYTES_MAX:
        raise TopicError(
            f"{what} {_shown(text)} is {size_bytes} bytes long in UTF-8; at most {TOPIC_BYTES_MAX} are allowed."
        )
    if control := _CONTROL.search(text):
        raise TopicError(
            f"{what} {_shown(text)} has the control character U+{ord(control[0]):04X} at character "
            f"{control.start() + 1}; use printable characters only."
        )


def _check_type(what: str, value: object) -> None:
    if not isinstance(value, str):
        raise TopicError(f"A {what} is a string such as 'bank/lisbon', not {type(value).__name__}.")


def _shown(text: str) -> str:
    """The text in quotes, cut where an error message would drown in it."""
    return repr(text if len(text) <= _SHOWN_CHARACTERS_MAX else text[: _SHOWN_CHARACTERS_MAX - 3] + "...")
