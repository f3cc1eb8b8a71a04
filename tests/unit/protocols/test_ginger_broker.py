"""One broker of the tree: whom it admits, what it passes on, what waits in its lanes, and how it leaves."""

import json

import pytest

from holdfast.model.batches import PAYLOAD_BYTES_MAX, Batch, make_batch
from holdfast.model.guarantees import CAUSAL, EVENTUAL, FIFO, TOTAL
from holdfast.model.messages import (
    WIRE_VERSION,
    Ack,
    Climb,
    Confirm,
    ConfirmAck,
    Data,
    Goodbye,
    Hello,
    Interests,
    Kind,
    Publish,
    Refusal,
    Rejected,
    SessionMessage,
    Subscribe,
    SubscribeAck,
    TotalAck,
    TotalMarker,
    TotalRequest,
    Turned,
    Unsubscribe,
    UnsubscribeAck,
    Welcome,
)
from holdfast.protocols.config import BrokerConfig, LinkConfig
from holdfast.protocols.ginger import GingerBroker
from holdfast.protocols.ginger.brake import CLIMBING_BYTES_MAX
from holdfast.protocols.ginger.locks import LockingBroker
from holdfast.protocols.hub import BEAT_TIMER
from holdfast.protocols.links import LinkState
from holdfast.protocols.node import Connect, Disconnect, Effects, Report, Send, SetTimer

CREDIT = 1 << 30
KEY = ("k",)
Said = tuple[str, SessionMessage]


class Stage:
    """A broker between scripted peers. What it says to them comes back as (peer, message), in order."""

    def __init__(
        self, parent: str | None = None, config: BrokerConfig | None = None, kind: type[GingerBroker] = GingerBroker
    ) -> None:
        self.broker = kind(config or BrokerConfig("b0", parent), 7)
        self.now = 0.0
        self.frames: list[tuple[str, object]] = []
        self.reports: list[Report] = []
        self.ended: list[str] = []
        self._sent: dict[str, int] = {}
        self._enter(self.broker.start(0.0))

    def _enter(self, effects: Effects) -> list[Said]:
        said: list[Said] = []
        for effect in effects:
            if isinstance(effect, Send):
                self.frames.append((effect.peer, effect.frame))
                if isinstance(effect.frame, Data):
                    said.append((effect.peer, effect.frame.message))
            elif isinstance(effect, Report):
                self.reports.append(effect)
            elif isinstance(effect, Disconnect):
                self.ended.append(effect.peer)
        self.broker.check_invariants()
        return said

    def hello(self, peer: str, kind: Kind, session: int = 1, resume: bool = False, received: int = 0) -> object:
        """Say hello as that peer; what it is answered."""
        self.frames.clear()
        frame = Hello(WIRE_VERSION, peer, kind, "holdfast", session, resume, received, CREDIT)
        said = self._enter(self.broker.receive(peer, frame, self.now))
        if not resume:
            self._sent[peer] = 0
        self.told = said
        return self.frames[0][1]

    def join(self, *children: str) -> "Stage":
        for child in children:
            assert isinstance(self.hello(child, "broker"), Welcome)
        return self

    def attach(self, *clients: str) -> "Stage":
        for client in clients:
            assert isinstance(self.hello(client, "client"), Welcome)
        return self

    def says(self, peer: str, message: SessionMessage) -> list[Said]:
        """That peer sends a message; what the broker says because of it."""
        self._sent[peer] = self._sent.get(peer, 0) + 1
        return self._enter(self.broker.receive(peer, Data(self._sent[peer], message), self.now))

    def want(self, topic: str, *peers: str, where: str = "") -> "Stage":
        """These peers want the topic, and every neighbour confirms it."""
        for peer in peers:
            said = self.says(peer, Subscribe(1, topic, where))
            for neighbour, message in said:
                if isinstance(message, Subscribe):
                    self.says(neighbour, SubscribeAck(message.token))
        return self

    def lose(self, peer: str) -> None:
        self._enter(self.broker.peer_down(peer, self.now))

    def beat(self, now: float) -> None:
        self.now = now
        self._enter(self.broker.timer(BEAT_TIMER, now))

    def settle(self) -> list[Said]:
        return self._enter(self.broker.settle(self.now))

    def stop(self) -> list[Said]:
        return self._enter(self.broker.stop(self.now))

    def connected(self) -> list[str]:
        return [link.peer for link in self.broker.hub.links.values() if link.state is LinkState.OPEN]


def batch(publisher: str, first: int, guarantee: int = CAUSAL, topic: str = "t", keys: tuple[str, ...] = ()) -> Batch:
    return make_batch(publisher, first, topic, guarantee, [b"x"], [keys])


def publish(
    publisher: str, first: int, guarantee: int = CAUSAL, topic: str = "t", keys: tuple[str, ...] = ()
) -> Publish:
    return Publish(batch(publisher, first, guarantee, topic, keys))


def child_stage(*children: str, kind: type[GingerBroker] = GingerBroker) -> Stage:
    """A broker below `parent`, serving, with these children."""
    stage = Stage("parent", kind=kind)
    stage._enter(stage.broker.peer_up("parent", 0.0))
    stage._enter(stage.broker.receive("parent", Welcome("parent", 0, CREDIT, 0, "ginger", (), PAYLOAD_BYTES_MAX), 0.0))
    stage.says("parent", Interests((), True))
    return stage.join(*children)


# ---------------------------------------------------------------------------------------------------------- joining


def test_a_root_serves_at_once():
    broker = GingerBroker(BrokerConfig("b0"), 7)
    assert broker.start(0.0) == [SetTimer(BEAT_TIMER, 2.0), Report("serving")]
    assert broker.ready()


def test_a_broker_with_a_parent_serves_nobody_before_it_knows_what_is_wanted():
    stage = Stage("parent")
    broker = stage.broker
    assert not broker.ready()
    assert broker.waiting_for() == ["a connection to its parent parent"]
    refusal = stage.hello("alice", "client")
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.reason) == ("not-ready", "broker b0 is joining: try again, or another broker")
    stage._enter(broker.peer_up("parent", 0.0))
    stage._enter(broker.receive("parent", Welcome("parent", 0, CREDIT, 0, "ginger", (), PAYLOAD_BYTES_MAX), 0.0))
    stage.says("parent", Interests((("t", ""),), False))
    assert not broker.ready()
    stage.says("parent", Interests((("u", ""),), True))
    assert broker.ready()
    assert broker.interests.table.interests("parent") == [("t", ""), ("u", "")]


def test_a_child_that_joins_is_told_what_is_wanted():
    stage = Stage().attach("alice").want("t", "alice")
    stage.hello("c1", "broker")
    assert stage.told == [("c1", Interests((("t", ""),), True))]


def test_a_broker_that_is_full_takes_no_new_client_but_an_old_one_that_returns():
    stage = Stage(config=BrokerConfig("b0", sessions_max=1)).attach("alice")
    refusal = stage.hello("bob", "client")
    assert isinstance(refusal, Refusal)
    assert refusal.code == "full"
    assert isinstance(stage.hello("alice", "client", session=2), Welcome)
    assert isinstance(stage.hello("c1", "broker"), Welcome)


# -------------------------------------------------------------------------------------------------------- passing on


def test_a_publication_goes_to_every_client_and_neighbour_that_wants_it():
    stage = Stage().join("c1", "c2").attach("alice", "bob", "carol").want("t", "c1", "alice", "bob")
    message = publish("alice", 1)
    assert stage.says("alice", message) == [("alice", message), ("bob", message), ("c1", message)]


def test_a_publication_does_not_go_back_to_the_broker_that_it_came_from():
    stage = Stage().join("c1", "c2").attach("alice").want("t", "c1", "c2", "alice")
    message = publish("zoe", 9)
    assert stage.says("c1", message) == [("alice", message), ("c2", message)]


def test_a_client_gets_the_messages_that_it_wants_and_a_neighbour_the_whole_batch():
    stage = Stage().join("c1").attach("alice", "bob").want("t", "alice", "c1", where="n = 1")
    mixed = make_batch("bob", 1, "t", FIFO, [b"a", b"b"], attributes=[{"n": 1}, {"n": 2}])
    assert stage.says("bob", Publish(mixed)) == [("alice", Publish(mixed.part(1, 1))), ("c1", Publish(mixed))]
    other = make_batch("bob", 3, "t", FIFO, [b"a"], attributes=[{"n": 2}])
    assert stage.says("bob", Publish(other)) == []


def test_accepted_publications_that_come_again_in_other_batches_are_passed_on_once():
    stage = Stage().attach("alice", "bob").want("t", "bob")
    whole = make_batch("alice", 1, "t", FIFO, [b"a", b"b", b"c", b"d"])
    assert stage.says("alice", Publish(whole.part(1, 2))) == [("bob", Publish(whole.part(1, 2)))]
    assert stage.says("alice", Publish(whole.part(2, 4))) == [("bob", Publish(whole.part(3, 4)))]
    assert stage.says("alice", Publish(whole)) == []
    assert stage.says("alice", publish("alice", 6)) == [
        ("alice", Rejected(0, 6, 6, "client alice published #6, but #5 is next"))
    ]


# --------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (Subscribe(4, "a/#/b", ""), "goes on after '#'"),
        (Subscribe(4, "a", "n >"), "is missing after '>'"),
        (Unsubscribe(4, "a//b", ""), "empty level"),
        (Confirm(4, "a/+", "alice", 1), "wildcard"),
    ],
)
def test_a_clients_request_that_cannot_be_is_rejected_and_the_broker_lives(message: SessionMessage, sentence: str):
    stage = Stage().attach("alice")
    [(peer, answer)] = stage.says("alice", message)
    assert peer == "alice"
    assert isinstance(answer, Rejected)
    assert (answer.token, answer.first, answer.last) == (4, 0, 0)
    assert sentence in answer.reason.lower()
    assert stage.says("alice", Subscribe(5, "t", "")) == [("alice", SubscribeAck(5))]


@pytest.mark.parametrize(
    "wrong", [publish("alice", 1, topic="a/#"), publish("bob", 1), Publish(Batch("alice", 1, "t", 0, b"abc", count=2))]
)
def test_a_publication_that_cannot_be_is_rejected_by_its_numbers(wrong: Publish):
    stage = Stage().attach("alice")
    [(peer, answer)] = stage.says("alice", wrong)
    assert peer == "alice"
    assert isinstance(answer, Rejected)
    assert (answer.token, answer.first, answer.last) == (0, wrong.batch.first, wrong.batch.last)


def test_a_client_that_talks_like_a_broker_loses_its_session():
    stage = Stage().attach("alice")
    assert stage.says("alice", TotalAck("bob", 1)) == []
    sentence = (
        "alice is a client and sent TotalAck; it may send Confirm, ConfirmAck, Publish, Recall, Subscribe, Unsubscribe"
    )
    assert [(one.event, one.detail) for one in stage.reports[-2:]] == [("violation", sentence), ("end", sentence)]
    assert stage.ended == ["alice"]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (GingerBroker, Rejected(1, 0, 0, "no")),
        (GingerBroker, publish("alice", 1, topic="a/#")),
        (GingerBroker, Subscribe(1, "a", "n >")),
        (GingerBroker, Climb(batch("alice", 1, TOTAL, "a//b", KEY))),
        (LockingBroker, TotalMarker("alice", 1, "a/#", KEY)),
        (LockingBroker, TotalRequest(batch("alice", 1, TOTAL, "a//b", KEY))),
    ],
)
def test_a_neighbour_that_sends_what_cannot_be_loses_its_connection_and_the_broker_lives(
    kind: type[GingerBroker], message: SessionMessage
):
    stage = Stage(kind=kind).join("c1").attach("alice")
    assert stage.says("c1", message) == []
    assert stage.ended == ["c1"]
    assert stage.says("alice", Subscribe(5, "t", "")) == []
    assert isinstance(stage.hello("c1", "broker", resume=True), Welcome)


# ------------------------------------------------------------------------------------------------- total, at the edge


# --------------------------------------------------------------------------------------------------------- closed cuts


# ------------------------------------------------------------------------------------------------------------- turning


def below_a_subscriber() -> Stage:
    """A broker above which t is wanted, with a child, and two clients."""
    stage = child_stage("c1").attach("alice", "bob")
    stage.says("parent", Subscribe(1, "t", ""))
    return stage


def test_at_the_top_a_total_batch_is_passed_on_at_once_and_nothing_waits_behind_it():
    stage = Stage().join("c1", "c2").attach("alice").want("t", "c1", "c2")
    for message in (publish("alice", 1, TOTAL, keys=KEY), publish("alice", 2, TOTAL, keys=KEY), publish("alice", 3)):
        assert stage.says("alice", message) == [("c1", message), ("c2", message)]
    assert stage.broker.waiting_for() == []


def test_what_a_publisher_sends_behind_what_went_up_goes_up_and_a_subscription_does_not_wait():
    stage = below_a_subscriber()
    total, later = publish("alice", 1, TOTAL, keys=KEY), publish("alice", 2, EVENTUAL, "other")
    assert stage.says("alice", total) == [("parent", Climb(total.batch))]
    assert stage.says("alice", later) == [("parent", Climb(later.batch))]
    assert stage.says("bob", publish("bob", 1)) == [("parent", publish("bob", 1))]
    assert [kind for kind, _ in stage.says("alice", Subscribe(2, "u", ""))] == ["parent", "c1"]
    assert "2 messages of alice, which went up to parent and have not turned" in stage.broker.waiting_for()
    assert stage.broker.status()["climbing"] == ["2 messages of alice, which went up to parent and have not turned"]


def test_a_question_about_a_message_waits_until_that_has_turned():
    stage = below_a_subscriber()
    stage.says("alice", publish("alice", 1, TOTAL, keys=KEY))
    assert stage.says("alice", Confirm(3, "t", "alice", 1)) == []
    assert stage.says("parent", Turned("alice", 1)) == [("parent", Confirm(1, "t", "alice", 1))]


def test_a_question_of_a_session_that_is_over_is_not_put_when_its_message_has_turned():
    stage = below_a_subscriber()
    stage.says("alice", publish("alice", 1, TOTAL, keys=KEY))
    stage.says("alice", Confirm(3, "t", "alice", 1))
    stage._enter(stage.broker.receive("alice", Goodbye("the client closed"), 0.0))
    assert stage.says("parent", Turned("alice", 1)) == []
    assert stage.broker.turning.idle()


def test_a_copy_from_above_ends_the_climb_for_those_below_who_do_not_get_it():
    stage = below_a_subscriber().want("t", "bob")
    climb = batch("zoe", 5, TOTAL, keys=KEY)
    assert stage.says("c1", Climb(climb)) == [("parent", Climb(climb))]
    assert stage.says("parent", Publish(climb)) == [("bob", Publish(climb)), ("c1", Turned("zoe", 5))]
    assert stage.broker.turning.idle()


def test_a_broker_that_leaves_waits_for_what_went_up_and_admits_nobody():
    stage = below_a_subscriber()
    stage.says("alice", publish("alice", 1, TOTAL, keys=KEY))
    stage.stop()
    assert not stage.broker._idle()
    assert isinstance(stage.hello("carol", "client"), Refusal)
    stage.says("parent", Turned("alice", 1))
    assert stage.broker._idle()


def test_a_status_is_plain_data_and_says_who_is_there():
    stage = below_a_subscriber()
    stage.says("alice", publish("alice", 1, keys=KEY))
    status = stage.broker.status()
    assert json.loads(json.dumps(status)) == status
    assert (status["children"], status["clients"]) == (["c1"], ["alice", "bob"])
    assert len(stage.broker.turning) == 1


# ------------------------------------------------------------------------------------------------- confirmed receipts


def test_a_receipt_is_gathered_from_everybody_who_wants_the_topic():
    stage = Stage().join("c1").attach("alice", "bob").want("t", "c1", "bob")
    assert stage.says("alice", Confirm(8, "t", "alice", 1)) == [
        ("bob", Confirm(1, "t", "alice", 1)),
        ("c1", Confirm(1, "t", "alice", 1)),
    ]
    assert stage.says("bob", ConfirmAck(1)) == []
    assert stage.says("c1", ConfirmAck(1)) == [("alice", ConfirmAck(8))]


# ----------------------------------------------------------------------------------------------------------- sessions


def test_what_was_asked_in_an_ended_session_is_not_answered_to_the_next_one():
    stage = Stage().join("c1", "c2").attach("alice", "bob")
    stage.says("bob", Subscribe(1, "t", ""))
    stage.says("alice", Subscribe(1, "t", ""))
    stage.lose("alice")
    stage.hello("alice", "client", session=2)
    stage.says("c1", SubscribeAck(1))
    assert stage.says("c2", SubscribeAck(2)) == [("bob", SubscribeAck(1))]


def small(**settings: float) -> BrokerConfig:
    return BrokerConfig("b0", link=LinkConfig(backlog_bytes_max=100, silence_s=1e9), **settings)  # type: ignore[arg-type]


def test_a_client_that_does_not_return_in_time_loses_its_session():
    stage = Stage(config=small(session_keep_s=30.0)).attach("alice", "bob").want("t", "alice")
    stage.lose("alice")
    stage.beat(29.0)
    assert "alice" in stage.broker.hub.links
    stage.beat(30.0)
    assert "alice" not in stage.broker.hub.links
    assert Report("end", peer="alice", detail="alice was away for 30.0 s") in stage.reports
    assert stage.broker.interests.table.route("t") == {}


def fill(stage: Stage, client: str, publisher: str) -> None:
    """Publish until that client's buffer is full."""
    stage.broker.hub.links[client].credit_out = 0
    for first in range(1, 4):
        stage.says(publisher, publish(publisher, first))
    assert stage.broker.hub.congested == {client}
    assert stage.broker.waiting_for() == [f"credit from {client}"]


def test_a_client_that_takes_nothing_from_a_full_buffer_loses_its_session():
    stage = Stage(config=small(stall_s=30.0)).attach("alice", "bob").want("t", "alice")
    stage.beat(1000.0)
    fill(stage, "alice", "bob")
    # It was idle for long before, and that is not its fault.
    stage.beat(1002.0)
    assert stage.connected() == ["alice", "bob"]
    stage.beat(1031.0)
    assert stage.connected() == ["alice", "bob"]
    stage.beat(1032.0)
    assert stage.connected() == ["bob"]
    assert stage.broker.waiting_for() == []


def test_a_client_that_takes_something_keeps_its_session():
    stage = Stage(config=small(stall_s=30.0)).attach("alice", "bob").want("t", "alice")
    fill(stage, "alice", "bob")
    stage.beat(2.0)
    stage.now = 20.0
    stage._enter(stage.broker.receive("alice", Ack(1, 10), 20.0))
    stage.beat(40.0)
    assert stage.connected() == ["alice", "bob"]
    stage.beat(50.0)
    assert stage.connected() == ["bob"]


def test_nobody_waits_for_a_client_that_is_away():
    stage = Stage(config=small()).attach("alice", "bob").want("t", "alice")
    stage.lose("alice")
    for first in range(1, 9):
        stage.says("bob", publish("bob", first))
    assert stage.broker.hub.links["alice"].backlog_bytes > stage.broker.config.link.backlog_bytes_max
    assert stage.broker.hub.congested == set()
    assert stage.broker.waiting_for() == []


def test_whoever_waited_for_a_client_waits_no_longer_when_its_connection_is_gone():
    stage = Stage(config=small()).attach("alice", "bob").want("t", "alice")
    fill(stage, "alice", "bob")
    stage.lose("alice")
    assert stage.broker.hub.congested == set()
    stage.beat(29.0)
    assert "alice" in stage.broker.hub.links


def test_a_client_that_is_away_costs_so_many_bytes_and_no_more():
    link = LinkConfig(backlog_bytes_max=100, away_bytes_max=600, silence_s=1e9)
    stage = Stage(config=BrokerConfig("b0", link=link)).attach("alice", "bob").want("t", "alice")
    stage.lose("alice")
    first = 0
    while "alice" in stage.broker.hub.links:
        assert stage.broker.hub.links["alice"].backlog_bytes <= link.away_bytes_max
        first += 1
        stage.says("bob", publish("bob", first))
        stage._enter(stage.broker.settle(0.0))
    assert first > 3
    reason = f"more than {link.away_bytes_max} bytes were kept for alice while it was away"
    assert Report("end", peer="alice", detail=reason) in stage.reports
    asked = Confirm(1, "t", "bob", first, {}, 0.0)
    assert stage.broker.given_up.since(asked, 0.0, 0.0).gone == ("alice",)


def test_a_client_that_returns_to_a_full_buffer_gets_it():
    stage = Stage(config=small()).attach("alice", "bob").want("t", "alice")
    fill(stage, "alice", "bob")
    stage.lose("alice")
    stage.beat(2.0)
    assert isinstance(stage.hello("alice", "client", resume=True), Welcome)
    assert [message for _, message in stage.told][-3:] == [publish("bob", first) for first in (1, 2, 3)]
    stage.beat(100.0)
    assert "alice" in stage.broker.hub.links


def test_a_child_broker_is_not_thrown_out_for_a_full_buffer():
    stage = Stage(config=small(stall_s=1.0)).join("c1").attach("bob").want("t", "c1")
    fill(stage, "c1", "bob")
    stage.beat(2.0)
    stage.beat(20.0)
    stage.lose("c1")
    stage.beat(29.0)
    assert "c1" in stage.broker.hub.links


# ------------------------------------------------------------------------------------------------------------ leaving


def test_a_broker_that_leaves_says_goodbye_to_everybody_when_everything_has_arrived():
    stage = Stage().join("c1").attach("alice").want("t", "c1")
    stage.says("alice", publish("alice", 1))
    stage.stop()
    assert stage.broker.status()["phase"] == "leaving"
    stage.frames.clear()
    stage._enter(stage.broker.receive("c1", Ack(stage.broker.hub.links["c1"].queued, CREDIT), 0.0))
    goodbye = Goodbye("broker b0 is leaving")
    assert [frame for frame in stage.frames if frame[1] == goodbye] == [("c1", goodbye), ("alice", goodbye)]
    assert stage.reports[-1] == Report("stopped")
    assert stage.broker.hub.links == {}


def test_a_broker_that_has_nothing_left_leaves_at_once():
    stage = Stage().attach("alice")
    stage.stop()
    assert stage.reports[-1] == Report("stopped")
    assert stage.stop() == []


def test_a_broker_that_never_joined_can_leave():
    stage = Stage("parent")
    stage.stop()
    assert stage.reports[-1] == Report("stopped")


# --------------------------------------------------------------------------------------------------------- inspection


def test_a_parent_that_refuses_is_reported():
    stage = Stage("parent")
    stage._enter(stage.broker.peer_up("parent", 0.0))
    stage._enter(stage.broker.receive("parent", Refusal("cluster", "not mine"), 0.0))
    assert stage.reports[-1] == Report("refused", peer="parent", detail="not mine")


def test_a_broker_dials_its_parent():
    broker = GingerBroker(BrokerConfig("b0", "parent"), 7)
    assert broker.start(0.0) == [SetTimer(BEAT_TIMER, 2.0), Report("joining"), Connect("parent")]


def test_taking_back_a_subscription_is_confirmed_by_the_neighbours():
    stage = Stage().join("c1").attach("alice").want("t", "alice")
    [(peer, told)] = stage.says("alice", Unsubscribe(3, "t", ""))
    assert isinstance(told, Unsubscribe)
    assert peer == "c1"
    assert stage.says("c1", UnsubscribeAck(told.token)) == [("alice", UnsubscribeAck(3))]


@pytest.mark.parametrize(
    ("kind", "message", "stands"),
    [
        (GingerBroker, Climb(batch("c", 1, TOTAL, keys=KEY)), True),
        (GingerBroker, TotalRequest(batch("c", 1, TOTAL, keys=KEY)), False),
        (LockingBroker, Climb(batch("c", 1, TOTAL, keys=KEY)), False),
        (LockingBroker, TotalRequest(batch("c", 1, TOTAL, keys=KEY)), True),
    ],
)
def test_a_neighbour_orders_total_messages_as_the_protocol_does(
    kind: type[GingerBroker], message: SessionMessage, stands: bool
):
    stage = Stage(kind=kind).join("c1")
    stage.says("c1", message)
    assert ("c1" in stage.connected()) is stands


# ------------------------------------------------------------------------------------------------- too much that climbs


def heavy(publisher: str, first: int, guarantee: int = TOTAL, keys: tuple[str, ...] = KEY) -> Publish:
    """A message of the largest payload: each uses a client's window up."""
    return Publish(make_batch(publisher, first, "t", guarantee, [b"x" * PAYLOAD_BYTES_MAX], [keys]))


def granted(stage: Stage, client: str) -> bool:
    """Whether the broker has granted that client more since it was last asked. Its parent takes all that it is sent."""
    up = stage.broker.hub.links["parent"]
    stage._enter(stage.broker.receive("parent", Ack(up.queued, CREDIT), stage.now))
    stage.frames.clear()
    stage.settle()
    return any(peer == client and isinstance(frame, Ack) for peer, frame in stage.frames)


def publish_until_it_has_to_wait(stage: Stage, client: str) -> int:
    """The number of the message after which the client may send nothing more."""
    for number in range(1, 2 * CLIMBING_BYTES_MAX // PAYLOAD_BYTES_MAX):
        stage.says(client, heavy(client, number))
        if not granted(stage, client):
            return number
    raise AssertionError(f"{client} could publish {number} messages")


def climbing_stage(*clients: str) -> Stage:
    stage = child_stage().attach(*clients)
    stage.says("parent", Subscribe(1, "t", ""))
    return stage


def test_a_publisher_waits_when_too_much_climbs_and_goes_on_when_half_of_it_has_turned():
    stage = climbing_stage("alice")
    last = publish_until_it_has_to_wait(stage, "alice")
    assert last * PAYLOAD_BYTES_MAX >= CLIMBING_BYTES_MAX
    assert any("room for what alice publishes" in reason for reason in stage.broker.waiting_for())
    assert "room for what alice publishes" in json.dumps(stage.broker.status()["climbing"])
    stage.says("parent", Turned("alice", 2))
    assert not granted(stage, "alice")
    stage.says("parent", Turned("alice", last // 2 + 2))
    assert granted(stage, "alice")
    assert not any("room for" in reason for reason in stage.broker.waiting_for())
    stage.says("parent", Turned("alice", last))
    assert stage.broker.turning.bytes == 0


def test_whoever_publishes_what_does_not_climb_does_not_wait_for_what_does():
    stage = climbing_stage("alice", "bob")
    publish_until_it_has_to_wait(stage, "alice")
    for number in range(1, 4):
        stage.says("bob", heavy("bob", number, CAUSAL, keys=()))
        assert granted(stage, "bob")
    stage.says("bob", heavy("bob", 4))
    assert not granted(stage, "bob")


def test_a_publisher_that_leaves_while_it_waits_is_granted_nothing_and_its_next_session_goes_on():
    stage = climbing_stage("alice")
    last = publish_until_it_has_to_wait(stage, "alice")
    stage._enter(stage.broker.receive("alice", Goodbye("it closes"), stage.now))
    assert not any("room for" in reason for reason in stage.broker.waiting_for())
    stage.hello("alice", "client", session=2)
    stage.says("parent", Turned("alice", last))
    stage.settle()
    stage.says("alice", heavy("alice", last + 1))
    assert granted(stage, "alice")


def test_what_a_client_resumes_its_session_with_is_granted_when_there_is_room():
    stage = climbing_stage("alice")
    last = publish_until_it_has_to_wait(stage, "alice")
    stage.lose("alice")
    stage.says("parent", Turned("alice", last))
    stage.settle()
    welcome = stage.hello("alice", "client", resume=True)
    assert isinstance(welcome, Welcome)
    link = stage.broker.hub.links["alice"]
    assert link.consumed_bytes == link.received_bytes
