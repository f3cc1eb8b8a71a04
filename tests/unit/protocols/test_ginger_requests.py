"""Requests for total batches, and what repairs make of them: what was merged, what was released for others."""

from holdfast.model.batches import Batch, make_batch
from holdfast.model.guarantees import TOTAL
from holdfast.model.messages import Data, Join, Open, TotalProcessed, Twig, Unstable, Upward, Welcome
from holdfast.model.terms import Contact
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.ginger.expecting import THE_ABSENT
from holdfast.protocols.ginger.joiners import Joiner
from holdfast.protocols.ginger.shaping import ShapingBroker
from holdfast.protocols.interests import ALL

WELCOME = Welcome("0", 0, 1 << 20, 0, "ginger", (0, 1, 2, 3), 1 << 20, 1)
OPENED = Open((("t", ""),), Upward((Contact("0", 7, ""),), (), ()), (), 0, (), 0)


def asked(first: int, count: int) -> Batch:
    return make_batch("c2", first, "t", TOTAL, [b"x"] * count, [("k",)] * count)


def child() -> ShapingBroker:
    """1, below 0, behind which the topic is wanted."""
    broker = ShapingBroker(BrokerConfig("1", parent="0", tolerance=1), 5)
    broker.start(0.0)
    broker.peer_up("0", 0.0)
    broker.receive("0", WELCOME, 0.0)
    broker.receive("0", Data(1, OPENED), 0.0)
    return broker


def test_what_is_under_way_in_one_batch_stays_one_batch_when_its_publisher_asks_for_a_part():
    broker = child()
    broker.healing_cuts.request(asked(2, 4), "2")
    broker.healing_cuts.request(asked(2, 1), "c2")
    record = broker.log.find(("c2", 2))
    assert record is not None
    assert record.batch.count == 4
    broker.healing_cuts.on_processed("0", TotalProcessed("c2", 2, None))
    assert broker.is_done("c2", 5)


def test_where_less_was_released_than_a_client_has_asked_for_the_rest_is_asked_for():
    broker = child()
    broker._under_way["c2"] = asked(2, 4)
    broker.healing_cuts.request(asked(2, 4), "c2")
    broker.healing_cuts.on_processed("0", TotalProcessed("c2", 2, asked(2, 1)))
    assert broker._under_way["c2"] == asked(2, 4).part(3, 5)
    assert broker.healing_cuts.asked_of("0") == {("c2", 3)}
    broker.healing_cuts.on_processed("0", TotalProcessed("c2", 3, None))
    assert broker.is_done("c2", 5)
    assert "c2" not in broker._under_way


def test_a_neighbour_that_asks_for_more_than_is_under_way_is_told_how_much_was_released():
    broker = child()
    broker.interests.neighbours["2"] = None
    said: list[tuple[str, object]] = []
    broker.healing_cuts._send = lambda peer, message: said.append((peer, message))
    broker.healing_cuts.request(asked(2, 1), "c2")
    broker.healing_cuts.request(asked(2, 4), "2")
    broker.healing_cuts.on_processed("0", TotalProcessed("c2", 2, None))
    assert said[-1] == ("2", TotalProcessed("c2", 2, asked(2, 1)))


def joiner(kind: str, flag: str) -> Joiner:
    twig = Twig("c2", kind, 1, "")  # type: ignore[arg-type]
    return Joiner(Join(twig, "2", (), {}, (), (), 0, 0), [Unstable(flag, asked(2, 1), 0, 0)])  # type: ignore[arg-type]


def test_what_was_released_when_its_publisher_did_not_want_it_is_not_owed_to_it():
    assert joiner("client", "d").lacks_of(asked(2, 1)) is None
    assert joiner("client", "t").lacks_of(asked(2, 1)) == asked(2, 1)


def test_only_a_broker_can_show_what_the_lost_one_had_released_itself():
    assert joiner("client", "d").done_by_the_lost() == []
    assert joiner("broker", "d").done_by_the_lost() == [asked(2, 1)]


def test_everything_is_asked_for_until_the_lost_broker_that_is_back_is_let_in():
    broker = ShapingBroker(BrokerConfig("0", tolerance=1), 7)
    broker.start(0.0)
    broker._begin_repair("1", (Twig("c1", "client", 1, ""),), silent=True)
    assert broker._is_expected("1")
    broker._ask_for_less()
    assert THE_ABSENT in broker.interests.table.sources(*ALL)
