"""The protocols on the bench: found by name, and asked for no more than they give."""

import pytest

from holdfast.model.guarantees import GuaranteeError
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.ginger import GingerBroker, LockingBroker
from holdfast.protocols.registry import (
    PROTOCOLS,
    ProtocolError,
    ProtocolInfo,
    check_supported,
    find_protocol,
    make_broker,
)


@pytest.mark.parametrize(("name", "kind"), [("ginger", GingerBroker), ("ginger-locks", LockingBroker)])
def test_a_broker_is_made_by_the_name_of_its_protocol(name: str, kind: type):
    broker = make_broker(name, BrokerConfig("b0"), 7)
    assert isinstance(broker, kind)
    assert (broker.name, broker.protocol, broker.guarantees) == ("b0", name, find_protocol(name).guarantees)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_protocol_says_what_it_is_and_what_it_survives(name: str):
    info = find_protocol(name)
    assert info.name == name
    assert info.summary
    assert info.tolerance
    assert info.make(BrokerConfig("b0"), 1).protocol == name


def test_an_unknown_protocol_is_refused_with_the_known_ones():
    with pytest.raises(ProtocolError, match=r"unknown protocol 'gin': choose one of ginger, ginger-locks"):
        make_broker("gin", BrokerConfig("b0"), 7)


def test_a_guarantee_that_a_protocol_gives_is_supported():
    for guarantee in ("eventual", "fifo", "causal", "total"):
        check_supported("ginger", guarantee)


def test_a_guarantee_that_a_protocol_lacks_is_refused_with_those_that_it_gives(monkeypatch: pytest.MonkeyPatch):
    weak = ProtocolInfo("weak", "for this test", (0, 1), "nothing", GingerBroker)
    monkeypatch.setitem(PROTOCOLS, "weak", weak)
    check_supported("weak", "fifo")
    with pytest.raises(GuaranteeError, match="protocol weak does not give 'total': it gives eventual, fifo"):
        check_supported("weak", "total")


def test_a_guarantee_that_does_not_exist_is_refused_before_the_protocol_is_asked():
    with pytest.raises(GuaranteeError, match="unknown guarantee 'best'"):
        check_supported("ginger", "best")
