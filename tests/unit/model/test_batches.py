"""Batches against a naive model: a list of messages, each with its own payload, keys and attributes."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model import batches
from holdfast.model.batches import (
    BATCH_COST_BYTES_MAX,
    BATCH_COUNT_MAX,
    PAYLOAD_BYTES_MAX,
    SEQ_MAX,
    Attributes,
    Batch,
    BatchError,
    Message,
    make_batch,
    merged,
    pack_lengths,
    unpack_lengths,
)
from holdfast.model.filters import parse_filter
from holdfast.model.guarantees import GUARANTEES
from holdfast.model.messages import Data, Publish, TotalProcessed
from holdfast.model.wire import FrameReader, encode
from tests.unit.model.drawn import Told, batch_of, names, told, topics

FILTERS = [parse_filter(text) for text in ("n > 0", "n = 1", "not exists n", "m = 'a' or n < 1")]
firsts = st.integers(1, 1000)


def naive(told: list[Told], first: int, topic: str, publisher: str, guarantee: int) -> list[Message]:
    return [
        Message(topic, payload, publisher, first + index, GUARANTEES[guarantee], keys, attributes)
        for index, (payload, keys, attributes) in enumerate(told)
    ]


def same(found: list[Message], wanted: list[Message]) -> bool:
    """Equal, and alike: 1, 1.0 and True are equal and a filter tells them apart."""
    kinds = [
        [{name: type(value) for name, value in one.attributes.items()} for one in some] for some in (found, wanted)
    ]
    return found == wanted and kinds[0] == kinds[1]


# ------------------------------------------------------------------------------------------------ the naive model


@given(told, names, firsts, topics, st.integers(0, 3))
def test_a_batch_holds_the_messages_that_it_was_made_of(
    told: list[Told], publisher: str, first: int, topic: str, guarantee: int
):
    batch = batch_of(told, publisher, first, topic, guarantee)
    batch.check()
    assert (batch.first, batch.last, batch.count) == (first, first + len(told) - 1, len(told))
    assert batch.payload_list() == [payload for payload, _, _ in told]
    assert same(batch.messages(), naive(told, first, topic, publisher, guarantee))


@given(told, firsts, st.data())
def test_a_part_holds_the_messages_of_its_numbers(told: list[Told], first: int, choice: st.DataObject):
    start = choice.draw(st.integers(0, len(told) - 1))
    stop = choice.draw(st.integers(start, len(told) - 1))
    batch = batch_of(told, first=first)
    part = batch.part(first + start, first + stop)
    part.check()
    assert same(part.messages(), batch.messages()[start : stop + 1])


@given(told, firsts)
def test_the_whole_as_a_part_is_the_batch_itself(told: list[Told], first: int):
    batch = batch_of(told, first=first)
    assert batch.part(batch.first, batch.last) is batch


@given(told, st.lists(st.integers(1, 5), min_size=1), firsts)
def test_batches_that_were_cut_merge_into_what_they_were(told: list[Told], steps: list[int], first: int):
    batch = batch_of(told, first=first)
    parts, at = [], first
    for step in steps * len(told):
        if at <= batch.last:
            parts.append(batch.part(at, min(at + step - 1, batch.last)))
            at += step
    whole = merged(parts)
    whole.check()
    assert same(whole.messages(), batch.messages())


@given(told, st.lists(st.sampled_from(FILTERS), max_size=3).map(tuple))
def test_what_gets_through_filters_is_what_each_message_would(told: list[Told], filters):
    batch = batch_of(told)
    wanted = [one for one in batch.messages() if any(each.matches(one.attributes) for each in filters)]
    parts = batch.matching(filters)
    assert same([one for part in parts for one in part.messages()], wanted)
    assert batch.wanted_by(filters) is bool(wanted)
    # As few batches as possible: two of them never touch.
    assert all(before.last + 1 < after.first for before, after in pairwise(parts))


@given(told)
def test_without_a_filter_everything_gets_through_as_it_is(told: list[Told]):
    batch = batch_of(told)
    assert batch.matching(None)[0] is batch
    assert batch.wanted_by(None)


@given(told)
def test_the_keys_of_a_batch_are_those_of_its_messages_in_order_of_appearance(told: list[Told]):
    assert list(batch_of(told).key_set()) == list(dict.fromkeys(key for _, keys, _ in told for key in keys))


@given(st.lists(st.integers(0, (1 << 32) - 1)))
def test_lengths_are_little_endian_whatever_the_machine(sizes: list[int]):
    packed = pack_lengths(sizes)
    assert list(unpack_lengths(packed)) == sizes
    assert packed == b"".join(size.to_bytes(4, "little") for size in sizes)


# ---------------------------------------------------------------------------------------------------------- columns


def test_equal_payload_sizes_need_no_column_of_lengths():
    assert make_batch("p", 1, "t", 0, [b"ab", b"cd"]).lengths == b""
    assert make_batch("p", 1, "t", 0, [b"ab", b"c"]).lengths == pack_lengths([2, 1])


def test_equal_keys_and_attributes_are_told_once_and_empty_ones_not_at_all():
    batch = make_batch("p", 1, "t", 0, [b""] * 3, [("k",)] * 3, [{"n": 1}] * 3)
    assert (batch.keys, batch.attributes) == ((("k",),), ({"n": 1},))
    batch = make_batch("p", 1, "t", 0, [b""] * 3, [()] * 3, [{}] * 3)
    assert (batch.keys, batch.attributes) == ((), ())


def test_one_and_true_are_equal_but_a_filter_tells_them_apart():
    batch = make_batch("p", 1, "t", 0, [b"", b""], attributes=[{"n": 1}, {"n": True}])
    [part] = batch.matching((parse_filter("n = 1"),))
    assert (part.first, part.last) == (1, 1)


# ------------------------------------------------------------------------------------------ what does not fit together


@pytest.mark.parametrize(
    ("batch", "sentence"),
    [
        (Batch("p", 1, "t", 0, b"abc", count=2), "2 equal messages in 3 payload bytes"),
        (Batch("p", 1, "t", 0, b"abc", count=2, lengths=b"\1\0\0\0"), "2 messages but 4 bytes of lengths"),
        (Batch("p", 1, "t", 0, b"abc", count=2, lengths=pack_lengths([1, 1])), "do not add up to its 3 payload bytes"),
        (
            Batch("p", 1, "t", 0, b"abc", count=2, lengths=pack_lengths([1, (1 << 32) - 1])),
            "do not add up to its 3 payload bytes",
        ),
        (Batch("p", 1, "t", 0, b"abc", count=3, keys=((), ())), "3 messages but 2 entries of keys"),
        (Batch("p", 1, "t", 0, b"ab", count=2, attributes=({}, {}, {})), "2 messages but 3 entries of attributes"),
        (Batch("p", SEQ_MAX, "t", 0, b"ab", count=2), f"numbers its messages past {SEQ_MAX}"),
        (Batch("p", 1, "t", 0, bytes(PAYLOAD_BYTES_MAX + 1)), f"at most {PAYLOAD_BYTES_MAX} are allowed"),
        (
            Batch(
                "p", 1, "t", 0, bytes(PAYLOAD_BYTES_MAX + 1), count=2, lengths=pack_lengths([0, PAYLOAD_BYTES_MAX + 1])
            ),
            f"has a payload of {PAYLOAD_BYTES_MAX + 1} bytes",
        ),
    ],
)
def test_columns_that_do_not_fit_together_are_refused_with_a_sentence(batch: Batch, sentence: str):
    with pytest.raises(BatchError, match=sentence) as refusal:
        batch.check()
    assert f"batch p#{batch.first}" in str(refusal.value)


def test_the_largest_batches_are_legal():
    Batch("p", 1, "t", 0, bytes(PAYLOAD_BYTES_MAX)).check()
    Batch("p", SEQ_MAX - 1, "t", 0, b"", count=2).check()
    Batch("p", 1, "t", 0, b"", count=BATCH_COUNT_MAX).check()


@given(told)
def test_the_cost_of_a_batch_is_about_its_size_on_the_wire(told: list[Told]):
    batch = batch_of(told)
    size = len(encode(Data(1, Publish(batch))))
    assert abs(batch.cost_bytes - size) < 64 + 2 * len(batch.topic.encode()) + len(batch.publisher.encode())


@given(told)
def test_both_ends_of_a_link_compute_the_same_cost(told: list[Told]):
    batch = batch_of(told)
    [frame] = FrameReader().feed(encode(Data(1, Publish(batch))))
    assert isinstance(frame, Data)
    assert isinstance(frame.message, Publish)
    assert frame.message.batch.cost_bytes == batch.cost_bytes


def test_a_batch_that_is_legal_fits_into_a_frame_whatever_it_is_wrapped_in():
    text: Attributes = {"text": "語" * ((BATCH_COST_BYTES_MAX - 1000) // 3)}
    name, topic = "語" * 128, "語" * 300
    batch = make_batch(name, SEQ_MAX, topic, 3, [b""], [("k",)], [text])
    batch.check()
    encode(Data(1, TotalProcessed(name, SEQ_MAX, batch)))
    heavier = make_batch(name, SEQ_MAX, topic, 3, [bytes(2000)], [("k",)], [text])
    with pytest.raises(BatchError, match=f"at most {BATCH_COST_BYTES_MAX} are allowed"):
        heavier.check()


def test_batches_that_are_weighed_in_turn_weigh_what_each_holds(monkeypatch: pytest.MonkeyPatch):
    one = make_batch("alice", 1, "t", 3, [b"x", b"y"], [("a",), ("bb",)])
    other = make_batch("alice", 3, "t", 3, [b"x", b"y"], [("a" * 50,), ("b" * 50,)])
    assert [batch.cost_bytes for batch in (one, other, one)] == [one.cost_bytes, one.cost_bytes + 99, one.cost_bytes]
    encoded: list[object] = []

    def encode_texts(said: object) -> bytes:
        encoded.append(said)
        return b""

    monkeypatch.setattr(batches, "_encode", encode_texts)
    for _ in range(20):
        assert other.cost_bytes
    assert len(encoded) == 1


def test_large_batches_that_are_sent_in_turn_come_as_they_are():
    sent = [make_batch(name, 1, "t", 3, [name.encode() * 9000, b"y"], [("k",), (name,)]) for name in ("alice", "bob")]
    for batch in (*sent, *sent):
        [frame] = FrameReader().feed(encode(Data(1, Publish(batch))))
        assert isinstance(frame, Data)
        assert isinstance(frame.message, Publish)
        assert frame.message.batch == batch
