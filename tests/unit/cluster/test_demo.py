"""How the demonstration sums up: what its trace shows, latencies, and whether replicas agree."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.cluster.config import Cluster
from holdfast.cluster.demo import DemoLatency, DemoPlan, DemoSummary, latencies, replicas_equal, summed_up
from holdfast.cluster.evaluation import default_cluster
from holdfast.model.errors import ConfigError
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
    assert latencies(events) == [DemoLatency("causal", 1, 2, 5.0, 5.0), DemoLatency("total", 1, 1, 4.5, 4.5)]


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


OPERATIONS = 3
CLUSTER = default_cluster()


def demo_trace() -> list[Event]:
    """What a demonstration records when all goes well: everybody subscribes, then each publication goes everywhere."""
    events = [Event("demo", one.name, 0, 0, "subscribe", topic=one.topics[0]) for one in CLUSTER.clients]
    indexes = {one.name: 1 for one in CLUSTER.clients}

    def add(node: str, time_ms: float, event: str, publisher: str, seq: int, topic: str) -> None:
        events.append(
            Event("demo", node, indexes[node], int(time_ms * MS), event, publisher, seq, topic, guarantee="causal")
        )
        indexes[node] += 1

    for number in range(1, OPERATIONS + 1):
        for place, publisher in enumerate(CLUSTER.clients):
            at_ms, topic = 10 * number + place, publisher.topics[0]
            add(publisher.name, at_ms, "publish", publisher.name, number, topic)
            for subscriber in CLUSTER.clients:
                if subscriber.topics == publisher.topics:
                    add(subscriber.name, at_ms + 0.5, "deliver", publisher.name, number, topic)
    return events


def judged(events: list[Event]) -> DemoSummary:
    results = {one.name: {"digest": one.topics[0], "refused": 0} for one in CLUSTER.clients}
    return summed_up(DemoPlan(CLUSTER, Path("report"), OPERATIONS), results, events, "trace", 1.0)


def without(wrong: Callable[[Event], bool]) -> list[Event]:
    return [event for event in demo_trace() if not wrong(event)]


def test_a_demonstration_in_which_everything_arrived_is_ok():
    summary = judged(demo_trace())
    assert summary.ok
    assert (summary.messages, summary.deliveries) == (15, 3 * (3 * 3 + 2 * 2))
    assert summary.deliveries == summary.deliveries_expected


def test_one_delivery_that_is_missing_is_found_and_counted_as_lost():
    summary = judged(without(lambda row: (row.node, row.event, row.publisher, row.seq) == ("c4", "deliver", "c0", 2)))
    assert not summary.ok
    assert (summary.verdict["lost"], summary.verdict["duplicated"], summary.verdict["created"]) == (1, 0, 0)
    [example] = summary.verdict["examples"]
    assert example.startswith("c4 never delivered c0#2 on topic bank/topic1, though its subscription")


def test_the_last_delivery_of_all_may_not_be_missing_either():
    summary = judged(demo_trace()[:-1])
    assert (summary.ok, summary.verdict["lost"]) == (False, 1)


def test_a_client_that_recorded_nothing_is_noticed_by_the_count_of_deliveries():
    summary = judged(without(lambda row: row.node == "c4" and row.event != "publish"))
    assert (summary.ok, summary.verdict["lost"]) == (False, 0)
    assert (summary.deliveries, summary.deliveries_expected) == (39 - 9, 39)


def test_a_delivery_too_many_is_noticed():
    events = demo_trace()
    last = events[-1]
    summary = judged([*events, replace(last, index=last.index + 1)])
    assert (summary.ok, summary.verdict["duplicated"]) == (False, 1)


def test_nobody_is_killed_where_nobody_repairs_and_nobody_twice():
    def plan(cluster: Cluster, *kills: str) -> DemoPlan:
        return DemoPlan(cluster, Path("report"), kills=kills)

    plan(CLUSTER, "1", "0").check()
    with pytest.raises(ConfigError, match="give it a tolerance"):
        plan(replace(CLUSTER, tolerance=0), "1").check()
    with pytest.raises(ConfigError, match="killed once"):
        plan(CLUSTER, "1", "1").check()
    with pytest.raises(ConfigError, match="one has to survive"):
        plan(CLUSTER, *(broker.name for broker in CLUSTER.brokers)).check()
    with pytest.raises(ConfigError, match="has no broker 'x'"):
        plan(CLUSTER, "x").check()
