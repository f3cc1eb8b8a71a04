"""What a broker of the delta-neighbourhood remembers of messages in transit."""

from holdfast.model.batches import Batch
from holdfast.protocols.comparators.delta_neighbourhood.transits import Transit, Transits


def begun(transits: Transits, publisher: str, serial: int, route: list[str]) -> Transit:
    transit = Transit(Batch(publisher, 1, "t", 0, b""), (("0", serial),), serial, route, "")
    transits.begin(transit)
    if transit.complete:
        transits.end(transit)
    return transit


def test_of_the_messages_that_are_over_those_that_ended_first_are_forgotten_and_no_other():
    transits = Transits(publishers_max=2)
    lacked = begun(transits, "ann", 1, ["1"])
    over = [begun(transits, publisher, serial, []) for serial, publisher in enumerate(["bob", "cat", "dan"], 2)]
    assert transits.find(lacked.path) is lacked
    assert [transits.find(one.path) for one in over] == [None, *over[1:]]
    lacked.awaiting.clear()
    transits.end(lacked)
    assert [transits.find(one.path) for one in (lacked, *over)] == [lacked, None, None, over[2]]
    transits.check_invariants()


def test_the_next_message_of_a_publisher_takes_the_place_of_the_one_before():
    transits = Transits(publishers_max=1)
    first = begun(transits, "ann", 1, [])
    second = begun(transits, "ann", 2, ["1"])
    third = begun(transits, "bob", 3, [])
    assert [transits.find(one.path) for one in (first, second, third)] == [None, second, third]
