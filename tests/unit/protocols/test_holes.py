"""Notices of holes as values: whom they are told to, once each, and who is told again."""

from holdfast.model.hole_messages import ABOUT_MAX, Hole
from holdfast.model.messages import SessionMessage
from holdfast.protocols.holes import HEARD_MAX, RETOLD_MAX, RETOLD_S, HoleNotices, HolesHeard
from holdfast.protocols.node import Missing, Report


class Broker:
    """What a broker lends to its notices."""

    def __init__(self, *peers: str) -> None:
        self.peers = list(peers)
        self.now = 100.0
        self.said: list[tuple[str, SessionMessage]] = []
        self.reports: list[Report] = []
        self.holes = HoleNotices(
            "b", 7, lambda peer, message: self.said.append((peer, message)), lambda: self.peers, self.reports.append,
            lambda: self.now, lambda peer: not peer.startswith("client"),
        )  # fmt: skip

    def told(self) -> list[str]:
        """Who was told since this was asked last."""
        told, self.said = [peer for peer, _ in self.said], []
        return told


def from_afar(number: int = 1, everywhere: bool = False) -> Hole:
    return Hole("far", 3, number, everywhere, "a bound was exceeded")


def test_everybody_is_told_and_the_broker_reports_it():
    broker = Broker("up", "down", "alice")
    hole = broker.holes.announce("begins anew")
    assert hole == Hole("b", 7, 1, True, "begins anew")
    assert broker.said == [("up", hole), ("down", hole), ("alice", hole)]
    assert broker.reports == [Report("hole", detail="begins anew")]


def test_one_peer_may_be_left_out_and_a_notice_may_go_to_some_alone():
    broker = Broker("up", "down", "alice")
    assert broker.holes.announce("x", except_peer="up") == Hole("b", 7, 1, False, "x")
    assert broker.told() == ["down", "alice"]
    assert broker.holes.announce("x", towards=["down"]) == Hole("b", 7, 2, False, "x")
    assert broker.told() == ["down"]
    assert broker.holes.announce("x", towards=[]) is None
    assert broker.told() == []


def test_what_comes_from_a_neighbour_is_passed_on_once_and_not_back():
    broker = Broker("up", "down", "alice")
    broker.holes.on_hole("up", from_afar())
    assert broker.told() == ["down", "alice"]
    broker.holes.on_hole("down", from_afar())
    assert broker.told() == []


def test_our_own_notice_that_comes_back_is_not_passed_on():
    broker = Broker("up", "down")
    hole = broker.holes.announce("x")
    assert hole is not None
    broker.told()
    broker.holes.on_hole("down", hole)
    assert broker.told() == []


def test_a_link_that_is_opened_is_told_what_it_may_have_missed():
    broker = Broker("up")
    broker.holes.announce("x")
    broker.holes.on_hole("up", from_afar())
    broker.told()
    broker.holes.retell("new")
    assert broker.told() == ["new", "new"]


def test_a_notice_that_concerns_one_side_alone_is_not_told_back_to_the_other_under_a_new_name():
    broker = Broker("up", "down")
    broker.holes.on_hole("up", from_afar(1, everywhere=False))
    broker.holes.on_hole("up", from_afar(2, everywhere=True))
    broker.told()
    broker.holes.rename("up", "higher")
    broker.holes.retell("higher")
    assert [message for _, message in broker.said] == [from_afar(2, everywhere=True)]


def test_those_out_of_reach_and_those_in_their_place_are_told_when_they_are_let_in():
    broker = Broker("up", "down")
    broker.holes.announce("kept no longer", towards=["lost"])
    assert broker.told() == []
    broker.holes.retell("stranger")
    assert broker.told() == []
    broker.holes.retell("orphan", instead_of="lost")
    broker.holes.retell("lost")
    assert broker.told() == ["orphan", "lost"]


def test_a_notice_about_clients_goes_to_brokers_and_to_those_clients_alone():
    broker = Broker("up", "down", "client1", "client2")
    broker.holes.announce_about(["client2", "elsewhere"], "their sessions were given up")
    assert broker.told() == ["up", "down", "client2"]
    assert broker.reports == [Report("hole", peer="client2,elsewhere", detail="their sessions were given up")]
    broker.holes.retell("client3")
    broker.holes.retell("elsewhere")
    assert broker.told() == ["elsewhere"], "a client that comes later is told if the notice is about it"


def test_a_notice_about_clients_of_another_broker_is_passed_on_and_is_no_hole_for_receipts_here():
    broker = Broker("up", "down", "client1")
    broker.holes.on_hole("up", Hole("far", 3, 1, True, "given up", ("client1",)))
    assert broker.told() == ["down", "client1"]
    assert broker.holes.since(1e9) == ""


def test_notices_about_many_clients_do_not_push_out_those_about_everybody():
    broker = Broker()
    broker.holes.announce("begins anew")
    broker.holes.announce_about([f"client{number}" for number in range(2 * RETOLD_MAX * ABOUT_MAX)], "given up")
    broker.holes.retell("client0")
    assert [hole.reason for _, hole in broker.said if isinstance(hole, Hole)] == ["begins anew"]
    broker.holes.retell("new")
    assert len(broker.told()) == 1 + 1 + RETOLD_MAX


def test_what_is_told_again_is_bounded_by_number_and_time():
    broker = Broker()
    for number in range(RETOLD_MAX + 5):
        broker.holes.on_hole("up", from_afar(number + 1))
    broker.holes.retell("new")
    assert len(broker.told()) == RETOLD_MAX
    broker.now += RETOLD_S + 1
    broker.holes.retell("newer")
    assert broker.told() == []


def test_whether_there_was_a_hole_since_some_time():
    broker = Broker()
    assert broker.holes.since(1e9) == ""
    broker.holes.announce("begins anew")
    broker.now += 5.0
    assert broker.holes.since(4.0) == ""
    assert broker.holes.since(6.0) == "begins anew"


def test_a_client_that_is_owed_something_is_told_once():
    heard = HolesHeard()
    told = [Report("gap", peer="b0", detail="a bound was exceeded"), Missing("a bound was exceeded")]
    assert heard.hear(from_afar(), "b0", is_owed=True) == told
    assert heard.hear(from_afar(), "b1", is_owed=True) == []


def test_what_a_client_heard_of_when_it_was_owed_nothing_does_not_concern_it_later():
    heard = HolesHeard()
    assert heard.hear(from_afar(), "b0", is_owed=False) == []
    assert heard.hear(from_afar(), "b1", is_owed=True) == []


def test_what_is_remembered_is_bounded():
    heard = HolesHeard()
    for number in range(HEARD_MAX + 1):
        assert heard.is_new(from_afar(number + 1))
    assert not heard.is_new(from_afar(HEARD_MAX + 1))
    assert heard.is_new(from_afar(1))
