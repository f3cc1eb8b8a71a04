"""Ranges of numbers, held against plain sets of them."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from holdfast.storage.stores.spans import Span, Spans, joined, without

spans = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 6)).map(lambda one: (one[0], one[0] + one[1])))


def numbers(some: list[Span]) -> set[int]:
    return {number for first, last in some for number in range(first, last + 1)}


@given(spans)
def test_joined_spans_hold_the_same_numbers_and_do_not_touch(some: list[Span]):
    made = joined(some)
    assert numbers(made) == numbers(some)
    assert all(one[1] + 1 < other[0] for one, other in pairwise(made))


@given(st.integers(1, 40), st.integers(0, 20), spans)
def test_what_is_left_is_what_was_not_taken(first: int, more: int, taken: list[Span]):
    left = without((first, first + more), joined(taken))
    assert numbers(left) == numbers([(first, first + more)]) - numbers(taken)
    assert left == sorted(left)


@given(spans, st.integers(1, 45), st.integers(0, 6))
def test_a_span_meets_those_with_which_it_shares_a_number(some: list[Span], first: int, more: int):
    held = Spans()
    taken: set[int] = set()
    for one in some:
        if not numbers([one]) & taken:
            taken |= numbers([one])
            held.add(*one)
    assert held.meets(first, first + more) == bool(numbers([(first, first + more)]) & taken)
