"""What brokers send through one port, and a mesh that lies on a tree."""

from typing import Any

import pytest

from holdfast.model.batches import make_batch
from holdfast.model.messages import Data, Frame, Hello, Ping, Publish
from holdfast.protocols.node import Connect, Effects, Send, SetTimer
from holdfast.simulation.carriers import Underlay, wire_weight
from tests.unit.simulation.toys import Toy, hello, toy, toys

TEN_A_SECOND = 10.0
"""Bytes; with frames of one byte each takes a tenth of a second."""


def one_byte(_sender: str, _receiver: str, frame: Frame) -> int:
    return int(isinstance(frame, Ping | Data))


class Root(Toy):
    """The root pings all its children at one second."""

    def __init__(self, *config: Any) -> None:
        super().__init__(*config)
        self.children: list[str] = []

    def start(self, now: float) -> Effects:
        return super().start(now) or [SetTimer("talk", 1.0)]

    def receive(self, peer: str, frame: Frame, now: float) -> Effects:
        if isinstance(frame, Hello):
            self.children.append(peer)
            return []
        return super().receive(peer, frame, now)

    def timer(self, _name: str, _now: float) -> Effects:
        return [Send(child, Ping(1)) for child in self.children]


def test_all_links_of_a_broker_share_its_bandwidth():
    sim = toys("0-1 0-2 0-3", Root)
    sim.run_for(0.5)
    sim.network.limit_brokers(TEN_A_SECOND, one_byte)
    sim.run_for(5.0)
    times = sorted(toy(sim, name).when("from 0")[0] for name in "123")
    assert times == pytest.approx([1.101, 1.201, 1.301])


def test_a_connection_that_comes_later_goes_through_the_same_port():
    sim = toys("0-1 0-2 0-3", Root)
    sim.network.limit_brokers(TEN_A_SECOND, one_byte)
    sim.run_for(5.0)
    assert max(toy(sim, name).when("from 0")[0] for name in "123") == pytest.approx(1.301)


class Member(Toy):
    """Everybody dials the root of the mesh, who sends each of them a copy of one message, whoever is its parent."""

    def start(self, now: float) -> Effects:
        super().start(now)
        return [Connect("0")] if self.name != "0" else [SetTimer("talk", 1.0)]

    def peer_up(self, peer: str, _now: float) -> Effects:
        return [Send(peer, hello(self.name))]

    def timer(self, _name: str, _now: float) -> Effects:
        copy = Publish(make_batch("p", 1, "t", 2, [b"x"]))
        return [Send(peer, Data(1, copy)) for peer in ("1", "2", "3", "4")]


def mesh(tree: str) -> Any:
    sim = toys(tree, Member)
    sim.network.lie_above(Underlay(sim.kernel, sim.tree, 0.001, wire_weight))
    sim.network.limit_brokers(TEN_A_SECOND, one_byte)
    return sim


def test_copies_of_a_message_that_take_one_edge_of_the_underlay_travel_as_one():
    sim = mesh("0-1 1-2 2-3 2-4")
    sim.run_for(5.0)
    assert [toy(sim, name).when("from 0")[0] for name in "1234"] == pytest.approx([1.101, 1.202, 1.303, 1.403])


def test_an_underlay_carries_what_goes_up_before_it_goes_down():
    sim = mesh("2-0 2-1 2-3 1-4")
    sim.run_for(5.0)
    # From 0 up to 2 (1.101), from there to 1 and 3 one after the other, from 1 to 4.
    assert [toy(sim, name).when("from 0")[0] for name in "2134"] == pytest.approx([1.101, 1.202, 1.302, 1.303])
