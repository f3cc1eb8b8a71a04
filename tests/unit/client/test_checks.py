"""Which keys need no check, so that a message with one goes the short way."""

import pytest

from holdfast.client.checks import checked_keys, is_plain_key
from holdfast.model.batches import KEY_BYTES_MAX


class Text(str):
    """A string that may be anything."""

    __slots__ = ()


@pytest.mark.parametrize("key", ["", "k", "PT50-1", "x" * KEY_BYTES_MAX])
def test_one_short_ascii_key_needs_no_check_and_would_pass_it(key: str):
    assert is_plain_key((key,))
    assert checked_keys((key,)) == (key,)


@pytest.mark.parametrize("keys", [(), ("a", "b"), ["a"], "a", (Text("a"),), (1,), ("é",), ("\ud800",), ("x" * 10**6,)])
def test_everything_else_is_looked_at(keys: tuple[str, ...]):
    assert not is_plain_key(keys)
