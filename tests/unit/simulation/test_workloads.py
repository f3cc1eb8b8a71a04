"""Random workloads: that they are random enough to bite, repeatable, and can be made small."""

from collections import Counter

import pytest

from holdfast.protocols.ginger import GingerBroker
from holdfast.protocols.node import Effects
from holdfast.simulation.faults import Crash, Part, Publish, Reset, Subscribe
from holdfast.simulation.outcomes import Outcome
from holdfast.simulation.scenarios import Scenario, Timed
from holdfast.simulation.shrinking import faults_of, shrink, shrink_while
from holdfast.simulation.trees import parse_tree
from holdfast.simulation.workloads import (
    FAULT_KINDS,
    Trouble,
    judge,
    random_scenario,
    replay_command,
    run_one,
)

SCENARIOS = [random_scenario(seed, trouble=Trouble(FAULT_KINDS)) for seed in range(300)]


def test_trees_of_every_size_come_up():
    sizes = {len(parse_tree(scenario.tree)) for scenario in SCENARIOS}
    assert sizes >= {1, 2, 3, 5, 8, 13, 21}
    assert max(sizes) <= 31
    assert max(sizes) >= 28


def test_every_kind_of_command_and_fault_comes_up():
    words = Counter(type(timed.command).__name__ for scenario in SCENARIOS for timed in scenario.timetable)
    assert set(words) == {
        *("Publish", "Subscribe", "Unsubscribe", "Confirm", "React", "Attach", "Detach"),
        *("Reset", "Cut", "Heal", "Freeze", "Thaw", "Slow", "Flip"),
    }
    assert min(words.values()) >= 20


def test_messages_conflict_on_few_keys_and_all_guarantees_are_mixed():
    publications = [timed.command for scenario in SCENARIOS for timed in scenario.timetable]
    messages = [one for one in publications if isinstance(one, Publish)]
    assert {len(message.keys) for message in messages} == {0, 1, 2, 3}
    assert len({key for message in messages for key in message.keys}) <= 4
    assert {message.guarantee for message in messages} == {"eventual", "fifo", "causal", "total"}
    mixed = sum(len({one.command.guarantee for one in scenario.timetable if isinstance(one.command, Publish)}) > 1
                for scenario in SCENARIOS)  # fmt: skip
    assert mixed > 200


def share_of_totals(share: int, seeds: range) -> float:
    trouble = Trouble(totals=(share, share))
    entries = [one.command for seed in seeds for one in random_scenario(seed, trouble=trouble).timetable]
    said = [one.guarantee for one in entries if isinstance(one, Publish)]
    return 100 * said.count("total") / len(said)


def test_the_share_of_total_messages_can_be_asked_for():
    assert 2 < share_of_totals(5, range(60)) < 8
    assert 66 < share_of_totals(70, range(60)) < 74


def test_a_share_of_total_messages_is_drawn_for_each_run_and_is_part_of_its_replay():
    varied = Trouble(totals=(5, 70))
    assert replay_command("ginger", 3, varied).endswith("--seeds 3..3 --totals 5..70")
    assert random_scenario(3, trouble=varied) == random_scenario(3, trouble=varied) != random_scenario(3)
    assert random_scenario(3, trouble=varied).tree == random_scenario(3).tree


def test_subscriptions_have_wildcards_and_filters_and_come_during_traffic():
    timetable = [timed for scenario in SCENARIOS for timed in scenario.timetable]
    subscriptions = [timed.command for timed in timetable if isinstance(timed.command, Subscribe)]
    assert any("#" in one.pattern for one in subscriptions)
    assert any("+" in one.pattern for one in subscriptions)
    assert any(one.where for one in subscriptions)
    assert sum(isinstance(timed.command, Subscribe) and timed.time_s > 0 for timed in timetable) > 100


def test_without_faults_asked_for_there_are_none():
    words = {type(timed.command).__name__ for seed in range(50) for timed in random_scenario(seed).timetable}
    assert words <= {"Publish", "Subscribe", "Unsubscribe", "Confirm", "React", "Attach", "Detach"}


def test_one_number_makes_one_workload_and_faults_change_nothing_else_about_it():
    assert random_scenario(5) == random_scenario(5) != random_scenario(6)
    quiet, stormy = random_scenario(5), random_scenario(5, trouble=Trouble(("reset",)))
    assert quiet.timetable == tuple(timed for timed in stormy.timetable if not isinstance(timed.command, Reset))
    assert len(quiet.timetable) < len(stormy.timetable)
    assert quiet.network == stormy.network


def test_an_outcome_tells_what_was_done_and_how_to_do_it_again():
    outcome = run_one(3, trouble=Trouble(("reset",)), check_invariants=True)
    assert outcome.ok
    assert outcome.events > 100
    assert outcome.messages > 0
    assert outcome.replay == "holdfast campaign --protocol ginger --seeds 3..3 --fault reset"
    assert replay_command("ginger", 3, Trouble(("reset",))) == outcome.replay


def test_the_key_locks_are_caught_and_made_small():
    seed = next(seed for seed in range(100) if "total" in faults_of(run_one(seed, "ginger-locks")))
    scenario = shrink(random_scenario(seed, "ginger-locks"))
    assert len(scenario.timetable) <= 8
    assert len(parse_tree(scenario.tree)) <= 4
    outcome = judge(scenario, "press play")
    assert "total" in faults_of(outcome)
    assert outcome.complaint().endswith("to see it again: press play")


def test_a_site_stays_whose_brokers_are_named_by_a_fault():
    timetable = (Timed(1.0, Crash("2.1")), Timed(2.0, Publish("p@0", "t", b"kept")))
    scenario = Scenario("0-1 0-2", protocol="sesdad", timetable=timetable)
    smaller = shrink_while(scenario, lambda one: len(one.build().tree) > 0 and len(one.timetable) == 2)
    assert smaller.tree == "0-2"


def test_a_broker_stays_that_is_on_a_side_of_a_parted_network():
    parted = Scenario("0-1 1-2 2-3", timetable=(Timed(1.0, Part(("2", "3"))),))
    small = shrink_while(parted, lambda scenario: bool(scenario.timetable) and scenario.build() is not None)
    assert set(parse_tree(small.tree)) == {"0", "2", "3"}


def test_what_does_not_go_wrong_is_not_shrunk():
    scenario = random_scenario(1)
    assert shrink(scenario) is scenario


def test_shrinking_keeps_what_matters_and_leaves_out_the_rest():
    scenario = next(one for one in SCENARIOS if len(parse_tree(one.tree)) > 10)
    wanted = next(
        timed
        for timed in scenario.timetable
        if isinstance(timed.command, Publish) and not timed.command.client.endswith("@0")
    )
    small = shrink_while(scenario, lambda smaller: wanted in smaller.timetable)
    assert small.timetable == (wanted,)
    assert len(parse_tree(small.tree)) > 1, "the broker that it names could not go"


def test_shrinking_stops_when_it_has_tried_enough():
    tries = []

    def still(_: object) -> bool:
        tries.append(1)
        return False

    scenario = SCENARIOS[0]
    assert shrink_while(scenario, still, attempts_max=7) == scenario
    assert len(tries) == 7


@pytest.mark.parametrize("error", [AssertionError("broken"), KeyError("gone")])
def test_a_node_that_breaks_is_an_outcome_not_a_crash(error: Exception):
    class Broken(GingerBroker):
        def peer_up(self, peer: str, now: float) -> Effects:
            super().peer_up(peer, now)
            raise error

    outcome = judge(random_scenario(3), replay_command("ginger", 3), make=Broken)
    assert not outcome.ok
    assert outcome.error.startswith(type(error).__name__)
    assert outcome.complaint().count(outcome.replay) == 1


def test_a_run_that_never_comes_to_rest_is_an_outcome_too():
    class Silent(GingerBroker):
        def peer_up(self, peer: str, now: float) -> Effects:
            super().peer_up(peer, now)
            return []

    outcome = judge(random_scenario(3), "press play", make=Silent)
    assert faults_of(outcome) == {"NotQuiet"}
    assert isinstance(outcome, Outcome)
