"""The designated broker of a site: it alone changes the routing table, and when it is lost the next one takes over.

    FOLLOWING --the designated broker is lost, and we are next--> TAKING OVER --f others yield--> DESIGNATED
    TAKING OVER, DESIGNATED --somebody else's epoch is later--> FOLLOWING

A change has two rounds. `Propose` asks the brokers of the site up to which number of each stream they have anything;
whoever answers promises that what comes to it later waits for that state. With f other answers, `Establish` says from
which numbers on the change counts: behind the highest number that any of them has (see `streams`). A state is
*confirmed* at a broker when f others have it, too: only then is anything processed under it, so that whoever takes over
hears of it from one of the f others that it asks.

The report lets the designated broker's state replace that of the others (section 5), which can lower a number that
another one has used. Here nothing is replaced: numbers follow from the streams and from where each change counts.

A state is vouched for, and confirmed, in its own epoch alone, since whoever has yielded to a later one has told what it
had, and may have come by a state since that the next designated broker does not know of.
1. Broker 1 proposes state 3 of epoch 0, and stands still before anybody has it. 2. Broker 3 takes over, and broker 2
yields to it: both have state 2. 3. Broker 1 goes on, and tells broker 2 what it knows: both have state 3, which is a
majority, and process under it. 4. The first state of broker 3 follows state 2: whoever subscribed with state 3 is
forgotten, subscribes again, and takes for repeats what comes to it under the same numbers again.

Who is designated follows from the epoch, a number that only grows: epoch e belongs to the member of rank e modulo n.
"""

from collections.abc import Callable

from holdfast.model.messages import SessionMessage
from holdfast.model.site_messages import (
    Change,
    Establish,
    Mark,
    Promised,
    Propose,
    StateRequest,
    TakeOver,
    Yielded,
)
from holdfast.protocols.sesdad.sites import Site

EPOCH_BITS = 32
CHANGES_MAX = 512
"""How many changes one state takes."""


class Designation:
    """One broker's part in agreeing on the changes of its site's state."""

    def __init__(
        self,
        name: str,
        site: Site,
        tell: Callable[[str, SessionMessage], None],
        tell_all: Callable[[SessionMessage], None],
        marks: Callable[[], tuple[Mark, ...]],
        apply: Callable[[Establish], None],
        send_state: Callable[[str], None],
        expand: Callable[[Change], list[Change]],
        begin: Callable[[], None],
    ) -> None:
        """`apply` puts changes in force here, `begin` is called when a majority has them."""
        self._name, self._site, self._tell, self._tell_all = name, site, tell, tell_all
        self._marks, self._apply, self._send_state, self._expand = marks, apply, send_state, expand
        self._begin = begin
        self._rank = site.members.index(name)
        self.epoch = 0
        self.leading = False
        self.established = 0
        """The state of the routing table that is in force here."""
        self.promised = 0
        """The last state that we have promised to wait for."""
        self._versions: dict[str, int] = {}
        """The state in force at each other broker, as far as it has said."""
        self._confirmed = 0
        self._yields: set[str] = set()
        self._queue: list[Change] = []
        self._proposed: tuple[int, tuple[Change, ...]] | None = None
        self._promises: dict[str, tuple[Mark, ...]] = {}
        self._count = 0

    @property
    def leader(self) -> str:
        """The designated broker, as far as we know."""
        return self._site.members[self.epoch % len(self._site.members)]

    @property
    def confirmed(self) -> bool:
        """Whether f others have the state that is in force here."""
        return self._confirmed == self.established

    @property
    def vouched(self) -> int:
        """The state that the others may count as in force here: none of an epoch that is over."""
        return self.established if self.established >> EPOCH_BITS >= self.epoch else 0

    # ---------------------------------------------------------------------------------------------------- taking over

    def found(self) -> None:
        """Nobody in the site has any memory: the first member is designated."""
        self.leading = self.leader == self._name

    def take_over(self) -> None:
        """The designated broker is lost, and we are next; or we are it, and have no memory of what we did."""
        members = len(self._site.members)
        self.epoch += (self._rank - self.epoch) % members or members
        self.leading, self._proposed = False, None
        self._yields = {self._name}
        self._tell_all(TakeOver(self.epoch, self.established))
        self._lead_if_yielded()

    def on_take_over(self, member: str, message: TakeOver) -> bool:
        """Whether somebody else is designated from now on."""
        later = message.epoch > self.epoch
        if later:
            self._follow(message.epoch)
        if message.epoch >= self.epoch and self.established > message.established:
            # Also if the epoch is known already, from a state that was told: whoever yields tells what it has first.
            self._send_state(member)
        self._tell(member, Yielded(self.epoch, self.established))
        return later

    def on_yielded(self, member: str, message: Yielded) -> bool:
        """Whether somebody else is designated from now on."""
        if message.epoch > self.epoch:
            self._follow(message.epoch)
            return True
        if message.epoch == self.epoch and self.leader == self._name and not self.leading:
            self._yields.add(member)
            self._lead_if_yielded()
        return False

    def _lead_if_yielded(self) -> None:
        if len(self._yields) > self._site.losses_max:
            # What somebody has promised to a lost broker may never come: the next state is later than all of it.
            self.leading, self._count = True, 0
            self._queue.append(Change("n", ""))
            self.advance()

    def _follow(self, epoch: int) -> None:
        self.epoch, self.leading, self._proposed = epoch, False, None
        self._queue.clear()

    def learn_epoch(self, epoch: int, promised: int) -> None:
        """Another broker's state says so."""
        if epoch > self.epoch:
            self._follow(epoch)
        self.promised = max(self.promised, promised)

    # -------------------------------------------------------------------------------------------------------- changes

    def submit(self, changes: list[Change]) -> None:
        """To the designated broker: make these changes."""
        self._queue += changes
        self.advance()

    def advance(self) -> None:
        """Propose what waits, one state at a time; the first one of an epoch confirms those of earlier ones with it."""
        waits = not self.confirmed and self.vouched == self.established
        if not self.leading or self._proposed is not None or not self._queue or waits:
            return
        self._count += 1
        changes = self._next_changes()
        version = self.epoch << EPOCH_BITS | self._count
        self._proposed, self.promised = (version, changes), version
        self._promises = {self._name: self._marks()}
        self._tell_all(Propose(version))
        self._establish_if_promised()

    def _next_changes(self) -> tuple[Change, ...]:
        """What one state takes. What a whole announcement changes depends on all that was changed before it."""
        first = self._expand(self._queue[0])
        rest = self._queue[1:CHANGES_MAX]
        whole = next((at for at, change in enumerate(rest) if change.what == "n" and change.subscriber), len(rest))
        del self._queue[: 1 + whole]
        return (*first, *rest[:whole])

    def on_propose(self, member: str, message: Propose) -> bool:
        """Whether that broker is designated from now on, and we did not know."""
        epoch = message.version >> EPOCH_BITS
        if epoch < self.epoch:
            self._tell(member, Yielded(self.epoch, self.established))
            return False
        later = epoch > self.epoch
        if later:
            self._follow(epoch)
        if message.version >= self.promised:
            self.promised = message.version
            self._tell(member, Promised(message.version, self._marks()))
        return later

    def on_promised(self, member: str, message: Promised) -> None:
        if self._proposed is not None and message.version == self._proposed[0]:
            self._promises[member] = message.marks
            self._establish_if_promised()

    def _establish_if_promised(self) -> None:
        if self._proposed is None or len(self._promises) <= self._site.losses_max:
            return
        (version, changes), self._proposed = self._proposed, None
        cuts: dict[tuple[str, str], int] = {}
        for marks in self._promises.values():
            for source, publisher, number in marks:
                cuts[source, publisher] = max(number + 1, cuts.get((source, publisher), 0))
        entries = tuple((source, publisher, cut) for (source, publisher), cut in sorted(cuts.items()))
        message = Establish(version, self.established, changes, entries)
        self._tell_all(message)
        self._put_in_force(message)

    def on_establish(self, member: str, message: Establish) -> None:
        if message.version >> EPOCH_BITS < self.epoch or message.version <= self.established:
            return
        if message.previous != self.established:
            self._tell(member, StateRequest())
            return
        self._put_in_force(message)

    def _put_in_force(self, message: Establish) -> None:
        self._apply(message)
        self.in_force(message.version)

    def in_force(self, version: int) -> None:
        """That state is in force here from now on."""
        self.established = version
        self.promised = max(self.promised, version)
        self._confirm()

    # ------------------------------------------------------------------------------------------------------ the others

    def note(self, member: str, established: int) -> None:
        """Another broker has that state in force."""
        if self._versions.get(member) != established:
            self._versions[member] = established
            self._confirm()

    def version_of(self, member: str) -> int:
        """The state that another broker has said to have in force."""
        return self._versions.get(member, 0)

    def _confirm(self) -> None:
        same = sum(version == self.established for version in self._versions.values())
        if self.vouched == self.established and self._confirmed != self.established and same >= self._site.losses_max:
            self._confirmed = self.established
            self._begin()

    def forget(self, member: str) -> None:
        """That broker is lost, and may come back without memory."""
        self._versions.pop(member, None)

    def linked(self, member: str) -> None:
        """That broker is there: what we have asked the others, it is asked, too."""
        if self._proposed is not None and self.leading:
            self._tell(member, Propose(self._proposed[0]))
        elif self.leader == self._name and not self.leading and self._yields:
            self._tell(member, TakeOver(self.epoch, self.established))

    def waiting_for(self) -> list[str]:
        reasons = []
        if self._proposed is not None:
            reasons.append(f"{self._site.losses_max} brokers of {self._site.name} to promise state {self._proposed[0]}")
        if not self.confirmed:
            reasons.append(f"{self._site.losses_max} brokers of {self._site.name} to have state {self.established}")
        if self.leader == self._name and self._yields and not self.leading:
            reasons.append(f"{self._site.losses_max} brokers of {self._site.name} to yield to {self._name}")
        return reasons
