"""The search of a part's root for the brokers that it has lost, and its return to them.

    IDLE --ask_next--> ASKING --found----> RETURNING --arrived--> IDLE, and the part is below another broker
                       ASKING --give_up--> IDLE, and the next contact has its turn
                                           RETURNING --end------> IDLE: the merge was interrupted, the search goes on

A merge may be interrupted at any point, any number of times. The rule that makes this harmless: the part keeps its
diary (`absences`) through ASKING and RETURNING, and lets go of it only when the other broker has opened the link. Until
then whatever ends the attempt leads back to IDLE, with nothing forgotten. From then on the diary's messages are
unstable traffic of that link, which a repair settles like any other.

A contact that keeps nothing for this part denies it. The contact that was lost first, the keeper, is the one that
would keep something, so its denial counts at once. A contact that denies a second time shows that all the contacts have
had their turn; one that does not know whether the keeper is dead has to deny more often. After that the root *insists*:
its part joins without what it lacks, and its subscribers are told.
"""

from collections import Counter
from collections.abc import Callable
from enum import Enum

from holdfast.model.messages import Refusal, Seek
from holdfast.protocols.ginger.absences import Absence
from holdfast.protocols.ginger.suspicion import SUSPECT_TIMER
from holdfast.protocols.hub import Hub
from holdfast.protocols.links import LinkState
from holdfast.protocols.node import CancelTimer, Disconnect

TICKS_MAX = 4
"""So often the timer may find a contact silent before the next one is asked."""
DENIALS_MAX = 2
UNSURE_DENIALS_MAX = 8
"""So often one contact may deny: if it knows that the keeper is dead, and if it does not."""


class SearchState(Enum):
    """How far the root of a part has come on its way back."""

    IDLE = "idle"
    ASKING = "asking"
    RETURNING = "returning"


class Search:
    """Where the root of a part is on its way back; `contact` is the broker that it asks or returns to."""

    def __init__(self, hub: Hub, matters: Callable[[str], bool]) -> None:
        """`matters`: whether a peer is a neighbour, or becomes one; others only came to ask something."""
        self._hub, self._matters = hub, matters
        self.state = SearchState.IDLE
        self.contact = ""
        self.insists = False
        self._denials: Counter[str] = Counter()
        self._ticks = 0

    def is_asking(self, name: str) -> bool:
        return self.state is SearchState.ASKING and self.contact == name

    def is_returning_to(self, name: str) -> bool:
        return self.state is SearchState.RETURNING and self.contact == name

    # -------------------------------------------------------------------------------------------------------- asking

    def has_time(self) -> bool:
        """Whether the next contact may be asked: nobody is, or the one that was has been silent for too long."""
        if self.state is SearchState.ASKING:
            self._ticks += 1
            if self._ticks >= TICKS_MAX:
                self.give_up()
        return self.state is SearchState.IDLE

    def ask_next(self, absence: Absence, now: float) -> None:
        """Dial the contact whose turn it is."""
        contact = absence.contacts[0]
        link = self._hub.links.get(contact.name)
        if link is not None and not self._matters(contact.name):
            # It only came to ask whether we have given it up.
            if link.is_open:
                absence.could_not_answer(contact.name)
                return
            self._hub.set_aside(contact.name)
            link = None
        absence.had_its_turn(contact.name)
        if link is None:
            self.state, self.contact, self._ticks = SearchState.ASKING, contact.name, 0
            # The timer of a connection by which it has asked us something is not meant for this one.
            self._hub.out.append(CancelTimer(SUSPECT_TIMER + contact.name))
            self._hub.dial(contact.name, now, contact.address)

    def say(self, absence: Absence | None, address: str) -> None:
        """The contact is there: ask it. `address` is our own."""
        lost = () if absence is None else tuple((one.name, one.epoch) for one in absence.contacts)
        keeper = "" if absence is None else absence.parent
        self._hub.send(self.contact, Seek(lost, self.insists, keeper, self._hub.name, address))

    def unheard(self, absence: Absence | None) -> None:
        """The connection to the contact is gone, or there was none."""
        link = self._hub.links.get(self.contact)
        if absence is not None and link is not None and link.state is not LinkState.CLOSED:
            # It is there: its connection to us, to ask us something, has crossed ours, and both are gone.
            absence.could_not_answer(self.contact)
        self.give_up()

    def refused(self, contact: str, refusal: Refusal, absence: Absence) -> None:
        """The contact keeps nothing for this part, or does not know whether another one does."""
        if refusal.code in ("moved", "late", "elsewhere"):
            self._denials[contact] += 1
            most = UNSURE_DENIALS_MAX if refusal.code == "elsewhere" else DENIALS_MAX
            keeper_denies = refusal.code == "late" and contact == absence.parent
            self.insists = self.insists or keeper_denies or self._denials[contact] >= most

    def give_up(self) -> None:
        """The contact does not answer, or will not have us."""
        self._hub.set_aside(self.contact)
        self._hub.out.append(Disconnect(self.contact, "no answer in time"))
        self.end()

    # ------------------------------------------------------------------------------------------------ the way back

    def found(self) -> None:
        """The broker is there, and is asked to take this part in."""
        self.state = SearchState.RETURNING

    def end(self) -> None:
        """The attempt is over, whatever came of it."""
        self.state, self.contact = SearchState.IDLE, ""

    def arrived(self) -> None:
        """This part is below another broker: what was denied before is forgotten."""
        self.end()
        self.insists = False
        self._denials.clear()
