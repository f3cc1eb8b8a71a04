"""CBCAST, told message by message: what waits, what is said of the clocks, and what a flush settles."""

from itertools import takewhile

from holdfast.model.direct_messages import Cast, Copied, Flushed, FlushRequest, Roster
from holdfast.protocols.comparators.cbcast import CbcastBroker
from holdfast.protocols.config import BrokerConfig, LinkConfig
from holdfast.simulation.faults import Crash, Publish, React, Slow, Subscribe, When
from tests.scenarios.diaries import told


def payloads(casts: list[tuple[str, Cast]]) -> list[tuple[str, bytes]]:
    return [(sender, cast.batch.payloads) for sender, cast in casts]


def clocks(casts: list[tuple[str, Cast]]) -> list[tuple[bytes, tuple[object, ...]]]:
    return [(cast.batch.payloads, cast.clock) for _, cast in casts]


def test_an_answer_that_overtakes_its_question_waits_for_it():
    sim, diary = told("0-1 0-2", CbcastBroker)
    sim.at(0.0, Subscribe("bob@1", "t"))
    sim.at(0.0, Subscribe("carol@2", "t"))
    sim.at(0.0, React("bob@1", "t", "t", b"answer"))
    sim.at(2.0, Slow("0", "2", 50.0, 1.0))
    sim.at(2.1, Publish("alice@0", "t", b"question", "causal"))
    sim.run_until_quiet()
    assert payloads(diary.of("2", Cast)) == [("1", b"answer"), ("0", b"question")]
    assert sim.delivered("carol") == [b"question", b"answer"]
    assert sim.check().ok


def test_a_cast_says_only_what_changed_since_the_last_one_to_the_same_receiver():
    sim, diary = told("0-1 0-2", CbcastBroker)
    sim.at(0.0, Subscribe("bob@1", "t"))
    sim.at(0.0, Subscribe("carol@2", "t"))
    sim.at(0.0, Subscribe("dan@2", "u"))
    sim.at(0.0, Subscribe("alice@0", "t"))
    sim.at(2.0, Publish("alice@0", "t", b"m1", "causal"))
    sim.at(2.1, Publish("alice@0", "t", b"m2", "causal"))
    sim.at(2.2, Publish("alice@0", "u", b"m3", "causal"))
    sim.at(2.3, Publish("bob@1", "t", b"m4", "causal"))
    sim.at(2.4, Publish("alice@0", "t", b"m5", "causal"))
    sim.run_until_quiet()
    # The topic is written out when a link first hears of it; then its number will do. Broker 0 is member 0.
    assert clocks(diary.of("2", Cast)) == [
        (b"m1", (("t", (0, 1)),)),
        (b"m2", ((0, (0, 2)),)),
        (b"m3", (("u", (0, 1)),)),
        (b"m4", (("t", (0, 2, 1, 1)),)),
        (b"m5", ((0, (1, 1, 0, 3)),)),
    ]
    # Broker 1 has heard nothing of u before, and hears it now: it may be the one to pass that on.
    assert clocks(diary.of("1", Cast))[-1] == (b"m5", (("u", (0, 1)), (0, (1, 1, 0, 3))))
    assert sim.check().ok


def test_a_group_is_entered_by_a_flush_and_what_is_published_meanwhile_belongs_to_the_next_view():
    sim, diary = told("0-1 0-2", CbcastBroker)
    sim.at(0.0, Subscribe("bob@1", "t"))
    sim.run_until_quiet()
    view = sim.node("0").roster.number  # type: ignore[union-attr]
    sim.at(5.0, Subscribe("carol@2", "t"))
    sim.at(5.012, Publish("alice@0", "t", b"m", "causal"))
    sim.run_until_quiet()
    requests = [message for _, message in diary.of("1", FlushRequest) if message.number == view]
    assert [(one.number, one.dead) for one in requests] == [(view, ())]
    assert [(sender, one.patterns) for sender, one in diary.of("0", Flushed)][-2:] == [("1", ("t",)), ("2", ("t",))]
    assert [one.patterns for _, one in diary.of("1", Roster)][-1] == ((), ("t",), ("t",))
    assert {cast.view for _, cast in diary.of("1", Cast)} == {view + 1}
    assert sim.delivered("bob") == sim.delivered("carol") == [b"m"]


def test_what_one_survivor_has_of_the_dead_all_get_with_its_whole_clock():
    sim, diary = told("0-1 0-2 0-3", CbcastBroker, tolerance=1, shares_fate=True)
    for broker in "123":
        sim.at(0.0, Subscribe(f"c{broker}@{broker}", "t"))
    sim.at(3.0, Publish("alice@3", "t", b"m1", "causal"))
    # Broker 3 dies when the second has come to 1, and long before it comes to 2.
    sim.at(3.4, Slow("3", "2", 500.0, 1.0))
    sim.at(3.5, Publish("alice@3", "t", b"m2", "causal"))
    sim.at(3.51, Crash("3"))
    sim.run_until_quiet()
    assert payloads(diary.of("1", Cast)) == [("3", b"m1"), ("3", b"m2")]
    assert payloads(diary.of("2", Cast)) == [("3", b"m1")]
    [(sender, copied)] = diary.of("2", Copied)
    assert (sender, copied.sender, copied.cast.batch.payloads) == ("1", "3", b"m2")
    assert copied.cast.clock == (("t", (3, 2)),)
    assert sim.delivered("c1") == sim.delivered("c2") == [b"m1", b"m2"]
    assert list(sim.node("0").members) == ["0", "1", "2"]  # type: ignore[union-attr]
    assert sim.check().ok


def test_what_nobody_alive_has_seen_of_the_dead_holds_nothing_up():
    sim, diary = told("0-1 0-2 0-3 0-4", CbcastBroker, tolerance=1, shares_fate=True)
    for broker in "12":
        sim.at(0.0, Subscribe(f"c{broker}@{broker}", "t"))
    sim.at(0.0, Subscribe("d@4", "t"))
    sim.at(0.0, Subscribe("e@1", "u"))
    sim.at(0.0, React("d@4", "t", "u", b"after"))
    # 3 reaches 4 alone, which answers on another topic; then both die, and with them the only copies.
    sim.at(2.0, Slow("3", "1", 500.0, 1.0))
    sim.at(2.0, Slow("3", "2", 500.0, 1.0))
    sim.at(3.0, Publish("alice@3", "t", b"m", "causal"))
    sim.at(3.02, Crash("3"))
    sim.at(3.02, Crash("4"))
    sim.run_until_quiet()
    assert diary.of("1", Copied) == []
    assert sim.delivered("c1") == sim.delivered("c2") == []
    assert sim.delivered("e") == [b"after"]
    assert any(report.event == "passed_over" for _, name, report in sim.reports if name == "1")
    assert sim.check().ok


def test_when_the_coordinator_dies_in_the_midst_of_telling_a_view_all_come_to_have_it():
    sim, _ = told("0-1 0-2 0-3", CbcastBroker, tolerance=1, shares_fate=True)
    sim.at(0.0, Subscribe("bob@2", "t"))
    sim.at(3.0, When("0", "Roster", Crash("0"), 1))
    sim.at(3.0, Subscribe("carol@3", "t"))
    sim.at(5.0, Publish("alice@1", "t", b"m", "causal"))
    sim.run_until_quiet()
    assert [list(sim.node(name).members) for name in "123"] == [["1", "2", "3"]] * 3  # type: ignore[union-attr]
    assert sim.delivered("bob") == sim.delivered("carol") == [b"m"]
    assert sim.check().ok


def test_a_view_that_comes_behind_more_of_its_casts_than_a_window_holds_comes_through():
    narrow = BrokerConfig("*", link=LinkConfig(window_bytes=400))
    sim, diary = told("0-1 0-2 0-3", CbcastBroker, tolerance=1, shares_fate=True, broker=narrow)
    sim.at(0.0, Subscribe("bob@2", "t"))
    # Broker 1 alone hears of the view with carol, and multicasts in it before it misses the coordinator.
    sim.at(3.0, When("0", "Roster", Crash("0"), 1))
    sim.at(3.0, Subscribe("carol@3", "t"))
    published = [bytes([number]) * 100 for number in range(20)]
    for number, payload in enumerate(published):
        sim.at(3.02 + number / 1000, Publish("alice@1", "t", payload, "causal"))
    sim.run_until_quiet()
    for broker in "23":
        said = [message for sender, message in diary.of(broker, Cast, Roster) if sender == "1"]
        early = list(takewhile(lambda message: isinstance(message, Cast), said))
        assert {cast.view for cast in early} == {said[len(early)].number}
        assert sum(len(cast.batch.payloads) for cast in early) > 400
    assert sim.delivered("bob") == sim.delivered("carol") == published
    assert sim.check().ok
