"""The last numbers of publishers: however many there are, no frame is too large for them."""

from holdfast.model.batches import NAME_CHARACTERS_MAX
from holdfast.model.messages import NUMBERS_MAX, Data, Join, Numbers, Twig
from holdfast.model.wire import FRAME_BYTES_MAX, encode
from holdfast.protocols.last_numbers import PUBLISHERS_MAX, in_parts, note_number, put_together

WIDE = "\N{MUSICAL SYMBOL G CLEF}"
"""A character of four bytes."""


def numbers_of(count: int) -> dict[str, int]:
    return {f"{place:06}".rjust(NAME_CHARACTERS_MAX, WIDE): 1 << 60 for place in range(count)}


def join(processed: dict[str, int]) -> Join:
    return Join(Twig("1", "broker", 1, ""), "", (), processed, (), 0, 0)


def test_those_that_fit_are_said_by_the_join_itself():
    assert in_parts({"a": 1, "b": 2}) == ([], {"a": 1, "b": 2})
    assert put_together([], {"a": 1}) == ([], {"a": 1})


def test_the_others_go_ahead_and_are_put_together_again():
    numbers = numbers_of(2 * NUMBERS_MAX + 1)
    ahead, last = in_parts(numbers)
    assert [len(part.processed) for part in ahead] == [NUMBERS_MAX, NUMBERS_MAX]
    assert len(last) == 1
    assert put_together(ahead, last) == ([], numbers)


def test_the_longest_names_fit_into_frames():
    ahead, last = in_parts(numbers_of(2 * NUMBERS_MAX))
    assert [type(message) for message in ahead] == [Numbers]
    assert len(encode(Data(0, ahead[0]))) <= FRAME_BYTES_MAX
    assert len(encode(Data(0, join(last)))) <= FRAME_BYTES_MAX


def test_of_too_many_publishers_the_longest_silent_is_forgotten():
    numbers = {"first": 1, "second": 1}
    for place in range(PUBLISHERS_MAX - 2):
        numbers[f"p{place}"] = 1
    note_number(numbers, "first", 2)
    note_number(numbers, "new", 1)
    assert len(numbers) == PUBLISHERS_MAX
    assert "second" not in numbers
    assert numbers["first"] == 2
