"""Broker addresses: what can be written, what cannot, and which is dialled when."""

from typing import Any

import pytest

from holdfast.client.addresses import AddressBook, parse_addresses
from holdfast.client.errors import AddressError


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("holdfast://127.0.0.1:7400", [("127.0.0.1", 7400)]),
        ("holdfast://localhost", [("localhost", 7400)]),
        ("holdfast://localhost/", [("localhost", 7400)]),
        ("broker.example:1", [("broker.example", 1)]),
        ("holdfast://[::1]:7401", [("::1", 7401)]),
        ("holdfast://a:1,b:2, c:3", [("a", 1), ("b", 2), ("c", 3)]),
        ("holdfast://a:1,holdfast://b:2", [("a", 1), ("b", 2)]),
        (["holdfast://a:1", "b:2", "a:1"], [("a", 1), ("b", 2)]),
    ],
)
def test_addresses_are_read(text: Any, found: list[tuple[str, int]]):
    assert parse_addresses(text) == tuple(found)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("nats://a:1", "has another scheme; Holdfast's begin with holdfast://"),
        ("holdfast://", "cannot be read at ''; write 'holdfast://host:port'"),
        ("holdfast://a:1,,b:2", "cannot be read at ''"),
        ("holdfast://a:port", "cannot be read at 'a:port'"),
        ("holdfast://a:70000", "has the port 70000; a port is between 1 and 65535"),
        ("holdfast://a:0", "has the port 0"),
        ("holdfast://u@a:1", "cannot be read at 'u@a:1'"),
        ("::1", "cannot be read at '::1'"),
        ([], "no broker's address was given"),
        ([7], "a broker's address is a string such as"),
    ],
)
def test_what_is_no_address_is_said_in_one_sentence(text: Any, sentence: str):
    with pytest.raises(AddressError) as wrong:
        parse_addresses(text)
    assert sentence in str(wrong.value)
    assert "\n" not in str(wrong.value)


def test_addresses_are_tried_in_turn_until_one_has_the_session():
    book = AddressBook((("a", 1), ("b", 2)))
    assert [book.next() for _ in range(3)] == [("a", 1), ("b", 2), ("a", 1)]
    book.pin()
    assert [book.next(), book.next()] == [("a", 1), ("a", 1)]


def test_when_every_address_has_failed_once_it_is_known_that_nobody_is_there():
    book = AddressBook((("a", 1), ("b", 2)))
    book.next()
    assert not book.note_failure("no answer")
    book.next()
    assert book.note_failure("refused")
    assert book.tried() == "a:1 (no answer); b:2 (refused)"


def test_a_broker_that_has_the_session_may_be_away_for_a_while():
    book = AddressBook((("a", 1),))
    book.next()
    book.pin()
    assert not book.note_failure("no answer")
