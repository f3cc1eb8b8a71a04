"""The rules of LoCaMu by themselves: who may pass a copy on, and to whom."""

import pytest

from holdfast.protocols.locamu.copies import Copy, reaches
from holdfast.protocols.locamu.core import Core
from holdfast.protocols.neighbourhoods import Neighbourhood

CHAIN = [(str(number), str(number + 1)) for number in range(8)]
"""0 - 1 - ... - 8"""


def core_of(name: str, tolerance: int) -> Core:
    return Core(Neighbourhood(name, CHAIN), reaches(tolerance), lambda *_: None)


@pytest.mark.parametrize(
    ("name", "tolerance", "may"),
    [("6", 1, True), ("6", 2, True), ("7", 2, False)],
)
def test_who_does_not_know_all_numbers_of_a_copy_passes_it_on_to_nobody_behind_its_forwarder(
    name: str, tolerance: int, may: bool
):
    """5 has numbered it for 4 and all the way down to 0, of whom 7 is too far away to know."""
    core = core_of(name, tolerance)
    near = core.near.within(core.reach.marks, "5")
    known = {target: 1 for target in near if core.near.distance(name, target) <= core.reach.safe}
    entry = core.process(Copy(("5",), {"5": known}, {}))
    assert core.may_pass_on(entry, "4") is may
