"""Each kind of violation, planted in a clean trace, is reported as that one and nothing else."""

from random import Random

import pytest
from msgspec.structs import replace

from holdfast.model.trace import Event, TraceError
from holdfast.simulation.checkers import Verdict, check
from tests.unit.simulation.judging import faults
from tests.unit.simulation.reference import KINDS
from tests.unit.simulation.stories import (
    Story,
    added,
    busy_day,
    changed,
    exchanged,
    is_delivery,
    without,
)


def test_a_clean_trace_has_no_faults():
    verdict = check(busy_day())
    assert verdict == Verdict(deliveries=96)
    assert verdict.ok


def test_no_trace_at_all_has_no_faults():
    assert check([]) == Verdict()


def test_the_order_of_the_rows_in_the_list_does_not_matter():
    events = exchanged(busy_day(), "dan", "ann#3", "bob#3")
    mixed = Random(1).sample(events, len(events))
    assert check(mixed) == check(events)


def test_rows_that_carry_no_promise_are_passed_over():
    story = Story()
    story.other("broker", "attach")
    story.subscribe("ann", "news")
    story.other("ann", "suspect")
    story.deliver("ann", story.publish("ann", "news", "total", "k"))
    assert check(story.events) == Verdict(deliveries=1)


# ------------------------------------------------------------------------------------------ planted, one by one


def test_a_delivery_that_is_missing_is_lost():
    verdict = check(without(busy_day(), is_delivery("bob", "cid#5")))
    assert verdict == Verdict(
        deliveries=95,
        lost=1,
        examples=[
            (
                "bob never delivered cid#5 on topic bank/lisbon, though its subscription to bank/# was confirmed "
                "before that was published"
            )
        ],
    )


@pytest.mark.parametrize("message", ["ann#1", "ann#2", "ann#3", "ann#4"])
def test_what_is_lost_is_no_fault_of_order_whatever_its_guarantee(message: str):
    assert faults(without(busy_day(), is_delivery("dan", message))) == {"lost": 1}


@pytest.mark.parametrize("message", ["ann#1", "ann#2", "ann#3", "ann#4"])
def test_what_is_delivered_again_is_duplicated_whatever_its_guarantee(message: str):
    events = busy_day()
    [delivery] = filter(is_delivery("dan", message), events)
    verdict = check(added(events, delivery))
    assert verdict == Verdict(deliveries=97, duplicated=1, examples=[f"dan delivered {message} again"])


def test_every_repeat_counts():
    events = busy_day()
    [delivery] = filter(is_delivery("dan", "ann#1"), events)
    assert faults(added(added(events, delivery), delivery)) == {"duplicated": 2}


def test_a_delivery_of_what_nobody_published_is_created():
    events = busy_day()
    [delivery] = filter(is_delivery("dan", "ann#8"), events)
    verdict = check(added(events, replace(delivery, seq=9)))
    assert verdict == Verdict(deliveries=97, created=1, examples=["dan delivered ann#9, which nobody published"])


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"topic": "bank/porto"}, "on topic bank/porto, but it was published on bank/lisbon"),
        ({"guarantee": "fifo"}, "as fifo, but it was published as causal"),
        ({"keys": ["red", "green"]}, "with the keys red, green, but it was published with red, blue"),
        ({"keys": []}, "with the keys none, but it was published with red, blue"),
    ],
)
def test_a_message_that_was_altered_on_the_way_is_created_and_not_lost(columns: dict[str, object], reason: str):
    verdict = check(changed(busy_day(), is_delivery("dan", "ann#7"), **columns))
    assert verdict == Verdict(deliveries=96, created=1, examples=[f"dan delivered ann#7 {reason}"])


def test_a_delivery_without_a_subscription_is_created():
    events = busy_day()
    [delivery] = filter(is_delivery("dan", "ann#3"), events)
    verdict = check(added(events, replace(delivery, node="eve")))
    assert verdict == Verdict(
        deliveries=97,
        created=1,
        examples=["eve delivered ann#3 on topic bank/lisbon, without a subscription that matches it"],
    )


def test_what_was_created_is_no_fault_of_order():
    story = Story()
    story.subscribe("dan", "news")
    one, two = story.publish("ann", "other", "causal"), story.publish("ann", "news", "causal")
    story.deliver("dan", two, one)
    assert faults(story.events) == {"created": 1}


def test_a_message_that_overtook_an_earlier_one_of_its_publisher_is_a_fifo_fault():
    verdict = check(exchanged(busy_day(), "dan", "ann#2", "ann#3"))
    assert verdict == Verdict(
        deliveries=96, fifo=1, examples=["dan delivered ann#3 before ann#2, which ann had published earlier"]
    )


def test_fifo_holds_over_all_topics():
    story = Story()
    story.subscribe("dan", "#")
    one, two = story.publish("ann", "news", "fifo"), story.publish("ann", "sport/golf", "total")
    story.deliver("dan", two, one)
    assert faults(story.events) == {"fifo": 1}


def test_an_eventual_message_may_float_past_those_of_its_publisher():
    story = Story()
    story.subscribe("dan", "#")
    sent = [story.publish("ann", "news", guarantee) for guarantee in ("eventual", "fifo", "eventual", "causal")]
    story.deliver("dan", sent[1], sent[3], sent[2], sent[0])
    assert check(story.events).ok


def test_every_delivery_that_came_too_early_counts_once():
    story = Story()
    story.subscribe("dan", "#")
    sent = [story.publish("ann", "news", "fifo") for _ in range(5)]
    story.deliver("dan", *sent[2:], *sent[:2])
    assert faults(story.events) == {"fifo": 3}


def test_a_message_that_overtook_its_causal_past_is_a_causal_fault():
    verdict = check(exchanged(busy_day(), "dan", "ann#3", "bob#3"))
    assert verdict == Verdict(
        deliveries=96,
        causal=1,
        examples=["dan delivered bob#3 before ann#3, which bob had delivered before publishing #3"],
    )


def test_a_weaker_message_on_the_other_side_of_a_total_one_is_a_total_fault():
    verdict = check(exchanged(busy_day(), "dan", "cid#4", "ann#5"))
    assert verdict == Verdict(
        deliveries=96,
        total=1,
        examples=[
            (
                "dan delivered ann#5 before cid#4, but ann delivered cid#4 first; cid#4 is total and both have the key "
                "red on topic bank/lisbon"
            )
        ],
    )


# ------------------------------------------------------------------------------------------------- the verdict


def test_runs_are_judged_apart_and_added_up():
    one = [replace(event, run="one") for event in without(busy_day(), is_delivery("dan", "ann#1"))]
    two = [replace(event, run="two") for event in exchanged(busy_day(), "dan", "ann#3", "bob#3")]
    verdict = check([*two, *one])
    assert faults([*two, *one]) == {"lost": 1, "causal": 1}
    assert verdict.deliveries == 95 + 96
    assert [example.split(" never")[0].split(" delivered")[0] for example in verdict.examples] == [
        "run one: dan",
        "run two: dan",
    ]


def test_examples_are_as_many_of_each_kind_as_asked_for():
    events = [event for event in busy_day() if event.node != "dan" or event.event != "deliver"]
    [repeat] = filter(is_delivery("bob", "ann#1"), events)
    verdict = check(added(events, repeat), examples_max=2)
    assert verdict.lost == 24
    assert [example[:20] for example in verdict.examples] == [
        "dan never delivered ",
        "dan never delivered ",
        "bob delivered ann#1 ",
    ]
    assert check(events, examples_max=0).examples == []


def test_the_verdict_as_a_dictionary_is_what_the_audit_prints():
    verdict = check(without(busy_day(), is_delivery("bob", "cid#5")))
    assert list(verdict.as_dict().items()) == [
        ("ok", False),
        ("deliveries", 95),
        *((kind, int(kind == "lost")) for kind in KINDS),
        ("examples", verdict.examples),
    ]
    assert check(busy_day()).as_dict()["ok"] is True


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        (
            Event("r", "ann", 3, 0, "publish", "ann", 1, "news", guarantee="best"),
            "run 'r', node 'ann', index 3: column 'guarantee' holds 'best'; it is one of eventual, fifo, causal,",
        ),
        (
            Event("r", "dan", 0, 0, "subscribe", topic="news", where="amount >"),
            "run 'r', node 'dan', index 0: column 'where' holds no legal filter.",
        ),
        (
            Event("r", "dan", 0, 0, "unsubscribe"),
            "run 'r', node 'dan', index 0: column 'topic' is missing; a row of 'unsubscribe' has node, topic.",
        ),
    ],
)
def test_a_row_that_cannot_be_judged_is_refused_with_its_place(event: Event, sentence: str):
    with pytest.raises(TraceError) as caught:
        check([event])
    assert str(caught.value).startswith(sentence)
