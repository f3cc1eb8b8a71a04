"""Receipts that are true: confirmed on evidence, waiting for those who are away, indefinite where nobody can know."""

import pytest

from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.ginger import GingerBroker, RepairingBroker
from holdfast.simulation import faults
from holdfast.simulation.faults import Attach, Crash, Cut, Freeze, Heal, Part, Publish, Subscribe
from holdfast.simulation.world import Simulation
from tests.scenarios.repairs import BOOT_S, at, finish, listen, run_until, say, tree
from tests.scenarios.test_holes import announce
from tests.scenarios.test_honesty import Forgetful, Telling
from tests.scenarios.test_partitions import parted
from tests.support.parts import with_parts

tolerances = pytest.mark.parametrize("tolerance", [0, 1, 2])


def planted(edges: str, tolerance: int, broker: BrokerConfig | None = None) -> Simulation:
    make = RepairingBroker if tolerance else GingerBroker
    return Simulation(edges, make, broker=broker, tolerance=tolerance, check_invariants=True)


def ask(sim: Simulation, time_s: float, client: str, topic: str = "t", taken: bool = False) -> None:
    sim.at(BOOT_S + time_s, faults.Confirm(client, topic, taken))


def confirmed(sim: Simulation, client: str) -> int:
    return sum(isinstance(one, faults.Confirm) for one in sim.completed(client))


def doubts(sim: Simulation, client: str) -> list[str]:
    return [why for _, why in sim.client(client).doubts]


@tolerances
def test_what_everybody_has_is_confirmed(tolerance: int):
    sim = planted("A-B B-C B-D", tolerance)
    listen(sim, a_A="t", c_C="#", d_D="t u")
    sim.at(0.0, Subscribe("d@D", "t", where="n > 3"))
    sim.at(BOOT_S + 1.0, Publish("p@A", "t", b"x", "total", ("k",), {"n": 1}))
    ask(sim, 1.0, "p")
    ask(sim, 3.0, "p")
    finish(sim)
    assert (confirmed(sim, "p"), doubts(sim, "p")) == (2, [])


@pytest.mark.parametrize("kind", [Forgetful, Telling])
def test_a_subscriber_that_lacks_it_is_named_whether_it_was_told_or_not(kind: type[Forgetful]):
    sim = tree("A-B B-C", make=with_parts(data_path=kind))
    listen(sim, b_B="t", c_C="t")
    say(sim, 1.0, "p@A", "t:1")
    say(sim, 1.5, "p", "t:2")
    ask(sim, 1.5, "p")
    say(sim, 2.0, "p", "t:3")
    ask(sim, 4.0, "p")
    sim.run_until_quiet(60)
    assert confirmed(sim, "p") == (0 if kind is Telling else 1)
    assert doubts(sim, "p")[0].startswith("c has not got it")


@tolerances
def test_a_subscriber_that_was_given_up_is_named_and_only_in_receipts_of_what_was_published_before(tolerance: int):
    sim = planted("A-B", tolerance, BrokerConfig("*", session_keep_s=5.0))
    listen(sim, b_B="t", c_B="u")
    say(sim, 1.0, "p@A", "t:1", "u:1")
    at(sim, 2.0, Crash("b"))
    say(sim, 3.0, "p", "t:2")
    ask(sim, 3.5, "p")
    run_until(sim, 6.0)
    assert (confirmed(sim, "p"), doubts(sim, "p")) == (0, [])  # It may come back: it is waited for.
    say(sim, 20.0, "p", "t:3")
    ask(sim, 20.5, "p")
    ask(sim, 20.5, "p", "u")
    sim.run_until_quiet(60)
    assert doubts(sim, "p") == ["b has been given up since"]
    assert confirmed(sim, "p") == 2


def test_those_who_did_not_come_to_a_repair_are_named():
    sim = tree("A-B B-C", make=RepairingBroker)
    listen(sim, c_C="t", d_C="t")
    at(sim, 1.0, Freeze("c"))
    at(sim, 1.2, Crash("C"))
    say(sim, 1.1, "p@A", "t:1")
    ask(sim, 1.1, "p")
    at(sim, 40.0, faults.Thaw("c"))
    sim.run_until_quiet(90)
    assert confirmed(sim, "p") == 0
    assert doubts(sim, "p") == ["c has been given up since"]


@tolerances
def test_a_subscriber_that_is_away_is_waited_for(tolerance: int):
    sim = planted("A-B", tolerance)
    listen(sim, b_B="t")
    at(sim, 1.0, Cut("B", "b"))
    say(sim, 1.5, "p@A", "t:1")
    ask(sim, 1.5, "p")
    run_until(sim, 4.0)
    assert (confirmed(sim, "p"), doubts(sim, "p")) == (0, [])
    at(sim, 4.5, Heal())
    finish(sim)
    assert (confirmed(sim, "p"), doubts(sim, "p")) == (1, [])


def test_a_part_of_the_network_that_is_out_of_reach_is_waited_for():
    sim = parted()
    listen(sim, a_A="t", e_E="t")
    at(sim, 2.0, Part(("A", "B")))
    say(sim, 6.0, "e", "t:1")
    ask(sim, 6.0, "e")
    run_until(sim, 13.0)
    assert (confirmed(sim, "e"), doubts(sim, "e")) == (0, [])
    at(sim, 14.0, Heal())
    finish(sim)
    assert (confirmed(sim, "e"), doubts(sim, "e")) == (1, [])


@tolerances
def test_a_subscription_that_was_confirmed_after_the_publish_is_not_owed(tolerance: int):
    sim = planted("A-B", tolerance)
    listen(sim, a_A="t")
    say(sim, 1.0, "p@A", "t:1")
    at(sim, 2.0, Attach("late@B"))
    at(sim, 2.0, Subscribe("late@B", "t"))
    ask(sim, 4.0, "p")
    finish(sim)
    assert (confirmed(sim, "p"), doubts(sim, "p")) == (1, [])


def test_nothing_is_confirmed_across_a_hole_and_what_comes_after_it_is():
    sim = tree("A-B B-C", make=RepairingBroker)
    listen(sim, c_C="t")
    say(sim, 1.0, "p@A", "t:1")
    announce(sim, 2.0, "B")
    ask(sim, 3.0, "p")
    say(sim, 6.0, "p", "t:2")
    ask(sim, 6.5, "p")
    finish(sim)
    assert confirmed(sim, "p") == 1
    assert doubts(sim, "p") == ["something may be missing: a test let something go"]


def test_a_hole_while_a_question_waits_makes_its_answer_indefinite():
    sim = tree("A-B B-C", make=RepairingBroker)
    listen(sim, c_C="t")
    at(sim, 1.0, Cut("C", "c"))
    say(sim, 1.5, "p@A", "t:1")
    ask(sim, 1.5, "p")
    announce(sim, 3.0, "B")
    at(sim, 3.2, Heal())
    finish(sim)
    assert (confirmed(sim, "p"), len(doubts(sim, "p"))) == (0, 1)


@tolerances
def test_the_application_is_waited_for_if_that_is_asked(tolerance: int):
    sim = planted("A-B", tolerance)
    listen(sim, b_B="t")
    sim.client("b@B").consume_s = 3.0
    say(sim, 1.0, "p@A", "t:1")
    ask(sim, 1.0, "p")
    ask(sim, 1.0, "p", taken=True)
    run_until(sim, 3.5)
    assert confirmed(sim, "p") == 1
    run_until(sim, 5.0)
    assert confirmed(sim, "p") == 2
    finish(sim)


def test_an_application_that_took_it_at_another_broker_is_asked_there():
    sim = tree("A-B B-C", make=RepairingBroker)
    listen(sim, c_C="t")
    sim.client("c").consume_s = 12.0
    say(sim, 1.0, "p@A", "t:1")
    ask(sim, 1.0, "p", taken=True)
    at(sim, 2.0, Crash("C"))
    finish(sim)
    assert (confirmed(sim, "p"), doubts(sim, "p")) == (1, [])
