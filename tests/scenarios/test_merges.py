"""Merges of two parts of a tree that are interrupted: nothing is let go before the other side has it, or all are told.

The chain A-B-C-D-E is parted between B and C. B, on the side of the root, keeps what the others lack; C is the root of
its part, looks for B, and returns.
"""

import pytest
from msgspec.structs import replace

from holdfast.model.terms import Contact
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.ginger import RepairingBroker
from holdfast.protocols.ginger.absences import Absence
from holdfast.protocols.ginger.admissions import Admissions
from holdfast.protocols.ginger.flush import Flush
from holdfast.protocols.ginger.rejoin import Rejoin
from holdfast.protocols.ginger.reunion import Reunion
from holdfast.protocols.links import Link
from holdfast.simulation.checkers.honesty import complaints, silent_losses
from holdfast.simulation.faults import Crash, Cut, Fault, Heal, Part, Recover, Unsubscribe, When
from holdfast.simulation.world import Simulation
from tests.scenarios.repairs import BOOT_S, SEEDS, at, finish, got, listen, reported, run_until, say
from tests.scenarios.test_partitions import parted
from tests.support.parts import MakeBroker, with_parts

some_seeds = pytest.mark.parametrize("seed", SEEDS[:3])
AGAIN: dict[str, Fault] = {"cut": Cut("B", "C"), "part": Part(("A", "B"))}
HEAL_S = 14.0


def mixed(sim: Simulation, begin_s: int, end_s: int) -> int:
    """Both sides publish weaker and total messages; returns how many."""
    for second in range(begin_s, end_s):
        say(sim, second, "a", f"t:a{second}")
        say(sim, second, "e", f"t:e{second}")
        say(sim, second + 0.5, "e", f"t:E{second}", guarantee="total", key="k")
    return 3 * (end_s - begin_s)


def parted_and_whole_again(seed: int, make: MakeBroker = RepairingBroker) -> tuple[Simulation, int]:
    sim = parted(seed=seed, make=make)
    listen(sim, a_A="t", b_B="t", c_C="t", e_E="t")
    at(sim, 2.0, Part(("A", "B")))
    count = mixed(sim, 3, 12)
    at(sim, HEAL_S, Heal())
    return sim, count


def all_got(sim: Simulation, count: int) -> None:
    for client in ("a", "b", "c", "e"):
        assert len(got(sim, client)) == count, client
        assert sim.client(client).gaps == []


def one_tree(sim: Simulation) -> None:
    sim.run_until_quiet(limit_s=90, quiet_s=3.0)
    assert sim.unrepaired() == []


def nobody_is_missed(sim: Simulation, *brokers: str) -> None:
    for name in brokers or sim.tree:
        node = sim.node(name)
        assert isinstance(node, RepairingBroker)
        assert node.status()["absent"] == [], name


@some_seeds
@pytest.mark.parametrize("again", AGAIN)
@pytest.mark.parametrize(
    ("teller", "word", "nth"),
    [
        ("C", "Seek", 1),
        ("B", "Found", 1),
        ("C", "Unstable", 1),
        ("C", "Unstable", 5),
        ("C", "Join", 1),
        ("B", "Open", 1),
        ("B", "Publish", 1),
        ("B", "Publish", 6),
        ("C", "Publish", 4),
    ],
)
def test_a_merge_that_is_interrupted_at_any_word_loses_nothing(seed: int, again: str, teller: str, word: str, nth: int):
    sim, count = parted_and_whole_again(seed)
    at(sim, HEAL_S, When(teller, word, AGAIN[again], nth, 5.0))
    at(sim, HEAL_S + 9.0, Heal())
    say(sim, HEAL_S + 25.0, "a", "t:late")
    finish(sim)
    all_got(sim, count + 1)
    assert "excluded" not in {report.event for _, _, report in sim.reports}


@some_seeds
def test_a_merge_may_be_interrupted_any_number_of_times(seed: int):
    sim, count = parted_and_whole_again(seed)
    for number, word in enumerate(("Join", "Open", "Unstable", "Publish")):
        begin_s = HEAL_S + 16.0 * number
        at(sim, begin_s, Heal(), When("B" if word in ("Open", "Publish") else "C", word, Cut("B", "C"), 1, 5.0))
    at(sim, HEAL_S + 64.0, Heal())
    run_until(sim, HEAL_S + 64.0)
    finish(sim)
    all_got(sim, count)


@some_seeds
def test_the_heir_of_a_dead_root_goes_on_with_its_search_and_the_others_are_told_of_the_hole(seed: int):
    sim = parted(seed=seed)
    listen(sim, a_A="t", c_C="t", e_E="t")
    at(sim, 2.0, Part(("A", "B")))
    mixed(sim, 3, 11)
    at(sim, 12.0, Crash("C"))
    at(sim, HEAL_S, Heal())
    one_tree(sim)
    assert silent_losses(sim.events) == []
    assert sim.client("a").gaps
    assert not sim.client("e").gaps
    # What the others said is kept by B, and nobody in the part lacks it.
    assert [one for one in got(sim, "e") if one.startswith("a")] == [f"a{second}" for second in range(3, 11)]


@some_seeds
@pytest.mark.parametrize("word", ["Join", "Unstable", "Seek"])
def test_a_part_whose_keeper_dies_in_the_midst_of_the_merge_is_told(seed: int, word: str):
    sim, _ = parted_and_whole_again(seed)
    at(sim, HEAL_S, When("C", word, Crash("B"), 1, 5.0))
    one_tree(sim)
    assert complaints(sim.events) == []
    assert sim.client("e").gaps
    # The diary of the part is whole: the others have everything.
    assert [one for one in got(sim, "a") if one.startswith("e")] == [f"e{second}" for second in range(3, 12)]
    assert sim.client("a").gaps == []


@some_seeds
@pytest.mark.parametrize("who", ["keeper", "part"])
def test_whoever_keeps_too_much_lets_go_of_it_and_the_other_side_is_told(seed: int, who: str):
    sim = parted(seed=seed, broker=BrokerConfig("*", absent_s=6.0))
    listen(sim, a_A="t", e_E="t")
    at(sim, 2.0, Part(("A", "B")))
    mixed(sim, 3, 18)
    at(sim, 22.0, Heal())
    if who == "part":
        # B, which has lost no parent, is more patient than C.
        run_until(sim, 1.0)
        keeper = sim.node("B")
        assert isinstance(keeper, RepairingBroker)
        keeper.config = replace(keeper.config, absent_s=300.0)
    one_tree(sim)
    assert complaints(sim.events) == []
    assert sim.client("a").gaps
    assert bool(sim.client("e").gaps) is (who == "keeper")


def test_two_parts_become_one_though_each_root_looks_for_the_other():
    sim = parted("A-B B-C C-D D-E E-F", seed=3)
    listen(sim, a_A="t", c_C="t", f_F="t")
    at(sim, 2.0, Part(("A", "B")), Part(("E", "F")))
    mixed_by = ("a", "c", "f")
    for second in range(3, 12):
        for client in mixed_by:
            say(sim, second, client, f"t:{client}{second}")
    at(sim, HEAL_S, Heal())
    finish(sim)
    for client in mixed_by:
        assert len(got(sim, client)) == 27


@some_seeds
@pytest.mark.parametrize("back_s", [0.01, 0.1])
def test_nothing_is_said_to_a_newcomer_at_the_door_while_the_loss_of_its_namesake_is_repaired(seed: int, back_s: float):
    sim = parted("A-B B-C A-D", seed=seed)
    listen(sim, a_A="t", b_B="t u", c_C="t")
    # B dies with the word that nobody wants u any more: A takes that back from its neighbours when b has come.
    at(sim, 1.9997, Unsubscribe("b", "u"))
    at(sim, 2.0, Crash("B"))
    at(sim, 2.0 + back_s, Recover("B"))
    say(sim, 10.0, "c", "t:late")
    finish(sim)
    assert reported(sim, "violation") == []


def give_up(sim: Simulation, time_s: float, broker: str, peer: str) -> None:
    """Let that broker take its neighbour for dead, as if the connection had been closed."""

    def act(_: object) -> None:
        host = sim.host(broker)
        node = host.node
        assert isinstance(node, RepairingBroker)
        node.settle(host.now)  # So that it knows the time.
        [epoch] = [one.epoch for one in node.view.near() if one.name == peer]
        node.suspicion.suspect(peer, epoch, "a test says so")
        host.enter(node.hub.take())

    sim.kernel.at(BOOT_S + time_s, lambda _: sim.host(broker).when_free(act))


def two_trees(make: MakeBroker) -> Simulation:
    """A and B give each other up, though both live: two roots that miss nobody."""
    sim = parted("A-B B-C", make=make)
    listen(sim, a_A="t", c_C="t")
    at(sim, 2.0, Cut("A", "B"), Cut("A", "C"))
    give_up(sim, 2.1, "A", "B")
    give_up(sim, 2.1, "B", "A")
    at(sim, 8.0, Heal())
    say(sim, 40.0, "a", "t:1")
    say(sim, 40.0, "c", "t:2")
    run_until(sim, 45.0)
    return sim


def test_two_trees_that_miss_nobody_find_each_other():
    sim = two_trees(RepairingBroker)
    one_tree(sim)
    assert sorted(got(sim, "a")) == sorted(got(sim, "c")) == ["1", "2"]
    assert complaints(sim.events) == []


def begun_anew(seed: int, whole_s: float) -> Simulation:
    """B loses A, then C loses B, which begins anew below A, and is there for C before A is."""
    sim = parted("A-B B-C C-D", seed=seed)
    listen(sim, a_A="t", b_B="t", d_D="t")
    at(sim, 2.0, Cut("A", "B"))
    at(sim, 4.0, Part(("C", "D")), Crash("B"))
    at(sim, 4.5, Recover("B"))
    say(sim, 6.0, "a", "t:1", guarantee="total", key="k")
    at(sim, 12.0, Heal("A", "B"))
    at(sim, 16.0, Heal("B", "C"), Heal("B", "D"))
    at(sim, whole_s, Heal())
    return sim


@some_seeds
def test_an_heir_goes_on_with_the_search_of_a_root_that_fell_silent_and_begins_anew(seed: int):
    sim = begun_anew(seed, 17.0)
    one_tree(sim)
    nobody_is_missed(sim)
    assert complaints(sim.events) == []
    # A has kept what C lacks, and C has found it.
    assert "1" in got(sim, "d")


@some_seeds
def test_a_broker_hears_that_those_whom_it_missed_are_in_the_tree(seed: int):
    sim = begun_anew(seed, 60.0)
    one_tree(sim)
    nobody_is_missed(sim)
    assert complaints(sim.events) == []


@some_seeds
def test_two_trees_become_one_if_one_keeps_for_the_other_which_took_it_for_dead(seed: int):
    sim = parted("A-B B-C", seed=seed)
    listen(sim, a_A="t", c_C="t")
    at(sim, 2.0, Part(("A",)))
    give_up(sim, 2.1, "B", "A")
    say(sim, 4.0, "a", "t:1")
    say(sim, 4.0, "c", "t:2")
    at(sim, 14.0, Heal())
    say(sim, 50.0, "a", "t:3")
    one_tree(sim)
    nobody_is_missed(sim)
    assert complaints(sim.events) == []


@some_seeds
def test_two_parts_find_each_other_though_only_one_knows_of_the_other_and_both_look_for_a_dead_broker(seed: int):
    sim = parted("A-B A-C B-D", seed=seed)
    listen(sim, a_A="t", b_B="t", c_C="t", d_D="t")
    at(sim, 2.0, Cut("A", "B"))
    at(sim, 4.5, Cut("A", "C"))
    at(sim, 7.0, Cut("B", "D"))
    at(sim, 11.0, Crash("A"))
    at(sim, 16.0, Heal())
    one_tree(sim)
    nobody_is_missed(sim, "B", "C", "D")
    assert complaints(sim.events) == []


@some_seeds
def test_a_part_that_has_found_the_broker_it_looked_for_says_so_and_takes_others_in(seed: int):
    """B, C and D are alone. D comes to C, which then looks for nobody, though A is dead; B insists on joining C."""
    sim = parted("A-D A-C A-B", seed=seed)
    listen(sim, b_B="t", c_C="t", d_D="t")
    at(sim, 2.0, Part(("D",)))
    at(sim, 2.4, Crash("A"))
    at(sim, 6.0, Heal())
    one_tree(sim)
    nobody_is_missed(sim, "B", "C", "D")
    assert complaints(sim.events) == []


# ------------------------------------------------------------------------------------------- each rule is necessary


class LetsGoAtOnce(Rejoin):
    """Lets go of its diary when it asks to be taken back, not when it is."""

    def join(self, link: Link) -> None:
        absence = self._absences.of_parent()
        super().join(link)
        if absence is not None and self._returning_from:
            self._absences.let_go(absence)
            absence.whole = True


class AsksNoStray(Reunion):
    """Does not care that it counts too few brokers."""

    def _is_short(self) -> bool:
        return False


class GoesOnWithoutItsHeir(AsksNoStray):
    """Does not go on with the search of a root that has died, nor look for the brokers that are not there."""

    def _inherit(self, lost: tuple[Contact, ...], root: str) -> None:
        pass


class SaysNothing(Admissions):
    """Tells nobody of a hole."""

    def _tell_of_holes(self, flush: Flush, absence: Absence | None) -> None:
        pass


def test_a_diary_that_is_let_go_at_the_join_is_missed():
    sim, count = parted_and_whole_again(1, with_parts(rejoin=LetsGoAtOnce))
    at(sim, HEAL_S, When("C", "Join", Cut("B", "C"), 1, 5.0))
    at(sim, HEAL_S + 9.0, Heal())
    run_until(sim, 60.0)
    assert len(got(sim, "a")) < count


def test_a_search_that_dies_with_its_root_leaves_two_trees():
    sim = parted(seed=1, make=with_parts(reunion=GoesOnWithoutItsHeir))
    listen(sim, a_A="t", e_E="t")
    at(sim, 2.0, Part(("A", "B")))
    at(sim, 12.0, Crash("C"))
    at(sim, HEAL_S, Heal())
    run_until(sim, 60.0)
    assert any("several roots" in one for one in sim.unrepaired())


def test_a_hole_that_nobody_tells_of_is_a_silent_loss():
    sim, _ = parted_and_whole_again(1, with_parts(admissions=SaysNothing))
    at(sim, HEAL_S, When("C", "Join", Crash("B"), 1, 5.0))
    one_tree(sim)
    assert silent_losses(sim.events)


def broken_while_it_is_passed_on(seed: int) -> Simulation:
    """B hands the total batches of its side to C, and C dies before it has passed them on.

    Whether D has heard by then that C is below B is up to chance: if not, D comes as the root of its part.
    """
    sim = parted("A-B B-C C-D A-F A-G", seed=seed)
    listen(sim, a_A="t", d_D="t")
    at(sim, 2.0, Part(("C", "D")))
    for second in range(3, 12):
        say(sim, second, "a", f"t:A{second}", guarantee="total", key="k")
    at(sim, HEAL_S, Heal(), When("C", "Publish", Crash("C"), 1, 5.0))
    one_tree(sim)
    return sim


@pytest.mark.parametrize("seed", SEEDS)
def test_total_batches_that_a_broken_merge_had_yet_to_pass_on_are_handed_over_again(seed: int):
    sim = broken_while_it_is_passed_on(seed)
    assert complaints(sim.events) == []
    assert len(got(sim, "d")) == 9
    assert reported(sim, "merge")


def test_a_root_that_does_not_ask_the_brokers_it_gave_up_stays_alone():
    assert any("several roots" in one for one in two_trees(with_parts(reunion=AsksNoStray)).unrepaired())
