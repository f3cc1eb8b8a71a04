"""A client's subscriptions, and which of them get what arrives."""

import pytest

from holdfast.client.deliveries import Deliveries
from holdfast.client.subscriptions import Subscription
from holdfast.model.batches import Batch, make_batch
from holdfast.model.errors import TopicError
from holdfast.runtime.logs import ProcessLog


class NoClient:
    """What a subscription asks of its client; these subscriptions ask nothing."""

    def batch_taken(self, delivery):
        raise AssertionError(delivery)

    def batch_read(self, delivery):
        raise AssertionError(delivery)

    def batch_dropped(self, subscription, batch, delivery, reason):  # noqa: ARG002
        raise AssertionError(reason)

    def end_slow(self, subscription, gap):  # noqa: ARG002
        raise AssertionError(gap)

    async def end_subscription(self, subscription):
        raise AssertionError(subscription)


class Stage:
    """Deliveries with their subscriptions, and what arrived, was consumed and was read."""

    def __init__(self):
        self.consumed: list[Batch] = []
        self.read: list[Batch] = []
        self.arrived: list[tuple[str, str, list[int], int]] = []
        self.deliveries = Deliveries(self.consumed.append, self.read.append, lambda _: None, ProcessLog("client"))

    def subscribe(self, pattern, where=""):
        stage = self

        class Recorded(Subscription):
            def arrive(self, batch, delivery):
                stage.arrived.append((self.pattern, self.where, [batch.first, batch.last], delivery.left))

        subscription = Recorded(NoClient(), pattern, where)
        self.deliveries.add(subscription)
        return subscription

    @property
    def table(self):
        return self.deliveries._table


def on(topic, *attributes):
    return make_batch("ann", 1, topic, 0, [b"x"] * max(len(attributes), 1), attributes=attributes)


def test_a_batch_goes_to_the_subscriptions_that_want_it_in_the_order_in_which_they_were_made():
    stage = Stage()
    for pattern, where in (("b", ""), ("a/+", "x > 1"), ("a/#", ""), ("a/b", "x > 5"), ("a/b", "")):
        stage.subscribe(pattern, where)
    stage.deliveries.arrive(on("a/b", {"x": 2}))
    assert [one[:2] for one in stage.arrived] == [("a/+", "x > 1"), ("a/#", ""), ("a/b", "")]
    assert stage.arrived[0][3] == 3


def test_two_subscriptions_to_the_same_get_a_batch_each():
    stage = Stage()
    first, second = stage.subscribe("a"), stage.subscribe("a")
    stage.deliveries.arrive(on("a"))
    assert len(stage.arrived) == 2
    stage.deliveries.remove(first)
    assert first not in stage.deliveries
    assert second in stage.deliveries
    stage.deliveries.arrive(on("a"))
    assert len(stage.arrived) == 3
    assert list(stage.deliveries) == [second]


def test_messages_of_one_batch_are_chosen_each_by_its_own_attributes():
    stage = Stage()
    stage.subscribe("a", "x > 1")
    stage.subscribe("a", "x < 3")
    stage.deliveries.arrive(on("a", {"x": 2}, {"x": 3}, {"x": 1}, {"x": 5}))
    assert [(one[1], one[2]) for one in stage.arrived] == [
        ("x > 1", [1, 2]),
        ("x > 1", [4, 4]),
        ("x < 3", [1, 1]),
        ("x < 3", [3, 3]),
    ]


def test_a_batch_that_no_subscription_wants_is_consumed_and_read_at_once():
    stage = Stage()
    stage.subscribe("a", "x > 1")
    batch = on("a", {"x": 1})
    stage.deliveries.arrive(batch)
    assert (stage.arrived, stage.consumed, stage.read) == ([], [batch], [batch])


def test_a_new_topic_is_not_compared_with_the_patterns_of_other_subscriptions():
    stage = Stage()
    for number in range(2_000):
        stage.subscribe(f"t/{number}/+")
    before = stage.table.visited
    for number in range(100):
        stage.deliveries.arrive(on(f"t/{number}/x"))
    assert len(stage.arrived) == 100
    assert stage.table.visited - before <= 100 * 5


def test_a_message_is_not_compared_with_the_filters_of_subscriptions_that_cannot_want_it():
    stage = Stage()
    for number in range(2_000):
        stage.subscribe("a", f"region = 'r{number}' and amount > 5")
    stage.deliveries.arrive(on("a", {"region": "r77", "amount": 6}))
    assert [one[1] for one in stage.arrived] == ["region = 'r77' and amount > 5"]
    assert stage.table.evaluated <= 5


def test_a_topic_that_cannot_be_is_refused():
    with pytest.raises(TopicError):
        Stage().deliveries.arrive(on("a/+"))
