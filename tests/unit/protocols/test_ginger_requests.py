"""Batches that climb, and what repairs make of them: what was sent up in one, what has turned for others."""

from holdfast.model.batches import Batch, make_batch
from holdfast.model.guarantees import TOTAL
from holdfast.model.messages import Data, Join, Open, Turned, Twig, Unstable, Upward, Welcome
from holdfast.model.terms import Contact
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.ginger.diaries import THE_ABSENT
from holdfast.protocols.ginger.joiners import Joiner
from holdfast.protocols.ginger.repairing_broker import RepairingBroker
from holdfast.protocols.interests import ALL

WELCOME = Welcome("0", 0, 1 << 20, 0, "ginger", (0, 1, 2, 3), 1 << 20, 1)
OPENED = Open((("t", ""),), Upward((Contact("0", 7, ""),), (), ()), (), 0, 0)


def asked(first: int, count: int) -> Batch:
    return make_batch("c2", first, "t", TOTAL, [b"x"] * count, [("k",)] * count)


def child() -> RepairingBroker:
    """1, below 0, behind which the topic is wanted."""
    broker = RepairingBroker(BrokerConfig("1", parent="0", tolerance=1), 5)
    broker.start(0.0)
    broker.peer_up("0", 0.0)
    broker.receive("0", WELCOME, 0.0)
    broker.receive("0", Data(1, OPENED), 0.0)
    return broker


def test_what_climbs_in_one_batch_stays_one_batch_when_its_publisher_sends_a_part():
    broker = child()
    broker.healing_turning.enter(asked(2, 4), "2")
    broker.healing_turning.enter(asked(2, 1), "c2")
    record = broker.log.find(("c2", 2))
    assert record is not None
    assert record.batch.count == 4
    broker.healing_turning.on_turned("c2", 5)
    assert broker.is_done("c2", 5)
    assert broker.turning.idle()


def test_what_has_turned_and_is_sent_up_again_is_answered_at_once():
    broker = child()
    broker.interests.neighbours["2"] = None
    broker.healing_turning.enter(asked(2, 4), "c2")
    broker.healing_turning.on_turned("c2", 5)
    said: list[tuple[str, object]] = []
    broker.healing_turning._send = lambda peer, message: said.append((peer, message))
    broker.healing_turning.enter(asked(2, 4), "2")
    assert said == [("2", Turned("c2", 5))]


def test_behind_what_went_up_to_a_neighbour_that_is_lost_everything_of_its_publisher_waits():
    broker = child()
    broker.healing_turning.enter(asked(2, 1), "c2")
    broker.log.unlink("0")
    broker.healing_turning.enter(asked(3, 1), "c2")
    assert broker.healing_turning.asked_of("0") == {("c2", 2)}
    assert broker.healing_turning.asked_of("") == {("c2", 3)}


def joiner(kind: str, flag: str) -> Joiner:
    twig = Twig("c2", kind, 1, "")  # type: ignore[arg-type]
    return Joiner(Join(twig, "2", (), {}, (), 0, 0), [Unstable(flag, asked(2, 1), 0, 0)])  # type: ignore[arg-type]


def test_what_was_released_when_its_publisher_did_not_want_it_is_not_owed_to_it():
    assert joiner("client", "d").lacks_of(asked(2, 1)) is None
    assert joiner("client", "t").lacks_of(asked(2, 1)) == asked(2, 1)


def test_only_a_broker_can_show_what_the_lost_one_had_released_itself():
    assert joiner("client", "d").done_by_the_lost() == []
    assert joiner("broker", "d").done_by_the_lost() == [asked(2, 1)]


def test_everything_is_asked_for_until_the_lost_broker_that_is_back_is_let_in():
    broker = RepairingBroker(BrokerConfig("0", tolerance=1), 7)
    broker.start(0.0)
    broker.repairs.begin_repair("1", (Twig("c1", "client", 1, ""),), silent=True)
    assert broker.repairs.is_expected("1")
    broker.diaries.ask_for_less()
    assert THE_ABSENT in broker.interests.table.sources(*ALL)
