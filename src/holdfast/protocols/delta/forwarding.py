"""The way of messages through one broker: the paper's generic forwarding (Algorithm 1) and its bypass (Algorithm 3).

A publication has *targets*: the nodes that the table names (RCPT), or that a guide names to a node that recovers. It
goes to the nearest live node on the way to each. A change floods: to each neighbour but the one that it came from, or,
where that is held failed, to those behind it. An entry is confirmed when no target is left. Whenever connections change
every entry looks for its way again, in the order of their numbers: so nothing overtakes what was not confirmed.
"""

import itertools
from collections.abc import Iterable

from holdfast.model.batches import Batch
from holdfast.model.delta_messages import Change, Conf, Multicast, Path, Visit
from holdfast.protocols.delta.node_state import NodeState, Owner, Then
from holdfast.protocols.delta.passage import Entry, key_of

FIRST = ""
"""Stands among the targets of a later copy for the confirmation of the first."""


class Forwarding:
    """Entries, and where they go."""

    def __init__(self, state: NodeState, owner: Owner) -> None:
        self.state, self._owner = state, owner
        self.name, self.map, self.reach, self.filters = state.name, state.map, state.reach, state.filters
        self.passage, self.confs, self.peers, self.hub = state.passage, state.confs, state.peers, state.hub
        self.recovery = state.recovery

    def change(
        self,
        what: str,
        node: str,
        pattern: str = "",
        where: str = "",
        parent: str = "",
        client: bool = False,
        address: str = "",
    ) -> Change:
        return Change(self.name, self.passage.life, 0, what, node, pattern, where, parent, client, address)  # type: ignore[arg-type]

    def originate(self, change: Change, came: str, then: Then | None, known: Iterable[str] = ()) -> None:
        """Begin to spread a change of our own, to everybody but those on the side that it comes from."""
        serial = self.passage.last + 1
        change = Change(
            self.name,
            self.passage.life,
            serial,
            change.what,
            change.node,
            change.pattern,
            change.where,
            change.parent,
            change.client,
            change.address,
        )
        entry = self.passage.add((self.name, self.passage.life, serial), None, change, ())
        side = self.map.towards(came) if came else ""
        entry.targets = dict.fromkeys(
            one for one in self._spread(change, self.name) if one != side and one not in known
        )
        if then is not None:
            self.state.then[entry.number] = then
        self.advance(entry)

    def on_multicast(self, name: str, message: Multicast) -> None:
        if name not in self.peers or not (self.peers[name].greeted):
            return
        if not self.state.operational and not message.guided:
            if self.map.is_client(name):
                self.state.parked.append((name, message))
            return
        entry = self.passage.find(key_of(message))
        repeated = entry is not None or self.passage.came.is_duplicate(message.visited) or self._is_late(name, message)
        self.passage.came.note(message.visited)
        if repeated and message.turn and self.state.operational:
            self._stand_in_again(name, message, entry)
            return
        if repeated:
            if entry is None or not entry.open:
                self.confs.say(name, message.number, () if entry is None else (*entry.lacking, *entry.hidden))
                return
            entry.senders[name, message.number] = None
            for path, client in message.to:
                self._add_target(entry, path, client, name)
            self.advance(entry)
            return
        if message.batch is not None and self._owner.refuses(name, message):
            return
        entry = self.passage.add(key_of(message), message.batch, message.change, message.visited)
        entry.senders[name, message.number] = None
        entry.came = name
        side = self.map.towards(name)
        if message.change is not None:
            self._on_change(entry, message.change, side)
        elif not message.guided:
            self._route(entry, name, side)
            self._stand_in(entry, name, message.turn)
        for path, client in message.to:
            self._add_target(entry, path, client, name)
        self.advance(entry)

    def _is_late(self, name: str, message: Multicast) -> bool:
        """Whether that comes past a failed home, which had passed later ones of its publisher on to us.

        1. A publication goes on from the home of its publisher, to others: nobody behind us wants it. 2. A subscription
        from behind us comes there, and counts for the next one. 3. The home fails. The publisher gives us both: the
        first is not for us, and its subscriber would have it behind the second.
        """
        return self.map.homes.get(name, self.name) != self.name and self.passage.came.is_late(message.visited[0])

    def _stand_in_again(self, name: str, message: Multicast, first: Entry | None) -> None:
        """A publisher has lost sight of more brokers since: their clients get it now, in the order of these copies.

        An entry of its own keeps that order: of two messages whose first copies came before, one may be confirmed
        already and the other not, and they go to those clients one behind the other.
        """
        batch = message.batch
        if batch is None:
            return
        entry = self.passage.add((batch.publisher, message.number, batch.first), batch, None, message.visited)
        entry.senders[name, message.number] = None
        entry.came = name
        self._stand_in(entry, name, message.turn)
        if first is not None and first.open:
            entry.targets[FIRST] = None
            before = self.state.then.get(first.number)

            def confirmed() -> None:
                if before is not None:
                    before()
                entry.targets.pop(FIRST, None)
                self.finish_if_complete(entry)

            self.state.then[first.number] = confirmed
        self.advance(entry)

    def _route(self, entry: Entry, name: str, side: str) -> None:
        batch = entry.batch
        assert batch is not None, "changes are not routed"
        for node in self.filters.takers(batch):
            way = self.map.path(node)
            if not way or node == name:
                continue
            if way[0] != side:
                entry.targets[node] = None

    def resume(self) -> None:
        """Our tables are complete again: what our clients published goes on, under the numbers that it had.

        1. A message had gone on, and its confirmation was lost. 2. We were skipped, told everybody that we are back,
        and only then sent it again, with a new number so that it did not look old. 3. Nobody further away than delta+1
        from its publisher could tell that it was a repeat.
        """
        for entry in self.passage.under_way():
            if entry.waits and entry.batch is not None:
                self._route(entry, entry.came, self.map.towards(entry.came))
        self.advance_all()

    def _look_behind(self, entry: Entry, batch: Batch, node: str) -> None:
        """A destination recovers, and does not know who is behind it: we do.

        1. We recovered, and were guided: the way ended at our neighbour. 2. That one recovers now. 3. It would keep the
        message until it knows more, and later ones, guided further, would overtake it.
        """
        if self.map.is_client(node):
            return
        way = self.map.towards(node)
        behind = [one for one in self.filters.takers(batch) if self.map.towards(one) == way and one not in entry.done]
        if node not in behind:
            del entry.targets[node]
            entry.targets.update(dict.fromkeys(behind))

    def _stand_in(self, entry: Entry, name: str, turn: tuple[str, ...]) -> None:
        """The publisher goes past these brokers: their other clients get it from us."""
        if not turn or entry.batch is None:
            return
        for node in self.filters.takers(entry.batch):
            if self.map.homes.get(node) in turn and node != name and node not in entry.done:
                entry.targets[node] = None
                entry.turned.add(node)

    def _add_target(self, entry: Entry, path: tuple[str, ...], client: bool, name: str) -> None:
        """A guide says who must get it, and by which way."""
        if not path:
            # We are one on the way ourselves: whoever is behind us is in our own table, when that is complete.
            if entry.batch is not None and self.name not in entry.done:
                entry.targets[self.name] = None
            return
        way = (self.name, *path)
        for above, below in itertools.pairwise(way):
            if below not in self.map:
                self.map.add((above, below, client and below == path[-1], ""))
        if path[-1] not in entry.done and self.map.towards(path[-1]) != self.map.towards(name):
            entry.targets[path[-1]] = None

    def _on_change(self, entry: Entry, change: Change, side: str) -> None:
        known: frozenset[str] = frozenset()
        if change.what in ("s", "u"):
            if not self.state.operational and side not in self.recovery.complete:
                self.recovery.log(side, change)
            else:
                known = self._known_already_but(entry, change)
                self.filters.apply(change.what, change.pattern, change.where, change.node)
        elif change.what == "j":
            self.recovery.remembered.discard(change.node)
            if self.map.add((change.parent, change.node, change.client, change.address)):
                self.map.marked.add(change.node)
        elif change.what == "r" and not change.client:
            self.reach.told.pop(change.node, None)
            if self.state.operational:
                self.passage.came.forget([one for one in self.passage.came if one not in self.map])
        elif change.what == "r":
            for one in list(self.passage.entries.values()):
                if one.lacking.pop(change.node, "") is None:
                    self.finish_if_complete(one)
        entry.targets.update(
            dict.fromkeys(one for one in self._spread(change, self.name) if one != side and one not in known)
        )

    def known_already(self, change: Change) -> frozenset[str]:
        """Neighbours that look at it as at something that they know, and that is confirmed."""
        if change.what != "s" or any(
            one.change is not None and (one.change.pattern, one.change.where) == (change.pattern, change.where)
            for one in self.passage.under_way()
        ):
            return frozenset()
        near = self.map.neighbours(self.name)
        return frozenset(one for one in near if self.filters.is_known(change, one))

    def _known_already_but(self, entry: Entry, change: Change) -> frozenset[str]:
        entry.open = False
        known = self.known_already(change)
        entry.open = True
        return known

    def _spread(self, change: Change, name: str) -> list[str]:
        """The nodes next to that broker that a change concerns."""
        near = self.map.neighbours(name) if name == self.name else self.map.beyond(name)
        found = [one for one in near if self._concerns(change, one, 0) and one != change.node]
        told = change.what == "r" if change.client else change.what in ("j", "l")
        if told and self._concerns(change, name, 1):
            found += [one for one in self.map.guests.get(name, ()) if one != change.node]
        # Whoever is joining is told everything when its join is confirmed. 1. Two join at neighbours. 2. Each change
        # goes to the other newcomer, too, who confirms nothing before its own is confirmed.
        return [one for one in found if one not in self.map.marked or self._is_greeted(one)]

    def _is_greeted(self, name: str) -> bool:
        return name in self.peers and self.peers[name].greeted

    def _concerns(self, change: Change, broker: str, further: int) -> bool:
        if change.what in ("s", "u"):
            return not further
        tolerance = self.state.tolerance
        if change.what == "r":
            centre = self.map.homes.get(change.node, change.node)
            hops = tolerance if change.client else tolerance + 1
        else:
            centre, hops = change.parent, tolerance
        return self.map.has_broker(centre) and self.map.apart(centre, broker) + further <= hops

    def advance_all(self) -> None:
        """Let every entry look for its way again; what goes in one direction goes in the order of its numbers.

        Where one is numbered anew, so are all behind it that begin to go there now: else they would overtake it.
        """
        gifts: list[tuple[int, Entry, str, dict[str, None], int]] = []
        shifted: dict[str, int] = {}
        for entry in list(self.passage.entries.values()):
            for hop, nodes in self._hops_of(entry).items():
                side = self.map.towards(hop)
                before, place = 0, entry.number
                if not entry.turned.intersection(nodes):
                    before = max(self._highest(entry, nodes), shifted.get(side, 0))
                    place = self.passage.place_towards(entry, side, before)
                if place > self.passage.last:
                    shifted[side] = place
                gifts.append((place, entry, hop, nodes, before))
        for _, entry, hop, nodes, before in sorted(gifts, key=lambda gift: gift[0]):
            self._give(entry, hop, nodes, before)
        for entry in list(self.passage.entries.values()):
            self._finish(entry)

    def advance(self, entry: Entry) -> None:
        """Give it to whoever is next on the way to those who have yet to confirm it."""
        if entry.number not in self.passage.entries:
            return
        for hop, nodes in self._hops_of(entry).items():
            self._give(entry, hop, nodes)
        self._finish(entry)

    def _finish(self, entry: Entry) -> None:
        """Settle those that nobody is left behind, and confirm it if that is all.

        1. Somebody failed is gone past, and those behind it need not be told, since a change was taken back meanwhile.
        2. Nobody is left to tell there: the failed one must not be waited for.
        """
        if entry.targets and entry.change is not None and entry.done:
            self._hops_of(entry)
        self.finish_if_complete(entry)

    def _hops_of(self, entry: Entry) -> dict[str, dict[str, None]]:
        """The next nodes on its way, and for which destinations; settle those that nobody is left for."""
        hops: dict[str, dict[str, None]] = {}
        if self.state.operational:
            self._look_up_again(entry)
        for node in list(entry.targets):
            if node in (self.name, FIRST):
                continue
            if entry.change is not None:
                self._flood(entry, node, hops)
            elif node in entry.turned and not entry.senders:
                # Its publisher has another way by now.
                del entry.targets[node]
            else:
                self._find_hop(entry, node, hops)
        self._find_lacking(entry, hops)
        if entry.waits and not (self.state.operational or self.state.rejoining):
            # Only where it went before, so that nothing with a later number gets there first.
            return {hop: nodes for hop, nodes in hops.items() if self.map.towards(hop) in entry.begun}
        return hops

    def _look_up_again(self, entry: Entry) -> None:
        """Our tables are complete: destinations that others named, or that old tables named, give way to ours."""
        if self.name in entry.targets:
            del entry.targets[self.name]
            entry.done.add(self.name)
            if not entry.waits and self.passage.came.is_outrun(entry.visited):
                # Others have gone through since, with later numbers of the hops before us: only ours counts behind us.
                entry.visited = ()
            entry.waits = False
            self._route(entry, entry.came, self.map.towards(entry.came))
        if entry.batch is not None:
            for node in [one for one in entry.targets if self._is_unsure(one)]:
                self._look_behind(entry, entry.batch, node)

    def _is_unsure(self, node: str) -> bool:
        """Whether the way to that destination begins with a node that recovers, or is failed as a whole.

        1. We recovered, and were guided to a node. 2. Now we know who is behind it, and guide later messages there.
        3. The first waits in that node, which recovers, or for it, if it is failed; the later ones would overtake it.
        """
        hop = self.reach.hop(node)
        return (hop in self.peers and self.peers[hop].recovering) or (node in self.map and not hop)

    def _find_hop(self, entry: Entry, node: str, hops: dict[str, dict[str, None]]) -> None:
        """The next node on the way of a publication to one destination."""
        hop = self.reach.hop(node)
        if hop and hop != node and node in entry.turned:
            # A broker is there on its way, and gets it from the publisher: from us it would hide that copy.
            return
        if hop:
            hops.setdefault(hop, {})[node] = None
        elif self.map.is_client(node):
            del entry.targets[node]
            entry.lacking[node] = None
        elif node not in self.map:
            del entry.targets[node]

    def _find_lacking(self, entry: Entry, hops: dict[str, dict[str, None]]) -> None:
        """The ways to clients for whom it is kept, as far as they are in reach."""
        for node in list(entry.lacking):
            if node in entry.turned and node not in self.peers and self._is_kept_by_its_publisher(entry):
                # 1. We stood in for its home, and it was out of reach. 2. Its home is back, and the publisher's. 3. Our
                # copy goes through both, for that client alone, and hides the publisher's own one, which is for all.
                continue
            hop = self.reach.hop(node) or (node if node in self.peers else "")
            if hop:
                hops.setdefault(hop, {})[node] = None

    def _is_kept_by_its_publisher(self, entry: Entry) -> bool:
        """Whether its publisher has not left: it gives its home everything that somebody lacks, when that is back."""
        return entry.batch is not None and entry.batch.publisher in self.map

    def _flood(self, entry: Entry, node: str, hops: dict[str, dict[str, None]]) -> None:
        """Find the nearest live nodes at and behind a neighbour; settle it if there is nobody left to tell."""
        assert entry.change is not None, "publications have destinations"
        if self._is_settled(entry, entry.change, node, hops):
            entry.targets.pop(node, None)

    def _is_settled(self, entry: Entry, change: Change, node: str, hops: dict[str, dict[str, None]]) -> bool:
        if node in entry.done or node not in self.map:
            return True
        hop = self.reach.hop(node)
        if hop:
            hops.setdefault(hop, {})[node] = None
            return False
        if self.map.is_client(node):
            return True
        if self.map.distance(node) >= self.map.radius and change.what in ("s", "u"):
            return False
        if not self.state.tolerance:
            return False
        settled = [self._is_settled(entry, change, one, hops) for one in self._spread(change, node)]
        if all(settled):
            self._owner.go_past(node)
        return all(settled)

    def _give(self, entry: Entry, hop: str, nodes: dict[str, None], before: int = 0) -> None:
        peer = self.peers.get(hop)
        if peer is None or not peer.greeted or hop not in self.hub.links:
            return
        given = entry.sent.get(hop)
        if given is not None and given.issuperset(nodes):
            return
        change = entry.change
        if change is not None and change.what in ("s", "u"):
            change = self._seen(change, entry, hop)
            if change.what == "u" and not self.state.operational:
                # Somebody else may want the same, and look alike from there. Who does we shall know soon.
                return
            if self.state.operational and not self.filters.agrees(change, hop):
                self._settle_at(entry, {*nodes})
                return
        if entry.batch is not None and self.map.is_client(hop) and self._owner.leaves_out(hop, entry.batch):
            self._settle_at(entry, {hop})
            return
        entry.sent[hop] = {*nodes, *(given or ())}
        to: tuple[Path, ...] = ()
        guided = peer.recovering and not self.map.is_client(hop)
        if guided and self._owner.guides:
            to = self._ways(entry, hop, nodes)
        number, visited = self._numbered(entry, hop, nodes, before)
        self.state.send(hop, Multicast(number, visited, change, guided, to, (), entry.batch))

    def _numbered(self, entry: Entry, hop: str, nodes: dict[str, None], before: int) -> tuple[int, tuple[Visit, ...]]:
        """The number of a copy, and its last hops."""
        if entry.turned.intersection(nodes):
            # As if straight from its publisher, whose number alone tells repeats.
            return entry.number, entry.visited[:1]
        before = max(self._highest(entry, nodes), before)
        number = self.passage.number_towards(entry, self.map.towards(hop), hop, before)
        if (
            self.name in entry.targets
            and not entry.waits
            and entry.batch is not None
            and self.passage.came.is_outrun(entry.visited)
        ):
            # It waited here until we know who is behind us, and was overtaken: by numbers of hops before us, too.
            entry.visited = ()
        return number, self.passage.trail(entry, number, self.map.between(hop), self.map.is_client(hop))

    def _highest(self, entry: Entry, nodes: Iterable[str]) -> int:
        """The highest number that went to one of these destinations, or to somebody on the way to it.

        What went to others in the same direction does not count. 1. A publisher's first message is for c1, its second
        for c2, both clients of a failed broker. 2. c2 is connected with, and gets the second. 3. c1, or the broker, is
        connected with, and gets both for c1: the first must not be numbered anew behind the second.
        """
        sent = self.passage.sent
        if entry.number > self.passage.sent_last:
            return 0
        return max((sent.get(one, 0) for node in nodes for one in self.map.path(node)), default=0)

    def _settle_at(self, entry: Entry, nodes: set[str]) -> None:
        entry.done |= nodes
        for node in nodes:
            entry.targets.pop(node, None)
            entry.lacking.pop(node, None)

    def _seen(self, change: Change, entry: Entry, hop: str) -> Change:
        """The change as it looks from there."""
        node = change.node
        if self.map.path(node):
            node = self.filters.seen_from(node, hop)
        else:
            trail = self.passage.trail(entry, entry.number, self.map.between(hop))
            names = [name for name, _, _ in trail]
            if node not in names and len(names) == self.passage.hops:
                node = names[0]
        if node == change.node:
            return change
        return Change(change.source, change.life, change.serial, change.what, node, change.pattern, change.where)

    def _ways(self, entry: Entry, hop: str, nodes: dict[str, None]) -> tuple[Path, ...]:
        """For a node that recovers: the ways to those behind it."""
        change, behind = entry.change, dict(nodes)
        if change is not None and hop in behind:
            behind.update(dict.fromkeys(self._spread(change, hop)))
        ways: list[Path] = []
        if entry.batch is not None and hop in behind:
            ways.append(((), False))
        for node in behind:
            path = self.map.path(node)
            if node != hop and hop in path:
                ways.append((path[path.index(hop) + 1 :], self.map.is_client(node)))
        return tuple(ways)

    def on_conf(self, name: str, conf: Conf) -> None:
        lacking = dict(conf.lacking)
        for number in conf.numbers:
            entry = self.passage.numbered(number)
            if entry is None or name not in entry.sent:
                continue
            nodes, missing = entry.sent.pop(name), lacking.get(number, ())
            for node in nodes:
                entry.targets.pop(node, None)
                if node not in missing:
                    entry.lacking.pop(node, None)
            entry.done |= nodes
            for node in missing:
                if node in self.map and self.map.is_client(node):
                    entry.lacking[node] = None
                    entry.sent.setdefault(name, set()).add(node)
                else:
                    entry.hidden[node] = None
            self.advance(entry)
            if self.map.is_client(name):
                self._owner.client_returned(name)

    def finish_if_complete(self, entry: Entry) -> None:
        if entry.targets or entry.number not in self.passage.entries:
            return
        if entry.open and self.state.doubtful:
            return
        if entry.open:
            entry.open = False
            missing = (*entry.lacking, *entry.hidden)
            for name, number in entry.senders:
                self.confs.say(name, number, missing)
            entry.senders.clear()
            if entry.senders or entry.lacking:
                self.state.owed.update(entry.lacking)
            if entry.change is not None:
                self._owner.change_confirmed(entry.change)
            then = self.state.then.pop(entry.number, None)
            if then is not None:
                then()
        if not entry.lacking:
            self.passage.drop(entry)
