"""Cuts that survive the loss of brokers.

A total batch is either released at its root, and then it is a record like any other that a repair settles, or it is
not, and then it is asked for again: every broker on its climb keeps the request until it hears that it is done, and a
repair submits the request anew. Cuts under way are kept or given up:

- A broker whose parent died keeps its cuts closed until the new parent has opened the link and handed over what settles
  the repair. A cut that the new parent has too goes on with it as its source; any other is given up, here and below:
  its batch was either among what was handed over, or nobody has released it.
- The parent of a broker that died replaces it in its cuts by those that joined. If the dead one had acknowledged, those
  that have the cut are inside, and closed already; if not, all that want the topic get the marker (again).
- Nothing starts on a topic while a repair is pending on a link that wants it (docs/repair.md, trap 13).

An acknowledgement repeats the serial of its marker: one that was under way when an attempt was given up does not count
for the next.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

from holdfast.model.batches import Batch
from holdfast.model.guarantees import TOTAL
from holdfast.model.messages import SessionMessage, TotalAbort, TotalAck, TotalMarker, TotalProcessed
from holdfast.protocols.ginger.cuts import ROOT, BatchId, Cut, CutMap, CutOwner
from holdfast.protocols.interests import InterestMap
from holdfast.protocols.stability import StabilityLog


class HealingOwner(CutOwner, Protocol):
    """What healing cuts ask of their broker besides."""

    log: StabilityLog

    def is_done(self, publisher: str, seq: int) -> bool:
        """Whether that message was released or passed on, here or elsewhere."""
        ...

    def note_done(self, publisher: str, seq: int) -> None:
        """That message was released, here or elsewhere."""
        ...

    settling: bool

    def unsettled(self, topic: str) -> bool:
        """Whether a repair is pending that may bring something on this topic."""
        ...

    @property
    def serves_total(self) -> bool:
        """Whether this part of the tree may order total batches."""
        ...

    def in_transit(self, topic: str) -> bool:
        """Whether a neighbour that wants this topic is being moved, so that it can be in no cut just now."""
        ...

    @property
    def admitting(self) -> bool:
        """Whether somebody waits to be let in who was out of reach, and has to be in every cut from then on."""
        ...


class HealingCuts(CutMap):
    """The cuts of a broker that takes part in repairs."""

    def __init__(
        self, owner: HealingOwner, interests: InterestMap, send: Callable[[str, SessionMessage], None]
    ) -> None:
        super().__init__(owner, interests, send)
        self._healer = owner
        self._serials = 0
        self._doubtful: dict[BatchId, tuple[str, Sequence[str]]] = {}
        """Batches that were acknowledged when their root was lost: they may have been released out of our reach."""
        self._doubt_passed_on = False
        self._beyond: dict[BatchId, str] = {}
        """Requests that a lost neighbour had passed on to somebody who has joined in its place."""
        self._asked_for_more: dict[BatchId, set[str]] = {}
        """Neighbours that have asked for a batch which begins like one under way here, and has more messages."""

    # ------------------------------------------------------------------------------------------------- the climb

    def request(self, batch: Batch, came_from: str) -> None:
        batch_id = (batch.publisher, batch.first)
        log = self._healer.log
        record = log.find(batch_id)
        if record is None and not self._healer.is_done(batch.publisher, batch.last):
            record = log.append(batch, pending=True)
        elif record is not None and record.pending and not self._is_under_way(batch_id, came_from):
            # Its publisher may ask one by one now for what its last broker had merged.
            log.change(record, batch)
        elif record is not None and batch.last > record.batch.last:
            self._asked_for_more.setdefault(batch_id, set()).add(came_from)
        log.came(record, came_from, request=True)
        self.submit(batch, came_from)

    def submit(self, batch: Batch, came_from: str) -> None:
        """A request whose record is in the log already.

        Whoever knows that it is done says so, and asks nobody again:
        1. A batch passed 0, 1 and 2 on its way to its root, 5, which has released it. 0 dies.
        2. Somebody who wants the topic subscribes below 2, which would be the root now.
        3. 1 asks 3 to take it in, and only then hears from 2 that it is done. 3 takes it for under way, and asks 1.
        4. 1 must not ask 2 again: that would release it a second time, to the newcomer behind what depends on it.
        """
        batch_id = (batch.publisher, batch.first)
        sources = self._came_from.setdefault(batch_id, [])
        if came_from not in sources:
            sources.append(came_from)
        if self._healer.is_done(batch.publisher, batch.last):
            self._finish(batch_id, ())
        elif not self._is_under_way(batch_id, came_from):
            if self._beyond.get(batch_id) == came_from:
                # It comes back: it was not released there, and its root may be here now.
                del self._beyond[batch_id]
            self._forward(Cut(batch_id, batch.topic, batch.key_set(), ROOT, batch))
            self.pump()

    def _is_under_way(self, batch_id: BatchId, came_from: str) -> bool:
        return self._is_here(batch_id) or self._is_asked(batch_id, came_from)

    def _is_asked(self, batch_id: BatchId, came_from: str) -> bool:
        """Whether somebody else was asked, and will answer."""
        hop, _ = self._asked.get(batch_id, (ROOT, None))
        return hop not in (ROOT, came_from) and hop in self._interests.neighbours

    def lie_beyond(self, beyond: Mapping[BatchId, str]) -> None:
        """These requests are under way with those who join, whoever would be their root today.

        1. A batch passed 3 and 7 on its way to its root, 13, which has released it. 3 dies before it has heard of that.
        2. Somebody who wants the topic subscribes at 1, which repairs 3's loss, and so would be the root now.
        3. 1 must ask 7, not start anew: to its own client it would release batches in another order than 13 has.
        """
        self._beyond.update(beyond)

    def done_beyond(self, done: Iterable[BatchId], lost: str) -> None:
        """These were released behind the lost neighbour, which was to tell us: they are not asked for again.

        1. 1 asks 2 for a batch, and 2 asks 5. Nobody on this side of 5 wants the topic; 5 releases it, and 2 dies.
        2. Somebody subscribes at 0 meanwhile. Asked anew, 0 would be the batch's root, and release it a second time.
        """
        for batch_id in done:
            if self._asked.get(batch_id, (ROOT, None))[0] == lost:
                self._finish(batch_id, ())

    def _forward(self, cut: Cut) -> None:
        joiner = self._beyond.get(cut.batch_id, "")
        if joiner in self._interests.neighbours and cut.batch is not None:
            self._asked[cut.batch_id] = (joiner, cut.batch)
            self._ask(joiner, cut.batch)
        else:
            super()._forward(cut)

    def _is_here(self, batch_id: BatchId) -> bool:
        """Whether the batch waits, or is being cut for, with this broker as its root."""
        cut = self._cuts.get(batch_id)
        waiting = any(one.batch_id == batch_id and one.source == ROOT for one in self._queue)
        return waiting or (cut is not None and cut.source == ROOT)

    def _ask(self, hop: str, batch: Batch) -> None:
        record = self._healer.log.find((batch.publisher, batch.first))
        if record is not None:
            self._healer.log.asked(record, hop)
        super()._ask(hop, batch)

    def pump(self) -> None:
        if not self._healer.settling:
            super().pump()

    def _gated(self, cut: Cut) -> bool:
        if self._healer.in_transit(cut.topic):
            return True
        if cut.source != ROOT:
            return False
        in_doubt = self._is_in_doubt(cut.topic, cut.keys)
        return in_doubt or not self._healer.serves_total or self._healer.unsettled(cut.topic)

    def _is_in_doubt(self, topic: str, keys: Iterable[str]) -> bool:
        """Whether a batch on these keys shares one with a batch that may have been released out of our reach."""
        return any(topic == one and not {*doubtful}.isdisjoint(keys) for one, doubtful in self._doubtful.values())

    def may_cross(self, batch: Batch) -> bool:
        """Whether that batch is weaker, and passes here before a total one that may have been released elsewhere."""
        return batch.guarantee != TOTAL and self._is_in_doubt(batch.topic, batch.key_set())

    def doubts(self, batch: Batch) -> bool:
        """Whether that batch may have been released out of our reach, after this broker had acknowledged its cut."""
        return (batch.publisher, batch.first) in self._doubtful

    @property
    def in_doubt(self) -> bool:
        """Whether anything is doubtful here, or was passed on as such to others, who may not see what became of it."""
        return self._doubt_passed_on or bool(self._doubtful)

    def clear_doubt(self, batch_id: BatchId | None = None) -> None:
        """That batch is here, or everything that was out of reach is."""
        had = bool(self._doubtful)
        if batch_id is None:
            self._doubtful.clear()
            self._doubt_passed_on = False
        else:
            self._doubtful.pop(batch_id, None)
        if had and not self._doubtful:
            self.pump()

    def _start(self, cut: Cut) -> None:
        self._serials += 1
        cut.serial = self._serials
        super()._start(cut)

    def on_marker(self, peer: str, marker: TotalMarker) -> None:
        batch_id = (marker.publisher, marker.first)
        cut = self._cuts.get(batch_id)
        if cut is None or cut.source == ROOT:
            cut = next((one for one in self._queue if one.batch_id == batch_id and one.source != ROOT), None)
        if cut is None:
            cut = Cut(batch_id, marker.topic, marker.keys, peer, None)
            self._queue.append(cut)
        cut.source, cut.source_serial = peer, marker.serial
        if cut.closed:
            self._send(peer, TotalAck(*batch_id, marker.serial))
        self.pump()

    def _hand_down(self, peer: str, batch_id: BatchId, batch: Batch | None) -> None:
        record = self._healer.log.find(batch_id)
        if batch is not None and record is not None:
            self._healer.log.went(record, peer)
        super()._hand_down(peer, batch_id, batch)

    def on_processed(self, peer: str, processed: TotalProcessed) -> None:
        record = self._healer.log.find((processed.publisher, processed.first))
        batch = processed.batch
        if batch is not None and record is not None and record.pending and batch.last < record.batch.last:
            # Less was released than we have asked for: whoever has asked us asks for the rest.
            self._healer.log.change(record, batch)
        super().on_processed(peer, processed)

    def _tell_how_much(self, batch_id: BatchId, batch: Batch, told: Sequence[str]) -> list[str]:
        """Those who have asked for more than was released are told what was: they ask for the rest."""
        _, asked = self._asked.get(batch_id, (ROOT, batch))
        more = self._asked_for_more.pop(batch_id, set[str]())
        if asked.last > batch.last:
            more.update(self._came_from.get(batch_id, ()))
        untold = [peer for peer in sorted(more) if peer in self._interests.neighbours and peer not in told]
        for peer in untold:
            self._send(peer, TotalProcessed(*batch_id, batch))
        return untold

    def _finish(self, batch_id: BatchId, told: Sequence[str]) -> None:
        self._queue = [cut for cut in self._queue if cut.batch_id != batch_id or cut.source != ROOT]
        self._beyond.pop(batch_id, None)
        publisher, first = batch_id
        record = self._healer.log.find(batch_id)
        if record is not None:
            self._healer.log.released(record)
            told = (*told, *self._tell_how_much(batch_id, record.batch, told))
        self._healer.note_done(publisher, first if record is None else record.batch.last)
        super()._finish(batch_id, told)

    def passed(self, batch: Batch) -> None:
        """A total batch came like any other message: it was released out of our reach, and nobody waits for it here.

        1. 1 was out of reach, and asks 0 to take it in. It asked for a batch before, which 0 has released since.
        2. 0 hands the batch over, and then says that it is done. 1 is cut off again between the two.
        3. 1 has the batch, so it asks nobody again. If having it did not end the wait, its publisher waits for ever.
        """
        for batch_id in [one for one in self._came_from if one[0] == batch.publisher and one[1] <= batch.last]:
            self._finish(batch_id, ())

    # -------------------------------------------------------------------------------------------------- repairs

    def listed(self) -> tuple[BatchId, ...]:
        """The cuts under way here that somebody else is the root of."""
        return tuple(cut.batch_id for cut in self._cuts.values() if cut.source != ROOT)

    def rename(self, old: str, new: str) -> None:
        """The parent died; until the new one opens the link, everything waits for it."""
        self._queue = [cut for cut in self._queue if cut.source != old]
        for cut in self._cuts.values():
            if cut.source == old:
                # The new parent numbers its markers itself: what acknowledges the old one's must not count for it.
                cut.source, cut.source_serial = new, 0
        self._forget_source(old)
        for batch_id, (hop, batch) in self._asked.items():
            if hop == old:
                self._asked[batch_id] = (new, batch)

    def asked_of(self, peer: str) -> frozenset[BatchId]:
        """What that neighbour was asked for and has not answered."""
        return frozenset(batch_id for batch_id, (hop, _) in self._asked.items() if hop == peer)

    def ask_as_before(self, peer: str, lost: str, before: Collection[BatchId]) -> None:
        """The new parent did not let us in: it has heard of none of the requests.

        What was asked of the `lost` neighbour `before` may have been released by it, and waits for it again.
        """
        self._queue = [cut for cut in self._queue if cut.source != peer]
        for batch_id, (hop, batch) in self._asked.items():
            if hop == peer and batch_id in before:
                self._asked[batch_id] = (lost, batch)
        self.ask_others(peer)

    def _forget_source(self, old: str) -> None:
        for sources in self._came_from.values():
            if old in sources:
                sources.remove(old)

    def reopened(self, source: str, kept: Collection[BatchId], in_doubt: bool = False) -> None:
        """What settles the repair has come: go on with the cuts that the new parent has, give up the rest.

        `in_doubt`: the source may be out of reach rather than dead, and may have released what we have acknowledged.
        """
        for cut in [cut for cut in self._cuts.values() if cut.source == source and cut.batch_id not in kept]:
            self._abort(cut, in_doubt and cut.closed)

    def on_abort(self, peer: str, abort: TotalAbort) -> None:
        batch_id = (abort.publisher, abort.first)
        self._queue = [one for one in self._queue if one.source != peer or one.batch_id != batch_id]
        cut = self._cuts.get(batch_id)
        if cut is not None and cut.source == peer:
            self._abort(cut, abort.in_doubt)

    def _abort(self, cut: Cut, in_doubt: bool = False) -> None:
        if in_doubt:
            self._doubtful[cut.batch_id] = (cut.topic, cut.keys)
            self._doubt_passed_on = self._doubt_passed_on or bool(cut.participants)
        del self._cuts[cut.batch_id]
        for key in cut.keys:
            del self._by_key[cut.topic, key]
        for peer in cut.participants:
            self._send(peer, TotalAbort(*cut.batch_id, in_doubt))
        self._acknowledge()
        self.pump()
        self._owner.cut_ended()

    def _acknowledge(self) -> None:
        if not self._healer.admitting:
            super()._acknowledge()

    def involves(self, peer: str) -> bool:
        """Whether that neighbour is in a cut that is under way here, or waits to start one."""
        cuts = (*self._cuts.values(), *self._queue)
        return any(cut.source == peer or peer in cut.participants for cut in cuts)

    def any_closed(self) -> bool:
        return any(cut.closed for cut in self._cuts.values())

    def include(self, peers: Sequence[str]) -> None:
        """They were let in and had been out of reach: they are in the cuts under way, if they want the topic."""
        for cut in self._cuts.values():
            for peer in peers:
                if self._interests.table.wants(peer, cut.topic) and not cut.closed:
                    cut.participants[peer] = None
                    cut.awaiting.add(peer)
                    self._send(peer, self._marker(cut))
        self._acknowledge()

    def stand_down(self) -> None:
        """The majority is lost: what was not released here waits until it is found again."""
        for cut in [cut for cut in self._cuts.values() if cut.source == ROOT]:
            self._queue.append(Cut(cut.batch_id, cut.topic, cut.keys, ROOT, cut.batch))
            self._abort(cut)

    def is_cut(self, batch_id: BatchId) -> bool:
        return batch_id in self._cuts

    def kept_by(self, listed: Collection[BatchId], dead: str) -> tuple[BatchId, ...]:
        """Which of a joiner's cuts go on with this broker: those that it has itself, not from the dead one."""
        return tuple(one for one in listed if one in self._cuts and self._cuts[one].source != dead)

    def replace(self, old: str, joined: Mapping[str, Collection[BatchId]], in_doubt: bool = False) -> None:
        """Those that joined are in the cuts in the place of the dead one.

        While it is in doubt whether the old one is dead or out of reach, what was asked of it is not asked of others:
        it may have been released there.
        """
        self._forget_source(old)
        changed = [cut for cut in self._cuts.values() if old in cut.participants]
        for cut in changed:
            self._replace_in(cut, old, joined)
        for cut in changed:
            if not cut.awaiting and not cut.closed and self._cuts.get(cut.batch_id) is cut:
                self._complete(cut)
        if not in_doubt:
            self.ask_others(old)
        self._acknowledge()
        self.pump()

    def ask_others(self, old: str) -> None:
        """What was asked of that neighbour goes where it belongs now."""
        for batch_id, (hop, batch) in list(self._asked.items()):
            if hop == old:
                self._forward(Cut(batch_id, batch.topic, batch.key_set(), ROOT, batch))
        self.pump()

    def _replace_in(self, cut: Cut, old: str, joined: Mapping[str, Collection[BatchId]]) -> None:
        acknowledged = old not in cut.awaiting
        del cut.participants[old]
        cut.awaiting.discard(old)
        for peer, listed in joined.items():
            if acknowledged and cut.batch_id in listed:
                cut.participants[peer] = None
            elif not acknowledged and (cut.batch_id in listed or self._interests.table.wants(peer, cut.topic)):
                cut.participants[peer] = None
                cut.awaiting.add(peer)
                self._send(peer, self._marker(cut))

    def settle_record(self, batch_id: BatchId, batch: Batch, skip: Collection[str]) -> None:
        """A repair shows that the batch was released: release it here, if we are in its cut, to all but `skip`."""
        cut = self._cuts.get(batch_id)
        if cut is None:
            self._finish(batch_id, tuple(skip))
            return
        for peer in skip:
            cut.participants.pop(peer, None)
        self._release(cut, batch)

    def check_invariants(self) -> None:
        super().check_invariants()
        for batch_id in self._asked:
            assert batch_id in self._came_from, f"{batch_id} was asked for by nobody"
