"""How often something is said that may wait."""

import pytest

from holdfast.protocols.pace import Pace


def test_the_first_times_are_free_and_then_it_is_once_an_interval():
    pace = Pace(0.5, 3)
    assert [pace.take(1.0) for _ in range(4)] == [True, True, True, False]
    assert pace.wait_s(1.0) == 0.5
    assert not pace.take(1.25)
    assert pace.wait_s(1.25) == 0.25
    assert [pace.take(1.5), pace.take(1.5)] == [True, False]


def test_the_free_times_come_back_one_by_one_and_never_more_of_them():
    pace = Pace(0.5, 3)
    for _ in range(3):
        pace.take(1.0)
    assert [pace.take(2.0) for _ in range(3)] == [True, True, False]
    assert [pace.take(100.0) for _ in range(4)] == [True, True, True, False]


@pytest.mark.parametrize("start", [0.0, 17.3, 86_400.1])
def test_it_may_be_said_after_the_wait_that_was_named(start: float):
    pace, now = Pace(0.01, 1), start
    pace.take(now)
    for _ in range(1_000):
        now += pace.wait_s(now)
        assert pace.take(now)


def test_a_clock_that_goes_back_gives_nothing_away():
    pace = Pace(0.5, 1)
    assert pace.take(10.0)
    assert not pace.take(9.0)
    assert not pace.take(9.25)
