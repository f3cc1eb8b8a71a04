"""What messages cost beyond themselves, by our wire and by the thesis of LoCaMu (003, section 4.3)."""

import pytest

from holdfast.model.batches import make_batch
from holdfast.model.direct_messages import Barred, Cast, Copied, Passed
from holdfast.model.messages import Data, Publish, SessionMessage
from holdfast.model.metadata import thesis_bytes, wire_bytes
from holdfast.model.wire import encode, header_bytes

BATCH = make_batch("p", 1, "topic", 2, [b"x" * 32])
ONE_ENTRY = Cast(1, 2, 1, ((0, (1, 1)),), BATCH)
TWO_GROUPS = Cast(1, 2, 1, ((0, (1, 1, 2, 5)), ("u", (0, 3))), BATCH)
BARRED = Barred(7, ("a", "b", "c"), (0, 1), ((0, (2, 4)), (1, (2, 4, 0, 9))), BATCH)
PASSED = Passed((("a", 5), ("", 0), ("b", 70)), BATCH)


@pytest.mark.parametrize(
    ("message", "counted"),
    [
        pytest.param(ONE_ENTRY, 12, id="the example of 4.3.3"),
        pytest.param(TWO_GROUPS, 4 + 16 + 4 + 8, id="clocks of two groups"),
        pytest.param(Copied("a", ONE_ENTRY), 12, id="a copy of a cast"),
        pytest.param(BARRED, 2 * 8 + 3 * 8, id="targets and barriers"),
        pytest.param(PASSED, 3 * 8, id="a way with a blank"),
        pytest.param(Publish(BATCH), 0, id="nothing"),
    ],
)
def test_the_thesis_counts_four_bytes_an_identifier_and_four_a_number(message: SessionMessage, counted: int):
    assert thesis_bytes(message) == counted


@pytest.mark.parametrize("message", [ONE_ENTRY, TWO_GROUPS, BARRED, PASSED, Copied("a", ONE_ENTRY), Publish(BATCH)])
def test_the_wire_counts_everything_but_topic_and_payload(message: SessionMessage):
    frame = len(encode(Data(1, message)))
    assert frame - wire_bytes(message) == len("topic") + 32


def test_of_a_plain_publication_both_ways_to_count_agree():
    assert wire_bytes(Publish(BATCH)) == header_bytes(BATCH)


def test_messages_of_one_batch_share_its_header():
    batch = make_batch("p", 1, "topic", 2, [b"x", b"y", b"z"])
    alone = Cast(1, 2, 1, ((0, (1, 1)),), make_batch("p", 1, "topic", 2, [b"x"]))
    together = Cast(1, 2, 1, ((0, (1, 1)),), batch)
    assert wire_bytes(together) <= -(-(wire_bytes(alone) + 5) // 3)
