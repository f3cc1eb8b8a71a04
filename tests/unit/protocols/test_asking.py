"""Who waits asks: publishers for their receipts, children for a parent that is not ready yet."""

from holdfast.model.costs import cost_bytes
from holdfast.model.guarantees import CAUSAL
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
    Refusal,
    SessionMessage,
    Subscribe,
    Welcome,
)
from holdfast.protocols.clients import ClientNode
from holdfast.protocols.config import ClientConfig, LinkConfig
from holdfast.protocols.hub import ACK_TIMER, REDIAL_TIMER, Hub
from holdfast.protocols.links import Link
from holdfast.protocols.node import Accepted, Effects, Send, SetTimer

SMALL = cost_bytes(ConfirmAck(1))
PLENTY = 1 << 40


# ------------------------------------------------------------------------------------------------- who is asked


class Bystander:
    """The owner of a hub that takes whatever comes and cares for nothing."""

    def __init__(self, name: str, kind: Kind, config: LinkConfig) -> None:
        self.hub = Hub(self, name, kind, "holdfast", config, 7)

    def admit(self, hello: Hello) -> Refusal | None:
        """Everybody may come."""

    def welcome(self, hello: Hello) -> tuple[int, str, tuple[int, ...]]:
        return len(hello.node), "ginger", (0, 1)

    def link_opened(self, link: Link, fresh: bool) -> None: ...

    def link_closed(self, link: Link) -> None: ...

    def link_ended(self, link: Link, reason: str) -> None: ...

    def link_refused(self, link: Link, refusal: Refusal) -> None: ...

    def link_message(self, link: Link, message: SessionMessage) -> None:
        self.hub.consumed(link, message)

    def link_acknowledged(self, link: Link) -> None: ...

    def link_levels(self, link: Link, levels: Levels) -> None: ...


def listening(config: LinkConfig) -> Hub:
    """A broker's hub with one client, alice."""
    hub = Bystander("here", "broker", config).hub
    hub.receive("alice", Hello(WIRE_VERSION, "alice", "client", "holdfast", 9, False, 0, PLENTY), 0.0)
    hub.settle()
    hub.take()
    return hub


def said(hub: Hub, *frames: Frame) -> Effects:
    """What the hub answers when alice sends these in one turn."""
    for frame in frames:
        hub.receive("alice", frame, 0.0)
    hub.settle()
    return hub.take()


def test_who_is_not_asked_takes_its_time_to_acknowledge():
    assert said(listening(LinkConfig()), Data(1, ConfirmAck(1))) == [SetTimer(ACK_TIMER, 0.02)]


def test_who_is_asked_acknowledges_in_the_same_turn():
    config = LinkConfig()
    answers = said(listening(config), Data(1, ConfirmAck(1)), Ping(1))
    assert answers == [Send("alice", Pong(1)), Send("alice", Ack(1, config.window_bytes + SMALL))]


def test_who_is_asked_and_has_nothing_new_to_say_says_only_that_it_is_there():
    hub = listening(LinkConfig())
    said(hub, Data(1, ConfirmAck(1)), Ping(1))
    assert said(hub, Ping(2)) == [Send("alice", Pong(2))]


def test_so_many_frames_are_acknowledged_without_a_question():
    config = LinkConfig(ack_frames=3)
    hub = listening(config)
    assert said(hub, Data(1, ConfirmAck(1)), Data(2, ConfirmAck(2))) == [SetTimer(ACK_TIMER, 0.02)]
    assert said(hub, Data(3, ConfirmAck(3))) == [Send("alice", Ack(3, config.window_bytes + 3 * SMALL))]
    assert said(hub, Data(4, ConfirmAck(4))) == []


def test_a_quarter_of_the_window_is_granted_again_without_a_question():
    config = LinkConfig(window_bytes=8 * SMALL)
    hub = listening(config)
    assert said(hub, Data(1, ConfirmAck(1))) == [SetTimer(ACK_TIMER, 0.02)]
    assert said(hub, Data(2, ConfirmAck(2))) == [Send("alice", Ack(2, 10 * SMALL))]


# --------------------------------------------------------------------------------------------------- who asks


def attached(credit: int = PLENTY) -> ClientNode:
    """A client with a broker that has let it in."""
    client = ClientNode(ClientConfig("alice"), 7)
    client.start(0.0)
    client.peer_up("broker", 0.0)
    client.receive("broker", Welcome("b", 0, credit, 0, "ginger", (0, 1, 2, 3), 1 << 20), 0.0)
    client.settle(0.0)
    return client


def frames(effects: Effects) -> list[Frame]:
    return [effect.frame for effect in effects if isinstance(effect, Send)]


def kinds(effects: Effects) -> list[str]:
    """What is sent, one word a frame; of what is numbered, the message."""
    return [type(one.message if isinstance(one, Data) else one).__name__ for one in frames(effects)]


def published(client: ClientNode) -> int:
    return client.publish("t", b"x", CAUSAL)


def test_a_client_that_nobody_waits_for_asks_nothing():
    client = attached()
    published(client)
    assert kinds(client.settle(0.0)) == ["Publish"]


def test_a_client_asks_with_the_publication_that_somebody_waits_for():
    client = attached()
    client.hurry(published(client))
    assert kinds(client.settle(0.0)) == ["Publish", "Ping"]
    assert kinds(client.settle(0.0)) == []
    assert Accepted(1) in client.receive("broker", Ack(1, PLENTY), 0.0)
    assert kinds(client.settle(0.0)) == []


def test_a_client_asks_later_if_somebody_begins_to_wait_later():
    client = attached()
    seq = published(client)
    assert kinds(client.settle(0.0)) == ["Publish"]
    client.hurry(seq)
    assert kinds(client.settle(0.0)) == ["Ping"]


def test_what_is_accepted_already_is_not_asked_about():
    client = attached()
    seq = published(client)
    client.settle(0.0)
    client.receive("broker", Ack(1, PLENTY), 0.0)
    client.hurry(seq)
    assert kinds(client.settle(0.0)) == []


def test_what_waits_for_credit_is_asked_about_when_the_last_of_it_has_left():
    client = attached(credit=1)
    published(client)
    client.hurry(client.publish("another topic", b"x", CAUSAL))
    assert kinds(client.settle(0.0)) == ["Publish"]
    assert kinds(client.receive("broker", Ack(1, PLENTY), 0.0)) == ["Publish"]
    assert kinds(client.settle(0.0)) == ["Ping"]


def test_a_question_that_died_with_its_connection_is_asked_again():
    client = attached()
    client.hurry(published(client))
    assert kinds(client.settle(0.0)) == ["Publish", "Ping"]
    client.peer_down("broker", 1.0)
    client.peer_up("broker", 2.0)
    assert kinds(client.receive("broker", Welcome("b", 0, PLENTY, 0, "ginger", (), 1 << 20), 2.0)) == ["Publish"]
    assert kinds(client.settle(2.0)) == ["Ping"]


def test_a_client_that_leaves_asks_so_that_it_can_go():
    client = attached()
    published(client)
    client.subscribe("t", "", 0.0)
    assert kinds(client.stop(0.0)) == ["Ping"]
    assert kinds(client.receive("broker", Ack(2, PLENTY), 0.0)) == ["Goodbye"]


def test_a_client_that_leaves_with_nothing_on_its_way_just_goes():
    [goodbye] = frames(attached().stop(0.0))
    assert isinstance(goodbye, Goodbye)


# ------------------------------------------------------------------------------------------- who is not ready yet


def refused(kind: Kind, times: int) -> list[float]:
    """After how long somebody of that kind dials again, each time that it is told to come back later."""
    hub = Bystander("child", kind, LinkConfig(redial_s=0.01, redial_max_s=2.0)).hub
    hub.dial("parent", 0.0)
    waits = []
    for _ in range(times):
        hub.peer_up("parent", 0.0)
        hub.take()
        hub.receive("parent", Refusal("not-ready", "later"), 0.0)
        waits += [
            one.after_s for one in hub.take() if isinstance(one, SetTimer) and one.name == REDIAL_TIMER + "parent"
        ]
    return waits


def test_a_child_does_not_lose_patience_with_a_parent_that_is_not_ready():
    assert refused("broker", 6) == [0.01, 0.02, 0.04, 0.05, 0.05, 0.05]


def test_clients_are_many_and_come_back_less_and_less_often():
    assert refused("client", 6) == [0.01, 0.02, 0.04, 0.08, 0.16, 0.32]


def test_a_request_needs_no_question_its_answer_is_one():
    client = attached()
    _, effects = client.subscribe("t", "", 0.0)
    assert frames(effects) == [Data(1, Subscribe(1, "t", ""))]
    assert frames(client.settle(0.0)) == []


# -------------------------------------------------------------------------------------------- whom one waits for


def test_whoever_has_something_for_a_peer_without_credit_says_that_it_waits():
    hub = listening(LinkConfig())
    assert hub.waiting_for() == []
    hub.links["alice"].credit_out = 0
    hub.send("alice", ConfirmAck(1))
    assert not hub.congested
    assert hub.waiting_for() == ["credit from alice"]
    hub.receive("alice", Ack(0, PLENTY), 0.0)
    assert hub.waiting_for() == []


def test_what_waits_for_a_client_that_is_away_is_no_reason_however_much_it_is():
    hub = listening(LinkConfig(backlog_bytes_max=SMALL))
    hub.peer_down("alice")
    hub.send("alice", ConfirmAck(1))
    assert hub.waiting_for() == []
    hub.send("alice", ConfirmAck(2))
    assert hub.links["alice"].backlog_bytes > SMALL
    assert hub.waiting_for() == []
