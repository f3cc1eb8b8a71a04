"""Attribute values as texts and back."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.filters import Value
from holdfast.pipeline.values import decode_value, encode_value

values = st.one_of(st.text(), st.integers(-(2**63), 2**63 - 1), st.booleans(), st.floats(allow_nan=False))


@given(values)
def test_every_value_comes_back_as_what_it_was(value: Value):
    back = decode_value(encode_value(value))
    assert (type(back), back) == (type(value), value)


def test_what_is_no_number_comes_back_too():
    back = decode_value(encode_value(math.nan))
    assert isinstance(back, float)
    assert math.isnan(back)


@pytest.mark.parametrize("text", ["Lisbon", "", "null", "[1]", '{"a": 1}', "12 o'clock"])
def test_a_text_that_is_no_json_value_stands_for_itself(text: str):
    assert decode_value(text) == text
