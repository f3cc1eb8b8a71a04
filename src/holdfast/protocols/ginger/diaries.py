"""Which of those that were lost are missed, and what is kept for them: the broker at the border of a parted network.

A repair to which somebody has not come, who may be out of reach, leaves an absence with a diary (`absences`). While
somebody is missed, everything is asked for, so that it can be kept; questions about messages wait for those missed.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from holdfast.model.messages import (
    Interest,
    Subscribe,
)
from holdfast.model.receipt_messages import NAMES_MAX, Finding
from holdfast.protocols.ginger.absences import Absence, OwnHistory
from holdfast.protocols.ginger.flush import Flush
from holdfast.protocols.ginger.joiners import Joiner
from holdfast.protocols.ginger.merge import Flag
from holdfast.protocols.given_up import UNACCOUNTED
from holdfast.protocols.interests import ALL
from holdfast.protocols.node import Report

if TYPE_CHECKING:
    from holdfast.protocols.ginger.repairing_broker import RepairingBroker

THE_ABSENT = "(the absent)"
"""Who asks for everything, in the place of those who may be out of reach."""


class Diaries:
    """The absences at one broker, from their beginning to their end."""

    def __init__(self, broker: "RepairingBroker") -> None:
        self._broker = broker
        self._hub = broker.hub
        self._interests = broker.interests
        self._turning = broker.healing_turning
        self._confirmations = broker.confirmations
        self._holes = broker.holes
        self._absences = broker.absences

    def ask_for_all(self) -> None:
        if THE_ABSENT not in self._interests.table.sources(*ALL):
            self._interests.subscribe(THE_ABSENT, Subscribe(0, *ALL))
            self._turning.pump()

    def note_unaccounted(self, lost: str, interests: Iterable[Interest]) -> None:
        """Somebody behind that broker wanted this, and has not come. It may be alive, out of reach, and owed messages.

        The interest stays for as long as a session may: if it were taken back, whoever asks whether everybody has a
        message would not be heard here, and would be told that everybody has.
        """
        wanted = list(interests)
        self._broker.given_up.note_unaccounted(lost, wanted, self._broker.now + self._broker.config.session_keep_s)
        for interest in wanted:
            self._interests.subscribe(UNACCOUNTED, Subscribe(0, *interest))
        if wanted:
            self._turning.pump()

    def wanted_by_nobody_here(self, flush: Flush) -> list[Interest]:
        """What was wanted behind the lost broker, and by nobody who is known to have come in its place."""
        back = {interest for joiner in flush.joined.values() for interest in joiner.join.interests}
        brokers = any(twig.kind == "broker" and name != flush.key for name, twig in flush.missing.items())
        if flush.unheard or brokers:
            # Others who have come may want the same as those who have not.
            back.clear()
        return sorted(set(self._interests.table.interests(flush.key)) - back)

    def forget_unaccounted(self) -> None:
        if self._interests.table.interests(UNACCOUNTED) and self._broker.given_up.all_accounted(self._broker.now):
            self._interests.drop(UNACCOUNTED)
            self._turning.pump()

    def ask_for_less(self) -> None:
        """When nobody is missed any more."""
        missed = any(flush.silent or flush.missing for flush in self._broker.repairs.flushes)
        missed = missed or any(absence.missing for absence in self._absences)
        if not missed:
            self._interests.drop(THE_ABSENT)
            self._confirmations.drop(THE_ABSENT)
            self._turning.pump()

    def note_absence(self, flush: Flush, mine: OwnHistory) -> None:
        absence = self._absences.find(flush.key)
        if absence is None:
            return
        if not flush.missing:
            self._absences.end(absence)
            return
        absence.history, absence.missing = mine, dict(flush.missing)
        absence.unaccounted = self.wanted_by_nobody_here(flush)
        if absence.to_parent:
            self._doubt(absence)
        self._hub.out.append(Report("apart", peer=flush.key, detail=", ".join(sorted(flush.missing))))

    def _doubt(self, absence: Absence) -> None:
        """What is wanted around a lost parent: the tops of these topics are there.

        1. 0, the top of a topic, is cut off, and does not know it. It turns c0#1, a total message, for its own clients.
        2. 1 is the root of the others, a majority. If it turned c1#1 on the same key, those here would get c1#1 before
           c0#1 in the end, and those at 0 the other way round.
        So nothing total turns on the topic here until the others are found, or given up. A lost child is another
        matter: what turned behind it, and did not pass here, was for nobody here.
        """
        absence.doubts(self._interests.table.interests(absence.key))

    def nobody_was_missed(self, flush: Flush) -> None:
        """All have come, and nothing more is asked for in their name: they answer for themselves.

        Questions that waited for nodes which might be out of reach are put to those that have come. Answered instead,
        they would say that everybody has a message which nobody was asked about.
        """
        if flush.key and not flush.missing:
            self._confirmations.replace(THE_ABSENT, tuple(flush.joined), self._interests.table.wants, in_doubt=True)
            self.ask_for_less()

    def reborn(self, name: str) -> None:
        """A lost broker that begins anew has nobody with it any more: its clients would have come by themselves."""
        for absence in self._absences:
            if name == absence.key:
                over = bool(absence.missing) and not absence.brokers_missing
            else:
                over = absence.missing.pop(name, None) is not None and not absence.missing
            if over:
                self.give_up_absence(absence)

    def give_up_absence(self, absence: Absence) -> None:
        """Nothing is kept any more for those who were missed; what became of them is not known.

        What was on its way to them may have reached nobody else, and they may be anywhere in the tree:
        1. 1 loses 2 and its parent, 0; a message was on its way to 2, for c0. 2 goes to 0, and begins anew there.
        2. c0 comes to 0, which has never had that message. 1 comes back to 0, and gives up what it kept for 2.
        And a client of a lost broker that begins anew need not have come by itself, if another broker was lost, too:
        1. 1 loses 0, with carol, and 2; 3 and 6 come to 1. carol has gone to 2, which stands still.
        2. 0 begins anew. If nobody was behind it, messages are confirmed that carol has never got.
        """
        self._absences.end(absence)
        self._turning.ask_others(absence.key)
        others = sorted(absence.missing.keys() - {absence.key})
        if others and any(flag is Flag.SENT for _, flag, _, _ in absence.history.entries):
            self._holes.announce(
                f"what was on its way to {absence.key} when {self._broker.name} lost it is kept no longer"
            )
        if absence.lacks:
            self._holes.announce(f"what was published around {absence.key} while it was out of reach is gone with it")
        unaccounted = [ALL] if others else absence.unaccounted
        if unaccounted:
            unknown = Finding(broken=f"what became of {', '.join(others[:NAMES_MAX]) or absence.key} is not known")
            self._confirmations.wait_no_longer(THE_ABSENT, 0.0, unknown)
            self.note_unaccounted(absence.key, unaccounted)
        self.ask_for_less()
        self._broker.reunion.say_who_is_lost()

    def returned_elsewhere(self, name: str) -> None:
        """A broker that was missed is in the tree, and does not look for us: what is kept for it is of no use.

        1. 10 has lost 6 and looks for it. The link between the two is cut for long, and 10 insists on joining 1.
        2. 6 does not hear of that: 1 is far away. It would keep everything for 10, and answer no question about it.
        """
        for absence in [one for one in self._absences if one.missing and (one.concerns(name) or one.knows(name))]:
            over = absence.is_over(name, (name,))
            if over or not any(twig.kind == "broker" for twig in absence.missing.values()):
                self.give_up_absence(absence)
        self._broker.reunion.say_who_is_lost()

    def given_up_by_the_missing(self, name: str) -> None:
        """A broker that was missed can be reached, and takes us for dead: it does not look for us.

        1. 4 has lost 5, and misses 6 behind it. 5 had gone to 3 before that, with 6, and has told both that 4 is dead.
        2. 5 begins anew, and comes to 4; 6 goes to 3. 3 knows better, but 6 refuses 4 whenever it asks.
        If 6 were in a part that looks for us, its root would come to us, or to somebody above us, meanwhile.
        """
        absence = self._absences.of(name)
        if absence is not None and absence.has_refused_often(name):
            self.returned_elsewhere(name)

    def outlived(self, name: str, epoch: int) -> None:
        """Who is dead in a later epoch than the one in which it was lost has begun anew between the two."""
        absence = self._absences.find(name)
        if absence is not None and any(one.name == name and one.epoch < epoch for one in absence.contacts):
            self.reborn(name)

    def share_doubts(self, joiner: Joiner) -> None:
        """Who comes back may have lost somebody whom we miss, too, and what was a top for it was none for us.

        1. 2, below 1, is the top of a topic for those below it. 1 loses 2, and 3, below 2, loses 2 as well.
        2. 2 does not know it yet, and turns c2#1, which is total, for its own clients. 3 comes to 1, as a majority.
        3. 1 knows of nothing that could have turned at 2. If it turned c3#1, those at 2 would get it behind c2#1.
        """
        for absence in self._absences:
            if absence.missing:
                absence.doubts(joiner.join.doubtful)

    def tell_of_lost_diary(self, absence: Absence) -> None:
        """Clients of a broker that was out of reach come without it: the broker, and its diary, may be gone.

        1. 1 has lost 0, and looks for it; each of the two keeps a diary for the other, and serves its own clients.
        2. The network is whole again, and 0 dies. Its clients come to 1: they have forgotten what 0 had processed.
        3. If 1 says nothing, the subscribers on its side never hear that messages of theirs are missing.
        """
        if not absence.told:
            absence.told = True
            reason = f"what was published around {absence.key} while it was out of reach may be gone with it"
            self._holes.announce(reason)
