"""The rules of LoCaMu by themselves: who may pass a copy on, and to whom."""

import pytest

from holdfast.model.relay_messages import Notice
from holdfast.protocols.locamu.copies import Copy, reaches
from holdfast.protocols.locamu.core import Core
from holdfast.protocols.neighbourhoods import Neighbourhood

CHAIN = [(str(number), str(number + 1)) for number in range(8)]
"""0 - 1 - ... - 8"""


def core_of(name: str, tolerance: int) -> Core:
    return Core(Neighbourhood(name, CHAIN), reaches(tolerance), lambda *_: None)


@pytest.mark.parametrize(
    ("name", "tolerance", "borrowed", "may"),
    [("6", 1, False, True), ("6", 1, True, False), ("6", 2, False, True), ("7", 2, False, False)],
)
def test_who_does_not_know_all_numbers_of_a_copy_passes_it_on_to_nobody_behind_its_forwarder(
    name: str, tolerance: int, borrowed: bool, may: bool
):
    """5 has numbered it for 4 and all the way down to 0, of whom 7 is too far away to know.

    Nor does 6 know of all if somebody passed the copy on to it who did not.
    """
    core = core_of(name, tolerance)
    near = core.near.within(core.reach.marks, "5")
    known = {target: 1 for target in near if core.near.distance(name, target) <= core.reach.safe}
    entry = core.process(Copy(("5",), {"5": known}, {}, borrowed=borrowed))
    assert core.may_pass_on(entry, "4") is may


@pytest.mark.parametrize(("target", "may"), [("7", True), ("8", False)])
def test_a_copy_is_passed_on_to_those_alone_whom_its_last_forwarder_has_numbered_it_for(target: str, may: bool):
    """Figure 3.9. 8 could be reached along a safe path, and knows nothing of 5's number for 7."""
    core = core_of("6", 2)
    entry = core.process(Copy(("4", "5"), {"4": {"5": 1, "6": 1, "8": 1}, "5": {"6": 1, "7": 1}}, {}))
    assert core.may_pass_on(entry, target) is may


def test_a_number_that_is_given_late_is_for_the_next_on_the_way_alone():
    """4 hears from another copy that 6 is to have a message that, as 4 knew it, nobody beyond 4 wanted."""
    core = core_of("4", 2)
    entry = core.process(Copy(("1", "2"), {"2": {"3": 1, "4": 1}}, {}))
    assert entry.own == {}
    core.merge({"2": {"3": 1, "4": 1}, "3": {"4": 7, "5": 7, "6": 7}})
    assert entry.own == {"5": 1}


def test_a_notice_that_came_past_a_neighbour_does_not_vouch_for_what_that_had_before():
    """3 was passed over, and numbers the notice as its second for 4, which has not got the first."""
    core = core_of("4", 1)
    passed_over = {"2": {"3": 1, "4": 1}}
    core.process(Copy(("2",), passed_over, {}, notice=Notice("s", "t")))
    core.merge({**passed_over, "3": {"4": 2, "5": 2}})
    assert core.complete_towards("3") == 0
