"""All the links of one node, and everything about connections that brokers and clients have in common.

The hub answers hellos, resumes sessions, acknowledges, grants credit, sends heartbeats, gives up silent connections
and redials. Its owner sees sessions only: a link opens, brings messages in order, ends.

Bounds. A link's backlog over `backlog_bytes_max` makes the node *congested* towards that peer: every other link stops
getting new credit until the backlog has halved, so the pressure travels towards the publishers. It cannot close a
circle: what waits for A->B waits for B->C with C != A, and the overlay is a tree. A client that lets a full backlog lie
for `stall_s` loses its session, with a report; nobody waits for it longer. For one that is away nobody waits at all,
nor for one whose subscriptions ask for that (`protocols.slow_readers`): it costs the bytes that are kept for it, up to
`away_bytes_max`, and beyond that its session ends at once.

A client whose session ended because it took too little may not know: the connection was jammed. So the reason is kept
(of the last `ENDED_MAX` such sessions), and it is told when it comes back to go on.
"""

from collections.abc import Callable

from holdfast.model.batches import PAYLOAD_BYTES_MAX
from holdfast.model.errors import PeerViolation
from holdfast.model.messages import (
    REASON_CHARACTERS_MAX,
    WIRE_VERSION,
    Ack,
    Data,
    Frame,
    Goodbye,
    Hello,
    Kind,
    Levels,
    Ping,
    Pong,
    Refusal,
    SessionMessage,
    Welcome,
)
from holdfast.protocols.by_kind import ByKind
from holdfast.protocols.config import LinkConfig
from holdfast.protocols.hub_owner import HubOwner
from holdfast.protocols.links import Link, LinkError, LinkState
from holdfast.protocols.node import CancelTimer, Connect, Disconnect, Effects, Report, Send, SetTimer

ENDING = ("excluded", "moved", "late", "elsewhere", "apart", "same-tree", "unknown-session", "taken", "misuse")
"""Refusals that may come in the middle of a session."""
ACK_TIMER = "acks"
BEAT_TIMER = "heartbeat"
REDIAL_TIMER = "redial:"
ENDED_MAX = 1024
HELLO_DOUBLINGS_MAX = 4
"""How often a client doubles its patience with a broker that does not answer its hello."""
READY_SOON_S = 0.05
"""A broker that is told to come back later does so within this time, however often it is told."""


class Hub:
    """The links of one node. Effects are appended to `out`, which the node's entry points hand over."""

    def __init__(
        self, owner: HubOwner, name: str, kind: Kind, cluster: str, config: LinkConfig, incarnation: int
    ) -> None:
        self.owner, self.name, self.kind, self.cluster, self.config = owner, name, kind, cluster, config
        self.incarnation = incarnation
        self.links: ByKind[Link] = ByKind()
        self.out: Effects = []
        self.congested: set[str] = set()
        self._overfull: set[str] = set()
        self._owing: dict[str, None] = {}
        self._eager: dict[str, None] = {}
        self._due = False
        """Whether some acknowledgement is worth a frame at the end of this turn."""
        self._ack_timer_set = False
        self._ping = 0
        self._addresses: dict[str, str] = {}
        self.uncertain: set[str] = set()
        """Of whom it is not known how far it has numbered its publications, only up to where it may have."""
        self.taken: Callable[[str], Refusal | None] = lambda _: None
        """Whether a client's session is over because another one has its name, and the sentence that says so."""
        self.tolerance = 0
        """What `Welcome` says of the loss of brokers."""
        self.relays = True
        """Whether what one broker sends may go on to another. If not, no circle of brokers can wait for each other."""
        self.sited = False
        """What `Hello` says of a client that has sessions with several brokers of a site."""
        self.granting = True
        """False while the node leaves: clients get no new credit."""
        self.border: Callable[[Link, SessionMessage], None] | None = None
        """Raises `PeerViolation` for what a peer may not send in its place: see `protocols.border`."""
        self.is_broker: Callable[[str], bool] = lambda _name: False
        """Whether that is the name of a broker, as far as is known here: no client may have it."""
        self.are_waited_for: Callable[[str], bool] = lambda _client: True
        """Whether others wait while that client has too much to take."""
        self._ended: dict[tuple[str, int], Refusal] = {}
        """By client and session: why it was ended though the client may not know."""
        self.slow_ended = 0
        """How many sessions were ended for that reason."""

    # ------------------------------------------------------------------------------------------------- the node

    def start(self) -> None:
        self.out.append(SetTimer(BEAT_TIMER, self.config.heartbeat_s))

    def dial(self, peer: str, now: float, address: str = "") -> None:
        """Begin a session with that peer, as the one who dials."""
        self.links[peer] = Link(peer, "broker", self.incarnation, True, self.config, now)
        self._addresses[peer] = address
        self.out.append(Connect(peer, address))

    def report(self, report: Report) -> None:
        self.out.append(report)

    def take(self) -> Effects:
        """The effects so far; the list begins anew."""
        out, self.out = self.out, []
        return out

    def send(self, peer: str, message: SessionMessage) -> None:
        """Queue a message on that peer's link; it leaves now if it may."""
        link = self.links[peer]
        data = link.send(message)
        if data is not None:
            self.out.append(Send(peer, data))
        elif link.backlog_bytes > self.config.backlog_bytes_max:
            self._note_backlog(link)

    def _note_backlog(self, link: Link) -> None:
        """More waits for that peer than others should add to, unless it is a client that nobody waits for."""
        if self._is_left_alone(link):
            if link.backlog_bytes > self.config.away_bytes_max:
                self._overfull.add(link.peer)
        elif link.peer not in self.congested:
            self.congested.add(link.peer)
            self.out.append(Report("congested", peer=link.peer))

    def _is_left_alone(self, link: Link) -> bool:
        return link.kind == "client" and not (link.is_open and self.are_waited_for(link.peer))

    def wait_no_longer(self, peer: str) -> None:
        """That client is not waited for any more, if it was: its subscriptions have changed."""
        if peer in self.congested and not self.are_waited_for(peer):
            self._relieve(peer)

    def consumed(self, link: Link, message: SessionMessage) -> None:
        """The owner is done with a message that this link brought."""
        link.consume(message)
        self._owing[link.peer] = None
        if link.consumed_bytes >= link.grant_at:
            self._due = True

    def acknowledge_soon(self, peer: str) -> None:
        """Acknowledge that peer at the end of this turn: somebody there waits for it."""
        self._owing[peer] = self._eager[peer] = None
        self._due = True

    def ask(self, peer: str) -> None:
        """Ask that peer to acknowledge at once what was sent to it."""
        self._ping += 1
        self.out.append(Send(peer, Ping(self._ping)))

    def end(self, peer: str, reason: str, say: bool = True, refusal: Refusal | None = None) -> None:
        """End that peer's session for good; with a `refusal` it is told that it need not try elsewhere."""
        link = self.links.pop(peer, None)
        if link is None:
            return
        if link.state is not LinkState.CLOSED:
            if say:
                self.out.append(Send(peer, refusal or Goodbye(reason)))
            self.out.append(Disconnect(peer, reason))
        self._forget(peer)
        self.owner.link_ended(link, reason)

    def end_slow(self, peer: str, reason: str) -> None:
        """End the session of a client that takes too little, and tell it so, now or when it comes back."""
        link = self.links.get(peer)
        if link is not None:
            # Whatever passes from now on is gone for it, whichever broker it turns to.
            refusal = Refusal("late", reason[:REASON_CHARACTERS_MAX])
            self._ended[peer, link.session] = refusal
            if len(self._ended) > ENDED_MAX:
                del self._ended[next(iter(self._ended))]
            self.slow_ended += 1
            self.end(peer, reason, refusal=refusal)

    def refuse(self, peer: str, refusal: Refusal) -> None:
        """End that peer's session and tell it why; the owner knows, so it is not told."""
        link = self.links.pop(peer, None)
        if link is not None and link.state is not LinkState.CLOSED:
            self.out += [Send(peer, refusal), Disconnect(peer, refusal.reason)]
        if link is not None:
            self._forget(peer)

    def set_aside(self, peer: str) -> Link | None:
        """Take that peer's session out, as it is; `restore` puts it back."""
        link = self.links.pop(peer, None)
        if link is not None:
            self._forget(peer)
        return link

    def restore(self, link: Link) -> None:
        """Go on with a session that was set aside, or refused for a reason that may pass: it needs a connection."""
        link.closed()
        link.redial_s = self.config.redial_s
        self.links[link.peer] = link
        self._redial(link)

    def abandon(self, reason: str) -> None:
        """Forget every session, say goodbye on those that are connected, and stop."""
        for peer, link in list(self.links.items()):
            if link.state is not LinkState.CLOSED:
                self.out += [Send(peer, Goodbye(reason)), Disconnect(peer, reason)]
        self.links.clear()
        self._owing.clear()
        self._eager.clear()
        self.congested.clear()
        self.out += [CancelTimer(BEAT_TIMER), CancelTimer(ACK_TIMER)]

    def _forget(self, peer: str) -> None:
        self._owing.pop(peer, None)
        self._eager.pop(peer, None)
        self._relieve(peer)

    # -------------------------------------------------------------------------------------------- entry points

    def peer_up(self, peer: str, now: float) -> None:
        link = self.links.get(peer)
        if link is None or not link.dialler:
            self.out.append(Disconnect(peer, "not wanted any more"))
            return
        link.opening()
        link.heard_at = link.spoke_at = now
        hello = Hello(
            WIRE_VERSION,
            self.name,
            self.kind,
            self.cluster,
            link.session,
            link.resumable,
            link.received,
            link.credit_in,
            self.sited,
        )
        self.out.append(Send(peer, hello))

    def peer_down(self, peer: str) -> None:
        link = self.links.get(peer)
        if link is None:
            return
        was_open = link.state is LinkState.OPEN
        link.closed()
        if link.kind == "client":
            # It may come back in half a minute: until then it costs the bytes that are kept for it, and nobody waits.
            self._relieve(peer)
        if link.dialler:
            self._redial(link)
        if was_open:
            self.owner.link_closed(link)

    def _redial(self, link: Link) -> None:
        self.out.append(SetTimer(REDIAL_TIMER + link.peer, self._spread(link.redial_s)))
        link.redial_s = min(2 * link.redial_s, self.config.redial_max_s)

    def _spread(self, wait_s: float) -> float:
        """The wait before an attempt, with chance where there is some."""
        return wait_s

    def _ask_again(self, link: Link) -> None:
        """The peer is there and will be ready soon. A child does not lose patience: it may have a deep tree below it.

        Clients may be many, and come back less and less often.
        """
        if self.kind == "broker":
            link.redial_s = min(link.redial_s, READY_SOON_S)
        self._redial(link)

    def receive(self, peer: str, frame: Frame, now: float) -> None:
        # Every frame passes here, and to ask whether one is an instance of a class that it is not is a long way.
        if type(frame) is Hello:
            self._on_hello(peer, frame, now)
            return
        link = self.links.get(peer)
        if link is None or link.state is LinkState.CLOSED:
            return
        link.heard_at = now
        if type(frame) is Pong:
            return  # That it is there is all that it says.
        try:
            self._on_frame(link, frame, now)
        except PeerViolation as violation:
            self._violated(link, violation)

    def _violated(self, link: Link, violation: PeerViolation) -> None:
        """A client that says what it may not say has no session any more; a broker is needed, and may come back.

        So may a peer that lost count: our memory of the session is intact, and a new connection goes on from there.
        """
        reason = str(violation)
        self.out.append(Report("violation", peer=link.peer, detail=reason))
        if link.kind == "client" and not isinstance(violation, LinkError):
            # Not a goodbye: a client whose broker leaves tries the next one, and would say the same there.
            refusal = Refusal("misuse", reason[:REASON_CHARACTERS_MAX])
            self.end(link.peer, refusal.reason, refusal=refusal)
        else:
            self._drop(link, reason)

    def throw_out(self, peer: str, reason: str) -> None:
        """A client said what nobody can read, and would say it again over the next connection."""
        link = self.links.get(peer)
        if link is not None and link.kind == "client":
            self._violated(link, PeerViolation(reason))

    def _on_frame(self, link: Link, frame: Frame, now: float) -> None:
        if isinstance(frame, Data):
            message = link.on_data(frame)
            if message is not None:
                if self.border is not None:
                    self.border(link, message)
                self._owing[link.peer] = None
                if link.received >= link.ack_at:
                    self._due = True
                self.owner.link_message(link, message)
        elif isinstance(frame, Ack):
            self._transmit(link, link.on_ack(frame.received, frame.credit, now))
            self.owner.link_acknowledged(link)
        elif isinstance(frame, Levels):
            self.owner.link_levels(link, frame)
        elif isinstance(frame, Ping):
            # Whoever asks whether we are there may wait to hear how far its messages have come.
            self.out.append(Send(link.peer, Pong(frame.number)))
            self.acknowledge_soon(link.peer)
        elif isinstance(frame, Refusal) and frame.code in ENDING and link.kind == "broker":
            self._on_refusal(link, frame)
        elif isinstance(frame, Welcome | Refusal) and link.state is not LinkState.OPENING:
            raise PeerViolation(f"{link.peer} sent {type(frame).__name__}, but nobody had said hello to it")
        elif isinstance(frame, Welcome):
            self._on_welcome(link, frame, now)
        elif isinstance(frame, Refusal):
            self._on_refusal(link, frame)
        elif isinstance(frame, Goodbye):
            self.end(link.peer, frame.reason, say=False)

    def timer(self, name: str, now: float) -> bool:
        """Whether the timer was the hub's."""
        if name == ACK_TIMER:
            self._ack_timer_set = False
            self._eager.update(self._owing)
            self._due = True
            self.settle()
        elif name == BEAT_TIMER:
            self.out.append(SetTimer(BEAT_TIMER, self.config.heartbeat_s))
            self._beat(now)
        elif name.startswith(REDIAL_TIMER):
            link = self.links.get(name.removeprefix(REDIAL_TIMER))
            if link is not None and link.state is LinkState.CLOSED:
                self.out.append(Connect(link.peer, self._addresses.get(link.peer, "")))
        else:
            return False
        return True

    def settle(self) -> None:
        """Acknowledge and grant what is due; end the sessions that cost too much."""
        if self._overfull:
            self._end_overfull()
        if self._due:
            self._due = False
            self._acknowledge()
        if self._owing and not self._ack_timer_set:
            self._ack_timer_set = True
            self.out.append(SetTimer(ACK_TIMER, self.config.ack_delay_s))

    def overfull(self) -> list[str]:
        """Clients that nobody waits for, and for whom more is kept than a session may cost: their sessions end now."""
        links = self.links
        if not self._overfull:
            return []
        return sorted(peer for peer in self._overfull if peer in links and self._is_left_alone(links[peer]))

    def _end_overfull(self) -> None:
        bytes_max = self.config.away_bytes_max
        for peer in self.overfull():
            if self.links[peer].is_open:
                self.end_slow(peer, f"{peer} did not take what it asked for: more than {bytes_max} bytes were kept")
            else:
                self.end(peer, f"more than {bytes_max} bytes were kept for {peer} while it was away", say=False)
        self._overfull.clear()

    def _acknowledge(self) -> None:
        for peer in list(self._owing):
            link = self.links[peer]
            if not link.owes(grant=True):
                # Mostly so: every heartbeat asks.
                del self._owing[peer]
                continue
            grant = self._may_grant(link) and self._has_room_for(link)
            ack = link.acknowledgement(grant, peer in self._eager)
            if ack is not None:
                self.out.append(Send(peer, ack))
            # What may not be granted is not asked for again at every tick: whoever is relieved wakes it up.
            if link.state is not LinkState.OPEN or not link.owes(grant):
                del self._owing[peer]
        self._eager.clear()

    def _may_grant(self, link: Link) -> bool:
        """A node that leaves takes nothing new from clients; what brokers send may be what it has to finish."""
        return self.granting or link.kind == "broker"

    def _has_room_for(self, link: Link) -> bool:
        """Whether what this link brings can go on. Where brokers do not relay, what they bring is for clients alone."""
        congested = self.congested
        if congested and link.kind == "broker" and not self.relays:
            congested = {peer for peer in congested if self.links[peer].kind == "client"}
        return not congested or congested == {link.peer}

    # --------------------------------------------------------------------------------------------------- hellos

    def _on_hello(self, peer: str, hello: Hello, now: float) -> None:
        known = self.links.get(peer)
        same = known is not None and known.session == hello.session and known.kind == hello.kind
        if known is not None and same and not known.dialler:
            self._welcome(known, hello, now, fresh=False)
            return
        refusal = self._refuse(peer, hello, known) or self.owner.admit(hello)
        if refusal is not None:
            self.out.append(Send(peer, refusal))
            self.out.append(Disconnect(peer, refusal.reason))
            if known is not None and known.dialler:
                # Closing its connection took our own attempt to reach it along.
                known.closed()
                self._redial(known)
            return
        if known is not None:
            # The driver has replaced the connection already: only the old session's state is left to end.
            known.closed()
            self.end(peer, "a newer session under the same name has begun", say=False)
        link = Link(peer, hello.kind, hello.session, False, self.config, now)
        self.links[peer] = link
        self._welcome(link, hello, now, fresh=True)

    def turn_away(self, hello: Hello) -> Refusal | None:
        """Why nobody may come under that name, whatever else it says; see `protocols.node.Doorkeeper`."""
        known = self.links.get(hello.node)
        if hello.node == self.name:
            return Refusal("name", f"the name {hello.node!r} is the broker's own: choose another one")
        if known is not None and known.kind != hello.kind:
            return Refusal("name", f"{self.name} has a {known.kind} named {hello.node!r} already: choose another name")
        if hello.kind == "client" and self.is_broker(hello.node):
            return Refusal("name", f"{hello.node!r} is the name of a broker: choose another name for the client")
        return None

    def _refuse(self, peer: str, hello: Hello, known: Link | None) -> Refusal | None:
        if hello.version != WIRE_VERSION:
            return Refusal("version", f"{self.name} speaks version {WIRE_VERSION} of the wire, not {hello.version}")
        if hello.cluster != self.cluster:
            return Refusal("cluster", f"{self.name} belongs to cluster {self.cluster!r}, not {hello.cluster!r}")
        if turned_away := self.turn_away(hello):
            return turned_away
        if hello.node != peer:
            return Refusal("misuse", f"{peer} said hello as {hello.node!r}: a connection belongs to one node")
        if known is not None and known.dialler:
            return Refusal("name", f"{self.name} has a {known.kind} named {hello.node!r} already: choose another name")
        if hello.received and not hello.resume:
            return Refusal("misuse", f"{hello.node} begins a session of which it has {hello.received} messages already")
        if hello.resume:
            unknown = Refusal("unknown-session", f"{self.name} does not know this session of {hello.node} (any more)")
            return self.taken(hello.node) or self._ended.get((hello.node, hello.session)) or unknown
        return None

    def _welcome(self, link: Link, hello: Hello, now: float, fresh: bool) -> None:
        if not link.acked <= hello.received <= link.queued:
            reason = f"{hello.node} has {hello.received} messages of a session in which {link.queued} were sent"
            self.out += [Send(link.peer, Refusal("unknown-session", reason)), Disconnect(link.peer, reason)]
            return
        published, protocol, guarantees = self.owner.welcome(hello)
        answer = Welcome(
            self.name,
            link.received,
            link.credit_in,
            published,
            protocol,
            guarantees,
            PAYLOAD_BYTES_MAX,
            self.tolerance,
            hello.node not in self.uncertain,
        )
        self.out.append(Send(link.peer, answer))
        self._transmit(link, link.open(hello.received, hello.credit, now))
        self._owing[link.peer] = None
        self._due = True
        self.owner.link_opened(link, fresh)

    def _on_welcome(self, link: Link, welcome: Welcome, now: float) -> None:
        fresh = not link.resumable
        if not self.on_welcome(link, welcome, fresh):
            return
        self._transmit(link, link.open(welcome.received, welcome.credit, now))
        self._owing[link.peer] = None
        self._due = True
        self.owner.link_opened(link, fresh)

    def on_welcome(self, link: Link, welcome: Welcome, fresh: bool) -> bool:  # noqa: ARG002
        """What else the welcome says, and whether the session may go on: nothing was sent on it yet."""
        return True

    def _on_refusal(self, link: Link, refusal: Refusal) -> None:
        link.closed()
        self.out.append(Disconnect(link.peer, refusal.reason))
        if refusal.code == "not-ready":
            self._ask_again(link)
        else:
            self.owner.link_refused(link, refusal)

    # ----------------------------------------------------------------------------------------------- housekeeping

    def _transmit(self, link: Link, frames: list[Frame]) -> None:
        if frames:
            self.out += [Send(link.peer, frame) for frame in frames]
        if link.peer in self.congested and 2 * link.backlog_bytes <= self.config.backlog_bytes_max:
            self._relieve(link.peer)

    def _relieve(self, peer: str) -> None:
        """The backlog towards this peer is no obstacle any more: whoever was not granted credit may get it."""
        if peer in self.congested:
            self.congested.discard(peer)
            self.out.append(Report("relieved", peer=peer))
            self._owing.update((name, None) for name, link in self.links.items() if link.owes(grant=True))
            self._eager.update(self._owing)
            self._due = True

    def _drop(self, link: Link, reason: str) -> None:
        self.out.append(Disconnect(link.peer, reason))
        self.peer_down(link.peer)

    def _beat(self, now: float) -> None:
        """Give up silent connections, and ask for signs of life.

        Clients ask their broker at every beat of their own, and are thousands. So a broker asks a client only after
        half of the silence that it allows: until then the client's own questions are a sign of life.
        """
        silence_s = self.config.silence_s
        for link in list(self.links.values()):
            if link.state is LinkState.CLOSED:
                continue
            silent_s = now - link.heard_at
            if silent_s >= silence_s:
                if silent_s >= self._patience_s(link):
                    self._fell_silent(link, silent_s)
            elif link.state is LinkState.OPEN and (link.kind == "broker" or 2 * silent_s >= silence_s):
                self.ask(link.peer)

    def _patience_s(self, link: Link) -> float:
        """How long a peer may say nothing. The answer to a client's hello may take longer with every attempt.

        1. Thousands of clients say hello at once, and their broker takes longer than a silence to answer them all.
        2. Those that have waited for a silence say hello anew, and the broker answers the hellos of connections that
        are closed already. 3. With the same patience as before the broker never gets to the end of the queue.
        """
        doublings = min(link.unanswered, HELLO_DOUBLINGS_MAX) if self.kind == "client" and not link.is_open else 0
        return self.config.silence_s * 2.0**doublings

    def _fell_silent(self, link: Link, silent_s: float) -> None:
        link.fell_silent = True
        link.unanswered += not link.is_open
        self._drop(link, f"{link.peer} has been silent for {silent_s:.1f} s")

    def close_all(self, reason: str) -> None:
        """Say goodbye on every link: the node leaves."""
        for peer in list(self.links):
            self.end(peer, reason)
        self.out += [CancelTimer(BEAT_TIMER), CancelTimer(ACK_TIMER)]

    def drained(self) -> bool:
        """Whether every open link has been acknowledged to the end."""
        return all(not link.sent and not link.waiting for link in self.links.values() if link.state is LinkState.OPEN)

    def waiting_for(self) -> list[str]:
        """In words, whose credit something waits for. What waits for a connection counts when it is too much."""
        waiting = [
            peer for peer, link in self.links.items() if peer in self.congested or (link.is_open and link.waiting)
        ]
        return [f"credit from {peer}" for peer in sorted(waiting)]

    def check_invariants(self) -> None:
        for link in self.links.values():
            link.check_invariants()
        assert self.congested <= set(self.links), "congested towards a peer that is gone"
