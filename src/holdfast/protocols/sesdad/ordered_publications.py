"""Publications at a broker of a site that agrees on every message: they wait for their place, instead of for copies.

What the order is, and how a majority comes to it, is told in `agreement`. All else is as without it.
"""

from collections.abc import Callable

from holdfast.model.site_messages import Agreed, Assignment, Mark, Replicate
from holdfast.protocols.sesdad.agreement import Agreement, Places
from holdfast.protocols.sesdad.missing import Missing
from holdfast.protocols.sesdad.peers import Peers
from holdfast.protocols.sesdad.publications import Publications
from holdfast.protocols.sesdad.streams import Stream, Unit
from holdfast.protocols.sesdad.traffic import Traffic


class OrderedPublications(Publications):
    """Publications that wait for their place, instead of for copies."""

    def __init__(
        self,
        peers: Peers,
        traffic: Traffic,
        order: Agreement,
        missing: Missing,
        given: tuple[int, ...],
        tick_s: float,
        settled: Callable[[], None],
        places: Places,
    ) -> None:
        super().__init__(peers, traffic, order, missing, given, tick_s, settled)
        self.order, self.places = order, places
        self._needs_all = peers.sites.own.losses_max > 1
        """Whether a majority is more than the designated broker and the one that hears of it."""
        self._waited: dict[tuple[str, str], int] = {}
        """By stream, what had no place at the last beat."""

    def _multicast(self, stream: Stream, unit: Unit) -> None:
        """Only the designated broker needs it: it hands it to the others with its place."""
        self._ask(stream.source, unit)

    def _ask(self, source: str, unit: Unit) -> None:
        """Ask the designated broker for a place."""
        leader, promised = self.order.leader, self.order.promised
        self.places.note((source, unit.batch.publisher))
        if leader != self._peers.name:
            self._peers.tell(leader, Replicate(source, unit.number, promised, unit.chosen, unit.batch))

    def ask_again(self) -> None:
        self.places.note_all()
        for source, unit in self.places.unplaced():
            if self._traffic.answers_for(unit.chosen):
                self._ask(source, unit)

    def ask_for_oldest(self) -> None:
        """Of each stream the next one, whoever was chosen for it."""
        if not self._peers.is_serving():
            return
        waiting: dict[tuple[str, str], int] = {}
        for source, unit in self.places.unplaced():
            key = (source, unit.batch.publisher)
            # Behind a gap nothing gets a place: what is missing is asked for like all else.
            if key not in waiting and unit.last <= self._traffic.stream(*key).prefix:
                waiting[key] = unit.number
                if self._waited.get(key) == unit.number:
                    self._ask(source, unit)
        self._waited = waiting

    def on_replicate(self, peer: str, message: Replicate) -> None:  # noqa: ARG002 - nobody answers it here
        batch, name = message.batch, self._peers.name
        stream = self._traffic.stream(message.source, batch.publisher)
        stream.add(Unit(message.number, batch, message.chosen, {name: self.order.promised}))
        known = stream.units.get(message.number)
        if known is not None and message.number >= stream.next and known.chosen != name:
            known.chosen = message.chosen
        self.places.note((message.source, batch.publisher))
        self._note(stream)

    def _advance(self, stream: Stream) -> None:  # noqa: ARG002 - the order is one of all streams
        established = -1
        while established != self.order.established:
            established = self.order.established
            self._process()  # Before the next state is in force here, which waits for the others again.
            self.order.advance()

    def on_assignment(self, peer: str, message: Assignment) -> None:
        if not self.order.on_assignment(peer, message):
            return
        agreed = Agreed(message.version)
        if self._needs_all:
            self._peers.tell_members(agreed)
        else:
            # The designated one and this one are a majority: no third one needs to say anything.
            self._peers.tell(peer, agreed)
        for key in {(one.source, one.batch.publisher): None for one in message.units}:
            self._note(self._traffic.stream(*key))

    def placed(self) -> tuple[Mark, ...]:
        return self.places.entries()

    def replace_places(self, entries: tuple[Mark, ...]) -> None:
        self.places.replace(entries)
        if self._peers.is_serving():
            self.ask_again()

    def waiting_for(self) -> list[str]:
        return self.places.waiting_for()

    def _process(self) -> None:
        """Process what has a place that a majority has, too."""
        if not self._peers.is_serving() or not self.order.confirmed:
            return
        processed = self.places.advance()
        for key in processed:
            self._traffic.streams[key].trim(self._peers.members())
        if processed:
            self._settled()
