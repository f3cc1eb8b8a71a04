"""Who makes the best parent, among several."""

from itertools import permutations

import pytest

from holdfast.protocols.parents import Candidate, rank


def best(*candidates: Candidate, degree_max: int = 0) -> list[str]:
    return [one.name for one in rank(candidates, degree_max)]


def test_a_near_broker_is_better_than_a_quick_one():
    assert best(Candidate("far", hops=2), Candidate("near", hops=1, round_trip_s=0.2)) == ["near", "far"]


def test_of_two_as_near_the_quicker_one_is_better():
    assert best(Candidate("a", round_trip_s=0.080), Candidate("b", round_trip_s=0.010)) == ["b", "a"]


def test_a_little_jitter_decides_nothing():
    slower, quicker = Candidate("a", round_trip_s=0.0109, common_topics=3), Candidate("b", round_trip_s=0.0101)
    assert best(slower, quicker) == ["a", "b"]


def test_of_two_as_quick_the_one_that_wants_the_same_is_better():
    assert best(Candidate("a", common_topics=1), Candidate("b", common_topics=5)) == ["b", "a"]


def test_of_two_that_want_as_much_the_one_with_fewer_neighbours_is_better():
    assert best(Candidate("a", degree=3), Candidate("b", degree=1)) == ["b", "a"]


def test_whoever_has_something_waiting_comes_last_whatever_else_speaks_for_it():
    behind = Candidate("a", hops=1, common_topics=9, backlog_bytes=1)
    assert best(behind, Candidate("b", hops=3, degree=7)) == ["b", "a"]


def test_who_has_no_room_is_not_asked():
    assert best(Candidate("a", degree=3), Candidate("b", degree=2), degree_max=3) == ["b"]
    assert best(Candidate("a", degree=300)) == ["a"]


@pytest.mark.parametrize("order", list(permutations("abc")))
def test_names_decide_what_is_left_so_that_the_order_of_asking_does_not(order: tuple[str, ...]):
    assert best(*map(Candidate, order)) == ["a", "b", "c"]
