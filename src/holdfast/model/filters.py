"""Content filters: which messages of a topic a subscription wants, by their attributes.

    amount > 100 and region in ('north', 'south') and not customer.name startswith 'test-'

The grammar is in `filter_syntax`. A filter is parsed once, and compiled into closures when it is first asked: that is
the plain evaluator. Where many filters wait for one message, a `protocols.predicate_index` finds those to ask; it holds
the tree of conditions and needs no closures, which are most of what a filter weighs. What a filter means:

- Values are of three kinds: strings, numbers (int and float) and booleans. Numbers are compared by their exact
  numerical value whatever their type; strings are compared by code points; booleans are only equal or unequal.
- A term about an attribute that is absent, or that is of another kind than the term's value, is false, `!=` and
  `not in` included; `not` of such a term is therefore true. So `amount != 5` wants messages that have a numeric amount
  other than 5, and `not amount = 5` also those that have none.
- `name in (a, b)` is `name = a or name = b`. `name not in (a, b)` is true when the list has values of the attribute's
  kind and none of them equals it.
- NaN and infinity cannot be written. An attribute that is NaN is unequal to every number, and neither less nor more.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from holdfast.model.errors import FilterError
from holdfast.model.filter_syntax import (
    FILTER_CHARACTERS_MAX,
    FILTER_DEPTH_MAX,
    FILTER_TERMS_MAX,
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
    parse_condition,
    print_condition,
)

__all__ = [
    "COMPARE",
    "FILTERS_REMEMBERED_MAX",
    "FILTER_CHARACTERS_MAX",
    "FILTER_DEPTH_MAX",
    "FILTER_TERMS_MAX",
    "Filter",
    "Value",
    "parse_filter",
]

FILTERS_REMEMBERED_MAX = 256  # parsed filters kept for whoever asks for the same text again

EXPANSION_MAX = 8  # a character is six at most once it is escaped, and a piece of text has a space on either side

Test = Callable[[Mapping[str, Value]], bool]

COMPARE: dict[Operator, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Filter:
    """A parsed content filter. Two filters are equal when their canonical texts are."""

    __slots__ = ("_canonical", "_matches", "condition", "text")

    def __init__(self, text: str, condition: Condition) -> None:
        self.text = text
        self.condition = condition
        """What the text writes down."""
        self._canonical: str | None = None
        self._matches: Test | None = None

    @property
    def canonical(self) -> str:
        """The one text of all filters that differ in spelling alone."""
        if self._canonical is None:
            canonical = print_condition(self.condition)
            self._canonical = self.text if canonical == self.text else canonical
        return self._canonical

    @property
    def matches(self) -> Test:
        """`matches(attributes)` says whether a message with these attributes is wanted."""
        if self._matches is None:
            self._matches = _compiled(self.condition)
        return self._matches

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Filter) and self.canonical == other.canonical)

    def __hash__(self) -> int:
        return hash(self.canonical)

    def __repr__(self) -> str:
        return f"Filter(text={self.text!r}, canonical={self.canonical!r})"

    def __reduce__(self) -> tuple[Callable[[str], Filter], tuple[str]]:
        # Closures cannot be pickled; the text says it all.
        return parse_filter, (self.text,)


def parse_filter(text: str) -> Filter:
    """The filter that `text` writes down; raises `FilterError`, with the position, when it is not a legal one."""
    if not isinstance(text, str):
        raise FilterError(f"A filter is a string such as 'amount > 100', not {type(text).__name__}.", "", 0)
    return _parsed(text)


@lru_cache(maxsize=FILTERS_REMEMBERED_MAX)
def _parsed(text: str) -> Filter:
    parsed = Filter(text, parse_condition(text))
    # Spacing and escapes can make the canonical text longer than the original. It has to be a legal filter itself.
    if len(text) > FILTER_CHARACTERS_MAX // EXPANSION_MAX and len(parsed.canonical) > FILTER_CHARACTERS_MAX:
        raise FilterError(
            f"The filter is {len(parsed.canonical)} characters long once it is evenly spaced; at most "
            f"{FILTER_CHARACTERS_MAX} are allowed.",
            text,
            len(text),
        )
    return parsed


def _compiled(condition: Condition) -> Test:
    match condition:
        case Comparison(name, symbol, value):
            return _comparison_test(name, symbol, value)
        case Membership(name, values, negated):
            return _membership_test(name, values, negated)
        case Prefix(name, start):
            return _prefix_test(name, start)
        case Exists(name):
            return lambda attributes: name in attributes
        case Not(inner):
            return _not_test(_compiled(inner))
        case AllOf(conditions):
            return _all_test([_compiled(part) for part in conditions])
        case AnyOf(conditions):
            return _any_test([_compiled(part) for part in conditions])


def _comparison_test(name: str, symbol: Operator, value: Value) -> Test:
    if isinstance(value, str):
        return _string_test(name, COMPARE[symbol], value)
    if isinstance(value, bool):
        return _truth_test(name, wanted=value is (symbol == "="))
    return _number_test(name, COMPARE[symbol], value)


def _string_test(name: str, compare: Callable[[Any, Any], bool], literal: str) -> Test:
    def test(attributes: Mapping[str, Value]) -> bool:
        value = attributes.get(name)
        return isinstance(value, str) and compare(value, literal)

    return test


def _number_test(name: str, compare: Callable[[Any, Any], bool], literal: int | float) -> Test:
    def test(attributes: Mapping[str, Value]) -> bool:
        value = attributes.get(name)
        # To Python a bool is an int; to a filter it is not.
        return isinstance(value, (int, float)) and value.__class__ is not bool and compare(value, literal)

    return test


def _truth_test(name: str, *, wanted: bool) -> Test:
    # `flag != true` is `flag = false`, since booleans only compare with booleans.
    return lambda attributes: attributes.get(name) is wanted


def _membership_test(name: str, values: tuple[Value, ...], negated: bool) -> Test:
    strings = frozenset(value for value in values if isinstance(value, str))
    truths = frozenset(value for value in values if isinstance(value, bool))
    numbers = frozenset(value for value in values if not isinstance(value, (str, bool)))

    def test(attributes: Mapping[str, Value]) -> bool:
        value = attributes.get(name)
        if isinstance(value, str):
            comparable: frozenset[Value] = strings
        elif isinstance(value, bool):
            comparable = truths
        elif isinstance(value, (int, float)):
            comparable = numbers
        else:
            return False
        return bool(comparable) and (value in comparable) is not negated

    return test


def _prefix_test(name: str, start: str) -> Test:
    def test(attributes: Mapping[str, Value]) -> bool:
        value = attributes.get(name)
        return isinstance(value, str) and value.startswith(start)

    return test


def _not_test(inner: Test) -> Test:
    return lambda attributes: not inner(attributes)


def _all_test(tests: list[Test]) -> Test:
    if len(tests) == 2:  # by far the most common, and half the price of the loop
        left, right = tests
        return lambda attributes: left(attributes) and right(attributes)

    def test(attributes: Mapping[str, Value]) -> bool:
        for part in tests:  # noqa: SIM110 - all() over a generator takes twice as long
            if not part(attributes):
                return False
        return True

    return test


def _any_test(tests: list[Test]) -> Test:
    if len(tests) == 2:
        left, right = tests
        return lambda attributes: left(attributes) or right(attributes)

    def test(attributes: Mapping[str, Value]) -> bool:
        for part in tests:  # noqa: SIM110 - the same
            if part(attributes):
                return True
        return False

    return test
