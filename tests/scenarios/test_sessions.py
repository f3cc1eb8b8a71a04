"""Clients that come and go: what they leave with the brokers when they are gone."""

import pytest

from holdfast.model.messages import Data, Join, SessionMessage, View
from holdfast.model.wire import encode
from holdfast.protocols import given_up, last_numbers
from holdfast.protocols.config import BrokerConfig, LinkConfig
from holdfast.protocols.ginger import RepairingBroker
from holdfast.protocols.links import Link
from holdfast.simulation.faults import Attach, Crash, Detach, Subscribe
from holdfast.simulation.latencies import Constant
from holdfast.simulation.network import NetworkConfig
from holdfast.simulation.world import Simulation
from tests.scenarios.repairs import SEEDS, at, finish, got, listen, say, slow, tree
from tests.support.state import entries_of

EDGES = "0-1 0-2 1-3 3-4"
KEEP_S = 3.0
WAVE = 12


class Weigher(RepairingBroker):
    """A broker that weighs what others tell it of the tree."""

    bytes_max = 0

    def link_message(self, link: Link, message: SessionMessage) -> None:
        if isinstance(message, View | Join):
            self.bytes_max = max(self.bytes_max, len(encode(Data(0, message))))
        super().link_message(link, message)


def come_and_go(sim: Simulation, wave: int) -> None:
    """A dozen clients at each broker: some leave, some are killed, and their sessions expire."""
    for place in range(WAVE):
        for broker in "01234":
            name = f"client-{wave:04}-{place:02}-{broker}"
            address, start = f"{name}@{broker}", sim.now + 0.01 * place
            sim.at(start, Attach(address))
            sim.at(start, Subscribe(address, f"t/{name}"))
            sim.at(start + 0.3, Detach(name) if place % 3 else Crash(name))
    sim.run_for(KEEP_S + 2.0)


@pytest.mark.parametrize("tolerance", [1, 2])
def test_clients_that_came_and_went_leave_nothing(tolerance: int, monkeypatch: pytest.MonkeyPatch):
    # Receipts name those who were given up, for a while; here only until the wave is over.
    monkeypatch.setattr(given_up, "REMEMBERED_S", 0.0)
    sim = Simulation(
        EDGES,
        Weigher,
        3,
        network=NetworkConfig(latency=Constant(2.0), client_latency=Constant(0.1)),
        broker=BrokerConfig("*", link=LinkConfig(heartbeat_s=0.3), session_keep_s=KEEP_S, brokers=5),
        tolerance=tolerance,
        check_invariants=True,
    )
    sim.run_for(5.0)
    brokers = {name: sim.node(name) for name in "01234"}
    told = [0, 0]
    left: list[dict[str, dict[str, int]]] = []
    for wave in range(6):
        come_and_go(sim, wave)
        left.append({name: entries_of(node) for name, node in brokers.items()})
        for node in brokers.values():
            assert isinstance(node, Weigher)
            told[wave >= 3] = max(told[wave >= 3], node.bytes_max)
            node.bytes_max = 0
    for name in brokers:
        assert left[5][name] == left[2][name]
    assert told[1] <= told[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_repair_of_joiners_with_more_numbers_than_a_frame_holds_loses_nothing(
    seed: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(last_numbers, "NUMBERS_MAX", 2)
    sim = tree("P-B B-C", slow("B", "c1"), seed=seed)
    listen(sim, c1_B="t", c2_C="t", p_P="t")
    for place in range(5):
        for name in ("x@P", "y@P", "z@C", "u@C", "v@B"):
            say(sim, 0.001 * place, name, f"t:{name}{place}")
    at(sim, 0.0045, Crash("B"))
    say(sim, 0.2, "x@P", "t:after")
    finish(sim)
    assert len(got(sim, "c1")) == len(got(sim, "c2")) == len(got(sim, "p")) == 26
