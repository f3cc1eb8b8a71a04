"""The key locks of `ginger-locks`: a total batch locks its keys across the subtree of its topic (`locks`).

This was the total order of `ginger` until messages turned at the top (decision 36), a consistent cut per (topic, key),
and so it speaks of cuts. `locks` leaves one rule out, as the thesis does: what comes from inside a cut waits, too. That
puts weaker messages on different sides of a total one even without faults (docs/papers/ginger.md, 12).

A total batch m with keys K on topic t goes through four steps:

1. Request: m climbs to the root of t's subtree, holding nothing up.
2. Marker: the root takes conflicting batches one at a time (a batch takes its place in the queues of all its keys at
   once, in order of arrival, so nobody waits in a circle), cuts K, and sends a marker to its participants: the
   neighbours that want t. A broker that gets the marker cuts K too and passes it on.
3. Acknowledgement: when all its participants have acknowledged, a broker acknowledges, behind all it has passed.
4. Processed: with all acknowledgements in, the root delivers m and sends it down behind all it has passed; at each
   broker the cut ends there, m is delivered, and what waited at the cut goes on behind m.

Cuts of different topics pass through different neighbours, and everything from a neighbour waits behind what waits. So
a broker acknowledges in the order in which its cuts started, as far as that matters (`_acknowledge`):
1. m and n are under way on topics t and u. At B, whose child E is outside t, m is acknowledged; at B', whose child E'
   is outside u, n is.
2. E publishes on t: that waits at B for the end of m, and E's acknowledgement of n behind it.
3. E' publishes on u: that waits at B' for the end of n, and E's acknowledgement of m behind it.
If B' does not acknowledge n before m, which started first there as at B, 3 does not happen. Two cuts started in the
same order wherever both are: the topmost of these brokers sends their markers down, and markers start in the order in
which they come.

A broker's cut is open until it acknowledges: whatever it passes on K before that is ahead of its acknowledgement on the
way up, and ahead of m on the way down, so it is before m everywhere. Once it has acknowledged, the cut is closed: what
comes on K from outside the cut (a client, or a neighbour that is not in it) belongs behind m, and waits; what comes
from inside was on its way before the cut was complete, belongs before m, and passed in `ginger`. The root never closes:
its last acknowledgement is the release.

The subtree may change meanwhile. These rules keep the order, and let nobody wait for a later batch:
- The participants of a cut are fixed when it starts; a neighbour that joins the subtree later is not sent m (its
  subscription cannot have been confirmed before m was published).
- A neighbour that leaves stays in the cuts of the topic until those that it belongs to are over: participants of a new
  cut include those of the cuts under way. So waiting runs from later cuts to earlier ones only.
- A batch that waits at a broker which is the root no longer is sent on to the new root; a marker waits, too, until the
  cuts under way on its keys are over.

A publisher has one total batch under way at a time; what it publishes later waits at its edge
(docs/papers/ginger.md, 14).
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from holdfast.model.batches import Batch
from holdfast.model.messages import SessionMessage, TotalAck, TotalMarker, TotalProcessed, TotalRequest
from holdfast.protocols.interests import InterestMap

BatchId = tuple[str, int]
ROOT = ""
"""The source of a cut that this broker started itself."""


class CutOwner(Protocol):
    """What the cuts ask of their broker."""

    parent: str | None

    def deliver_total(self, batch: Batch, source: str) -> None:
        """Deliver a released batch, which came from `source` (or `ROOT`), to this broker's own clients."""
        ...

    def total_done(self, client: str, batch_id: BatchId) -> None:
        """The batch that this client published is released here."""
        ...

    def cut_ended(self) -> None:
        """Publications may have waited for it."""
        ...


class Cut:
    """A cut under way at this broker."""

    __slots__ = (
        "awaiting",
        "batch",
        "batch_id",
        "closed",
        "keys",
        "participants",
        "source",
        "topic",
    )

    def __init__(self, batch_id: BatchId, topic: str, keys: Sequence[str], source: str, batch: Batch | None) -> None:
        self.batch_id, self.topic, self.source, self.batch = batch_id, topic, source, batch
        self.keys = tuple(dict.fromkeys(keys))
        self.participants: dict[str, None] = {}
        self.awaiting: set[str] = set()
        self.closed = False
        """Whether this broker has acknowledged, so that what enters here now belongs after the batch."""


class CutMap:
    """The cuts of one broker, those that wait to start, and the requests that passed through."""

    def __init__(self, owner: CutOwner, interests: InterestMap, send: Callable[[str, SessionMessage], None]) -> None:
        self._owner, self._interests, self._send = owner, interests, send
        self._cuts: dict[BatchId, Cut] = {}
        """The cuts under way, in the order in which they started."""
        self._by_key: dict[tuple[str, str], Cut] = {}
        self._queue: list[Cut] = []
        self._came_from: dict[BatchId, list[str]] = {}
        self._pumping = self._pump_again = False
        self._asked: dict[BatchId, tuple[str, Batch]] = {}
        """Requests that were sent on, and to whom: they are asked for again if that neighbour leaves."""
        self._namesakes: dict[BatchId, list[tuple[Batch, str]]] = {}

    # --------------------------------------------------------------------------------------------------- questions

    def on(self, topic: str, keys: Sequence[str]) -> list[Cut]:
        """The cuts under way on some of these keys."""
        if not self._by_key:
            return []
        found = (self._by_key.get((topic, key)) for key in keys)
        return list({cut.batch_id: cut for cut in found if cut is not None}.values())

    def next_hop(self, topic: str) -> str | None:
        """Where a total batch goes from here: `ROOT` if it has arrived, `None` if nobody wants it."""
        table = self._interests.table
        if not table.is_wanted(topic):
            return None
        for peer in self._interests.neighbours:
            if table.wants(peer, topic) and not table.is_wanted_besides(peer, topic):
                return peer  # we are outside the topic's subtree; it lies this way
        parent = self._owner.parent
        return parent if parent is not None and table.wants(parent, topic) else ROOT

    # ------------------------------------------------------------------------------------------------------- steps

    def request(self, batch: Batch, came_from: str) -> None:
        """A total batch from a client, or on its climb from a neighbour."""
        batch_id = (batch.publisher, batch.first)
        hop, _ = self._asked.get(batch_id, (ROOT, None))
        if batch_id in self._came_from and came_from != hop:
            # It is not ours that comes back: two clients of one name, at two brokers. The second waits for the first.
            self._namesakes.setdefault(batch_id, []).append((batch, came_from))
            return
        self._came_from.setdefault(batch_id, []).append(came_from)
        self._forward(Cut(batch_id, batch.topic, batch.key_set(), ROOT, batch))
        self.pump()

    def _forward(self, cut: Cut) -> None:
        """Send a request that has not started where it belongs, if that is not here."""
        self._asked.pop(cut.batch_id, None)
        hop = self.next_hop(cut.topic)
        if hop == ROOT:
            self._queue.append(cut)
            return
        if hop is None:
            self._finish(cut.batch_id, ())
        elif cut.batch is not None:
            self._asked[cut.batch_id] = (hop, cut.batch)
            self._ask(hop, cut.batch)

    def _ask(self, hop: str, batch: Batch) -> None:
        self._send(hop, TotalRequest(batch))

    def on_marker(self, peer: str, marker: TotalMarker) -> None:
        self._queue.append(Cut((marker.publisher, marker.first), marker.topic, marker.keys, peer, None))
        self.pump()

    def pump(self) -> None:
        """Start what can start, in order of arrival; what lost its root goes on to the new one."""
        if self._pumping:
            self._pump_again = True
            return
        self._pumping = True
        self._pump_again = True
        while self._pump_again:
            self._pump_again = False
            self._pump_once()
        self._pumping = False

    def _pump_once(self) -> None:
        queue, self._queue = self._queue, []
        busy: set[tuple[str, str]] = set()
        behind: set[str] = set()
        for cut in queue:
            keys = [(cut.topic, key) for key in cut.keys]
            if cut.source == ROOT and self.next_hop(cut.topic) != ROOT:
                self._forward(cut)
            elif cut.source in behind or self._must_wait(cut) or any(key in busy for key in keys):
                busy.update(keys)
                self._queue.append(cut)
                if cut.source != ROOT:
                    behind.add(cut.source)
            else:
                self._start(cut)

    def _must_wait(self, cut: Cut) -> bool:
        return cut.batch_id in self._cuts or any((cut.topic, key) in self._by_key for key in cut.keys)

    def _start(self, cut: Cut) -> None:
        inside = self._inside(cut.topic)
        inside.pop(cut.source, None)
        cut.participants, cut.awaiting = inside, set(inside)
        self._cuts[cut.batch_id] = cut
        self._by_key.update(((cut.topic, key), cut) for key in cut.keys)
        marker = self._marker(cut)
        for peer in inside:
            self._send(peer, marker)
        if not inside:
            self._complete(cut)

    def _inside(self, topic: str) -> dict[str, None]:
        """The neighbours that want the topic, and those that are in a cut of it still."""
        wants = self._interests.table.wants
        inside = dict.fromkeys(peer for peer in sorted(self._interests.neighbours) if wants(peer, topic))
        for other in self._cuts.values():
            if other.topic == topic:
                inside.update(other.participants)
        return inside

    @staticmethod
    def _marker(cut: Cut) -> TotalMarker:
        return TotalMarker(*cut.batch_id, cut.topic, cut.keys)

    def on_ack(self, peer: str, ack: TotalAck) -> None:
        cut = self._cuts.get((ack.publisher, ack.first))
        if cut is not None and peer in cut.awaiting:
            self._acknowledged(peer, cut)

    def _acknowledged(self, peer: str, cut: Cut) -> None:
        cut.awaiting.discard(peer)
        if not cut.awaiting:
            self._complete(cut)
        self._acknowledge()

    def _complete(self, cut: Cut) -> None:
        if cut.source == ROOT:
            self._release(cut, cut.batch)
        else:
            self._acknowledge()

    def _acknowledge(self) -> None:
        """Acknowledge what is complete here, unless an earlier cut awaits somebody whose messages would then wait."""
        awaited: set[str] = set()
        for cut in self._cuts.values():
            if not cut.closed and not cut.awaiting and cut.source != ROOT and awaited <= cut.participants.keys():
                cut.closed = True
                self._send(cut.source, TotalAck(*cut.batch_id))
            awaited |= cut.awaiting

    def on_processed(self, peer: str, processed: TotalProcessed) -> None:
        batch_id = (processed.publisher, processed.first)
        cut = self._cuts.get(batch_id)
        if cut is not None and peer == cut.source:
            self._release(cut, processed.batch)
        else:
            self._finish(batch_id, (peer,))

    def _release(self, cut: Cut, batch: Batch | None) -> None:
        del self._cuts[cut.batch_id]
        for key in cut.keys:
            del self._by_key[cut.topic, key]
        if batch is not None:
            self._owner.deliver_total(batch, cut.source)
        for peer in cut.participants:
            wanted = batch if self._interests.table.wants(peer, cut.topic) else None
            self._hand_down(peer, cut.batch_id, wanted)
        self._finish(cut.batch_id, (*cut.participants, cut.source))
        if cut.awaiting:
            # It ends before its time, and nobody waits for those that it awaited any more.
            self._acknowledge()
        self.pump()
        self._owner.cut_ended()

    def _hand_down(self, peer: str, batch_id: BatchId, batch: Batch | None) -> None:
        self._send(peer, TotalProcessed(*batch_id, batch))

    def _finish(self, batch_id: BatchId, told: Sequence[str]) -> None:
        """Tell those that the request came from, unless they know: the publisher's later messages wait for it."""
        for came_from in self._came_from.pop(batch_id, ()):
            if came_from in self._interests.neighbours:
                if came_from not in told:
                    self._send(came_from, TotalProcessed(*batch_id, None))
            else:
                self._owner.total_done(came_from, batch_id)
        self._asked.pop(batch_id, None)
        for batch, came_from in self._namesakes.pop(batch_id, ()):
            self.request(batch, came_from)

    def drop(self, peer: str) -> None:
        """A neighbour has left: nobody waits for it, and what was asked of it is asked elsewhere.

        It left with nothing under way, so a marker or a request that it did not answer has never reached it.
        """
        for cut in list(self._cuts.values()):
            if self._cuts.get(cut.batch_id) is not cut:
                continue
            if cut.source == peer:
                self._release(cut, None)
            elif peer in cut.awaiting:
                self._acknowledged(peer, cut)
        self._queue = [cut for cut in self._queue if cut.source != peer]
        for batch_id, (hop, batch) in list(self._asked.items()):
            if hop == peer:
                self._forward(Cut(batch_id, batch.topic, batch.key_set(), ROOT, batch))
        self.pump()

    # -------------------------------------------------------------------------------------------------- inspection

    def idle(self) -> bool:
        return not (self._cuts or self._queue or self._came_from)

    def under_way(self) -> list[Cut]:
        return list(self._cuts.values())

    def waiting_for(self) -> list[str]:
        """In words, what each batch waits for here."""
        reasons = []
        for cut in self._cuts.values():
            whom = f"{cut.source}'s release"
            if cut.awaiting:
                whom = f"acknowledgements of {', '.join(sorted(cut.awaiting))}"
            elif not cut.closed:
                whom = "acknowledgements of earlier cuts"
            reasons.append(f"{whom} for total batch {cut.batch_id[0]}#{cut.batch_id[1]} on {cut.topic}")
        waiting = [cut.batch_id for cut in self._queue]
        return reasons + [f"the keys of total batch {publisher}#{first}" for publisher, first in waiting]

    def check_invariants(self) -> None:
        for (topic, key), cut in self._by_key.items():
            assert self._cuts.get(cut.batch_id) is cut, f"{topic}/{key} is cut by {cut.batch_id}, which is over"
        for cut in self._cuts.values():
            assert cut.awaiting <= set(cut.participants), f"{cut.batch_id} awaits somebody outside the cut"
            assert cut.awaiting or cut.source != ROOT, f"{cut.batch_id} is complete at its root and not released"
            assert all(self._by_key.get((cut.topic, key)) is cut for key in cut.keys), f"{cut.batch_id} lost a key"
