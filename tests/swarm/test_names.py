"""Random sessions that share names, for every protocol: one is left, the others were told, and nothing is lost for it.

Longer campaigns: `holdfast campaign --protocol P --faults names --tolerance F --seeds A..B`.
"""

from typing import ClassVar

import pytest

from holdfast.model.name_messages import Named, Recall
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.ginger import GingerBroker, RepairingBroker
from holdfast.protocols.names import NameBook
from holdfast.simulation.workloads import Trouble, judge, random_scenario
from holdfast.simulation.world import BrokerFactory
from tests.swarm.seeds import FIRST, complaints

CASES = [
    ("ginger", 0, 30),
    ("ginger", 1, 25),
    ("ginger", 2, 15),
    ("cbcast", 0, 10),
    ("cbcast", 1, 10),
    ("barriers", 0, 10),
    ("barriers", 1, 8),
    ("delta-neighbourhood", 0, 10),
    ("delta-neighbourhood", 1, 10),
    ("locamu", 0, 10),
    ("locamu", 1, 12),
]


@pytest.mark.parametrize(("protocol", "tolerance", "runs"), CASES)
def test_whatever_shares_a_name_is_heard_and_one_of_it_remains(protocol: str, tolerance: int, runs: int):
    trouble = Trouble((), "names", tolerance)
    assert "\n\n".join(complaints(range(FIRST, FIRST + runs), trouble, protocol)) == ""


@pytest.mark.parametrize("protocol", ["ginger", "cbcast", "locamu"])
def test_connections_may_break_meanwhile(protocol: str):
    trouble = Trouble(("reset",), "names", 0)
    assert "\n\n".join(complaints(range(FIRST, FIRST + 8), trouble, protocol)) == ""


# ---- brokers without one of their rules are caught


class DeafBook(NameBook):
    """It does not hear of sessions elsewhere."""

    def hear(self, peer: str, named: Named) -> None:
        """Nothing is news."""


class SilentBook(NameBook):
    """It tells a new neighbour nothing: two parts that come together do not hear of each other's sessions."""

    def greet(self, peer: str) -> None:
        """Nothing is said."""


class _Without:
    """A broker with another book."""

    book: ClassVar[type[NameBook]] = NameBook

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        super().__init__(config, incarnation)  # type: ignore[call-arg]  # of the broker that it is mixed into
        self.names.__class__ = self.book  # type: ignore[attr-defined]


class Deaf(_Without, GingerBroker):
    book = DeafBook


class Silent(_Without, RepairingBroker):
    book = SilentBook


class Sure(RepairingBroker):
    """Whatever it hears, it takes the numbers of a name for certain."""

    def _recalled(self, source: str, asked: Recall, last: int, certain: bool) -> None:  # noqa: ARG002
        self.names.is_last = lambda identity: True  # type: ignore[method-assign]  # noqa: ARG005
        super()._recalled(source, asked, last, True)


@pytest.mark.parametrize(
    ("make", "tolerance", "seeds", "complaint", "runs_min"),
    [
        (Deaf, 0, range(1, 41), "is held by", 20),
        (Silent, 1, range(1, 201), "is held by", 1),
        (Sure, 1, range(1, 201), "stands for two messages", 1),
    ],
)
def test_a_broker_without_a_rule_is_caught(
    make: BrokerFactory, tolerance: int, seeds: range, complaint: str, runs_min: int
):
    trouble, caught = Trouble((), "names", tolerance), 0
    for seed in seeds:
        caught += complaint in judge(random_scenario(seed, trouble=trouble), "", make=make).error
        if caught >= runs_min:
            return
    pytest.fail(f"caught in {caught} of {len(seeds)} runs only")
