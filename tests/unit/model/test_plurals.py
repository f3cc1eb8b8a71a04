"""Counts in sentences."""

from holdfast.model.plurals import counted


def test_one_is_singular_and_everything_else_is_plural():
    assert [counted(count, "message") for count in (0, 1, 2, 20_000)] == [
        "0 messages",
        "1 message",
        "2 messages",
        "20,000 messages",
    ]


def test_a_noun_may_have_a_plural_of_its_own():
    assert [counted(count, "process", "processes") for count in (1, 3)] == ["1 process", "3 processes"]
