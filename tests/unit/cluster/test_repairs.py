"""Which paths a kill breaks, and how long they stood still."""

import pytest

from holdfast.cluster.repairs import Kill, RepairMeasurement, between, missing_from_whole, repairs, role_of
from holdfast.cluster.status import BrokerStatus, ClusterStatus
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


def seen(name: str, parent: str | None, waiting: tuple[str, ...] = (), *, ready: bool = True) -> BrokerStatus:
    said = {"name": name, "waiting_for": list(waiting)}
    return BrokerStatus(name, parent, "", ready, clients=(f"c{name}",), status=said)


def test_a_tree_is_whole_when_its_repairs_are_over_and_every_client_is_at_a_broker():
    dead = BrokerStatus("1", "0", "", ready=False, reason="nobody is listening there")
    asking = seen("4", "0", ("0 to open the link",))
    whole = ClusterStatus("c", "ginger", (seen("0", None), dead, seen("4", "0")))
    assert missing_from_whole(whole, ["1"], ["c0", "c4"]) == []
    assert missing_from_whole(whole, ["1"], ["c1"]) == ["c1 is at no broker"]
    assert missing_from_whole(whole, [], []) == ["1: nobody is listening there"]
    orphaned = ClusterStatus("c", "ginger", (seen("0", None), dead, asking))
    assert missing_from_whole(orphaned, ["1"], []) == ["4 waits for 0 to open the link"]
    parted = ClusterStatus("c", "ginger", (seen("0", None), seen("4", "1", ready=False)))
    assert missing_from_whole(parted, [], []) == ["4: it is not ready", "2 roots"]
