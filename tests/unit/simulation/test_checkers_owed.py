"""Which messages a subscriber is owed, and which it may deliver."""

import pytest
from msgspec.structs import replace

from holdfast.model.trace import Event
from holdfast.simulation.checkers import Verdict, check
from tests.unit.simulation.judging import faults
from tests.unit.simulation.stories import (
    Story,
)


def test_nothing_is_owed_to_a_subscription_confirmed_after_the_publish():
    story = Story()
    story.publish("ann", "news", "causal")
    story.subscribe("dan", "news")
    assert check(story.events).ok


def test_a_subscription_may_deliver_before_it_is_confirmed():
    story = Story()
    message = story.publish("ann", "news", "causal")
    story.deliver("dan", message)
    story.subscribe("dan", "news")
    assert check(story.events).ok


def at_one_time(events: list[Event]) -> list[Event]:
    return [replace(event, time=5) for event in events]


def test_at_the_same_time_only_the_same_client_knows_what_came_first():
    story = Story()
    story.subscribe("ann", "news")
    story.subscribe("dan", "news")
    story.publish("ann", "news", "eventual")
    verdict = check(at_one_time(story.events))
    assert verdict.lost == 1
    assert verdict.examples[0].startswith("ann never delivered ann#1")
    assert faults(story.events) == {"lost": 2}


def test_at_the_same_time_a_client_that_subscribed_after_its_publish_is_owed_nothing():
    story = Story()
    story.publish("ann", "news", "eventual")
    story.subscribe("ann", "news")
    assert check(at_one_time(story.events)).ok


def test_a_publisher_that_subscribes_is_owed_its_own_messages():
    story = Story()
    story.subscribe("ann", "news")
    sent = [story.publish("ann", "news", "fifo") for _ in range(3)]
    story.deliver("ann", sent[1], sent[0])
    assert faults(story.events) == {"lost": 1, "fifo": 1}


@pytest.mark.parametrize(
    ("pattern", "lost"), [("a/b", 1), ("a/+", 2), ("a/#", 4), ("+/b", 2), ("#", 5), ("+", 1), ("c/#", 1), ("b", 0)]
)
def test_what_a_pattern_matches_is_owed_and_nothing_else(pattern: str, lost: int):
    story = Story()
    story.subscribe("dan", pattern)
    for topic in ("a", "a/b", "a/c", "a/b/c", "c/b"):
        story.publish("ann", topic, "eventual")
    assert check(story.events).lost == lost


def test_a_filter_decides_by_attributes_what_is_owed_and_what_is_created():
    story = Story()
    story.subscribe("dan", "orders/#", "amount > 100 and region = 'north'")
    wanted = story.publish("ann", "orders/1", "fifo", attributes={"amount": 101, "region": "north"})
    unwanted = story.publish("ann", "orders/1", "fifo", attributes={"amount": 100, "region": "north"})
    story.publish("ann", "orders/1", "fifo")
    assert faults(story.events) == {"lost": 1}
    story.deliver("dan", wanted)
    assert check(story.events).ok
    story.deliver("dan", unwanted)
    assert faults(story.events) == {"created": 1}


def test_one_missing_message_is_lost_once_though_two_subscriptions_match():
    story = Story()
    story.subscribe("dan", "news")
    story.subscribe("dan", "#")
    story.publish("ann", "news", "eventual")
    assert faults(story.events) == {"lost": 1}


def test_the_other_subscription_is_still_owed_when_one_is_taken_back():
    story = Story()
    story.subscribe("dan", "news")
    story.subscribe("dan", "#")
    story.unsubscribe("dan", "news")
    message = story.publish("ann", "news", "eventual")
    assert faults(story.events) == {"lost": 1}
    story.deliver("dan", message)
    assert check(story.events).ok


def test_a_subscriber_that_leaves_is_owed_nothing_more():
    story = Story()
    story.subscribe("dan", "news")
    story.publish("ann", "news", "eventual")
    story.unsubscribe("dan", "news")
    story.publish("ann", "news", "eventual")
    assert check(story.events).ok


def test_a_delivery_after_the_unsubscribe_is_created():
    story = Story()
    story.subscribe("dan", "news")
    message = story.publish("ann", "news", "eventual")
    story.unsubscribe("dan", "news")
    story.deliver("dan", message)
    verdict = check(story.events)
    assert verdict == Verdict(
        deliveries=1, created=1, examples=["dan delivered ann#1 on topic news, after it had unsubscribed"]
    )


def test_who_subscribes_again_may_deliver_again_and_is_owed_what_comes_then():
    story = Story()
    story.subscribe("dan", "news")
    story.unsubscribe("dan", "news")
    between = story.publish("ann", "news", "eventual")
    story.deliver("dan", between)
    story.subscribe("dan", "news")
    assert check(story.events).ok
    story.publish("ann", "news", "eventual")
    assert faults(story.events) == {"lost": 1}


def test_an_unsubscribe_without_a_subscribe_ends_what_was_never_confirmed():
    story = Story()
    one, two = story.publish("ann", "news", "eventual"), story.publish("ann", "news", "eventual")
    story.deliver("dan", one)
    story.unsubscribe("dan", "news")
    assert check(story.events).ok
    story.deliver("dan", two)
    assert faults(story.events) == {"created": 1}


def test_a_repeat_after_the_unsubscribe_is_duplicated_alone():
    story = Story()
    story.subscribe("dan", "news")
    message = story.publish("ann", "news", "eventual")
    story.deliver("dan", message)
    story.unsubscribe("dan", "news")
    story.deliver("dan", message)
    assert faults(story.events) == {"duplicated": 1}
