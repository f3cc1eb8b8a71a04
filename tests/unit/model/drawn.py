"""What the property tests of this room draw: messages, batches and frames of every kind.

Strategies follow from the types that the decoder itself checks, so a message that is added later is drawn, too.
"""

from typing import Any, get_args

import msgspec.inspect as seen
from hypothesis import strategies as st

from holdfast.model.batches import SEQ_MAX, Attributes, Batch, Keys, make_batch
from holdfast.model.messages import Frame, SessionMessage

Strategy = st.SearchStrategy[Any]

SIZE_MAX = 6
DEPTH_MAX = 3
FRAME_KINDS: tuple[type, ...] = get_args(Frame)
SESSION_KINDS: tuple[type, ...] = get_args(SessionMessage)

# -------------------------------------------------------------------------------------------------------- batches

topics = st.sampled_from(["t", "bank/lisbon/orders", "é/日本", "x" * 1000])
payloads = st.one_of(st.binary(max_size=4), st.sampled_from([b"", b"x", b"x" * 300]))
keys: st.SearchStrategy[Keys] = st.lists(st.sampled_from(["", "a", "b", "é"]), max_size=3, unique=True).map(tuple)
numbers = st.one_of(st.integers(-(1 << 63), (1 << 64) - 1), st.floats(allow_nan=False))
# 0, 0.0 and False are equal and mean different things.
values = st.one_of(st.sampled_from([0, 1, 0.0, 1.0, False, True]), numbers, st.text(max_size=5))
attributes: st.SearchStrategy[Attributes] = st.dictionaries(st.sampled_from(["n", "m", ""]), values, max_size=2)

Told = tuple[bytes, Keys, Attributes]
"""A message as its publisher sees it: payload, keys, attributes."""
one_told = st.tuples(payloads, keys, attributes)
told = st.one_of(
    st.lists(one_told, min_size=1, max_size=12),
    st.builds(lambda one, count: [one] * count, one_told, st.integers(1, 12)),
    st.lists(payloads, min_size=1, max_size=12).map(lambda column: [(payload, (), {}) for payload in column]),
)


def batch_of(told: list[Told], publisher: str = "p", first: int = 1, topic: str = "t", guarantee: int = 0) -> Batch:
    return make_batch(
        publisher,
        first,
        topic,
        guarantee,
        [payload for payload, _, _ in told],
        [keys for _, keys, _ in told],
        [attributes for _, _, attributes in told],
    )


names = st.text(min_size=1, max_size=8)
batches = st.builds(batch_of, told, names, st.integers(1, SEQ_MAX - 20), topics, st.integers(0, 3))

# ----------------------------------------------------------------------------------------------------- everything


def structs(kind: type) -> Strategy:
    """Any struct of that kind."""
    return _drawn(seen.type_info(kind), 0)


def _drawn(info: seen.Type, depth: int) -> Strategy:
    match info:
        case seen.StructType(cls=cls):
            return batches if cls is Batch else _struct(cls, depth)
        case seen.UnionType(types=types):
            return st.one_of([_drawn(one, depth) for one in types])
        case seen.VarTupleType(item_type=item):
            # A twig of the tree has twigs.
            deep = depth >= DEPTH_MAX
            return st.just(()) if deep else st.lists(_drawn(item, depth + 1), max_size=SIZE_MAX).map(tuple)
        case seen.TupleType(item_types=items):
            return st.tuples(*[_drawn(item, depth) for item in items])
        case seen.DictType(key_type=key, value_type=value):
            return st.dictionaries(_drawn(key, depth), _drawn(value, depth), max_size=SIZE_MAX)
        case _:
            return _plain(info)


def _plain(info: seen.Type) -> Strategy:
    match info:
        case seen.IntType(ge=least, le=most):
            return st.integers(least if least is not None else -(1 << 63), most if most is not None else (1 << 64) - 1)
        case seen.StrType(min_length=least, max_length=most):
            return st.text(min_size=least or 0, max_size=min(most or 20, 20))
        case seen.LiteralType(values=choices):
            return st.sampled_from(choices)
        case seen.BoolType():
            return st.booleans()
        case seen.FloatType(ge=least):
            return st.floats(min_value=least, allow_nan=False)
        case seen.BytesType():
            return st.binary(max_size=20)
        case seen.NoneType():
            return st.none()
    raise AssertionError(f"nothing is known of how to draw {info}")


def _struct(kind: type, depth: int) -> Strategy:
    return st.builds(kind, *[_drawn(field.type, depth + 1) for field in _fields(kind)])


def _fields(kind: type) -> tuple[seen.Field, ...]:
    info = seen.type_info(kind)
    assert isinstance(info, seen.StructType)
    return info.fields


frames: st.SearchStrategy[Frame] = st.one_of([structs(kind) for kind in FRAME_KINDS])
