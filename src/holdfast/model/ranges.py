"""Ranges of numbers: what of a range is left when others are taken away, and the fewest ranges for some numbers."""

from collections.abc import Iterable

Range = tuple[int, int]
"""From the first number to the last, both included."""


def without(part: Range, taken: Iterable[Range]) -> list[Range]:
    """What is left of a range when others, in any order, are taken away from it."""
    left, first = [], part[0]
    for low, high in sorted(taken):
        if high < first:
            continue
        if low > part[1]:
            break
        if low > first:
            left.append((first, low - 1))
        first = high + 1
    if first <= part[1]:
        left.append((first, part[1]))
    return left


def joined(ranges: Iterable[Range]) -> list[Range]:
    """The same numbers in as few ranges as possible, in order."""
    made: list[Range] = []
    for first, last in sorted(ranges):
        if made and first <= made[-1][1] + 1:
            made[-1] = (made[-1][0], max(made[-1][1], last))
        else:
            made.append((first, last))
    return made
