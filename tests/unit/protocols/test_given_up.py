"""Those who were given up since a message was published are named, if they wanted it."""

from holdfast.model.messages import Confirm
from holdfast.model.receipt_messages import CLEAN, NAMES_MAX, UNKNOWN_AGE_S, Finding
from holdfast.protocols.given_up import GIVEN_UP_MAX, ON_ITS_WAY_S, REMEMBERED_S, GivenUp

ASKED = Confirm(1, "t", "ann", 5, {"n": 1}, 0.0)


def test_who_was_given_up_after_the_publish_is_named():
    given_up = GivenUp()
    given_up.note("dan", [("t", "")], 10.0)
    assert given_up.since(ASKED, 5.0, 12.0) == Finding(given_up=1, gone=("dan",))
    assert given_up.since(ASKED, 5.0, 15.0 + ON_ITS_WAY_S) == Finding(given_up=1, gone=("dan",))
    assert given_up.since(ASKED, 5.0, 15.1 + ON_ITS_WAY_S) == CLEAN


def test_only_those_who_wanted_it_are_named():
    given_up = GivenUp()
    given_up.note("dan", [("u", ""), ("t", "n > 3")], 10.0)
    given_up.note("eve", [], 10.0)
    assert given_up.since(ASKED, 5.0, 12.0) == CLEAN
    given_up.note("fay", [("u", ""), ("#", "n < 3")], 10.0)
    assert given_up.since(ASKED, 5.0, 12.0) == Finding(given_up=1, gone=("fay",))


def test_all_are_counted_and_some_are_named():
    given_up = GivenUp()
    for number in range(NAMES_MAX + 2):
        given_up.note(f"c{number}", [("t", "")], 10.0)
    found = given_up.since(ASKED, 5.0, 12.0)
    assert (found.given_up, len(found.gone)) == (NAMES_MAX + 2, NAMES_MAX)


def test_what_is_forgotten_is_not_taken_for_nothing():
    given_up = GivenUp()
    for number in range(GIVEN_UP_MAX + 1):
        given_up.note(f"c{number}", [("u", "")], 10.0 + number)
    assert not given_up.since(ASKED, 1000.0, 1000.0).clean
    assert given_up.since(ASKED, 980.0, 1000.0) == CLEAN
    given_up.forget_old(1000.0 + REMEMBERED_S)
    assert not given_up.since(ASKED, REMEMBERED_S + 900.0, 1000.0 + REMEMBERED_S).clean


def test_of_a_message_of_unknown_age_nothing_is_said():
    given_up = GivenUp()
    given_up.note("dan", [("t", "")], 10.0)
    assert given_up.since(ASKED, UNKNOWN_AGE_S, 12.0) == CLEAN
