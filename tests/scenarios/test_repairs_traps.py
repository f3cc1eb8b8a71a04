"""Races that broke some draft of the repair, each told as a timetable (the traps of docs/repair.md, by number)."""

import pytest

from holdfast.simulation.faults import Crash, React, When
from tests.scenarios.repairs import SEEDS, at, finish, got, listen, reported, run_until, say, slow, tree

FAMILY = "P-B B-C1 B-C2"
seeds = pytest.mark.parametrize("seed", SEEDS)


@seeds
def test_2_messages_that_crossed_each_other_at_the_dead_broker_make_no_circle(seed: int):
    # C1 sent a and then received b; P sent b and then received a. Neither order is certain; C2, which has neither, may
    # get them either way.
    sim = tree(FAMILY, slow("B", "C2", 100), seed=seed)
    listen(sim, p_P="t", c1_C1="t", c2_C2="t")
    say(sim, 2.0, "p", "t:b")
    say(sim, 2.0, "c1", "t:a")
    at(sim, 2.05, Crash("B"))
    run_until(sim, 2.05)
    assert (got(sim, "p"), got(sim, "c1"), got(sim, "c2")) == (["b", "a"], ["a", "b"], [])
    finish(sim)
    assert sorted(got(sim, "c2")) == ["a", "b"]


@seeds
def test_3_what_was_sent_after_something_was_received_comes_after_it(seed: int):
    sim = tree(FAMILY, slow("B", "C2", 100), seed=seed)
    listen(sim, p_P="t", c2_C2="t u")
    sim.at(0.0, React("p@P", "t", "u", b"m2"))
    say(sim, 2.0, "c1@C1", "t:m1")
    at(sim, 2.05, Crash("B"))
    finish(sim)
    assert got(sim, "c2") == ["m1", "m2"]


@seeds
def test_4_a_message_that_bridges_two_others_is_kept_until_the_one_before_it_is_stable(seed: int):
    # x goes to S alone and y to c0 alone, who answers y with z. B dies with x under way: S must not see z before x,
    # though nobody but the dead broker has passed both x and y.
    sim = tree("S-B", slow("B", "S", 100), seed=seed)
    listen(sim, s_S="t0 t2", c0_B="t1")
    sim.at(0.0, React("c0@B", "t1", "t2", b"z"))
    say(sim, 2.0, "c4@B", "t0:x", "t1:y")
    at(sim, 2.05, Crash("B"))
    finish(sim)
    assert got(sim, "s") == ["x", "z"]


@seeds
def test_6_a_record_is_kept_for_those_that_it_came_from_too(seed: int):
    # b0 dies in the middle of passing x on, with its publisher; b1 has passed x to b3 and dies as well. b3 must still
    # have it for b2.
    sim = tree("b0-b1 b0-b2 b1-b3", tolerance=2, seed=seed)
    listen(sim, s2_b2="t", s3_b3="t")
    at(sim, 2.0, When("b0", "Publish", Crash("b0")))
    say(sim, 2.0, "w@b0", "t:x")
    at(sim, 2.001, Crash("w"))
    at(sim, 2.05, Crash("b1"))
    sim.run_until_quiet(quiet_s=3.0)
    assert got(sim, "s2") == got(sim, "s3")
    assert sim.unrepaired() == []


@seeds
def test_8_what_the_coordinator_never_wanted_is_not_what_others_have(seed: int):
    # P wanted m, which has number 2, and never k, which has number 1: that P has come to 2 says nothing about C2.
    sim = tree(FAMILY, slow("B", "C2", 100), seed=seed)
    listen(sim, p_P="t2", c2_C2="t1 t2")
    say(sim, 2.0, "w@C1", "t1:k", "t2:m")
    at(sim, 2.05, Crash("B"))
    finish(sim)
    assert got(sim, "c2") == ["k", "m"]


@pytest.mark.parametrize("sends", ["Open", "View", "Publish", "ViewAck"])
@seeds
def test_9_whoever_adopts_and_dies_has_told_those_who_repair_its_own_loss(seed: int, sends: str):
    sim = tree("P-B B-D D-E D-F", slow("B", "P", 20), tolerance=2, seed=seed)
    listen(sim, p_P="t", e_E="t", f_F="t")
    say(sim, 2.0, "e", "t:x")
    at(sim, 2.003, Crash("D"), When("B", sends, Crash("B")))
    say(sim, 2.1, "f", "t:y")
    finish(sim)
    for client in ("p", "e", "f"):
        assert sorted(got(sim, client)) == ["x", "y"]


@seeds
def test_10_a_joiner_that_knows_of_one_of_two_dead_alone_is_not_waited_with_forever(seed: int):
    # E has lost C and has heard nothing of B yet; P has lost B and knows that C is below it.
    sim = tree("P-B B-C C-E", slow("B", "C", 200), slow("B", "P", 200), tolerance=2, seed=seed)
    listen(sim, p_P="t", e_E="t")
    at(sim, 2.0, Crash("B"), Crash("C"))
    say(sim, 2.01, "e", "t:x")
    finish(sim)
    assert got(sim, "p") == got(sim, "e") == ["x"]


@seeds
def test_11_the_children_of_a_candidate_that_is_dead_too_are_not_forgotten(seed: int):
    sim = tree("0-1 0-2 1-3 1-4", tolerance=2, seed=seed)
    listen(sim, a_3="t", b_4="t", c_2="t")
    say(sim, 2.0, "a", "t:x")
    at(sim, 2.004, Crash("0"), Crash("1"))
    say(sim, 2.05, "c", "t:y")
    finish(sim)
    assert sorted(got(sim, "a")) == sorted(got(sim, "b")) == sorted(got(sim, "c")) == ["x", "y"]


@seeds
def test_12_when_the_new_root_dies_as_well_there_is_one_root_again(seed: int):
    sim = tree("0-1 0-2 1-3 2-4", seed=seed)
    listen(sim, a_3="t", b_4="t")
    at(sim, 2.0, Crash("0"))
    say(sim, 2.01, "a", "t:x")
    at(sim, 8.0, Crash("1"))
    say(sim, 8.01, "b", "t:y")
    finish(sim)
    assert reported(sim, "root") == ["1", "2"]
    assert got(sim, "a") == got(sim, "b") == ["x", "y"]


@pytest.mark.parametrize("sends", ["Climb", "Turned", "Publish"])
@pytest.mark.parametrize("node", ["0", "1"])
@seeds
def test_13_total_messages_have_one_order_though_their_sequencer_dies_in_the_middle(seed: int, node: str, sends: str):
    sim = tree("0-1 0-2 1-3 1-4 2-5", slow("0", "2", 15), seed=seed)
    listen(sim, a_3="t", b_4="t", c_5="t", d_2="t")
    at(sim, 2.0, When(node, sends, Crash(node), 1 + seed))
    for n in range(6):
        for client in ("a", "b", "c"):
            say(sim, 2.0 + n * 0.007, client, f"t:{client}{n}", guarantee="total", key="k")
    finish(sim)
    assert got(sim, "a") == got(sim, "b") == got(sim, "c") == got(sim, "d")
    assert len(got(sim, "a")) == 18


@seeds
def test_14_what_was_published_before_a_total_message_stays_before_it(seed: int):
    # The total message comes back to its publisher's broker as something received: that q was sent before it must not
    # be forgotten over that.
    sim = tree("R-P P-B B-C1 B-C2", slow("B", "C2", 100), seed=seed)
    listen(sim, r_R="t u", c2_C2="t u")
    say(sim, 2.0, "w@C1", "u:q", guarantee="fifo")
    say(sim, 2.0, "w@C1", "t:m", guarantee="total", key="k")
    at(sim, 2.02 + seed * 0.03, Crash("B"))
    finish(sim)
    assert got(sim, "c2") == got(sim, "r") == ["q", "m"]
