"""Causal barriers, told message by message."""

from holdfast.model.direct_messages import Barred
from holdfast.protocols.comparators.barriers import BarriersBroker
from holdfast.protocols.comparators.barriers.broker import unpacked
from holdfast.protocols.comparators.barriers.dependencies import Dependencies, past_of
from holdfast.simulation.faults import Publish, React, Slow, Subscribe, Unsubscribe
from tests.scenarios.diaries import told


def test_only_the_direct_dependency_is_said_and_everything_waits_for_it():
    """The example of the paper (thesis 003, 2.4.2): M1 to 2, 3 and 4; M2 after it to 3 and 4; M3 after both to 4."""
    sim, diary = told("1-2 1-3 1-4", BarriersBroker)
    for broker, topic in (("2", "t1"), ("3", "t1"), ("4", "t1"), ("3", "t2"), ("4", "t2"), ("4", "t3")):
        sim.at(0.0, Subscribe(f"c{broker}@{broker}", topic))
    sim.at(0.0, React("c2@2", "t1", "t2", b"M2"))
    sim.at(0.0, React("c3@3", "t2", "t3", b"M3"))
    sim.at(2.0, Slow("1", "4", 90.0, 1.0))
    sim.at(2.0, Slow("2", "4", 50.0, 1.0))
    sim.at(3.0, Publish("p@1", "t1", b"M1", "causal"))
    sim.run_until_quiet()
    came = diary.of("4", Barred)
    assert [(sender, message.batch.payloads) for sender, message in came] == [("3", b"M3"), ("2", b"M2"), ("1", b"M1")]
    assert [unpacked(message)[1].get("4", {}) for _, message in came] == [{"2": 1}, {"1": 1}, {}]
    assert [sorted(unpacked(message)[0]) for _, message in came] == [["4"], ["3", "4"], ["2", "3", "4"]]
    assert sim.delivered("c4") == [b"M1", b"M2", b"M3"]
    assert sim.check().ok


def test_what_is_known_to_be_delivered_is_an_obstacle_no_more():
    alice, bob = Dependencies("a"), Dependencies("b")
    serial, barriers = alice.send(["b", "c"])
    assert alice.barriers == {"b": {"a": 1}, "c": {"a": 1}}
    bob.deliver("a", serial, ["b", "c"], barriers, past_of(barriers))
    assert bob.barriers == {"c": {"a": 1}}
    answer, barriers = bob.send(["a"])
    # Bob's answer depends on what Alice sent to him: so he has it.
    alice.deliver("b", answer, ["a"], barriers, past_of(barriers))
    assert alice.barriers["b"] == {}
    assert alice.is_delivered("a", 1, "b")
    assert alice.barriers["c"] == {"a": 1}


def test_a_subscription_needs_no_flush_and_is_confirmed_when_all_know_it():
    sim, _ = told("0-1 0-2", BarriersBroker)
    sim.at(1.0, Subscribe("bob@2", "t"))
    sim.run_until_quiet()
    assert len(sim.completed("bob")) == 1
    sim.at(sim.now, Publish("alice@1", "t", b"m", "causal"))
    sim.run_until_quiet()
    assert sim.delivered("bob") == [b"m"]


def test_an_answer_to_a_subscription_that_was_taken_back_confirms_nobody_elses():
    sim, _ = told("0-1", BarriersBroker)
    sim.run_until_quiet()
    start = sim.now + 1.0
    sim.at(start, Slow("0", "1", 100.0, 1.0))
    sim.at(start + 0.1, Subscribe("bob@0", "t"))
    sim.at(start + 0.15, Unsubscribe("bob@0", "t"))
    sim.at(start + 0.19, Subscribe("bob@0", "t"))
    # Bob's first subscription is answered at 0.201, when 1 has not heard of the last one: eve's must wait for that.
    sim.at(start + 0.21, Subscribe("eve@0", "t"))
    sim.run_for(1.0 + 0.25)
    assert sim.completed("eve") == []
    sim.run_until_quiet()
    assert len(sim.completed("eve")) == 1
