"""What is wanted may not fit into one frame: brokers that come, and brokers that repair, hear of it in several."""

import pytest

from holdfast.simulation.faults import Crash, Join, Publish, Subscribe
from holdfast.simulation.network import NetworkConfig
from holdfast.simulation.world import Simulation

CLIENTS = ("m0@1", "m1@1", "m2@1", "m3@0", "m4@2")
WIDE = "x" * 1000
"""A thousand patterns as long as this are a megabyte, and a frame has four."""


def world() -> Simulation:
    sim = Simulation("0-1 0-2", "ginger", 1, tolerance=1, network=NetworkConfig(codec_check=True))
    for client in CLIENTS:
        for number in range(900):
            sim.at(0.5 + number / 1000, Subscribe(client, f"{client[:2]}/{number}/{WIDE}"))
    sim.run_until_quiet()
    return sim


@pytest.mark.parametrize("event", ["join", "crash"])
def test_interests_that_fit_into_no_frame_reach_whoever_joins(event: str):
    sim = world()
    assert not sim.failures()
    now = sim.now
    if event == "join":
        sim.at(now + 0.1, Join("3", "0"))
        publisher = "zoe@3"
    else:
        sim.at(now + 0.1, Crash("1"))
        publisher = "zoe@2"
    sim.at(now + 5.0, Publish(publisher, f"m0/7/{WIDE}", b"found"))
    sim.run_until_quiet()
    assert sim.delivered("m0") == [b"found"]
    assert not sim.failures()
    assert not sim.unrepaired()
