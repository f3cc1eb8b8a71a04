"""A broker that was out of reach dies before what it kept was handed over, and its clients come without it.

Each story is told twice: as it goes, and with the rule that it needs left out.
"""

import pytest
from msgspec.structs import replace

from holdfast.protocols.ginger import RepairingBroker
from holdfast.protocols.ginger.absences import Absence, OwnHistory
from holdfast.protocols.ginger.admissions import Admissions
from holdfast.protocols.ginger.diaries import Diaries
from holdfast.protocols.ginger.flush import Flush, own_history
from holdfast.protocols.ginger.joiners import Joiner
from holdfast.protocols.ginger.repairs import Repairs
from holdfast.protocols.last_numbers import Ahead
from holdfast.simulation.checkers.honesty import complaints, silent_losses
from holdfast.simulation.faults import Crash, Cut, Heal, Part, Subscribe, When
from holdfast.simulation.world import Simulation
from tests.scenarios.repairs import SEEDS, at, got, listen, reported, run_until, say
from tests.scenarios.test_merges import one_tree
from tests.scenarios.test_partitions import parted
from tests.support.parts import MakeBroker, with_parts

some_seeds = pytest.mark.parametrize("seed", SEEDS[:3])


class ForgetsTheOtherDiary(Diaries):
    """Does not care that clients come without the broker that kept what they published."""

    def tell_of_lost_diary(self, absence: Absence) -> None:
        pass


class RemembersTheFirstLoss(Admissions):
    """Takes the second loss of a broker, which was back meanwhile, for the first one."""

    def _no_longer_repaired(self, joiner: Joiner) -> None:
        pass


class ExpectsNodesThatHaveCome(Repairs):
    """Goes on expecting nodes that came with the broker above them, unless it is the same repair."""

    def _expect_no_more(self, joiner: str, below: set[str], joining: Flush) -> None:  # noqa: ARG002
        for name in below & joining.waiting.keys():
            del joining.waiting[name]


class DiscardsWithoutAWord(Repairs):
    """Says nothing of the publications that a refused client takes with it."""

    def _tell_of_discarded(self, client: str, ahead: list[Ahead]) -> None:
        pass


def clients_come_alone(seed: int, make: MakeBroker) -> Simulation:
    """A is out of reach of B and C, with a client of its own, and dies when the network is whole again."""
    sim = parted("A-B B-C", seed=seed, make=make)
    listen(sim, a_A="t", c_C="t")
    at(sim, 2.0, Part(("A",)))
    for second in range(3, 16):
        say(sim, second, "a", f"t:a{second}")
    at(sim, 18.0, Crash("A"))
    at(sim, 18.01, Heal())
    one_tree(sim)
    return sim


@some_seeds
def test_subscribers_are_told_if_clients_come_from_out_of_reach_without_their_broker(seed: int):
    sim = clients_come_alone(seed, RepairingBroker)
    assert len(got(sim, "c")) < 13
    assert sim.client("c").gaps
    assert complaints(sim.events) == []


def test_subscribers_that_are_not_told_of_the_lost_diary_lose_messages_silently():
    assert silent_losses(clients_come_alone(0, with_parts(diaries=ForgetsTheOtherDiary)).events)


def make_patient(sim: Simulation, broker: str) -> None:
    """That broker waits for five seconds for nodes that it expects to join it."""
    run_until(sim, 1.0)
    node = sim.node(broker)
    assert isinstance(node, RepairingBroker)
    node.config = replace(node.config, join_s=5.0)


def lost_a_second_time(seed: int, make: MakeBroker) -> Simulation:
    """C is back before B, which is patient, has repaired its loss, and then C dies: its client is at B at once."""
    sim = parted("B-C C-D D-E", seed=seed, make=make)
    listen(sim, b_B="t", c_C="t", e_E="t")
    make_patient(sim, "B")
    at(sim, 2.0, Part(("B",)))
    at(sim, 9.0, Heal())
    at(sim, 16.0, Cut("B", "C"), Cut("C", "D"))
    say(sim, 16.0, "c", "t:1")
    at(sim, 16.02, Crash("C"))
    at(sim, 16.03, Heal())
    run_until(sim, 30.0)
    one_tree(sim)
    return sim


@some_seeds
def test_a_client_of_a_broker_that_is_lost_a_second_time_is_not_late(seed: int):
    sim = lost_a_second_time(seed, RepairingBroker)
    assert sim.failures() == []
    assert got(sim, "b") == got(sim, "e") == ["1"]
    assert not sim.client("b").gaps


def test_a_first_loss_that_is_remembered_ends_the_session_of_a_client_that_is_not_late():
    assert any(
        "messages are missing" in one
        for one in lost_a_second_time(0, with_parts(admissions=RemembersTheFirstLoss)).failures()
    )


def test_a_client_that_is_refused_takes_its_publications_along_and_subscribers_are_told():
    refuses_and_tells = with_parts(admissions=RemembersTheFirstLoss)
    refuses_silently = with_parts(admissions=RemembersTheFirstLoss, repairs=DiscardsWithoutAWord)
    told, silent = (lost_a_second_time(0, make) for make in (refuses_and_tells, refuses_silently))
    assert got(told, "b") == got(silent, "b") == []
    assert told.client("b").gaps
    assert not silent.client("b").gaps


def an_heir_comes_while_the_loss_is_repaired(seed: int, make: MakeBroker) -> Simulation:
    """A total message of E's turns at A, and has yet to pass C when C is cut off. C dies, D comes in its place."""
    sim = parted("A-B B-C C-D D-E A-F A-G A-H", seed=seed, make=make)
    listen(sim, a_A="t", e_E="t")
    at(sim, 2.0, When("B", "Publish", Part(("C", "D", "E")), 1, 5.0))
    say(sim, 2.0, "e", "t:1", guarantee="total", key="k")
    at(sim, 7.0, Crash("C"))
    at(sim, 7.2, Heal())
    one_tree(sim)
    return sim


@some_seeds
def test_the_heir_of_a_part_is_handed_total_batches_that_were_released_without_the_part(seed: int):
    sim = an_heir_comes_while_the_loss_is_repaired(seed, RepairingBroker)
    assert got(sim, "a") == got(sim, "e") == ["1"]
    assert complaints(sim.events) == []


def the_keeper_dies_and_the_part_comes_to_its_parent(make: MakeBroker) -> Simulation:
    """B misses C and those behind it, and dies. A repairs that and expects D; C comes, with D below it."""
    sim = parted(make=make)
    listen(sim, a_A="t", e_E="t")
    make_patient(sim, "A")
    at(sim, 2.0, Part(("C", "D", "E")))
    at(sim, 14.0, Crash("B"))
    at(sim, 14.01, Heal())
    one_tree(sim)
    return sim


def test_nodes_that_come_with_the_root_of_their_part_are_not_given_up():
    sim = the_keeper_dies_and_the_part_comes_to_its_parent(RepairingBroker)
    assert reported(sim, "merge") == ["A"]
    assert not reported(sim, "excluded")
    assert reported(
        the_keeper_dies_and_the_part_comes_to_its_parent(with_parts(repairs=ExpectsNodesThatHaveCome)), "excluded"
    )


def an_heir_is_asked_for_something_new(make: MakeBroker) -> Simulation:
    """C is cut off from B and dies. e subscribes at the heir, D, which comes while B still repairs the loss of C."""
    sim = parted(make=make)
    listen(sim, a_A="t", d_D="t")
    at(sim, 2.0, Part(("C", "D", "E")))
    at(sim, 5.5, Crash("C"))
    at(sim, 6.0, Subscribe("e@E", "u"))
    for tenth in range(62, 80, 2):
        say(sim, tenth / 10, "a", f"u:{tenth}")
    at(sim, 7.0, Heal())
    run_until(sim, 20.0)
    one_tree(sim)
    return sim


def test_an_heir_is_handed_what_its_part_came_to_want_while_the_loss_of_the_root_was_repaired():
    sim = an_heir_is_asked_for_something_new(RepairingBroker)
    assert got(sim, "e") == [str(tenth) for tenth in range(62, 80, 2)]
    assert complaints(sim.events) == []


class LooksOnlyAtTheLink(Admissions):
    """Hands to a part what the lost broker had wanted, not what the part came to want since."""

    def _own_side(self, flush: Flush) -> OwnHistory:
        return own_history(self._log.history(flush.key), flush.key)


def test_a_part_that_came_to_want_something_else_loses_it_if_the_diary_is_not_looked_at():
    assert silent_losses(an_heir_is_asked_for_something_new(with_parts(admissions=LooksOnlyAtTheLink)).events)
