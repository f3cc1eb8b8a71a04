"""Seen numbers as a prefix and ranges, compared with a plain set of numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from holdfast.model.errors import LocalMisuse, PeerViolation
from holdfast.protocols.trackers import RangeTracker, WindowFull


def test_what_comes_in_order_is_one_number():
    tracker = RangeTracker(ranges_max=0)
    for first in range(1, 1001, 10):
        assert tracker.add(first, first + 9) == [(first, first + 9)]
    assert (tracker.prefix, tracker.highest, tracker.gaps()) == (1000, 1000, [])


def test_a_repeat_is_not_new():
    tracker = RangeTracker()
    tracker.add(1, 5)
    assert tracker.add(2, 4) == []
    assert tracker.add(4, 7) == [(6, 7)]
    assert tracker.prefix == 7


def test_a_gap_is_known_until_it_is_filled():
    tracker = RangeTracker()
    tracker.add(1, 2)
    assert tracker.add(5, 6) == [(5, 6)]
    assert tracker.add(9, 9) == [(9, 9)]
    assert (tracker.prefix, tracker.highest) == (2, 9)
    assert tracker.gaps() == [(3, 4), (7, 8)]
    assert tracker.add(1, 8) == [(3, 4), (7, 8)]
    assert (tracker.prefix, tracker.gaps(), tracker.ranges()) == (9, [], [])


def test_asking_what_is_new_records_nothing():
    tracker = RangeTracker()
    tracker.add(3, 3)
    assert tracker.new_part(1, 5) == [(1, 2), (4, 5)]
    assert tracker.new_part(1, 5) == [(1, 2), (4, 5)]
    assert tracker.ranges() == [(3, 3)]


def test_a_tracker_that_starts_later_takes_what_came_before_as_seen():
    tracker = RangeTracker(start=100)
    assert tracker.contains(100)
    assert tracker.add(90, 101) == [(101, 101)]


def test_one_range_too_many_is_refused_and_not_recorded():
    tracker = RangeTracker(ranges_max=2)
    tracker.add(3, 3)
    tracker.add(5, 5)
    with pytest.raises(WindowFull, match="more than 2 separate ranges") as caught:
        tracker.add(7, 8)
    assert isinstance(caught.value, PeerViolation)
    assert tracker.ranges() == [(3, 3), (5, 5)]
    assert not tracker.contains(7)
    # What touches a range, bridges two or goes on at the prefix needs no further range.
    assert tracker.add(6, 6) == [(6, 6)]
    assert tracker.add(4, 4) == [(4, 4)]
    assert tracker.add(8, 8) == [(8, 8)]
    assert tracker.add(1, 2) == [(1, 2)]
    assert (tracker.prefix, tracker.ranges()) == (6, [(8, 8)])


def test_a_repeat_is_welcome_at_the_bound():
    tracker = RangeTracker(ranges_max=1)
    tracker.add(3, 5)
    assert tracker.add(4, 4) == []


@pytest.mark.parametrize(("first", "last"), [(0, 1), (3, 2), (-1, -1), (1, 0)])
def test_a_range_that_cannot_be_is_refused(first, last):
    tracker = RangeTracker()
    for ask in (tracker.add, tracker.new_part):
        with pytest.raises(LocalMisuse, match=f"{first}\\.\\.{last}"):
            ask(first, last)
    assert tracker.highest == 0


@pytest.mark.parametrize("wrong", [{"ranges_max": -1}, {"start": -1}])
def test_a_tracker_that_cannot_be_is_not_made(wrong):
    with pytest.raises(LocalMisuse, match="0 or more"):
        RangeTracker(**wrong)


@given(st.permutations(range(1, 65)))
def test_any_order_of_arrival_ends_in_one_prefix(order):
    tracker = RangeTracker(ranges_max=32)
    for number in order:
        assert tracker.add(number, number) == [(number, number)]
    assert (tracker.prefix, tracker.ranges()) == (64, [])


class TrackerAgainstASet(RuleBasedStateMachine):
    """Every answer of a tracker is what a set of all the numbers seen would give."""

    @initialize(ranges_max=st.integers(0, 4), start=st.integers(0, 10))
    def begin(self, ranges_max, start):
        self.tracker = RangeTracker(ranges_max, start)
        self.seen = set(range(1, start + 1))

    @rule(first=st.integers(1, 40), count=st.integers(1, 12))
    def add(self, first, count):
        span = set(range(first, first + count))
        fresh = as_ranges(span - self.seen)
        assert self.tracker.new_part(first, first + count - 1) == fresh
        if len(self.ranges_above_the_prefix(self.seen | span)) > self.tracker.ranges_max and fresh:
            with pytest.raises(WindowFull):
                self.tracker.add(first, first + count - 1)
            return
        assert self.tracker.add(first, first + count - 1) == fresh
        self.seen |= span

    @rule(count=st.integers(1, 5))
    def go_on_at_the_prefix(self, count):
        self.add(self.tracker.prefix + 1, count)

    @invariant()
    def agrees(self):
        if not hasattr(self, "tracker"):
            return
        highest = max(self.seen, default=0)
        assert self.tracker.highest == highest
        assert self.tracker.gaps() == as_ranges(set(range(1, highest + 1)) - self.seen)
        assert self.tracker.ranges() == self.ranges_above_the_prefix(self.seen)
        assert len(self.tracker.ranges()) <= self.tracker.ranges_max
        assert {n for n in range(-2, highest + 3) if self.tracker.contains(n)} == self.seen

    @staticmethod
    def ranges_above_the_prefix(seen):
        return [found for found in as_ranges(seen) if found[0] > 1]


def as_ranges(numbers):
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges


TestTrackerAgainstASet = TrackerAgainstASet.TestCase


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 6))),
    st.integers(1, 45),
    st.integers(0, 6),
)
def test_a_range_meets_what_was_seen_if_they_share_a_number(seen, first, more):
    tracker = RangeTracker(ranges_max=40)
    for low, length in seen:
        tracker.add(low, low + length)
    shared = [number for number in range(first, first + more + 1) if tracker.contains(number)]
    assert tracker.meets(first, first + more) == bool(shared)
