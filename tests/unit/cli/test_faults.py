"""What `holdfast crash` says of the loss of a broker."""

import pytest

from holdfast.cli.faults import _what_follows
from holdfast.cluster.config import parse_cluster

SITES = """
protocol = "sesdad"
[sites.a]
replicas = 5
[sites.b]
parent = "a"
replicas = 1
"""


@pytest.mark.parametrize(
    ("text", "broker", "sentence"),
    [
        (SITES, "a.2", "the others of site a stand in for it, and lose nothing while no more than 2 of 5 are away"),
        (SITES, "b.1", "it is the only broker of site b, which is waited for until `holdfast restart b.1`"),
        ("[brokers.a]\n", "a", "this cluster has no tolerance"),
        ("tolerance = 1\n[brokers.a]\n", "a", "the others repair the tree"),
    ],
)
def test_the_loss_of_a_broker_is_told_with_what_follows(text: str, broker: str, sentence: str):
    assert sentence in _what_follows(parse_cluster(text), f"broker {broker}")
