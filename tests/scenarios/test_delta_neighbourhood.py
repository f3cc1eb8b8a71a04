"""Delta-neighbourhood, told message by message: who is skipped, what comes twice, and what waits."""

import pytest

from holdfast.model.direct_messages import Passed, PassedAck
from holdfast.model.errors import ConfigError
from holdfast.protocols.comparators.delta_neighbourhood import NeighbourhoodBroker
from holdfast.protocols.comparators.delta_neighbourhood.transits import BLANK, extended, safe
from holdfast.protocols.config import BrokerConfig, LinkConfig
from holdfast.simulation.faults import Freeze, Publish, Subscribe, Thaw
from tests.scenarios.diaries import told

WATCHFUL = BrokerConfig("*", link=LinkConfig(heartbeat_s=0.1, silence_s=0.5), tolerance=1)


def ways(copies: list[tuple[str, Passed]]) -> list[tuple[str, bytes, object]]:
    return [(sender, message.batch.payloads, message.path) for sender, message in copies]


def test_a_message_carries_the_last_three_brokers_of_its_way():
    sim, diary = told("0-1 1-2 2-3 3-4", NeighbourhoodBroker, tolerance=1)
    sim.at(0.0, Subscribe("bob@4", "t"))
    sim.at(2.0, Publish("alice@0", "t", b"m"))
    sim.run_until_quiet()
    assert ways(diary.of("2", Passed)) == [("1", b"m", (("0", 1), ("1", 1)))]
    assert ways(diary.of("4", Passed)) == [("3", b"m", (("1", 1), ("2", 1), ("3", 1)))]
    assert [peer for peer, _ in diary.of("0", PassedAck)] == ["1"]
    assert sim.delivered("bob") == [b"m"]


def test_a_broker_that_does_not_answer_is_skipped_and_gets_it_later_and_its_copy_is_recognised():
    sim, diary = told("0-1 1-2 2-3", NeighbourhoodBroker, broker=WATCHFUL)
    sim.at(0.0, Subscribe("near@1", "t"))
    sim.at(0.0, Subscribe("far@3", "t"))
    sim.at(2.0, Freeze("1"))
    sim.at(4.0, Publish("alice@0", "t", b"m1"))
    sim.at(4.1, Publish("alice@0", "t", b"m2"))
    sim.at(6.0, Thaw("1"))
    sim.run_for(5.9)
    # 0 has skipped 1; what it publishes next waits, for 1 lacks the first.
    assert ways(diary.of("2", Passed)) == [("0", b"m1", (("0", 1), BLANK))]
    assert (sim.delivered("near"), sim.delivered("far")) == ([], [b"m1"])
    sim.run_until_quiet()
    assert ways(diary.of("2", Passed)) == [
        ("0", b"m1", (("0", 1), BLANK)),
        ("1", b"m1", (("0", 1), ("1", 1))),
        ("1", b"m2", (("0", 2), ("1", 2))),
    ]
    assert ways(diary.of("3", Passed))[0] == ("2", b"m1", (("0", 1), BLANK, ("2", 1)))
    assert sim.delivered("near") == sim.delivered("far") == [b"m1", b"m2"]
    assert sim.check().ok


def test_a_publisher_has_one_message_in_transit_and_others_do_not_wait_for_it():
    sim, diary = told("0-1", NeighbourhoodBroker, tolerance=0)
    sim.at(0.0, Subscribe("bob@1", "t"))
    sim.at(2.0, Publish("alice@0", "t", b"m1"))
    sim.at(2.0005, Publish("alice@0", "t", b"m2"))
    sim.at(2.0005, Publish("eve@0", "t", b"e1"))
    sim.run_until_quiet()
    assert [payload for _, payload, _ in ways(diary.of("1", Passed))] == [b"m1", b"e1", b"m2"]
    assert [message.serial for _, message in diary.of("0", PassedAck)] == [1, 2, 3]


def test_a_broker_that_was_not_told_the_tree_around_it_is_not_made():
    with pytest.raises(ConfigError, match=r"broker b has the parent a, but .* tell it those within 2 hops"):
        NeighbourhoodBroker(BrokerConfig("b", "a", tolerance=1), 1)


def test_a_way_with_more_blanks_than_faults_are_tolerated_is_not_taken():
    once = extended((("0", 1), ("1", 1)), (BLANK,), 1)
    assert safe(once, 1)
    again = extended(once, (("3", 1), BLANK), 1)
    assert again == (BLANK, ("3", 1), BLANK)
    assert not safe(again, 1)
