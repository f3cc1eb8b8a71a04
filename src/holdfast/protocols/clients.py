"""A client as a pure machine: the same for every protocol, under every driver.

A client is a leaf with one link, to its broker. It numbers its publications, coalesces consecutive ones on one topic
with one guarantee into a batch until the driver settles (so an idle client sends at once and a busy one sends full
batches), and keeps what was not accepted. What comes in is passed on once per message, however many of the client's
subscriptions match; after an unsubscription nothing that only it wanted comes through.

Bounds: the driver awaits while `backlog_bytes` is over its limit; deliveries that the driver has not said to be
consumed take up the link's window, and then the broker waits, or does what the subscriptions ask for (`wishes`).
"""

from collections import deque
from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from holdfast.model.batches import BATCH_BYTES_MAX, BATCH_COUNT_MAX, Attributes, Batch, Keys, make_batch
from holdfast.model.crossed_messages import Crossed
from holdfast.model.errors import LocalMisuse, PeerViolation, TopicError
from holdfast.model.filters import Value
from holdfast.model.guarantees import TOTAL
from holdfast.model.hole_messages import Hole
from holdfast.model.messages import (
    Confirm,
    ConfirmAck,
    Frame,
    Hello,
    Levels,
    Publish,
    Refusal,
    Rejected,
    SessionMessage,
    SubscribeAck,
    Unsubscribe,
    UnsubscribeAck,
)
from holdfast.model.name_messages import Recall, Recalled
from holdfast.model.receipt_messages import CLEAN, Finding
from holdfast.model.slow_messages import SLOW_S, Skipped, Slow
from holdfast.model.trace import CROSSED
from holdfast.protocols.client_hub import ClientHub
from holdfast.protocols.client_requests import ClientRequests
from holdfast.protocols.config import ClientConfig, LinkConfig
from holdfast.protocols.crossed import CrossedNumbers
from holdfast.protocols.holes import HolesHeard, over
from holdfast.protocols.hub import ACK_TIMER, BEAT_TIMER
from holdfast.protocols.links import Link, LinkState
from holdfast.protocols.node import (
    Accepted,
    Attached,
    CancelTimer,
    Completed,
    Deliver,
    Effects,
    Ended,
    Failed,
    Missing,
    Report,
    SetTimer,
)
from holdfast.protocols.routing import RoutingTable
from holdfast.protocols.runs import IMPLICIT_KEYS, KEY_COST_BYTES, SHARE_BYTES, Run, column_bytes, padded
from holdfast.protocols.wishes import Wishes
from holdfast.protocols.witness import PublishTimes, Witness, answered

GIVE_UP_TIMER = "give-up"
TURN_BYTES_UNBOUNDED = 1 << 62


class ClientNode:
    """One client session. See `protocols.node.ClientCommands` for its commands."""

    def __init__(self, config: ClientConfig, incarnation: int, chance: Random | None = None) -> None:
        """Without `chance` attempts to connect again are not spread over time."""
        self.name, self.config = config.name, config
        self._broker = config.broker
        """The name under which our driver knows the broker that has our session."""
        self._hub = ClientHub(self, config.name, "client", config.cluster, config.link, incarnation)
        self.numbers_known = True
        """Whether what was published under this name before is counted; else it may be less than our numbers say."""
        self._hub.may_begin, self._hub.link_at = self._numbering, self._link_at
        self._hub.chance = chance
        self.next_seq = 1
        self.accepted_seq = 0
        self.attached, self.taken_by = False, ""
        self.at_a_site = False
        """Whether it was refused because its broker is one of several of a site: see `protocols.sesdad`."""
        self._run: Run | None = None
        self._batches: list[Batch] = []
        self.pending_bytes = 0
        """What was published and has not left yet; a message counts for its share of a batch at least."""
        self._publications: deque[tuple[int, int]] = deque()
        self._awaited_seq = 0
        self._asked = 0
        """The link's number up to which the broker was asked, on this connection, to acknowledge at once."""
        self._tokens = 0
        self._requests = ClientRequests()
        self._wanted: dict[tuple[str, str], int] = {}
        self._confirmed: set[tuple[str, str]] = set()
        """What we want that is known everywhere."""
        self._wishes = Wishes()
        self._table = RoutingTable()
        self._uneaten: dict[tuple[str, int], tuple[Link, SessionMessage]] = {}
        self._holes = HolesHeard()
        self.crossed = CrossedNumbers()
        """Which of our publications take no part in the total order of their keys, as far as our broker has said."""
        self._witness = Witness(self.name, lambda answer: self._hub.send(self._broker, answer))
        self._published_at = PublishTimes()
        self._now = 0.0
        self._stopping = False
        self._ended = False
        self._unsent_at_end: list[Batch] = []
        self.turn_bytes = TURN_BYTES_UNBOUNDED
        """With so many pending bytes whoever drives us settles, if it can: no batch goes past that."""

    # ------------------------------------------------------------------------------------------------- commands

    def publish(
        self,
        topic: str,
        payload: bytes,
        guarantee: int,
        keys: Keys = (),
        attributes: dict[str, Value] | None = None,
    ) -> int:
        """Take a publication and return its number; it leaves with the next `settle`."""
        if keys or attributes:
            return self._publish(topic, payload, guarantee, keys, attributes or {})
        return self.publish_alike(topic, payload, guarantee) or self._publish(topic, payload, guarantee, (), {})

    def publish_alike(self, topic: str, payload: bytes, guarantee: int, keys: Keys = ()) -> int:
        """The same for one without attributes and with one key at most, if it goes into the batch of the one before it.

        Returns 0 if it does not: then nothing was taken. This is the path of nearly every message, and takes as few
        steps as it can.
        """
        run = self._run
        if run is None or run.topic != topic or run.guarantee != guarantee:
            return 0
        size = len(payload)
        if keys or not run.plain:
            keys = keys or (IMPLICIT_KEYS if guarantee == TOTAL else ())
            if not keys or run.attributes or len(run.keys) != len(run.payloads):
                return 0
            size += KEY_COST_BYTES + len(keys[0])
        if size < SHARE_BYTES:
            size = SHARE_BYTES
        if self.pending_bytes + size > run.full_at:
            return 0
        if keys:
            run.keys.append(keys)
        run.payloads.append(payload)
        self.pending_bytes += size
        seq = self.next_seq
        self.next_seq = seq + 1
        return seq

    def _publish(self, topic: str, payload: bytes, guarantee: int, keys: Keys, attributes: Attributes) -> int:
        if self._stopping or self._ended:
            raise LocalMisuse(f"client {self.name} is closed: connect again to publish")
        if guarantee == TOTAL and not keys:
            keys = IMPLICIT_KEYS
        seq = self.next_seq
        self.next_seq = seq + 1
        size = len(payload) + (column_bytes(keys, attributes) if keys or attributes else 0)
        size = max(size, SHARE_BYTES)
        run = self._run
        if run is None or (run.topic, run.guarantee) != (topic, guarantee) or self.pending_bytes + size > run.full_at:
            run = self._begin_run(seq, topic, guarantee)
        if keys or run.keys:
            run.keys += [()] * (len(run.payloads) - len(run.keys))
            run.keys.append(keys)
        if attributes or run.attributes:
            run.attributes += [{}] * (len(run.payloads) - len(run.attributes))
            run.attributes.append(attributes)
        run.plain = not (run.keys or run.attributes)
        run.payloads.append(payload)
        self.pending_bytes += size
        return seq

    def publish_batch(self, batch: Batch) -> int:
        """Take messages that are a batch already, and return the number of the first. A total one must have keys."""
        if self._stopping or self._ended:
            raise LocalMisuse(f"client {self.name} is closed: connect again to publish")
        self._close_run()
        first = self.next_seq
        self.next_seq = first + batch.count
        self._batches.append(replace(batch, publisher=self.name, first=first, checksum=None))
        self.pending_bytes += batch.cost_bytes
        return first

    def _begin_run(self, seq: int, topic: str, guarantee: int) -> Run:
        self._close_run()
        full_at = self.pending_bytes + BATCH_BYTES_MAX
        if self.pending_bytes < self.turn_bytes < full_at:
            full_at = self.turn_bytes
        self._run = Run(seq, topic, guarantee, full_at)
        return self._run

    def _close_run(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            keys = padded(run.keys, len(run.payloads), ())
            attributes = padded(run.attributes, len(run.payloads), {})
            batch = make_batch(self.name, run.first, run.topic, run.guarantee, run.payloads, keys, attributes)
            self._batches.append(batch)

    def subscribe(
        self,
        pattern: str,
        where: str,
        now: float,
        spills: bool = False,
        slow: Slow = "block",
        slow_s: float = SLOW_S,
    ) -> tuple[int, Effects]:
        """Ask for a subscription; `Completed(token)` says that it is confirmed everywhere.

        Where it `spills` the broker may leave out what we do not take in time: somebody else has it for us. Else `slow`
        says what the broker does then.
        """
        self._check_open("subscribe")
        interest = (pattern, where)
        self._wishes.add(interest, None if spills else slow, slow_s)
        self._table.add(pattern, where, self.name)
        self._wanted[interest] = self._wanted.get(interest, 0) + 1
        return self._request("subscribe", pattern, where, lambda token: self._wishes.subscribe(token, interest), now)

    def unsubscribe(
        self, pattern: str, where: str, now: float, slow: Slow | None = "block", too_slow: bool = False
    ) -> tuple[int, Effects]:
        """Take one subscription back, one of that kind; nothing that only it wanted comes through from now on."""
        self._check_open("unsubscribe")
        if (pattern, where) not in self._wanted:
            raise LocalMisuse(f"client {self.name} has no subscription to {pattern!r} where {where!r}")
        if not self._want_one_less(pattern, where, slow):
            self._tokens += 1
            return self._tokens, [*self._hub.take(), Completed(self._tokens)]
        self._hub.out.append(Report("unsubscribe", pattern=pattern, where=where))
        # A confirmation that is still under way says nothing of a subscription that is taken back before it comes.
        self._requests.leave(pattern, where)
        return self._request(
            "unsubscribe", pattern, where, lambda token: Unsubscribe(token, pattern, where, too_slow), now
        )

    def _want_one_less(self, pattern: str, where: str, slow: Slow | None) -> bool:
        """Whether that was the last subscription with this pattern and filter."""
        left = self._wanted.pop((pattern, where), 1) - 1
        if self._wishes.remove((pattern, where), slow) and self.attached:
            self._hub.send(self._broker, self._wishes.subscribe(0, (pattern, where)))
        if left:
            self._wanted[pattern, where] = left
        else:
            self._table.remove(pattern, where, self.name)
            self._wishes.forget((pattern, where))
            self._confirmed.discard((pattern, where))
            self._witness.unsubscribed((pattern, where))
        return not left

    def confirm(
        self, topic: str, seq: int, now: float, attributes: Attributes | None = None, taken: bool = False
    ) -> tuple[int, Effects]:
        """Ask whether everybody has, or has `taken`, publication `seq`; `Completed(token)`, or `Unconfirmed`."""
        self._check_open("confirm")
        if not 1 <= seq < self.next_seq:
            raise LocalMisuse(f"client {self.name} has not published #{seq}")
        about = (topic, self.name, seq, now, attributes, taken)
        return self._request("confirm", topic, str(seq), lambda token: self._published_at.question(token, *about), now)

    def recall(self, now: float, used: int = 0) -> tuple[int, Effects]:
        """Go on behind whatever was published under this name, wherever that was; `Completed(token)` when it is known.

        Nothing may be published before that. An earlier session of the same application has used numbers up to `used`.
        """
        self._check_open("publish")
        if self.accepted_seq + 1 != self.next_seq:
            raise LocalMisuse(f"client {self.name} has published already: it is too late to ask for its numbers")
        return self._request("recall", "", "", lambda token: Recall(token, self.name, self.config.stride, used), now)

    def _request(
        self, verb: str, pattern: str, where: str, make: Callable[[int], SessionMessage], now: float
    ) -> tuple[int, Effects]:
        self._tokens += 1
        token = self._tokens
        self._requests.add(token, verb, pattern, where)
        # A request stands behind the publications before it.
        self._flush(now)
        self._send_request(token, make(token))
        return token, self._hub.take()

    def _send_request(self, token: int, message: SessionMessage) -> None:  # noqa: ARG002
        self._hub.send(self._broker, message)

    def _check_open(self, verb: str) -> None:
        if self._ended:
            raise LocalMisuse(f"client {self.name} is closed: connect again to {verb}")

    def consumed(self, batch: Batch) -> None:
        """These messages have left the client's buffer: the broker may send as many more."""
        came = self._uneaten.pop((batch.publisher, batch.first), None)
        if came is not None and self._hub.links.get(came[0].peer) is came[0]:
            self._hub.consumed(*came)

    def taken(self, batch: Batch) -> bool:
        """The application has them, all of this batch; whether somebody has asked, and waits for the next `settle`."""
        self._witness.taken(batch)
        return self._witness.is_asked

    def dropped(self, pattern: str, where: str, batch: Batch, reason: str = "") -> None:
        """A subscription has dropped these, which its application did not read; with a `reason` that is reported."""
        self._witness.dropped(batch)
        self._wishes.dropped((pattern, where), batch.count)
        if reason:
            self._hub.out.append(Report("gap", pattern=pattern, where=where, peer=self._broker, detail=reason))

    def hurry(self, seq: int) -> None:
        """Somebody waits for publication `seq` to be accepted: with the next `settle` the broker is asked to say so."""
        self._awaited_seq = max(self._awaited_seq, seq)

    @property
    def backlog_bytes(self) -> int:
        """What was published and is not accepted by the broker yet."""
        link = self._hub.links.get(self._broker)
        return self.pending_bytes + (link.unacknowledged_bytes if link is not None else 0)

    # -------------------------------------------------------------------------------------------- entry points

    def start(self, now: float) -> Effects:
        self._hub.start()
        self._hub.dial(self._broker, now)
        self._hub.out.append(SetTimer(GIVE_UP_TIMER, self.config.give_up_s))
        return self._hub.take()

    def receive(self, peer: str, frame: Frame, now: float) -> Effects:
        self._now = now
        if type(frame) is not Hello:
            self._hub.receive(peer, frame, now)
        return self._hub.take()

    def timer(self, name: str, now: float) -> Effects:
        if not self._hub.timer(name, now) and name == GIVE_UP_TIMER and not self.attached:
            self._hub.end(self._broker, f"no answer from the broker for {self.config.give_up_s:g} s")
        elif name == BEAT_TIMER and self.attached:
            for told in self._wishes.untold():
                self._hub.send(self._broker, told)
        return self._hub.take()

    def peer_up(self, peer: str, now: float) -> Effects:
        self._hub.peer_up(peer, now)
        return self._hub.take()

    def peer_down(self, peer: str, now: float) -> Effects:  # noqa: ARG002
        self._hub.peer_down(peer)
        return self._hub.take()

    def settle(self, now: float) -> Effects:
        if not self._ended:
            self._flush(now)
            if self.attached:
                self._witness.settle()
            self._ask()
            self._leave_if_drained()
        self._hub.settle()
        return self._hub.take()

    def stop(self, now: float) -> Effects:
        """Flush what was published, then say goodbye."""
        self._stopping = True
        return self.settle(now)

    def _flush(self, now: float) -> None:
        self._close_run()
        if not self._batches:
            return
        self._published_at.note(self.next_seq - 1, now)
        batches, self._batches = self._batches, []
        for batch in batches:
            self._hub.out.append(Report("publish", batch))
            self._send_batch(batch)
        self.pending_bytes = 0

    def _send_batch(self, batch: Batch) -> None:
        self._hub.send(self._broker, Publish(batch))
        self._publications.append((self._hub.links[self._broker].queued, batch.last))

    def _ask(self) -> None:
        """Ask once about everything that is on its way, if somebody waits for it.

        What waits for credit is acknowledged as the credit comes; the last of it leaves, and is asked about, then.
        """
        if self._awaited_seq <= self.accepted_seq and not self._stopping:
            return
        link = self._hub.links.get(self._broker)
        if link is None or link.state is not LinkState.OPEN or link.waiting:
            return
        if link.sent and self._asked < link.queued:
            self._asked = link.queued
            self._hub.ask(link.peer)

    def _leave_if_drained(self) -> None:
        if self._stopping and self.attached and self._hub.drained():
            self._hub.end(self._broker, "the client closed")

    # ------------------------------------------------------------------------------------------ the hub's owner

    def admit(self, hello: Hello) -> Refusal | None:
        return Refusal("kind", f"{self.name} is a client: nobody connects to it, {hello.node} included")

    def welcome(self, hello: Hello) -> tuple[int, str, tuple[int, ...]]:
        raise LocalMisuse(f"client {self.name} was asked to welcome {hello.node}")

    def link_opened(self, link: Link, fresh: bool) -> None:  # noqa: ARG002
        self._attach(link)

    def _attach(self, link: Link) -> None:
        said = self._hub.said
        if said is None:
            return
        self.attached = True
        self._asked = 0
        out = self._hub.out
        out.append(CancelTimer(GIVE_UP_TIMER))
        out.append(Report("attach", peer=said.node))
        out.append(Attached(said.node, said.protocol, said.guarantees, said.payload_bytes_max))
        self._accept(link)

    def _link_at(self, tolerance: int) -> LinkConfig:
        steady = self.config.steady
        return self.config.link if steady is None or tolerance else steady

    def _numbering(self, published: int) -> bool:
        """A new session goes on after what was published under its name; it may not repeat a number."""
        self.numbers_known = self._hub.said is None or self._hub.said.exact
        if not published:
            return True
        if self.next_seq > 1:
            reason = f"{self.name} has published up to #{published} before; wait for the attachment, or choose a name"
            self._hub.end(self._broker, reason)
            return False
        self.next_seq = published + 1
        self.accepted_seq = published
        return True

    def link_closed(self, link: Link) -> None:
        self.attached = False
        self._hub.out.append(Report("detach", peer=link.peer))
        self._hub.out.append(SetTimer(GIVE_UP_TIMER, self.config.give_up_s))

    def link_refused(self, link: Link, refusal: Refusal) -> None:
        self._hub.end(link.peer, refusal.reason, say=False)

    def link_ended(self, link: Link, reason: str) -> None:
        self._ended, self.attached, self.taken_by = True, False, self._hub.taken_by
        self.at_a_site = self._hub.at_a_site
        self._close_run()
        self._unsent_at_end = self._never_on(link)
        self._requests.clear()
        if not self._stopping:
            broker = self._hub.said.node if self._hub.said is not None else link.peer
            self._hub.out += over(broker, reason, bool(self._wanted))
        self._hub.out += [CancelTimer(GIVE_UP_TIMER), CancelTimer(BEAT_TIMER), CancelTimer(ACK_TIMER)]
        self._hub.out.append(Ended(self._stopping and self.accepted_seq + 1 == self.next_seq, reason))
        if self._stopping:
            self._hub.out.append(Report("stopped"))

    def _never_on(self, link: Link) -> list[Batch]:
        """Publications that wait for credit or for a connection, and have never left on that link."""
        never = (item.message for item in link.waiting if item.seq > link.transmitted)
        return [message.batch for message in never if isinstance(message, Publish)]

    def never_sent(self) -> list[Batch]:
        """Of a session that has ended, the publications that surely no broker has: they have never left."""
        return [*self._unsent_at_end, *self._batches]

    def link_levels(self, link: Link, levels: Levels) -> None:
        """A client that stays with its broker keeps nothing for others."""

    def link_acknowledged(self, link: Link) -> None:
        self._accept(link)
        self._leave_if_drained()

    def _accept(self, link: Link) -> None:
        publications, seq = self._publications, 0
        while publications and publications[0][0] <= link.acked:
            seq = publications.popleft()[1]
        if seq:
            self.accepted_seq = seq
            self._hub.out.append(Accepted(seq))

    def link_message(self, link: Link, message: SessionMessage) -> None:
        if isinstance(message, Publish):
            self._on_publish(link, message)
            return
        self._hub.consumed(link, message)
        if isinstance(message, SubscribeAck | UnsubscribeAck):
            self._on_done(message.token)
        elif isinstance(message, ConfirmAck):
            self._on_done(message.token, message.finding)
        elif isinstance(message, Recalled):
            self.numbers_known &= message.certain
            if message.token in self._requests and message.last >= self.next_seq:
                self.next_seq, self.accepted_seq = message.last + 1, message.last
            self._on_done(message.token)
        elif isinstance(message, Confirm):
            self._witness.on_confirm(message, self._now, self._wishes.spilling)
        elif isinstance(message, Skipped):
            self._on_skipped(link, message)
        elif isinstance(message, Crossed):
            self._on_crossed(link, message)
        elif isinstance(message, Hole):
            # A subscription that is not confirmed yet is owed nothing; for one that spills somebody else stands in.
            is_owed = bool(self._confirmed - self._wishes.spilling.keys())
            is_meant = not message.about or self.name in message.about
            self._hub.out += self._holes.hear(message, link.peer, is_owed and is_meant)
        elif isinstance(message, Rejected):
            verb, pattern, where = self._requests.answered(message.token)
            if verb == "subscribe":
                self._want_one_less(pattern, where, "block")
            self._hub.out.append(Failed(message.token, message.first, message.last, message.reason))
        else:
            raise PeerViolation(f"{link.peer} sent a client {type(message).__name__}, which only brokers take")

    def _on_crossed(self, link: Link, message: Crossed) -> None:
        first, last = message.first, message.last
        if not first <= last < self.next_seq or last - first >= BATCH_COUNT_MAX:
            raise PeerViolation(
                f"{link.peer} said that #{first} to #{last} of {self.name} crossed others: no such batch"
            )
        self.crossed.note(message)
        self._hub.out += [Report(CROSSED, seq=seq) for seq in range(first, last + 1)]

    def _on_skipped(self, link: Link, message: Skipped) -> None:
        """The broker has dropped here what we did not take: the subscriptions that it names miss it."""
        missed = {
            (pattern, where): count for pattern, where, count in message.entries if (pattern, where) in self._wanted
        }
        if message.more:
            missed = dict.fromkeys(self._wishes.that_drop(), 0) | missed
        if missed:
            broker = self._hub.said.node if self._hub.said is not None else link.peer
            reason = f"{self.name} did not take what broker {broker} had for it"
            only = tuple((*interest, count) for interest, count in missed.items())
            self._hub.out += [Report("gap", peer=link.peer, detail=reason), Missing(reason, only)]

    def _on_publish(self, link: Link, message: Publish) -> None:
        self._hand_over(link, message, message.batch)

    def _hand_over(self, link: Link, message: Publish, batch: Batch) -> None:
        """Deliver what the application wants of a batch that came in this message."""
        try:
            choice = self._table.choice(self.name, batch)
        except TopicError as error:
            self._hub.consumed(link, message)
            raise PeerViolation(f"{link.peer} sent a batch of {batch.publisher} that cannot be: {error}") from None
        parts = batch.chosen(choice)
        if not parts:
            self._hub.consumed(link, message)
            return
        # The whole message counts as consumed when the last of its parts is.
        place = (batch.publisher, parts[-1].first)
        if place in self._uneaten:
            # Two clients publish under one name, at two brokers: the window must not shrink for it.
            self._hub.consumed(link, self._uneaten[place][1])
        self._uneaten[place] = (link, message)
        for part in parts:
            self._witness.handed_over(part)
            self._hub.out.append(Report("deliver", part))
            self._hub.out.append(Deliver(part))

    def _deliver_own(self, batch: Batch) -> None:
        """A publisher that wants its own messages is the first to have them."""
        for part in batch.chosen(self._table.choice(self.name, batch)):
            self._witness.handed_over(part)
            self._hub.out += [Report("deliver", part), Deliver(part)]

    def _on_done(self, token: int, finding: Finding = CLEAN) -> None:
        verb, pattern, where = self._requests.answered(token)
        if verb == "subscribe":
            self._confirmed.add((pattern, where))
            self._witness.subscribed((pattern, where), self._now)
            self._hub.out.append(Report("subscribe", pattern=pattern, where=where))
        if verb == "confirm":
            self._hub.out += answered(token, pattern, int(where), finding)
        elif verb:
            self._hub.out.append(Completed(token))

    # ---------------------------------------------------------------------------------------------- inspection

    def check_invariants(self) -> None:
        self._hub.check_invariants()
        assert self.accepted_seq < self.next_seq, f"{self.name}: accepted what was never published"

    def waiting_for(self) -> list[str]:
        reasons = [f"the broker's answer to {verb} {pattern}" for verb, pattern, _ in self._requests.values()]
        link = self._hub.links.get(self._broker)
        if link is not None and link.state is not LinkState.OPEN and not self.attached:
            reasons.append("a connection to its broker")
        if (self._publications or self._batches or self._run) and not self._ended:
            reasons.append(f"acceptance of publications after #{self.accepted_seq}")
        return reasons
