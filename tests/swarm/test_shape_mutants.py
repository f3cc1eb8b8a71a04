"""Moves without one of their rules are caught: what random runs with moves find nothing in would prove nothing."""

import pytest

from holdfast.model.messages import Move, Publish, SessionMessage
from holdfast.protocols.ginger import ShapingBroker
from holdfast.protocols.ginger.departures import Departure
from holdfast.protocols.ginger.relocating import Journey
from holdfast.protocols.ginger.warding import Ward
from holdfast.simulation.shrinking import faults_of
from holdfast.simulation.workloads import Trouble, judge, random_scenario
from holdfast.simulation.world import BrokerFactory

SEEDS = range(1, 41)
DEGREE_MAX = 3


class BreaksFirst(ShapingBroker):
    """The child is handed over before its link has fallen silent."""

    def _pursue(self, departure: Departure) -> None:
        departure.is_frozen = departure.drained = True
        super()._pursue(departure)

    def _may_commit(self, departure: Departure) -> bool:  # noqa: ARG002
        return True


class DrainsTooLate(ShapingBroker):
    """What is under way on the old link is not waited for: it is dropped with it."""

    def _on_freeze(self, journey: Journey) -> None:
        super()._on_freeze(journey)
        self.log.unlink(journey.parent)
        self.log.link(journey.parent)

    def _is_drained(self, peer: str, base: int) -> bool:  # noqa: ARG002
        return True


class TellsNoInterests(ShapingBroker):
    """The new parent is not sent what the child wants before it has asked for it itself."""

    def _freeze_link(self, departure: Departure) -> None:
        super()._freeze_link(departure)
        self.interests.take_back(departure.lent, departure.target)


class ForgetsWhatCrosses(ShapingBroker):
    """What the new parent had passed up, and the old one had not taken yet, is nobody's to hand over."""

    def _owe_what_crosses(self, parent: str, move: Move) -> None:
        """Nothing crosses."""


class KeepsNothing(ShapingBroker):
    """The new parent begins with what comes next, not with what it has kept."""

    def _take_ward_in(self, ward: Ward) -> None:
        self.log.unlink(ward.name)
        self.log.link(ward.name)
        super()._take_ward_in(ward)


class SpeaksOn(ShapingBroker):
    """A child that is being moved goes on talking to its old parent."""

    def _send(self, peer: str, message: SessionMessage) -> None:
        if peer == self._frozen and peer in self.hub.links and isinstance(message, Publish):
            self.hub.send(peer, message)
        else:
            super()._send(peer, message)


def broken(make: BrokerFactory, seeds: range = SEEDS) -> int:
    trouble = Trouble((), None, 1, DEGREE_MAX)
    return sum(bool(faults_of(judge(random_scenario(seed, trouble=trouble), "", make=make))) for seed in seeds)


@pytest.mark.parametrize(
    "make", [BreaksFirst, DrainsTooLate, TellsNoInterests, ForgetsWhatCrosses, KeepsNothing, SpeaksOn]
)
def test_a_move_without_a_rule_is_caught(make: BrokerFactory):
    assert broken(make) > 0
