"""Where the causal past of a message comes from, and what it asks of the order."""

import pytest
from msgspec.structs import replace

from holdfast.model.trace import Event
from holdfast.simulation.checkers import check
from tests.unit.simulation.judging import faults
from tests.unit.simulation.stories import (
    Story,
    added,
    busy_day,
    changed,
    exchanged,
    name,
)


def with_pasts(events: list[Event]) -> list[Event]:
    """The busy day with its `past` column written: there, everything that was published before."""
    past: dict[str, int] = {}
    result = []
    for event in events:
        if event.event != "publish":
            result.append(event)
            continue
        result.append(replace(event, past=dict(past)))
        past[event.publisher] = event.seq
    return result


def planted(kind: str) -> list[Event]:
    places = {"fifo": ("ann#2", "ann#3"), "causal": ("ann#3", "bob#3"), "total": ("cid#4", "ann#5")}
    return exchanged(busy_day(), "dan", *places[kind])


@pytest.mark.parametrize("kind", ["fifo", "causal", "total"])
def test_a_trace_with_its_past_written_is_judged_as_one_without(kind: str):
    assert check(with_pasts(busy_day())).ok
    assert check(with_pasts(planted(kind))) == check(planted(kind))


def test_a_past_that_is_written_counts_instead_of_the_histories():
    def is_publish(event: Event) -> bool:
        return event.event == "publish" and name(event) == "bob#3"

    events = planted("causal")
    assert faults(changed(events, is_publish, past={"ann": 2, "bob": 2})) == {}
    assert faults(changed(events, is_publish, past={"ann": 3, "zoe": 99})) == {"causal": 1}


def story_of_a_link(guarantee: str) -> list[Event]:
    """cid's link has a written past of its own; bob delivers it and publishes z, which dan gets before ann's x."""
    story = Story()
    story.subscribe("dan", "#")
    story.subscribe("bob", "links")
    x = story.publish("ann", "news", "causal")
    link = story.publish("cid", "links", guarantee, past={"ann": 1})
    story.deliver("bob", link)
    z = story.publish("bob", "news", "causal")
    story.deliver("dan", link, z, x)
    return story.events


@pytest.mark.parametrize("guarantee", ["causal", "total"])
def test_a_written_past_reaches_those_who_build_on_it(guarantee: str):
    events = story_of_a_link(guarantee)
    # The link itself came before ann's, too.
    assert faults(events) == {"causal": 2}
    assert "dan delivered bob#1 before ann#1, which is in the causal past of bob#1" in check(events).examples


@pytest.mark.parametrize("guarantee", ["eventual", "fifo"])
def test_a_past_that_is_written_at_a_weaker_message_is_nobodys_past(guarantee: str):
    assert check(story_of_a_link(guarantee)).ok


def chain(order: str, guarantee: str = "causal") -> list[Event]:
    """ann's causal x, then bob's e after it, then cid's causal z after e; dan delivers them in that order."""
    story = Story()
    story.subscribe("bob", "x")
    story.subscribe("cid", "e")
    story.subscribe("dan", "#")
    messages = {"x": story.publish("ann", "x", "causal")}
    story.deliver("bob", messages["x"])
    messages["e"] = story.publish("bob", "e", guarantee)
    story.deliver("cid", messages["e"])
    messages["z"] = story.publish("cid", "z", "causal")
    story.deliver("dan", *[messages[letter] for letter in order.split()])
    return story.events


@pytest.mark.parametrize("guarantee", ["eventual", "fifo"])
@pytest.mark.parametrize("order", ["x e z", "e x z", "x z e", "e z x", "z e x", "z x e"])
def test_a_weaker_message_makes_no_chain(order: str, guarantee: str):
    assert check(chain(order, guarantee)).ok


@pytest.mark.parametrize("guarantee", ["causal", "total"])
@pytest.mark.parametrize(("order", "too_early"), [("x e z", 0), ("x z e", 1), ("e x z", 1), ("e z x", 2), ("z x e", 1)])
def test_a_chain_of_causal_and_total_messages_holds(order: str, too_early: int, guarantee: str):
    assert check(chain(order, guarantee)).causal == too_early


@pytest.mark.parametrize(("guarantee", "too_early"), [("eventual", 0), ("fifo", 0), ("causal", 1), ("total", 1)])
def test_the_past_holds_what_was_published_before_a_causal_message_even_if_it_was_not_delivered_on_the_way(
    guarantee: str, too_early: int
):
    story = Story()
    story.subscribe("bob", "y")
    story.subscribe("dan", "#")
    x, y = story.publish("ann", "x", "causal"), story.publish("ann", "y", guarantee)
    story.deliver("bob", y)
    z = story.publish("bob", "z", "causal")
    story.deliver("dan", z, x, y)
    assert faults(story.events) == ({"causal": too_early} if too_early else {})


def test_a_weaker_message_in_between_does_not_hide_a_dependency():
    # bob delivers ann's x, then her eventual e, and publishes his own fifo f: x is in the past of z all the same.
    story = Story()
    story.subscribe("bob", "#")
    story.subscribe("dan", "#")
    x, e = story.publish("ann", "x", "causal"), story.publish("ann", "e", "eventual")
    story.deliver("bob", x, e)
    f, z = story.publish("bob", "f", "fifo"), story.publish("bob", "z", "causal")
    story.deliver("bob", f, z)
    story.deliver("dan", e, f, z, x)
    assert faults(story.events) == {"causal": 1}


def test_concurrent_messages_may_come_in_any_order():
    story = Story()
    story.subscribe("dan", "#")
    story.subscribe("eve", "#")
    x, y = story.publish("ann", "news", "causal"), story.publish("bob", "news", "causal")
    story.deliver("dan", x, y)
    story.deliver("eve", y, x)
    assert check(story.events).ok


def test_the_histories_make_the_past_even_if_the_clocks_are_wrong():
    # ann's clock is far ahead: by the times she published x long after bob had delivered it.
    events = [replace(event, time=event.time + 1000 * (event.node == "ann")) for event in chain("z x e")]
    assert faults(events) == {"causal": 1}


def test_histories_in_which_effects_come_before_causes_are_judged_too():
    # ann publishes after she delivered bob's, and bob after he delivered ann's: each is in the other's past.
    story = Story()
    for node in ("ann", "bob", "dan"):
        story.subscribe(node, "#")
    x, y = story.publish("ann", "news", "causal"), story.publish("bob", "news", "causal")
    story.deliver("ann", y, x)
    story.deliver("bob dan", x, y)
    assert check(story.events).ok
    swap = {1: 2, 2: 1}
    events = [
        replace(event, index=swap.get(event.index, event.index)) if event.node in ("ann", "bob") else event
        for event in story.events
    ]
    assert faults(events) == {"causal": 3}


def test_what_is_published_again_under_its_identity_was_published_the_first_time():
    story = Story()
    story.subscribe("bob", "#")
    story.subscribe("dan", "#")
    x, y = story.publish("ann", "news", "causal"), story.publish("bob", "news", "causal")
    story.deliver("bob", x, y)
    story.deliver("dan", y, x)
    [first] = [event for event in story.events if event.event == "publish" and name(event) == y]
    assert faults(added(story.events, replace(first, guarantee="total", keys=["k"]))) == {}
