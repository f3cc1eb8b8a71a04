"""A broker that waits for a parent to open the link, and what it learns meanwhile."""

from holdfast.model.messages import Data, Join, Open, SessionMessage, Upward, View, Welcome
from holdfast.model.terms import Contact
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.ginger.repairing_broker import RepairingBroker
from holdfast.protocols.node import Effects, Send

WELCOME = Welcome("0", 0, 1 << 20, 0, "ginger", (0, 1, 2, 3), 1 << 20, 1)
OPENED = Open((), Upward((Contact("0", 7, ""),), (), ()), (), 0, 0)


def told(effects: Effects) -> list[SessionMessage]:
    frames = [effect.frame for effect in effects if isinstance(effect, Send) and effect.peer == "0"]
    return [frame.message for frame in frames if isinstance(frame, Data)]


def joined() -> RepairingBroker:
    """1, which has asked 0 to take it in."""
    broker = RepairingBroker(BrokerConfig("1", parent="0", tolerance=1), 5)
    broker.start(0.0)
    broker.peer_up("0", 0.0)
    assert any(isinstance(one, Join) and not one.dead for one in told(broker.receive("0", WELCOME, 0.0)))
    return broker


def test_a_death_that_was_heard_of_before_the_link_was_opened_is_told_when_it_is():
    broker = joined()
    broker.suspicion.suspect("9", 3, "somebody says so")
    views = [one for one in told(broker.receive("0", Data(1, OPENED), 0.1)) if isinstance(one, View)]
    assert [view.dead for view in views] == [(("9", 3),)]


def test_who_has_learnt_nothing_meanwhile_says_nothing_more():
    broker = joined()
    assert not any(isinstance(one, View) for one in told(broker.receive("0", Data(1, OPENED), 0.1)))
