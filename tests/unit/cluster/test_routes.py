"""Recipient sets of a cluster file: the paper's Table 1, and ways past failed nodes."""

import pytest

from holdfast.cluster.config import parse_cluster
from holdfast.cluster.routes import Routes
from holdfast.model.errors import ConfigError

FIGURE_5 = """
protocol = "delta"
tolerance = {tolerance}
[brokers.N1]
[brokers.N2]
parent = "N1"
[brokers.N3]
parent = "N1"
[clients.P1]
broker = "N1"
[clients.S1]
broker = "N2"
subscriptions = [{{ pattern = "p", where = "x > 1" }}]
[clients.S2]
broker = "N2"
subscriptions = [{{ pattern = "p", where = "x > 9" }}]
[clients.S3]
broker = "N3"
[clients.S4]
broker = "N3"
topics = ["p"]
"""

# Rows of Table 1 for delta = 0..3. The paper has N3 at 1 as {S4, N1} and S2 at 0 as {N1}; both contradict its rule.
TABLE_1 = {
    "P1": ("N1", "N2 N3", "S1 S4", "S1 S4"),
    "N1": ("N2 N3", "S1 S4", "S1 S4", "S1 S4"),
    "N2": ("N1 S1", "N3 S1", "S1 S4", "S1 S4"),
    "N3": ("N1 S4", "N2 S4", "S1 S4", "S1 S4"),
    "S1": ("N2 S1", "N1 S1", "N3 S1", "S1 S4"),
    "S2": ("N2", "N1 S1", "N3 S1", "S1 S4"),
    "S3": ("N3", "N1 S4", "N2 S4", "S1 S4"),
    "S4": ("N3 S4", "N1 S4", "N2 S4", "S1 S4"),
}


def figure_5(tolerance: int, failed: tuple[str, ...] = ()) -> Routes:
    return Routes(parse_cluster(FIGURE_5.format(tolerance=tolerance)), failed)


@pytest.mark.parametrize("tolerance", range(4))
@pytest.mark.parametrize("node", TABLE_1)
def test_recipient_sets_are_those_of_table_1_with_its_two_wrong_cells_corrected(node: str, tolerance: int):
    found = figure_5(tolerance).for_topic("p", {"x": 5})
    assert found[node].recipients == tuple(TABLE_1[node][tolerance].split())


def test_a_message_takes_one_path_to_each_subscriber_and_does_not_turn_back():
    found = figure_5(1).for_topic("p", {"x": 5}, at="N1")
    assert {name: one.next for name, one in found.items() if one.next} == {
        "N1": ("N2", "N3"),
        "N2": ("S1",),
        "N3": ("S4",),
    }


def test_failed_nodes_are_gone_past_and_compute_nothing():
    found = figure_5(1, ("N2",)).for_topic("p", {"x": 5}, at="N1")
    assert found["N2"].recipients == found["N2"].next == ()
    assert found["N1"].next == ("N3", "S1")


def test_a_node_that_is_not_in_the_file_is_named_with_those_that_are():
    with pytest.raises(ConfigError, match=r"--failed: there is no node 'N9'.* expected"):
        figure_5(1, ("N9",))
    with pytest.raises(ConfigError, match="--at: there is no node"):
        figure_5(1).for_topic("p", {}, at="X")


def test_a_subscription_with_a_filter_that_cannot_be_is_refused_with_its_place():
    broken = FIGURE_5.format(tolerance=1).replace("x > 9", "x >")
    with pytest.raises(ConfigError, match=r"clients\.S2\.subscriptions\[0\]"):
        parse_cluster(broken)
