"""The holes of the thesis' repair (docs/papers/ginger.md, 4 to 11), each as a story that the literal one gets wrong.

Unless a story says otherwise P is the parent of B, and B of C1 and C2; it is B that dies.
"""

import pytest

from holdfast.simulation.faults import Crash, Freeze, Publish, Reset, Thaw, When
from tests.scenarios.repairs import SEEDS, at, finish, got, listen, reported, run_until, say, slow, tree

FAMILY = "P-B B-C1 B-C2"


@pytest.mark.parametrize("seed", SEEDS)
def test_4_siblings_that_learn_of_the_roots_death_at_different_times_end_with_one_root(seed: int):
    # 3 hears nothing of the end for a long time; meanwhile the others have settled who is the root.
    sim = tree("0-1 0-2 0-3", slow("0", "3", 150), slow("2", "1", 90), seed=seed)
    listen(sim, a_1="t", b_2="t", c_3="t")
    say(sim, 2.0, "a", "t:before")
    at(sim, 2.01, Crash("0"))
    say(sim, 2.02, "b", "t:meanwhile")
    say(sim, 2.03, "c", "t:late")
    finish(sim)
    assert reported(sim, "root") == ["1"]
    assert sorted(got(sim, "a")) == sorted(got(sim, "b")) == sorted(got(sim, "c")) == ["before", "late", "meanwhile"]


@pytest.mark.parametrize("seed", SEEDS)
def test_4_the_senior_child_dies_with_the_root_and_the_next_one_takes_over(seed: int):
    sim = tree("0-1 0-2 0-3 1-4", tolerance=2, seed=seed)
    listen(sim, b_2="t", c_3="t", d_4="t")
    say(sim, 2.0, "d", "t:x")
    at(sim, 2.005, Crash("0"), Crash("1"))
    say(sim, 2.006, "c", "t:y")
    finish(sim)
    assert reported(sim, "root")[-1:] == ["2"]
    assert sorted(got(sim, "b")) == sorted(got(sim, "c")) == sorted(got(sim, "d")) == ["x", "y"]


@pytest.mark.parametrize("seed", SEEDS)
def test_5_what_was_under_way_on_a_topic_that_the_parent_had_never_met_is_handed_over(seed: int):
    sim = tree(FAMILY, slow("B", "P"), seed=seed)
    listen(sim, p_P="new/#")
    say(sim, 2.0, "w@C1", "new/topic:first", "new/other:second")
    at(sim, 2.02, Crash("B"))
    finish(sim)
    assert got(sim, "p") == ["first", "second"]


@pytest.mark.parametrize("seed", SEEDS)
def test_6_a_publisher_that_one_side_has_never_heard_of_is_caught_up_with(seed: int):
    sim = tree(FAMILY, slow("B", "P"), slow("B", "C2"), seed=seed)
    listen(sim, p_P="t", c_C2="t")
    say(sim, 2.0, "stranger@C1", "t:hello")
    at(sim, 2.02, Crash("B"))
    finish(sim)
    assert got(sim, "p") == got(sim, "c") == ["hello"]


@pytest.mark.parametrize("seed", SEEDS)
def test_6_numbers_that_skip_because_other_topics_have_them_hide_nothing(seed: int):
    sim = tree(FAMILY, slow("B", "P"), seed=seed)
    listen(sim, p_P="t", c_C2="u")
    say(sim, 2.0, "w@C1", "t:1", "u:2", "t:3", "u:4", "t:5")
    at(sim, 2.02, Crash("B"))
    finish(sim)
    assert got(sim, "p") == ["1", "3", "5"]
    assert got(sim, "c") == ["2", "4"]


def test_6_however_much_was_under_way_nothing_of_it_is_evicted():
    sim = tree(FAMILY, slow("B", "P", 150))
    listen(sim, p_P="t")
    say(sim, 2.0, "w@C1", *(f"t:{n}" for n in range(3000)))
    at(sim, 2.1, Crash("B"))
    finish(sim)
    assert got(sim, "p") == [str(n) for n in range(3000)]


@pytest.mark.parametrize("seed", SEEDS)
def test_7_causal_order_across_topics_holds_though_a_bystander_joins_first(seed: int):
    # 1. w at C1 publishes k on T1, then m on T2. B passes m to C2, which nobody with T1 stands at, and dies before
    #    either gets to P.
    # 2. C2 turns to P at once with m; C1, with k and m, comes much later.
    # 3. Whoever takes C2's m at once shows p m before k.
    sim = tree(FAMILY, slow("B", "P"), slow("C1", "P", 200), seed=seed)
    listen(sim, p_P="T1 T2", c_C2="T2")
    say(sim, 2.0, "w@C1", "T1:k", "T2:m")
    at(sim, 2.03, Crash("B"))
    run_until(sim, 2.03)
    assert (got(sim, "c"), got(sim, "p")) == (["m"], [])
    finish(sim)
    assert got(sim, "p") == ["k", "m"]


@pytest.mark.parametrize("seed", SEEDS)
def test_7_nor_does_somebody_far_away_see_the_effect_before_its_cause(seed: int):
    sim = tree("Q-P P-B B-C1 B-C2", slow("B", "P"), slow("C1", "P", 200), seed=seed)
    listen(sim, q_Q="T1 T2", c_C2="T2")
    say(sim, 2.0, "w@C1", "T1:k", "T2:m")
    at(sim, 2.03, Crash("B"))
    finish(sim)
    assert got(sim, "q") == ["k", "m"]


@pytest.mark.parametrize("seed", SEEDS)
def test_8_a_connection_that_resets_loses_nothing_though_nobody_died(seed: int):
    sim = tree(FAMILY, slow("B", "P", 20), seed=seed)
    listen(sim, p_P="t")
    say(sim, 2.0, "w@C1", *(f"t:{n}" for n in range(20)))
    at(sim, 2.01, Reset("B", "P"))
    say(sim, 2.02, "w", *(f"t:{n}" for n in range(20, 30)))
    finish(sim)
    assert got(sim, "p") == [str(n) for n in range(30)]


@pytest.mark.parametrize("node", ["B", "P"])
def test_9_a_broker_that_freezes_with_its_connections_open_is_given_up_and_comes_back_anew(node: str):
    sim = tree("P-B B-C1 B-C2 P-D")
    listen(sim, c1_C1="t", c2_C2="t", d_D="t")
    at(sim, 2.0, Freeze(node))
    say(sim, 2.1, "c1", "t:meanwhile")
    run_until(sim, 25.0)
    assert got(sim, "c2") == got(sim, "d") == ["meanwhile"]
    before = sim.host(node).node
    at(sim, 30.0, Thaw(node))
    say(sim, 31.0, "d", "t:afterwards")
    finish(sim)
    assert sim.host(node).node is not before
    assert got(sim, "c1") == got(sim, "c2") == got(sim, "d") == ["meanwhile", "afterwards"]


@pytest.mark.parametrize("sends", ["Ack", "Publish"])
@pytest.mark.parametrize("seed", SEEDS)
def test_10_what_the_edge_broker_had_accepted_when_it_died_is_published_once(sends: str, seed: int):
    sim = tree(FAMILY, seed=seed)
    listen(sim, p_P="t", c_C2="t")
    at(sim, 2.0, When("C1", sends, Crash("C1")), Publish("w@C1", "t", b"once", "fifo"))
    say(sim, 2.5, "w", "t:more")
    finish(sim)
    assert reported(sim, "crash") == ["C1"]
    assert got(sim, "p") == got(sim, "c") == ["once", "more"]


@pytest.mark.parametrize("pair", ["P B", "B C1", "B P", "C1 B"])
@pytest.mark.parametrize("seed", SEEDS)
def test_11_two_neighbours_that_fail_together_are_survived_with_a_tolerance_of_two(pair: str, seed: int):
    sim = tree("Q-P P-B B-C1 B-C2 C1-E", slow("B", "P", 20), tolerance=2, seed=seed)
    listen(sim, q_Q="t", c_C2="t", e_E="t")
    first, second = pair.split()
    say(sim, 2.0, "e", "t:x", "t:y")
    at(sim, 2.006, Crash(first))
    at(sim, 2.010, Crash(second))
    say(sim, 2.02, "c", "t:z")
    finish(sim)
    for client in ("q", "c", "e"):
        assert sorted(got(sim, client)) == ["x", "y", "z"]
