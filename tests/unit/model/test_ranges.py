"""Ranges of numbers, compared with plain sets of them."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.ranges import Range, joined, without

ranges = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 6)).map(lambda one: (one[0], one[0] + one[1])))


def numbers(some: list[Range]) -> set[int]:
    return {number for first, last in some for number in range(first, last + 1)}


@given(ranges)
def test_joined_ranges_hold_the_same_numbers_and_do_not_touch(some: list[Range]):
    made = joined(some)
    assert numbers(made) == numbers(some)
    assert all(one[1] + 1 < other[0] for one, other in pairwise(made))


@given(st.integers(1, 40), st.integers(0, 20), ranges)
def test_what_is_left_is_what_was_not_taken(first: int, more: int, taken: list[Range]):
    left = without((first, first + more), taken)
    assert numbers(left) == numbers([(first, first + more)]) - numbers(taken)
    assert left == sorted(left)
