"""A client as a node of a delta-fault-tolerant tree: a leaf with a map, which goes past its failed broker.

A client's session is its node. It joins at its *home*, the broker that welcomed it, and keeps that place. It never
forwards, so it needs no filters: a publication goes to its home, or, if that is held FAILED, to the nearest live
brokers behind it, all of them, and is resent until it is confirmed. Clients cannot connect with each other: past a
failed home, a broker next to it hands a publication to the other clients there (`turn`).

What was published is this client's own until it is confirmed; so no number of failed brokers loses it.
"""

from collections.abc import Callable, Container
from typing import NamedTuple, Protocol

from holdfast.model.batches import Batch
from holdfast.model.delta_messages import PART_MAX, Conf, Greeting, Multicast, RoutingPart, Status
from holdfast.model.guarantees import EVENTUAL
from holdfast.model.messages import (
    Goodbye,
    Interest,
    Rejected,
    SessionMessage,
    Subscribe,
    SubscribeAck,
    Unsubscribe,
    UnsubscribeAck,
)
from holdfast.model.receipt_messages import CLEAN, Finding
from holdfast.protocols.client_hub import ClientHub
from holdfast.protocols.delta.passage import Entry, Passage
from holdfast.protocols.delta.reach import Reach
from holdfast.protocols.delta.topology import TopologyMap
from holdfast.protocols.last_numbers import note_number
from holdfast.protocols.links import Link
from holdfast.protocols.node import Disconnect, Send, SetTimer

SUSPECT_TIMER = "delta:"
REFRESH_TIMER = "delta-refresh"
REFRESH_S = 0.02
EXPECTED_TIMES = 30
"""A broker that is to take a client in past a failed one holds that failed later than the client, perhaps: so much."""
LIFE_MASK = (1 << 62) - 1
FIRST_COPY = 1 << 40
"""Numbers of copies past failed brokers begin behind this."""
KEPT_MAX = 1024
"""So many confirmed publications are kept for clients that lacked them."""
FINDINGS_MAX = 4096
"""Of so many confirmed publications it is remembered who lacked them."""


class Owner(Protocol):
    """What this part asks of the client that it belongs to."""

    def node_joined(self, link: Link) -> None: ...

    def node_delivers(self, link: Link, message: Multicast, batch: Batch) -> None: ...

    def node_accepted(self, seq: int) -> None: ...


class _Request:
    __slots__ = ("answered", "asked", "message")

    def __init__(self, message: Subscribe | Unsubscribe) -> None:
        self.message = message
        self.asked: set[str] = set()
        self.answered: set[str] = set()


class _Copy(NamedTuple):
    """A copy whose receiver stands in for failed brokers."""

    entry: Entry
    to: str
    turn: tuple[str, ...]
    """The failed brokers."""
    is_first: bool
    """Whether its receiver has no other copy."""


class ClientPassage:
    """The node that a client is."""

    def __init__(
        self,
        owner: Owner,
        answered: Callable[[int, Finding], None],
        wanted: Callable[[], list[Interest]],
        hub: ClientHub,
        name: str,
        life: int,
        home: str,
        alias: str,
        tolerance: int,
        suspect_s: float,
    ) -> None:
        """`alias` is the name by which our driver knows the home."""
        self._owner, self._hub, self.name, self.home, self._alias = owner, hub, name, home, alias
        self.map = TopologyMap(name, home, tolerance + 1)
        self.reach = Reach(self.map)
        self.passage = Passage(name, tolerance)
        self.passage.life = life & LIFE_MASK
        self._answered, self._wanted = answered, wanted
        self.joined = False
        self._suspect_s = suspect_s
        self.now = 0.0
        self._latest: dict[str, int] = {}
        """By publisher, the number of its latest publication that came."""
        self._greeted: dict[str, None] = {}
        self._refusing: set[str] = set()
        """Brokers that are expected, and where nobody listened."""
        self._requests: dict[int, _Request] = {}
        self._questions: dict[int, int] = {}
        self._findings: dict[int, Finding] = {}
        self._confs: dict[str, list[int]] = {}
        self.confirmed = self._published = 0
        self._copies = 0
        self._stand_in = ""
        """The broker that stands in for failed ones towards their clients."""
        self._copies_out: dict[int, _Copy] = {}
        """By number, copies past failed brokers that are not confirmed."""

    # -------------------------------------------------------------------------------------------------- connections

    def _key(self, name: str) -> str:
        return self._alias if name == self.home else name

    def _name(self, peer: str) -> str:
        return self.home if peer == self._alias else peer

    def opened(self, link: Link, fresh: bool) -> None:
        name = self._name(link.peer)
        if not fresh:
            if name not in self.reach.hard:
                self._greeted[name] = None
                self.reach.back(name)
                self.refresh()
            return
        home = self.home if self.joined else ""
        self._hub.send(link.peer, Greeting("client", self.passage.life, (), home, self.joined))
        if self.joined:
            entries = [(pattern, where, self.name) for pattern, where in self._wanted()]
            for at in range(0, max(1, len(entries)), PART_MAX // 4):
                some = tuple(entries[at : at + PART_MAX // 4])
                self._hub.send(link.peer, RoutingPart((), some, at + len(some) >= len(entries)))
            for one in self.map.between(name):
                self._go_past(one)

    def _go_past(self, name: str) -> None:
        if self.reach.harden(name):
            self._let_go(name)

    def _let_go(self, name: str) -> None:
        """The session with that broker is over; the next connection begins another one."""
        key = self._key(name)
        self._greeted.pop(name, None)
        self.passage.unsend(name)
        self._copies_out = {number: copy for number, copy in self._copies_out.items() if copy.to != name}
        for entry in self._kept():
            entry.done.discard(name)
        for request in self._requests.values():
            request.asked.discard(name)
        if self._hub.set_aside(key) is not None:
            self._hub.out.append(Disconnect(key, "another way"))

    def leave(self, reason: str) -> None:
        """Say goodbye to the brokers past a failed home: they forget us, and give what they have of ours to others."""
        for peer, link in list(self._hub.links.items()):
            if link.is_open:
                self._hub.out += [Send(peer, Goodbye(reason)), Disconnect(peer, reason)]
            self._hub.set_aside(peer)

    def closed(self, link: Link) -> bool:
        """Whether a connection that is gone leaves no other."""
        name = self._name(link.peer)
        if self.joined:
            self._hub.out.append(SetTimer(SUSPECT_TIMER + name, self._suspect_s))
        return not any(one != name and self._is_up(one) for one in self._greeted)

    def dial_failed(self, peer: str) -> None:
        """Nobody listens there: nobody who could be slow."""
        name = self._name(peer)
        if self.joined and name not in self._refusing:
            self._refusing.add(name)
            self._hub.out.append(SetTimer(SUSPECT_TIMER + name, self._suspect_s))

    def _is_up(self, name: str) -> bool:
        link = self._hub.links.get(self._key(name))
        return name in self._greeted and link is not None and link.is_open

    def refused(self, link: Link) -> None:
        """The other side does not know this session any more: it has begun anew, or has held us failed."""
        self._let_go(self._name(link.peer))
        self._hub.out.append(SetTimer(REFRESH_TIMER, REFRESH_S))

    def timer(self, name: str, now: float) -> None:
        self.now = now
        if name == REFRESH_TIMER:
            self.refresh()
            return
        node = name.removeprefix(SUSPECT_TIMER)
        link = self._hub.links.get(self._key(node))
        if (link is None or not link.is_open) and node in self.reach.wanted():
            self.reach.fail(node)
            self.refresh()

    def refresh(self) -> None:
        """Connections follow what is held of the brokers nearby, and messages follow connections."""
        if not self.joined:
            if self._alias not in self._hub.links:
                self._dial(self.home)
            return
        self.reach.prune(self._greeted)
        wanted = self.reach.wanted()
        self._call_back_needless()
        for peer in list(self._hub.links):
            name = self._name(peer)
            if name not in wanted and name not in self.reach.failed:
                self._let_go(name)
        for name in wanted:
            if self._key(name) not in self._hub.links:
                self._dial(name)
                self._refusing.discard(name)
                self._hub.out.append(SetTimer(SUSPECT_TIMER + name, EXPECTED_TIMES * self._suspect_s))
        for name in self.reach.failed:
            if self._key(name) not in self._hub.links and self.reach.is_open_to(name):
                self._dial(name)
        self.feed()

    def _call_back_needless(self) -> None:
        """End the session with whatever stands in for a broker that is reached again; another one begins.

        1. We hold a broker failed that others reach, and somebody stands in for it. 2. That one leaves the clients
        there to our own copy, and confirms nothing before they have it. 3. We reach the broker, and give it its copy:
        the stand-in never hears of that.
        """
        failed = self.reach.failed
        for name in dict.fromkeys(one.to for one in self._copies_out.values() if not failed.keys() >= {*one.turn}):
            self._let_go(name)

    def _dial(self, name: str) -> None:
        self._hub.incarnation += 1
        self._hub.dial(self._key(name), self.now, "" if name == self.home else self.map.addresses.get(name, ""))

    # ----------------------------------------------------------------------------------------------------- messages

    def receive(self, link: Link, message: SessionMessage) -> bool:
        """Whether the message was for this part."""
        name = self._name(link.peer)
        if isinstance(message, Multicast):
            self._on_multicast(link, name, message)
            return True
        if isinstance(message, Rejected):
            self._requests.pop(message.token, None)
        if not isinstance(message, Greeting | RoutingPart | Conf | SubscribeAck | UnsubscribeAck | Status):
            return False
        self._hub.consumed(link, message)
        if isinstance(message, Greeting):
            if self.joined:
                self._come_up(name)
        elif isinstance(message, RoutingPart):
            self._learn(name, message)
            if not self.joined:
                self.joined = True
                self._come_up(name)
            self._owner.node_joined(link)
            self.refresh()
        elif isinstance(message, Conf):
            self._on_conf(name, message)
        elif isinstance(message, SubscribeAck | UnsubscribeAck):
            self._on_answer(name, message.token)
        elif message.what == "back" and message.node in self.reach.failed:
            self.reach.back(message.node)
            self._let_go(name)
            self.refresh()
        return True

    def _learn(self, name: str, part: RoutingPart) -> None:
        """Our home knows all that we need to; another broker not.

        1. Our home is failed, and so are brokers on two sides of it. 2. A broker behind them tells its map, which ends
        before the brokers on the other side. 3. We would not go there, and nobody there would get what we publish.
        """
        if name == self.home:
            self.map.replace(part.links)
        else:
            self.map.learn(part.links)

    def _come_up(self, name: str) -> None:
        self._greeted[name] = None
        self.reach.back(name)
        self.refresh()

    def _on_multicast(self, link: Link, name: str, message: Multicast) -> None:
        self._confs.setdefault(name, []).append(message.number)
        repeated = self.passage.came.is_duplicate(message.visited)
        self.passage.came.note(message.visited)
        if message.batch is not None and not repeated and not self._is_late(message.batch):
            self._owner.node_delivers(link, message, message.batch)
            return
        self._hub.consumed(link, message)
        change = message.change
        if change is not None and not repeated:
            if change.what == "j":
                self.map.add((change.parent, change.node, False, change.address))
            elif change.what == "l":
                self.map.remove(change.node)
            elif change.what == "r":
                self._returned(change.node)
            self.refresh()

    def _is_late(self, batch: Batch) -> bool:
        """Whether a later publication of the same publisher came: then this one is not owed, and would break the order.

        1. A publication matches nothing of ours, and waits for others, in a broker that is frozen. 2. We subscribe to
        more, and get the next one, past that broker. 3. It runs again, and looks up where the first goes: to us, too.
        Only the publisher's numbers tell us: further than delta+1 hops away the two need not have a hop in common.
        """
        if batch.guarantee == EVENTUAL:
            return False
        late = batch.first < self._latest.get(batch.publisher, 0)
        note_number(self._latest, batch.publisher, batch.first)
        return late

    def _kept(self) -> list[Entry]:
        """What was confirmed, and some client that was failed may need from us, if all brokers nearby are lost."""
        return [entry for entry in self.passage.entries.values() if not entry.open]

    def _keep_no_more_than(self, count: int) -> None:
        kept = self._kept()
        for entry in kept[: max(0, len(kept) - count)]:
            self.passage.drop(entry)

    def _returned(self, client: str) -> None:
        for entry in list(self.passage.entries.values()):
            entry.lacking.pop(client, None)
            entry.hidden.pop(client, None)
            if not entry.open and not entry.lacking:
                self.passage.drop(entry)

    def settle(self) -> None:
        """Confirm what came; it stands in the application's buffer."""
        confs, self._confs = self._confs, {}
        for name, numbers in confs.items():
            if self._key(name) in self._hub.links:
                self._hub.send(self._key(name), Conf(tuple(numbers)))

    # ----------------------------------------------------------------------------------------------- what we publish

    def publish(self, batch: Batch) -> None:
        self.passage.add((self.name, 0, batch.first), batch, None, ())
        self._published = batch.last
        self.feed()

    def ask(self, token: int, message: Subscribe | Unsubscribe) -> None:
        self._requests[token] = _Request(message)
        self.feed()

    def question(self, token: int, seq: int) -> None:
        """Answer when publication `seq` is confirmed."""
        self._questions[token] = seq
        self._answer_questions()

    def feed(self) -> None:
        """Give what is not settled to every live broker that is next."""
        if not self.joined:
            return
        ready = [name for name in self.reach.wanted() if name in self._greeted and self._key(name) in self._hub.links]
        if not ready:
            return
        if self._stand_in not in ready:
            self._stand_in = ready[0]
        for entry in list(self.passage.entries.values()):
            for name in ready:
                if name not in entry.sent and name not in entry.done:
                    self._give(entry, name)
            if entry.open and not entry.covered.union(*entry.sent.values()).issuperset(self._passed()):
                self._give(entry, self._stand_in)
            self._finish_if_settled(entry)
        for token, request in list(self._requests.items()):
            for name in ready:
                if name not in request.asked and name not in request.answered:
                    request.asked.add(name)
                    self._hub.send(self._key(name), request.message)
            self._done_if_settled(token, request)

    def _give(self, entry: Entry, name: str) -> None:
        """Send a copy, whose receiver stands in for those that are held failed now. Each copy has its own number."""
        # One of them stands in, so that those it stands in for get everything in order.
        turn = tuple(self._passed()) if name == self._stand_in else ()
        number = entry.number
        if turn:
            self._copies += 1
            number = FIRST_COPY + self._copies
            is_first = name not in entry.sent and name not in entry.done
            self._copies_out[number] = _Copy(entry, name, turn, is_first)
        entry.sent[name] = {*entry.sent.get(name, ()), *turn}
        visited = self.passage.trail(entry, entry.number, self.map.between(name))
        self._hub.send(self._key(name), Multicast(number, visited, None, False, (), turn, entry.batch))

    def _passed(self) -> list[str]:
        """Failed brokers whose clients get it from our stand-in: so near to it that it knows them.

        1. Our broker and one on each side of it are failed: more than the tolerance. 2. What stands in behind one side
        would confirm for the other, whose clients it does not know.
        """
        return sorted(one for one in self.reach.failed if self.map.apart(self._stand_in, one) < self.map.radius)

    def _is_settled(self, node: str, done: set[str], covered: Container[str] | None = None) -> bool:
        """Whether every live broker that is next in that direction has confirmed, and somebody stood in for others."""
        if node in done:
            return True
        if node not in self.reach.failed or self.map.distance(node) >= self.map.radius:
            return False
        if covered is not None and node not in covered:
            return False
        return all(self._is_settled(one, done, covered) for one in self.map.beyond(node))

    def _on_conf(self, name: str, conf: Conf) -> None:
        lacking = dict(conf.lacking)
        for number in conf.numbers:
            copy = self._copies_out.pop(number, None)
            entry = self.passage.entries.get(number) if copy is None else copy.entry
            if entry is not None and name in entry.sent and entry.number in self.passage.entries:
                if copy is None or copy.is_first:
                    entry.done.add(name)
                if copy is not None:
                    entry.covered.update(copy.turn)
                missing = lacking.get(number, ())
                entry.hidden.update(dict.fromkeys(missing))
                self._finish_if_settled(entry)

    def _finish_if_settled(self, entry: Entry) -> None:
        if not entry.done or not self._is_settled(self.home, entry.done, entry.covered):
            return
        batch = entry.batch
        entry.lacking.update(entry.hidden)
        if not entry.lacking:
            self.passage.drop(entry)
        if not entry.open:
            return
        entry.open = False
        if batch is not None and entry.hidden:
            missing = tuple(entry.hidden)
            self._findings[batch.last] = Finding(lacking=len(missing), lack=missing[:8])
            if len(self._findings) > FINDINGS_MAX:
                del self._findings[next(iter(self._findings))]
        self._keep_no_more_than(KEPT_MAX)
        first = next(iter(self.passage.under_way()), None)
        self.confirmed = self._published if first is None or first.batch is None else first.batch.first - 1
        self._owner.node_accepted(self.confirmed)
        self._answer_questions()

    def _answer_questions(self) -> None:
        for token, seq in list(self._questions.items()):
            if seq <= self.confirmed:
                del self._questions[token]
                found = next((one for last, one in self._findings.items() if last >= seq), CLEAN)
                self._answered(token, found)

    def _on_answer(self, name: str, token: int) -> None:
        request = self._requests.get(token)
        if request is not None:
            request.answered.add(name)
            self._done_if_settled(token, request)

    def _done_if_settled(self, token: int, request: _Request) -> None:
        if request.answered and self._is_settled(self.home, request.answered):
            del self._requests[token]
            self._answered(token, CLEAN)

    # --------------------------------------------------------------------------------------------------- inspection

    @property
    def unconfirmed_bytes(self) -> int:
        return sum(entry.batch.cost_bytes for entry in self.passage.under_way() if entry.batch is not None)

    def is_drained(self) -> bool:
        """Whether others have all that was published, and nobody needs our copies."""
        return all(
            not entry.open and self._is_settled(self.home, entry.done, entry.covered)
            for entry in self.passage.entries.values()
        )

    def waiting_for(self) -> list[str]:
        return [f"a confirmation of {entry.key[0]}#{entry.key[2]}" for entry in self.passage.under_way()]
