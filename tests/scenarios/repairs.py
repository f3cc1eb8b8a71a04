"""How the scripted repairs are set up and judged: a tree with exact latencies, a timetable, and an end in peace."""

from holdfast.protocols.config import BrokerConfig, ClientConfig, LinkConfig
from holdfast.protocols.ginger import RepairingBroker
from holdfast.protocols.moving import MovingClient
from holdfast.simulation.checkers.honesty import complaints
from holdfast.simulation.faults import Command, Publish, Subscribe
from holdfast.simulation.latencies import Constant
from holdfast.simulation.network import LinkSettings, NetworkConfig
from holdfast.simulation.world import BrokerFactory, ClientFactory, Simulation

LINK_MS = 2.0
SLOW_MS = 60.0
BOOT_S = 8.0
"""The stories begin when even the slowest of these trees is up; their times count from here."""
SEEDS = range(8)
"""How much of what is in flight dies with a broker is up to chance, so every story is told several times."""


def slow(one: str, other: str, ms: float = SLOW_MS) -> LinkSettings:
    """From the first to the second it takes that long; the other way round it does not."""
    return LinkSettings((one, other), latency=Constant(LINK_MS), factor=ms / LINK_MS, back_factor=1.0)


def tree(
    edges: str,
    *links: LinkSettings,
    tolerance: int = 1,
    seed: int = 0,
    make: BrokerFactory = RepairingBroker,
    client: ClientFactory = MovingClient,
    silence_s: float = LinkConfig().silence_s,
) -> Simulation:
    network = NetworkConfig(latency=Constant(LINK_MS), client_latency=Constant(0.1), links=links)
    link = LinkConfig(silence_s=silence_s)
    literal = make is not RepairingBroker or client is not MovingClient
    return Simulation(
        edges,
        make,
        seed,
        network=network,
        broker=BrokerConfig("*", link=link),
        client=ClientConfig("*", link=link),
        clients=client,
        tolerance=tolerance,
        check_invariants=not literal,
    )


def listen(sim: Simulation, **patterns: str) -> None:
    """Subscribe everybody: `p_P="t #"` is client p at broker P with two patterns."""
    for place, wanted in patterns.items():
        for pattern in wanted.split():
            sim.at(0.0, Subscribe(place.replace("_", "@"), pattern))


def say(sim: Simulation, time_s: float, client: str, *words: str, guarantee: str = "causal", key: str = "") -> None:
    """Publish one message for each `topic:payload`."""
    for word in words:
        topic, _, payload = word.partition(":")
        sim.at(BOOT_S + time_s, Publish(client, topic, payload.encode(), guarantee, (key,) if key else ()))


def at(sim: Simulation, time_s: float, *commands: Command) -> None:
    for command in commands:
        sim.at(BOOT_S + time_s, command)


def run_until(sim: Simulation, time_s: float) -> None:
    sim.run_for(BOOT_S + time_s - sim.now)


def finish(sim: Simulation) -> None:
    """Everything drains, every promise is kept, nobody was told an untruth, one tree is left, no order was a guess."""
    sim.run_until_quiet(limit_s=60, quiet_s=3.0)
    assert sim.check().ok, str(sim.check())
    assert complaints(sim.events) == []
    assert sim.failures() == []
    assert sim.unrepaired() == []


def got(sim: Simulation, client: str) -> list[str]:
    return [payload.decode() for payload in sim.delivered(client)]


def reported(sim: Simulation, event: str) -> list[str]:
    """Who reported that, in order."""
    return [name for _, name, report in sim.reports if report.event == event]
