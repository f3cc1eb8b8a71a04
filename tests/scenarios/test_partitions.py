"""A network that is parted: both sides live on, and become one again with everything that either has said."""

import pytest
from msgspec.structs import replace

from holdfast.protocols.config import BrokerConfig, ClientConfig, LinkConfig
from holdfast.protocols.ginger import RepairingBroker
from holdfast.protocols.ginger.absences import Absences
from holdfast.simulation.checkers.honesty import complaints
from holdfast.simulation.faults import (
    Attach,
    Command,
    Confirm,
    Crash,
    Freeze,
    Heal,
    Part,
    Recover,
    Subscribe,
    Thaw,
    When,
)
from holdfast.simulation.latencies import Constant
from holdfast.simulation.network import LinkSettings, NetworkConfig
from holdfast.simulation.world import Simulation
from tests.scenarios.repairs import SEEDS, at, finish, got, listen, reported, run_until, say, slow
from tests.support.parts import MakeBroker, with_parts

LINK = LinkConfig(heartbeat_s=0.3, silence_s=1.5)
CHAIN = "A-B B-C C-D D-E"
"""Parted between B and C: the two of A's side are the minority."""
seeds = pytest.mark.parametrize("seed", SEEDS)

ROOT_IN_THE_MAJORITY = "C-B B-A C-D D-E"
"""A and B are the minority; the top of what everybody wants is C."""


def parted(
    edges: str = CHAIN,
    seed: int = 0,
    broker: BrokerConfig | None = None,
    client: ClientConfig | None = None,
    make: MakeBroker = RepairingBroker,
    link: LinkConfig = LINK,
    links: tuple[LinkSettings, ...] = (),
) -> Simulation:
    broker = broker or BrokerConfig("*")
    return Simulation(
        edges,
        make,
        seed,
        network=NetworkConfig(latency=Constant(2.0), client_latency=Constant(0.1), connect_timeout_s=1.0, links=links),
        broker=replace(broker, link=link, join_s=1.0, brokers=len({*edges.replace("-", " ").split()})),
        client=replace(client or ClientConfig("*"), link=LINK),
        tolerance=1,
        check_invariants=make is RepairingBroker,
    )


@seeds
def test_both_sides_go_on_and_everybody_gets_everything_once_in_the_order_of_its_side(seed: int):
    sim = parted(seed=seed)
    listen(sim, a_A="t", e_E="t")
    at(sim, 2.0, Part(("A", "B")))
    for second in range(3, 12):
        say(sim, second, "a", f"t:a{second}")
        say(sim, second, "e", f"t:e{second}")
    run_until(sim, 13.0)
    assert got(sim, "a") == [f"a{second}" for second in range(3, 12)]
    assert got(sim, "e") == [f"e{second}" for second in range(3, 12)]
    at(sim, 14.0, Heal())
    finish(sim)
    assert sorted(got(sim, "a")) == sorted(got(sim, "e"))
    assert len(got(sim, "a")) == 18
    assert len(reported(sim, "merge")) == 1
    assert "excluded" not in {report.event for _, _, report in sim.reports}


def test_what_only_the_other_side_wants_is_kept_for_it():
    sim = parted()
    listen(sim, e_E="t")
    at(sim, 2.0, Part(("A", "B")))
    say(sim, 8.0, "a@A", "t:x")
    at(sim, 14.0, Heal())
    finish(sim)
    assert got(sim, "e") == ["x"]


class SecondLossTakesThePlace(Absences):
    """Forgets those whom the earlier loss of a broker has left missing when it is lost again."""

    def _set_aside(self, key: str) -> None:
        self._all.pop(key, None)


def lost_twice(make: MakeBroker = RepairingBroker) -> Simulation:
    """C, behind B, is cut off. B stands still, begins anew, and stands still again; then a publishes and asks."""
    sim = parted("A-B B-C A-D A-E A-F A-G", make=make)
    listen(sim, a_A="t", c_C="t")
    at(sim, 2.0, Part(("C",)), Freeze("B"))
    at(sim, 9.0, Thaw("B"))
    at(sim, 14.0, Freeze("B"))
    say(sim, 21.0, "a", "t:x")
    at(sim, 21.5, Confirm("a", "t"))
    run_until(sim, 27.0)
    return sim


def test_those_behind_a_broker_are_missed_also_when_it_is_lost_again_without_them():
    sim = lost_twice()
    assert not [event for event in sim.events if event.event == "confirmed"]
    at(sim, 28.0, Heal(), Thaw("B"))
    finish(sim)
    assert got(sim, "c") == ["x"]
    assert complaints(sim.events) == []


def test_where_the_second_loss_takes_the_place_of_the_first_nobody_is_missed():
    sim = lost_twice(with_parts(absences=SecondLossTakesThePlace))
    at(sim, 28.0, Heal(), Thaw("B"))
    sim.run_until_quiet(limit_s=60, quiet_s=3.0)
    assert sim.check().faults["lost"] == 1


def test_whoever_subscribes_while_the_network_is_parted_gets_what_the_other_side_publishes_afterwards():
    sim = parted()
    listen(sim, a_A="t")
    at(sim, 2.0, Part(("A", "B")))
    at(sim, 2.5, Subscribe("e@E", "u"))
    run_until(sim, 12.0)
    assert "subscribe" in {report.event for _, name, report in sim.reports if name == "e"}
    say(sim, 13.0, "a@A", "u:x")
    at(sim, 14.0, Heal())
    finish(sim)
    assert got(sim, "e") == ["x"]


@seeds
def test_total_messages_are_ordered_by_the_majority_and_wait_in_the_minority(seed: int):
    sim = parted(ROOT_IN_THE_MAJORITY, seed=seed)
    listen(sim, a_A="t", b_B="t", d_D="t", e_E="t")
    at(sim, 2.0, Part(("A", "B")))
    for second in (8, 9):
        say(sim, second, "a", f"t:a{second}", guarantee="total", key="k")
        say(sim, second, "e", f"t:e{second}", guarantee="total", key="k")
    run_until(sim, 13.0)
    assert (got(sim, "d"), got(sim, "a")) == (["e8", "e9"], [])
    assert {"A", "B"} <= set(reported(sim, "minority"))
    at(sim, 14.0, Heal())
    finish(sim)
    assert got(sim, "a") == got(sim, "b") == got(sim, "d") == got(sim, "e")
    assert got(sim, "a")[:2] == ["e8", "e9"]


def test_an_impatient_publisher_is_refused_a_total_message_in_the_minority_and_nothing_else():
    sim = parted(client=ClientConfig("*", patient=False))
    listen(sim, b_B="t", e_E="t")
    at(sim, 2.0, Part(("A", "B")))
    say(sim, 8.0, "a@A", "t:no", guarantee="total", key="k")
    say(sim, 8.1, "a@A", "t:yes")
    at(sim, 14.0, Heal())
    sim.run_until_quiet(limit_s=60, quiet_s=3.0)
    assert (got(sim, "b"), got(sim, "e")) == (["yes"], ["yes"])
    [failure] = sim.failures()
    assert "no majority of the 5 brokers" in failure


def test_what_the_minority_publishes_on_the_key_of_a_total_message_is_reported_to_have_crossed_it():
    sim = parted(ROOT_IN_THE_MAJORITY)
    listen(sim, a_A="t", e_E="t")
    at(sim, 2.0, Part(("A", "B")))
    say(sim, 8.0, "e", "t:total", guarantee="total", key="k")
    say(sim, 8.0, "a", "t:weak", guarantee="fifo", key="k")
    at(sim, 14.0, Heal())
    finish(sim)
    assert (got(sim, "a"), got(sim, "e")) == (["weak", "total"], ["total", "weak"])
    # Its own broker knows that it has no majority; the one that merges finds the word on it, and need not say it again.
    assert reported(sim, "crossed") == ["A", "a"]
    # Everybody gets it with that word, and its publisher is told.
    for client in ("a", "e"):
        assert [one.payload for one in sim.deliveries(client) if one.crossed] == [b"weak"]


@pytest.mark.parametrize("time_s", [4.0, 15.0])
def test_what_a_majority_publishes_on_a_topic_whose_top_is_out_of_reach_has_crossed_what_turned_there(time_s: float):
    """The message turns at A, which is cut off before B has it. At first B does not know, and what goes up waits."""
    sim = parted("A-B B-C C-D")
    listen(sim, a_A="t", b_B="t", d_D="t")
    at(sim, 0.9, When("A", "Publish", Part(("A",)), 1, 5.0))
    say(sim, 1.0, "a", "t:total", guarantee="total", key="k")
    say(sim, time_s, "d", "t:weak", key="k")
    at(sim, 20.0, Heal())
    finish(sim)
    assert (got(sim, "a"), got(sim, "b"), got(sim, "d")) == (["total", "weak"], ["weak", "total"], ["weak", "total"])
    for client in ("a", "b", "d"):
        assert [one.payload for one in sim.deliveries(client) if one.crossed] == [b"weak"]


def root_without_power(*later: Command) -> Simulation:
    """0 and its client are gone without a word: 1, the root of the others, cannot tell that from a broken network."""
    sim = parted("0-1 1-2 0-3 3-4")
    listen(sim, a_0="t", c_2="t", e_4="t")
    at(sim, 2.0, Part(("0",)))
    at(sim, 2.5, Crash("0"), Crash("a"))
    if later:
        at(sim, 40.0, *later)
    say(sim, 20.0, "e", "t:x", guarantee="total", key="k")
    run_until(sim, 26.0)
    assert got(sim, "c") == []
    [waits] = [one for one in sim.host("1").node.waiting_for() if "out of reach" in one]
    assert waits.startswith("0, which may be alive and out of reach, and may have ordered total messages on t: for 2")
    return sim


def test_total_messages_wait_for_a_root_that_fell_silent_no_longer_than_it_is_waited_for():
    sim = root_without_power()
    run_until(sim, 290.0)
    assert got(sim, "c") == []
    run_until(sim, 330.0)
    assert got(sim, "c") == got(sim, "e") == ["x"]


@pytest.mark.parametrize("later", [(Heal(),), (Heal(), Recover("0"))], ids=["refused", "begins anew"])
def test_total_messages_go_on_when_the_machine_of_a_root_that_fell_silent_answers(later: tuple[Command, ...]):
    """Its port refuses connections, or the broker is there again and has begun anew: what was before is dead."""
    sim = root_without_power(*later)
    run_until(sim, 60.0)
    assert got(sim, "c") == got(sim, "e") == ["x"]


def test_total_messages_go_on_after_the_repair_of_a_root_whose_connections_were_closed():
    sim = parted("0-1 1-2 0-3 3-4")
    listen(sim, a_0="t", c_2="t", e_4="t")
    at(sim, 2.0, Crash("0"), Crash("a"))
    say(sim, 8.0, "e", "t:x", guarantee="total", key="k")
    run_until(sim, 12.0)
    assert got(sim, "c") == got(sim, "e") == ["x"]


def test_what_climbs_in_the_minority_when_a_total_message_is_handed_over_comes_behind_it_everywhere():
    # A takes everything before it knows that the network is parted, and B gets it little by little: some of it only
    # when the total message has passed B. All of it waits for its turn, and none has crossed the total message.
    far = LinkSettings(("A", "B"), latency=Constant(250.0))
    sim = parted(ROOT_IN_THE_MAJORITY, link=replace(LINK, window_bytes=400), links=(far,))
    listen(sim, a_A="t", e_E="t")
    at(sim, 2.0, Part(("A", "B")))
    for number in range(160):
        say(sim, 2.0 + number * 0.004, "a", f"t:weak{number}", guarantee="fifo", key="k")
    say(sim, 8.0, "e", "t:total", guarantee="total", key="k")
    at(sim, 9.0, Heal())
    finish(sim)
    assert got(sim, "a") == got(sim, "e") == ["total", *(f"weak{number}" for number in range(160))]
    assert reported(sim, "crossed") == []


def test_who_finds_more_gone_than_can_be_dead_accuses_nobody_of_them():
    # C turns from B to A and finds neither; the network heals just then. Telling D's side that A and B are dead, or the
    # other way round, would have healthy brokers begin anew.
    sim = parted("A-B B-C C-D R-A")
    listen(sim, a_A="t", d_D="t")
    at(sim, 2.0, Part(("C", "D")))
    say(sim, 3.0, "a", "t:x")
    at(sim, 6.0, Heal())
    finish(sim)
    assert got(sim, "d") == ["x"]
    assert reported(sim, "excluded") == []


def test_a_broker_that_dies_in_one_part_is_repaired_there():
    sim = parted()
    listen(sim, a_A="t", c_C="t", e_E="t")
    at(sim, 2.0, Part(("A", "B")))
    at(sim, 9.0, Crash("D"))
    say(sim, 10.0, "e", "t:x")
    say(sim, 10.0, "a", "t:y")
    run_until(sim, 13.0)
    assert got(sim, "c") == ["x"]
    at(sim, 14.0, Heal())
    finish(sim)
    assert sorted(got(sim, "a")) == sorted(got(sim, "c")) == sorted(got(sim, "e")) == ["x", "y"]


def test_what_is_kept_is_bounded_and_whoever_comes_later_is_told_so():
    sim = parted(broker=BrokerConfig("*", absent_s=5.0))
    listen(sim, a_A="t", e_E="t")
    at(sim, 2.0, Part(("A", "B")))
    say(sim, 8.0, "a", "t:x")
    at(sim, 25.0, Heal())
    sim.run_until_quiet(limit_s=120, quiet_s=5.0)
    assert "B" in reported(sim, "gap")
    assert sim.unrepaired() == []


@pytest.mark.parametrize("alone", ["A", "E"])
def test_a_client_that_comes_to_a_broker_which_is_cut_off_all_alone_is_one_of_those_who_return(alone: str):
    sim = parted("A-B B-C C-E")
    listen(sim, b_B="t")
    at(sim, 2.0, Part((alone,)))
    at(sim, 3.0, Attach(f"late@{alone}"), Subscribe(f"late@{alone}", "t"))
    say(sim, 5.0, "late", "t:from afar")
    say(sim, 12.0, "b", "t:from here")
    at(sim, 20.0, Heal())
    finish(sim)
    assert sorted(got(sim, "late")) == sorted(got(sim, "b")) == ["from afar", "from here"]
    assert "gap" not in {report.event for _, _, report in sim.reports}


@pytest.mark.parametrize("late_s", [0.0, 0.15])
def test_who_asks_whenever_it_is_its_turn_to_be_asked_has_another_turn(late_s: float):
    # E looks for C, A, B and D in turn, every half second one. C asks E every two seconds whether it is another by now,
    # on a slow link: when its turn comes its connection to E is there, or crosses that of E, each time.
    sim = parted("A-B A-C B-D C-E", links=(slow("C", "E", ms=150.0),))
    listen(sim, a_A="t", e_E="t")
    at(sim, 2.0 + late_s, Part(("E",)))
    say(sim, 3.0, "e", "t:from afar")
    at(sim, 14.0, Heal())
    finish(sim)
    assert got(sim, "a") == ["from afar"]
    assert len(reported(sim, "merge")) == 1
    assert reported(sim, "excluded") == []
