"""Broker trees as text."""

from random import Random

import pytest

from holdfast.model.errors import ConfigError
from holdfast.simulation.trees import parse_tree, print_tree, random_tree


def test_pairs_are_read_as_parent_and_child_and_parents_come_first():
    assert parse_tree("1-3 0-1 0-2") == {"0": None, "1": "0", "2": "0", "3": "1"}
    assert list(parse_tree("1-3 0-1 0-2")) == ["0", "1", "2", "3"]


def test_one_broker_is_a_tree():
    assert parse_tree("0") == {"0": None}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "it is empty"),
        ("0-1 2-3", "has 2 roots, 0, 2"),
        ("0-1 2-1", "broker 1 has two parents, 0 and 2"),
        ("0-0", "broker 0 is its own ancestor"),
        ("0-1 2-3 3-2", "broker 2 is its own ancestor"),
        ("0-1-2", "'0-1-2' is neither a broker nor a pair"),
        ("0- 1", "'0-' is neither"),
        ("a@b", "'a@b' is neither"),
    ],
)
def test_what_is_no_tree_is_refused_with_the_reason(text: str, complaint: str):
    with pytest.raises(ConfigError, match=complaint):
        parse_tree(text)


@pytest.mark.parametrize("brokers", [1, 2, 7, 31])
def test_random_trees_are_trees_of_that_size_and_can_be_written_down(brokers: int):
    shapes = set()
    for seed in range(20):
        tree = random_tree(Random(seed), brokers)
        assert len(tree) == brokers
        assert parse_tree(print_tree(tree)) == tree
        shapes.add(print_tree(tree))
    assert len(shapes) > 1 or brokers <= 2


def test_random_trees_may_be_chains():
    assert "0-1 1-2 2-3 3-4" in {print_tree(random_tree(Random(seed), 5)) for seed in range(20)}
