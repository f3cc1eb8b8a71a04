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


@pytest.mark.parametrize(
    ("failure", "seed"),
    [
        *(("chain", 119), ("chain", 213), ("scatter", 147), ("scatter", 192), ("oscillate", 116), ("subscribing", 182)),
        *(("recovering", 116), ("recovering", 147), ("recovering", 192), ("returning", 192)),
    ],
)
def test_a_message_is_not_numbered_anew_because_a_later_one_went_to_another_receiver(failure: FailureClass, seed: int):
    """Once broken: the earlier of two messages arrived behind the later one, or was taken for its repeat.

    1. Two messages of one publisher go past a failed broker, the first to c1, the second to c1 and c2. 2. c2 is
    connected with, and gets the second. 3. c1 is connected with: in its direction a higher number had gone, so the
    first was given a new number behind the second.
    """
    assert "\n\n".join(complaints(range(seed, seed + 1), Trouble((), failure, 1), "delta")) == ""
