"""How the demonstration sums up: latencies from a trace, and whether replicas agree."""

from holdfast.cluster.demo import Latency, latencies, replicas_equal
from holdfast.cluster.evaluation import default_cluster
from holdfast.model.trace import Event

MS = 1_000_000


def row(node: str, index: int, time_ms: float, event: str, guarantee: str, seq: int) -> Event:
    return Event("r", node, index, int(time_ms * MS), event, "a", seq, "t", guarantee=guarantee)


def test_latency_is_the_time_from_a_publication_to_each_of_its_deliveries():
    events = [
        row("a", 0, 10, "publish", "causal", 1),
        row("b", 0, 12, "deliver", "causal", 1),
        row("c", 0, 15, "deliver", "causal", 1),
        row("a", 1, 20, "publish", "total", 2),
        row("b", 1, 24.5, "deliver", "total", 2),
    ]
    assert latencies(events) == [Latency("causal", 1, 2, 5.0, 5.0), Latency("total", 1, 1, 4.5, 4.5)]


def test_a_delivery_of_what_nobody_published_has_no_latency():
    events = [row("a", 0, 1, "publish", "fifo", 1), row("b", 0, 2, "deliver", "fifo", 9)]
    [found] = latencies(events)
    assert (found.messages, found.deliveries) == (1, 0)


def test_replicas_are_compared_within_their_bank_only():
    cluster = default_cluster()
    same = {"c0": "x", "c3": "x", "c4": "x", "c1": "y", "c2": "y"}
    assert replicas_equal(cluster, same)
    assert not replicas_equal(cluster, {**same, "c4": "y"})
    assert not replicas_equal(cluster, {**same, "c2": "x"})
