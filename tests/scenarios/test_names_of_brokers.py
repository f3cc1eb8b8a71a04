"""A client may not have the name of a broker; where nobody knows that broker, its end is no broker's end."""

from holdfast.protocols.config import ClientConfig
from holdfast.protocols.moving import MovingClient
from holdfast.simulation.applications import ClientHost
from holdfast.simulation.faults import Attach, Publish, Subscribe
from holdfast.simulation.world import Simulation

LATER = 5 << 40
"""A session that is later than every epoch of a broker: that one would be dead in it."""


def client_called(name: str, at: str, sim: Simulation) -> ClientHost:
    """A client under the name of a broker that exists; the network goes on knowing the broker by it."""
    broker = sim.network.hosts[name]
    config = ClientConfig(name, at)
    host = ClientHost(
        name,
        at,
        sim.network,
        sim._disk(f"client {name}"),
        sim.reports,
        sim._chance_for(f"client {name}"),
        lambda incarnation: MovingClient(config, LATER + incarnation),
    )
    sim.network.hosts[name] = broker
    return host


def chain() -> Simulation:
    sim = Simulation("0-1 1-2 2-3 3-4 4-5", "ginger", 1, tolerance=1)
    sim.at(0.0, Subscribe("bob@5", "a"))
    sim.run_for(1.0)
    return sim


def test_a_client_under_the_name_of_a_neighbour_is_refused_and_the_neighbour_keeps_its_connection():
    sim = chain()
    client = client_called("1", "0", sim)
    client.start()
    sim.run_for(2.0)
    assert not client.node.attached  # type: ignore[attr-defined]
    assert not [report for time_s, _, report in sim.reports if time_s > 1.0 and report.event == "detach"]


def test_a_client_under_the_name_of_a_broker_that_is_no_neighbour_is_refused_where_that_broker_is_known():
    sim = chain()
    client = client_called("2", "0", sim)
    client.start()
    sim.run_for(2.0)
    assert not client.node.attached  # type: ignore[attr-defined]


def test_a_client_under_the_name_of_a_broker_far_away_takes_nobody_along_when_it_leaves():
    sim = chain()
    client = client_called("5", "0", sim)
    client.start()
    sim.run_for(2.0)
    client.stop()
    sim.run_for(2.0)
    # Whoever comes now has everybody told of the changes since.
    sim.at(sim.now + 0.1, Attach("zoe@1"))
    sim.at(sim.now + 0.5, Publish("zoe@1", "a", b"x"))
    sim.run_until_quiet()
    assert sim.delivered("bob") == [b"x"]
    assert not [report for _, _, report in sim.reports if report.event in ("suspect", "excluded", "restart")]
