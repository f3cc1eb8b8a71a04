"""Schedules of flapping links that campaigns found, each with the rule that it needs left out.

The schedules, with their stories, are in `found`; `test_repairs_found` shows that they are survived with the rule.
"""

from pathlib import Path

import pytest

from holdfast.protocols.ginger import ShapingBroker
from holdfast.protocols.ginger.flush import Flush
from holdfast.protocols.node import Effects
from holdfast.simulation.scenarios import load_scenario
from holdfast.simulation.workloads import judge

FOUND = Path(__file__).with_name("found")


class SaysNothingOfSessions(ShapingBroker):
    """Gives sessions up that were away, and does not say so to their clients, which may be elsewhere."""

    def settle(self, now: float) -> Effects:
        self._dropped_for.clear()
        return super().settle(now)


class AccountsForNobody(ShapingBroker):
    """Does not remember what was wanted behind a lost broker, by nodes that have not come."""

    def _account_for(self, flush: Flush) -> None:
        pass


class StrikesOutTheLiving(ShapingBroker):
    """Takes the death of an earlier epoch for that of the neighbour that is here today."""

    def suspect(self, name: str, epoch: int, reason: str) -> None:
        if name in self.census.below and not self.view.is_gone(name, epoch):
            self.census.lose(name)
            self._recount()
        super().suspect(name, epoch, reason)


LEFT_OUT: list[tuple[str, type[ShapingBroker], str]] = [
    ("client-below-another", SaysNothingOfSessions, "silent losses"),
    ("wanted-by-nobody-who-came", AccountsForNobody, "false confirmations"),
    ("dead-in-an-earlier-epoch", StrikesOutTheLiving, "NotQuiet"),
]


@pytest.mark.parametrize(("name", "make", "complaint"), LEFT_OUT, ids=[name for name, *_ in LEFT_OUT])
def test_a_schedule_that_was_found_breaks_without_the_rule_that_it_needs(
    name: str, make: type[ShapingBroker], complaint: str
):
    outcome = judge(load_scenario(FOUND / f"{name}.toml"), name, make=make)
    assert complaint in outcome.error
