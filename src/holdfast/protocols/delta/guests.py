"""The clients of one broker, as nodes of the tree: they join, want something, are failed, return, and leave."""

from holdfast.model.delta_messages import Greeting, RoutingPart
from holdfast.model.messages import Refusal, Subscribe, SubscribeAck, Unsubscribe, UnsubscribeAck
from holdfast.protocols.delta.forwarding import Forwarding
from holdfast.protocols.delta.node_state import NodeState, Owner, Peer


class Guests:
    """Clients whose home is here, and those whose home is failed."""

    def __init__(self, state: NodeState, forwarding: Forwarding, owner: Owner) -> None:
        self.state, self._forwarding, self._owner = state, forwarding, owner
        self.name, self.map, self.reach, self.filters = state.name, state.map, state.reach, state.filters
        self.peers, self.hub, self.recovery = state.peers, state.hub, state.recovery
        self.passage, self.journal = state.passage, state.journal

    def on_client(self, name: str, peer: Peer, greeting: Greeting) -> None:
        home = self.map.homes.get(name)
        if greeting.home not in ("", self.name):
            if home is None:
                self._owner.cut_off(name, f"{name} is not known at {self.name}")
                return
            self._attached(name, peer)
            return
        if not self.state.operational and home is None:
            self._owner.cut_off(name, f"{self.name} recovers")
        elif not greeting.joined and home == self.name:
            if self.state.lives.get(name) != greeting.life:
                self.gone(name)
            # 1. We took it in, and crashed before anybody else knew. 2. It asks again: so must we tell them again.
            self.recovery.complete[name] = None
            self._client_joins(name, greeting)
        elif home is None and greeting.joined:
            refusal = Refusal("late", f"{self.name} has no session of {name} any more")
            self.hub.refuse(name, refusal)
            self._owner.forget_session(name)
        elif home is None:
            self._client_joins(name, greeting)
        else:
            self._attached(name, peer)

    def _client_joins(self, name: str, greeting: Greeting) -> None:
        self.state.departed.discard(name)
        self.state.lives[name] = greeting.life
        self.map.add((self.name, name, True, ""))
        self.map.marked.add(name)
        self.hub.out += self.journal.write_client(name, greeting.life)

        def joined() -> None:
            self.map.marked.discard(name)
            peer = self.peers.get(name)
            # It has yet to hear that it is known, and so has nothing to report, should this broker recover by now.
            self.recovery.complete[name] = None
            if peer is not None:
                self._attached(name, peer)

        self._forwarding.originate(self._forwarding.change("j", name, parent=self.name, client=True), name, joined)

    def _attached(self, name: str, peer: Peer) -> None:
        """A client is there, and known to those nearby: it gets its map, and whatever is for it."""
        peer.greeted = True
        self._owner.detached_at.pop(name, None)
        self._tell_map(name)
        self.reach.back(name)
        self._owner.refresh()
        self.returned(name)

    def _tell_map(self, client: str) -> None:
        links = list(self.map.places(clients=False))
        self.state.send(client, RoutingPart(tuple(links), (), complete=True))

    def gone(self, name: str) -> None:
        """A session is over: whatever it wanted is taken back everywhere, then its place is."""
        self.state.departed.add(name)
        home = self.map.homes.get(name, self.name)
        # Whoever is its host while its home is failed tells the home, too, when that is back.
        came = name if home == self.name else ""
        if name in self.state.owed:
            # Nobody need keep anything for it any more.
            self._forwarding.originate(self._forwarding.change("r", name, client=True), came, None)
        for pattern, where in self.filters.table.interests(name):
            self.filters.table.remove(pattern, where, name)
            self._forwarding.originate(self._forwarding.change("u", name, pattern, where), came, None)
        self._forwarding.originate(self._forwarding.change("l", name, parent=home, client=True), came, None)
        self._owner.forget_node(name)

    def returned(self, client: str) -> None:
        """Once a client that lacked something has it all, those nearby need not keep that any more."""
        if client not in self.state.owed or client in self.reach.failed or self.map.homes.get(client) != self.name:
            return
        if not any(client in entry.lacking for entry in self.passage.entries.values()):
            self.state.owed.discard(client)
            self._forwarding.originate(self._forwarding.change("r", client, client=True), client, None)

    def on_request(self, name: str, message: Subscribe | Unsubscribe) -> None:
        if not message.token:
            return
        if not self.state.operational:
            self.state.parked.append((name, message))
            return
        if name not in self.map:
            return
        what = "s" if isinstance(message, Subscribe) else "u"
        change = self._forwarding.change(what, name, message.pattern, message.where)
        answer = SubscribeAck(message.token) if what == "s" else UnsubscribeAck(message.token)
        known = self._forwarding.known_already(change)
        self.filters.apply(what, message.pattern, message.where, name)
        if not self._owner.confirms:
            self.state.send(name, answer)
        self._forwarding.originate(
            change, name, (lambda: self.state.send(name, answer)) if self._owner.confirms else None, known
        )

    def reconcile(self, client: str) -> None:
        """A client that came back says what it wants: that counts."""
        reported = self.state.reports.pop(client, None)
        if reported is None or client not in self.map:
            return
        known = set(self.filters.table.interests(client))
        for pattern, where in sorted({*reported} - known):
            self.filters.apply("s", pattern, where, client)
            self._forwarding.originate(self._forwarding.change("s", client, pattern, where), client, None)
        for pattern, where in sorted(known - {*reported}):
            self.filters.apply("u", pattern, where, client)
            self._forwarding.originate(self._forwarding.change("u", client, pattern, where), client, None)
