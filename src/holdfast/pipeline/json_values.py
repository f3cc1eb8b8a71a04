"""JSON payloads as a column of structs, for who asks for it: the option `json` of the source.

A payload that is not a JSON object with fields of these types has no value: null, and the payload itself says what is
there. Fields that are missing are null, fields that nobody asked for are left out.
"""

import datetime as dt
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import msgspec
import pyarrow as pa
from msgspec import Meta
from pyspark.sql import types as T  # noqa: N812 - as everybody calls them

from holdfast.pipeline.logs import LogError

COLUMN = "value"

_WHOLE: dict[type[T.DataType], int] = {T.ByteType: 8, T.ShortType: 16, T.IntegerType: 32, T.LongType: 64}
_PLAIN: dict[type[T.DataType], Any] = {
    T.StringType: str,
    T.BooleanType: bool,
    T.FloatType: float,
    T.DoubleType: float,
    T.DateType: dt.date,
    T.TimestampNTZType: Annotated[dt.datetime, Meta(tz=False)],
    T.TimestampType: Annotated[dt.datetime, Meta(tz=True)],
}


def decoder(kind: T.DataType, arrow_type: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    """A function from payloads to values of a struct type."""
    decode = msgspec.json.Decoder(_python_type(kind, COLUMN)).decode

    def value(payload: pa.BinaryScalar) -> Any:
        try:
            return decode(payload.as_buffer())
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None

    return lambda payloads: pa.array([value(payload) for payload in payloads], arrow_type)


def _python_type(kind: T.DataType, name: str) -> Any:
    if isinstance(kind, T.StructType):
        fields = {field.name: _python_type(field.dataType, f"{name}.{field.name}") | None for field in kind.fields}
        return TypedDict("Value", fields, total=False)  # type: ignore[operator]  # Its fields are data here.
    if isinstance(kind, T.ArrayType):
        return list[_python_type(kind.elementType, name) | None]  # type: ignore[misc]
    if isinstance(kind, T.MapType) and isinstance(kind.keyType, T.StringType):
        return dict[str, _python_type(kind.valueType, name) | None]  # type: ignore[misc]
    if bits := _WHOLE.get(type(kind)):
        return Annotated[int, Meta(ge=-(1 << (bits - 1)), le=(1 << (bits - 1)) - 1)]
    if type(kind) in _PLAIN:
        return _PLAIN[type(kind)]
    raise LogError(
        f"the option json has {name} {kind.simpleString()}; JSON holds strings, booleans, numbers (whole, FLOAT or "
        "DOUBLE), DATE, TIMESTAMP, TIMESTAMP_NTZ, and arrays, structs and maps by strings of these."
    )
