"""What is on the same side of a total message everywhere, and which delivery is to blame where it is not."""

from random import Random

import pytest

from holdfast.model.trace import Event
from holdfast.simulation.checkers import Verdict, check
from tests.unit.simulation.judging import faults
from tests.unit.simulation.stories import (
    Story,
)


def two_totals(keys_x: str, keys_y: str, guarantee: str = "total", topic: str = "bank") -> list[Event]:
    """ann's total x and bob's y, concurrent: dan and eve deliver x first, fay delivers y first."""
    story = Story()
    for node in ("dan", "eve", "fay"):
        story.subscribe(node, "#")
    x, y = story.publish("ann", "bank", "total", keys_x), story.publish("bob", topic, guarantee, keys_y)
    story.deliver("dan eve", x, y)
    story.deliver("fay", y, x)
    return story.events


def test_two_total_messages_of_a_key_in_two_orders_are_one_fault_of_the_minority():
    verdict = check(two_totals("red", "red"))
    assert verdict == Verdict(
        deliveries=6,
        total=1,
        examples=[
            (
                "fay delivered bob#1 before ann#1, but dan delivered ann#1 first; bob#1 is total and both have the "
                "key red on topic bank"
            )
        ],
    )


def test_one_shared_key_of_several_is_enough_and_several_are_still_one_fault():
    assert faults(two_totals("red blue", "green blue")) == {"total": 1}
    assert faults(two_totals("red blue", "blue red")) == {"total": 1}


@pytest.mark.parametrize("guarantee", ["eventual", "fifo", "causal"])
def test_a_total_message_parts_every_weaker_one_of_its_key(guarantee: str):
    assert faults(two_totals("red", "red", guarantee)) == {"total": 1}


def test_total_messages_that_share_nothing_may_come_in_any_order():
    assert check(two_totals("red", "blue")).ok
    assert check(two_totals("", "")).ok
    assert check(two_totals("red", "red", topic="shop")).ok


def test_weaker_messages_of_a_key_may_come_in_any_order_between_total_ones():
    story = Story()
    story.subscribe("dan", "#")
    story.subscribe("eve", "#")
    story.subscribe("ann", "#")
    x, y = story.publish("bob", "bank", "eventual", "red"), story.publish("cid", "bank", "causal", "red")
    story.deliver("ann", x, y)
    total = story.publish("ann", "bank", "total", "red")
    story.deliver("dan", x, y, total)
    story.deliver("eve", y, x, total)
    story.deliver("ann", total)
    assert check(story.events).ok


def test_if_neither_side_has_the_majority_the_first_client_is_right():
    story = Story()
    for node in ("ann", "eve"):
        story.subscribe(node, "#")
    x, y = story.publish("cid", "bank", "total", "k"), story.publish("bob", "bank", "eventual", "k")
    story.deliver("eve", x, y)
    story.deliver("ann", y, x)
    verdict = check(story.events)
    assert faults(story.events) == {"total": 1}
    assert verdict.examples[0].startswith("eve delivered cid#1 before bob#1, but ann delivered bob#1 first")


def test_a_total_message_on_the_wrong_side_of_many_counts_once():
    story = Story()
    for node in ("dan", "eve", "fay"):
        story.subscribe(node, "#")
    total = story.publish("ann", "bank", "total", "k")
    weak = [story.publish("bob", "bank", "eventual", "k") for _ in range(10)]
    story.deliver("dan eve", total, *weak)
    story.deliver("fay", *weak, total)
    assert faults(story.events) == {"total": 1}


def test_clients_that_never_disagree_on_two_messages_are_clean_though_no_one_order_fits_all():
    story = Story()
    story.subscribe("dan", "#", "not n = 3")
    story.subscribe("eve", "#", "not n = 1")
    story.subscribe("fay", "#", "not n = 2")
    one, two, three = (
        story.publish(node, "bank", "total", "k", {"n": n}) for n, node in enumerate(("ann", "bob", "cid"), 1)
    )
    story.deliver("dan", one, two)
    story.deliver("eve", two, three)
    story.deliver("fay", three, one)
    assert check(story.events).ok


def test_subscribers_of_different_messages_are_compared_on_what_both_delivered():
    story = Story()
    story.subscribe("dan", "#")
    story.subscribe("eve", "#", "n != 2")
    one, two, three = (
        story.publish(node, "bank", "total", "k", {"n": n}) for n, node in enumerate(("ann", "bob", "cid"), 1)
    )
    story.deliver("dan", one, two, three)
    story.deliver("eve", three, one)
    assert faults(story.events) == {"total": 1}


@pytest.mark.parametrize("misplaced", [0, 1, 10, 200])
def test_long_sequences_on_one_key_are_judged_as_by_the_reference(misplaced: int):
    random = Random(misplaced)
    story = Story()
    listeners = ("dan", "eve", "fay", "gus")
    for node in listeners:
        story.subscribe(node, "bank")
    sent = [story.publish(["ann", "bob", "cid"][n % 3], "bank", ("total", "eventual")[n % 2], "k") for n in range(200)]
    for node in listeners:
        order = random.sample(sent, 190) if misplaced == len(sent) else list(sent)
        for _ in range(misplaced):
            order.insert(random.randrange(len(order)), order.pop(random.randrange(len(order))))
        story.deliver(node, *order)
    assert bool(faults(story.events).get("total")) == (misplaced > 0)
