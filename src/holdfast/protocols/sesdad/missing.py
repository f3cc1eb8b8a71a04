"""What may be missing here or at others: requests and notifications, asked and answered (report, section 6)."""

from holdfast.model.site_messages import Forward, Notification, Notified, Replicate, Retransmission, StateRequest
from holdfast.protocols.sesdad.designation import Designation
from holdfast.protocols.sesdad.peers import Peers
from holdfast.protocols.sesdad.retransmission import Delays, Questions
from holdfast.protocols.sesdad.sequence_maps import Lane
from holdfast.protocols.sesdad.sites import LOCAL, is_subscriber
from holdfast.protocols.sesdad.streams import Stream
from holdfast.protocols.sesdad.traffic import Key, Traffic

HOLD_TIMER, NOTICE_TIMER = "hold-back", "notice"
IN_VAIN_MAX = 4
"""After so many requests in vain a broker of the site is asked for all that it knows."""


class Missing:
    """Asks for what is missing, and answers whoever asks."""

    def __init__(self, peers: Peers, traffic: Traffic, designation: Designation, delays: Delays) -> None:
        self._peers, self._traffic, self._designation, self.delays = peers, traffic, designation, delays
        self.questions = Questions()
        self._active: dict[Key, float] = {}
        """Streams that have brought something since it was last asked whether there is more, and when."""
        self._noticed: dict[Key, int] = {}
        """Up to which number it was asked of a stream whether there is more."""
        self._tries = 0

    # -------------------------------------------------------------------------------------------------------- noting

    def note(self, stream: Stream) -> None:
        """Something of a stream has come."""
        self._active[stream.source, stream.publisher] = self._peers.now
        self._peers.arm(NOTICE_TIMER, self.delays.notify_s)
        self.watch(stream)

    def watch(self, stream: Stream) -> None:
        """Note since when something is missing."""
        if not stream.has_gap:
            stream.gap_since = None
        elif stream.gap_since is None:
            stream.gap_since = self._peers.now
            self._peers.arm(HOLD_TIMER, self.delays.request_s)

    def ask_about_all(self) -> None:
        """Ask about every stream, after a while: whoever should have asked may be lost."""
        self._active.update(dict.fromkeys(self._traffic.streams, self._peers.now))
        self._peers.arm(NOTICE_TIMER, self.delays.notify_s)

    def lost(self, peer: str) -> None:
        if self.questions.lost(peer):
            self.ask_about_all()

    # ------------------------------------------------------------------------------------------------------ answering

    def on_retransmission(self, peer: str, message: Retransmission) -> None:
        if self._peers.sites.is_member(peer):
            stream, promised = self._traffic.stream(message.source, message.publisher), self._designation.promised
            for unit in list(stream.units.values()):
                if unit.last >= message.first and unit.number <= message.last:
                    self._peers.tell(peer, Replicate(stream.source, unit.number, promised, unit.chosen, unit.batch))
            return
        lane = self._traffic.lanes.get(self._destination(peer), {}).get(message.publisher)
        if lane is not None:
            self._resend(peer, lane, message.first, message.last)

    def _destination(self, peer: str) -> str:
        return self._peers.sites.site_of(peer) or self._peers.subscriber(peer)

    def _resend(self, peer: str, lane: Lane, first: int, last: int) -> None:
        for entry in lane.between(first, last):
            entry.sent_to = lane.destination if is_subscriber(lane.destination) else peer
            self._peers.send(peer, Forward(entry.number, entry.batch))

    def on_notification(self, peer: str, message: Notification) -> None:
        """Send again whatever stands behind these numbers, and ask whoever is before us in the same way."""
        numbers = {publisher: number for _, publisher, number in message.entries}
        for publisher, lane in list(self._traffic.lanes.get(self._destination(peer), {}).items()):
            self._resend(peer, lane, numbers.get(publisher, 0) + 1, lane.next)
        self._peers.send(peer, Notified(message.serial))
        above = [
            # Mapped back: what we have of the stream that came in is behind all that we have sent again.
            key
            for key, stream in self._traffic.streams.items()
            if stream.publisher in numbers
            and stream.source != self._peers.sites.site_of(peer)
            and self._noticed.get(key) != stream.prefix
        ]
        self._notify(above)

    def on_notified(self, _: str, message: Notified) -> None:
        round_trip_s = self.questions.answered(message.serial, self._peers.now)
        if round_trip_s is not None:
            self.delays.sample(round_trip_s)

    # --------------------------------------------------------------------------------------------------------- asking

    def _notify(self, keys: list[Key]) -> None:
        """Ask where these streams come from whether there is more."""
        by_peer: dict[str, list[tuple[str, str, int]]] = {}
        for key in keys:
            stream = self._traffic.streams[key]
            peer = self._someone_at(stream)
            self._active.pop(key, None)
            if peer:
                self._noticed[key] = stream.prefix
                by_peer.setdefault(peer, []).append((stream.source, stream.publisher, stream.prefix))
        for peer, entries in by_peer.items():
            serial = self.questions.ask(peer, self._peers.now)
            self._peers.send(peer, Notification(serial, tuple(entries)))

    def _someone_at(self, stream: Stream) -> str:
        """A broker of the site that a stream comes from, or its publisher; nothing if nobody is there."""
        if stream.source != LOCAL:
            return self._peers.pick(self._peers.at(stream.source))
        link = self._peers.hub.links.get(stream.publisher)
        return stream.publisher if link is not None and link.is_open and link.kind == "client" else ""

    def ask_for_missing(self) -> None:
        """Ask for what was missing for too long: another broker of our site that has it, or where it comes from."""
        now, left = self._peers.now, False
        for stream in self._traffic.streams.values():
            missing = stream.missing()
            if missing is None or stream.gap_since is None:
                continue
            left = True
            times = stream.in_vain.since(stream.prefix)
            if now - stream.gap_since < self.delays.again_s(times):
                continue
            stream.gap_since, stream.in_vain.times = now, times + 1
            self._tries += 1
            having = [name for name in self._peers.members() if stream.marks.get(name, 0) >= missing[0]]
            peer = self._someone_at(stream)
            if having and (self._tries % 2 or not peer or times >= IN_VAIN_MAX):
                peer = self._peers.pick(having)
            if having and times >= IN_VAIN_MAX:
                # They have it, and have forgotten it: it is in what they have processed.
                self._peers.tell(peer, StateRequest())
            self._peers.send(peer, Retransmission(stream.source, stream.publisher, *missing))
        if left:
            self._peers.arm(HOLD_TIMER, self.delays.request_s)

    def notify_if_quiet(self) -> None:
        """After the last message the designated broker asks; if it is lost, the next one asks about everything."""
        if not self._designation.leading:
            self._active.clear()
            return
        now, wait_s = self._peers.now, self.delays.notify_s
        self._notify([key for key, since in self._active.items() if now - since >= wait_s])
        if self._active:
            self._peers.arm(NOTICE_TIMER, wait_s)
