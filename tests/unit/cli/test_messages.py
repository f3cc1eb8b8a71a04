"""How messages look on a terminal, and how attributes and seeds are written."""

import os

import pytest

from holdfast.cli.messages import as_text, lines_of
from holdfast.cli.options import parse_attributes, parse_seeds
from holdfast.model.batches import Message
from holdfast.model.guarantees import Guarantee


def test_a_message_is_one_line_with_all_that_is_known_of_it():
    message = Message("bank/x", b"hello", "alice", 3, Guarantee.TOTAL, ("PT50",), {"amount": 120})
    assert as_text(message) == "bank/x  alice#3  total  key=PT50  amount=120  hello"


def test_a_payload_cannot_command_the_terminal_nor_start_a_new_line():
    message = Message("t", b"\x1b[2Jgone\nnext\x9b\xff", "a\x07", 1, Guarantee.FIFO)
    assert as_text(message) == "t  a\\x07#1  fifo  \\x1b[2Jgone\\x0anext\\x9b\\xff"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("n=5", 5),
        ("n=-2.5", -2.5),
        ("n=true", True),
        ('n="5"', "5"),
        ("n=EUR", "EUR"),
        ("n=", ""),
        ("n=a=b", "a=b"),
        ("n=[1]", "[1]"),
        ("n=null", "null"),
    ],
)
def test_an_attribute_is_a_number_a_boolean_or_text(text: str, value: object):
    [(name, parsed)] = parse_attributes([text]).items()
    assert (name, parsed, type(parsed)) == ("n", value, type(value))


@pytest.mark.parametrize(("text", "seeds"), [("7", [7]), ("0..2", [0, 1, 2]), ("5..5", [5])])
def test_seeds_are_one_or_from_to(text: str, seeds: list[int]):
    assert list(parse_seeds(text)) == seeds


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        (b"", []),
        (b"one\ntwo\n", [b"one\n", b"two\n"]),
        (b"one\n\nlast", [b"one\n", b"\n", b"last"]),
    ],
)
def test_lines_are_read_as_they_were_written(written: bytes, lines: list[bytes]):
    reading, writing = os.pipe()
    os.write(writing, written)
    os.close(writing)
    assert list(lines_of(reading)) == [*lines, b""]
    os.close(reading)
