"""A frame in pieces is the same frame: whatever is not copied must still stand where a decoder looks for it."""

import pytest
from hypothesis import given

from holdfast.model.batches import (
    BATCH_BYTES_MAX,
    COPIED_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    Attributes,
    Keys,
    make_batch,
)
from holdfast.model.guarantees import CAUSAL
from holdfast.model.messages import LAP, Data, Frame, Publish
from holdfast.model.wire import FRAME_BYTES_MAX, FrameReader, WireError, encode, pieces
from tests.unit.model.drawn import frames


def carrying(
    sizes: list[int], keys: list[Keys] | None = None, attributes: list[Attributes] | None = None, seq: int = 7
) -> Data:
    payloads = [bytes([number % 251]) * size for number, size in enumerate(sizes)]
    return Data(seq, Publish(make_batch("alice", 5, "bank/lisbon", CAUSAL, payloads, keys or (), attributes or ())))


@given(frames)
def test_the_pieces_of_any_frame_are_its_bytes(frame: Frame):
    assert b"".join(pieces(frame)) == encode(frame)


@pytest.mark.parametrize("size", [COPIED_BYTES_MAX, 0xFFFF, 0x10000, PAYLOAD_BYTES_MAX])
@pytest.mark.parametrize("seq", [0, 1, LAP - 1])
def test_payloads_that_are_not_copied_stand_in_their_place(size: int, seq: int):
    frame = carrying([size], seq=seq)
    assert b"".join(pieces(frame)) == encode(frame)


@pytest.mark.parametrize(
    "frame",
    [
        carrying([1024] * 64),
        carrying([8000, 9000, 0, 1]),
        carrying([9000], keys=[("a",)]),
        carrying([9000], attributes=[{"n": 1}]),
        carrying([9000, 9000], keys=[("a",), ("b", "c")]),
        carrying([9000, 9000], attributes=[{"n": 1.5, "text": "x" * 300}, {}]),
        carrying([100] * (BATCH_BYTES_MAX // 100), keys=[("same",)] * (BATCH_BYTES_MAX // 100)),
    ],
    ids=["equal", "unequal", "a key", "an attribute", "keys", "attributes", "one key"],
)
def test_columns_beside_the_payloads_stand_behind_them(frame: Data):
    before, payloads, behind = pieces(frame)
    assert isinstance(frame.message, Publish)
    assert payloads is frame.message.batch.payloads
    assert before + payloads + behind == encode(frame)
    assert FrameReader().feed(before + payloads + behind) == [frame]


def test_nothing_stands_behind_the_payload_of_a_message_by_itself():
    frame = carrying([9000])
    assert isinstance(frame.message, Publish)
    before, payload = pieces(frame)
    assert payload is frame.message.batch.payloads
    assert before + payload == encode(frame)


def test_a_small_frame_is_one_piece():
    frame = carrying([COPIED_BYTES_MAX - 1])
    assert pieces(frame) == [encode(frame)]


def test_a_frame_over_the_limit_is_refused_in_pieces_too():
    with pytest.raises(WireError, match="exceeds the limit"):
        pieces(carrying([PAYLOAD_BYTES_MAX] * (FRAME_BYTES_MAX // PAYLOAD_BYTES_MAX + 1)))
