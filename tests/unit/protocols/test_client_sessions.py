"""When sessions at a broker's edge end because nobody uses them, and how many there may be."""

from typing import cast

import pytest

from holdfast.model.messages import WIRE_VERSION, Hello, Kind
from holdfast.protocols.client_sessions import ClientSessions
from holdfast.protocols.config import BrokerConfig, LinkConfig
from holdfast.protocols.hub import Hub
from holdfast.protocols.links import Link
from holdfast.protocols.slow_readers import SlowReaders

CONFIG = BrokerConfig("b", sessions_max=2, session_keep_s=30.0, stall_s=10.0)


class Ends:
    """A hub of which only the links, the full ones and the ends of sessions matter. It keeps a diary."""

    def __init__(self) -> None:
        self.links: dict[str, Link] = {}
        self.congested: dict[str, None] = {}
        self.diary: list[str] = []

    def end(self, peer: str, reason: str, say: bool) -> None:  # noqa: ARG002
        self.diary.append(f"end {reason}")
        del self.links[peer]

    def end_slow(self, peer: str, reason: str) -> None:
        self.diary.append(f"slow {reason}")
        del self.links[peer]
        self.congested.pop(peer, None)

    def connect(self, peer: str, kind: Kind = "client", is_open: bool = True) -> Link:
        link = self.links[peer] = Link(peer, kind, 1, False, LinkConfig(), 0.0)
        if is_open:
            link.open(0, 0, 0.0)
        return link


@pytest.fixture
def hub() -> Ends:
    return Ends()


@pytest.fixture
def sessions(hub: Ends) -> ClientSessions:
    slow_readers = SlowReaders(hub.links, 1)
    return ClientSessions(CONFIG, cast("Hub", hub), slow_readers, lambda peer: hub.diary.append(f"note {peer}"))


def test_the_session_of_a_client_that_stays_away_is_noted_and_ended(hub: Ends, sessions: ClientSessions):
    hub.connect("ann", is_open=False)
    sessions.detached_at["ann"] = 5.0
    sessions.expire(34.9)
    assert hub.diary == []
    sessions.expire(35.0)
    assert hub.diary == ["note ann", "end ann was away for 30.0 s"]


def test_an_absence_that_is_over_is_forgotten(hub: Ends, sessions: ClientSessions):
    hub.connect("ann")
    sessions.detached_at |= {"ann": 0.0, "gone": 0.0}
    sessions.expire(100.0)
    assert (hub.diary, sessions.detached_at) == ([], {})


def test_the_time_of_a_client_that_takes_nothing_counts_from_its_full_buffer_on(hub: Ends, sessions: ClientSessions):
    hub.connect("ann").progress_at = 0.0
    hub.congested["ann"] = None
    sessions.expire(50.0)
    sessions.expire(59.9)
    assert hub.diary == []
    sessions.expire(60.0)
    assert hub.diary == ["note ann", "slow ann took nothing from a full buffer for 10.0 s"]


def test_what_a_client_takes_begins_its_time_anew(hub: Ends, sessions: ClientSessions):
    link = hub.connect("ann")
    hub.congested["ann"] = None
    sessions.expire(50.0)
    link.progress_at = 55.0
    sessions.expire(64.9)
    assert hub.diary == []
    sessions.expire(65.0)
    assert hub.diary[0] == "note ann"


def test_a_broker_with_a_full_buffer_keeps_its_session(hub: Ends, sessions: ClientSessions):
    hub.connect("c", "broker")
    hub.congested["c"] = None
    sessions.expire(0.0)
    sessions.expire(1000.0)
    assert hub.diary == []


def test_a_client_too_many_is_refused_and_one_that_comes_back_is_not(hub: Ends, sessions: ClientSessions):
    def refused(node: str, kind: Kind = "client") -> bool:
        hello = Hello(WIRE_VERSION, node, kind, "holdfast", 1, False, 0, 0)
        return sessions.refusal(hello) is not None

    hub.connect("ann")
    assert not refused("bob")
    hub.connect("bob")
    assert refused("eve")
    assert not refused("bob")
    assert not refused("c", "broker")
