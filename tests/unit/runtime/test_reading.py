"""The shared buffer cuts a stream as the defining reader does, however the bytes come and whoever else reads."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.batches import make_batch
from holdfast.model.messages import LAP, Ack, Data, Frame, Ping, Publish
from holdfast.model.wire import FRAME_BYTES_MAX, FRAME_BYTES_MIN, FrameReader, WireError, encode, head
from holdfast.runtime.reading import READ_BYTES, FrameStream, ReadBuffer

SMALL = 1 << 16


def data(seq: int, size: int) -> Data:
    return Data(seq % LAP, Publish(make_batch("p", seq, "t", 1, [bytes([seq % 256]) * size])))


def feed(stream: FrameStream, piece: bytes) -> list[Frame]:
    """Give a stream some bytes the way a loop does: as many a time as there is room for."""
    frames: list[Frame] = []
    while piece:
        room = stream.room()
        count = min(len(room), len(piece))
        room[:count] = piece[:count]
        frames += stream.advance(count)
        if stream.failure is not None:
            raise stream.failure
        piece = piece[count:]
    return frames


frame = st.one_of(
    st.builds(Ping, st.integers(0, 1000)),
    st.builds(Ack, st.integers(0, 1000), st.integers(0, 1 << 40)),
    st.builds(data, st.integers(1, 1000), st.sampled_from([0, 10, 1000, 40_000, 70_000, 200_000])),
)


@given(st.lists(frame, max_size=12), st.data())
def test_frames_come_out_whole_and_in_order_whatever_the_cuts(frames: list[Frame], choice: st.DataObject):
    whole = b"".join(map(encode, frames))
    cuts = sorted(choice.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    stream = FrameStream(ReadBuffer(SMALL))
    found = []
    for start, stop in pairwise([0, *cuts, len(whole)]):
        found += feed(stream, whole[start:stop])
    assert found == frames
    assert stream.pending_bytes == 0


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 90_000)), max_size=30))
def test_connections_that_share_a_buffer_do_not_mix(turns: list[tuple[int, int]]):
    shared = ReadBuffer(SMALL)
    sent = [[data(number, 1000 * number) for number in range(1, 40 + index)] for index in range(3)]
    left = [b"".join(map(encode, frames)) for frames in sent]
    streams = [FrameStream(shared) for _ in range(3)]
    found: list[list[Frame]] = [[], [], []]
    for index, size in [*turns, *((index, len(left[index])) for index in range(3))]:
        found[index] += feed(streams[index], left[index][:size])
        left[index] = left[index][size:]
    assert found == sent


@given(st.binary(max_size=2000), st.integers(1, 500))
def test_any_bytes_give_what_the_defining_reader_gives(noise: bytes, step: int):
    def outcome(take: object) -> list[Frame] | str:
        found: list[Frame] = []
        try:
            for at in range(0, len(noise), step):
                found += take(noise[at : at + step])  # type: ignore[operator]
        except WireError as error:
            return str(error)
        return found

    stream, reader = FrameStream(ReadBuffer(SMALL)), FrameReader()
    assert outcome(lambda piece: feed(stream, piece)) == outcome(reader.feed)


def test_a_frame_larger_than_the_buffer_gets_one_of_its_own_for_as_long_as_it_takes():
    stream = FrameStream(ReadBuffer(SMALL))
    large = data(1, 1 << 20)
    assert feed(stream, encode(large) + encode(Ping(1))) == [large, Ping(1)]
    assert len(stream.room()) == SMALL


def test_room_for_a_large_frame_grows_with_what_has_come_not_with_what_was_announced():
    stream = FrameStream(ReadBuffer())
    feed(stream, head(FRAME_BYTES_MAX, 0) + b"x" * 10)
    assert len(stream.room()) <= READ_BYTES


def test_a_length_that_is_none_is_an_error_as_soon_as_it_is_announced():
    with pytest.raises(WireError, match="where the length of a frame should be"):
        feed(FrameStream(ReadBuffer(SMALL)), b"\xff" * FRAME_BYTES_MIN)


@given(frame, st.data())
def test_a_frame_with_a_flipped_bit_is_an_error_or_not_complete(sent: Frame, choice: st.DataObject):
    whole = bytearray(encode(sent))
    whole[choice.draw(st.integers(0, len(whole) - 1))] ^= 1 << choice.draw(st.integers(0, 7))
    with pytest.raises(WireError):
        feed(FrameStream(ReadBuffer(SMALL)), bytes(whole))


@given(st.lists(frame, min_size=1, max_size=4), frame, st.data())
def test_the_frames_before_one_that_was_altered_count(sound: list[Frame], altered: Frame, choice: st.DataObject):
    """Otherwise nothing would ever come over a connection on which some byte of every read is wrong."""
    whole = bytearray(encode(altered))
    whole[choice.draw(st.integers(0, len(whole) - 1))] ^= 1 << choice.draw(st.integers(0, 7))
    data = b"".join(map(encode, sound)) + whole
    stream = FrameStream(ReadBuffer(4 * READ_BYTES))
    stream.room()[: len(data)] = data
    assert stream.advance(len(data)) == sound
    assert isinstance(stream.failure, WireError)


def test_a_frame_in_tiny_pieces_is_not_copied_for_each_of_them():
    """A slow or hostile peer must not stop the loop of everybody else."""
    whole = encode(data(1, 300_000))
    stream = FrameStream(ReadBuffer())
    buffers, found = 0, []
    for at in range(0, len(whole), 16):
        own = stream._own
        found = feed(stream, whole[at : at + 16])
        buffers += stream._own is not own
    assert found == [data(1, 300_000)]
    assert stream.pending_bytes == 0
    # It is copied when its buffer grows, which is twice as large each time.
    assert buffers <= 8
