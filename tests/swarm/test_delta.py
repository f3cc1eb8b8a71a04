"""Random failures of up to delta nodes: no promise is broken, every operation completes, and everything drains.

Longer campaigns: `holdfast campaign --protocol delta --faults chain,scatter,... --tolerance D --seeds A..B`; what they
have shown is in docs/protocols/delta.md.
"""

import pytest

from holdfast.simulation.failures import FailureClass
from holdfast.simulation.workloads import CALM, Trouble
from tests.swarm.seeds import FIRST, complaints

IN_THE_MODEL: tuple[FailureClass, ...] = (
    *("chain", "scatter", "oscillate", "joining", "subscribing", "recovering", "returning", "clients", "stay"),
)


@pytest.mark.parametrize("failure", IN_THE_MODEL)
def test_one_failed_node_stops_nothing(failure: FailureClass):
    assert "\n\n".join(complaints(range(FIRST, FIRST + 6), Trouble((), failure, 1), "delta")) == ""


@pytest.mark.parametrize("failure", IN_THE_MODEL)
def test_two_failed_nodes_stop_nothing(failure: FailureClass):
    assert "\n\n".join(complaints(range(FIRST, FIRST + 3), Trouble((), failure, 2), "delta")) == ""


def test_without_failures_everything_arrives_in_order_and_every_invariant_holds():
    assert "\n\n".join(complaints(range(FIRST, FIRST + 10), CALM, "delta")) == ""


def test_links_that_break_stand_still_or_slow_down_lose_nothing():
    trouble = Trouble(("reset", "cut", "freeze", "slow"))
    assert "\n\n".join(complaints(range(FIRST, FIRST + 10), trouble, "delta")) == ""
