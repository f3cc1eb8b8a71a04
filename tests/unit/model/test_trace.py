"""Reports become rows, rows become lines, and lines become the same rows again."""

from math import inf, isnan, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict, replace

from holdfast.model.batches import make_batch
from holdfast.model.guarantees import CAUSAL, GUARANTEES, TOTAL
from holdfast.model.messages import Data, Publish
from holdfast.model.trace import Event, Recorder, TraceError, decode_line, encode_line, overhead_bytes
from holdfast.model.wire import encode, header_bytes

DELIVERY = Event("r", "dan", 7, 9, "deliver", "ann", 3, "bank/lisbon", guarantee="causal")

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.integers(0, 2**53)
values = text | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.booleans()
rows = st.builds(
    Event,
    run=text,
    node=text,
    index=numbers,
    time=st.integers(-(2**63), 2**63 - 1),
    event=text,
    publisher=text,
    seq=numbers,
    topic=text,
    where=text,
    attributes=st.dictionaries(text, values, max_size=3),
    guarantee=st.sampled_from(GUARANTEES).map(str),
    keys=st.lists(text, max_size=3),
    size=numbers,
    overhead=numbers,
    past=st.none() | st.dictionaries(text, numbers, max_size=3),
    peer=text,
    detail=text,
)


# ---------------------------------------------------------------------------------------------------------- lines


@given(rows)
def test_every_row_comes_back_from_its_line(row: Event):
    line = encode_line(row)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert decode_line(line, 1) == row


def test_columns_that_are_empty_are_left_out_of_the_line():
    assert encode_line(DELIVERY) == (
        b'{"run":"r","node":"dan","index":7,"time":9,"event":"deliver",'
        b'"publisher":"ann","seq":3,"topic":"bank/lisbon","guarantee":"causal"}\n'
    )


def test_the_columns_are_those_of_the_design():
    assert list(asdict(DELIVERY)) == [
        *("run", "node", "index", "time", "event", "publisher", "seq", "topic", "where", "attributes", "guarantee"),
        *("keys", "size", "overhead", "past", "peer", "detail"),
    ]


def test_an_empty_past_is_not_an_unknown_one():
    assert decode_line(encode_line(replace(DELIVERY, past={})), 1).past == {}
    assert decode_line(encode_line(DELIVERY), 1).past is None


def test_a_number_that_json_cannot_write_comes_back_too():
    attributes = {"a": inf, "b": -inf, "c": nan, "d": 1.5, "e": "nan"}
    line = encode_line(replace(DELIVERY, attributes=attributes))
    back = decode_line(line, 1)
    assert isinstance(back.attributes["c"], float)
    assert isnan(back.attributes["c"])
    assert {**back.attributes, "c": 0} == {**attributes, "c": 0}
    assert replace(back, attributes={}) == DELIVERY
    assert b'"a":{"float":"inf"}' in line


def test_columns_that_nobody_knows_are_passed_over():
    assert decode_line(encode_line(DELIVERY).replace(b'"seq"', b'"shard":"x","seq"'), 1) == DELIVERY


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b"", "line 7: a line of a trace is one JSON object, and this is not: Input data was truncated."),
        (b'{"run":"r","no', "line 7: a line of a trace is one JSON object, and this is not: Input data was truncated."),
        (b"hello", "line 7: a line of a trace is one JSON object, and this is not: JSON is malformed"),
        (b'{"run":"\xff"}', "line 7: a line of a trace is one JSON object, and this is not: "),
        (b"[1, 2]", "line 7: a line of a trace is one JSON object: expected `object`, got `array`."),
        (b"{}", "line 7: column 'run' is missing; every row has run, node, index, time and event."),
        (b'{"run":"r","node":"a","index":0}', "line 7: column 'time' is missing; every row has"),
        (b'{"run":1}', "line 7: column 'run' holds what it cannot: expected `str`, got `int`."),
        (b'{"run":"r","node":"a","index":-1}', "line 7: column 'index' holds what it cannot: expected `int` >= 0."),
        (
            encode_line(replace(DELIVERY, attributes={"a": 1})).replace(b'"a":1', b'"a":[1]'),
            "line 7: column 'attributes' holds what it cannot: expected `bool | int | float | str`, got `array`.",
        ),
        (
            encode_line(replace(DELIVERY, topic="")),
            "line 7: column 'topic' is missing; a row of 'deliver' has node, publisher, seq, topic, guarantee.",
        ),
        (encode_line(replace(DELIVERY, seq=0)), "line 7: column 'seq' is missing; a row of 'deliver' has"),
        (encode_line(replace(DELIVERY, event="publish", publisher="")), "line 7: column 'publisher' is missing;"),
        (
            encode_line(Event("r", "dan", 0, 0, "subscribe")),
            "line 7: column 'topic' is missing; a row of 'subscribe' has node, topic.",
        ),
        (
            encode_line(replace(DELIVERY, guarantee="best")),
            "line 7: column 'guarantee' holds 'best'; it is one of eventual, fifo, causal, total.",
        ),
    ],
)
def test_a_line_that_is_no_row_is_refused_with_its_number_and_column(line: bytes, sentence: str):
    with pytest.raises(TraceError) as caught:
        decode_line(line, 7)
    assert str(caught.value).startswith(sentence)


def test_a_line_of_a_file_is_named_with_the_file():
    with pytest.raises(TraceError, match=r"^runs/ann\.jsonl:12: column 'run' is missing"):
        decode_line(b"{}", 12, "runs/ann.jsonl")


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda part: f'{{"run":{part}}}'.encode("utf-8", "replace")))
def test_no_line_does_anything_but_decode_or_raise_the_one_error(line: bytes):
    try:
        decoded: object = decode_line(line, 1)
    except TraceError as error:
        decoded = error
    assert isinstance(decoded, Event) or str(decoded).startswith("line 1: ")


# -------------------------------------------------------------------------------------------------------- recorder


def test_a_batch_becomes_one_row_a_message():
    batch = make_batch(
        "ann", 5, "bank", TOTAL, [b"one", b"three"], [("red",), ("red", "blue")], [{"amount": 1}, {"amount": 2}]
    )
    common = Event("r", "dan", 0, 8, "deliver", "ann", 0, "bank", guarantee="total", peer="b1", detail="late")
    common = replace(common, overhead=overhead_bytes(batch))
    recorder = Recorder("r", "dan")
    recorder.record(1, "subscribe", pattern="bank", where="amount > 0")
    assert recorder.record(8, "deliver", batch, peer="b1", detail="late") == [
        replace(common, index=1, seq=5, attributes={"amount": 1}, keys=["red"], size=3),
        replace(common, index=2, seq=6, attributes={"amount": 2}, keys=["red", "blue"], size=5),
    ]


def test_what_concerns_no_message_becomes_one_row():
    recorder = Recorder("r", "dan")
    assert recorder.record(1, "subscribe", pattern="bank/#", where="amount > 0") == [
        Event("r", "dan", 0, 1, "subscribe", topic="bank/#", where="amount > 0")
    ]
    assert recorder.record(2, "suspect", peer="b2", detail="silent for 3 s") == [
        Event("r", "dan", 1, 2, "suspect", peer="b2", detail="silent for 3 s")
    ]


def test_a_history_is_numbered_without_gaps_from_where_it_begins():
    recorder = Recorder("r", "ann", index=10)
    batch = make_batch("ann", 1, "bank", CAUSAL, [b""] * 3)
    indexes = [row.index for _ in range(2) for row in recorder.record(0, "publish", batch)]
    assert [*indexes, *(row.index for row in recorder.record(0, "detach"))] == list(range(10, 17))


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=40))
def test_sizes_are_those_of_the_payloads_and_overheads_share_the_header(payloads: list[bytes]):
    batch = make_batch("ann", 1, "bank", CAUSAL, payloads)
    events = Recorder("r", "ann").record(0, "publish", batch)
    assert [event.size for event in events] == [len(payload) for payload in payloads]
    shared = sum(event.overhead for event in events)
    assert header_bytes(batch) <= shared < header_bytes(batch) + len(payloads)


def test_the_overhead_is_what_is_left_of_a_frame_without_topic_payload_keys_and_attributes():
    # Length 3; frame, message and batch each begin with a byte, and two of them name their kind with another: 5; link
    # number 1, name 1 + 3, first 1, guarantee 1; beginnings of topic and payloads: 3.
    bare = make_batch("ann", 1, "t", CAUSAL, [b""])
    assert overhead_bytes(bare) == 3 + 5 + 1 + 4 + 1 + 1 + 3 == len(encode(Data(1, Publish(bare)))) - 1
    full = make_batch("ann", 1, "bank/orders", CAUSAL, [b"x" * 1000], [("PT50-1",)], [{"amount": 120}])
    assert overhead_bytes(full) == overhead_bytes(bare)


def test_a_long_batch_shares_one_header():
    assert overhead_bytes(make_batch("ann", 1, "t", CAUSAL, [b"same"] * 200)) == 1
