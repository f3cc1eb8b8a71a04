"""A broker of the delta-fault-tolerant tree: it composes the parts of this package on the edge that clients see."""

from collections import deque
from collections.abc import Iterable
from typing import ClassVar, Literal

from holdfast.model.batches import Batch, BatchError
from holdfast.model.delta_messages import Change, Conf, Greeting, Multicast, RoutingPart, Status
from holdfast.model.errors import LocalMisuse, PeerViolation
from holdfast.model.guarantees import EVENTUAL, FIFO
from holdfast.model.identities import name_of
from holdfast.model.messages import (
    Frame,
    Goodbye,
    Hello,
    Interest,
    Refusal,
    Rejected,
    SessionMessage,
    Subscribe,
    Unsubscribe,
)
from holdfast.model.name_messages import Recall
from holdfast.protocols.border import Border, Place, border
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.delta.forwarding import Forwarding
from holdfast.protocols.delta.guests import Guests
from holdfast.protocols.delta.node_state import SUSPECT_TIMER, NodeState, Peer
from holdfast.protocols.delta.synchronisation import Synchronisation
from holdfast.protocols.edges import EdgeBroker, Phase
from holdfast.protocols.links import Link, LinkState
from holdfast.protocols.node import Disconnect, Effects, Report, SetTimer
from holdfast.protocols.publishers import PublicationRefused, interest_problem, topic_problem

REFRESH_TIMER = "refresh"
REFRESH_S = 0.01


class DeltaBroker(EdgeBroker):
    """One broker. See `protocols.node.BrokerNode`."""

    protocol: ClassVar[str] = "delta"
    guarantees: ClassVar[tuple[int, ...]] = (EVENTUAL, FIFO)
    border: ClassVar[Border] = {
        Place.CLIENT: frozenset((Multicast, Conf, Greeting, RoutingPart, Subscribe, Unsubscribe, Recall)),
        Place.NEIGHBOUR: border(Multicast, Conf, Greeting, RoutingPart, Status)[Place.NEIGHBOUR],
    }
    confirms: ClassVar[bool] = True
    """Whether a subscription counts only when all know it; without, both stories of section 3 lose messages."""
    guides: ClassVar[bool] = True
    """Whether a node that recovers is told where messages go."""
    yields: ClassVar[bool] = True
    """Whether routing information waits for traffic."""
    covers: ClassVar[bool] = True
    """Whether filters that others cover are left out of matching, and filters that are alike are merged."""

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        super().__init__(config, incarnation)
        state = self.state = NodeState(config, self.hub, self._send, self.covers)
        self.map, self.reach, self.passage, self.filters = state.map, state.reach, state.passage, state.filters
        self.journal, self.recovery, self.confs, self.peers = state.journal, state.recovery, state.confs, state.peers
        self.forwarding = Forwarding(state, self)
        self.synchronisation = Synchronisation(state, self.forwarding, self)
        self.guests = Guests(state, self.forwarding, self)
        self.hub.tolerance = config.tolerance
        self.detached_at = self._detached_at
        self._retiring = False
        self._arriving = ""
        self._stale = False

    @property
    def operational(self) -> bool:
        return self.state.operational

    @staticmethod
    def hops(tolerance: int) -> int:
        """How far around it a broker knows the tree."""
        return tolerance + 1

    # ------------------------------------------------------------------------------------------------ life and state

    def restore(self, pairs: dict[str, bytes]) -> None:
        self.journal.restore(pairs)
        if self.journal.places is not None:
            self.state.joining = False
            self.map.replace(self.journal.places)
        for client, life in self.journal.clients.items():
            self.map.add((self.name, client, True, ""))
            self.state.lives[client] = life
        for client, home in self.journal.near.items():
            self.map.add((home, client, True, ""))
            self.recovery.remembered.add(client)

    def start(self, now: float) -> Effects:
        self._now = now
        self.hub.start()
        self.hub.out += self.journal.begin_life(self.hub.incarnation)
        self.passage.life = self.journal.life
        self._enter(Phase.JOINING)
        if self.state.joining and self.parent is not None:
            self.hub.dial(self.parent, now, dict(self.config.places).get(self.parent, ""))
        else:
            self.refresh()
        return self.hub.take()

    def receive(self, peer: str, frame: Frame, now: float) -> Effects:
        self.state.parting = peer if isinstance(frame, Goodbye) else ""
        return super().receive(peer, frame, now)

    def _recover(self) -> None:
        """Somebody went past us: begin as after a crash, but for our sessions, and what we remember of messages.

        The sessions stay. 1. A broker that was skipped ended them all, to recover. 2. Its neighbours held it failed,
        and went past it again. 3. It heard of that when it had recovered, and so on for ever.
        """
        if not self.state.operational:
            return
        self.state.operational = self.state.rejoining = False
        self.hub.out.append(Report("recovering"))
        self._enter(Phase.JOINING)
        self.recovery.begin()
        self.reach.doubt([name for name in self.peers if self.state.is_there(name)])
        there = [one for one in self.map.homes if one in self.peers and self.peers[one].greeted]
        own = {*self.map.guests.get(self.name, {}), *there}
        for pattern, where in self.filters.table.distinct():
            for node in self.filters.table.sources(pattern, where):
                if node not in own:
                    self.recovery.before.append((pattern, where, node))
                    self.filters.table.remove(pattern, where, node)
        near = [name for name in self.hub.links.brokers if name in self.peers]
        # They give it again, guided: the ways that we know may be too few.
        self.passage.forget_senders(near)
        # What clients published goes on when we know where to: in order, and to those of whom we did not know. Not what
        # came again for clients of failed brokers. 1. Its first copy is confirmed, and its number is told from others
        # nearby alone. 2. It would go to everybody, under our new number.
        for entry in self.passage.under_way():
            if entry.batch is not None and self.map.is_client(entry.came) and not entry.stands_in:
                entry.done.discard(self.name)
                entry.targets[self.name] = None
                entry.waits = True
        for name in near:
            self.confs.forget(name)
            # Before it knew that we recover it may have discarded what we gave it.
            self.passage.give_again(name)
            self.peers[name].parts.clear()
            self.peers[name].told = False
            self._send(name, Status("recovering"))
        self.recovery.complete.update(dict.fromkeys(there))
        self.recovery.remembered = {one for one, home in self.map.homes.items() if home != self.name} - {*there}
        self.refresh()

    def cut_off(self, peer: str, reason: str) -> None:
        """End a session without a goodbye: the other side finds that it is over when it comes back."""
        link = self.hub.set_aside(peer)
        if link is not None:
            self.hub.out.append(Disconnect(peer, reason))
        self.forget_session(peer)

    def forget_session(self, peer: str) -> None:
        self.peers.pop(peer, None)
        self.passage.unsend(peer)
        self.confs.forget(peer)
        self.state.unlearn(peer)

    def become_operational(self) -> None:
        self.state.rejoining = False
        self.state.operational = True
        self.hub.out.append(Report("operational"))
        if self.phase is Phase.JOINING:
            self._enter(Phase.SERVING)
        for name, peer in self.peers.items():
            if peer.greeted and not self.map.is_client(name):
                self._send(name, Status("operational"))
        for client in list(self.state.reports):
            self.guests.reconcile(client)
        # What others have guided here goes on first: a client may have published it before what it has said to us.
        self.refresh()
        parked, self.state.parked = self.state.parked, deque()
        for name, message in parked:
            if name in self.hub.links:
                self._from_node(name, message)

    # ------------------------------------------------------------------------------------------------- connections

    def _dials(self, peer: str) -> bool:
        if self.map.is_client(peer):
            return False
        above, below = self.map.parent_of(self.name), self.map.parent_of(peer)
        if above == peer:
            return True
        return below != self.name and self.name > peer

    def refresh(self) -> None:
        """Connections follow what is held of other nodes, and messages follow connections."""
        self.state.doubtful = False
        if self.phase in (Phase.STARTING, Phase.LEAVING, Phase.GONE) or (self.state.joining):
            return
        self.reach.prune([name for name, peer in self.peers.items() if peer.greeted])
        wanted = self.reach.wanted()
        for name in list(self.hub.links):
            if name in self.map and name not in wanted and name not in self.reach.failed:
                back = next((one for one in self.map.between(name) if one not in self.reach.failed), "")
                if name in self.peers:
                    self._send(name, Status("back", back))
                self.cut_off(name, f"{back} is back between {self.name} and {name}")
        for name in wanted:
            if name not in self.hub.links or not (self.state.is_there(name) or name in self.state.patience.awaited):
                self._expect(name)
        for name in self.reach.failed:
            if name not in self.hub.links and self._dials(name) and self.reach.is_open_to(name):
                self._dial(name)
        self.state.doubtful = self.config.tolerance > 0 and any(
            not self.map.is_client(name) and name not in self.map.marked and not self.state.is_there(name)
            for name in wanted
        )
        self.synchronisation.check()
        self.synchronisation.tell_parts()
        self.forwarding.advance_all()

    def _expect(self, name: str) -> None:
        """That node has to come: dial it, and hold it failed if it does not come in time."""
        if name not in self.hub.links and self._dials(name):
            self._dial(name)
        if self.config.tolerance or self.map.is_client(name):
            passed = len(self.map.between(name))
            self.state.await_node(name, self.state.patience.expected_s(name, passed, self.state.operational))

    def peer_down(self, peer: str, now: float) -> Effects:
        link = self.hub.links.get(peer)
        refused = link is not None and link.dialler and link.state is LinkState.CLOSED
        effects = super().peer_down(peer, now)
        if (
            refused
            and self.operational
            and self.config.tolerance
            and self._is_broker(peer)
            and self.state.patience.is_refused(peer)
        ):
            self.state.patience.awaited.add(peer)
            effects.append(SetTimer(SUSPECT_TIMER + peer, self.config.suspect_s))
        return effects

    def _dial(self, name: str) -> None:
        # Each session has a number of its own: the peer may know an earlier one of this life.
        self.hub.incarnation += 1
        self.hub.dial(name, self._now, self.map.addresses.get(name, ""))

    def admit(self, hello: Hello) -> Refusal | None:
        name = hello.node
        not_yet = Refusal("not-ready", f"broker {self.name} is {self.phase.value}: try again, or another broker")
        if self.phase not in (Phase.JOINING, Phase.SERVING) or self.state.joining:
            return not_yet
        if name in self.map:
            if not self.reach.is_open_to(name):
                return not_yet
        elif not self.state.operational:
            return not_yet
        if hello.kind == "client":
            if name not in self.hub.links and len(self.hub.links) >= self.config.sessions_max:
                return Refusal("full", f"broker {self.name} has {self.config.sessions_max} sessions: try another one")
            refusal = self.names.refusal(name)
            if refusal is not None:
                return refusal
        self._arriving = name
        return None

    def _is_broker(self, name: str) -> bool:
        return name in self.map and not self.map.is_client(name)

    def link_opened(self, link: Link, fresh: bool) -> None:
        self._arriving = ""
        super().link_opened(link, fresh)
        name = link.peer
        if fresh:
            self.peers[name] = Peer()
            is_broker = link.kind == "broker"
            skipped = (*self.reach.skipped, *((name,) if name in self.reach.told else ())) if is_broker else ()
            self._send(name, Greeting(self._said_state(), self.journal.life, skipped, address=self.config.address))
            for one in self.map.between(name):
                self.go_past(one)
            return
        self._stale = self._stale or self.state.doubtful
        if name in self.reach.failed and name not in self.reach.hard:
            self.reach.back(name)
            self.hub.out.append(Report("trust", peer=name))
            self.refresh()
            self.guests.returned(name)

    def _said_state(self) -> Literal["operational", "recovering", "joining"]:
        if self.state.operational:
            return "operational"
        return "joining" if self.state.joining else "recovering"

    def go_past(self, name: str) -> None:
        """From now on that node has missed something: it must recover before it counts again."""
        if not self.reach.harden(name) or self.map.is_client(name):
            return
        self.synchronisation.spread_past(name)
        if name in self.hub.links:
            self.cut_off(name, f"{name} was skipped")
            self._stale = True

    def link_closed(self, link: Link) -> None:
        super().link_closed(link)
        if link.kind == "broker":
            self._detached_at.pop(link.peer, None)
            self.state.doubtful = self.state.doubtful or (self.config.tolerance > 0 and link.peer in self.map)
        if self.config.tolerance or link.kind == "client":
            self.state.await_node(link.peer, self.state.patience.lost_s(self._now))

    def link_refused(self, link: Link, refusal: Refusal) -> None:
        super().link_refused(link, refusal)
        self.hub.set_aside(link.peer)
        self.forget_session(link.peer)
        if self.state.joining and refusal.code in ("excluded", "name", "misuse"):
            raise LocalMisuse(f"broker {self.name} cannot join below {link.peer}, and ends: {refusal.reason}")
        self.hub.out.append(SetTimer(REFRESH_TIMER, REFRESH_S))

    def link_ended(self, link: Link, reason: str) -> None:
        name = link.peer
        self.forget_session(name)
        if link.kind == "client" and self.map.homes.get(name, self.name) != self.name:
            # It is a guest of ours while its home is failed, and will be back, unless it said goodbye.
            self._detached_at.pop(name, None)
            self.hub.out.append(Report("end", peer=name, detail=reason))
            if name == self.state.parting and name in self.map and self.state.operational:
                self.guests.gone(name)
        elif link.kind == "client" and name == self._arriving:
            self.hub.out.append(Report("end", peer=name, detail=reason))
        else:
            super().link_ended(link, reason)
            if link.kind == "client" and name in self.map:
                self.guests.gone(name)
        self.hub.out.append(SetTimer(REFRESH_TIMER, REFRESH_S))

    def timer(self, name: str, now: float) -> Effects:
        self._now = now
        if name == REFRESH_TIMER:
            if self.state.joining and self.parent is not None and self.parent not in self.hub.links:
                self._dial(self.parent)
            self.refresh()
        elif name.startswith(SUSPECT_TIMER):
            self._suspect(name.removeprefix(SUSPECT_TIMER))
        else:
            return super().timer(name, now)
        return self.hub.take()

    def _suspect(self, name: str) -> None:
        self.state.patience.awaited.discard(name)
        link = self.hub.links.get(name)
        if (
            self.state.joining
            or self.state.is_there(name)
            or name in self.reach.failed
            or name not in self.map
            or not self.reach.is_open_to(name)
        ):
            return
        if link is not None and link.is_open:
            self.state.await_node(name, self.config.suspect_s)
            return
        self.reach.fail(name)
        self.hub.out.append(Report("suspect", peer=name))
        if self.map.is_client(name) and self.map.homes[name] == self.name and name not in self.hub.links:
            self._detached_at.setdefault(name, self._now)
        self.refresh()

    def settle(self, now: float) -> Effects:
        self._now = now
        self.state.patience.settle(now)
        if self._stale:
            self._stale = False
            self.refresh()
        self.confs.settle()
        for name, peer in self.peers.items():
            if peer.parts:
                self.synchronisation.tell_next(name, peer)
        return super().settle(now)

    def _expire_sessions(self, now: float) -> None:
        for client, since in list(self._detached_at.items()):
            if client not in self.hub.links and now - since >= self.config.session_keep_s:
                del self._detached_at[client]
                if self.map.homes.get(client) == self.name and self.state.operational:
                    self.guests.gone(client)
        absent = {name: since for name, since in self._detached_at.items() if name not in self.hub.links}
        super()._expire_sessions(now)
        self._detached_at.update(absent)

    # ------------------------------------------------------------------------------------------------------ messages

    def link_message(self, link: Link, message: SessionMessage) -> None:
        if isinstance(message, Multicast | Conf | Greeting | RoutingPart | Status):
            self.hub.consumed(link, message)
            self._from_node(link.peer, message)
        else:
            super().link_message(link, message)

    def _take(self, link: Link, message: SessionMessage, arrived: SessionMessage) -> None:
        self._consumed(link, arrived)
        self._from_node(link.peer, message)

    def _from_node(self, name: str, message: SessionMessage) -> None:
        if isinstance(message, Multicast):
            self.forwarding.on_multicast(name, message)
        elif isinstance(message, Conf):
            self.forwarding.on_conf(name, message)
        elif isinstance(message, Greeting):
            self._on_greeting(name, message)
        elif isinstance(message, RoutingPart):
            self._on_part(name, message)
        elif isinstance(message, Status):
            self._on_status(name, message)
        elif isinstance(message, Subscribe | Unsubscribe):
            self.guests.on_request(name, message)
        else:
            raise PeerViolation(f"{name} sent {type(message).__name__}, which delta does not know")

    def _cross_border(self, link: Link, message: SessionMessage) -> None:
        super()._cross_border(link, message)
        problem = ""
        if isinstance(message, Multicast):
            change, batch = message.change, message.batch
            if (change is None) == (batch is None) or not message.visited:
                problem = "it carries either a batch or a change, and the hops that it came by"
            elif change is not None and link.kind == "client":
                problem = "clients publish, and ask for subscriptions"
            elif change is not None and change.what in ("s", "u"):
                problem = interest_problem(change.pattern, change.where)
            elif batch is not None:
                problem = topic_problem(batch.topic)
        elif isinstance(message, RoutingPart):
            problem = next(filter(None, (interest_problem(one, where) for one, where, _ in message.entries)), "")
        if problem:
            raise PeerViolation(f"{link.kind} {link.peer} sent {type(message).__name__}: {problem}")

    # ---- greetings

    def _on_greeting(self, name: str, greeting: Greeting) -> None:
        peer = self.peers.get(name)
        if peer is None or peer.greeted:
            return
        peer.life = greeting.life
        if greeting.state == "client":
            self.guests.on_client(name, peer, greeting)
            return
        if self.name in greeting.skipped:
            self._recover()
        for one in greeting.skipped:
            self._tell_skipped(one)
        if greeting.state == "operational" and self.reach.was_skipped(name):
            # It does not know yet that it was skipped. 1. We greeted it. 2. Somebody who had gone past it greeted
            # us. 3. It greets us: our own greeting has not said it.
            self._send(name, Status("skipped"))
            return
        # A newcomer that is known but says so was taken in by us before we crashed: nobody else may have heard of it.
        if greeting.state == "joining" and (name not in self.map or self.map.parent_of(name) == self.name):
            self._take_in(name, greeting.address)
            self.refresh()
            return
        peer.greeted = True
        peer.recovering = greeting.state != "operational"
        if self.state.joining:
            self.map.add((name, self.name, False, self.config.address))
        self.reach.back(name)
        self.refresh()

    def _tell_skipped(self, name: str) -> None:
        """Somebody beyond has gone past a node near us: it hears of that from us, now or when it comes."""
        if name not in self.map or name == self.name or self.map.is_client(name):
            return
        peer = self.peers.get(name)
        if peer is not None and peer.greeted:
            if not peer.recovering:
                self._send(name, Status("skipped"))
        else:
            self.reach.hard[name] = None

    def _on_status(self, name: str, status: Status) -> None:
        peer = self.peers.get(name)
        if status.what == "skipped":
            self._recover()
            self.refresh()
        elif status.what == "recovering" and peer is not None:
            self.synchronisation.on_recovering(name, peer)
        elif status.what == "past":
            self.synchronisation.hear_past(name, status.node)
        elif status.what == "operational" and peer is not None:
            peer.recovering = False
            peer.parts.clear()
            self.hub.out.append(Report("operational", peer=name))
        elif status.what == "back" and status.node in self.reach.failed:
            # Somebody between us is there again, as that one sees it: it will come.
            del self.reach.failed[status.node]
            self.cut_off(name, f"{status.node} is back")
            self.refresh()

    def _take_in(self, name: str, address: str) -> None:
        """A newcomer joins below us: everybody nearby knows of it before it is told anything (4.6)."""
        self.map.add((self.name, name, False, address))
        self.map.marked.add(name)
        change = self.forwarding.change("j", name, parent=self.name, address=address)

        def joined() -> None:
            self.map.marked.discard(name)
            self.write_map()
            self.hub.out.append(Report("joined", peer=name))
            peer = self.peers.get(name)
            if peer is not None:
                peer.greeted = peer.recovering = True
                # It may have been here before, and have lost its disk.
                self.reach.back(name)
            self.refresh()

        self.forwarding.originate(change, name, joined)

    # ---- clients

    def forget_node(self, name: str) -> None:
        self.map.remove(name)
        self.passage.came.forget((name,))
        self.hub.out += self.journal.erase_client(name)
        self.reach.back(name)
        self.state.lives.pop(name, None)
        self.state.owed.discard(name)
        self.state.reports.pop(name, None)
        for entry in self.passage.forget_node(name):
            self.forwarding.advance(entry)
        # What it left with us for clients that were failed is for us to give now.
        self._stale = True

    # ---- recovery

    def _on_part(self, name: str, part: RoutingPart) -> None:
        if self.map.is_client(name):
            self.state.reports.setdefault(name, []).extend((pattern, where) for pattern, where, _ in part.entries)
            if part.complete:
                if self.state.operational:
                    self.guests.reconcile(name)
                else:
                    for pattern, where in self.state.reports[name]:
                        self.filters.apply("s", pattern, where, name)
                    self.recovery.complete[name] = None
                    self.refresh()
            return
        if self.state.operational or name not in self.peers:
            return
        self.synchronisation.take_in(name, part)
        if self.recovery.take(name, part):
            self.state.joining = False
            departed = self.state.departed
            self.map.learn(one for one in self.recovery.parts[name].links if one[1] not in departed)
            self.refresh()

    def link_acknowledged(self, link: Link) -> None:
        peer = self.peers.get(link.peer)
        if peer is not None and peer.parts:
            self.synchronisation.tell_next(link.peer, peer)
        super().link_acknowledged(link)

    def write_map(self) -> None:
        self.hub.out += self.journal.write_map(self.map.places(clients=False))
        for client, home in self.map.homes.items():
            if home != self.name and client not in self.map.marked:
                self.hub.out += self.journal.write_near(client, home)

    # ------------------------------------------------------------------------------------------------------- passage

    def refuses(self, name: str, message: Multicast) -> bool:
        """Whether that is a publication of a client that cannot be passed on."""
        batch = message.batch
        if batch is None or not self.map.is_client(name):
            return False
        problem = topic_problem(batch.topic)
        if batch.publisher != name:
            problem = f"client {name} may publish under its own name only, not as {batch.publisher}"
        try:
            batch.check()
            self._check_given(batch)
        except (BatchError, PublicationRefused) as refused:
            problem = problem or str(refused)
        if problem:
            self._send(name, Rejected(0, batch.first, batch.last, problem))
            self.confs.say(name, message.number, ())
        else:
            self.publishers.note(name, batch.last)
        return bool(problem)

    def client_returned(self, client: str) -> None:
        self.guests.returned(client)

    def leaves_out(self, client: str, batch: Batch) -> bool:
        """Whether a client that does not take enough is left out this time."""
        return self.slow_readers.leaves_out(client, batch)

    def change_confirmed(self, change: Change) -> None:
        """Everybody behind us knows of a change."""
        if change.what == "j":
            self.map.marked.discard(change.node)
            if not change.client:
                self.write_map()
            elif self.map.homes.get(change.node) == change.parent != self.name:
                self.hub.out += self.journal.write_near(change.node, change.parent)
        elif change.what == "l":
            self.forget_node(change.node)
            if not change.client:
                self.write_map()

    # ---- the way of one entry

    # -------------------------------------------------------------------------------------------------- leaving

    def leave(self, now: float) -> Effects:
        """Leave the tree for good, as a leaf without clients (the paper leaves it out; here as a join backwards)."""
        self._now = now
        if not self.state.operational or len(self.map.neighbours(self.name)) > 1 or self.map.guests.get(self.name):
            raise LocalMisuse(f"broker {self.name} cannot leave: only a leaf that has no clients, and serves, can.")
        above = next(iter(self.map.neighbours(self.name)), "")
        self._retiring = True
        if above:
            self.forwarding.originate(self.forwarding.change("l", self.name, parent=above), "", self._leave_now)
        else:
            self._leave_now()
        return self.hub.take()

    def _leave_now(self) -> None:
        self.confs.settle()
        self._enter(Phase.GONE)
        self.hub.close_all(f"broker {self.name} has left the tree")
        self.hub.out.append(Report("stopped"))

    def _idle(self) -> bool:
        return not self.passage.under_way()

    def _interests_of(self, peer: str) -> Iterable[Interest]:
        return self.filters.table.interests(peer)

    def _brokers(self) -> Iterable[str]:
        return [name for name in self.hub.links.brokers if name in self.peers]

    def _told_of_holes(self) -> Iterable[str]:
        return [name for name in self.hub.links if name in self.peers]

    # ------------------------------------------------------------------------------------------------- inspection

    def state_of(self, name: str) -> str:
        """The operational state of another node, as this one sees it."""
        peer = self.peers.get(name)
        if name in self.reach.failed:
            return "failed"
        if peer is None or not peer.greeted:
            return "unknown"
        return "recovering" if peer.recovering else "operational"

    def status(self) -> dict[str, object]:
        links = self.hub.links.values()
        near = [*self.map.neighbours(self.name), *(one for one in self.peers if one in self.map)]
        return {
            "name": self.name,
            "protocol": self.protocol,
            "phase": self.phase.value,
            "state": "operational" if self.state.operational else "recovering",
            "parent": self.map.parent_of(self.name) or self.parent,
            "children": [one for one in self.map.neighbours(self.name) if self.map.parent_of(one) == self.name],
            "clients": sorted(name_of(link.peer) for link in links if link.kind == "client"),
            "links": {link.peer: link.state.value for link in links},
            "nodes": {one: self.state_of(one) for one in sorted({*near, *self.reach.failed})},
            "skipped": list(self.reach.skipped),
            "suspected": sorted(self.reach.failed),
            "backlog_bytes": {link.peer: link.backlog_bytes for link in links if link.backlog_bytes},
            **self.slow_status(),
            "subscriptions": len(self.filters.table),
            "matched_filters": self.filters.matched,
            "in_transit": len(self.passage.under_way()),
            "kept": len(self.passage.entries) - len(self.passage.under_way()),
            "known_links": len(self.map.places()),
        }

    def check_invariants(self) -> None:
        self.hub.check_invariants()
        self.passage.check_invariants()
        self.names.check_invariants()
        for name in self.peers:
            assert name in self.hub.links, f"{name} is a peer without a session"

    def waiting_for(self) -> list[str]:
        reasons = [
            f"{', '.join(entry.targets)} to confirm {entry.key}" for entry in self.passage.under_way() if entry.targets
        ]
        if not self.state.operational and self.phase is not Phase.GONE:
            reasons.append("routing information of its neighbours")
        return [*reasons, *self.hub.waiting_for()]
