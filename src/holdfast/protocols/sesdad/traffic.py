"""Publications on their way through a site: they come in as streams, are processed in order, and go out on lanes.

Every broker of the site processes every stream, so all have the same lanes with the same numbers. One of them sends:
the one that was chosen for the publication, or, if that is lost, the next one in rank that is there. Whatever a
destination has not acknowledged can be sent again by any of them; a destination knows by its number what it has.
"""

from collections.abc import Callable, Iterable

from holdfast.model.batches import Batch
from holdfast.model.site_messages import Establish, Mark, Pending
from holdfast.protocols.sesdad.routes import Routes
from holdfast.protocols.sesdad.sequence_maps import Entry, Lane
from holdfast.protocols.sesdad.sites import LOCAL, Site, client_of, is_subscriber
from holdfast.protocols.sesdad.streams import Stream, Unit

Key = tuple[str, str]
"""Source and publisher of a stream."""


class Traffic:
    """The streams and lanes of a site, as one of its brokers has them."""

    def __init__(
        self,
        name: str,
        site: Site,
        flooded: Iterable[str],
        given: tuple[int, ...],
        send: Callable[[Lane, Entry], None],
        is_lost: Callable[[str], bool],
    ) -> None:
        """`flooded` are the sites that get everything; `send` sends what a lane carries."""
        self.name, self._site, self._flooded, self._given = name, site, tuple(flooded), given
        self._send, self._is_lost = send, is_lost
        self.routes = Routes()
        self.streams: dict[Key, Stream] = {}
        self.lanes: dict[str, dict[str, Lane]] = {}
        """By destination and publisher."""
        self._early: dict[str, dict[str, int]] = {}
        """Acknowledgements of what we have not numbered ourselves yet: by destination and publisher."""
        self.processed = 0
        """How many units were processed here."""
        self.sent = 0
        """How many of them we have sent to some destination: the share of this broker in the load."""

    # ----------------------------------------------------------------------------------------------------- coming in

    def stream(self, source: str, publisher: str) -> Stream:
        stream = self.streams.get((source, publisher))
        if stream is None:
            stream = self.streams[source, publisher] = Stream(source, publisher)
        return stream

    def marks(self) -> tuple[Mark, ...]:
        """Up to which number of each stream anything is here."""
        return tuple((source, publisher, one.highest) for (source, publisher), one in sorted(self.streams.items()))

    def prefixes(self) -> list[Mark]:
        return [(source, publisher, one.prefix) for (source, publisher), one in self.streams.items() if one.prefix]

    def last_seq(self, publisher: str) -> int:
        """The highest number that is known here of a client of this site."""
        stream = self.streams.get(("", publisher))
        return 0 if stream is None else max(stream.highest, stream.beginning)

    def advance(self, stream: Stream, established: int) -> int:
        """Process what may be processed under that state; how many units that were."""
        count = 0
        while (unit := stream.ready(self._site.losses_max, self.name, established)) is not None:
            self.process(stream, unit)
            count += 1
        return count

    def process(self, stream: Stream, unit: Unit) -> None:
        """Number a unit for everybody who wants it; send it, if we are to."""
        batch, sends = unit.batch, self.answers_for(unit.chosen)
        self.processed += 1
        for destination, parts in self._destinations(stream, batch):
            lane = self._lane(destination, stream)
            for part in parts:
                entry = lane.append(part, unit.chosen, unit.last)
                if sends and entry.last > lane.acked:
                    self.sent += 1
                    self._send(lane, entry)
        stream.processed(unit)

    def _destinations(self, stream: Stream, batch: Batch) -> list[tuple[str, list[Batch]]]:
        if batch.guarantee not in self._given:
            return []
        pending = [one for one in stream.pending if one.cut > stream.next and one.change.what != "b"]
        takers = self.routes.takers(batch, pending)
        wanted = [(name, batch.chosen(choice)) for name, choice in takers.items() if name != stream.source]
        return [*wanted, *((site, [batch]) for site in self._flooded if site != stream.source)]

    def _lane(self, destination: str, stream: Stream) -> Lane:
        lanes = self.lanes.setdefault(destination, {})
        lane = lanes.get(stream.publisher)
        if lane is None:
            lane = lanes[stream.publisher] = Lane(destination, stream.source, stream.publisher)
            lane.acknowledge(self._early.get(destination, {}).pop(stream.publisher, 0))
        return lane

    def lane(self, destination: str, source: str, publisher: str) -> Lane:
        return self._lane(destination, self.stream(source, publisher))

    def answers_for(self, chosen: str) -> bool:
        """Whether we send what that broker was chosen for: it is ours, or all from it to us in rank are lost."""
        members = self._site.members
        at = members.index(chosen) if chosen in members else 0
        ring = (*members[at:], *members[:at])
        return next((one for one in ring if one == self.name or not self._is_lost(one)), self.name) == self.name

    # ------------------------------------------------------------------------------------------------------ changing

    def establish(self, message: Establish) -> list[tuple[str, str]]:
        """Put changes in force; which interests have changed."""
        cuts = {(source, publisher): cut for source, publisher, cut in message.cuts}
        for source, publisher in cuts:
            self.stream(source, publisher)
        changed = []
        for change in message.changes:
            if change.what == "b":
                stream = self.stream(LOCAL, client_of(change.subscriber))
                stream.pending.append(Pending(message.version, change.number + 1, change))
            if change.what == "g":
                self.forget(change.subscriber)
            for single in self.routes.apply(change):
                changed.append((single.pattern, single.where))
                if change.what != "g":
                    for key, cut in cuts.items():
                        stream = self.streams[key]
                        if stream.next < cut:
                            stream.pending.append(Pending(message.version, cut, single))
        return changed

    def begin(self) -> list[str]:
        """Begin streams where the state in force says, which a majority has; of which publishers.

        Before that it may never have been. 1. Broker 1, which is designated, puts in force that a client begins behind
        100, says that it has everything up to there, and dies. 2. Broker 2 takes over; nobody has that state. 3. Broker
        3 hears what broker 1 has said, and waits for number 1 to 100 of a client that has gone or begins elsewhere.
        """
        return [stream.publisher for stream in self.streams.values() if stream.begin()]

    def forget(self, subscriber: str) -> None:
        """Nothing is kept for a subscriber that has gone, whatever it wanted when. What it published goes on."""
        self.lanes.pop(subscriber, None)
        self._early.pop(subscriber, None)
        for stream in self.streams.values():
            stream.pending = [
                one for one in stream.pending if one.change.what == "b" or one.change.subscriber != subscriber
            ]

    # ----------------------------------------------------------------------------------------------------- going out

    def unsent(self, destination: str) -> list[tuple[Lane, Entry]]:
        """What we are to send to a destination, and have not sent to anybody who is there."""
        return [
            (lane, entry)
            for lane in self.lanes.get(destination, {}).values()
            for entry in lane.kept
            if not entry.sent_to and self.answers_for(entry.chosen)
        ]

    def acknowledge(self, destination: str, publisher: str, number: int) -> None:
        """A destination has everything of a publisher up to that number."""
        lane = self.lanes.get(destination, {}).get(publisher)
        if lane is not None:
            lane.acknowledge(number)
        elif number:
            early = self._early.setdefault(destination, {})
            early[publisher] = max(number, early.get(publisher, 0))

    def disowned(self, receiver: str) -> None:
        """What was sent to that broker or client may be lost: it counts as not sent."""
        for lanes in self.lanes.values():
            for lane in lanes.values():
                for entry in lane.kept:
                    if entry.sent_to == receiver:
                        entry.sent_to = ""

    def kept(self) -> int:
        """How much is kept for destinations that have not acknowledged it."""
        return sum(len(lane.kept) for lanes in self.lanes.values() for lane in lanes.values())

    def trim(self, members: list[str]) -> None:
        for stream in self.streams.values():
            if stream.units:
                stream.trim(members)

    def is_settled(self, publisher: str, seq: int, is_ours: bool) -> bool:
        """Whether nothing that this publisher, maybe of our site, published up to that number is under way here."""
        own = self.streams.get(("", publisher))
        if is_ours and (own is None or own.last_seq < seq):
            return False
        for stream in self.streams.values():
            if stream.publisher != publisher:
                continue
            if any(unit.number >= stream.next and unit.batch.first <= seq for unit in stream.units.values()):
                return False
        lanes = [lane for lanes in self.lanes.values() for lane in lanes.values() if lane.publisher == publisher]
        return not any(entry.batch.first <= seq for lane in lanes for entry in lane.kept)

    def subscribers(self) -> set[str]:
        """Those who have any interest, have asked for something, or are owed something."""
        wanting = {name for name, _, _ in self.routes.entries()}
        return {name for name in (*wanting, *self.routes.done, *self.lanes) if is_subscriber(name)}

    def check_invariants(self) -> None:
        for lanes in self.lanes.values():
            for lane in lanes.values():
                numbers = [entry.number for entry in lane.kept]
                assert numbers == sorted(numbers), f"{self.name}: the numbers {numbers} are out of order"
        for stream in self.streams.values():
            assert stream.next <= stream.prefix + 1, f"{self.name}: processed what has not come"

    def waiting_for(self, is_there: Callable[[str], bool]) -> list[str]:
        """In words, what has not come or was not acknowledged; `is_there`: whether a publisher of ours can be asked.

        What nobody has that can be asked is in doubt for its publisher, which has gone, and is not waited for.
        """
        reasons = []
        for (source, publisher), stream in self.streams.items():
            in_doubt = source == LOCAL and not is_there(publisher) and not stream.is_held_by_others()
            if stream.has_gap and in_doubt:
                continue
            if stream.has_gap:
                reasons.append(f"number {stream.prefix + 1} of {publisher} from {source or 'its publisher'}")
            elif stream.next <= stream.prefix:
                reasons.append(f"{self._site.losses_max} others to hold number {stream.next} of {publisher}")
        for destination, lanes in self.lanes.items():
            reasons += [
                f"{destination} to acknowledge number {lane.kept[0].number} of {publisher}"
                for publisher, lane in lanes.items()
                if lane.kept
            ]
        return reasons
