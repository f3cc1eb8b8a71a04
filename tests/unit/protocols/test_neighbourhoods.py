"""The part of a tree that a broker knows."""

import pytest

from holdfast.model.errors import ConfigError
from holdfast.protocols.neighbourhoods import Neighbourhood, children_of, edges_around

TREE: dict[str, str | None] = {"r": None, "a": "r", "b": "r", "c": "a", "d": "a", "e": "c", "f": "e"}
EDGES = [(parent, name) for name, parent in TREE.items() if parent is not None]


def test_a_broker_is_told_the_edges_around_it_and_no_others():
    assert edges_around(TREE, children_of(TREE), "c", 1) == [("a", "c"), ("c", "e")]
    assert edges_around(TREE, children_of(TREE), "c", 2) == [("a", "c"), ("a", "d"), ("c", "e"), ("e", "f"), ("r", "a")]
    assert sorted(EDGES) == edges_around(TREE, children_of(TREE), "c", 9)


def test_distances_and_ways_are_those_of_the_tree():
    near = Neighbourhood("c", EDGES)
    assert near.parent == "a"
    assert near.within(1) == near.neighbours("c") == ["a", "e"]
    assert near.within(2) == ["a", "d", "e", "f", "r"]
    assert near.within(1, "r") == ["a", "b"]
    assert (near.distance("f", "b"), near.between("f", "b")) == (5, ("e", "c", "a", "r"))
    assert near.towards("c", "b") == "a"
    assert near.paths("b")["f"][-1] == "f"


def test_who_stands_alone_knows_itself():
    near = Neighbourhood("x", [])
    assert ("x" in near, near.parent, near.within(3)) == (True, None, [])


def test_edges_that_do_not_hang_together_are_refused():
    with pytest.raises(ConfigError, match="do not hang together"):
        Neighbourhood("c", [("a", "c"), ("x", "y")])
