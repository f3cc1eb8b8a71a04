"""Conditions of content filters as an index needs them: evaluated without closures, and what they say of an attribute.

A filter that is one of many is evaluated seldom, and weighs what it keeps. `holds` evaluates the tree of conditions as
it was read, with the same meaning as the closures of `Filter.matches`. A *claim* is what a conjunction says about one
attribute, as far as an index can use it: every message that satisfies the conjunction satisfies its claims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

from holdfast.model.filter_syntax import (
    AllOf,
    AnyOf,
    Comparison,
    Condition,
    Exists,
    Membership,
    Not,
    Prefix,
    Value,
)
from holdfast.model.filters import COMPARE

Attributes = Mapping[str, Value]


# -------------------------------------------------------------------------------------------------------- evaluating


def holds(condition: Condition, attributes: Attributes) -> bool:
    """Whether a message with these attributes is wanted: the same as `Filter.matches`, without closures."""
    return HOLDS[condition.__class__](condition, attributes)


def _comparison_holds(term: Comparison, attributes: Attributes) -> bool:
    value, literal = attributes.get(term.name), term.value
    if value.__class__ is literal.__class__ or _are_alike(value, literal):
        return COMPARE[term.operator](value, literal)
    return False


def _are_alike(value: object, literal: Value) -> bool:
    """Whether both are strings, numbers or booleans: to Python a boolean is a number, to a filter it is not."""
    if isinstance(literal, str):
        return isinstance(value, str)
    if isinstance(literal, bool) or isinstance(value, bool):
        return isinstance(literal, bool) and isinstance(value, bool)
    return isinstance(value, (int, float))


def _membership_holds(term: Membership, attributes: Attributes) -> bool:
    value = attributes.get(term.name)
    if value is None:
        return False
    if not term.negated:
        if value not in term.values:
            return False
        if value.__class__ is str:
            return True  # nothing but a string equals it
    alike = [literal for literal in term.values if _are_alike(value, literal)]
    return bool(alike) and (value in alike) is not term.negated


def _prefix_holds(term: Prefix, attributes: Attributes) -> bool:
    value = attributes.get(term.name)
    return isinstance(value, str) and value.startswith(term.start)


def _all_hold(condition: AllOf, attributes: Attributes) -> bool:
    return all(holds(part, attributes) for part in condition.conditions)


def _any_holds(condition: AnyOf, attributes: Attributes) -> bool:
    return any(holds(part, attributes) for part in condition.conditions)


HOLDS: dict[type[Condition], Callable[[Any, Attributes], bool]] = {
    Comparison: _comparison_holds,
    Membership: _membership_holds,
    Prefix: _prefix_holds,
    Exists: lambda term, attributes: term.name in attributes,
    Not: lambda condition, attributes: not holds(condition.condition, attributes),
    AllOf: _all_hold,
    AnyOf: _any_holds,
}


# ------------------------------------------------------------------------------------------------- what entries say


Kind = Literal["number", "text"]


class Claim(NamedTuple):
    """What a conjunction says about one attribute: the values it may have, or else its range, or that it is there."""

    values: tuple[Value | Truth, ...] | None = None
    kind: Kind | None = None
    low: Any = None
    high: Any = None
    """The range includes both bounds, also if the term does not; `None` is no bound."""


class Truth:
    """A boolean as a key: in a dict `True` and `1` are one, in a filter they are not."""

    __slots__ = ()


TRUTHS = (Truth(), Truth())
PRESENT = Claim()


def key_of(value: Value) -> Value | Truth:
    return TRUTHS[value] if isinstance(value, bool) else value


def claims_of(terms: Iterable[Condition]) -> dict[str, Claim]:
    """What the conjunction of these terms says about each attribute."""
    claims: dict[str, Claim] = {}
    for term in terms:
        if isinstance(term, (Not, AnyOf, AllOf)):
            continue
        claim, known = _claim(term), claims.get(term.name)
        claims[term.name] = claim if known is None else _narrower(known, claim)
    return claims


def _claim(term: Comparison | Membership | Prefix | Exists) -> Claim:
    if isinstance(term, Comparison):
        return _claim_of_comparison(term)
    if isinstance(term, Membership) and not term.negated:
        return Claim(tuple(dict.fromkeys(map(key_of, term.values))))
    if isinstance(term, Prefix):
        return Claim(None, "text", term.start, _behind_prefix(term.start))
    return PRESENT


def _claim_of_comparison(term: Comparison) -> Claim:
    if term.operator == "=":
        return Claim((key_of(term.value),))
    if term.operator == "!=":
        return Claim((key_of(not term.value),)) if isinstance(term.value, bool) else PRESENT
    kind: Kind = "text" if isinstance(term.value, str) else "number"
    return Claim(None, kind, term.value, None) if term.operator[0] == ">" else Claim(None, kind, None, term.value)


def _behind_prefix(start: str) -> str | None:
    """The first string behind all those that begin so; `None` if there is none."""
    kept = start.rstrip("\U0010ffff")
    return kept[:-1] + chr(ord(kept[-1]) + 1) if kept else None


def _narrower(one: Claim, other: Claim) -> Claim:
    """What two terms say together, or the more telling of both where that is no claim of its own."""
    if one.values is not None and other.values is not None:
        return min(one, other, key=lambda claim: len(claim.values or ()))
    if one.values is not None or other.kind is None:
        return one
    if other.values is not None or one.kind is None:
        return other
    if one.kind != other.kind:
        return one  # nothing is both a number and a string: either says enough
    lows = [low for low in (one.low, other.low) if low is not None]
    highs = [high for high in (one.high, other.high) if high is not None]
    return Claim(None, one.kind, max(lows, default=None), min(highs, default=None))
