"""Whose fault an error is, and what is known about the outcome, can be read from its type."""

import pickle

import pytest

from holdfast.model.errors import (
    EXCERPT_CHARACTERS_MAX,
    ConfigError,
    ConnectionLost,
    Definite,
    FilterError,
    HoldfastError,
    Indefinite,
    LocalMisuse,
    PeerViolation,
    Refused,
    RequestFailed,
    TopicError,
)


@pytest.mark.parametrize("error", [TopicError, FilterError, ConfigError])
def test_what_our_caller_did_wrong_is_a_local_misuse_and_a_value_error(error):
    assert issubclass(error, LocalMisuse)
    assert issubclass(error, ValueError)
    assert not issubclass(error, PeerViolation)


def test_everything_can_be_caught_as_one():
    for error in (LocalMisuse, PeerViolation, RequestFailed):
        assert issubclass(error, HoldfastError)


def test_a_refusal_did_not_happen_and_a_lost_connection_leaves_it_open():
    assert Refused("no").outcome == "did not happen"
    assert ConnectionLost("gone").outcome == "may have happened"
    assert RequestFailed("who knows").outcome == "may have happened"
    assert isinstance(Refused("no"), Definite)
    assert isinstance(ConnectionLost("gone"), Indefinite)


def test_a_filter_error_points_at_the_place():
    error = FilterError("That is not an operator.", "amount ? 3", 7)
    assert str(error) == "That is not an operator.\n  amount ? 3\n         ^"


@pytest.mark.parametrize("position", [0, 3, 40, 500, 960, 999, 1000])
def test_a_filter_error_about_a_long_text_shows_the_surroundings_of_the_place(position):
    text = "".join(chr(ord("a") + index % 26) for index in range(1000))
    _, excerpt, caret = str(FilterError("No.", text, position)).split("\n")
    assert len(excerpt) <= EXCERPT_CHARACTERS_MAX + 8
    assert (excerpt + " ")[caret.index("^")] == (text + " ")[position]


def test_a_filter_error_shows_one_line_even_if_the_text_has_several():
    assert str(FilterError("No.", "a = 1\nor\tb !", 11)) == "No.\n  a = 1 or b !\n             ^"


def test_a_filter_error_survives_pickling():
    error = pickle.loads(pickle.dumps(FilterError("No.", "a ? 3", 2)))
    assert (error.sentence, error.text, error.position) == ("No.", "a ? 3", 2)
