"""Total order by turning at the top, when the top is out of reach."""

import pytest

from holdfast.protocols.ginger import RepairingBroker
from holdfast.protocols.ginger.healing_turning import HealingTurning
from holdfast.simulation.failures import FailureClass
from holdfast.simulation.faults import Crash, Cut, Heal, Part, Recover, Subscribe
from holdfast.simulation.workloads import Trouble, run_one
from holdfast.simulation.world import NotQuiet, Simulation
from tests.scenarios.repairs import at, finish, got, listen, run_until, say
from tests.scenarios.test_partitions import parted
from tests.support.parts import MakeBroker, with_parts


def test_a_top_that_is_cut_off_and_does_not_know_it_keeps_its_topics():
    """A turns a total message for its own clients alone. B, the root of a majority, may not turn one before that."""
    sim = parted("A-B B-C C-D")
    listen(sim, a_A="t", b_B="t", d_D="t")
    at(sim, 2.0, Part(("A",)))
    say(sim, 2.1, "a", "t:early", guarantee="total", key="k")
    say(sim, 12.0, "d", "t:late", guarantee="total", key="k")
    at(sim, 20.0, Heal())
    finish(sim)
    assert got(sim, "a") == got(sim, "b") == got(sim, "d") == ["early", "late"]


def test_totals_go_on_in_the_majority_where_the_top_is():
    sim = parted("A-B B-C C-D")
    listen(sim, a_A="t", b_B="t", d_D="t")
    at(sim, 2.0, Part(("D",)))
    say(sim, 8.0, "a", "t:x", guarantee="total", key="k")
    run_until(sim, 10.0)
    assert got(sim, "a") == got(sim, "b") == ["x"]
    at(sim, 20.0, Heal())
    finish(sim)
    assert got(sim, "d") == ["x"]


def test_a_top_below_that_is_cut_off_keeps_its_topics_from_those_who_want_them_later():
    sim = parted("R-P P-B R-G")
    listen(sim, b_B="t")
    at(sim, 2.0, Part(("B",)))
    say(sim, 2.1, "b", "t:early", guarantee="total", key="k")
    at(sim, 12.0, Subscribe("g@G", "t"))
    say(sim, 14.0, "g@G", "t:late", guarantee="total", key="k")
    at(sim, 25.0, Heal())
    finish(sim)
    assert got(sim, "b") == ["early", "late"]
    assert got(sim, "g") in (["early", "late"], ["late"])


@pytest.mark.parametrize(
    ("failure", "tolerance", "seed"),
    [
        # Several messages of c6 climb when 4 dies: that the last one does shows nothing about the others.
        ("crash", 1, 14),
        # c1#1 turned at 0 for those below 1 alone, c1#2 for others; 0 dies: nobody has c1#1 but 1, which sent it up.
        ("two", 2, 344),
        # The same, where the coordinator itself has sent it up.
        ("during", 2, 344),
        ("crash", 1, 306),
        # What follows a message that went up to a neighbour out of reach has nobody to go to.
        ("flap", 2, 108),
        # The top of a topic is out of reach, and has turned total messages that nobody here has.
        ("remerge", 1, 310),
    ],
)
def test_random_runs_that_were_broken_once(failure: FailureClass, tolerance: int, seed: int):
    outcome = run_one(seed, "ginger", Trouble((), failure, tolerance))
    assert outcome.ok, str(outcome)


class TakesNamesakesForTheLost(HealingTurning):
    """What follows a message that went up to a lost parent goes up to whoever has its name today."""

    def _is_open(self, hop: str) -> bool:
        return hop in self._healer.log.flows


def a_lost_parent_comes_back_as_a_child(make: MakeBroker) -> Simulation:
    """B has sent c#1 up to A when it loses it, and misses D and E behind it. A dies, and comes to B as its child."""
    sim = parted("A-B B-C A-D D-E", seed=1, make=make)
    listen(sim, c_C="t", d_D="t")
    at(sim, 2.0, *[Cut(one, other) for one in ("A", "D", "E") for other in ("B", "C")])
    say(sim, 2.1, "c", "t:1", key="k")
    at(sim, 9.0, Crash("A"), Heal("A", "B"), Heal("A", "C"))
    at(sim, 10.0, Cut("A", "D"), Cut("A", "E"), Recover("A"))
    say(sim, 16.0, "c", "t:2", "t:3", key="k")
    at(sim, 20.0, Heal())
    return sim


def test_what_follows_a_message_that_went_up_to_a_lost_parent_does_not_go_up_to_its_namesake_below():
    sim = a_lost_parent_comes_back_as_a_child(RepairingBroker)
    finish(sim)
    assert got(sim, "c") == got(sim, "d") == ["1", "2", "3"]


def test_a_climb_to_a_namesake_below_goes_round_in_a_circle():
    sim = a_lost_parent_comes_back_as_a_child(with_parts(healing_turning=TakesNamesakesForTheLost))
    with pytest.raises(NotQuiet, match="went up to"):
        finish(sim)
