"""Recovery of one broker, and of its neighbours with its help (section 6).

A node that recovers takes the routing information of each direction from the nearest live nodes there, its
synchronisation points, waits until those nearby know that it is back, and only then is operational. A synchronisation
point that itself recovers tells its part when it knows all that lies behind it. Parts give way to traffic: one is under
way at a time, and none while something else waits for credit.
"""

from holdfast.model.delta_messages import Entry, RoutingPart, Status
from holdfast.protocols.delta.forwarding import Forwarding
from holdfast.protocols.delta.node_state import NodeState, Owner, Peer

PART_ENTRIES = 250


class Synchronisation:
    """What is told, and what was told."""

    def __init__(self, state: NodeState, forwarding: Forwarding, owner: Owner) -> None:
        self.state, self._forwarding, self._owner = state, forwarding, owner
        self.name, self.map, self.reach, self.filters = state.name, state.map, state.reach, state.filters
        self.peers, self.hub, self.recovery, self.journal = state.peers, state.hub, state.recovery, state.journal
        self.passage = state.passage
        self._attempts = 0

    def check(self) -> None:
        """Take in the directions of which everything was told; when there are no others, the node has recovered."""
        if self.state.operational or self.state.rejoining or self.state.joining:
            return
        recovery, near = self.recovery, self.map.neighbours(self.name)
        ended = []
        for root in near:
            if root in recovery.complete or self.reach.is_blocked(root):
                continue
            peers = self.reach.nearest(root)
            if self._waits_for_clients(root, peers):
                continue
            if not peers:
                ended.append(root)
            elif all(recovery.has_part(one) for one in peers):
                self._finish_direction(root, peers)
        if all(root in recovery.complete or root in ended for root in near):
            for root in ended:
                self._finish_direction(root, [])
            self._finish_clients()

    def _waits_for_clients(self, root: str, peers: list[str]) -> bool:
        """Whether a client of a failed broker there has yet to say what it wants, and nobody else may know.

        1. All brokers of a part of the tree fail, and forget. 2. Some return; the home of a client does not. 3. They
        would be operational without its filters.
        """
        if any(one in self.peers and not self.peers[one].recovering for one in peers):
            return False
        clients = [one for broker in self.reach.passed(root) for one in self.map.guests.get(broker, ())]
        return any(one not in self.recovery.complete and one not in self.reach.failed for one in clients)

    def _finish_direction(self, root: str, peers: list[str]) -> None:
        entries, changes = self.recovery.finish(root, peers)
        if not peers:
            entries = [*self.recovery.heard, *self.recovery.before]
        self._drop_but(root, entries)
        if peers:
            self._forget_clients_but(root, peers)
        for pattern, where, node in entries:
            if self.map.towards(node) == root:
                self.filters.apply("s", pattern, where, node)
        for change in changes:
            self.filters.apply(change.what, change.pattern, change.where, change.node)

    def take_in(self, name: str, part: RoutingPart) -> None:
        """Know the filters of a part at once, though they do not count before their direction is complete.

        1. A direction has 50,000 filters, and its last part comes. 2. To take all in at that moment takes seconds, in
        which we say nothing. 3. Our neighbours hold us failed, and we begin anew.
        """
        root = self.map.towards(name)
        if root in self.recovery.complete:
            return
        for pattern, where, node in part.entries:
            if self.map.towards(node) == root:
                self.filters.apply("s", pattern, where, node)

    def _drop_but(self, root: str, entries: list[Entry]) -> None:
        """Forget what an earlier part of that direction said, and this one does not."""
        told, table = set(entries), self.filters.table
        for pattern, where in table.distinct():
            for node in table.sources(pattern, where):
                if node in self.recovery.complete and node in self.map.homes:
                    continue
                if self.map.towards(node) == root and (pattern, where, node) not in told:
                    table.remove(pattern, where, node)

    def _forget_clients_but(self, root: str, peers: list[str]) -> None:
        """Forget clients in that direction of whom nobody there knows any more: they have left meanwhile."""
        links = [link for one in peers for link in self.recovery.parts[one].links]
        told = {child for _, child, client, _ in links if client}
        for name in sorted(self.recovery.remembered - told):
            if name not in self.peers and self.map.towards(name) == root:
                self._owner.forget_node(name)

    def _finish_clients(self) -> None:
        own = list(self.map.guests.get(self.name, ()))
        if any(one not in self.recovery.complete and one not in self.reach.failed for one in own):
            return
        for pattern, where, node in self.recovery.heard:
            if node in own and node not in self.state.reports and node in self.reach.failed:
                self.filters.apply("s", pattern, where, node)
        self._forget_those_gone()
        self._owner.write_map()
        self.state.rejoining = True
        self._forwarding.resume()
        self._attempts += 1
        attempt = self._attempts

        def back() -> None:
            if self.state.rejoining and attempt == self._attempts:
                self._owner.become_operational()

        self._forwarding.originate(self._forwarding.change("r", self.name), "", back)

    def _forget_those_gone(self) -> None:
        """Leaves next to us that nobody nearby knows any more have left while we were away."""
        told = {child for _, child, _, _ in self.recovery.links} | {parent for parent, _, _, _ in self.recovery.links}
        if not told or not self.state.tolerance:
            return
        for name in [*self.map.neighbours(self.name), *self.map.guests.get(self.name, ())]:
            if name not in told and name not in self.peers:
                self._owner.forget_node(name)

    def spread_past(self, name: str, but: str = "") -> None:
        """Tell those nearby that a broker was gone past, ahead of whatever is confirmed without it."""
        for one, peer in self.peers.items():
            if peer.greeted and one not in (name, but) and not self.map.is_client(one):
                self.state.send(one, Status("past", name))

    def hear_past(self, name: str, skipped: str) -> None:
        peer = self.peers.get(skipped)
        if peer is not None and peer.greeted and not self.map.is_client(skipped):
            if not peer.recovering:
                self.state.send(skipped, Status("skipped"))
        elif skipped != self.name and self.reach.hear(skipped):
            self.spread_past(skipped, name)

    def on_recovering(self, name: str, peer: Peer) -> None:
        """That node was skipped, and recovers: it is told everything, and given again what it has not confirmed."""
        peer.greeted = peer.recovering = True
        peer.told = False
        peer.parts.clear()
        self.passage.give_again(name)
        self.state.unlearn(name)
        self.reach.back(name)
        self._owner.refresh()

    def tell_parts(self) -> None:
        """Tell those that recover what they need, as soon as it is known here."""
        near = self.map.neighbours(self.name)
        for name, peer in self.peers.items():
            if not peer.recovering or peer.told or not peer.greeted or self.map.is_client(name):
                continue
            side, complete = self.map.towards(name), self.recovery.complete
            if not self.state.operational:
                own = self.map.guests.get(self.name, ())
                if any(one not in complete and one != side for one in near):
                    continue
                if any(one not in complete and one not in self.reach.failed for one in own):
                    continue
            peer.told = True
            self._cut_into_parts(name, peer)

    def _cut_into_parts(self, name: str, peer: Peer) -> None:
        # Joins under way as well. 1. One floods past a failed node, and is not confirmed yet. 2. That node returns, and
        # is told what is confirmed. 3. It would never hear of the join.
        links, entries = self.map.places(marked=True), self.filters.projection(name)
        for at in range(0, max(len(links), 1), PART_ENTRIES):
            peer.parts.append(RoutingPart(tuple(links[at : at + PART_ENTRIES]), (), complete=False))
        for at in range(0, max(len(entries), 1), PART_ENTRIES):
            peer.parts.append(RoutingPart((), tuple(entries[at : at + PART_ENTRIES]), complete=False))
        last = peer.parts.pop()
        peer.parts.append(RoutingPart(last.links, last.entries, complete=True))
        self.tell_next(name, peer)

    def tell_next(self, name: str, peer: Peer) -> None:
        """Send the next part if nothing else waits there: routing information gives way to traffic."""
        link = self.hub.links.get(name)
        while peer.parts and link is not None and link.is_open:
            if self._owner.yields and (link.waiting or link.acked < peer.part_at):
                return
            self.state.send(name, peer.parts.popleft())
            peer.part_at = link.queued
