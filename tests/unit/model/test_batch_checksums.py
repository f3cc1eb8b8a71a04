"""A batch's checksum covers everything that it says, and whoever makes other batches of it looks first."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import msgpack
from msgspec.structs import force_setattr, replace

from holdfast.model.batches import AlteredBatch, Batch, make_batch, merged
from holdfast.model.checksums import crc32
from holdfast.model.direct_messages import Copied
from holdfast.model.filters import parse_filter
from holdfast.model.messages import Data, Frame, Publish, TotalRequest
from holdfast.model.wire import (
    CARRIERS,
    MARKS,
    FrameReader,
    WireError,
    carried,
    check_form,
    encode,
    head,
    publication,
)
from tests.unit.model.drawn import SESSION_KINDS, batches, frames

SOME = parse_filter("n > 0")
OTHERS = {
    "publisher": "bob",
    "first": 8,
    "topic": "bank/porto",
    "guarantee": 3,
    "payloads": b"abcdeF",
    "keys": (("k",),),
    "attributes": ({"n": 2},),
    "count": 3,
    "lengths": b"",
    "crossed": True,
}


def batch() -> Batch:
    made = make_batch("alice", 7, "bank/lisbon", 2, [b"ab", b"cdef"], [(), ("k",)], [{"n": 1}, {"n": 0}])
    made.seal()
    return made


def altered(made: Batch, **said: object) -> Batch:
    """The same object in memory, which says something else than when it got its checksum."""
    for name, value in said.items():
        force_setattr(made, name, value)
    return made


@pytest.mark.parametrize("field", OTHERS)
def test_the_checksum_covers_every_field(field: str):
    assert field in Batch.__struct_fields__
    assert set(OTHERS) == set(Batch.__struct_fields__) - {"checksum"}
    assert replace(batch(), **{field: OTHERS[field]}).computed_checksum() != batch().computed_checksum()


def test_moving_bytes_from_one_field_to_its_neighbour_changes_the_checksum():
    one, other = make_batch("ab", 1, "c", 0, [b"x"]), make_batch("a", 1, "bc", 0, [b"x"])
    assert one.computed_checksum() != other.computed_checksum()


@given(batches)
def test_what_comes_from_the_wire_has_the_checksum_that_its_publisher_gave_it(made: Batch):
    checksum = made.seal()
    [frame] = FrameReader().feed(encode(Data(1, Publish(made))))
    assert isinstance(frame, Data)
    assert isinstance(frame.message, Publish)
    assert frame.message.batch.checksum == checksum


@given(frames)
def test_the_batch_of_any_frame_that_came_has_its_checksum(frame: Frame):
    [found] = FrameReader().feed(encode(frame))
    within = carried(found.message) if isinstance(found, Data) else None
    assert within is None or within.checksum == within.computed_checksum()


def test_no_message_that_has_a_batch_is_forgotten():
    """Its frame would be covered, and the batch would not carry its publisher's checksum."""
    having = {kind for kind in SESSION_KINDS if "batch" in kind.__struct_fields__}  # type: ignore[attr-defined]
    assert having == CARRIERS
    assert Copied in SESSION_KINDS


def test_batches_that_say_the_same_are_equal_with_and_without_a_checksum():
    plain = make_batch("alice", 7, "t", 0, [b"x"])
    sealed = make_batch("alice", 7, "t", 0, [b"x"])
    sealed.seal()
    assert plain == sealed
    assert hash(plain) == hash(sealed)
    assert plain != replace(plain, payloads=b"y")


@pytest.mark.parametrize("wrap", [Publish, TotalRequest])
@given(batches, st.sampled_from(["publisher", "topic", "payloads"]))
def test_what_was_altered_in_the_memory_of_a_sender_is_not_taken_by_the_receiver(
    wrap: Callable[[Batch], Publish | TotalRequest], made: Batch, field: str
):
    made.seal()
    altered(made, **{field: getattr(made, field) + (b"!" if field == "payloads" else "!")})
    with pytest.raises(WireError):
        FrameReader().feed(encode(Data(1, wrap(made))))


@pytest.mark.parametrize("wrap", [Publish, TotalRequest])
def test_a_checksum_that_the_peer_says_inside_of_a_batch_counts_for_nothing(
    wrap: Callable[[Batch], Publish | TotalRequest],
):
    """A decoder would take a tenth field for it; nobody of ours sends one."""
    forged = replace(batch(), checksum=12345)
    body = msgpack.encode(Data(1, wrap(forged)))
    [frame] = FrameReader().feed(head(len(body), crc32(body, batch().computed_checksum())) + body)
    assert isinstance(frame, Data)
    assert isinstance(frame.message, Publish | TotalRequest)
    assert frame.message.batch.checksum == batch().computed_checksum()


@pytest.mark.parametrize("payload", [b"x", b"x" * 10_000])
def test_a_batch_in_other_bytes_than_ours_is_known(payload: bytes):
    made = make_batch("alice", 300, "t", 0, [payload], [("k",)])
    ours = b"".join(made.pieces())
    check_form(publication(1, memoryview(ours), crc32(ours) ^ MARKS[1]), memoryview(ours))
    # The number as a signed one of 16 bits, which has as many bytes; and the keys as a long array.
    for said in (ours.replace(b"\xcd\x01\x2c", b"\xd1\x01\x2c"), ours.replace(b"\x91\xa1k", b"\xdc\x00\x01\xa1k")):
        assert said != ours
        frame = publication(1, memoryview(said), crc32(said) ^ MARKS[1])
        assert frame == Data(1, Publish(made))
        with pytest.raises(WireError, match="other bytes than the shortest"):
            check_form(frame, memoryview(said))


@given(batches)
def test_the_pieces_of_a_batch_are_its_bytes(made: Batch):
    assert b"".join(made.pieces()) == msgpack.encode(made.said())
    assert msgpack.decode(b"".join(made.pieces()), type=Batch) == made


# ------------------------------------------------------------------------------------------ parts, and one of several


def test_parts_have_checksums_of_their_own():
    parts = [batch().part(7, 7), *batch().matching((SOME,))]
    assert [one.checksum for one in parts] == [one.computed_checksum() for one in parts]
    assert [one.messages() for one in parts] == [batch().messages()[:1]] * 2


def test_several_batches_as_one_have_a_checksum_of_their_own():
    whole = merged([batch().part(7, 7), batch().part(8, 8)])
    assert whole == batch()
    assert whole.checksum == batch().checksum


@pytest.mark.parametrize(
    "use",
    [
        lambda made: made.part(7, 7),
        lambda made: made.matching((SOME,)),
        lambda made: merged([made, make_batch("alice", 9, "bank/lisbon", 2, [b"g"])]),
    ],
    ids=["part", "matching", "merged"],
)
def test_no_part_is_made_of_a_batch_that_was_altered_in_memory(use: Callable[[Batch], object]):
    with pytest.raises(AlteredBatch, match="batch alice#7 was altered in the memory of this process"):
        use(altered(batch(), payloads=b"abcdeF"))


def test_a_batch_that_never_left_its_maker_needs_no_checksum():
    made = make_batch("alice", 7, "t", 0, [b"a", b"b"])
    made.verify()
    assert made.part(7, 7).checksum is None
