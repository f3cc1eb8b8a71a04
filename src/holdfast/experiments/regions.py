"""The wide-area network of the Ginger evaluation: every pair of hosts, not only those that the tree connects.

A repair connects brokers that were not neighbours, and clients with brokers far away, so each pair needs its latency.
The thesis gives ranges (tables 5.2 and 5.3) and takes their middle for the links of the tree, as `cluster.evaluation`
does; other pairs get the same by their regions. Between North America and Asia there is no range of its own: the middle
of all inter-region links. Clients are beside their brokers, for which the thesis gives no figure.
"""

from itertools import pairwise

from holdfast.cluster.evaluation import TO_ASIA_MS, TO_NORTH_AMERICA_MS, WITHIN_REGION_MS, default_cluster
from holdfast.simulation.latencies import Constant
from holdfast.simulation.network import LinkSettings, NetworkConfig

EUROPE, NORTH_AMERICA, ASIA = "Europe", "North America", "Asia"
REGIONS = {
    "0": EUROPE,
    "1": NORTH_AMERICA,
    "2": EUROPE,
    "3": ASIA,
    "4": NORTH_AMERICA,
    "5": NORTH_AMERICA,
    "6": EUROPE,
    "7": ASIA,
}
BETWEEN_REGIONS_MS = (70 + 300) / 2
BESIDE_MS = 0.5

_APART_MS = {frozenset((EUROPE, NORTH_AMERICA)): TO_NORTH_AMERICA_MS, frozenset((EUROPE, ASIA)): TO_ASIA_MS}


def latency_ms(one: str, other: str) -> float:
    """How long a frame takes from one broker to the other, one way."""
    regions = frozenset((REGIONS[one], REGIONS[other]))
    return WITHIN_REGION_MS if len(regions) == 1 else _APART_MS.get(regions, BETWEEN_REGIONS_MS)


def network() -> NetworkConfig:
    """The latencies between all brokers, and between each client and every broker it may turn to."""
    brokers = list(REGIONS)
    links = [
        LinkSettings((one, other), Constant(latency_ms(one, other)))
        for at, one in enumerate(brokers)
        for other in brokers[at + 1 :]
    ]
    for client in default_cluster().clients:
        for broker in brokers:
            far_ms = BESIDE_MS if broker == client.broker else latency_ms(client.broker, broker)
            links.append(LinkSettings((client.name, broker), Constant(far_ms)))
    return NetworkConfig(links=tuple(links))


def path_ms(one: str, other: str) -> float:
    """How long a frame takes from one broker to the other along the tree as it is before any fault."""
    parents = {broker.name: broker.parent for broker in default_cluster().brokers}

    def upward(name: str) -> list[str]:
        above = parents[name]
        return [name, *(upward(above) if above is not None else ())]

    ways = [upward(one), upward(other)]
    meeting = next(name for name in ways[0] if name in ways[1])
    climbs = [way[: way.index(meeting) + 1] for way in ways]
    return sum(latency_ms(*pair) for climb in climbs for pair in pairwise(climb))


def delivery_ms() -> float:
    """The mean time from publication to delivery if nothing but the tree's latencies counts, over the whole cast."""
    clients = default_cluster().clients
    ways = [
        2 * BESIDE_MS + path_ms(publisher.broker, subscriber.broker)
        for publisher in clients
        for subscriber in clients
        if publisher.topics == subscriber.topics
    ]
    return sum(ways) / len(ways)
