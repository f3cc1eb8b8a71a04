"""States that are the same have one digest, and others do not."""

from collections import deque
from itertools import count

import pytest
from msgspec import Struct

from holdfast.simulation.exploring.canonical import NotCanonicalError, canonical, digest_of


class Point(Struct, frozen=True):
    x: int
    y: int


class Box:
    """An object with attributes, and one with slots inside."""

    def __init__(self, **attributes: object) -> None:
        for name, value in attributes.items():
            setattr(self, name, value)

    def method(self) -> None: ...


class Slotted:
    __slots__ = ("left", "right")

    def __init__(self, left: object) -> None:
        self.left = left


def test_dictionaries_that_were_filled_in_different_orders_are_the_same():
    assert canonical({"a": 1, "b": [2]}) == canonical({"b": [2], "a": 1})


def test_sets_are_the_same_whatever_the_order_of_their_members():
    assert canonical({"x", "y", "z"}) == canonical({"z", "y", "x"})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (1, 1.0),
        ("1", 1),
        (b"a", "a"),
        ([1, 2], [2, 1]),
        ([[1], 2], [[1, 2]]),
        ({"a": 1}, {"a": 2}),
        (None, ()),
        (Point(1, 2), Point(2, 1)),
        (Point(1, 2), (1, 2)),
        (count(1), count(2)),
        (Box(a=1), Box(a=2)),
        (Box(a=1), Box(b=1)),
        (Slotted(1), Slotted(2)),
        (deque([1]), deque([2])),
    ],
)
def test_values_that_differ_have_different_digests(one: object, other: object):
    assert digest_of(one) != digest_of(other)


def test_equal_values_in_shared_and_in_separate_frozen_structs_are_the_same():
    shared = Point(1, 2)
    assert digest_of([shared, shared]) == digest_of([Point(1, 2), Point(1, 2)])


def test_an_object_in_two_places_is_not_two_objects():
    shared = Box(a=1)
    assert digest_of([shared, shared]) != digest_of([Box(a=1), Box(a=1)])


def test_circles_come_to_an_end():
    one, other = Box(), Box()
    one.other, other.other = other, one  # type: ignore[attr-defined]
    assert digest_of(one) == digest_of(other)


def test_bound_methods_are_those_of_their_object():
    box, same, another = Box(a=1), Box(a=1), Box(a=2)
    assert digest_of([box, box.method]) == digest_of([same, same.method])
    assert digest_of(box.method) != digest_of(another.method)


def test_functions_are_known_by_the_values_that_they_hold():
    def adder(by: int) -> object:
        return lambda value: value + by

    assert digest_of(adder(1)) == digest_of(adder(1))
    assert digest_of(adder(1)) != digest_of(adder(2))


def test_a_value_of_a_kind_without_a_canonical_form_is_refused():
    with pytest.raises(NotCanonicalError, match="has no canonical form"):
        digest_of(iter([1]))
