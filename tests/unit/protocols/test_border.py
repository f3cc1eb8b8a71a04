"""Who may say what to a broker: a peer that breaks the rules loses its session, and nobody else notices."""

import pytest
from msgspec.structs import replace

from holdfast.model.batches import make_batch
from holdfast.model.direct_messages import Cast, Roster
from holdfast.model.messages import (
    WIRE_VERSION,
    Data,
    Goodbye,
    Hello,
    Join,
    Kind,
    Open,
    Publish,
    Refusal,
    Seek,
    SessionMessage,
    Subscribe,
    Twig,
    View,
    Welcome,
)
from holdfast.model.terms import Contact
from holdfast.protocols.comparators.cbcast import CbcastBroker
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.ginger.repairing_broker import RepairingBroker
from holdfast.protocols.node import Effects, Report, Send

BATCH = make_batch("mallory", 1, "a", 1, [b"x"])


class Stage:
    """A root that repairs trees, and peers that say to it what they like."""

    def __init__(self) -> None:
        self.broker = RepairingBroker(BrokerConfig("0", tolerance=1), 7)
        self.broker.start(0.0)
        self._said: dict[str, int] = {}

    def hello(self, name: str, session: int, kind: Kind = "client") -> Welcome | Refusal:
        self._said[name] = 0
        hello = Hello(WIRE_VERSION, name, kind, "holdfast", session, False, 0, 1 << 20)
        effects = self.broker.receive(name, hello, 0.0)
        answers = [one.frame for one in effects if isinstance(one, Send)]
        return next(frame for frame in answers if isinstance(frame, Welcome | Refusal))

    def says(self, name: str, message: SessionMessage) -> Effects:
        self._said[name] += 1
        return self.broker.receive(name, Data(self._said[name], message), 0.0)

    def violation(self, name: str, message: SessionMessage) -> str:
        reports = [one for one in self.says(name, message) if isinstance(one, Report)]
        return next((one.detail for one in reports if one.event == "violation"), "")

    def with_neighbour(self, *below: Twig) -> "Stage":
        self.hello("1", 5, "broker")
        self.says("1", Join(Twig("1", "broker", 5, "", below), "", (), {}, (), 0, 0))
        return self

    def loses(self, name: str) -> "Stage":
        self.broker.peer_down(name, 0.1)
        self.broker.timer(f"suspect:{name}", 1.0)
        return self


def join(name: str, epoch: int, old: str = "", **more: object) -> Join:
    kind: Kind = "client"
    return Join(Twig(name, kind, epoch, ""), old, (), {}, (), 0, 0, **more)  # type: ignore[arg-type]


def test_a_client_that_lies_about_its_epoch_and_leaves_a_repair_does_not_end_the_broker():
    """It said goodbye in one epoch and waited to be let in in another: the repair ended with a link to nobody."""
    stage = Stage().with_neighbour(Twig("mallory", "client", 3, ""), Twig("bob", "client", 4, "")).loses("1")
    stage.hello("mallory", 3)
    stage.says("mallory", join("mallory", 9, old="1"))
    stage.broker.receive("mallory", Goodbye("enough"), 1.1)
    stage.broker.timer("join:1", 5.0)
    stage.broker.settle(5.0)
    assert not stage.broker.repairs.flushes
    assert "mallory" not in stage.broker.hub.links


def test_a_client_that_leaves_in_the_midst_of_a_repair_is_not_waited_for():
    stage = Stage().with_neighbour(Twig("mallory", "client", 3, ""), Twig("bob", "client", 4, "")).loses("1")
    stage.hello("mallory", 3)
    stage.says("mallory", join("mallory", 3, old="1"))
    stage.broker.receive("mallory", Goodbye("enough"), 1.1)
    stage.broker.timer("join:1", 5.0)
    assert not stage.broker.repairs.flushes


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (join("mallory", 4), "as the client mallory of epoch 4"),
        (join("bob", 3), "as the client bob of epoch 3"),
        (Join(Twig("mallory", "broker", 3, ""), "", (), {}, (), 0, 0), "as the broker mallory"),
        (Join(Twig("mallory", "client", 3, ""), "", (("1", 5),), {}, (), 0, 0), "of which a client knows nothing"),
        (
            Join(Twig("mallory", "client", 3, "", (Twig("2", "broker", 1, ""),)), "", (), {}, (), 0, 0),
            "of which a client knows nothing",
        ),
        (Join(Twig("mallory", "client", 3, ""), "", (), {"bob": 1}, (), 0, 0), "with messages of another broker"),
        (join("mallory", 3, unconfirmed=(("a", ""),)), "with a new interest that is none of its interests"),
        (Join(Twig("mallory", "client", 3, ""), "", (), {}, (("a//b", ""),), 0, 0), "empty level"),
        (Publish(BATCH), "it may send Interests, Join, Numbers, Unstable"),
        (Subscribe(1, "a", ""), "it may send Interests, Join, Numbers, Unstable"),
        (Open((), None, (), 0, 0), "it may send Interests, Join, Numbers, Unstable"),  # type: ignore[arg-type]
    ],
)
def test_a_client_that_cannot_mean_what_it_says_is_not_let_in(message: SessionMessage, why: str):
    stage = Stage()
    stage.hello("mallory", 3)
    assert why in stage.violation("mallory", message)
    assert "mallory" not in stage.broker.hub.links
    assert "mallory" not in stage.broker.log.flows


def test_a_client_that_waits_to_be_let_in_may_say_nothing():
    stage = Stage().with_neighbour(Twig("mallory", "client", 3, ""), Twig("bob", "client", 4, "")).loses("1")
    stage.hello("mallory", 3)
    stage.says("mallory", join("mallory", 3, old="1"))
    assert stage.violation("mallory", join("mallory", 3, old="1")).endswith("sent Join; it may send nothing")


def test_a_broker_that_is_no_neighbour_may_ask_and_not_publish():
    stage = Stage()
    stage.hello("2", 5, "broker")
    assert not stage.violation("2", Seek((("0", 7),)))
    stage.hello("3", 5, "broker")
    said = stage.violation("3", Publish(BATCH))
    assert said.startswith("3 is a broker that is no neighbour and sent Publish; it may send Census, Counted")


def test_a_batch_of_a_neighbour_whose_columns_do_not_fit_is_refused():
    stage = Stage().with_neighbour()
    broken = replace(make_batch("alice", 1, "a", 1, [b"x", b"yz"]), count=3)
    assert "3 messages but 8 bytes of lengths" in stage.violation("1", Publish(broken))


@pytest.mark.parametrize("name", ["0", "1", "2"])
def test_a_client_may_not_have_the_name_of_a_broker(name: str):
    stage = Stage().with_neighbour(Twig("2", "broker", 6, ""))
    answer = stage.hello(name, 99)
    assert isinstance(answer, Refusal)
    assert answer.code == "name"
    assert "choose another" in answer.reason
    assert stage.broker.hub.links["1"].session == 5


def test_a_change_that_would_be_passed_on_for_ever_is_refused():
    stage = Stage().with_neighbour()
    endless = View(1, 1 << 40, None, None, ())
    assert "at most 1 are needed" in stage.violation("1", endless)


def test_a_broker_that_waits_to_be_let_in_cannot_have_itself_sent_away():
    """It asked for somebody else while it waited, was refused, and the repair ended with a link to nobody."""
    stage = Stage().with_neighbour(Twig("2", "broker", 3, ""), Twig("bob", "client", 4, "")).loses("1")
    stage.hello("2", 3, "broker")
    stage.says("2", Join(Twig("2", "broker", 3, ""), "1", (("1", 5),), {}, (), 0, 0))
    stage.says("2", Seek((("9", 1),)))
    stage.broker.timer("join:1", 5.0)
    stage.broker.settle(5.0)
    assert "2" in stage.broker.hub.links


@pytest.mark.parametrize(
    "roster",
    [
        Roster(2, ()),
        Roster(2, (Contact("b0", 7, ""), Contact("b0", 8, "")), ((), ())),
        Roster(2, (Contact("b0", 7, ""),), ()),
        Roster(2, (Contact("b1", 5, ""),), ((),)),
    ],
    ids=["empty", "twice", "without patterns", "without us"],
)
def test_a_roster_that_cannot_be_is_refused(roster: Roster):
    broker = CbcastBroker(BrokerConfig("b0"), 7)
    broker.start(0.0)
    broker.receive("b1", Hello(WIRE_VERSION, "b1", "broker", "holdfast", 5, False, 0, 1 << 20), 0.0)
    effects = broker.receive("b1", Data(1, roster), 0.0)
    assert [one.event for one in effects if isinstance(one, Report)] == ["violation", "detach"]
    assert broker.roster.number == 1


def test_a_cast_of_a_broker_that_is_no_member_is_refused():
    broker = CbcastBroker(BrokerConfig("b0"), 7)
    broker.start(0.0)
    broker.receive("b1", Hello(WIRE_VERSION, "b1", "broker", "holdfast", 5, False, 0, 1 << 20), 0.0)
    effects = broker.receive("b1", Data(1, Cast(1, 1, 0, (), BATCH)), 0.0)
    assert [one.event for one in effects if isinstance(one, Report)] == ["violation", "detach"]
