"""A Ginger broker that keeps what it processes until nobody can need it any more.

Every batch that is passed on becomes a record in the stability log, with the links that it came and went by. What was
processed is remembered by publisher, so that a batch that comes a second time, by another way after a repair, is
recognised: its fate is then tied to the record that is held already.
"""

from holdfast.model.batches import Batch
from holdfast.model.messages import Levels, Publish
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.edges import Phase
from holdfast.protocols.ginger.broker import GingerBroker
from holdfast.protocols.last_numbers import note_number
from holdfast.protocols.links import Link
from holdfast.protocols.node import Effects, Send, SetTimer
from holdfast.protocols.pace import Pace
from holdfast.protocols.records import Record
from holdfast.protocols.stability import SURVEY_S, SURVEY_TIMER, SURVEYS_AT_ONCE, StabilityLog


class RecordingBroker(GingerBroker):
    """The data path of a broker that takes part in repairs."""

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        super().__init__(config, incarnation)
        self.hub.tolerance = config.tolerance
        self.log = StabilityLog(config.tolerance)
        self.processed: dict[str, int] = {}
        self._done: dict[str, int] = {}
        """Of each publisher the last total batch of which only the request has passed here, and which is released."""
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

    def _highest(self, publisher: str) -> int:
        # Of a total batch whose order is not settled yet only the log knows.
        waiting = max((batch.last for batch in self.log.batches_of(publisher)), default=0)
        done = self._done.get(publisher, 0)
        return max(super()._highest(publisher), self.processed.get(publisher, 0), done, waiting)

    def _pass_on(self, message: Publish, arrived_from: str) -> None:
        batch = message.batch
        last = self.processed.get(batch.publisher, 0)
        if batch.last <= last:
            self.log.came(self.log.find((batch.publisher, batch.first)), arrived_from)
        else:
            fresh = batch if batch.first > last else batch.part(last + 1, batch.last)
            self._spread(self._process(fresh, arrived_from), arrived_from)

    def _process(self, batch: Batch, came_from: str) -> Record:
        self._note_processed(batch)
        record = self.log.find((batch.publisher, batch.first)) or self.log.append(batch)
        self.log.change(record, batch)
        self.log.released(record)
        self.log.renumber(record)
        self._note(record)
        if came_from:
            self.log.came(record, came_from)
        return record

    def _note(self, record: Record) -> None:
        """The record is processed now; whoever keeps a diary writes it down."""

    def _note_processed(self, batch: Batch) -> None:
        note_number(self.processed, batch.publisher, batch.last)

    def _spread(self, record: Record, arrived_from: str) -> None:
        """To everybody who wants it, and not back to the broker that it came from."""
        batch, neighbours, message = record.batch, self.interests.neighbours, Publish(record.batch)
        merging = self._is_merging(batch)
        for destination, choice in self.interests.table.takers(batch).items():
            if destination in self._given_apart:
                continue
            if destination not in neighbours:
                self._deliver_record(destination, record, batch.chosen(choice))
            elif destination != arrived_from:
                self.log.went(record, destination)
                self._send(destination, message)
                if merging:
                    self.log.merge_over(destination)

    def _is_merging(self, batch: Batch) -> bool:  # noqa: ARG002
        """Whether the batch comes from another part of the tree."""
        return False

    def _deliver_record(self, client: str, record: Record, parts: list[Batch]) -> None:
        if not parts or client not in self.log.flows:
            return
        if not self.slow_readers.leaves_out(client, record.batch):
            self.log.went(record, client, len(parts))
            for part in parts:
                self._send(client, Publish(part))

    def spread_turned(self, batch: Batch, came_from: str) -> None:  # noqa: ARG002
        self._spread(self._process(batch, ""), "")

    def link_opened(self, link: Link, fresh: bool) -> None:
        super().link_opened(link, fresh)
        # What was said last may have died with the old connection.
        self.log.say_again(link.peer)

    def link_levels(self, link: Link, levels: Levels) -> None:
        self.log.on_levels(link.peer, levels)

    def settle(self, now: float) -> Effects:
        if self.phase is not Phase.GONE and self._is_time_to_tell(now):
            for peer, levels in self.log.survey().items():
                if self._may_tell(peer):
                    self.hub.out.append(Send(peer, levels))
        return super().settle(now)

    def _is_time_to_tell(self, now: float) -> bool:
        """Where messages are many, one word about stability speaks of all that have passed since the last."""
        if not self.log.has_changed:
            return False
        if self._survey_pace.take(now):
            return True
        if not self._survey_set:
            self._survey_set = True
            self.hub.out.append(SetTimer(SURVEY_TIMER, self._survey_pace.wait_s(now)))
        return False

    def timer(self, name: str, now: float) -> Effects:
        if name == SURVEY_TIMER:
            # The settling that follows is late enough.
            self._survey_set = False
            return []
        return super().timer(name, now)

    def status(self) -> dict[str, object]:
        return {**super().status(), "kept": len(self.log), "kept_bytes": self.log.bytes}

    def check_invariants(self) -> None:
        super().check_invariants()
        self.log.check_invariants()

    def _may_tell(self, peer: str) -> bool:
        link = self.hub.links.get(peer)
        return link is not None and link.is_open
