"""A client that may move: nothing that it sends goes ahead of its joining."""

import msgspec
import pytest

from holdfast.model.batches import PAYLOAD_BYTES_MAX, make_batch
from holdfast.model.guarantees import FIFO
from holdfast.model.messages import (
    Data,
    Goodbye,
    Hello,
    Join,
    Open,
    Publish,
    Refusal,
    SessionMessage,
    Subscribe,
    Unstable,
    Upward,
    Welcome,
)
from holdfast.model.terms import Contact
from holdfast.protocols.clients import GIVE_UP_TIMER
from holdfast.protocols.config import ClientConfig, LinkConfig
from holdfast.protocols.hub import BEAT_TIMER
from holdfast.protocols.moving import MOVE_TIMER, TRIES_AHEAD, MovingClient
from holdfast.protocols.node import Connect, Disconnect, Effects, Ended, Report, Send, SetTimer

CREDIT = 1 << 30


def welcome(tolerance: int) -> Welcome:
    return Welcome("b0", 0, CREDIT, 0, "ginger", (0, 1, 2, 3), PAYLOAD_BYTES_MAX, tolerance)


def said(effects: Effects) -> list[SessionMessage]:
    frames = [effect.frame for effect in effects if isinstance(effect, Send)]
    return [frame.message for frame in frames if isinstance(frame, Data)]


def busy_before_it_is_attached() -> MovingClient:
    client = MovingClient(ClientConfig("alice"), 7)
    client.start(0.0)
    client.peer_up("broker", 0.0)
    client.publish("t", b"x", FIFO)
    client.subscribe("t", "", 0.0)
    client.settle(0.0)
    return client


BATCH = make_batch("alice", 1, "t", FIFO, [b"x"])


def test_where_brokers_repair_their_tree_a_client_joins_before_it_publishes_or_asks():
    """A subscription that overtook it was confirmed, and nothing was delivered to it until the client had joined."""
    client = busy_before_it_is_attached()
    assert client.backlog_bytes >= BATCH.cost_bytes
    [join] = said(client.receive("broker", welcome(tolerance=1), 0.0))
    assert isinstance(join, Join)
    assert join.published == 0
    assert join.interests == (("t", ""),)


def test_where_they_do_not_it_sends_what_it_has_when_it_is_welcome():
    client = busy_before_it_is_attached()
    assert said(client.receive("broker", welcome(tolerance=0), 0.0)) == [Publish(BATCH), Subscribe(1, "t", "")]
    client.publish("t", b"x", FIFO)
    assert said(client.settle(0.0)) == [Publish(make_batch("alice", 2, "t", FIFO, [b"x"]))]


WATCHFUL, STEADY = LinkConfig(heartbeat_s=0.15, silence_s=0.6), LinkConfig(heartbeat_s=4.0, silence_s=12.0)


@pytest.mark.parametrize(("tolerance", "beat_s"), [(0, 4.0), (1, 0.15)])
def test_it_asks_a_broker_that_tolerates_no_loss_less_often(tolerance: int, beat_s: float):
    client = MovingClient(ClientConfig("alice", link=WATCHFUL, steady=STEADY), 7)
    assert SetTimer(BEAT_TIMER, 0.15) in client.start(0.0)
    client.peer_up("broker", 0.0)
    client.receive("broker", welcome(tolerance), 0.0)
    assert SetTimer(BEAT_TIMER, beat_s) in client.timer(BEAT_TIMER, 0.15)


def test_it_gives_up_a_broker_that_tolerates_no_loss_after_the_longer_silence():
    client = MovingClient(ClientConfig("alice", link=WATCHFUL, steady=STEADY), 7)
    client.start(0.0)
    client.peer_up("broker", 0.0)
    client.receive("broker", welcome(tolerance=0), 0.0)
    ends = [
        beat_s
        for beat_s in (0.15, 4.15, 8.15, 12.15)
        if any(isinstance(effect, Disconnect) for effect in client.timer(BEAT_TIMER, beat_s))
    ]
    assert ends == [12.15]


# ---------------------------------------------------------------------------------------------------------- moving

CONTACTS = Upward((Contact("b0", 1, "b0:1"), Contact("p", 1, "p:1")), (Contact("q", 1, "q:1"),), ())
MOVE_S = ClientConfig("alice").move_s


def reply(name: str, received: int = 0) -> Welcome:
    return msgspec.structs.replace(welcome(tolerance=1), node=name, received=received)


def dialled(effects: Effects) -> list[str]:
    return [effect.peer for effect in effects if isinstance(effect, Connect)]


def wait_s(effects: Effects) -> float:
    """How long until the next contact is asked."""
    [after_s] = [effect.after_s for effect in effects if isinstance(effect, SetTimer) and effect.name == MOVE_TIMER]
    return after_s


def attached() -> MovingClient:
    """A client at b0 that knows of p and q, and has one publication under way."""
    client = MovingClient(ClientConfig("alice"), 7)
    client.start(0.0)
    client.peer_up("broker", 0.0)
    client.receive("broker", reply("b0"), 0.0)
    client.receive("broker", Data(1, Open((), CONTACTS, (), 0, 0)), 0.0)
    client.publish("t", b"x", FIFO)
    assert said(client.settle(0.0)) == [Publish(BATCH)]
    return client


def away() -> MovingClient:
    """The same when its connection is gone and p is being asked."""
    client = attached()
    assert wait_s(client.peer_down("broker", 1.0)) == MOVE_S
    assert dialled(client.timer(MOVE_TIMER, 1.1)) == ["p"]
    client.peer_up("p", 1.1)
    return client


def asking() -> MovingClient:
    """And when it has said to p what it keeps."""
    client = away()
    assert [type(one) for one in said(client.receive("p", reply("p"), 1.2))] == [Unstable, Join]
    return client


def test_a_contact_that_answers_after_our_own_broker_is_not_joined():
    client = away()
    client.timer("redial:broker", 1.2)
    client.peer_up("broker", 1.2)
    effects = client.receive("broker", reply("b0", received=2), 1.2)
    assert client.attached
    assert [effect.peer for effect in effects if isinstance(effect, Disconnect)] == ["p"]
    assert said(client.receive("p", reply("p"), 1.3)) == []
    assert client.attached


def test_what_is_published_meanwhile_waits_and_goes_to_whoever_has_the_client_then():
    client = away()
    client.publish("t", b"y", FIFO)
    assert said(client.settle(1.1)) == []
    later = Publish(make_batch("alice", 2, "t", FIFO, [b"y"]))
    *kept, join = said(client.receive("p", reply("p"), 1.2))
    assert [one.batch for one in kept if isinstance(one, Unstable)] == [BATCH]
    assert isinstance(join, Join)
    assert said(client.receive("p", Data(1, Open((), CONTACTS, (), 0, 0)), 1.3)) == [Publish(BATCH), later]
    assert client.attached


def test_a_contact_that_was_asked_too_early_is_asked_again_soon_and_then_less_and_less_often():
    client, contact, waits = asking(), "p", []
    for attempt in range(TRIES_AHEAD + 1):
        at = 2.0 + attempt
        waits.append(wait_s(client.receive(contact, Refusal("moved", "ask others"), at)))
        [contact] = dialled(client.timer(MOVE_TIMER, at))
        client.peer_up(contact, at)
        client.receive(contact, reply(contact), at)
    assert contact == "q"
    assert waits == [MOVE_S / 2, MOVE_S, 2 * MOVE_S, 4 * MOVE_S, 4 * MOVE_S]


def test_a_contact_that_has_forgotten_us_sends_us_back_to_our_own_broker():
    client = asking()
    effects = client.receive("p", Refusal("moved", "ask others"), 1.3)
    [redial] = [one.name for one in effects if isinstance(one, SetTimer) and one.name.startswith("redial:")]
    assert redial == "redial:broker"
    assert dialled(client.timer(redial, 1.4)) == ["broker"]
    client.peer_up("broker", 1.4)
    client.receive("broker", reply("b0", received=2), 1.4)
    assert client.attached


def test_a_connection_that_breaks_while_a_contact_takes_us_in_is_made_again():
    client = asking()
    client.peer_down("p", 1.3)
    assert dialled(client.timer("redial:p", 1.31)) == ["p"]
    [hello] = [one.frame for one in client.peer_up("p", 1.31) if isinstance(one, Send)]
    assert isinstance(hello, Hello)
    assert hello.resume
    assert said(client.receive("p", reply("p", received=2), 1.32)) == []
    client.receive("p", Data(1, Open((), CONTACTS, (), 0, 1)), 1.33)
    assert client.attached


def test_a_contact_that_knows_no_such_session_any_more_is_asked_anew():
    client = asking()
    client.peer_down("p", 1.3)
    client.timer("redial:p", 1.31)
    client.peer_up("p", 1.31)
    client.receive("p", Refusal("unknown-session", "it has begun anew"), 1.32)
    assert dialled(client.timer(MOVE_TIMER, 1.4)) == ["p"]
    client.peer_up("p", 1.4)
    assert [type(one) for one in said(client.receive("p", reply("p"), 1.5))] == [Unstable, Join]


def test_a_contact_that_takes_us_in_and_is_gone_is_followed_by_the_next_and_kept_in_mind():
    client = asking()
    client.peer_down("p", 1.3)
    assert dialled(client.timer(MOVE_TIMER, 1.4)) == ["q"]
    client.peer_up("q", 1.4)
    assert [type(one) for one in said(client.receive("q", reply("q"), 1.5))] == [Unstable, Join]
    client.receive("q", Refusal("moved", "ask p"), 1.6)
    # Then p again, in the session in which it knows us.
    client.timer(MOVE_TIMER, 1.8)
    assert dialled(client.timer("redial:p", 1.9)) == ["p"]
    client.peer_up("p", 1.9)
    assert said(client.receive("p", reply("p", received=2), 2.0)) == []
    client.receive("p", Data(1, Open((), CONTACTS, (), 0, 1)), 2.1)
    assert client.attached


def test_contacts_that_are_far_away_get_more_time_in_every_round():
    client = away()
    waits, asked = [], []
    for attempt in range(4):
        effects = client.timer(MOVE_TIMER, 2.0 + attempt)
        waits.append(wait_s(effects))
        asked += dialled(effects)
    assert asked == ["q", "p", "q", "p"]
    assert waits == [2 * MOVE_S, 2 * MOVE_S, 4 * MOVE_S, 4 * MOVE_S]


def test_a_client_that_has_not_run_for_a_while_takes_its_own_silence_for_nobody_elses():
    config = ClientConfig("alice").link
    client = attached()
    client.timer("heartbeat", config.heartbeat_s)
    late = client.timer("heartbeat", config.heartbeat_s + 2 * config.silence_s)
    assert not [effect for effect in late if isinstance(effect, Disconnect)]
    silent_at = config.heartbeat_s + 2 * config.silence_s
    for beat in range(1, 1 + int(config.silence_s / config.heartbeat_s)):
        late = client.timer("heartbeat", silent_at + beat * config.heartbeat_s)
    assert [effect.peer for effect in late if isinstance(effect, Disconnect)] == ["broker"]


def test_a_client_that_its_own_broker_has_given_up_is_told_so_and_ends():
    client = attached()
    [ended] = [
        effect
        for effect in client.receive("broker", Refusal("excluded", "b0 has given alice up"), 1.0)
        if isinstance(effect, Ended)
    ]
    assert not ended.clean
    assert ended.reason == "b0 has given alice up"


def test_a_client_that_nobody_takes_in_gives_up_at_last_and_reports_a_gap():
    client = attached()
    client.subscribe("t", "", 0.5)
    client.receive("broker", Goodbye("b0 is leaving"), 1.0)
    client.timer(MOVE_TIMER, 1.1)
    effects = client.timer(GIVE_UP_TIMER, 1.0 + ClientConfig("alice").give_up_s)
    [ended] = [effect for effect in effects if isinstance(effect, Ended)]
    assert ended == Ended(False, "no broker has taken alice in for 30 s")
    assert [(one.event, one.peer) for one in effects if isinstance(one, Report)] == [("gap", "b0"), ("over", "b0")]
    assert client.timer(MOVE_TIMER, 100.0) == []


def test_a_client_that_comes_too_late_to_a_repair_reports_a_gap():
    client = asking()
    client.subscribe("t", "", 1.2)
    effects = client.receive("p", Refusal("late", "messages are missing"), 1.3)
    assert [one.reason for one in effects if isinstance(one, Ended)] == ["messages are missing"]
    assert [one.event for one in effects if isinstance(one, Report)] == ["gap", "over"]
