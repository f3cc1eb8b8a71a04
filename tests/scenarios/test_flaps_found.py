"""Schedules that campaigns found, most with flapping links, each with the rule that it needs left out.

The schedules, with their stories, are in `found`; `test_repairs_found` shows that they are survived with the rule.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from holdfast.model.batches import Batch
from holdfast.model.identities import name_of
from holdfast.model.messages import Interest
from holdfast.model.name_messages import Presence
from holdfast.protocols.ginger.absences import Absence
from holdfast.protocols.ginger.admissions import Admissions
from holdfast.protocols.ginger.diaries import Diaries
from holdfast.protocols.ginger.flush import Flush
from holdfast.protocols.ginger.joiners import Joiner
from holdfast.protocols.ginger.late_sessions import LateSessions
from holdfast.protocols.ginger.majority import Majority
from holdfast.protocols.ginger.neighbours import Neighbours
from holdfast.protocols.ginger.repairs import Repairs
from holdfast.protocols.ginger.reunion import Reunion
from holdfast.protocols.ginger.settlement import Settlement, Settling
from holdfast.protocols.ginger.suspicion import Suspicion
from holdfast.protocols.names import NameBook
from holdfast.protocols.records import RecordId
from holdfast.simulation.scenarios import load_scenario
from holdfast.simulation.shrinking import faults_of
from holdfast.simulation.workloads import judge
from tests.support.parts import MakeBroker, with_parts

FOUND = Path(__file__).with_name("found")


class SaysNothingOfSessions(LateSessions):
    """Gives sessions up that were away, and does not say so to their clients, which may be elsewhere."""

    def settle(self, now: float) -> None:
        self._dropped_for.clear()
        super().settle(now)


class AccountsForNobody(Admissions):
    """Does not remember what was wanted behind a lost broker, by nodes that have not come."""

    def _account_for(self, flush: Flush) -> None:
        pass


class StrikesOutTheLiving(Suspicion):
    """Takes the death of an earlier epoch for that of the neighbour that is here today."""

    def suspect(self, name: str, epoch: int, reason: str) -> None:
        if not self._view.is_gone(name, epoch):
            self._broker.majority.lose(name)
        super().suspect(name, epoch, reason)


class AccusesVisitors(Neighbours):
    """Takes a broker that came, asked what became of it, and hung up for dead."""

    def has_only_asked(self, peer: str) -> bool:  # noqa: ARG002
        return False


class FindsEverybodyAccountedFor(Diaries):
    """Takes it that only those who have come wanted anything behind a lost broker, and that nothing is lacking."""

    def give_up_absence(self, absence: Absence) -> None:
        absence.lacks = False
        super().give_up_absence(absence)

    def wanted_by_nobody_here(self, flush: Flush) -> list[Interest]:  # noqa: ARG002
        return []


class SaysNothingOfLossesInARow(Admissions):
    """Takes in those from behind more dead brokers than are survived, and tells nobody what that means."""

    def _tell_of_losses_in_a_row(self, flush: Flush) -> None:
        pass


class CountsLossesTooLate(Repairs):
    """Takes a repair for begun when the neighbours have been told: another one may have ended by then."""

    def _begin(self, flush: Flush) -> None:
        flush.version = self._broker.neighbours.tell_neighbours(self._view.hops - 2)
        self.flushes.append(flush)


class NothingTurnedBelow(Settling):
    """Hands to those above what the lost broker below had turned for others, behind what has turned above since."""

    def _turned_below(self) -> set[RecordId]:
        return set()


class LateClientsHavePlaces(Settling):
    """Gives places to messages that nobody who has come is to get."""

    def _for_late_alone(self, *_: object) -> set[RecordId]:
        return set()


class ForgetsInWhichOrder(Admissions):
    """Does not remember in which order it has handed to others what a late client may have in another one."""

    @staticmethod
    def _orders(joined: Mapping[str, Joiner], settlement: Settlement) -> list[list[RecordId]]:  # noqa: ARG004
        return []


class TurnsAtOnce(Majority):
    """Has total messages turn when the verdict comes that there is a majority, whatever is on its way."""

    @property
    def serves_total(self) -> bool:
        return self.census.majority


class CountsItsOwnLossesAlone(Reunion):
    """Accuses those that the root of its part has lost, and that root, of being dead."""

    def is_cut_off(self) -> bool:
        return len(self._tried) > self._broker.config.tolerance or self._broker.majority.settling_merge


class NobodyIsContradicted(Settling):
    """Hands nothing to joiners that have something later, it seems, and tells nobody."""

    def _contradicted(self, *_: object) -> set[str]:
        return set()


class LeavesOutWithoutAWord(Admissions):
    rules = NobodyIsContradicted


class TakesWhatTurnedBelow(Admissions):
    rules = NothingTurnedBelow


class OrdersForLateClients(Admissions):
    rules = LateClientsHavePlaces


class PlacesWhatTurnedElsewhere(Admissions):
    """Gives places in its own order to batches that have turned elsewhere, and that nobody here wants."""

    def _has_place_here(self, batch: Batch) -> bool:  # noqa: ARG002
        return True


class TellsOnlyOfThosePresent(NameBook):
    """Does not tell a neighbour of a later session that has ended again."""

    def _is_outdone(self, told: Presence) -> bool:
        return super()._is_outdone(told) and not self._entries[name_of(told.identity)].latest.ended


ALL_LEFT_OUT = with_parts(neighbours=AccusesVisitors, diaries=FindsEverybodyAccountedFor)
"""Each of these rules keeps the confirmations true."""
LEFT_OUT: list[tuple[str, MakeBroker, str]] = [
    ("client-below-another", with_parts(late_sessions=SaysNothingOfSessions), "silent losses"),
    ("wanted-by-nobody-who-came", with_parts(admissions=AccountsForNobody), "false confirmations"),
    ("asked-and-hung-up", ALL_LEFT_OUT, "false confirmations"),
    ("three-lost-in-a-row", with_parts(admissions=SaysNothingOfLossesInARow), "silent losses"),
    ("places-of-others", with_parts(admissions=PlacesWhatTurnedElsewhere), "silent losses"),
    ("later-and-ended", with_parts(names=TellsOnlyOfThosePresent), "is held by 2 sessions"),
    ("ended-by-another-loss", with_parts(repairs=CountsLossesTooLate), "lost"),
    ("turned-below", with_parts(admissions=TakesWhatTurnedBelow), "lost"),
    ("each-seems-too-late", with_parts(admissions=LeavesOutWithoutAWord), "silent losses"),
    ("late-client-alone", with_parts(admissions=OrdersForLateClients), "forced"),
    ("late-client-knows-better", with_parts(admissions=ForgetsInWhichOrder), "total"),
    ("verdict-before-the-messages", with_parts(majority=TurnsAtOnce), "total"),
    ("cut-off-with-a-part", with_parts(reunion=CountsItsOwnLossesAlone), "total"),
    ("dead-in-an-earlier-epoch", with_parts(suspicion=StrikesOutTheLiving), "NotQuiet"),
]


@pytest.mark.parametrize(("name", "make", "complaint"), LEFT_OUT, ids=[name for name, *_ in LEFT_OUT])
def test_a_schedule_that_was_found_breaks_without_the_rule_that_it_needs(name: str, make: MakeBroker, complaint: str):
    outcome = judge(load_scenario(FOUND / f"{name}.toml"), name, make=make)
    assert complaint in faults_of(outcome) or complaint in outcome.error
