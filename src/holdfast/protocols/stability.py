"""What a node keeps because somebody might still need it, and when it may be forgotten.

The problem: when a broker dies, its neighbours have to settle what it had passed to some and not to others. So each
node keeps every record (a batch that it has processed) until everybody who could need it has it, even if f adjacent
brokers die before a repair has ended (docs/repair.md: levels K = f).

Level 0 at a node: processed there. A record is l-stable here when it is (l-1)-stable at every neighbour that it came
from or went to, *and so is everything before it in this node's processing order*. Neighbours tell each other, per
stream, up to which position they are l-stable. A record is forgotten when the prefix up to it is K-stable here and
every neighbour concerned says level K of it.

Both rules were bought with counter-examples (docs/repair.md, traps 4 to 6): a record that is stable on its own links
may be the only bridge between an earlier one that is not and a later one that depends on it.

Positions count the records on one direction of one link, alike at both ends. A record that waits (a total batch that
is requested and not released) has its position from its request on and is level 0 until it is released. Whoever has
passed a request on says so: level 0 of what it sent, and of what came to it, ends before the first of its records that
waits. And whoever was asked has level 0 of the record until those who asked it know that it is released.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping

from holdfast.model.batches import Batch
from holdfast.model.messages import Levels
from holdfast.protocols.log_index import LogIndex, walk
from holdfast.protocols.records import UNPLACED, Checklist, Flow, Record, RecordId

SURVEY_TIMER = "survey"
SURVEY_S = 0.01
SURVEYS_AT_ONCE = 8
"""How often a node looks which of its records are stable, and tells its neighbours: see `pace`. A message that travels
alone takes three or four surveys at a broker, so those are at once."""
MANY_OUTS = 8
"""To how many peers a record goes before it is worth remembering which of them were asked about it."""


class StabilityLog:
    """The records of one node in processing order.

    A log is *plain* while every record got all its positions when it was the last one, and waits for nothing: then
    positions grow along the log, and with one level it is enough to know the first record that is not stable. Whatever
    a repair or a total batch does makes it another kind of log: it has an index (`log_index`) until it is empty once.
    """

    def __init__(self, levels: int) -> None:
        self.levels = levels
        self.flows: dict[str, Flow] = {}
        self.bytes = 0
        self._log: deque[Record] = deque()
        self._by_id: dict[RecordId, Record] = {}
        self._clock = 0
        self._changed = False
        self._plain = levels == 1
        self._appended = 0
        self._unstable: deque[Record] = deque()
        """Of a plain log, the records from the first one on that is not stable."""
        self._forgotten = 0
        """How many places of the log were forgotten."""
        self._index: LogIndex | None = None
        """Of a log that is not plain, unless it has to be built anew."""
        self._touched: dict[str, None] = {}
        """Of a plain log, the peers of whom there may be something new to tell."""
        self._linked = 0
        self.visits = 0
        """How many flows the surveys of a plain log have looked at."""

    # ------------------------------------------------------------------------------------------------- recording

    def append(self, batch: Batch, pending: bool = False) -> Record:
        """A batch is processed now."""
        record = Record(batch, pending)
        if pending:
            self._not_plain()
        else:
            self.renumber(record)
        self._appended += 1
        record.order = self._appended
        if self._plain:
            self._unstable.append(record)
        self._put_last(record)
        self._by_id[record.record_id] = record
        self.bytes += batch.cost_bytes
        self._changed = True
        return record

    def append_again(self, record: Record) -> None:
        """A record that a repair puts in a later place, too: it blocks from its first place and up to its last."""
        self._not_plain()
        self._put_last(record)
        self.bytes += record.batch.cost_bytes
        self._changed = True

    def _put_last(self, record: Record) -> None:
        self._log.append(record)
        if self._index is not None:
            self._index.append(record)
        record.copies += 1

    def append_unplaced(self, batch: Batch) -> Record:
        """A batch that has passed here before, and was forgotten or never wanted: its place is not known any more."""
        record = self.append(batch)
        record.number = UNPLACED
        return record

    def find(self, record_id: RecordId) -> Record | None:
        return self._by_id.get(record_id)

    def batches_of(self, publisher: str) -> list[Batch]:
        """What is kept of a publisher."""
        return [record.batch for (name, _), record in self._by_id.items() if name == publisher]

    def change(self, record: Record, batch: Batch) -> None:
        """The record is of this batch: it is of more messages than was known here, or has crossed a total one."""
        if batch.count != record.batch.count or batch.crossed > record.batch.crossed:
            self.bytes += record.copies * (batch.cost_bytes - record.batch.cost_bytes)
            record.batch = batch

    def came(self, record: Record | None, peer: str, request: bool = False) -> None:
        """The next position of the peer's stream is this record, or its request (`None`: one that is forgotten)."""
        flow = self.flows.get(peer)
        if flow is None:
            return
        flow.received += 1
        self._changed = True
        self._touched[peer] = None
        if record is not None:
            if not request:
                record.requested = tuple(one for one in record.requested if one != peer)
            elif peer not in record.ins:
                record.requested += (peer,)
                if peer in record.asked and record.asked[peer] == record.places[peer]:
                    self._asked_back(record, peer)
            if peer in record.ins:
                self._index_anew()
            elif self._plain and self._is_last(record):
                flow.came.append((record.order, flow.received))
            else:
                self._not_plain()
                if self._index is not None:
                    self._index.came(record, peer, flow.received)
            record.ins[peer] = flow.received
            self.stamp(record, peer)

    def _asked_back(self, record: Record, peer: str) -> None:
        """We had asked that peer, where nobody wants the batch any more: now it asks us, and is owed no more than that.

        1. 1 asks 0 for a total batch. The last subscriber behind 0 leaves, and 0 asks 1, which releases the batch.
        2. 0 dies. To its clients the batch has not gone by: what 1 has sent between the two requests is not behind it.
        """
        self._index_anew()
        del record.asked[peer], record.outs[peer]

    def went(self, record: Record, peer: str, messages: int = 1) -> None:
        """The record takes the next positions of our stream to the peer."""
        flow = self.flows[peer]
        flow.sent += messages
        if peer in record.outs:
            self._index_anew()
        elif self._plain and self._is_last(record):
            flow.went.append((record.order, flow.sent))
        else:
            self._not_plain()
            if self._index is not None:
                self._index.went(record, peer, flow.sent)
        record.outs[peer] = flow.sent
        self.stamp(record, peer)
        self._changed = True
        self._touched[peer] = None

    def place(self, record: Record, peer: str, position: int) -> None:
        """A repair has found where the record stands in the peer's stream."""
        self._index_anew()
        record.ins[peer] = position

    def _is_last(self, record: Record) -> bool:
        return bool(self._unstable) and self._unstable[-1] is record

    def _not_plain(self) -> None:
        if self._plain:
            self._plain = False
            self._unstable.clear()
            for flow in self.flows.values():
                flow.came.clear()
                flow.went.clear()

    def _index_anew(self) -> None:
        """Positions have changed in another way than by the next one of a stream."""
        self._not_plain()
        self._index = None

    def stamp(self, record: Record, peer: str) -> None:
        """The place of the record in the history of that link."""
        self._clock += 1
        record.places[peer] = self._clock

    def asked(self, record: Record, peer: str) -> None:
        """The record's request goes to that peer: whatever went by on the link before comes before the record."""
        self.went(record, peer)
        record.asked[peer] = record.places[peer]

    def released(self, record: Record) -> None:
        """It waits no longer; if it was for us, it is `renumber`ed, too."""
        if record.pending:
            record.pending = False
            self._changed = True

    def renumber(self, record: Record) -> None:
        """The record is processed now, in its turn.

        A batch that climbed was in the log from its climb on. It is not forgotten before what was processed between
        that and its turn: that comes before it.
        """
        self._clock += 1
        record.number = self._clock
        kept = self._by_id.get(record.record_id) is record
        if kept and self._log[-1] is not record:
            self.append_again(record)

    # ----------------------------------------------------------------------------------------------------- links

    def link(self, peer: str, sent: int = 0, received: int = 0) -> None:
        if self._log:
            self._not_plain()
        if self._index is not None and self._index.knows(peer):
            self._index = None
        self._linked += 1
        known = self.flows.get(peer)
        self.flows[peer] = Flow(self.levels, sent, received, self._linked if known is None else known.serial)
        self._changed = True
        self._touched[peer] = None

    def begin(self, peer: str) -> None:
        """The link with that peer is settled: from now on it is used."""
        self.flows[peer].begun = self._clock

    def merge_over(self, peer: str) -> None:
        """Everything that was sent to that peer until now may be new to its part of the tree."""
        flow = self.flows.get(peer)
        if flow is not None:
            flow.merging = flow.sent

    def is_merging(self, peer: str) -> bool:
        """Whether something is under way there, and not stable, that brings two parts of the tree together."""
        flow = self.flows.get(peer)
        return flow is not None and flow.acked[-1] < flow.merging

    def inherited(self, peer: str, instead: bool = False) -> int:
        """How many of the history's entries are older than the use of that link (`instead`: of the one before it)."""
        flow, records = self.flows[peer], self.concerning(peer)
        begun = flow.begun_before if instead else flow.begun
        return len(records) if begun is None else sum(record.places[peer] <= begun for record in records)

    def unlink(self, peer: str) -> None:
        """Nobody is there any more: no record concerns it."""
        if self._log:
            self._not_plain()
        self.flows.pop(peer, None)
        if self._index is not None:
            self._index.drop(peer)
        for record in self._log:
            record.ins.pop(peer, None)
            record.outs.pop(peer, None)
            record.places.pop(peer, None)
            record.asked.pop(peer, None)
            if peer in record.requested:
                record.requested = tuple(one for one in record.requested if one != peer)
        self._changed = True

    def concerning(self, peer: str) -> list[Record]:
        """The records that came from or went to the peer, in the order of that link's history."""
        found = {record.record_id: record for record in self._log if record.concerns(peer)}
        return sorted(found.values(), key=lambda record: record.places[peer])

    def history(self, peer: str) -> list[tuple[Record, int]]:
        """The same, each with the number of those that went by on the link before it, or its request, was sent.

        What was merely received was never sent: its number counts itself, too.
        """
        records = self.concerning(peer)
        places = [record.places[peer] for record in records]
        entries = []
        for position, record in enumerate(records):
            if peer in record.asked:
                entries.append((record, bisect_left(places, record.asked[peer])))
            else:
                came = record.was_received(peer) or record.was_only_requested(peer)
                entries.append((record, position + 1 if came else position))
        return entries

    def relabel(self, old: str, new: str) -> list[Record]:
        """What concerned a dead peer is now owed to another one, in the same order; positions begin anew."""
        self._index_anew()
        records = self.concerning(old)
        begun = self.flows[old].begun if old in self.flows else None
        merging = self.is_merging(old)
        self.link(new)
        flow = self.flows[new]
        flow.begun_before = begun
        for record in records:
            record.received_from = new if record.was_received(old) else ""
            record.requested_from = new if record.was_only_requested(old) else ""
            record.ins.pop(old, None)
            record.outs.pop(old, None)
            flow.sent += 1
            record.outs[new] = flow.sent
            record.places[new] = record.places.pop(old)
            if old in record.asked:
                record.asked[new] = record.asked.pop(old)
        self.unlink(old)
        if merging:
            self.merge_over(new)
        return records

    def restack(self, peer: str) -> None:
        """Nothing was sent to the peer yet: its positions are those of the records that it is about to be told of."""
        self._index_anew()
        records = self.concerning(peer)
        for position, record in enumerate(records, 1):
            record.outs[peer] = position
        flow = self.flows[peer]
        flow.merging = min(flow.merging, len(records))
        flow.sent = len(records)
        self._changed = True

    def owe(self, record: Record, peer: str, place: int, asked_after: int | None, received: bool) -> None:
        """The record is that far back in the history of a link that begins now.

        `asked_after` of the others went by before it was asked for; `received`: it, or its request, came from there.
        """
        self._index_anew()
        flow = self.flows[peer]
        flow.sent += 1
        record.outs[peer] = flow.sent
        record.places[peer] = self._clock + 2 * place + 2
        record.received_from = peer if received and asked_after is None else ""
        record.requested_from = peer if received and asked_after is not None else ""
        if asked_after is not None:
            record.asked[peer] = self._clock + 2 * asked_after + 1
        self._changed = True

    def owed(self, places: int) -> None:
        """So many places of a history were filled by `owe`."""
        self._clock += 2 * places + 2

    def restart(self, peer: str, places: Mapping[RecordId, int], sent: int) -> None:
        """The peer's place is taken by another, which has these records at these positions, of so many in all."""
        self._index_anew()
        self.link(peer, sent=sent)
        for record in self._log:
            record.received_from = peer if record.was_received(peer) else ""
            record.ins.pop(peer, None)
            record.outs.pop(peer, None)
            place = places.get(record.record_id)
            if place is None:
                # It is not known there. If it is asked for again, that is another record.
                record.places.pop(peer, None)
                record.asked.pop(peer, None)
                record.pending = False
            else:
                record.outs[peer] = place

    # ------------------------------------------------------------------------------------------------- stability

    def unheard_of(self, peer: str) -> list[Record]:
        """What went to the peer, and what it has not said to have processed."""
        reached = self.flows[peer].acked[0] if peer in self.flows else 0
        found = {record.record_id: record for record in self._log if record.outs.get(peer, 0) > reached}
        return list(found.values())

    def on_levels(self, peer: str, levels: Levels) -> None:
        """The peer's word; it never takes anything back."""
        flow = self.flows.get(peer)
        if flow is not None and len(levels.came) == len(levels.went) == self.levels + 1:
            flow.acked = list(map(max, flow.acked, levels.came))
            flow.marked = list(map(max, flow.marked, levels.went))
            self._changed = True

    def say_again(self, peer: str) -> None:
        flow = self.flows.get(peer)
        if flow is not None:
            flow.said = None
            self._changed = True
            self._touched[peer] = None

    @property
    def has_changed(self) -> bool:
        """Whether a survey may find something to tell or to forget."""
        return self._changed

    def survey(self) -> dict[str, Levels]:
        """Forget what may be forgotten; what there is to tell to whom since the last time."""
        if not self._changed:
            return {}
        self._changed = False
        if self._plain:
            return self._survey_plain()
        self._trim()
        self._touched.clear()
        if not self._log:
            self._plain, self._index = self.levels == 1, None
        index = self._index or LogIndex(self.levels, self._forgotten, self._log)
        if self._log:
            self._index = index
        index.advance(self._forgotten, self._at, self._level)
        news = {}
        for peer, flow in self.flows.items():
            levels = Levels(*index.levels(peer, flow.received, flow.sent))
            if levels != flow.said:
                flow.said = levels
                news[peer] = levels
        return news

    def _at(self, place: int) -> Record:
        return self._log[place - self._forgotten]

    def _survey_plain(self) -> dict[str, Levels]:
        """The same for a plain log, without a walk over its records or over all flows.

        There is something to tell a peer when its flow has grown, or when a record that came from it or went to it has
        become stable.
        """
        flows, unstable, touched = self.flows, self._unstable, self._touched
        while unstable and self._is_passed_on(unstable[0]):
            record = unstable.popleft()
            touched.update(dict.fromkeys(record.ins))
            touched.update(dict.fromkeys(record.outs))
        first = unstable[0].order if unstable else self._appended + 1
        log = self._log
        while log and log[0].order < first and self._is_settled_everywhere(log[0]):
            self._forget_first()
        news = {}
        self._touched = {}
        for peer in sorted(touched.keys() & flows.keys(), key=lambda peer: flows[peer].serial):
            flow = flows[peer]
            self.visits += 1
            came, went = flow.came, flow.went
            while came and came[0][0] < first:
                came.popleft()
            while went and went[0][0] < first:
                went.popleft()
            levels = Levels(
                (flow.received, came[0][1] - 1 if came else flow.received),
                (flow.sent, went[0][1] - 1 if went else flow.sent),
            )
            if levels != flow.said:
                flow.said = levels
                news[peer] = levels
        return news

    def _is_passed_on(self, record: Record) -> bool:
        """Whether everybody that it went to has processed it: then it is stable on its own at level 1."""
        flows = self.flows
        if len(record.outs) > MANY_OUTS:
            record.passed_on = record.passed_on or Checklist(record.outs)
            return record.passed_on.is_done(flows, 0)
        # A loop, since this is asked at every turn of every broker, and a generator takes twice as long.
        for peer, position in record.outs.items():  # noqa: SIM110
            if flows[peer].acked[0] < position:
                return False
        return True

    def _level(self, record: Record) -> int:
        if record.pending or not self._is_known_where_asked_for(record):
            return 0
        flows, level = self.flows, self.levels
        for peer, position in record.outs.items():
            level = _reached(flows[peer].acked, position, level)
            if not level:
                return 0
        if level > 1:
            for peer, position in record.ins.items():
                flow = flows.get(peer)
                if flow is not None:
                    level = max(1, _reached(flow.marked, position, level))
        return level

    def _is_known_where_asked_for(self, record: Record) -> bool:
        """Whether those who have asked for a total batch know that it is released; they may hear it from us alone."""
        for peer in record.requested:
            flow, position = self.flows.get(peer), record.ins.get(peer)
            if flow is not None and position is not None and flow.marked[0] < position:
                return False
        return True

    def _trim(self) -> None:
        while self._log and self._settled(self._log[0]):
            self._forget_first()

    def _forget_first(self) -> None:
        record = self._log.popleft()
        self._forgotten += 1
        self.bytes -= record.batch.cost_bytes
        record.copies -= 1
        if not record.copies and self._by_id.get(record.record_id) is record:
            del self._by_id[record.record_id]

    def _settled(self, record: Record) -> bool:
        return not record.pending and self._level(record) == self.levels and self._is_settled_everywhere(record)

    def _is_settled_everywhere(self, record: Record) -> bool:
        """Whether all neighbours concerned say the highest level of it."""
        flows = self.flows
        if self._plain and len(record.outs) > MANY_OUTS:
            record.everywhere = record.everywhere or Checklist(record.outs)
            if not record.everywhere.is_done(flows, -1):
                return False
        else:
            for peer, position in record.outs.items():
                if flows[peer].acked[-1] < position:
                    return False
        for peer, position in record.ins.items():  # noqa: SIM110 - for the same reason
            if peer in flows and flows[peer].marked[-1] < position:
                return False
        return True

    # ------------------------------------------------------------------------------------------------ inspection

    def __len__(self) -> int:
        return len(self._log)

    def records(self) -> Iterable[Record]:
        return iter(self._log)

    def check_invariants(self) -> None:
        """What is told without a walk is what a walk over the whole log finds."""
        if not self._plain and self._index is not None:
            self._index.advance(self._forgotten, self._at, self._level)
            self._index.compare_with(walk(self._log, self.flows, self.levels, self._level), self.flows)


def _reached(said: list[int], position: int, most: int) -> int:
    """The level, up to `most`, that the position has here, given what the peer has said: one more than it has there."""
    level = 0
    while level < most and said[level] >= position:
        level += 1
    return level
