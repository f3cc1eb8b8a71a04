"""A stream of bytes in which some flip: what the receiver has of it, and what a checker says of what was delivered."""

from random import Random

import pytest

from holdfast.model import wire
from holdfast.model.batches import Batch, make_batch
from holdfast.model.messages import Data, Frame, Ping, Publish
from holdfast.protocols.node import Report
from holdfast.simulation.checkers.contents import alterations
from holdfast.simulation.flips import Flips

FRAMES: list[Frame] = [Ping(1), Data(1, Publish(make_batch("p", 1, "t", 2, [b"payload"]))), Ping(2)]


def one_altered(seed: int) -> list[Frame] | None:
    return Flips(Random(seed)).passed(FRAMES[1], share=1.0)


def test_a_share_of_nothing_alters_nothing():
    flips = Flips(Random(1))
    assert [flips.passed(frame, 0.0) for frame in FRAMES] == [[frame] for frame in FRAMES]
    assert flips.pending_bytes == 0


def test_what_was_altered_is_never_a_frame():
    # An even number of flips of one bit is none.
    assert {str(found) for found in map(one_altered, range(500)) if found != [FRAMES[1]]} <= {"None", "[]"}
    assert sum(found is None for found in map(one_altered, range(500))) > 450


def test_a_reader_that_does_not_look_at_checksums_takes_other_messages(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(wire, "_refuse_altered", lambda size: None)  # noqa: ARG005
    taken = [found for found in map(one_altered, range(500)) if found not in (None, [], [FRAMES[1]])]
    assert len(taken) > 100


def test_a_frame_that_became_longer_swallows_what_follows():
    data = bytearray(wire.encode(FRAMES[1]))
    # Two flips that leave the length as it is modulo 3: 3 more.
    size = data[2]
    data[2] = size + 3
    reader = wire.FrameReader()
    assert reader.feed(data) == []
    assert reader.pending_bytes == len(data)
    with pytest.raises(wire.WireError):
        reader.feed(wire.encode(FRAMES[2]))


# ------------------------------------------------------------------------------------------------------- the checker


def told(*deliveries: Batch) -> list[tuple[float, str, Report]]:
    sent = make_batch("p", 1, "t", 2, [b"a", b"b"], [("k",)] * 2, [{"n": 1}] * 2)
    rows = [(0.0, "p", Report("publish", sent)), (0.0, "0", Report("suspect", peer="1"))]
    return [*rows, *((1.0, "c", Report("deliver", batch)) for batch in deliveries)]


def test_what_came_as_it_was_published_is_no_alteration():
    whole = make_batch("p", 1, "t", 2, [b"a", b"b"], [("k",)] * 2, [{"n": 1}] * 2)
    assert alterations(told(whole)) == alterations(told(whole.part(1, 1), whole.part(2, 2))) == []


@pytest.mark.parametrize(
    ("came", "sentence"),
    [
        (make_batch("p", 2, "t", 2, [b"B"], [("k",)], [{"n": 1}]), "another payload: payload b'B' instead of b'b'"),
        (make_batch("p", 1, "t", 2, [b"a"], [("k",)], [{"n": True}]), "another attributes"),
        (make_batch("p", 1, "u", 2, [b"a"], [("K",)], [{"n": 1}]), "another topic and keys"),
        (make_batch("p", 1, "t", 3, [b"a"], [("k",)], [{"n": 1}]), "another guarantee"),
        (make_batch("q", 1, "t", 2, [b"a"], [("k",)], [{"n": 1}]), "c was given q#1, which nobody published"),
    ],
    ids=["payload", "attributes", "topic and keys", "guarantee", "publisher"],
)
def test_what_came_otherwise_is_told(came: Batch, sentence: str):
    [found] = alterations(told(came))
    assert sentence in found
