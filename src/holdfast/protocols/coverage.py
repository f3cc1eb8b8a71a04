"""Which content filter covers which: every message that the narrow one wants, the wide one wants as well.

The answers are safe, not complete: `covers` says yes only if the terms show it. A conjunction is covered where each
term of the wide one follows from some term of the narrow one about the same attribute; alternatives are covered one by
one.
A `witness` is a message that a filter wants: whatever covers the filter wants that message, so an index finds the few
filters that are worth asking.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.model.filter_syntax import (
    AllOf,
    AnyOf,
    Comparison,
    Condition,
    Exists,
    Membership,
    Not,
    Operator,
    Prefix,
    Value,
    print_condition,
)
from holdfast.model.topics import is_reserved
from holdfast.protocols.predicates import TRUTHS, Claim, Truth, claims_of, holds, key_of

LEVELS_MAX = 4
"""Of patterns with more levels, not every wider pattern is looked at."""
Term = Comparison | Membership | Prefix | Exists
Merger = tuple[str, tuple[Value, ...], tuple[Condition, ...]]


def terms_of(condition: Condition) -> tuple[Condition, ...]:
    """The parts of a conjunction; what is none is one part."""
    return condition.conditions if isinstance(condition, AllOf) else (condition,)


def covers(wide: Condition, narrow: Condition) -> bool:
    """Whether the terms show that every message that `narrow` wants is wanted by `wide`."""
    if _are_same(wide, narrow):
        return True
    if isinstance(narrow, AnyOf):
        return all(covers(wide, one) for one in narrow.conditions)
    if isinstance(wide, AnyOf):
        return any(covers(one, narrow) for one in wide.conditions)
    parts = terms_of(narrow)
    return all(any(_follows(term, part) for part in parts) for term in terms_of(wide))


def _are_same(one: Condition, other: Condition) -> bool:
    # To Python `x = 1` and `x = true` are equal.
    return one == other and print_condition(one) == print_condition(other)


def _follows(wide: Condition, narrow: Condition) -> bool:
    """Whether one term follows from another one."""
    if _are_same(wide, narrow):
        return True
    if isinstance(wide, AnyOf):
        return any(covers(one, narrow) for one in wide.conditions)
    if isinstance(wide, (Not, AllOf)) or isinstance(narrow, (Not, AllOf, AnyOf)) or wide.name != narrow.name:
        return False
    if isinstance(wide, Exists):
        return True
    values = _values(narrow)
    if values is not None:
        return all(holds(wide, {wide.name: value}) for value in values)
    if isinstance(narrow, Prefix):
        return isinstance(wide, Prefix) and narrow.start.startswith(wide.start)
    return isinstance(narrow, Comparison) and isinstance(wide, Comparison) and _is_wider(wide, narrow)


def _values(term: Term) -> tuple[Value, ...] | None:
    """The only values that a term wants, if it names them."""
    if isinstance(term, Membership) and not term.negated:
        return term.values
    if isinstance(term, Comparison) and term.operator == "=":
        return (term.value,)
    return None


IMPLIED: dict[tuple[Operator, Operator], bool] = {
    (">", ">"): True,
    (">=", ">="): True,
    (">=", ">"): True,
    (">", ">="): False,
    ("!=", ">"): True,
    ("!=", ">="): False,
    ("<", "<"): True,
    ("<=", "<="): True,
    ("<=", "<"): True,
    ("<", "<="): False,
    ("!=", "<"): True,
    ("!=", "<="): False,
}
"""Wide and narrow operators of which one follows from the other; whether also where both have the same value."""


def _is_wider(wide: Comparison, narrow: Comparison) -> bool:
    if not _are_ordered(wide.value, narrow.value):
        return False
    equal = IMPLIED.get((wide.operator, narrow.operator))
    if equal is None:
        return False
    if wide.value == narrow.value:
        return equal
    upwards = narrow.operator in (">", ">=")
    return bool(narrow.value > wide.value) is upwards  # type: ignore[operator]  # both are numbers, or both strings


def _are_ordered(one: Value, other: Value) -> bool:
    """Whether both are numbers, or both strings."""
    if isinstance(one, bool) or isinstance(other, bool):
        return False
    return isinstance(one, str) == isinstance(other, str)


# --------------------------------------------------------------------------------------------------------- witnesses


def witness(condition: Condition) -> dict[str, Value] | None:
    """Attributes of a message that the filter wants, or `None` if none was found."""
    if isinstance(condition, AnyOf):
        return next((seen for one in condition.conditions if (seen := witness(one)) is not None), None)
    parts = terms_of(condition)
    found: dict[str, Value] = {}
    for name, claim in claims_of(parts).items():
        about = [one for one in parts if not isinstance(one, (Not, AllOf, AnyOf)) and one.name == name]
        for value in _candidates(claim):
            if all(holds(one, {name: value}) for one in about):
                found[name] = value
                break
    return found if holds(condition, found) else None


def _candidates(claim: Claim) -> Iterator[Value]:
    if claim.values is not None:
        for value in claim.values:
            yield value is TRUTHS[True] if isinstance(value, Truth) else value
        return
    low, high = claim.low, claim.high
    if claim.kind == "number":
        if low is not None and high is not None:
            yield (low + high) / 2
        yield from (bound + step for bound in (low, high) if bound is not None for step in (0, 1, -1))
    elif claim.kind == "text":
        yield from (low + more for more in ("", "a") if low is not None)
        yield from ("", *((high,) if high is not None else ()))
    else:
        yield from (0, 1, "", "a", True, False)


# ---------------------------------------------------------------------------------------------------------- patterns


def wider_patterns(pattern: str) -> Iterator[str]:
    """The pattern itself, and others that match every topic that it matches; of long ones, not all."""
    levels = pattern.split("/")
    rest = levels.pop() if levels[-1] == "#" else ""
    if len(levels) > LEVELS_MAX:
        yield pattern
        yield from ("/".join([*levels[:at], "#"]) for at in range(is_reserved(pattern), len(levels)))
        return
    starts: list[list[str]] = [[]]
    for number, level in enumerate(levels):
        if not (number == 0 and is_reserved(pattern)):
            yield from ("/".join([*start, "#"]) for start in starts)
        kinds = (level,) if level == "+" or (number == 0 and is_reserved(pattern)) else (level, "+")
        starts = [[*start, kind] for start in starts for kind in kinds]
    if pattern != "~#":
        yield from ("/".join([*start, "#"]) for start in starts)
    if not rest:
        yield from ("/".join(start) for start in starts)
    elif pattern == "~#":
        yield pattern


# ----------------------------------------------------------------------------------------------------------- merging


def merger_of(condition: Condition) -> Merger | None:
    """The one attribute whose values the filter names, these values, and its other terms.

    Two filters that differ in these values alone are one filter that names the values of both.
    """
    if isinstance(condition, (AnyOf, Not)):
        return None
    parts = terms_of(condition)
    naming = [one for one in parts if isinstance(one, (Comparison, Membership)) and _values(one) is not None]
    if len(naming) != 1:
        return None
    values = _values(naming[0]) or ()
    return naming[0].name, values, tuple(one for one in parts if one is not naming[0])


def merge(name: str, values: tuple[Value, ...], others: tuple[Condition, ...]) -> Condition:
    """The filter that names all these values."""
    distinct = tuple({key_of(value): value for value in values}.values())
    term = Membership(name, distinct, False)
    return AllOf((*others, term)) if others else term
