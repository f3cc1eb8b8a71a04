"""What a lost broker has passed on before what."""

from holdfast.protocols.ginger.merge import Contribution, Flag
from holdfast.protocols.ginger.passing_order import PassingOrder

A, B, C, D = ("p", 1), ("q", 1), ("r", 1), ("s", 1)


def received(*records: tuple[str, int]) -> list[Contribution]:
    return [(record, Flag.RECEIVED, place, place) for place, record in enumerate(records, 1)]


def sent(*records: tuple[str, int]) -> list[Contribution]:
    return [(record, Flag.SENT, place, place + 1) for place, record in enumerate(records)]


def test_who_received_the_later_of_two_was_passed_by_with_the_earlier():
    order = PassingOrder({"x": received(A, B), "y": received(B)}, {"x": 0, "y": 0})
    assert order.passed_by("y") == {A}
    assert order.passed_by("x") == set()


def test_who_received_only_the_earlier_may_still_lack_the_later():
    order = PassingOrder({"x": received(A, B), "y": received(A)}, {"x": 0, "y": 0})
    assert order.passed_by("y") == set()


def test_orders_that_several_have_seen_are_one_order():
    order = PassingOrder({"x": received(A, B), "y": received(B, C), "z": received(C)}, {"x": 0, "y": 0, "z": 0})
    assert order.passed_by("z") == {A, B}


def test_what_somebody_sent_was_processed_in_that_order():
    order = PassingOrder({"x": sent(A, B), "y": received(B)}, {"x": 0, "y": 0})
    assert order.passed_by("y") == {A}


def test_what_was_received_after_something_was_sent_is_in_no_order_with_it():
    history: list[Contribution] = [(A, Flag.SENT, 0, 1), (B, Flag.RECEIVED, 2, 2)]
    order = PassingOrder({"x": history, "y": received(B)}, {"x": 0, "y": 0})
    assert order.passed_by("y") == set()


def test_what_was_received_before_something_was_sent_is_before_it():
    history: list[Contribution] = [(A, Flag.RECEIVED, 1, 1), (B, Flag.SENT, 1, 2)]
    order = PassingOrder({"x": history, "y": received(B)}, {"x": 0, "y": 0})
    assert order.passed_by("y") == {A}


def test_what_was_handed_over_when_a_link_was_opened_says_nothing():
    assert PassingOrder({"x": received(A, B), "y": received(B)}, {"x": 1, "y": 0}).passed_by("y") == set()
    assert PassingOrder({"x": received(A, B), "y": received(B)}, {"x": 0, "y": 1}).passed_by("y") == set()


def test_a_request_has_no_place_in_the_order():
    history: list[Contribution] = [(A, Flag.ASKED, 0, 0), (B, Flag.SENT, 1, 1)]
    order = PassingOrder({"x": history, "y": received(B)}, {"x": 0, "y": 0})
    assert order.passed_by("y") == set()


def test_what_somebody_has_forgotten_shows_that_all_before_it_is_stable():
    order = PassingOrder({"x": received(A, B, C)}, {"x": 0})
    assert order.before([B]) == {A}
    assert order.before([D]) == set()
