"""Attribute values as texts: in a DataFrame every value is JSON, so that 1, 1.0, true and "1" stay apart."""

import msgspec

from holdfast.model.filters import Value
from holdfast.model.trace import NotFinite


def encode_value(value: Value) -> str:
    """A value as JSON; what JSON cannot write, as an object in its stead."""
    if isinstance(value, float) and value - value != 0:
        return msgspec.json.encode(msgspec.convert({"float": str(value)}, NotFinite)).decode()
    return msgspec.json.encode(value).decode()


def decode_value(text: str) -> Value:
    """The value that a text stands for. What is no JSON, or JSON of another kind, is a text that stands for itself."""
    try:
        value = msgspec.json.decode(text, type=str | int | float | bool | NotFinite)
    except msgspec.MsgspecError:
        return text
    return float(value.float) if isinstance(value, NotFinite) else value
