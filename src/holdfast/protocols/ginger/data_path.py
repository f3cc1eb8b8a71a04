"""The way of a batch through one broker, which keeps what it processes until nobody can need it any more.

Every batch that is passed on becomes a record in the stability log, with the links that it came and went by. What was
processed is remembered by publisher, so that a batch that comes a second time, by another way after a repair, is
recognised: its fate is then tied to the record that is held already.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.model.batches import Batch
from holdfast.model.messages import (
    Publish,
)
from holdfast.protocols.last_numbers import note_number
from holdfast.protocols.node import Send, SetTimer
from holdfast.protocols.pace import Pace
from holdfast.protocols.records import Record
from holdfast.protocols.stability import SURVEY_S, SURVEY_TIMER, SURVEYS_AT_ONCE

if TYPE_CHECKING:
    from holdfast.protocols.ginger.repairing_broker import RepairingBroker


class DataPath:
    """The records of one broker, and the batches that it has processed."""

    def __init__(self, broker: "RepairingBroker") -> None:
        self._broker = broker
        self._hub = broker.hub
        self._log = broker.log
        self._interests = broker.interests
        self._absences = broker.absences
        self._late = broker.late
        self.processed: dict[str, int] = {}
        self._done: dict[str, int] = {}
        """Of each publisher the last number that went up through here and has turned, for others."""
        self._survey_pace = Pace(SURVEY_S, SURVEYS_AT_ONCE)
        self._survey_set = False
        self._given_apart: frozenset[str] = frozenset()
        """Whom a repair under way hands what they lack."""

    def is_processed(self, publisher: str, seq: int) -> bool:
        return seq <= self.processed.get(publisher, 0)

    def is_done(self, publisher: str, seq: int) -> bool:
        return seq <= max(self.processed.get(publisher, 0), self._done.get(publisher, 0))

    def note_done(self, publisher: str, seq: int) -> None:
        note_number(self._done, publisher, seq)

    def _process(self, batch: Batch, came_from: str) -> Record:
        self.note_processed(batch)
        record = self._log.find((batch.publisher, batch.first)) or self._log.append(batch)
        self._log.change(record, batch)
        self._log.released(record)
        self._log.renumber(record)
        self.note(record)
        if came_from:
            self._log.came(record, came_from)
        return record

    def note_processed(self, batch: Batch) -> None:
        note_number(self.processed, batch.publisher, batch.last)

    def spread(self, record: Record, arrived_from: str) -> None:
        """To everybody who wants it, and not back to the broker that it came from."""
        batch, neighbours, message = record.batch, self._interests.neighbours, Publish(record.batch)
        merging = self._broker.majority.settling_merge
        for destination, choice in self._interests.table.takers(batch).items():
            if destination in self._given_apart:
                continue
            if destination not in neighbours:
                self.deliver_record(destination, record, batch.chosen(choice))
            elif destination != arrived_from:
                self._log.went(record, destination)
                self._broker.send(destination, message)
                if merging:
                    self._log.merge_over(destination)
        self._broker.majority.went(record)

    def takers_here(self, batch: Batch) -> set[str]:
        """Whom `spread` would hand that batch to."""
        return set(self._interests.table.takers(batch)).difference(self._given_apart)

    def deliver_record(self, client: str, record: Record, parts: list[Batch]) -> None:
        if not parts or client not in self._log.flows:
            return
        if not self._broker.slow_readers.leaves_out(client, record.batch):
            self._log.went(record, client, len(parts))
            for part in parts:
                self._broker.send(client, Publish(part))

    def _is_time_to_tell(self, now: float) -> bool:
        """Where messages are many, one word about stability speaks of all that have passed since the last."""
        if not self._log.has_changed:
            return False
        if self._survey_pace.take(now):
            return True
        if not self._survey_set:
            self._survey_set = True
            self._hub.out.append(SetTimer(SURVEY_TIMER, self._survey_pace.wait_s(now)))
        return False

    def pass_on(self, message: Publish, arrived_from: str) -> None:
        """A batch that does not climb comes from a client, or over a link."""
        batch = message.batch
        last = self.processed.get(batch.publisher, 0)
        if batch.last <= last:
            self._log.came(self._log.find((batch.publisher, batch.first)), arrived_from)
        else:
            fresh = batch if batch.first > last else batch.part(last + 1, batch.last)
            self.spread(self._process(fresh, arrived_from), arrived_from)

    def turn(self, batch: Batch) -> None:
        """A batch that climbed turns here."""
        self.spread(self._process(batch, ""), "")

    def note(self, record: Record) -> None:
        """The record is processed now; diaries and the cases of late clients write it down."""
        self._absences.note(record.batch, record.number)
        if len(self._late):
            self._late.note(record.batch, record.number, self._interests.table.takers(record.batch))

    @contextmanager
    def handing_apart(self, names: Iterable[str]) -> Iterator[None]:
        """Meanwhile a repair hands to these what they lack: nothing that is passed on goes to them by itself."""
        self._given_apart = frozenset(names)
        try:
            yield
        finally:
            self._given_apart = frozenset()

    def highest(self, publisher: str) -> int:
        """The highest number of that publisher that was seen here."""
        # Of a total batch whose order is not settled yet only the log knows.
        waiting = max((batch.last for batch in self._log.batches_of(publisher)), default=0)
        return max(self.processed.get(publisher, 0), self._done.get(publisher, 0), waiting)

    # ------------------------------------------------------------------------------------------------- stability

    def settle(self, now: float) -> None:
        """Say how stable is what passed, to all who sent it."""
        if self._is_time_to_tell(now):
            for peer, levels in self._log.survey().items():
                link = self._hub.links.get(peer)
                if self._broker.neighbours.is_neighbour(peer) and link is not None and link.is_open:
                    self._hub.out.append(Send(peer, levels))

    def surveyed(self) -> None:
        """The timer of the survey: the settling that follows is late enough."""
        self._survey_set = False
