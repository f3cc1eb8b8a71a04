"""Frames on the wire: every kind round-trips, and no bytes make the decoder do anything but return or refuse."""

import time
import tracemalloc
from collections.abc import Callable
from itertools import pairwise

import msgspec
import pytest
from hypothesis import Phase, example, find, given, settings
from hypothesis import strategies as st

from holdfast.model.batches import Attributes, Batch, Keys, make_batch
from holdfast.model.checksums import crc32
from holdfast.model.costs import URGENT, cost_bytes
from holdfast.model.messages import (
    LAP,
    Ack,
    Data,
    Frame,
    Goodbye,
    Hello,
    Ping,
    Publish,
    SessionMessage,
    TotalProcessed,
    TotalRequest,
)
from holdfast.model.wire import FRAME_BYTES_MAX, HEADER_BYTES, FrameReader, WireError, decode, encode, head
from tests.unit.model.drawn import FRAME_KINDS, SESSION_KINDS, attributes, frames, keys, structs

HUGE = 0xFFFFFFFF
PUBLISH = b"\x93\x04\x01\x92\x14\x97\xa1p\x01\xa1t\x00\xc4\x00"
"""Data 1 with a publication, up to its keys; attributes follow."""


def read_all(data: bytes, cuts: list[int]) -> list[Frame]:
    reader, found = FrameReader(), []
    for start, stop in pairwise([0, *sorted(cuts), len(data)]):
        found += reader.feed(data[start:stop])
    return found


def outcome(data: bytes, cuts: list[int]) -> list[Frame] | str:
    try:
        return read_all(data, cuts)
    except WireError as error:
        return str(error)


# --------------------------------------------------------------------------------------------------- round trips


@pytest.mark.parametrize("kind", FRAME_KINDS)
def test_every_kind_of_frame_round_trips(kind: type[Frame]):
    @given(structs(kind))
    @settings(max_examples=40)
    def round_trips(frame: Frame) -> None:
        assert FrameReader().feed(encode(frame)) == [frame]

    round_trips()


@pytest.mark.parametrize("kind", SESSION_KINDS)
def test_every_kind_of_session_message_round_trips(kind: type[SessionMessage]):
    @given(structs(kind), st.integers(0, LAP - 1))
    @settings(max_examples=40)
    def round_trips(message: SessionMessage, seq: int) -> None:
        [frame] = FrameReader().feed(encode(Data(seq, message)))
        assert frame == Data(seq, message)
        assert (cost_bytes(message) > 0) is not isinstance(message, URGENT)

    round_trips()


@pytest.mark.parametrize("kind", SESSION_KINDS)
def test_a_session_message_with_nothing_in_it_takes_of_the_credit_unless_it_is_urgent(kind: type[SessionMessage]):
    first = settings(max_examples=1, phases=[Phase.generate], database=None)
    least = find(structs(kind), lambda _: True, settings=first)
    assert (cost_bytes(least) > 0) is not isinstance(least, URGENT)


def test_no_two_kinds_of_frames_or_of_session_messages_share_a_tag():
    for kinds in (FRAME_KINDS, SESSION_KINDS):
        assert len({kind.__struct_config__.tag for kind in kinds}) == len(kinds)  # type: ignore[attr-defined]


def test_a_frame_is_three_bytes_of_length_four_of_checksum_and_one_message():
    body = b"\x92\x06\x05"
    assert encode(Ping(5)) == b"\x00\x00\x03" + crc32(body).to_bytes(4) + body
    # A length of 5 is 2 modulo 3, which stands in the two highest bits.
    assert encode(Ping(200 << 8))[:3] == b"\x80\x00\x05"


def test_a_publication_is_its_link_number_and_its_batch():
    batch = make_batch("p", 1, "t", 0, [b"x"])
    body = b"\x07\x95\xa1p\x01\xa1t\x00\xc4\x01x"
    assert encode(Data(7, Publish(batch))) == head(len(body), crc32(b"\x07") ^ crc32(body[1:])) + body


# ------------------------------------------------------------------------------------------------------ any pieces


@given(st.lists(frames, max_size=6), st.data())
def test_the_pieces_in_which_a_stream_arrives_do_not_matter(sent: list[Frame], choice: st.DataObject):
    data = b"".join(map(encode, sent))
    cuts = choice.draw(st.lists(st.integers(0, len(data)), max_size=10))
    assert read_all(data, cuts) == sent


@given(st.lists(frames, min_size=1, max_size=3))
def test_a_stream_may_arrive_byte_by_byte(sent: list[Frame]):
    data = b"".join(map(encode, sent))
    assert read_all(data, list(range(len(data)))) == sent


@given(frames, st.data())
def test_the_beginning_of_a_frame_is_pending_and_nothing_else(frame: Frame, choice: st.DataObject):
    data = encode(frame)
    length = choice.draw(st.integers(0, len(data) - 1))
    reader = FrameReader()
    assert reader.feed(encode(Ping(1)) + data[:length]) == [Ping(1)]
    assert reader.pending_bytes == length
    assert reader.feed(data[length:] + data[:length]) == [frame]
    assert reader.pending_bytes == length


def test_many_small_pieces_of_a_large_frame_are_not_copied_again_and_again():
    """The same frame in pieces of 64 KiB and of 512 bytes: were the whole copied at each piece, 128 times as much."""
    whole = encode(Data(1, Publish(make_batch("p", 1, "t", 0, [bytes(FRAME_BYTES_MAX - 1000)]))))

    def cost_s(size: int) -> float:
        pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
        best_s = float("inf")
        for _ in range(5):
            reader = FrameReader()
            start = time.perf_counter()
            frames = [frame for piece in pieces for frame in reader.feed(piece)]
            best_s = min(best_s, time.perf_counter() - start)
            assert len(frames) == 1
        return best_s

    assert cost_s(1 << 9) < 25 * cost_s(1 << 16)


def test_the_beginning_of_a_large_frame_takes_little_more_memory_than_it_has_bytes():
    tracemalloc.start()
    try:
        reader = FrameReader()
        reader.feed(head(FRAME_BYTES_MAX, 0))
        for _ in range(1 << 18):
            assert reader.feed(b"xy") == []
        assert tracemalloc.get_traced_memory()[0] < 2 * reader.pending_bytes
    finally:
        tracemalloc.stop()


# ------------------------------------------------------------------------------------------------------- any bytes


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
@example(bytes(8), [])
@example(head(1, 0) + b"\xc1", [])
@example(head(1, 0) + b"\x00", [])
def test_any_bytes_give_frames_or_the_one_error_and_the_pieces_do_not_matter(data: bytes, cuts: list[int]):
    whole, pieces = outcome(data, []), outcome(data, [cut for cut in cuts if cut <= len(data)])
    assert whole == pieces


@given(frames, st.data())
@settings(max_examples=300)
def test_a_frame_with_flipped_bits_is_never_taken_for_another_one(frame: Frame, choice: st.DataObject):
    sent = encode(frame)
    data = bytearray(sent)
    for _ in range(choice.draw(st.integers(1, 3))):
        data[choice.draw(st.integers(0, len(data) - 1))] ^= 1 << choice.draw(st.integers(0, 7))
    found = outcome(bytes(data), [])
    # Nothing comes out while a frame that has become longer waits for its end.
    assert data == sent or found == [] or isinstance(found, str), found


@given(frames, frames, st.data())
def test_a_burst_of_noise_is_never_taken_for_a_frame(frame: Frame, following: Frame, choice: st.DataObject):
    sent = encode(frame)
    data = bytearray(sent + encode(following))
    at = choice.draw(st.integers(0, len(sent) - 1))
    noise = choice.draw(st.binary(min_size=1, max_size=8))
    data[at : at + len(noise)] = noise
    found = outcome(bytes(data), [])
    assert isinstance(found, str) or not found or data == sent + encode(following) or found == [frame], found


@given(frames, st.integers(0, 23))
def test_one_flipped_bit_of_a_length_is_known_before_the_frame_is_there(frame: Frame, bit: int):
    data = bytearray(encode(frame))
    data[bit // 8] ^= 1 << bit % 8
    with pytest.raises(WireError, match="where the length of a frame should be"):
        FrameReader().feed(data[: HEADER_BYTES + 1])


def test_the_sentence_about_an_altered_frame_says_what_happens_next():
    data = bytearray(encode(Ping(5)))
    data[-1] ^= 1
    with pytest.raises(WireError, match="a frame of 3 bytes does not have the checksum that it came with") as caught:
        FrameReader().feed(data)
    assert "What was not acknowledged is sent again over the next connection" in str(caught.value)


@given(frames, st.data())
def test_a_body_that_is_cut_short_or_goes_on_is_refused(frame: Frame, choice: st.DataObject):
    body = encode(frame)[HEADER_BYTES:]
    shorter = body[: choice.draw(st.integers(0, len(body) - 1))]
    longer = body + choice.draw(st.binary(min_size=1, max_size=3))
    for wrong in (shorter, longer):
        with pytest.raises(WireError, match=f"the peer sent {len(wrong)} bytes that are no Holdfast frame"):
            decode(wrong)


# Structures that msgpack can say in few bytes. `N` is what they announce, where they announce something.
BOMBS = {
    "an array of announced length": b"\xdd" + HUGE.to_bytes(4, "big"),
    "interests of announced length": b"\x93\x04\x01\x93\x19\xdd" + HUGE.to_bytes(4, "big"),
    "keys of announced length": PUBLISH + b"\xdd" + HUGE.to_bytes(4, "big"),
    "keys of one message of announced length": PUBLISH + b"\x91\xdd" + HUGE.to_bytes(4, "big"),
    "attributes of announced length": PUBLISH + b"\x90\x91\xdf" + HUGE.to_bytes(4, "big"),
    "a payload of announced length": b"\x93\x04\x01\x92\x14\x95\xa1p\x01\xa1t\x00\xc6" + HUGE.to_bytes(4, "big"),
    "a name of announced length": b"\x93\x04\x01\x92\x14\x95\xdb" + HUGE.to_bytes(4, "big"),
    "an extension of announced length": b"\xc9" + HUGE.to_bytes(4, "big") + b"\x01",
    "arrays in arrays": b"\x91" * 500_000,
    "maps in maps": b"\x81\x01" * 500_000,
    "arrays in an attribute": PUBLISH + b"\x90\x91\x81\xa1n" + b"\x91" * 500_000,
    "arrays where a frame has ended": b"\x93\x06\x01" + b"\x91" * 500_000,
    "arrays under an unknown tag": b"\x92\x7f" + b"\x91" * 500_000,
    "a million empty keys": PUBLISH + b"\xdd\x00\x0f\x42\x40" + b"\x90" * 1_000_000,
    "a million empty attributes": PUBLISH + b"\x90\xdd\x00\x0f\x42\x40" + b"\x80" * 1_000_000,
    "a million keys of one message": PUBLISH + b"\x91\xdd\x00\x0f\x42\x40" + b"\xa0" * 1_000_000,
    "a million interests": b"\x93\x04\x01\x93\x19\xdd\x00\x0f\x42\x40" + b"\x92\xa1a\xa0" * 1_000_000 + b"\xc3",
    "a million keys in a marker": b"\x93\x04\x01\x95\x1f\xa1p\x01\xa1t\xdd\x00\x0f\x42\x40" + b"\xa0" * 1_000_000,
    "a million messages in no bytes": PUBLISH.replace(b"\x97", b"\x98") + b"\x90\x90\xce\x00\x0f\x42\x40",
}


@pytest.mark.parametrize("body", BOMBS.values(), ids=BOMBS.keys())
def test_what_announces_or_nests_much_is_refused_without_making_it(body: bytes):
    tracemalloc.start()
    try:
        with pytest.raises(WireError):
            decode(body)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_length_that_is_none_is_refused_before_its_frame_comes():
    with pytest.raises(WireError, match="ffffff where the length of a frame should be"):
        FrameReader().feed(bytes([0xFF] * 8))


def test_a_length_that_arrives_in_pieces_is_refused_when_its_frame_begins():
    reader = FrameReader()
    for byte in bytes(HEADER_BYTES):
        assert reader.feed(bytes([byte])) == []
    with pytest.raises(WireError, match="000000 where the length of a frame should be"):
        reader.feed(b"\x92")


def test_a_frame_that_is_too_large_is_not_sent_either():
    batch = make_batch("p", 1, "t", 0, [bytes(FRAME_BYTES_MAX)])
    with pytest.raises(WireError, match="publish smaller batches"):
        encode(Data(1, Publish(batch)))


@given(st.integers(1, 0xFFFFFFFF), st.text(min_size=1, max_size=5).filter(str.isascii), st.integers(0, 255))
def test_a_message_by_itself_has_a_header_of_at_most_24_bytes(number: int, name: str, size: int):
    """Of a name of up to five letters, for its first four thousand million messages."""
    batch = make_batch(name, number, "bank/lisbon", 2, [bytes(size)])
    assert len(encode(Data(LAP - 1, Publish(batch)))) - len("bank/lisbon") - size <= 24


@pytest.mark.parametrize("wrap", [Publish, TotalRequest, lambda batch: TotalProcessed("p", 1, batch)])
@given(st.lists(keys, max_size=1), st.lists(attributes, max_size=1), st.binary(max_size=300), st.integers(0, LAP - 1))
def test_what_a_message_by_itself_does_not_need_is_left_away_and_filled_in(
    wrap: Callable[[Batch], SessionMessage], keys: list[Keys], attributes: list[Attributes], payload: bytes, seq: int
):
    whole = Data(seq, wrap(make_batch("alice", 5, "t", 3, [payload], keys, attributes)))
    short = encode(whole)
    long = msgspec.msgpack.encode(whole)
    assert decode(memoryview(short)[HEADER_BYTES:]) == decode(long) == whole
    # A count of one and no lengths take three bytes.
    assert len(short) <= HEADER_BYTES + len(long) - 3


@pytest.mark.parametrize(
    "body",
    [
        b"\x93\x04\x01\x92\x14\x94\xa1p\x01\xa1t\x00",
        b"\x93\x04\x01\x92\x14\x95\xa1p\x00\xa1t\x00\xc4\x00",
        b"\x93\x04\x01\x92\x14\x95\xa1p\x01\xa1t\x04\xc4\x00",
        b"\x93\x04\x01\x92\x14\x95\xa0\x01\xa1t\x00\xc4\x00",
        b"\x93\x04\xcc\x80\x92\x14\x95\xa1p\x01\xa1t\x00\xc4\x00",
        PUBLISH.replace(b"\x97", b"\x98") + b"\x90\x90\x00",
        b"",
    ],
    ids=["no payload", "number 0", "guarantee 4", "no name", "a whole link number", "a count of 0", "nothing"],
)
def test_a_publication_that_lacks_something_or_is_outside_its_limits_is_refused(body: bytes):
    with pytest.raises(WireError):
        decode(body)
    with pytest.raises(WireError):
        FrameReader().feed(head(len(body), crc32(body)) + body + encode(Ping(1)))


def test_a_name_that_is_no_text_is_refused():
    body = msgspec.msgpack.encode(Goodbye("ab")).replace(b"ab", b"\xff\xfe")
    with pytest.raises(WireError):
        decode(body)


@pytest.mark.parametrize(
    "hello",
    [
        Hello(1, "", "client", "c", 1, False, 0, 0),
        Hello(1, "x" * 145, "client", "c", 1, False, 0, 0),
        Hello(1, "a", "king", "c", 1, False, 0, 0),  # type: ignore[arg-type]
        Hello(1, "a", "client", "c", -1, False, 0, 0),
    ],
)
def test_a_hello_outside_its_limits_is_refused(hello: Hello):
    with pytest.raises(WireError):
        decode(msgspec.msgpack.encode(hello))


def test_the_limits_of_acknowledgements_are_those_of_a_signed_word():
    assert decode(msgspec.msgpack.encode(Ack((1 << 63) - 1, 0))) == Ack((1 << 63) - 1, 0)
    with pytest.raises(WireError):
        decode(msgspec.msgpack.encode(Ack(1 << 63, 0)))
