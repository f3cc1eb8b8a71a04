"""Messages that have crossed a total one: the word about them, once each, to the trace, the publisher and receipts."""

from holdfast.model.batches import Batch, make_batch
from holdfast.model.crossed_messages import Crossed
from holdfast.protocols.crossed import REMEMBERED_MAX, CrossedMessages, CrossedNumbers
from holdfast.protocols.node import Report


def batch(first: int = 1, count: int = 1, publisher: str = "ann") -> Batch:
    return make_batch(publisher, first, "t", 1, [b"x"] * count, [("k",)] * count)


class Broker:
    """What a broker lends to them."""

    def __init__(self) -> None:
        self.reports: list[Report] = []
        self.told: list[tuple[str, Crossed]] = []
        self.crossed = CrossedMessages(self.reports.append, lambda *one: self.told.append(one))


def test_a_batch_is_reported_once_its_publisher_told_and_it_is_passed_on_with_the_word():
    broker = Broker()
    flagged = broker.crossed.note(batch(1, 3))
    assert flagged.crossed
    assert [one.crossed for one in flagged.messages()] == [True, True, True]
    assert broker.crossed.note(flagged) is flagged
    assert broker.reports == [Report("crossed", batch=batch(1, 3))]
    assert broker.told == [("ann", Crossed(1, 3))]
    assert [broker.crossed.has("ann", seq) for seq in (1, 3, 4)] == [True, True, False]
    assert not broker.crossed.has("bob", 1)


def test_more_of_a_batch_is_told_anew():
    broker = Broker()
    broker.crossed.note(batch(1, 1))
    broker.crossed.note(batch(1, 3))
    assert broker.told == [("ann", Crossed(1, 1)), ("ann", Crossed(1, 3))]
    assert broker.crossed.has("ann", 3)


def test_messages_without_keys_have_crossed_nothing():
    broker = Broker()
    mixed = make_batch("ann", 1, "t", 1, [b"x"] * 5, [("k",), (), ("k",), ("l",), ()])
    assert [one.crossed for one in broker.crossed.note(mixed).messages()] == [True, False, True, True, False]
    assert broker.told == [("ann", Crossed(1, 1)), ("ann", Crossed(3, 4))]
    assert [broker.crossed.has("ann", seq) for seq in (1, 2, 3, 4, 5)] == [True, False, True, True, False]
    assert len(broker.reports) == 1


def test_what_is_remembered_is_bounded():
    broker = Broker()
    for number in range(REMEMBERED_MAX + 1):
        broker.crossed.note(batch(number + 1))
    assert not broker.crossed.has("ann", 1)
    assert broker.crossed.has("ann", 2)


def test_a_client_knows_which_of_its_numbers_it_was_told_of():
    numbers = CrossedNumbers()
    numbers.note(Crossed(3, 5))
    assert [seq in numbers for seq in (2, 3, 5, 6)] == [False, True, True, False]


def test_the_word_has_a_checksum_of_its_own_and_parts_keep_it():
    plain = batch(1, 3)
    plain.seal()
    flagged = plain.as_crossed()
    assert flagged != plain
    assert flagged.checksum != plain.checksum
    flagged.verify()
    assert flagged.part(2, 3).crossed
    assert not plain.crossed
