"""Key locks at one broker: what waits, behind what, and how it goes on, as exact messages."""

import json

import pytest

from holdfast.model.batches import PAYLOAD_BYTES_MAX, Batch
from holdfast.model.guarantees import EVENTUAL, TOTAL
from holdfast.model.messages import (
    Confirm,
    Goodbye,
    Interests,
    Publish,
    Refusal,
    Subscribe,
    TotalAck,
    TotalMarker,
    TotalProcessed,
    Welcome,
)
from holdfast.protocols.ginger import LockingBroker
from tests.unit.protocols.test_ginger_broker import CREDIT, KEY, Said, Stage, batch, child_stage, publish


class LockStage(Stage):
    def __init__(self, parent: str | None = None) -> None:
        super().__init__(parent, kind=LockingBroker)


def marker(one: Batch) -> TotalMarker:
    return TotalMarker(one.publisher, one.first, one.topic, tuple(one.key_set()))


def closed_stage() -> tuple[Stage, Batch]:
    """A broker that has acknowledged a cut on t/k; c1 is inside it, c2 and the clients are outside."""
    stage = child_stage("c1", "c2", kind=LockingBroker).attach("alice", "bob")
    stage.says("parent", Subscribe(1, "t", ""))
    stage.want("t", "c1", "bob").want("u", "c2", "bob")
    total = batch("zoe", 5, TOTAL, keys=KEY)
    assert stage.says("parent", marker(total)) == [("c1", marker(total))]
    assert stage.says("c1", TotalAck("zoe", 5)) == [("parent", TotalAck("zoe", 5))]
    return stage, total


def test_what_a_publisher_sends_behind_its_total_batch_waits_until_that_is_released():
    stage = LockStage().join("c1", "c2").attach("alice").want("t", "c1", "c2")
    total = batch("alice", 1, TOTAL, keys=KEY)
    assert stage.says("alice", Publish(total)) == [("c1", marker(total)), ("c2", marker(total))]
    later = publish("alice", 2, EVENTUAL, "other")
    question = Confirm(3, "t", "alice", 1)
    assert stage.says("alice", later) == []
    assert stage.says("alice", question) == []
    assert stage.broker.waiting_for()[-2:] == [
        "a cut to end, for 2 messages from alice",
        "the release of alice's total batch #1",
    ]
    stage.says("c1", TotalAck("alice", 1))
    said = stage.says("c2", TotalAck("alice", 1))
    assert said == [
        ("c1", TotalProcessed("alice", 1, total)),
        ("c2", TotalProcessed("alice", 1, total)),
        ("c1", Confirm(1, "t", "alice", 1)),
        ("c2", Confirm(1, "t", "alice", 1)),
    ]


def test_a_subscription_does_not_wait_for_a_total_batch_unless_something_waits_before_it():
    stage = LockStage().join("c1", "c2").attach("alice").want("t", "c1", "c2")
    stage.says("alice", publish("alice", 1, TOTAL, keys=KEY))
    assert [message for _, message in stage.says("alice", Subscribe(2, "u", ""))] == [
        Subscribe(3, "u", ""),
        Subscribe(4, "u", ""),
    ]
    stage.says("alice", publish("alice", 2))
    assert stage.says("alice", Subscribe(3, "v", "")) == []


def test_total_batches_that_waited_for_one_of_their_publisher_go_on_as_one():
    stage = LockStage().join("c1", "c2").attach("alice").want("t", "c1", "c2")
    for first in (1, 2, 3):
        stage.says("alice", publish("alice", first, TOTAL, keys=(f"k{first}",)))
    stage.says("c1", TotalAck("alice", 1))
    said = stage.says("c2", TotalAck("alice", 1))
    assert said[-2:] == [
        ("c1", TotalMarker("alice", 2, "t", ("k2", "k3"))),
        ("c2", TotalMarker("alice", 2, "t", ("k2", "k3"))),
    ]


def test_total_batches_go_on_as_one_only_as_long_as_it_is_small():
    stage = LockStage().join("c1", "c2").attach("alice").want("t", "c1", "c2")
    for first in range(1, 6):
        keys = tuple(f"{first}-{number}".ljust(256) for number in range(64))
        stage.says("alice", publish("alice", first, TOTAL, keys=keys))
    stage.says("c1", TotalAck("alice", 1))
    said = stage.says("c2", TotalAck("alice", 1))
    assert [len(message.keys) for _, message in said if isinstance(message, TotalMarker)] == [3 * 64] * 2


def test_what_enters_at_a_closed_cut_waits_and_follows_the_total_batch():
    stage, total = closed_stage()
    message = publish("alice", 1, keys=KEY)
    assert stage.says("alice", message) == []
    assert stage.says("parent", TotalProcessed("zoe", 5, total)) == [
        ("bob", Publish(total)),
        ("c1", TotalProcessed("zoe", 5, total)),
        ("bob", message),
        ("c1", message),
        ("parent", message),
    ]


def test_other_keys_other_topics_and_messages_without_keys_pass_a_closed_cut():
    stage, _ = closed_stage()
    for first, message in enumerate(
        (publish("alice", 1, keys=("other",)), publish("alice", 2), publish("alice", 3, topic="u", keys=KEY)), 1
    ):
        assert stage.says("alice", message) != [], first


def test_behind_what_waits_every_publication_of_the_same_peer_waits():
    stage, total = closed_stage()
    held = publish("xan", 1, keys=KEY)
    behind = publish("xan", 2, topic="u")
    assert stage.says("c2", held) == []
    assert stage.says("c2", behind) == []
    # Nobody else waits.
    assert stage.says("alice", publish("alice", 1, topic="u")) != []
    said = stage.says("parent", TotalProcessed("zoe", 5, total))
    assert [message for peer, message in said if peer == "bob"] == [Publish(total), held, behind]


def test_what_waits_takes_up_its_peers_window():
    stage, total = closed_stage()
    stage.says("alice", publish("alice", 1, keys=KEY))
    link = stage.broker.hub.links["alice"]
    assert link.consumed_bytes < link.received_bytes
    stage.says("parent", TotalProcessed("zoe", 5, total))
    assert link.consumed_bytes == link.received_bytes


def test_a_literal_lock_holds_what_comes_from_inside_too():
    stage = LockStage("parent")
    stage._enter(stage.broker.peer_up("parent", 0.0))
    stage._enter(stage.broker.receive("parent", Welcome("parent", 0, CREDIT, 0, "ginger", (), PAYLOAD_BYTES_MAX), 0.0))
    stage.says("parent", Interests((("t", ""),), True))
    stage.join("c1").attach("bob").want("t", "c1", "bob")
    stage.says("parent", marker(batch("zoe", 5, TOTAL, keys=KEY)))
    assert stage.says("parent", publish("zoe", 4, keys=KEY)) == []
    assert stage.broker.protocol == "ginger-locks"


def under_way_stage() -> tuple[Stage, Batch]:
    """alice's total batch is under way; her second publication and a subscription wait behind it."""
    stage = LockStage().join("c1", "c2").attach("alice").want("t", "c1", "c2")
    total = batch("alice", 1, TOTAL, keys=KEY)
    stage.says("alice", Publish(total))
    stage.says("alice", publish("alice", 2))
    stage.says("alice", Subscribe(7, "u", ""))
    return stage, total


def release(stage: Stage, total: Batch) -> list[Said]:
    stage.says("c1", TotalAck(total.publisher, total.first))
    return stage.says("c2", TotalAck(total.publisher, total.first))


def test_what_a_closed_session_published_goes_out_when_it_can_and_what_it_asked_for_is_void():
    stage, total = under_way_stage()
    stage._enter(stage.broker.receive("alice", Goodbye("the client closed"), 0.0))
    said = release(stage, total)
    assert said[-2:] == [("c1", publish("alice", 2)), ("c2", publish("alice", 2))]
    assert stage.broker.interests.table.interests("alice") == []
    assert stage.broker.waiting_for() == []


def test_a_new_session_goes_on_after_numbers_that_still_wait_and_behind_them():
    stage, total = under_way_stage()
    stage.lose("alice")
    welcome = stage.hello("alice", "client", session=2)
    assert isinstance(welcome, Welcome)
    assert welcome.published == 2
    assert stage.says("alice", publish("alice", 3)) == []
    said = release(stage, total)
    assert [message for peer, message in said if peer == "c1"][1:] == [publish("alice", 2), publish("alice", 3)]
    link = stage.broker.hub.links["alice"]
    assert link.consumed_bytes == link.received_bytes


def test_the_interests_of_a_child_that_leaves_are_taken_back_and_nobody_waits_for_it():
    stage = LockStage().join("c1", "c2", "c3").attach("alice").want("t", "c1", "c2", "alice")
    total = batch("alice", 1, TOTAL, keys=KEY)
    stage.says("alice", Publish(total))
    stage.says("c2", TotalAck("alice", 1))
    said = stage._enter(stage.broker.receive("c1", Goodbye("leaving"), 0.0))
    assert ("alice", Publish(total)) in said
    assert stage.broker.waiting_for() == []
    assert stage.broker.status()["children"] == ["c2", "c3"]


def test_what_a_child_that_has_left_had_published_is_passed_on_when_it_can():
    stage, total = closed_stage()
    message = publish("xan", 1, keys=KEY)
    stage.says("c2", message)
    stage._enter(stage.broker.receive("c2", Goodbye("leaving"), 0.0))
    assert ("bob", message) in stage.says("parent", TotalProcessed("zoe", 5, total))


def test_a_broker_that_leaves_finishes_what_is_under_way_and_admits_nobody():
    stage, total = under_way_stage()
    stage.stop()
    refusal = stage.hello("bob", "client")
    assert isinstance(refusal, Refusal)
    assert refusal.code == "not-ready"
    assert ("c1", TotalProcessed("alice", 1, total)) in release(stage, total)


def test_a_status_is_plain_data_and_says_who_is_there():
    stage, _ = closed_stage()
    stage.says("alice", publish("alice", 1, keys=KEY))
    status = stage.broker.status()
    assert json.loads(json.dumps(status)) == status
    assert (status["children"], status["clients"], status["cuts"], status["held"]) == (
        ["c1", "c2"],
        ["alice", "bob"],
        1,
        1,
    )


def test_invariants_notice_a_lane_that_waits_for_nothing():
    stage, _ = closed_stage()
    stage.says("alice", publish("alice", 1, keys=KEY))
    broker = stage.broker
    assert isinstance(broker, LockingBroker)
    broker.cuts._cuts.clear()
    broker.cuts._by_key.clear()
    with pytest.raises(AssertionError, match="messages wait, but for no cut"):
        stage.broker.check_invariants()
