"""A watchdog says once what a broker has waited for too long."""

from holdfast.protocols.watchdog import SILENCES, Watchdog

TOO_LONG_S = SILENCES * 1.5


def test_a_reason_that_lasts_is_said_once():
    dog = Watchdog(1.5)
    assert dog.look(["0 to open the link"], 100.0) == []
    assert dog.look(["0 to open the link"], 100.0 + TOO_LONG_S - 0.1) == []
    assert dog.look(["0 to open the link"], 100.0 + TOO_LONG_S) == ["0 to open the link"]
    assert dog.look(["0 to open the link"], 100.0 + 3 * TOO_LONG_S) == []


def test_a_reason_that_comes_back_counts_from_then_on():
    dog = Watchdog(1.5)
    dog.look(["a majority"], 0.0)
    dog.look([], 5.0)
    assert dog.look(["a majority"], TOO_LONG_S) == []
    assert dog.look(["a majority"], 2 * TOO_LONG_S) == ["a majority"]
    assert dog.look([], 2 * TOO_LONG_S + 1) == []
    dog.look(["a majority"], 2 * TOO_LONG_S + 2)
    assert dog.look(["a majority"], 3 * TOO_LONG_S + 2) == ["a majority"]


def test_what_is_always_under_way_says_nothing():
    dog = Watchdog(1.5)
    dog.look(["12 records to become stable"], 0.0)
    assert dog.look(["12 records to become stable"], 1000.0) == []
