"""The links of a node: hellos, resumption, acknowledgements, credit, congestion, heartbeats and goodbyes."""

import pytest

from holdfast.model.batches import PAYLOAD_BYTES_MAX, make_batch
from holdfast.model.costs import cost_bytes
from holdfast.model.errors import PeerViolation
from holdfast.model.messages import (
    WIRE_VERSION,
    Ack,
    ConfirmAck,
    Data,
    Frame,
    Goodbye,
    Hello,
    Kind,
    Levels,
    Ping,
    Pong,
    Publish,
    Refusal,
    SessionMessage,
    Welcome,
)
from holdfast.protocols.config import LinkConfig
from holdfast.protocols.hub import ACK_TIMER, BEAT_TIMER, REDIAL_TIMER, Hub
from holdfast.protocols.links import Link, LinkState
from holdfast.protocols.node import CancelTimer, Connect, Disconnect, Effects, Report, Send, SetTimer

SMALL = cost_bytes(ConfirmAck(1))
CONFIG = LinkConfig(
    window_bytes=4 * SMALL,
    backlog_bytes_max=2 * SMALL,
    ack_frames=3,
    heartbeat_s=2.0,
    silence_s=10.0,
    redial_s=0.05,
    redial_max_s=2.0,
)


class Owner:
    """A node that writes down what its hub tells it, and consumes what it gets unless told not to."""

    def __init__(self, name: str = "here", kind: Kind = "broker", config: LinkConfig = CONFIG) -> None:
        self.hub = Hub(self, name, kind, "holdfast", config, 7)
        self.told: list[tuple[object, ...]] = []
        self.refusal: Refusal | None = None
        self.hungry = True

    def admit(self, hello: Hello) -> Refusal | None:
        self.told.append(("admit", hello.node))
        return self.refusal

    def welcome(self, hello: Hello) -> tuple[int, str, tuple[int, ...]]:
        assert hello.node
        return 5, "ginger", (0, 1)

    def link_opened(self, link: Link, fresh: bool) -> None:
        self.told.append(("opened", link.peer, "fresh" if fresh else "resumed"))

    def link_closed(self, link: Link) -> None:
        self.told.append(("closed", link.peer))

    def link_ended(self, link: Link, reason: str) -> None:
        self.told.append(("ended", link.peer, reason))

    def link_refused(self, link: Link, refusal: Refusal) -> None:
        self.told.append(("refused", link.peer, refusal.code))

    def link_message(self, link: Link, message: SessionMessage) -> None:
        self.told.append(("message", link.peer, message))
        if self.hungry:
            self.hub.consumed(link, message)

    def link_acknowledged(self, link: Link) -> None:
        self.told.append(("acknowledged", link.peer))

    def link_levels(self, link: Link, levels: Levels) -> None:
        self.told.append(("levels", link.peer, levels))

    # ---- what a driver does

    def receive(self, peer: str, frame: Frame, now: float = 0.0) -> Effects:
        self.hub.receive(peer, frame, now)
        return self.hub.take()

    def settle(self) -> Effects:
        self.hub.settle()
        return self.hub.take()

    def timer(self, name: str, now: float = 0.0) -> Effects:
        assert self.hub.timer(name, now)
        return self.hub.take()

    def send(self, peer: str, message: SessionMessage) -> Effects:
        self.hub.send(peer, message)
        return self.hub.take()

    def peer_up(self, peer: str, now: float = 0.0) -> Effects:
        self.hub.peer_up(peer, now)
        return self.hub.take()

    def peer_down(self, peer: str) -> Effects:
        self.hub.peer_down(peer)
        return self.hub.take()


def hello(
    node: str = "child",
    kind: Kind = "broker",
    session: int = 9,
    resume: bool = False,
    received: int = 0,
    credit: int = 100 * SMALL,
    version: int = WIRE_VERSION,
    cluster: str = "holdfast",
) -> Hello:
    return Hello(version, node, kind, cluster, session, resume, received, credit)


def welcomed(received: int = 0, credit: int = CONFIG.window_bytes) -> Welcome:
    return Welcome("here", received, credit, 5, "ginger", (0, 1), PAYLOAD_BYTES_MAX)


def serving(*peers: str, kind: Kind = "broker", config: LinkConfig = CONFIG) -> Owner:
    """A node to which these peers are connected."""
    owner = Owner(config=config)
    for peer in peers:
        owner.receive(peer, hello(peer, kind))
    owner.settle()
    owner.told.clear()
    return owner


def dialling() -> Owner:
    """A node that has dialled its parent and said hello."""
    owner = Owner("child")
    owner.hub.dial("parent", 0.0)
    owner.hub.take()
    owner.peer_up("parent")
    return owner


def attached() -> Owner:
    """A node whose session with its parent is up."""
    owner = dialling()
    owner.receive("parent", welcomed(credit=100 * SMALL))
    owner.settle()
    owner.told.clear()
    return owner


def large(number: int, size: int) -> Publish:
    return Publish(make_batch("p", number, "t", 0, [bytes(size - 64)]))


# ------------------------------------------------------------------------------------------------------ beginning


def test_a_session_begins_with_hello_and_welcome():
    owner = Owner()
    assert owner.receive("child", hello()) == [Send("child", welcomed())]
    assert owner.told == [("admit", "child"), ("opened", "child", "fresh")]
    assert owner.hub.links["child"].state is LinkState.OPEN


def test_who_dials_says_what_it_has_and_sends_when_it_is_welcome():
    owner = Owner("child")
    owner.hub.start()
    owner.hub.dial("parent", 0.0)
    assert owner.hub.take() == [SetTimer(BEAT_TIMER, 2.0), Connect("parent")]
    assert owner.send("parent", ConfirmAck(1)) == []
    assert owner.peer_up("parent") == [Send("parent", hello(session=7, credit=CONFIG.window_bytes))]
    assert owner.receive("parent", welcomed(credit=SMALL)) == [Send("parent", Data(1, ConfirmAck(1)))]
    assert owner.told == [("opened", "parent", "fresh")]


@pytest.mark.parametrize(
    ("strange", "code", "sentence"),
    [
        (hello(version=99), "version", f"speaks version {WIRE_VERSION} of the wire, not 99"),
        (hello(cluster="other"), "cluster", "belongs to cluster 'holdfast', not 'other'"),
        (hello("here"), "name", "the name 'here' is the broker's own"),
        (hello(resume=True), "unknown-session", "does not know this session of child"),
        (hello(received=3), "misuse", "child begins a session of which it has 3 messages already"),
    ],
)
def test_a_hello_that_cannot_be_is_refused_and_the_connection_closed(strange: Hello, code: str, sentence: str):
    owner = Owner()
    refusal, end = owner.receive(strange.node, strange)
    assert isinstance(refusal, Send)
    assert isinstance(refusal.frame, Refusal)
    assert refusal.frame.code == code
    assert sentence in refusal.frame.reason
    assert end == Disconnect(strange.node, refusal.frame.reason)
    assert not owner.hub.links


def test_a_connection_does_not_change_its_name():
    owner = Owner()
    refused, end = owner.receive("child", hello("other"))
    assert isinstance(refused, Send)
    assert isinstance(refused.frame, Refusal)
    assert refused.frame.reason == "child said hello as 'other': a connection belongs to one node"
    assert isinstance(end, Disconnect)
    assert not owner.hub.links


def test_whom_the_owner_does_not_admit_is_refused_with_its_reason():
    owner = Owner()
    owner.refusal = Refusal("not-ready", "later")
    assert owner.receive("child", hello()) == [Send("child", owner.refusal), Disconnect("child", "later")]
    assert not owner.hub.links


def test_a_client_cannot_take_the_place_of_a_broker_by_its_name():
    owner = serving("child")
    owner.peer_down("child")
    [refused, _] = owner.receive("child", hello("child", "client", session=10))
    assert isinstance(refused, Send)
    assert isinstance(refused.frame, Refusal)
    assert refused.frame.code == "name"
    assert owner.receive("child", hello(resume=True)) == [Send("child", welcomed())]


def test_nobody_can_dial_in_as_the_peer_that_we_dial():
    owner = attached()
    owner.peer_down("parent")
    [refused, _, redial] = owner.receive("parent", hello("parent"))
    assert isinstance(refused, Send)
    assert isinstance(refused.frame, Refusal)
    assert refused.frame.code == "name"
    assert "parent" in owner.hub.links
    # Closing its connection may have taken our own attempt along: there is another one.
    assert isinstance(redial, SetTimer)
    assert redial.name == "redial:parent"


def test_a_newer_session_under_the_same_name_ends_the_older_one():
    owner = serving("child")
    owner.peer_down("child")
    owner.told.clear()
    assert owner.receive("child", hello(session=10)) == [Send("child", welcomed())]
    assert owner.told == [
        ("admit", "child"),
        ("ended", "child", "a newer session under the same name has begun"),
        ("opened", "child", "fresh"),
    ]
    assert owner.hub.links["child"].session == 10


# ------------------------------------------------------------------------------------------------------ resumption


def test_a_session_goes_on_over_a_new_connection_with_what_was_lost():
    owner = serving("child", config=LinkConfig(window_bytes=CONFIG.window_bytes))
    owner.send("child", ConfirmAck(1))
    owner.send("child", ConfirmAck(2))
    owner.peer_down("child")
    assert owner.send("child", ConfirmAck(3)) == []
    assert owner.receive("child", hello(resume=True, received=1)) == [
        Send("child", welcomed()),
        Send("child", Data(2, ConfirmAck(2))),
        Send("child", Data(3, ConfirmAck(3))),
    ]
    assert owner.told == [("closed", "child"), ("opened", "child", "resumed")]


def test_when_the_welcome_was_lost_the_dialler_begins_again_and_the_other_end_goes_on():
    owner = serving("child")
    owner.send("child", ConfirmAck(1))
    owner.peer_down("child")
    owner.told.clear()
    assert owner.receive("child", hello(resume=False)) == [
        Send("child", welcomed()),
        Send("child", Data(1, ConfirmAck(1))),
    ]
    assert owner.told == [("opened", "child", "resumed")]


def test_who_dials_redials_with_growing_patience_and_says_what_it_has():
    owner = attached()
    owner.receive("parent", Data(1, ConfirmAck(1)))
    assert owner.peer_down("parent") == [SetTimer(REDIAL_TIMER + "parent", 0.05)]
    assert owner.timer(REDIAL_TIMER + "parent") == [Connect("parent")]
    assert owner.peer_down("parent") == [SetTimer(REDIAL_TIMER + "parent", 0.1)]
    for _ in range(10):
        owner.peer_down("parent")
    assert owner.peer_down("parent") == [SetTimer(REDIAL_TIMER + "parent", CONFIG.redial_max_s)]
    [said] = owner.peer_up("parent")
    assert said == Send("parent", hello(session=7, resume=True, received=1, credit=CONFIG.window_bytes))
    owner.receive("parent", welcomed())
    assert owner.peer_down("parent") == [SetTimer(REDIAL_TIMER + "parent", 0.05)]


def test_who_was_dialled_waits_for_the_other_end_to_dial_again():
    owner = serving("child")
    assert owner.peer_down("child") == []


def test_a_peer_that_claims_more_than_was_sent_cannot_go_on():
    owner = serving("child")
    owner.send("child", ConfirmAck(1))
    owner.peer_down("child")
    owner.told.clear()
    refused, end = owner.receive("child", hello(resume=True, received=2))
    assert isinstance(refused, Send)
    assert isinstance(refused.frame, Refusal)
    assert refused.frame.code == "unknown-session"
    assert isinstance(end, Disconnect)
    assert owner.told == []


def test_whoever_is_not_ready_is_dialled_again_and_any_other_refusal_is_final():
    owner = dialling()
    assert owner.receive("parent", Refusal("not-ready", "later")) == [
        Disconnect("parent", "later"),
        SetTimer(REDIAL_TIMER + "parent", 0.05),
    ]
    owner.peer_up("parent")
    assert owner.receive("parent", Refusal("cluster", "no")) == [Disconnect("parent", "no")]
    assert owner.told == [("refused", "parent", "cluster")]


def test_a_connection_that_nobody_wants_any_more_is_closed():
    owner = attached()
    owner.hub.end("parent", "done")
    owner.hub.take()
    assert owner.peer_up("parent") == [Disconnect("parent", "not wanted any more")]


def test_what_arrives_without_a_session_or_a_connection_is_dropped():
    owner = serving("child")
    assert owner.receive("stranger", Data(1, ConfirmAck(1))) == []
    owner.peer_down("child")
    owner.told.clear()
    assert owner.receive("child", Data(1, ConfirmAck(1))) == []
    assert owner.told == []
    assert owner.hub.links["child"].received == 0


# --------------------------------------------------------------------------------------- acknowledgements and credit


def test_arrivals_are_acknowledged_after_a_while_at_the_latest():
    owner = serving("child", config=LinkConfig())
    owner.receive("child", Data(1, ConfirmAck(1)))
    assert owner.settle() == [SetTimer(ACK_TIMER, 0.02)]
    owner.receive("child", Data(2, ConfirmAck(2)))
    assert owner.settle() == []
    assert owner.timer(ACK_TIMER) == [Send("child", Ack(2, (1 << 20) + 2 * SMALL))]
    assert owner.settle() == []


def test_a_publisher_that_waits_for_its_receipt_is_acknowledged_at_the_end_of_the_turn():
    owner = serving("alice", kind="client", config=LinkConfig())
    owner.receive("alice", Data(1, ConfirmAck(1)))
    owner.hub.acknowledge_soon("alice")
    assert owner.settle() == [Send("alice", Ack(1, (1 << 20) + SMALL))]


def test_acknowledgements_of_the_peer_let_go_what_waited():
    owner = serving("child")
    owner.receive("child", Ack(0, 0))
    for number in (1, 2):
        owner.hub.links["child"].credit_out = SMALL
        owner.send("child", ConfirmAck(number))
    assert owner.receive("child", Ack(1, 2 * SMALL)) == [Send("child", Data(2, ConfirmAck(2)))]
    assert owner.told[-1] == ("acknowledged", "child")


def test_a_full_backlog_towards_one_peer_stops_the_credit_of_all_others():
    owner = serving("slow", "busy")
    owner.hub.links["slow"].credit_out = 0
    assert owner.send("slow", large(1, 2 * SMALL)) == []
    assert owner.send("slow", ConfirmAck(2)) == [Report("congested", peer="slow")]
    assert owner.send("slow", ConfirmAck(3)) == []
    for number in (1, 2, 3):
        owner.receive("busy", Data(number, ConfirmAck(number)))
        owner.receive("slow", Data(number, ConfirmAck(number)))
    # Who is slow itself must not be stopped: what it sends may be what makes room.
    acks = owner.settle()
    assert set(acks) == {
        Send("busy", Ack(3, CONFIG.window_bytes)),
        Send("slow", Ack(3, CONFIG.window_bytes + 3 * SMALL)),
    }
    # Nobody polls for what may not be granted.
    assert owner.settle() == []


def test_when_the_backlog_has_halved_everybody_gets_credit_again():
    owner = serving("slow", "busy")
    owner.hub.links["slow"].credit_out = 0
    for number in range(1, 5):
        owner.send("slow", ConfirmAck(number))
    for number in (1, 2, 3):
        owner.receive("busy", Data(number, ConfirmAck(number)))
    owner.settle()
    owner.hub.take()
    sent = owner.receive("slow", Ack(0, 2 * SMALL + 1))
    assert sent == [Send("slow", Data(number, ConfirmAck(number))) for number in (1, 2, 3)] + [
        Report("relieved", peer="slow")
    ]
    assert owner.settle() == [Send("busy", Ack(3, CONFIG.window_bytes + 3 * SMALL))]


def test_the_end_of_a_congested_session_is_a_relief():
    owner = serving("slow", "busy")
    owner.hub.links["slow"].credit_out = 0
    for number in range(1, 5):
        owner.send("slow", ConfirmAck(number))
    owner.receive("slow", Goodbye("enough"))
    assert owner.hub.congested == set()
    owner.hub.check_invariants()


def test_a_node_that_leaves_grants_brokers_what_it_has_to_finish_and_clients_nothing():
    owner = Owner()
    owner.receive("child", hello())
    owner.receive("alice", hello("alice", "client"))
    owner.settle()
    owner.hub.granting = False
    for number in (1, 2, 3):
        owner.receive("child", Data(number, ConfirmAck(number)))
        owner.receive("alice", Data(number, ConfirmAck(number)))
    assert owner.settle() == [
        Send("child", Ack(3, CONFIG.window_bytes + 3 * SMALL)),
        Send("alice", Ack(3, CONFIG.window_bytes)),
    ]


def test_what_the_owner_does_not_consume_takes_up_the_window():
    owner = serving("child")
    owner.hungry = False
    for number in (1, 2, 3):
        owner.receive("child", Data(number, ConfirmAck(number)))
    assert owner.settle() == [Send("child", Ack(3, CONFIG.window_bytes))]


# ------------------------------------------------------------------------------------------------------- heartbeats


def test_a_heartbeat_asks_every_open_link_and_is_answered():
    owner = serving("child")
    assert owner.timer(BEAT_TIMER, 2.0) == [SetTimer(BEAT_TIMER, 2.0), Send("child", Ping(1))]
    assert owner.receive("child", Ping(8)) == [Send("child", Pong(8))]
    assert owner.receive("child", Pong(1)) == []


def test_a_broker_asks_none_of_a_thousand_clients_that_ask_it():
    names = [f"c{number}" for number in range(1000)]
    owner = serving(*names, kind="client")
    for beat in range(1, 6):
        for name in names:
            assert owner.receive(name, Ping(beat), now=2.0 * beat - 1.0) == [Send(name, Pong(beat))]
            assert owner.settle() == []
        assert owner.timer(BEAT_TIMER, 2.0 * beat) == [SetTimer(BEAT_TIMER, 2.0)]


def test_a_client_that_says_nothing_for_half_a_silence_is_asked_and_then_given_up():
    owner = serving("alice", kind="client")
    assert owner.timer(BEAT_TIMER, 4.9) == [SetTimer(BEAT_TIMER, 2.0)]
    assert owner.timer(BEAT_TIMER, 5.0)[1:] == [Send("alice", Ping(1))]
    assert owner.timer(BEAT_TIMER, 7.0)[1:] == [Send("alice", Ping(2))]
    assert owner.timer(BEAT_TIMER, 10.0)[1:] == [Disconnect("alice", "alice has been silent for 10.0 s")]


def test_a_client_waits_longer_for_the_answer_to_each_hello():
    owner = Owner("alice", "client")
    owner.hub.dial("broker", 0.0)
    owner.hub.take()
    given_up_after, now = [], 0.0
    for _ in range(7):
        owner.peer_up("broker", now)
        said_at = now
        while not any(isinstance(effect, Disconnect) for effect in owner.timer(BEAT_TIMER, now)):
            now += 2.0
        given_up_after.append(now - said_at)
    assert given_up_after == [10.0, 20.0, 40.0, 80.0, 160.0, 160.0, 160.0]
    owner.peer_up("broker", now)
    owner.receive("broker", welcomed(), now)
    owner.peer_down("broker")
    owner.peer_up("broker", now)
    assert any(isinstance(effect, Disconnect) for effect in owner.timer(BEAT_TIMER, now + 10.0))


def test_a_broker_does_not_wait_longer_for_its_parent_with_each_hello():
    owner = dialling()
    for attempt in range(1, 4):
        assert any(isinstance(effect, Disconnect) for effect in owner.timer(BEAT_TIMER, 10.0 * attempt))
        owner.peer_up("parent", 10.0 * attempt)


def test_a_connection_that_is_silent_for_too_long_is_given_up():
    owner = serving("child")
    owner.receive("child", Pong(1), now=1.0)
    assert owner.timer(BEAT_TIMER, 10.5)[1:] == [Send("child", Ping(1))]
    [_, end] = owner.timer(BEAT_TIMER, 11.0)
    assert end == Disconnect("child", "child has been silent for 10.0 s")
    assert owner.told == [("closed", "child")]
    assert owner.timer(BEAT_TIMER, 13.0) == [SetTimer(BEAT_TIMER, 2.0)]


def test_a_silent_peer_that_we_dialled_is_dialled_again():
    owner = attached()
    [_, end, redial] = owner.timer(BEAT_TIMER, 10.0)
    assert isinstance(end, Disconnect)
    assert redial == SetTimer(REDIAL_TIMER + "parent", 0.05)


def test_a_timer_of_somebody_else_is_left_to_it():
    assert not Owner().hub.timer("give-up", 0.0)


# --------------------------------------------------------------------------------------------------------- violations


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        (Data(3, ConfirmAck(1)), "child sent message 3 after 0: something was skipped"),
        (Ack(1, 0), "child acknowledged message 1, but only 0 were sent to it"),
        (welcomed(), "child sent Welcome, but nobody had said hello to it"),
        (Refusal("not-ready", "no"), "child sent Refusal, but nobody had said hello to it"),
    ],
)
def test_a_peer_that_breaks_the_rules_loses_its_connection_and_may_resume(frame: Frame, sentence: str):
    owner = serving("child")
    assert owner.receive("child", frame) == [
        Report("violation", peer="child", detail=sentence),
        Disconnect("child", sentence),
    ]
    assert owner.told == [("closed", "child")]
    assert owner.receive("child", hello(resume=True)) == [Send("child", welcomed())]


def test_a_client_cannot_refuse_the_broker_that_it_attached_to():
    owner = serving("alice", kind="client")
    sentence = "alice sent Refusal, but nobody had said hello to it"
    assert owner.receive("alice", Refusal("excluded", "no")) == [
        Report("violation", peer="alice", detail=sentence),
        Send("alice", Refusal("misuse", sentence)),
        Disconnect("alice", sentence),
    ]
    assert owner.told == [("ended", "alice", sentence)]


def test_a_client_that_says_what_nobody_can_read_is_told_so_and_has_no_session_any_more():
    owner = serving("alice", kind="client")
    owner.hub.throw_out("alice", "5 bytes are no frame")
    assert owner.hub.take() == [
        Report("violation", peer="alice", detail="5 bytes are no frame"),
        Send("alice", Refusal("misuse", "5 bytes are no frame")),
        Disconnect("alice", "5 bytes are no frame"),
    ]
    assert owner.told == [("ended", "alice", "5 bytes are no frame")]


def test_a_broker_is_not_thrown_out_for_what_nobody_can_read():
    owner = serving("child")
    owner.hub.throw_out("child", "5 bytes are no frame")
    assert owner.hub.take() == []
    assert "child" in owner.hub.links


def test_a_client_that_ignores_its_credit_loses_its_session():
    owner = serving("alice", kind="client")
    link = owner.hub.links["alice"]
    link.received_bytes = link.credit_in
    sentence = f"alice sent message 1 after {link.credit_in} bytes, with credit for {link.credit_in}: it has to wait "
    effects = owner.receive("alice", Data(1, ConfirmAck(1)))
    sentence += "for more"
    assert effects[1:] == [Send("alice", Refusal("misuse", sentence)), Disconnect("alice", sentence)]
    assert "alice" not in owner.hub.links


def test_what_the_owner_objects_to_is_a_violation_too():
    class Choosy(Owner):
        def link_message(self, link: Link, message: SessionMessage) -> None:
            raise PeerViolation(f"{link.peer} sent {type(message).__name__}")

    owner = Choosy()
    owner.receive("child", hello())
    owner.settle()
    assert owner.receive("child", Data(1, ConfirmAck(1))) == [
        Report("violation", peer="child", detail="child sent ConfirmAck"),
        Disconnect("child", "child sent ConfirmAck"),
    ]
    # It has arrived: it is not sent again.
    assert owner.hub.links["child"].received == 1


# --------------------------------------------------------------------------------------------------------------- end


def test_a_goodbye_ends_the_session_for_good():
    owner = serving("child")
    assert owner.receive("child", Goodbye("enough")) == [Disconnect("child", "enough")]
    assert owner.told == [("ended", "child", "enough")]
    [refused, _] = owner.receive("child", hello(resume=True))
    assert isinstance(refused, Send)
    assert isinstance(refused.frame, Refusal)
    assert refused.frame.code == "unknown-session"


def test_a_session_that_we_end_is_told_if_anybody_is_there_to_hear_it():
    owner = serving("child", "gone")
    owner.peer_down("gone")
    owner.hub.close_all("leaving")
    assert owner.hub.take() == [
        Send("child", Goodbye("leaving")),
        Disconnect("child", "leaving"),
        CancelTimer(BEAT_TIMER),
        CancelTimer(ACK_TIMER),
    ]
    assert owner.hub.links == {}


def test_after_the_end_its_redial_timer_does_nothing():
    owner = attached()
    owner.peer_down("parent")
    owner.hub.end("parent", "done")
    assert owner.hub.take() == []
    assert owner.timer(REDIAL_TIMER + "parent") == []


def test_a_node_is_drained_when_every_open_link_has_been_acknowledged():
    owner = serving("child", "gone")
    owner.send("child", ConfirmAck(1))
    owner.send("gone", ConfirmAck(1))
    assert not owner.hub.drained()
    owner.receive("child", Ack(1, 100 * SMALL))
    assert not owner.hub.drained()
    owner.peer_down("gone")
    assert owner.hub.drained()
