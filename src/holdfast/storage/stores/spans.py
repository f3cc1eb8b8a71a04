"""Ranges of numbers: which are taken, and what of a range is left when others are taken away."""

from bisect import bisect_right
from collections.abc import Iterable

Span = tuple[int, int]
"""From the first number to the last, both included."""


class Spans:
    """Spans that do not meet, in order; adding one behind all others, as nearly every one is, costs an append."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def add(self, first: int, last: int) -> None:
        if not self._firsts or first > self._firsts[-1]:
            self._firsts.append(first)
            self._lasts.append(last)
            return
        at = bisect_right(self._firsts, first)
        self._firsts.insert(at, first)
        self._lasts.insert(at, last)

    def meets(self, first: int, last: int) -> bool:
        """Whether some number of first..last is in a span."""
        at = bisect_right(self._firsts, last)
        return at > 0 and self._lasts[at - 1] >= first


def without(span: Span, taken: Iterable[Span]) -> list[Span]:
    """What is left of a span when others, in order, are taken away from it."""
    left = []
    first, last = span
    for taken_first, taken_last in taken:
        if taken_first > first:
            left.append((first, min(taken_first - 1, last)))
        first = max(first, taken_last + 1)
        if first > last:
            break
    if first <= last:
        left.append((first, last))
    return left


def joined(spans: Iterable[Span]) -> list[Span]:
    """The same numbers in as few spans as possible, in order."""
    made: list[Span] = []
    for first, last in sorted(spans):
        if made and first <= made[-1][1] + 1:
            made[-1] = (made[-1][0], max(made[-1][1], last))
        else:
            made.append((first, last))
    return made
