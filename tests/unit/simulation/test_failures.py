"""Failures in the simulator: restarts, newcomers, recoveries that find a parent, and the classes of random failures."""

from collections.abc import Callable

import pytest

from holdfast.model.errors import ConfigError
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.ginger import RepairingBroker
from holdfast.protocols.node import BrokerNode, Effects, Restart
from holdfast.simulation.failures import FAILURE_CLASSES, MOVING, TOLERANCE_MIN, FailureClass
from holdfast.simulation.faults import Attach, Crash, Cut, Freeze, Join, Publish, Recover, Stop, Subscribe, When
from holdfast.simulation.scenarios import Scenario, parse_scenario
from holdfast.simulation.trees import parse_tree
from holdfast.simulation.workloads import Trouble, random_scenario, replay_command
from holdfast.simulation.world import Simulation


class Doubtful(RepairingBroker):
    """A broker that takes itself for given up when it is asked to."""

    def timer(self, name: str, now: float) -> Effects:
        return [Restart("it was asked to")] if name == "doubt" else super().timer(name, now)


class Maker:
    """Makes brokers and notes each: its name, the parent that it is told of, its incarnation."""

    def __init__(self, make: Callable[[BrokerConfig, int], BrokerNode] = RepairingBroker) -> None:
        self.make = make
        self.made: list[tuple[str, str | None, int]] = []

    def __call__(self, config: BrokerConfig, incarnation: int) -> BrokerNode:
        self.made.append((config.name, config.parent, incarnation))
        return self.make(config, incarnation)

    def parents_of(self, name: str) -> list[str | None]:
        return [parent for made, parent, _ in self.made if made == name]


def test_a_node_that_asks_for_it_is_replaced_by_a_later_incarnation_of_itself():
    maker = Maker(Doubtful)
    sim = Simulation("0-1", maker, tolerance=1)
    sim.run_for(1.0)
    host, before = sim.host("1"), sim.host("1").node
    host.enter(before.timer("doubt", host.now))
    sim.run_until_quiet()
    assert host.node is not before
    first, second = [incarnation for name, _, incarnation in maker.made if name == "1"]
    assert first < second
    assert [name for _, name, report in sim.reports if report.event == "restart"] == ["1"]


def test_a_restart_that_a_crash_has_overtaken_does_not_happen():
    maker = Maker(Doubtful)
    sim = Simulation("0-1", maker, tolerance=1)
    sim.run_for(1.0)
    host = sim.host("1")
    host.enter(host.node.timer("doubt", host.now))
    host.crash()
    sim.run_for(1.0)
    assert not host.up
    assert len(maker.parents_of("1")) == 1


@pytest.mark.parametrize("name", ["1", "2"])
def test_a_broker_that_recovers_is_told_of_its_own_parent_if_that_serves(name: str):
    maker = Maker()
    sim = Simulation("0-1 1-2", maker, tolerance=1)
    sim.at(2.0, Crash(name))
    sim.at(4.0, Recover(name))
    sim.run_for(5.0)
    own = parse_tree("0-1 1-2")[name]
    assert maker.parents_of(name) == [own, own]


@pytest.mark.parametrize("name", ["0", "1"])
def test_a_root_or_an_orphan_that_recovers_is_told_of_somebody_else(name: str):
    maker = Maker()
    sim = Simulation("0-1 0-2", maker, tolerance=1)
    sim.at(2.0, Crash("0"))
    sim.at(6.0, Crash("1"))
    sim.at(10.0, Recover(name))
    sim.run_for(12.0)
    assert maker.parents_of(name)[-1] == "2"


def test_without_a_tolerance_a_root_that_recovers_is_the_root():
    maker = Maker()
    sim = Simulation("0-1", maker)
    sim.at(2.0, Crash("0"))
    sim.at(3.0, Recover("0"))
    sim.run_for(4.0)
    assert maker.parents_of("0") == [None, None]


def test_a_newcomer_serves_its_clients():
    sim = Simulation("0-1", tolerance=1)
    sim.at(0.0, Subscribe("a@1", "t"))
    sim.at(2.0, Join("2", "1"))
    sim.at(2.0, Attach("b@2"))
    sim.at(2.0, Publish("b@2", "t", b"from the new one"))
    sim.run_until_quiet()
    assert sim.delivered("a") == [b"from the new one"]
    assert sim.unrepaired() == []


def test_a_newcomer_needs_a_name_of_its_own_and_a_parent_that_there_is():
    sim = Simulation("0-1", tolerance=1)
    with pytest.raises(ConfigError, match="there is a '1' already"):
        sim.at(1.0, Join("1", "0"))
    with pytest.raises(ConfigError, match="no broker or client 'x'"):
        sim.at(1.0, Join("2", "x"))


def test_two_trees_are_seen():
    sim = Simulation("0-1 0-2", tolerance=1)
    sim.run_for(1.0)
    assert sim.unrepaired() == []
    sim.node("1").parent = None  # type: ignore[union-attr]
    assert sim.unrepaired() == ["several roots: 0 (parent None), 1 (parent None)"]


def test_a_file_says_the_tolerance_and_its_delays():
    scenario = parse_scenario('tree = "0-1"\ntolerance = 2\nsuspect_s = 0.5\njoin_s = 3.0\n')
    assert (scenario.tolerance, scenario.suspect_s, scenario.join_s) == (2, 0.5, 3.0)
    assert parse_scenario(scenario.toml()) == scenario
    sim = scenario.build()
    sim.run_for(0.0)
    config = sim.node("1").config  # type: ignore[union-attr]
    assert (config.tolerance, config.suspect_s, config.join_s, config.address) == (2, 0.5, 3.0, "1")


# ----------------------------------------------------------------------------------------------------- random ones


def scenarios(failure: FailureClass) -> list[Scenario]:
    trouble = Trouble((), failure, TOLERANCE_MIN.get(failure, 1), 3 if failure in MOVING else 0)
    return [random_scenario(seed, trouble=trouble) for seed in range(30)]


@pytest.mark.parametrize("failure", FAILURE_CLASSES)
def test_every_class_has_trees_of_three_brokers_at_least_and_can_be_written_down(failure: FailureClass):
    written = scenarios(failure)
    assert all(3 <= len(parse_tree(scenario.tree)) <= 31 for scenario in written)
    for scenario in written[:5]:
        assert parse_scenario(scenario.toml()) == scenario


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        ("crash", {Crash, When}),
        ("root", {Crash, When}),
        ("two", {Crash}),
        ("adjacent", {Crash, When}),
        ("during", {Crash, When}),
        ("recover", {Crash, Recover}),
        ("freeze", {Freeze}),
        ("cut", {Cut}),
        ("join", {Join}),
        ("leave", {Stop}),
        ("storm", {Crash, Recover, Freeze, Join, Stop}),
    ],
)
def test_a_class_holds_what_its_name_says(failure: FailureClass, expected: set[type]):
    of_interest = {Crash, When, Recover, Freeze, Cut, Join, Stop}
    found = {type(timed.command) for scenario in scenarios(failure) for timed in scenario.timetable}
    assert found & of_interest == expected


def test_two_that_crash_at_once_are_neighbours_in_one_class_and_not_in_the_other():
    for failure, neighbours in (("two", False), ("adjacent", True)):
        for scenario in scenarios(failure):  # type: ignore[arg-type]
            tree = parse_tree(scenario.tree)
            struck = [one.command.node for one in scenario.timetable if isinstance(one.command, Crash | When)]
            assert len(set(struck)) == len(struck) <= 2
            if len(struck) == 2:
                first, second = struck
                assert (tree[first] == second or tree[second] == first) is neighbours


def test_a_class_that_takes_a_tolerance_of_two_is_refused_with_one():
    with pytest.raises(ConfigError, match="take a tolerance of 2, not 1"):
        random_scenario(1, trouble=Trouble((), "adjacent", 1))


def test_the_replay_command_says_class_and_tolerance():
    assert replay_command("ginger", 7, Trouble(("reset",), "during", 2)) == (
        "holdfast campaign --protocol ginger --seeds 7..7 --fault reset --faults during --tolerance 2"
    )


def test_a_second_fault_of_a_merge_leaves_a_majority_or_those_that_were_killed_come_back():
    scenarios = [random_scenario(seed, "ginger", Trouble((), "remerge", 1)) for seed in range(620200, 620300)]
    worst = 0
    for scenario in scenarios:
        faults = [one.command.fault if isinstance(one.command, When) else one.command for one in scenario.timetable]
        killed = {one.node for one in faults if isinstance(one, Crash)}
        back = {one.node for one in faults if isinstance(one, Recover)}
        brokers = len(parse_tree(scenario.tree))
        worst = max(worst, 2 * len(killed) - brokers)
        assert 2 * (brokers - len(killed - back)) > brokers
    assert worst >= 0
