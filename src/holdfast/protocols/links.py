"""One end of a link: a session that outlives its connections.

The problem: a TCP connection that resets loses what was in flight in either direction, and neither end knows how much
(docs/papers/ginger.md, 8). The idea: messages are numbered from 1 in each direction for the life of the session; each
end keeps what it sent until the other has acknowledged it; whoever reconnects says what it has, and the rest is sent
again. On a connection, where nothing is lost or overtaken, numbers are told modulo `LAP`, in a byte each. What a node
sees is one FIFO stream a direction, over all topics, with nothing missing and nothing twice.

Flow control is credit. Each message has a cost in bytes that both ends compute alike. The receiver grants credit as its
node *consumes* messages, up to a window ahead; the sender transmits a message only if it begins inside the credit. So
at most one window (and one message) is under way or unconsumed, and what cannot be sent waits in `backlog`, which the
owner watches: see `protocols.hub` for what happens at its bound. Messages that cost nothing (`URGENT`) need no credit
and overtake what waits for it, though nothing that was ever on the wire: those numbers are taken.

What was granted is the bound, whatever the peer does. The receiver counts the same costs from the same beginning, and
its credit never shrinks: a message that begins outside of it was not sent by the rules, however slow the connection and
however often it was resumed (repeats are not counted), so there is no slack. The sender, for its part, has no more
under way than `unacknowledged_bytes_max`, however much a peer grants that acknowledges nothing.

Invariants: acked <= sent <= queued numbers; `sent` and `waiting` together hold exactly acked+1..queued; received grows
by one; consumed <= received cost; credit never shrinks.
"""

from collections import deque
from collections.abc import Callable
from enum import Enum

from msgspec import Struct

from holdfast.model.costs import cost_bytes
from holdfast.model.errors import PeerViolation
from holdfast.model.messages import LAP, Ack, Data, Frame, Kind, SessionMessage
from holdfast.model.slow_messages import Skipped
from holdfast.model.wire import carried
from holdfast.protocols.config import LinkConfig


class LinkState(Enum):
    """CLOSED: no connection. OPENING: we dialled and said hello. OPEN: both know where to go on."""

    CLOSED = "closed"
    OPENING = "opening"
    OPEN = "open"


class LinkError(PeerViolation):
    """The peer broke the session's rules: a number was skipped, or something acknowledged that was never sent."""


class CreditExceeded(PeerViolation):
    """The peer sent what it had no credit for. It does not keep to flow control, so its session is over."""


class LinkImage(Struct):
    """One end of a session, for the disk: enough to go on with it after a crash."""

    peer: str
    session: int
    received: int
    received_bytes: int
    acked: int
    queued_bytes: int
    items: list[tuple[int, int, int, SessionMessage]]
    """What the peer has not acknowledged: number, and cost before and after it."""


class _Item:
    __slots__ = ("message", "seq", "start", "stop")

    def __init__(self, seq: int, start: int, stop: int, message: SessionMessage) -> None:
        self.seq, self.start, self.stop, self.message = seq, start, stop, message

    @property
    def is_urgent(self) -> bool:
        return self.start == self.stop


class Link:
    """The session with one peer. Methods return the frames to send now, in order."""

    __slots__ = (
        "ack_at",
        "acked",
        "config",
        "consumed_bytes",
        "credit_in",
        "credit_out",
        "dialler",
        "fell_silent",
        "grant_at",
        "heard_at",
        "kind",
        "peer",
        "progress_at",
        "queued",
        "queued_bytes",
        "received",
        "received_bytes",
        "redial_s",
        "resumable",
        "said_received",
        "sent",
        "session",
        "spoke_at",
        "state",
        "transmitted",
        "unanswered",
        "waiting",
    )

    def __init__(self, peer: str, kind: Kind, session: int, dialler: bool, config: LinkConfig, now: float) -> None:
        self.peer, self.kind, self.session, self.dialler, self.config = peer, kind, session, dialler, config
        self.state = LinkState.CLOSED
        self.resumable = False
        self.queued = self.acked = self.transmitted = 0
        self.queued_bytes = 0
        self.credit_out = 0
        self.sent: deque[_Item] = deque()
        self.waiting: deque[_Item] = deque()
        self.received = self.said_received = 0
        self.received_bytes = self.consumed_bytes = 0
        self.credit_in = config.window_bytes
        self._said()
        self.heard_at = self.spoke_at = self.progress_at = now
        self.redial_s = config.redial_s
        self.fell_silent = False
        """Whether nobody has closed the last connection: it brought nothing any more, and was given up."""
        self.unanswered = 0
        """How many hellos in a row were not answered in time."""

    @property
    def is_open(self) -> bool:
        return self.state is LinkState.OPEN

    def image(self) -> LinkImage:
        """What to write down. What comes later, and was consumed, is taken in again in the same order by `replay`."""
        items = [(one.seq, one.start, one.stop, one.message) for one in (*self.sent, *self.waiting)]
        return LinkImage(
            self.peer, self.session, self.received, self.received_bytes, self.acked, self.queued_bytes, items
        )

    @classmethod
    def revived(cls, image: LinkImage, kind: Kind, config: LinkConfig, now: float) -> "Link":
        """The accepting end of a session that was written down; all that had come was consumed."""
        link = cls(image.peer, kind, image.session, False, config, now)
        link.resumable = True
        link.received = link.said_received = image.received
        link.received_bytes = link.consumed_bytes = image.received_bytes
        link.acked, link.queued_bytes = image.acked, image.queued_bytes
        link.waiting.extend(_Item(*one) for one in image.items)
        link.queued = link.transmitted = image.acked + len(image.items)
        link.credit_in = image.received_bytes + config.window_bytes
        link._said()
        return link

    def replay(self, message: SessionMessage) -> None:
        """A message that came, and was consumed, after the image was made."""
        self.received += 1
        self.received_bytes += cost_bytes(message)
        self.consumed_bytes = self.received_bytes
        self.said_received = self.received
        self.credit_in = self.consumed_bytes + self.config.window_bytes
        self._said()

    # ------------------------------------------------------------------------------------------------- outgoing

    @property
    def backlog_bytes(self) -> int:
        """Cost that waits for credit or for a connection."""
        return self.queued_bytes - self.waiting[0].start if self.waiting else 0

    @property
    def unacknowledged_bytes(self) -> int:
        """Cost that the peer has not acknowledged: what this end must keep."""
        if self.sent:
            return self.queued_bytes - self.sent[0].start
        return self.backlog_bytes

    def send(self, message: SessionMessage) -> Data | None:
        """Number the message; the frame to send now, or `None` if it has to wait."""
        self.queued += 1
        start = self.queued_bytes
        cost = cost_bytes(message)
        self.queued_bytes = start + cost
        item = _Item(self.queued, start, self.queued_bytes, message)
        if self.state is LinkState.OPEN and not self.waiting and (not cost or self._may_send(start)):
            self.sent.append(item)
            self.transmitted = item.seq
            return Data(item.seq % LAP, message)
        if cost:
            self.waiting.append(item)
            return None
        self._overtake(item)
        return self._send_now() if self.waiting[0] is item and self.state is LinkState.OPEN else None

    def _may_send(self, start: int) -> bool:
        """Whether a message that begins there may leave: the peer has room, and we have room to keep it."""
        sent = self.sent
        return start < self.credit_out and (not sent or start - sent[0].start < self.config.unacknowledged_bytes_max)

    def _overtake(self, item: _Item) -> None:
        """Put an urgent message before what has never left and is not urgent; that takes the next numbers."""
        behind: list[_Item] = []
        while self.waiting and self.waiting[-1].seq > self.transmitted and not self.waiting[-1].is_urgent:
            behind.append(self.waiting.pop())
        if behind:
            item.seq, item.start, item.stop = behind[-1].seq, behind[-1].start, behind[-1].start
        for one in behind:
            one.seq += 1
        self.waiting.append(item)
        self.waiting.extend(reversed(behind))

    def _send_now(self) -> Data:
        item = self.waiting.popleft()
        self.sent.append(item)
        self.transmitted = max(self.transmitted, item.seq)
        return Data(item.seq % LAP, item.message)

    def _sendable(self) -> list[Frame]:
        frames: list[Frame] = []
        waiting = self.waiting
        while waiting and (waiting[0].is_urgent or self._may_send(waiting[0].start)):
            frames.append(self._send_now())
        return frames

    def skip(self, skipped: Skipped) -> None:
        """Say, behind what waits, that something was left out there; what says so already says it of this, too."""
        last = self.waiting[-1]
        if isinstance(last.message, Skipped) and last.seq > self.transmitted:
            last.message = last.message.joined(skipped)
            last.stop = self.queued_bytes = last.start + cost_bytes(last.message)
        else:
            self.send(skipped)

    def drop_oldest(self, bytes_left: int, account: Callable[[SessionMessage], Skipped | None]) -> bool:
        """Drop messages that never left, the oldest first, until no more than that waits; whether there were any.

        `account` says of a message what stands in its place, or `None` if it has to stay. Messages that are next to
        each other are dropped into one place; those that stay get the numbers that are free then.
        """
        excess = self.backlog_bytes - bytes_left
        waiting, self.waiting = self.waiting, deque()
        dropped_bytes = 0
        for item in waiting:
            if item.seq <= self.transmitted:
                self.waiting.append(item)
                continue
            skipped = account(item.message) if dropped_bytes < excess else None
            if skipped is not None:
                dropped_bytes += item.stop - item.start
            self._put_back(item, skipped)
        if self.waiting:
            self.queued, self.queued_bytes = self.waiting[-1].seq, self.waiting[-1].stop
        return dropped_bytes > 0

    def _put_back(self, item: _Item, skipped: Skipped | None) -> None:
        """Append what waited to `waiting`, or what stands in its place, with the next number and cost."""
        message = item.message if skipped is None else skipped
        last = self.waiting[-1] if self.waiting else None
        never_left = last is not None and last.seq > self.transmitted
        if last is not None and never_left and isinstance(message, Skipped) and isinstance(last.message, Skipped):
            last.message = last.message.joined(message)
            last.stop = last.start + cost_bytes(last.message)
            return
        cost = item.stop - item.start if skipped is None else cost_bytes(skipped)
        if last is not None:
            item.seq, item.start = last.seq + 1, last.stop
        item.message, item.stop = message, item.start + cost
        self.waiting.append(item)

    def on_ack(self, received: int, credit: int, now: float) -> list[Frame]:
        """What the peer has need not be kept; what it has room for may go."""
        if received > self.queued:
            raise LinkError(f"{self.peer} acknowledged message {received}, but only {self.queued} were sent to it")
        if received > self.acked or credit > self.credit_out:
            self.progress_at = now
        sent = self.sent
        while sent and sent[0].seq <= received:
            sent.popleft()
        self.acked = max(self.acked, received)
        if credit > self.credit_out:
            self.credit_out = credit
        return self._sendable() if self.waiting else []

    # ------------------------------------------------------------------------------------------------- incoming

    def on_data(self, data: Data) -> SessionMessage | None:
        """The message, or `None` if it is a repeat."""
        number = self.received + 1
        if data.seq != number % LAP:
            # Half a lap back is a repeat, the other half is ahead of us.
            ahead = (data.seq - number) % LAP
            if ahead >= LAP // 2:
                return None
            raise LinkError(f"{self.peer} sent message {number + ahead} after {self.received}: something was skipped")
        cost = cost_bytes(data.message)
        if cost and self.received_bytes >= self.credit_in:
            raise CreditExceeded(
                f"{self.peer} sent message {number} after {self.received_bytes} bytes, with credit for "
                f"{self.credit_in}: it has to wait for more"
            )
        self.received = number
        self.received_bytes += cost
        return data.message

    def consume(self, message: SessionMessage) -> None:
        """The node is done with a message: its cost may be granted again."""
        self.consumed_bytes += cost_bytes(message)

    def acknowledgement(self, grant: bool, eager: bool) -> Ack | None:
        """What to tell the peer now, if it is worth a frame. Credit grows only while `grant` is true."""
        config = self.config
        fresh = self.received - self.said_received
        credit = max(self.credit_in, self.consumed_bytes + config.window_bytes) if grant else self.credit_in
        enough = self.received >= self.ack_at or (grant and self.consumed_bytes >= self.grant_at)
        if self.state is not LinkState.OPEN or not (enough or (eager and (fresh or credit > self.credit_in))):
            return None
        self.credit_in, self.said_received = credit, self.received
        self._said()
        return Ack(self.received, credit)

    def _said(self) -> None:
        """The number, and the cost consumed, from which on there is enough to say again."""
        config = self.config
        self.ack_at = self.said_received + config.ack_frames
        self.grant_at = self.credit_in - config.window_bytes + (config.window_bytes + 3) // 4

    def owes(self, grant: bool) -> bool:
        """Whether there is something to acknowledge, or credit to give while `grant` is true."""
        room = grant and self.consumed_bytes + self.config.window_bytes > self.credit_in
        return room or self.received > self.said_received

    # ----------------------------------------------------------------------------------------------- connection

    def opening(self) -> None:
        """The connection that we dialled is there; `Hello` goes out."""
        self.state = LinkState.OPENING

    def open(self, received: int, credit: int, now: float) -> list[Frame]:
        """The peer said what it has: go on from there."""
        if not self.acked <= received <= self.queued:
            raise LinkError(
                f"{self.peer} says it has {received} messages of this session; it acknowledged {self.acked} "
                f"and {self.queued} were sent"
            )
        self.state = LinkState.OPEN
        self.resumable, self.fell_silent, self.unanswered = True, False, 0
        self.redial_s = self.config.redial_s
        self._wait_again()
        while self.waiting and self.waiting[0].seq <= received:
            self.waiting.popleft()
        self._verify_waiting()
        self.acked = received
        self.credit_out = max(self.credit_out, credit)
        self.heard_at = self.progress_at = now
        # What we last said in an Ack may have been lost: this end's Hello or Welcome has just repeated it.
        self.said_received = self.received
        self._said()
        return self._sendable()

    def closed(self) -> None:
        """The connection is gone. What was sent and not acknowledged waits again."""
        self.state = LinkState.CLOSED
        self._wait_again()

    def _wait_again(self) -> None:
        self.waiting.extendleft(reversed(self.sent))
        self.sent.clear()

    def _verify_waiting(self) -> None:
        """Raise `AlteredBatch` if something that waits was altered in our own memory.

        1. A bit of a batch that we keep flips. 2. The peer refuses its frame and ends the connection. 3. We resume,
        send the same again, and the peer refuses it again, for ever. So a link that resumes looks at what it has first.
        """
        for item in self.waiting:
            batch = carried(item.message)
            if batch is not None:
                batch.verify()

    def check_invariants(self) -> None:
        numbers = [item.seq for item in (*self.sent, *self.waiting)]
        assert numbers == list(range(self.acked + 1, self.queued + 1)), f"link to {self.peer} holds {numbers}"
        assert self.consumed_bytes <= self.received_bytes, f"link to {self.peer} consumed what never came"
        assert self.said_received <= self.received, f"link to {self.peer} acknowledged what never came"
