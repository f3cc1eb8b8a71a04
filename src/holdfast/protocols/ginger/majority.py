"""Where total order goes on when the network is parted, and what is out of order when its parts come together.

`total` is served where a majority of the configured brokers is (`census`); elsewhere it waits or is refused, as the
publisher chose. What is merged is the union: each side's order is kept, and nothing crosses that could depend on what
it passes. One thing cannot be kept: a weaker message of the minority may stand before a total one there and behind it
here, if they share a key. Such messages are marked as `crossed`.
"""

from typing import TYPE_CHECKING

from holdfast.model.batches import Batch
from holdfast.model.guarantees import TOTAL
from holdfast.model.messages import Census, Counted, Merged, Publish, Rejected
from holdfast.protocols.ginger.census import CensusTaker
from holdfast.protocols.ginger.crossings import Crossings
from holdfast.protocols.ginger.flush import Flush
from holdfast.protocols.node import Report
from holdfast.protocols.records import Record

if TYPE_CHECKING:
    from holdfast.protocols.ginger.repairing_broker import RepairingBroker

MERGED_SILENCES = 4
"""For so many silences total messages wait for the word that all is handed over which a majority has ordered."""


class Majority:
    """Whether total messages may be ordered in this part of the tree, and which weaker ones have crossed them."""

    def __init__(self, broker: "RepairingBroker") -> None:
        self._broker, self._crossed, self._log = broker, broker.crossed, broker.log
        self._hub = broker.hub
        self._interests = broker.interests
        self._turning = broker.healing_turning
        self._absences = broker.absences
        self.census = CensusTaker(broker.config.brokers, broker.send)
        self._crossings = Crossings(broker.log)
        self._impatient: set[str] = set()
        """Clients that would rather be refused than wait for a majority."""
        self._settling_merge = False
        """Whether our new parent is handing over what was processed while we were out of its reach."""
        self._was_majority, self._ever_majority = True, False
        self._apart = False
        """Whether total messages may have been ordered out of our reach that have yet to come here."""
        self._joined: set[str] = set()
        """Brokers that were taken in here while total messages waited, and that may make this part a majority."""
        self._majority_s: float | None = None
        """Since when there is a majority of which it is not known that it has handed everything over."""

    # ------------------------------------------------------------------------------------------------ the verdict

    @property
    def settling_merge(self) -> bool:
        """Whether the new parent is still handing over what was processed out of this part's reach."""
        return self._settling_merge

    @property
    def serves_total(self) -> bool:
        """Whether total messages may turn here: a majority is here, and what it has ordered elsewhere has come.

        1. 8 loses 10, with a majority behind it, which goes on: 10 turns c5#1. c2#1, on the same key, waits at 1.
        2. 10 comes back to 8, and hands c5#1 over. The verdict that there is a majority waits for no credit: 1 has it
           when c5#1 is on its way. If 1 turned c2#1 at that moment, those at 10 would have the two the other way round.
        """
        return self.census.majority and not self._apart

    @property
    def is_apart(self) -> bool:
        """Whether this part is none that can have ordered total messages out of others' reach."""
        return self._apart or not self.census.majority

    def recount(self) -> None:
        """The tree around this broker has changed: ask how many brokers there are."""
        self.census.recount(self._broker.parent, self._broker.neighbours.children())
        self._verdict()

    def lose(self, name: str) -> None:
        """A broker below this one is lost, with all that it has counted."""
        self._joined.discard(name)
        if name in self.census.below:
            self.census.lose(name)
            if name != self._broker.parent:
                self.recount()

    def on_census(self, peer: str, message: Census) -> None:
        """A neighbour has counted the brokers below it."""
        if peer in self._interests.neighbours:
            self.census.on_census(peer, message, self._broker.parent, self._broker.neighbours.children())
            self._verdict()

    def on_counted(self, peer: str, message: Counted) -> None:
        """The root has counted all, says the parent."""
        if peer == self._broker.parent:
            self.census.on_counted(message, self._broker.neighbours.children())
            self._verdict()

    def _verdict(self) -> None:
        """Total batches stop where the majority is lost, and go on where it is found again."""
        out = self._hub.out
        if self.census.minority:
            self._majority_s = None
            self._joined -= self.census.below.keys()
            if self._was_majority:
                self._was_majority = False
                self._apart = self._ever_majority
                out.append(Report("minority", detail=f"{self.census.size} of {self.census.brokers} brokers"))
        elif self.census.majority:
            self._regained()
            if not self._was_majority:
                out.append(Report("majority", detail=f"of {self.census.brokers} brokers"))
            self._was_majority = self._ever_majority = True
            self._turning.pump()
        self._broker.repairs.tick()

    def _regained(self) -> None:
        """There is a majority. If none was on either side of a merge here, there is nothing that has yet to come."""
        if self._joined:
            self._joined.clear()
            self.merged("")
        elif self._apart and self._majority_s is None:
            self._majority_s = self._broker.now

    def beat(self, now: float) -> None:
        """A heartbeat: nobody may be left that could say that everything was handed over, or the word was passed by.

        1. 0 counts a minority, and says so. 8, which has not heard that, takes 10 in: there is a majority again.
        2. To 8 all is as it was before, so it has nothing to say to those who have heard of the minority.
        """
        patience_s = MERGED_SILENCES * self._broker.config.link.silence_s
        if self._majority_s is not None and now - self._majority_s >= patience_s:
            self.merged("")

    def wants_patience(self, client: str, patient: bool) -> None:
        """That client says whether it would rather wait than be refused."""
        (self._impatient.discard if patient else self._impatient.add)(client)

    def forget(self, client: str) -> None:
        """That client has left."""
        self._impatient.discard(client)

    def accepted(self, client: str, message: Publish) -> Publish | None:
        """A client's publication, marked if it takes no part in a total order; nothing if it is refused."""
        if not (self._apart or self.census.minority):
            return message
        batch = message.batch
        if batch.guarantee != TOTAL and batch.keys:
            # It takes no part in the total order of its keys: elsewhere that may go on without it.
            return Publish(self._crossed.note(batch))
        if batch.guarantee != TOTAL or not self.census.minority or client not in self._impatient:
            return message
        brokers = self.census.brokers
        reason = f"{self._broker.name} reaches no majority of the {brokers} brokers: total is not served here now"
        self._broker.send(client, Rejected(0, batch.first, batch.last, reason))
        self._log.came(None, client)
        return None

    # ------------------------------------------------------------------------------------------ parts come together

    def merged(self, source: str) -> None:
        """Everything that a majority has ordered meanwhile has passed here: tell those who do not know it yet."""
        self._majority_s = None
        if self._apart:
            self._apart = False
            others = [peer for peer in self._interests.neighbours if peer != source]
            # What they send before they have got all of it crosses it.
            self._crossings.reunited(others)
            for peer in others:
                self._broker.send(peer, Merged())
            self._turning.pump()

    def taken_in(self, flush: Flush) -> None:
        """A repair has ended, and all that its joiners lacked is on its way to them."""
        brokers = [name for name, joiner in flush.joined.items() if not joiner.is_client]
        if flush.reunion:
            self._crossings.reunited(brokers)
        if flush.reunion and not self._apart:
            for name in brokers:
                self._broker.send(name, Merged())
        elif flush.reunion and any(not flush.joined[name].join.apart for name in brokers):
            self.merged("")
        elif brokers:
            # None of the two is a majority, or was one just now; the two together may be one.
            self._joined.update(brokers)
        elif flush.reunion and not any(absence.missing for absence in self._absences):
            # The last of those who were missed are clients, which have come without their broker.
            self.merged("")

    def returned(self) -> None:
        """This part comes back to those whom it had lost: what they hand over settles the merge."""
        self._settling_merge = True

    def settled(self) -> None:
        """The new parent has handed everything over, or will not."""
        self._crossings.clear()
        self._settling_merge = False

    def taken_over(self) -> None:
        """This broker is the root of its part: nobody hands anything over."""
        self._settling_merge = False

    def begins_join(self) -> None:
        """Another parent is asked to take this broker in: what went to the one before is of no interest."""
        self._crossings.clear()

    # ------------------------------------------------------------------------------------------------ what crosses

    def marked(self, message: Publish, arrived_from: str) -> Publish:
        """A message that passes, marked if it has crossed a total one."""
        batch, broker = message.batch, self._broker
        if batch.guarantee == TOTAL and not broker.data_path.is_processed(batch.publisher, batch.last):
            settling = bool(broker.rejoin.hold) and arrived_from == broker.parent
            if settling or self._apart:
                for crossed in self._crossings.of(batch, arrived_from, settling):
                    self._crossed.note(crossed)
        elif (batch.keys and not batch.crossed) and (
            self._may_cross(batch) or self._crossings.over(batch, arrived_from, self._apart)
        ):
            return Publish(self._crossed.note(batch))
        return message

    def turning(self, batch: Batch) -> Batch:
        """A batch that turns here, marked if a total one may have turned before it out of this part's reach."""
        return self._crossed.note(batch) if self._may_cross(batch) and not batch.crossed else batch

    def _may_cross(self, batch: Batch) -> bool:
        """Whether that batch is weaker, and passes here before a total one that may have turned out of our reach."""
        return batch.guarantee != TOTAL and bool(batch.keys) and self._broker.in_doubt(batch.topic)

    def went(self, record: Record) -> None:
        """The record was passed on, also to a parent that has yet to hand over what settles the repair."""
        broker = self._broker
        if (broker.rejoin.fenced or broker.rejoin.hold) and broker.parent in record.outs:
            crossed = self._crossings.went(record.batch)
            if crossed is not None:
                self._crossed.note(crossed)

    # -------------------------------------------------------------------------------------------------- inspection

    def status(self) -> dict[str, object]:
        """What a snapshot of the broker says of the census."""
        return {"brokers_here": self.census.size, "majority": self.census.majority} if self.census.brokers else {}

    def waiting_for(self) -> list[str]:
        """In words, the majority that total messages wait for."""
        if self._turning.idle() or self.serves_total:
            return []
        if self.census.majority:
            return ["what a majority has ordered out of reach to come here"]
        if not self.census.minority:
            return []
        return [f"a majority: {self.census.size} of {self.census.brokers} brokers are here, and total needs more"]
