"""A LoCaMu broker by itself: whoever cannot join is told so, once and for all."""

import pytest

from holdfast.model.errors import LocalMisuse
from holdfast.model.local_tree_messages import Admission
from holdfast.model.messages import WIRE_VERSION, Data, Hello, Refusal, Welcome
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.locamu import LocamuBroker
from holdfast.protocols.node import Send


def test_whoever_asks_to_join_under_the_name_of_another_is_turned_away_and_nothing_is_sent_to_it():
    sponsor = LocamuBroker(BrokerConfig("1", edges=(("0", "1"), ("1", "2")), tolerance=1), 1)
    sponsor.start(0.0)
    sponsor.receive("2", Hello(WIRE_VERSION, "2", "broker", "holdfast", 7, False, 0, 1000), 0.1)
    effects = sponsor.receive("2", Data(1, Admission("somewhere")), 0.2)
    [refusal] = [one.frame for one in effects if isinstance(one, Send) and isinstance(one.frame, Refusal)]
    assert refusal == Refusal("excluded", "there is, or was, a broker 2 in the tree near 1: choose another name")
    assert not sponsor.exchange.peers["2"].in_session


def test_a_newcomer_whose_name_is_taken_ends_and_says_why():
    newcomer = LocamuBroker(BrokerConfig("2", parent="1", tolerance=1), 1)
    newcomer.start(0.0)
    newcomer.peer_up("1", 0.1)
    newcomer.receive("1", Welcome("1", 0, 1000, 0, "locamu", (0, 1, 2), 1 << 20), 0.2)
    with pytest.raises(LocalMisuse, match="broker 2 cannot join below 1, and ends: choose another name"):
        newcomer.receive("1", Refusal("excluded", "choose another name"), 0.3)


def test_a_neighbour_that_comes_before_the_start_of_a_broker_is_welcome():
    broker = LocamuBroker(BrokerConfig("1", edges=(("0", "1"), ("1", "2")), tolerance=1), 1)
    effects = broker.receive("2", Hello(WIRE_VERSION, "2", "broker", "holdfast", 7, False, 0, 1000), 0.0)
    assert any(isinstance(one, Send) and isinstance(one.frame, Welcome) for one in effects)
    broker.start(0.1)
    assert broker.exchange.peers["2"].in_session
