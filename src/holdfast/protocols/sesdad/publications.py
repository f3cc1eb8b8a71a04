"""Publications at a broker: it is chosen for one, or is given a copy; it sends, and hears who has what."""

from collections.abc import Callable

from holdfast.model.batches import Batch, BatchError
from holdfast.model.errors import PeerViolation
from holdfast.model.guarantees import GUARANTEES
from holdfast.model.messages import Rejected
from holdfast.model.site_messages import Assignment, Forward, Mark, Marks, Offer, Replicate, Replicated
from holdfast.protocols.node import Report
from holdfast.protocols.publishers import topic_problem
from holdfast.protocols.sesdad.designation import Designation
from holdfast.protocols.sesdad.missing import Missing
from holdfast.protocols.sesdad.peers import Peers
from holdfast.protocols.sesdad.sequence_maps import Entry, Lane
from holdfast.protocols.sesdad.sites import LOCAL, is_subscriber
from holdfast.protocols.sesdad.streams import Stream, Unit
from holdfast.protocols.sesdad.traffic import Key, Traffic

TICK_TIMER = "marks"


class Publications:
    """What becomes of publications here. `settled` is called when something has arrived everywhere it had to."""

    def __init__(
        self,
        peers: Peers,
        traffic: Traffic,
        designation: Designation,
        missing: Missing,
        given: tuple[int, ...],
        tick_s: float,
        settled: Callable[[], None],
    ) -> None:
        self._peers, self._traffic, self._designation, self._missing = peers, traffic, designation, missing
        self._given, self._tick_s, self._settled = given, tick_s, settled
        self.site_marks: dict[str, dict[str, int]] = {}
        """By broker of another site and publisher: up to which number it has everything."""
        self._dirty: dict[Key, None] = {}

    # ----------------------------------------------------------------------------------------------------- coming in

    def on_offer(self, peer: str, message: Offer) -> None:
        batch = message.batch
        if batch.publisher != peer:
            raise PeerViolation(f"client {peer} may publish under its own name only, not as {batch.publisher}")
        if problem := _batch_problem(batch):
            raise PeerViolation(f"client {peer} published what nobody can: {problem}")
        stream = self._traffic.stream(LOCAL, peer)
        if batch.guarantee not in self._given and batch.first > stream.highest:
            given = ", ".join(GUARANTEES[rank] for rank in self._given)
            reason = f"protocol sesdad does not give {GUARANTEES[batch.guarantee].value!r}: it gives {given}"
            self._peers.send(peer, Rejected(0, batch.first, batch.last, reason))
        self._chosen_for(stream, batch.first, batch)

    def on_forward(self, peer: str, message: Forward) -> None:
        stream = self._traffic.stream(self._peers.sites.site_of(peer), message.batch.publisher)
        self._chosen_for(stream, message.number, message.batch)

    def _chosen_for(self, stream: Stream, number: int, batch: Batch) -> None:
        """A sender has chosen this broker: multicast within the site, and go on when f others have answered."""
        name, promised = self._peers.name, self._designation.promised
        unit = Unit(number, batch, name, {name: promised})
        if not stream.add(unit):
            known = stream.units.get(number)
            if known is None or number < stream.next:
                self._note(stream)
                return
            # Its first choice is lost, or slow: from now on we answer for it.
            known.chosen, unit = name, known
        self._multicast(stream, unit)
        self._note(stream)

    def _multicast(self, stream: Stream, unit: Unit) -> None:
        message = Replicate(stream.source, unit.number, self._designation.promised, self._peers.name, unit.batch)
        for member in self._peers.members():
            self._peers.tell(member, message)

    def on_replicate(self, peer: str, message: Replicate) -> None:
        batch, number, name = message.batch, message.number, self._peers.name
        stream = self._traffic.stream(message.source, batch.publisher)
        unit = Unit(number, batch, message.chosen, {name: self._designation.promised})
        is_new = stream.add(unit)
        unit = stream.units.get(number, unit)
        if not self._peers.is_lost(peer):
            # One that has begun anew does not know yet what its earlier life has promised: what it holds counts when
            # it serves, and says so.
            unit.holders.setdefault(peer, message.version)
        if not is_new and number >= stream.next and unit.chosen != name:
            unit.chosen = message.chosen
        if self._peers.is_serving() and (number <= stream.prefix or number in stream.units):
            self._peers.tell(peer, Replicated(message.source, batch.publisher, number, unit.holders[name]))
        self._note(stream)

    def on_replicated(self, peer: str, message: Replicated) -> None:
        stream = self._traffic.stream(message.source, message.publisher)
        unit = stream.units.get(message.number)
        if unit is not None:
            unit.holders.setdefault(peer, message.version)
            self._advance(stream)

    def begin(self) -> None:
        """A majority has the state in force: publishers begin where it says."""
        for publisher in self._traffic.begin():
            self.begun(publisher)

    def begun(self, publisher: str) -> None:
        """A client of ours begins behind a later number: what came early is without a gap now, and is told at a tick.

        1. The client begins behind 100, and publishes 101. 2. A broker gets 101 before it gets the state that says so:
        it has nothing without a gap, and tells that. 3. With the state, 101 closes the gap. Nothing else may ever come,
        and a client that waits until all brokers have what it published waits for good.
        """
        self._dirty[LOCAL, publisher] = None
        self._peers.arm(TICK_TIMER, self._tick_s)

    def _note(self, stream: Stream) -> None:
        """Something of a stream has come, or has come again."""
        self._dirty[stream.source, stream.publisher] = None
        self._peers.arm(TICK_TIMER, self._tick_s)
        self._missing.note(stream)
        self._advance(stream)

    def _advance(self, stream: Stream) -> None:
        if not self._peers.is_serving() or not self._designation.confirmed:
            return
        if self._traffic.advance(stream, self._designation.established):
            stream.trim(self._peers.members())
            self._settled()

    def advance_all(self) -> None:
        """Something has changed that units may have waited for."""
        for stream in list(self._traffic.streams.values()):
            self._missing.watch(stream)
            if stream.units:
                self._advance(stream)

    # ----------------------------------------------------------------------------------------------------- going out

    def send_entry(self, lane: Lane, entry: Entry) -> None:
        """Send what a lane carries to its subscriber, or to a broker of its site that is drawn."""
        peers = self._peers
        if is_subscriber(lane.destination):
            link = peers.link_of(lane.destination)
            if link is not None:
                entry.sent_to = lane.destination
                peers.send(link.peer, Forward(entry.number, entry.batch))
            return
        entry.sent_to = peers.pick(peers.at(lane.destination))
        if entry.sent_to:
            peers.tell(entry.sent_to, Forward(entry.number, entry.batch))
            peers.hub.out.append(Report("relay", entry.batch, peer=entry.sent_to))

    def send_unsent(self, destination: str | None = None) -> None:
        """Send what we are to send, and have sent to nobody who is there."""
        if self._peers.is_serving():
            for name in [destination] if destination is not None else list(self._traffic.lanes):
                for lane, entry in self._traffic.unsent(name):
                    self.send_entry(lane, entry)

    # ----------------------------------------------------------------------------------------------- acknowledgements

    def marks(self, entries: tuple[tuple[str, str, int], ...] = ()) -> Marks:
        """What the others of our site are told, with the states of the routing table here."""
        return Marks(entries, self._designation.vouched, self._designation.promised)

    def tell_dirty(self) -> None:
        keys, self._dirty = list(self._dirty), {}
        self.tell_marks(keys)

    def tell_marks(self, keys: list[Key]) -> None:
        """Tell how far these streams are: to our site, to where they come from, to their publishers."""
        peers = self._peers
        if not peers.is_serving():
            return
        streams = [self._traffic.streams[key] for key in keys]
        entries = tuple((one.source, one.publisher, one.prefix) for one in streams)
        peers.tell_members(self.marks(entries))
        for peer in list(peers.linked):
            site = peers.sites.site_of(peer)
            theirs = tuple(entry for entry in entries if site and entry[0] == site)
            if theirs:
                peers.tell(peer, Marks(theirs))
        for source, publisher, number in entries:
            if source == LOCAL:
                peers.send(publisher, Marks(((LOCAL, publisher, number),)))

    def on_member_marks(self, peer: str, message: Marks) -> None:
        """Another broker of our site says how far it is."""
        for source, publisher, number in message.entries:
            stream = self._traffic.stream(source, publisher)
            stream.note_mark(peer, number, message.promised)
            self._missing.watch(stream)
            self._advance(stream)
            stream.trim(self._peers.members())

    def on_marks(self, peer: str, message: Marks) -> None:
        """A broker of another site, or a subscriber, says how far it is."""
        if site := self._peers.sites.site_of(peer):
            marks = self.site_marks.setdefault(peer, {})
            for _, publisher, number in message.entries:
                marks[publisher] = max(number, marks.get(publisher, 0))
            self.release(site, [publisher for _, publisher, _ in message.entries])
        else:
            subscriber = self._peers.subscriber(peer)
            for _, publisher, number in message.entries:
                self._traffic.acknowledge(subscriber, publisher, number)
        self._settled()

    def release(self, site: str, publishers: list[str] | None = None) -> None:
        """Forget what every broker of a site that is there has, if these are more than the site may lose."""
        other = self._peers.sites.neighbours[site]
        there = [name for name in other.members if name in self._peers.linked]
        if len(there) <= other.losses_max:
            return
        if publishers is None:
            # Of all that they have spoken of: they may be ahead of what we have numbered ourselves.
            publishers = sorted({publisher for name in there for publisher in self.site_marks.get(name, {})})
        for publisher in publishers:
            marks = [self.site_marks.get(name, {}).get(publisher, 0) for name in there]
            self._traffic.acknowledge(site, publisher, min(marks))

    # ----------------------------------------------------------------------------------- places, which nothing has here

    def on_assignment(self, peer: str, message: Assignment) -> None:  # noqa: ARG002
        """The designated broker gives places."""
        raise PeerViolation(f"{peer} gives places to publications, and this site does not agree on any")

    def ask_again(self) -> None:
        """Ask once more for places: the designated broker may be another one."""

    def ask_for_oldest(self) -> None:
        """Ask for what has had no place for a beat."""

    def placed(self) -> tuple[Mark, ...]:
        """What has a place and is not processed, in order."""
        return ()

    def replace_places(self, entries: tuple[Mark, ...]) -> None:
        """Another broker's later state is in force."""

    def waiting_for(self) -> list[str]:
        return []


def _batch_problem(batch: Batch) -> str:
    try:
        batch.check()
    except BatchError as error:
        return str(error)
    return topic_problem(batch.topic)
