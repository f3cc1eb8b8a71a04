"""A Ginger broker that keeps what it processes until nobody can need it any more.

Every batch that is passed on becomes a record in the stability log, with the links that it came and went by. What was
processed is remembered by publisher, so that a batch that comes a second time, by another way after a repair, is
recognised: its fate is then tied to the record that is held already.
"""

from abc import abstractmethod

from holdfast.model.batches import Batch
from holdfast.model.guarantees import TOTAL
from holdfast.model.messages import Levels, Publish
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.edges import Phase
from holdfast.protocols.ginger.broker import GingerBroker
from holdfast.protocols.ginger.cuts import ROOT, BatchId
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

    def _handle_merged(self, link: Link, batches: list[Batch]) -> None:
        # 1. A client's broker asks for c2#2 to c2#5 in one batch, and dies. The client asks the next one for each anew.
        # 2. That one holds c2#3 to c2#7 back until c2#2 is released; with it comes all that it was asked for with.
        # 3. c2#6 and c2#7 are left. To whoever subscribed since, c2#3 would come behind what others have after it.
        done = sum(self.is_done(batch.publisher, batch.last) for batch in batches)
        if 0 < done < len(batches):
            for _ in batches[:done]:
                self.log.came(None, link.peer)
            batches = batches[done:]
        super()._handle_merged(link, batches)
        # The publisher counts a record for each of them; none of them is stable before the first is.
        for _ in batches[1:]:
            self.log.came(None, link.peer)

    def total_done(self, client: str, batch_id: BatchId) -> None:
        """If less was released than this client has asked for in one batch, the rest is asked for.

        1. c0 publishes the total c0#5, and is cut off from 1, its broker. It goes to 2 with c0#5, and publishes c0#6.
        2. 2 comes back to 1, and asks for both in one batch. 1 has c0#5 from c0 itself, and releases that alone.
        """
        whole = self._under_way.get(client)
        if whole is None or (whole.publisher, whole.first) != batch_id or self.is_done(whole.publisher, whole.last):
            super().total_done(client, batch_id)
            return
        done = max(self.processed.get(whole.publisher, 0), self._done.get(whole.publisher, 0))
        rest = self._under_way[client] = whole.part(done + 1, whole.last)
        self._ask_again(client, rest)

    @abstractmethod
    def _ask_again(self, name: str, batch: Batch) -> None:
        """A request that this client or neighbour has made, and nobody is known to have released it."""

    def _process(self, batch: Batch, came_from: str) -> Record:
        self._note_processed(batch)
        record = self.log.find((batch.publisher, batch.first)) or self.log.append(batch)
        self.log.change(record, batch)
        self.log.released(record)
        self.log.renumber(record)
        self._note(record)
        if came_from != ROOT:
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

    def _is_merging(self, batch: Batch) -> bool:
        """Whether the batch comes from another part of the tree: a total one passes like any other only then."""
        return batch.guarantee == TOTAL

    def _deliver_record(self, client: str, record: Record, parts: list[Batch]) -> None:
        if not parts or client not in self.log.flows:
            return
        if not self.slow_readers.leaves_out(client, record.batch):
            self.log.went(record, client, len(parts))
            for part in parts:
                self._send(client, Publish(part))

    def deliver_total(self, batch: Batch, source: str) -> None:
        record = self._process(batch, source)
        for destination, choice in self.interests.table.takers(batch).items():
            if destination not in self.interests.neighbours and destination not in self._given_apart:
                self._deliver_record(destination, record, batch.chosen(choice))

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
