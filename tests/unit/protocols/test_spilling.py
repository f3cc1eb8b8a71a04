"""What a broker leaves out for a client that does not take it, and what it never does."""

from types import SimpleNamespace
from typing import cast

from holdfast.model.messages import Subscribe, Unsubscribe
from holdfast.protocols.links import Link
from holdfast.protocols.spilling import Spilling


def spilling(backlog_bytes: int) -> Spilling:
    link = cast("Link", SimpleNamespace(backlog_bytes=backlog_bytes))
    return Spilling({"bob": link}, bytes_max=100)


def test_what_only_a_spilling_subscription_wants_is_left_out_when_enough_lies_there():
    one = spilling(101)
    one.note("bob", Subscribe(1, "bank/#", "", spills=True))
    assert one.leaves_out("bob", "bank/a", 3)
    assert one.leaves_out("bob", "bank/a", 2)
    assert one.left_out == {"bob": 5}
    less = spilling(100)
    less.note("bob", Subscribe(1, "bank/#", "", spills=True))
    assert not less.leaves_out("bob", "bank/a", 3)


def test_nothing_is_left_out_that_another_subscription_wants_too_in_whatever_order_they_came():
    plain, spills = Subscribe(1, "bank/#", ""), Subscribe(2, "bank/#", "", spills=True)
    for order in ((plain, spills), (spills, plain), (spills, Subscribe(3, "bank/a", "n > 1"))):
        one = spilling(101)
        for message in order:
            one.note("bob", message)
        assert not one.leaves_out("bob", "bank/a", 1)


def test_what_the_other_subscription_does_not_want_is_left_out():
    one = spilling(101)
    one.note("bob", Subscribe(2, "bank/#", "", spills=True))
    one.note("bob", Subscribe(3, "bank/a", "n > 1"))
    assert one.leaves_out("bob", "bank/b", 1)


def test_who_asked_for_nothing_of_the_kind_is_sent_everything():
    one = spilling(101)
    assert not one.leaves_out("bob", "bank/a", 1)
    one.note("bob", Subscribe(1, "bank/#", "", spills=True))
    one.note("bob", Unsubscribe(2, "bank/#", ""))
    assert not one.leaves_out("bob", "bank/a", 1)
    one.note("bob", Subscribe(3, "bank/#", "", spills=True))
    one.forget("bob")
    assert not one.leaves_out("bob", "bank/a", 1)
    assert not one.leaves_out("gone", "bank/a", 1)
