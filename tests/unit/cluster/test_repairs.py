"""Which paths a kill breaks, and how long they stood still."""

import pytest

from holdfast.cluster.repairs import Kill, RepairMeasurement, between, repairs, role_of
from holdfast.model.trace import Event

MS = 1_000_000
PARENTS = {"0": None, "1": "0", "2": "0", "3": "1", "4": "1", "5": "2"}


@pytest.mark.parametrize(
    ("one", "other", "way"),
    [("3", "4", {"3", "1", "4"}), ("3", "5", {"3", "1", "0", "2", "5"}), ("3", "3", {"3"}), ("1", "3", {"1", "3"})],
)
def test_the_way_between_two_brokers_goes_through_where_their_ancestors_meet(one: str, other: str, way: set[str]):
    assert between(PARENTS, one, other) == between(PARENTS, other, one) == way


def test_brokers_that_are_in_two_trees_just_now_have_every_ancestor_between_them():
    assert between({**PARENTS, "2": None}, "3", "5") == {"3", "1", "0", "5", "2"}


def test_a_broker_is_the_root_or_has_others_below_or_is_at_the_edge():
    assert [role_of(PARENTS, name) for name in ("0", "1", "5")] == ["root", "inner", "edge"]


def row(node: str, time_ms: float, event: str, seq: int) -> Event:
    return Event("r", node, 0, int(time_ms * MS), event, "a", seq, "t", guarantee="causal")


def test_a_path_works_again_with_the_first_delivery_of_what_was_published_after_the_kill():
    kill = Kill("1", "inner", 100 * MS, 110 * MS, (("a", "b"), ("a", "c")))
    events = [
        row("a", 90, "publish", 1),
        row("a", 105, "publish", 2),
        row("a", 120, "publish", 3),
        # What was under way before the broker was gone may come late, and says nothing.
        row("b", 101, "deliver", 1),
        row("b", 130, "deliver", 2),
        row("b", 150, "deliver", 3),
        row("c", 170, "deliver", 3),
    ]
    assert repairs([kill], events) == [RepairMeasurement("1", "inner", 2, 50.0, 70.0)]


def test_a_kill_that_broke_nothing_needed_no_repair():
    assert repairs([Kill("5", "edge", 0, 0, ())], []) == []
