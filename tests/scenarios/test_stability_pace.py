"""Words about stability: at once where messages are rare, at a pace where they are many, and never too few."""

import pytest

from holdfast.protocols.ginger import RepairingBroker
from holdfast.simulation.faults import Publish, Subscribe
from holdfast.simulation.world import Simulation

COUNT = 100
LINKS = 4
"""Two between brokers, and one of each client."""


def kept(sim: Simulation, broker: str) -> object:
    node = sim.node(broker)
    assert isinstance(node, RepairingBroker)
    return node.status()["kept"]


def levels_said(spacing_s: float, tolerance: int) -> float:
    """How many `Levels` all nodes of a small tree have sent for a message when messages are that far apart."""
    sim = Simulation("0-1 1-2", seed=4, tolerance=tolerance)
    sim.at(0.0, Subscribe("bob@0", "a"))
    for number in range(COUNT):
        sim.at(2.0 + number * spacing_s, Publish("alice@2", "a", b"x"))
    sim.run_until_quiet(limit_s=3600)
    assert len(sim.delivered("bob@0", "a")) == COUNT
    # Nothing is kept for want of a word about it.
    assert [kept(sim, name) for name in "012"] == [0, 0, 0]
    frames = sim.summary()["frames"]
    assert isinstance(frames, dict)
    return float(frames["Levels"]) / COUNT


@pytest.mark.parametrize("tolerance", [1, 2])
def test_stability_is_said_at_once_where_messages_are_rare_and_at_a_pace_where_they_are_many(tolerance: int):
    rare, many = levels_said(0.1, tolerance), levels_said(0.001, tolerance)
    assert rare > 8
    assert many < rare / 5
    assert many < 0.5 * LINKS
