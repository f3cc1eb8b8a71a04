"""A client as a machine: what it coalesces, sends, delivers and reports, as exact effects."""

from random import Random

import pytest

from holdfast.model.batches import BATCH_BYTES_MAX, BATCH_COUNT_MAX, PAYLOAD_BYTES_MAX, Batch, make_batch
from holdfast.model.crossed_messages import Crossed
from holdfast.model.errors import FilterError, LocalMisuse, TopicError
from holdfast.model.filters import Value
from holdfast.model.guarantees import CAUSAL, FIFO, TOTAL
from holdfast.model.messages import (
    WIRE_VERSION,
    Ack,
    Confirm,
    ConfirmAck,
    Data,
    Goodbye,
    Hello,
    Ping,
    Pong,
    Publish,
    Refusal,
    Rejected,
    SessionMessage,
    Subscribe,
    SubscribeAck,
    TotalAck,
    Unsubscribe,
    UnsubscribeAck,
    Welcome,
)
from holdfast.protocols.clients import GIVE_UP_TIMER, ClientNode
from holdfast.protocols.config import ClientConfig, LinkConfig
from holdfast.protocols.hub import ACK_TIMER, BEAT_TIMER, REDIAL_TIMER
from holdfast.protocols.node import (
    Accepted,
    Attached,
    CancelTimer,
    Completed,
    Connect,
    Deliver,
    Disconnect,
    Effects,
    Ended,
    Failed,
    Report,
    Send,
    SetTimer,
)
from holdfast.protocols.runs import IMPLICIT_KEYS

CREDIT = 1 << 30
WINDOW = LinkConfig().window_bytes
REDIAL = SetTimer(REDIAL_TIMER + "broker", LinkConfig().redial_s)


def welcome(published: int = 0, received: int = 0, credit: int = CREDIT) -> Welcome:
    return Welcome("b0", received, credit, published, "ginger", (0, 1, 2, 3), PAYLOAD_BYTES_MAX)


def sent(message: SessionMessage, seq: int) -> Send:
    return Send("broker", Data(seq, message))


def only_sends(effects: Effects) -> list[Send]:
    return [effect for effect in effects if isinstance(effect, Send)]


def batches(effects: Effects) -> list[Batch]:
    return [
        effect.batch for effect in effects if isinstance(effect, Report) and effect.event == "publish" and effect.batch
    ]


def connecting(link: LinkConfig | None = None) -> ClientNode:
    """A client that has dialled."""
    client = ClientNode(ClientConfig("alice", link=link or LinkConfig()), 7)
    client.start(0.0)
    client.peer_up("broker", 0.0)
    return client


def attached(published: int = 0, link: LinkConfig | None = None) -> ClientNode:
    client = connecting(link)
    client.receive("broker", welcome(published), 0.0)
    client.settle(0.0)
    return client


class Broker:
    """Numbers what a broker sends to one client."""

    def __init__(self, client: ClientNode) -> None:
        self.client, self.seq = client, 0

    def send(self, message: SessionMessage) -> Effects:
        self.seq += 1
        return self.client.receive("broker", Data(self.seq, message), 0.0)


def subscribed(pattern: str, where: str = "") -> tuple[ClientNode, Broker]:
    client = attached()
    broker = Broker(client)
    token, _ = client.subscribe(pattern, where, 0.0)
    broker.send(SubscribeAck(token))
    return client, broker


# ------------------------------------------------------------------------------------------------------ attaching


def test_a_client_dials_its_broker_and_says_hello():
    client = ClientNode(ClientConfig("alice"), 7)
    assert client.start(0.0) == [
        SetTimer(BEAT_TIMER, 2.0),
        Connect("broker"),
        SetTimer(GIVE_UP_TIMER, 30.0),
    ]
    hello = Hello(WIRE_VERSION, "alice", "client", "holdfast", 7, False, 0, WINDOW)
    assert client.peer_up("broker", 0.0) == [Send("broker", hello)]
    assert client.receive("broker", welcome(), 0.0) == [
        CancelTimer(GIVE_UP_TIMER),
        Report("attach", peer="b0"),
        Attached("b0", "ginger", (0, 1, 2, 3), PAYLOAD_BYTES_MAX),
    ]
    assert client.attached


def test_what_was_published_before_the_attachment_leaves_with_it():
    client = connecting()
    assert client.publish("t", b"x", FIFO) == 1
    batch = make_batch("alice", 1, "t", FIFO, [b"x"])
    assert client.settle(0.0) == [Report("publish", batch)]
    effects = client.receive("broker", welcome(), 0.0)
    assert only_sends(effects) == [sent(Publish(batch), 1)]


def test_a_new_session_under_an_old_name_goes_on_after_its_numbers():
    client = attached(published=41)
    assert client.publish("t", b"x", FIFO) == 42
    assert client.accepted_seq == 41


def test_a_new_session_under_an_old_name_may_not_repeat_a_number_and_sends_nothing():
    client = connecting()
    for _ in range(9):
        client.publish("t", b"x", FIFO)
    client.settle(0.0)
    effects = client.receive("broker", welcome(published=3), 0.0)
    reason = "alice has published up to #3 before; wait for the attachment, or choose a name"
    assert only_sends(effects) == [Send("broker", Goodbye(reason))]
    assert Ended(False, reason) in effects
    assert not client.attached


def test_a_welcome_that_was_lost_is_asked_for_again():
    client = connecting()
    assert client.peer_down("broker", 0.0) == [REDIAL]
    assert client.timer(REDIAL_TIMER + "broker", 0.05) == [Connect("broker")]
    client.peer_up("broker", 0.1)
    assert Attached("b0", "ginger", (0, 1, 2, 3), PAYLOAD_BYTES_MAX) in client.receive("broker", welcome(), 0.1)


def test_a_refusal_ends_the_session_unless_the_broker_is_not_ready():
    client = connecting()
    assert client.receive("broker", Refusal("not-ready", "later"), 0.0) == [
        Disconnect("broker", "later"),
        REDIAL,
    ]
    client.peer_up("broker", 0.1)
    effects = client.receive("broker", Refusal("full", "no room"), 0.1)
    assert effects[0] == Disconnect("broker", "no room")
    assert effects[-1] == Ended(False, "no room")


def test_nobody_can_say_hello_to_a_client():
    assert attached().receive("broker", Hello(1, "b0", "broker", "holdfast", 1, False, 0, 0), 0.0) == []


# ----------------------------------------------------------------------------------------------------- coalescing


def test_an_idle_client_sends_at_once():
    client = attached()
    assert client.publish("t", b"x", CAUSAL) == 1
    batch = make_batch("alice", 1, "t", CAUSAL, [b"x"])
    assert client.settle(0.0) == [Report("publish", batch), sent(Publish(batch), 1)]
    assert client.settle(0.0) == []


def test_what_is_published_in_one_turn_on_one_topic_with_one_guarantee_is_one_batch():
    client = attached()
    assert [client.publish("t", payload, FIFO) for payload in (b"a", b"bc", b"")] == [1, 2, 3]
    assert batches(client.settle(0.0)) == [make_batch("alice", 1, "t", FIFO, [b"a", b"bc", b""])]


def test_another_topic_or_guarantee_begins_another_batch_and_order_is_kept():
    client = attached()
    for topic, guarantee in (("t", FIFO), ("t", FIFO), ("u", FIFO), ("t", FIFO), ("t", CAUSAL)):
        client.publish(topic, b"x", guarantee)
    effects = client.settle(0.0)
    assert [(batch.topic, batch.guarantee, batch.first, batch.last) for batch in batches(effects)] == [
        ("t", FIFO, 1, 2),
        ("u", FIFO, 3, 3),
        ("t", FIFO, 4, 4),
        ("t", CAUSAL, 5, 5),
    ]
    assert [type(effect) for effect in effects] == [Report, Send] * 4


def test_one_more_of_the_same_goes_into_the_batch_that_is_begun_and_nothing_else_does():
    client = attached()
    assert client.publish_alike("a", b"x", CAUSAL) == 0
    assert client.publish("a", b"1", CAUSAL) == 1
    assert client.publish_alike("a", b"2", CAUSAL) == 2
    assert client.publish_alike("b", b"x", CAUSAL) == 0
    assert client.publish_alike("a", b"x", FIFO) == 0
    assert client.publish_alike("a", b"x" * BATCH_BYTES_MAX, CAUSAL) == 0
    assert [batch.payload_list() for batch in batches(client.settle(0.0))] == [[b"1", b"2"]]
    assert client.publish_alike("a", b"x", CAUSAL) == 0


def test_one_more_with_a_key_goes_into_a_batch_of_messages_with_keys_and_nothing_else_does():
    client = attached()
    assert client.publish_alike("a", b"x", TOTAL, ("k",)) == 0
    assert client.publish("a", b"1", TOTAL) == 1
    assert client.publish_alike("a", b"2", TOTAL, ("k",)) == 2
    for topic, payload, guarantee in (("b", b"x", TOTAL), ("a", b"x", CAUSAL), ("a", b"x" * BATCH_BYTES_MAX, TOTAL)):
        assert client.publish_alike(topic, payload, guarantee, ("k",)) == 0
    assert client.publish("a", b"3", CAUSAL) == 3
    assert client.publish_alike("a", b"x", CAUSAL, ("k",)) == 0
    assert client.publish("a", b"4", FIFO, ("k",), {"size": 1}) == 4
    assert client.publish_alike("a", b"x", FIFO, ("k",)) == 0
    found = batches(client.settle(0.0))
    assert (found[0].payload_list(), list(found[0].keys)) == ([b"1", b"2"], [("",), ("k",)])
    assert [batch.count for batch in found] == [2, 1, 1]


@pytest.mark.parametrize("guarantee", [FIFO, TOTAL])
def test_messages_with_keys_fill_a_batch_however_they_are_taken(guarantee: int):
    def sizes(short: bool) -> list[int]:
        client = attached()
        for number in range(2 * BATCH_COUNT_MAX):
            key = (f"{number}" * (number % 40),)
            if not (short and client.publish_alike("t", b"x" * (number % 90), guarantee, key)):
                client.publish("t", b"x" * (number % 90), guarantee, key)
        return [batch.count for batch in batches(client.settle(0.0))]

    assert sizes(short=True) == sizes(short=False)


def test_no_batch_goes_past_a_turn():
    client = attached()
    client.turn_bytes = 3 * BATCH_BYTES_MAX // 2
    half = b"x" * (BATCH_BYTES_MAX // 2)
    for _ in range(3):
        client.publish("a", half, CAUSAL)
    assert client.publish_alike("a", b"x", CAUSAL) == 0
    assert client.pending_bytes == client.turn_bytes


def test_keys_and_attributes_stay_with_their_messages():
    client = attached()
    client.publish("t", b"a", FIFO)
    client.publish("t", b"b", FIFO, ("k",))
    client.publish("t", b"c", FIFO, (), {"n": 1})
    [batch] = batches(client.settle(0.0))
    assert [(one.keys, one.attributes) for one in batch.messages()] == [((), {}), (("k",), {}), ((), {"n": 1})]


def test_a_total_message_without_keys_gets_the_key_that_all_such_messages_of_its_topic_share():
    client = attached()
    client.publish("t", b"a", TOTAL)
    client.publish("t", b"b", TOTAL, ("k",))
    [batch] = batches(client.settle(0.0))
    assert [one.keys for one in batch.messages()] == [IMPLICIT_KEYS, ("k",)]


@pytest.mark.parametrize("guarantee", [FIFO, TOTAL])
def test_a_batch_has_so_many_messages_at_most(guarantee: int):
    client = attached()
    for _ in range(BATCH_COUNT_MAX + 1):
        client.publish("t", b"", guarantee)
    assert [batch.count for batch in batches(client.settle(0.0))] == [BATCH_COUNT_MAX, 1]


def test_a_batch_has_so_many_bytes_at_most_unless_one_message_has_more():
    client = attached()
    half = bytes(BATCH_BYTES_MAX // 2)
    for payload in (half, half, b"x", bytes(2 * BATCH_BYTES_MAX), b"y"):
        client.publish("t", payload, FIFO)
    assert [batch.count for batch in batches(client.settle(0.0))] == [2, 1, 1, 1]


def test_keys_and_attributes_count_towards_the_size_of_a_batch():
    client = attached()
    fat: dict[str, Value] = {"text": "x" * (BATCH_BYTES_MAX // 2)}
    for _ in range(3):
        client.publish("t", b"", FIFO, (), fat)
    assert [batch.count for batch in batches(client.settle(0.0))] == [1, 1, 1]


def test_a_request_stands_behind_what_was_published_before_it():
    client = attached()
    client.publish("t", b"x", FIFO)
    token, effects = client.subscribe("t", "", 0.0)
    batch = make_batch("alice", 1, "t", FIFO, [b"x"])
    assert effects == [Report("publish", batch), sent(Publish(batch), 1), sent(Subscribe(token, "t", ""), 2)]


# ------------------------------------------------------------------------------------------------------- accepting


def test_publications_are_accepted_when_the_broker_has_acknowledged_their_frames():
    client = attached()
    client.publish("t", b"x", FIFO)
    client.publish("u", b"x", FIFO)
    client.settle(0.0)
    client.subscribe("t", "", 0.0)
    assert client.waiting_for() == ["the broker's answer to subscribe t", "acceptance of publications after #0"]
    assert client.receive("broker", Ack(1, CREDIT), 0.0) == [Accepted(1)]
    assert client.receive("broker", Ack(3, CREDIT), 0.0) == [Accepted(2)]
    assert client.receive("broker", Ack(3, CREDIT), 0.0) == []
    assert client.accepted_seq == 2


def test_what_is_not_accepted_counts_as_backlog():
    client = attached()
    assert client.backlog_bytes == 0
    client.publish("t", bytes(100), FIFO)
    assert client.backlog_bytes >= 100
    client.settle(0.0)
    assert client.backlog_bytes >= 100
    client.receive("broker", Ack(1, CREDIT), 0.0)
    assert client.backlog_bytes == 0


def test_a_rejected_publication_surely_did_not_happen():
    client = attached()
    broker = Broker(client)
    client.publish("t", b"x", FIFO)
    client.settle(0.0)
    assert broker.send(Rejected(0, 1, 1, "no")) == [Failed(0, 1, 1, "no")]


# ------------------------------------------------------------------------------------------------ subscribing


def test_a_subscription_is_reported_and_completed_when_it_is_confirmed():
    client = attached()
    broker = Broker(client)
    token, effects = client.subscribe("t/+", "n > 1", 0.0)
    assert effects == [sent(Subscribe(token, "t/+", "n > 1"), 1)]
    assert broker.send(SubscribeAck(token)) == [Report("subscribe", pattern="t/+", where="n > 1"), Completed(token)]
    assert broker.send(SubscribeAck(token)) == []


def test_taking_a_subscription_back_is_reported_when_it_is_asked_for():
    client, broker = subscribed("t")
    token, effects = client.unsubscribe("t", "", 0.0)
    assert effects == [Report("unsubscribe", pattern="t"), sent(Unsubscribe(token, "t", ""), 2)]
    assert broker.send(UnsubscribeAck(token)) == [Completed(token)]


def test_a_confirmation_of_a_subscription_that_was_taken_back_is_completed_and_is_no_subscription():
    client, broker = subscribed("t")
    second, _ = client.subscribe("u", "", 0.0)
    token, effects = client.unsubscribe("u", "", 0.0)
    assert Report("unsubscribe", pattern="u") in effects
    assert broker.send(SubscribeAck(second)) == [Completed(second)]
    assert broker.send(UnsubscribeAck(token)) == [Completed(token)]


def test_of_two_equal_subscriptions_one_can_be_taken_back_without_asking_anybody():
    client, broker = subscribed("t")
    second, _ = client.subscribe("t", "", 0.0)
    broker.send(SubscribeAck(second))
    token, effects = client.unsubscribe("t", "", 0.0)
    assert effects == [Completed(token)]
    _, effects = client.unsubscribe("t", "", 0.0)
    assert Report("unsubscribe", pattern="t") in effects


def test_a_subscription_that_was_taken_back_before_its_confirmation_is_not_reported():
    client = attached()
    broker = Broker(client)
    first, _ = client.subscribe("t", "", 0.0)
    client.unsubscribe("t", "", 0.0)
    assert broker.send(SubscribeAck(first)) == [Completed(first)]


def test_an_illegal_subscription_changes_nothing():
    client = attached()
    with pytest.raises(TopicError):
        client.subscribe("a/#/b", "", 0.0)
    with pytest.raises(FilterError):
        client.subscribe("a", "n >", 0.0)
    for interest in (("a/#/b", ""), ("a", "n >")):
        with pytest.raises(LocalMisuse, match="client alice has no subscription"):
            client.unsubscribe(*interest, 0.0)
    assert client.waiting_for() == []
    assert client.settle(0.0) == []


def test_a_subscription_that_the_broker_rejects_is_not_wanted_any_more():
    client = attached()
    broker = Broker(client)
    token, _ = client.subscribe("t", "", 0.0)
    assert broker.send(Rejected(token, 0, 0, "no")) == [Failed(token, 0, 0, "no")]
    with pytest.raises(LocalMisuse, match="no subscription"):
        client.unsubscribe("t", "", 0.0)
    assert broker.send(Publish(make_batch("bob", 1, "t", FIFO, [b"x"]))) == []


# ------------------------------------------------------------------------------------------------------- delivering


def test_what_matches_is_reported_and_delivered():
    _, broker = subscribed("t/#")
    batch = make_batch("bob", 4, "t/a", CAUSAL, [b"x", b"y"])
    assert broker.send(Publish(batch)) == [Report("deliver", batch), Deliver(batch)]


def test_what_matches_two_subscriptions_is_delivered_once():
    client, broker = subscribed("t/#")
    token, _ = client.subscribe("t/a", "", 0.0)
    broker.send(SubscribeAck(token))
    batch = make_batch("bob", 1, "t/a", CAUSAL, [b"x"])
    assert broker.send(Publish(batch)) == [Report("deliver", batch), Deliver(batch)]


def test_after_an_unsubscription_nothing_comes_through_that_was_on_its_way():
    client, broker = subscribed("t")
    client.unsubscribe("t", "", 0.0)
    assert broker.send(Publish(make_batch("bob", 1, "t", CAUSAL, [b"x"]))) == []


def test_of_a_batch_only_the_messages_that_match_are_delivered():
    _, broker = subscribed("t", "n = 1")
    batch = make_batch("bob", 1, "t", FIFO, [b"a", b"b", b"c"], attributes=[{"n": 1}, {"n": 2}, {"n": 1}])
    first, last = batch.part(1, 1), batch.part(3, 3)
    assert broker.send(Publish(batch)) == [
        Report("deliver", first),
        Deliver(first),
        Report("deliver", last),
        Deliver(last),
    ]


def test_a_batch_takes_up_the_window_until_its_last_part_is_consumed():
    client, broker = subscribed("t", "n = 1")
    batch = make_batch("bob", 1, "t", FIFO, [bytes(WINDOW)] * 3, attributes=[{"n": 1}, {"n": 2}, {"n": 1}])
    broker.send(Publish(batch))
    said = 64
    assert client.settle(0.0) == [SetTimer(ACK_TIMER, 0.02)]
    client.consumed(batch.part(1, 1))
    assert client.timer(ACK_TIMER, 0.02) == [Send("broker", Ack(2, WINDOW + said))]
    client.consumed(batch.part(3, 3))
    assert client.settle(0.0) == [Send("broker", Ack(2, WINDOW + said + batch.cost_bytes))]


def test_two_publishers_of_one_name_do_not_shrink_the_window():
    client, broker = subscribed("t")
    batch = make_batch("bob", 1, "t", FIFO, [b"x"])
    broker.send(Publish(batch))
    broker.send(Publish(batch))
    client.consumed(batch)
    client.consumed(batch)
    client.settle(0.0)
    assert client.timer(ACK_TIMER, 1.0) == [Send("broker", Ack(3, WINDOW + 64 + 2 * batch.cost_bytes))]


def test_a_question_for_a_receipt_is_answered_behind_what_it_asks_about():
    client, broker = subscribed("t")
    broker.send(Publish(make_batch("bob", 1, "t", FIFO, [b"x"])))
    assert broker.send(Confirm(9, "t", "bob", 1)) == [sent(ConfirmAck(9), 2)]
    assert client.waiting_for() == []


def test_a_receipt_is_asked_for_and_completed():
    client = attached()
    broker = Broker(client)
    client.publish("t", b"x", FIFO)
    token, effects = client.confirm("t", 1, 0.0, {})
    assert only_sends(effects)[-1] == sent(Confirm(token, "t", "alice", 1, age_s=0.0), 2)
    assert broker.send(ConfirmAck(token)) == [Report("confirmed", pattern="t", seq=1), Completed(token)]


@pytest.mark.parametrize("seq", [0, 2])
def test_a_receipt_for_what_was_never_published_is_refused(seq: int):
    client = attached()
    client.publish("t", b"x", FIFO)
    with pytest.raises(LocalMisuse, match=f"client alice has not published #{seq}"):
        client.confirm("t", seq, 0.0)


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (TotalAck("bob", 1), "broker sent a client TotalAck, which only brokers take"),
        (Publish(make_batch("bob", 1, "a//b", FIFO, [b"x"])), "broker sent a batch of bob that cannot be"),
    ],
)
def test_a_broker_that_sends_what_cannot_be_loses_the_connection(message: SessionMessage, sentence: str):
    client, broker = subscribed("t")
    report, end, *_ = broker.send(message)
    assert isinstance(report, Report)
    assert report.event == "violation"
    assert sentence in report.detail
    assert isinstance(end, Disconnect)
    client.check_invariants()


# --------------------------------------------------------------------------------------- losing and ending a session


def test_a_lost_connection_is_dialled_again_and_what_was_not_accepted_is_sent_again():
    client = attached()
    for topic in ("t", "u", "v"):
        client.publish(topic, b"x", FIFO)
    client.settle(0.0)
    client.receive("broker", Ack(1, CREDIT), 0.0)
    assert client.peer_down("broker", 1.0) == [
        REDIAL,
        Report("detach", peer="broker"),
        SetTimer(GIVE_UP_TIMER, 30.0),
    ]
    assert not client.attached
    assert client.waiting_for() == ["a connection to its broker", "acceptance of publications after #1"]
    [hello] = client.peer_up("broker", 1.1)
    assert hello == Send("broker", Hello(WIRE_VERSION, "alice", "client", "holdfast", 7, True, 0, WINDOW))
    effects = client.receive("broker", welcome(published=2, received=2), 1.1)
    assert effects == [
        sent(Publish(make_batch("alice", 3, "v", FIFO, [b"x"])), 3),
        CancelTimer(GIVE_UP_TIMER),
        Report("attach", peer="b0"),
        Attached("b0", "ginger", (0, 1, 2, 3), PAYLOAD_BYTES_MAX),
        Accepted(2),
    ]


def test_whoever_cannot_return_in_time_gives_up():
    client = attached()
    client.publish("t", b"x", FIFO)
    client.settle(0.0)
    client.peer_down("broker", 1.0)
    effects = client.timer(GIVE_UP_TIMER, 31.0)
    assert effects[-1] == Ended(False, "no answer from the broker for 30 s")
    assert {CancelTimer(GIVE_UP_TIMER), CancelTimer(BEAT_TIMER), CancelTimer(ACK_TIMER)} <= set(effects)
    assert client.timer(REDIAL_TIMER + "broker", 32.0) == []
    assert client.settle(32.0) == []


def test_a_give_up_timer_that_rings_while_attached_does_nothing():
    assert attached().timer(GIVE_UP_TIMER, 30.0) == []


def test_closing_sends_what_was_published_and_says_goodbye_when_it_is_accepted():
    client = attached()
    client.publish("t", b"x", FIFO)
    effects = client.stop(0.0)
    batch = make_batch("alice", 1, "t", FIFO, [b"x"])
    # Whoever leaves asks to hear soon that all has arrived.
    assert effects == [Report("publish", batch), sent(Publish(batch), 1), Send("broker", Ping(1))]
    effects = client.receive("broker", Ack(1, CREDIT), 0.0)
    assert effects == [
        Accepted(1),
        Send("broker", Goodbye("the client closed")),
        Disconnect("broker", "the client closed"),
        CancelTimer(GIVE_UP_TIMER),
        CancelTimer(BEAT_TIMER),
        CancelTimer(ACK_TIMER),
        Ended(True, "the client closed"),
        Report("stopped"),
    ]


def test_closing_waits_for_a_connection_that_was_lost_meanwhile():
    client = attached()
    client.publish("t", b"x", FIFO)
    client.stop(0.0)
    client.peer_down("broker", 0.0)
    client.peer_up("broker", 1.0)
    assert not any(isinstance(effect, Ended) for effect in client.receive("broker", welcome(received=0), 1.0))
    assert Ended(True, "the client closed") in client.receive("broker", Ack(1, CREDIT), 1.0)


def test_an_end_is_not_clean_if_something_was_not_accepted():
    client = connecting()
    client.publish("t", b"x", FIFO)
    client.stop(0.0)
    client.peer_down("broker", 0.0)
    assert Ended(False, "no answer from the broker for 30 s") in client.timer(GIVE_UP_TIMER, 30.0)


def test_the_brokers_goodbye_ends_the_session():
    client = attached()
    effects = client.receive("broker", Goodbye("b0 is leaving"), 0.0)
    assert effects[0] == Disconnect("broker", "b0 is leaving")
    assert effects[-1] == Ended(False, "b0 is leaving")


def test_a_client_that_is_closed_takes_no_commands():
    client = attached()
    client.stop(0.0)
    with pytest.raises(LocalMisuse, match="client alice is closed: connect again to publish"):
        client.publish("t", b"x", FIFO)
    for verb, command in {
        "subscribe": lambda: client.subscribe("t", "", 0.0),
        "unsubscribe": lambda: client.unsubscribe("t", "", 0.0),
        "confirm": lambda: client.confirm("t", 1, 0.0),
    }.items():
        with pytest.raises(LocalMisuse, match=f"client alice is closed: connect again to {verb}"):
            command()
    client.consumed(make_batch("bob", 1, "t", FIFO, [b"x"]))
    client.check_invariants()


def test_invariants_notice_what_was_accepted_and_never_published():
    client = attached()
    client.accepted_seq = 5
    with pytest.raises(AssertionError, match="alice: accepted what was never published"):
        client.check_invariants()


@pytest.mark.parametrize(("first", "last"), [(2, 1), (1, 3), (3, 3)])
def test_a_broker_that_says_of_numbers_that_nobody_published_that_they_crossed_breaks_the_rules(first: int, last: int):
    client = attached()
    broker = Broker(client)
    for _ in range(2):
        client.publish("t", b"x", FIFO, ("k",))
    client.settle(0.0)
    assert "violation" in [one.event for one in broker.send(Crossed(first, last)) if isinstance(one, Report)]
    assert 1 not in client.crossed


def test_a_client_is_told_which_of_its_publications_crossed_a_total_one():
    client = attached()
    broker = Broker(client)
    for _ in range(2):
        client.publish("t", b"x", FIFO, ("k",))
    client.settle(0.0)
    assert broker.send(Crossed(1, 2)) == [Report("crossed", seq=1), Report("crossed", seq=2)]
    assert 2 in client.crossed


# ------------------------------------------------------------------------------------------------- coming back again


def redials(client: ClientNode, times: int) -> list[float]:
    """The waits before so many attempts, if the broker lets the client in each time and cuts the connection at once."""
    waits = []
    for _ in range(times):
        waits += [
            one.after_s for one in client.peer_down("broker", 0.0) if type(one) is SetTimer and "redial" in one.name
        ]
        client.timer("redial:broker", 0.0)
        client.peer_up("broker", 0.0)
        client.receive("broker", welcome(), 0.0)
    return waits


def test_a_broker_that_lets_a_client_in_and_cuts_it_off_at_once_is_called_less_and_less_often():
    client = attached(link=LinkConfig(redial_s=0.01, redial_max_s=0.1))
    assert redials(client, 6) == [0.01, 0.02, 0.04, 0.08, 0.1, 0.1]


def test_a_connection_that_has_lasted_is_made_again_at_once():
    client = attached(link=LinkConfig(redial_s=0.01, redial_max_s=0.1))
    redials(client, 4)
    client.receive("broker", Pong(1), 1.0)
    assert redials(client, 1) == [0.01]


def test_attempts_of_clients_that_lost_one_broker_at_one_moment_are_spread_by_the_chance_that_each_was_given():
    def waits(seed: int) -> list[float]:
        link = LinkConfig(redial_s=0.01, redial_max_s=0.1)
        client = ClientNode(ClientConfig("alice", link=link), 7, Random(seed))
        client.start(0.0)
        client.peer_up("broker", 0.0)
        client.receive("broker", welcome(), 0.0)
        return redials(client, 6)

    assert waits(1) == waits(1) != waits(2)
    for wait, planned in zip(waits(3), [0.01, 0.02, 0.04, 0.08, 0.1, 0.1], strict=True):
        assert 0.5 * planned <= wait <= 1.5 * planned
