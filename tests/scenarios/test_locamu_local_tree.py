"""LoCaMu's tree changes: leaves come and leave, while messages flow and others are absent."""

import pytest

from holdfast.model.errors import LocalMisuse
from holdfast.protocols.locamu import LocamuBroker
from holdfast.simulation.faults import (
    Attach,
    Crash,
    Cut,
    Detach,
    Heal,
    Join,
    Leave,
    Publish,
    Recover,
    Subscribe,
    Unsubscribe,
    When,
)
from holdfast.simulation.world import Simulation


def simulation(tree: str = "0-1 1-2 2-3", tolerance: int = 1) -> Simulation:
    return Simulation(tree, "locamu", 5, tolerance=tolerance, check_invariants=True)


def broker(sim: Simulation, name: str) -> LocamuBroker:
    node = sim.node(name)
    assert isinstance(node, LocamuBroker)
    return node


def reported(sim: Simulation, event: str) -> list[tuple[str, str]]:
    return [(name, report.peer) for _, name, report in sim.reports if report.event == event]


def publish_all_along(sim: Simulation, client: str, count: int = 60, since_s: float = 0.5, step_s: float = 0.1) -> None:
    for number in range(count):
        sim.at(since_s + number * step_s, Publish(client, "t", b"%d" % number, "causal"))


def test_a_newcomer_takes_part_from_its_confirmed_subscription_on():
    sim = simulation()
    publish_all_along(sim, "alice@0")
    sim.at(1.0, Join("new", "3"))
    sim.at(1.0, Attach("eve@new"))
    sim.at(1.0, Subscribe("eve@new", "t"))
    sim.at(5.0, Publish("eve@new", "t", b"eve", "causal"))
    sim.at(0.0, Subscribe("bob@1", "t"))
    sim.run_until_quiet()
    got = sim.delivered("eve", "t")
    assert got[-1] == b"59"
    assert [int(one) for one in got if one != b"eve"] == list(range(60 - len(got) + 1, 60))
    assert b"eve" in sim.delivered("bob", "t")
    assert sim.check().ok
    assert reported(sim, "joined") == [("3", "new")]


def test_everybody_near_counts_the_newcomer_in_and_nobody_else_does():
    sim = simulation("0-1 1-2 2-3 3-4 4-5")
    sim.at(1.0, Join("new", "5"))
    sim.run_until_quiet()
    near = [name for name in sim.tree if "new" in broker(sim, name).durable.core.near]
    assert near == ["3", "4", "5", "new"]
    assert broker(sim, "new").durable.core.near.within(9) == ["3", "4", "5"]


def test_a_newcomer_is_passed_over_and_comes_back_to_its_place():
    sim = simulation()
    sim.at(0.0, Join("n1", "3"))
    sim.at(1.0, Join("n2", "n1"))
    sim.at(2.0, Subscribe("zoe@n2", "t"))
    sim.at(4.0, Crash("n1"))
    sim.at(5.0, Publish("alice@0", "t", b"over n1", "causal"))
    sim.at(5.5, Recover("n1"))
    sim.at(7.0, Crash("n2"))
    sim.at(7.5, Publish("alice@0", "t", b"while n2 was away", "causal"))
    sim.at(8.0, Recover("n2"))
    sim.run_until_quiet()
    assert sim.delivered("zoe", "t") == [b"over n1", b"while n2 was away"]
    assert sim.check().ok


def test_two_newcomers_do_not_wait_for_each_other():
    """Each is known to half of the tree when it hears of the other one."""
    sim = simulation()
    sim.at(1.0, Join("n1", "0"))
    sim.at(1.0, Join("n2", "3"))
    sim.run_until_quiet(limit_s=20)
    assert [broker(sim, name).phase.value for name in ("n1", "n2")] == ["serving", "serving"]


def test_a_newcomer_waits_until_a_broker_that_was_absent_knows_of_it():
    sim = simulation()
    sim.at(1.0, Crash("0"))
    sim.at(2.0, Join("new", "3"))
    sim.run_for(6.0)
    assert broker(sim, "new").waiting_for() == ["3 to take it in"]
    assert not broker(sim, "new").ready()
    sim.at(6.0, Recover("0"))
    sim.run_until_quiet()
    assert broker(sim, "new").ready()


def test_a_sponsor_that_dies_in_the_midst_of_it_takes_the_newcomer_in_when_it_is_back():
    sim = simulation()
    sim.at(1.0, Join("new", "3"))
    sim.at(1.02, Crash("3"))
    sim.at(3.0, Recover("3"))
    sim.at(5.0, Subscribe("eve@new", "t"))
    sim.at(6.0, Publish("alice@0", "t", b"x", "causal"))
    sim.run_until_quiet()
    assert sim.delivered("eve", "t") == [b"x"]


def test_who_has_left_is_forgotten_and_its_messages_have_arrived():
    sim = simulation()
    sim.at(0.0, Subscribe("bob@0", "t"))
    sim.at(0.0, Subscribe("eve@3", "t"))
    publish_all_along(sim, "alice@1", 40)
    sim.at(2.0, Publish("eve@3", "t", b"last words", "causal"))
    sim.at(2.0, Unsubscribe("eve@3", "t"))
    sim.at(2.0, Detach("eve@3"))
    sim.at(2.5, Leave("3"))
    sim.run_until_quiet()
    assert b"last words" in sim.delivered("bob", "t")
    assert sim.check().ok
    assert reported(sim, "left") == [("2", "3")]
    for name in ("0", "1", "2"):
        core = broker(sim, name).durable.core
        assert "3" not in core.near
        assert not any("3" in pair for pair in core.past)
    assert not sim.host("3").up


def test_inner_brokers_and_the_root_stay():
    sim = simulation()
    sim.at(1.0, Leave("1"))
    sim.at(1.0, Leave("0"))
    sim.run_until_quiet()
    refused = [report.detail for _, name, report in sim.reports if report.event == "refused" and name in "01"]
    assert len(refused) == 2
    assert "only a leaf that serves can, below a parent" in refused[0]
    assert broker(sim, "1").ready()


def test_a_leaf_that_dies_while_it_leaves_goes_on_leaving_when_it_is_back():
    sim = simulation()
    sim.at(1.0, Crash("0"))
    sim.at(2.0, Leave("3"))
    sim.at(3.0, Crash("3"))
    sim.at(4.0, Recover("3"))
    sim.at(5.0, Recover("0"))
    sim.run_until_quiet()
    assert reported(sim, "left") == [("2", "3")]
    assert not sim.host("3").up


def test_a_leaf_that_does_not_hear_that_it_may_go_asks_again():
    sim = simulation()
    sim.at(1.0, Leave("3"))
    sim.at(1.0, When("2", "Farewell", Cut("2", "3")))
    sim.at(9.0, Heal())
    sim.run_until_quiet(limit_s=40)
    assert reported(sim, "left") == [("2", "3")]
    assert not sim.host("3").up


def test_the_name_of_somebody_who_left_is_not_given_again():
    sim = simulation()
    sim.at(1.0, Leave("3"))
    sim.at(3.0, Recover("3"))
    sim.run_for(6.0)
    [why, *_] = [report.detail for _, name, report in sim.reports if report.event == "refused" and name == "3"]
    assert why == "broker 3 has left the tree: whoever comes anew has a new name"


def test_a_broker_that_has_lost_its_disk_notices_and_ends():
    sim = simulation()
    sim.at(0.0, Subscribe("bob@0", "t"))
    publish_all_along(sim, "alice@3", 5)
    sim.at(2.0, Crash("3"))
    sim.run_for(2.5)
    disk = sim.host("3")._disk
    disk.pairs.clear()
    sim.at(3.0, Recover("3"))
    with pytest.raises(LocalMisuse, match=r"broker 3 has lost what it wrote down: . has . of its messages"):
        sim.run_for(5.0)


def without_its_disk(sim: Simulation, name: str, crash_s: float) -> None:
    """That broker crashes, and its disk is empty when it comes back."""
    sim.at(crash_s, Crash(name))
    sim.run_for(crash_s + 0.5)
    sim.host(name)._disk.pairs.clear()


def test_a_broker_that_has_lost_its_disk_notices_when_it_has_said_as_much_again():
    sim = simulation()
    sim.at(0.0, Subscribe("bob@0", "t"))
    publish_all_along(sim, "alice@3", 5)
    without_its_disk(sim, "3", 2.0)
    sim.at(2.9, Cut("3", "2"))
    sim.at(2.9, Cut("3", "1"))
    sim.at(3.0, Recover("3"))
    for number in range(8):
        sim.at(4.0, Subscribe("carol@3", f"topic/{number}"))
    sim.at(6.0, Heal())
    with pytest.raises(LocalMisuse, match=r"broker 3 has lost what it wrote down: . knows it by the birth \d+, and"):
        sim.run_for(5.0)


def test_a_broker_that_had_said_nothing_yet_notices_that_it_has_lost_its_disk():
    """What the others have for it, they have forgotten: it could never process anything that comes after."""
    sim = simulation()
    publish_all_along(sim, "alice@0", 5)
    without_its_disk(sim, "3", 2.0)
    sim.at(3.0, Recover("3"))
    with pytest.raises(LocalMisuse, match="broker 3 has lost what it wrote down"):
        sim.run_for(5.0)


@pytest.mark.parametrize("neighbour", ["1", "2"])
def test_whoever_comes_back_with_its_disk_is_known_by_the_same_birth(neighbour: str):
    sim = simulation()
    sim.at(1.0, Crash("3"))
    sim.at(2.0, Recover("3"))
    sim.at(3.0, Crash(neighbour))
    sim.at(4.0, Recover(neighbour))
    sim.run_for(0.9)
    births = broker(sim, "3").durable.core.local_tree.births
    assert sorted(births) == ["1", "2", "3"]
    sim.run_until_quiet()
    assert broker(sim, "3").durable.core.local_tree.births == births
    assert broker(sim, neighbour).durable.core.local_tree.births["3"] == births["3"]
    assert not reported(sim, "violation")


def test_a_newcomer_knows_the_births_of_those_around_it_and_a_leaf_takes_its_own_away():
    sim = simulation()
    sim.at(1.0, Join("new", "3"))
    sim.run_for(4.0)
    births = {name: broker(sim, name).durable.core.local_tree.births[name] for name in ("2", "3", "new")}
    assert broker(sim, "new").durable.core.local_tree.births == births
    assert broker(sim, "3").durable.core.local_tree.births["new"] == births["new"]
    sim.at(5.0, Leave("new"))
    sim.run_until_quiet()
    for name in ("2", "3"):
        assert "new" not in broker(sim, name).durable.core.local_tree.births


def test_a_newcomer_that_has_lost_its_disk_is_not_taken_in_again():
    sim = simulation()
    sim.at(1.0, Join("new", "3"))
    without_its_disk(sim, "new", 4.0)
    sim.at(5.0, Recover("new"))
    with pytest.raises(LocalMisuse, match="broker new cannot join below 3, and ends: there is, or was, a broker new"):
        sim.run_for(5.0)
