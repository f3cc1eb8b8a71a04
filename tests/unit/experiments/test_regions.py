"""The wide-area network is that of the evaluation's tree, and has a latency for every pair that may ever talk."""

from itertools import combinations

import pytest

from holdfast.cluster.evaluation import default_cluster
from holdfast.experiments.regions import REGIONS, delivery_ms, latency_ms, network, path_ms
from holdfast.simulation.latencies import Constant


def test_the_links_of_the_tree_have_the_latencies_of_the_evaluation():
    brokers = default_cluster().brokers
    assert {broker.name for broker in brokers} == set(REGIONS)
    for broker in brokers:
        if broker.parent is not None:
            assert latency_ms(broker.parent, broker.name) == broker.latency_ms


def test_every_pair_of_hosts_that_may_ever_talk_is_named_once():
    links = [frozenset(link.between) for link in network().links]
    brokers = [frozenset(pair) for pair in combinations(REGIONS, 2)]
    clients = [frozenset((client.name, broker)) for client in default_cluster().clients for broker in REGIONS]
    assert len(links) == len(set(links))
    assert set(links) == {*brokers, *clients}


def test_a_client_is_beside_its_broker_and_as_far_from_others_as_that_is():
    latencies = {link.between: link.latency for link in network().links}
    assert latencies["c4", "7"] == Constant(0.5)
    assert latencies["c4", "3"] == Constant(37.5)
    assert latencies["c4", "0"] == Constant(240.0)
    assert latencies["c4", "1"] == Constant(185.0)


def test_a_path_is_the_sum_of_its_links():
    assert path_ms("4", "7") == 37.5 + 115 + 240 + 37.5
    assert path_ms("4", "5") == 75.0
    assert path_ms("4", "4") == 0.0
    assert path_ms("0", "4") == path_ms("4", "0") == 152.5


def test_a_delivery_takes_its_path_on_average():
    topic1 = 2 * (228.5 + 431 + 353.5) + 3 * 1
    topic2 = 2 * 228.5 + 2 * 1
    assert delivery_ms() == pytest.approx((topic1 + topic2) / 13)
