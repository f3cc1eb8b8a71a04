"""Control events that nobody may take at their word: each ended a repository or a subscriber."""

import pytest

from holdfast.model.batches import make_batch
from holdfast.model.reliable import Entry
from holdfast.protocols.narada.event_checks import is_sensible
from holdfast.protocols.narada.events import (
    GIVEN_UP,
    ControlEvent,
    Gossip,
    Order,
    Persistent,
    Refetch,
    Resent,
    Retransmit,
    Row,
    Run,
    SubscriberAck,
    catenation,
    encode,
)
from holdfast.protocols.narada.participant import Effects, control_events
from holdfast.protocols.node import Report

BATCH = make_batch("alice", 1, "orders", 1, [b"a", b"b"])
CAT = catenation(3, 5)
ROW = Row(1, 2, "alice", CAT)


def gossip(*rows: Row, **more: object) -> Gossip:
    return Gossip("orders", "r1", 1, 9, True, (), 0, rows, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "event",
    [
        gossip(ROW, Row(3, 1, "", 0, 2), forgotten=(("alice", CAT),)),
        SubscriberAck("orders", "bob", "r1", 1, ((1, 1), (3, 9)), lacks=(("alice", CAT, CAT),)),
        Order("orders", "alice", 3, "r1", (), 1, 2, (Run(1, 1, 2, 7),)),
        Retransmit("orders", "alice", 3, "r1", (), 5, BATCH),
        Resent("orders", "r1", 1, (Entry(4, CAT, BATCH, 0),)),
        Refetch("orders", "r1", "r2", "alice", CAT, 2),
    ],
    ids=lambda event: type(event).__name__,
)
def test_what_can_be_is_heard(event: ControlEvent):
    assert is_sensible(event)


@pytest.mark.parametrize(
    "event",
    [
        gossip(Row(0, 2, "alice", CAT)),
        gossip(Row(1, 0, "alice", CAT)),
        gossip(Row(1, (1 << 63) - 1, "alice", CAT)),
        gossip(Row(1, 2, "alice", 0)),
        gossip(Row(1, 2, "", 0, GIVEN_UP)),
        gossip(Row(1, 2, "alice", catenation(3, (1 << 32) - 1))),
        gossip(forgotten=(("alice", catenation(3, 0)),)),
        Persistent("orders", "r1", 1, 9, (Row(0, 1, "alice", CAT),)),
        SubscriberAck("orders", "bob", "r1", 1, ((7, 4),)),
        SubscriberAck("orders", "bob", "r1", 1, ((0, 4),)),
        SubscriberAck("orders", "bob", "r1", 1, (), out=(("alice", CAT, CAT - 1, 1),)),
        Order("orders", "alice", 3, "r1", (), 1, 2, (Run(0, 1, 2, 7),)),
        Order("orders", "alice", 3, "r1", (), 1, 2, (Run(1, 1, 0, 7),)),
        Retransmit("orders", "mallory", 3, "r1", (), 5, BATCH),
        Retransmit("orders", "alice", 3, "r1", (), 0, BATCH),
        Resent("orders", "r1", 1, (Entry(4, catenation(3, 0), BATCH, 0),)),
        Refetch("orders", "r1", "r2", "alice", CAT, 0),
    ],
    ids=lambda event: type(event).__name__,
)
def test_what_cannot_be_is_nonsense_and_reported_as_such(event: ControlEvent):
    effects: Effects = []
    said = make_batch("mallory", 1, "~narada/orders/bundle", 0, [encode(event)])
    assert list(control_events(said, effects)) == []
    assert effects == [Report("nonsense", detail="on ~narada/orders/bundle from mallory")]
