"""By which numbers a node tells repeats."""

from holdfast.protocols.delta import repeats
from holdfast.protocols.delta.repeats import LIVES_MAX, WINDOW, CopyNumbers


def test_a_number_that_came_is_a_repeat_and_one_that_was_overtaken_is_not():
    came = CopyNumbers()
    came.note((("a", 1, 5),))
    came.note((("a", 1, 9),))
    came.note((("a", 1, 7),))
    assert [number for number in range(1, 12) if came.is_duplicate((("a", 1, number),))] == [5, 7, 9]


def test_one_hop_tells_a_repeat_whatever_the_others_say_and_a_hop_that_was_skipped_says_nothing():
    came = CopyNumbers()
    came.note((("a", 1, 5), ("b", 1, 3)))
    assert came.is_duplicate((("a", 1, 5), ("b", 0, 0), ("c", 1, 1)))
    assert not came.is_duplicate((("a", 0, 0), ("b", 1, 4), ("c", 1, 1)))


def test_numbers_of_several_lives_are_told_apart_and_those_of_forgotten_lives_are_repeats():
    came = CopyNumbers()
    for life in range(1, LIVES_MAX + 2):
        came.note((("a", life, 1),))
    assert came.is_duplicate((("a", 1, 2),))
    assert not came.is_duplicate((("a", 2, 2),))
    assert came.is_duplicate((("a", 2, 1),))
    assert not came.is_duplicate((("a", LIVES_MAX + 2, 1),))


def test_what_is_older_than_the_window_is_a_repeat_and_is_numbered_anew_before_that():
    came = CopyNumbers()
    came.note((("a", 1, WINDOW + 10),))
    assert came.is_duplicate((("a", 1, 10),))
    assert not came.is_duplicate((("a", 1, 11),))
    assert came.is_outrun((("a", 1, 11),))
    assert not came.is_outrun((("a", 1, WINDOW),))


def test_numbers_of_those_who_left_are_kept_for_the_last_few(monkeypatch):
    monkeypatch.setattr(repeats, "GONE_MAX", 1)
    came = CopyNumbers()
    for name in ("a", "b", "c"):
        came.note(((name, 1, 1),))
    came.forget(["a"])
    assert came.is_duplicate((("a", 1, 1),))
    came.forget(["b"])
    assert not came.is_duplicate((("a", 1, 1),))
    assert came.is_duplicate((("b", 1, 1),))
    came.note((("b", 1, 2),))
    came.forget(["c"])
    assert came.is_duplicate((("b", 1, 1),))
