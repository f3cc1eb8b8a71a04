"""Copies between brokers: what is sent to whom, what waits, what is asked for again, what may be forgotten.

Nothing here survives a crash, and nothing needs to: `Standing`s say, at the beginning of every session and then as it
changes, how far each side is, and everything else follows from that and from what is kept on disk.

- *Forwarding*: a message goes to those of its targets that are active (3.2.3), along safe paths (3.6), in order.
- *Retransmission*: a new session, a suspicion, or a request begins again after what the peer said it has (3.8.6).
  Whoever keeps the copy that somebody else meant for the asker passes that on as it came (Figure 3.10).
- *Patience*: what a target lacks for long is sent to it directly, active or not, if that is safe.
- *Garbage*: what all who are concerned have is forgotten (3.9.1).

Bounds: copies that wait (`BUFFER_MAX`; one more is dropped, and asked for again), what is under way to one peer
(`AHEAD_BYTES_MAX`; the rest stays in the store, and is sent when there is room, or asked for again).
"""

from collections import Counter

from msgspec.structs import replace

from holdfast.model.errors import PeerViolation
from holdfast.model.local_tree_messages import Surroundings
from holdfast.model.relay_messages import Relay, Standing
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.hub import Hub
from holdfast.protocols.locamu.copies import Copy, KeptCopy, Reaches, leads_here
from holdfast.protocols.locamu.durable import Durable
from holdfast.protocols.locamu.headers import Decoder, Encoder, HeaderSize, relay_overhead
from holdfast.protocols.locamu.journal import Born, Finished, Learnt, Took
from holdfast.protocols.locamu.journal_identity import check_identity
from holdfast.protocols.locamu.peers import LinkedBroker, active
from holdfast.protocols.locamu.surroundings import terms_of
from holdfast.protocols.neighbourhoods import Neighbourhood
from holdfast.protocols.node import CancelTimer, Report, SetTimer

TICK_TIMER = "standing"
SUSPECT_TIMER = "suspect:"
TICK_S = 0.1
"""How often brokers say how far they are while something goes on."""
ASK_S, ASK_MAX_S = 0.2, 2.0
"""How long a copy waits before what it lacks is asked for."""
PUSH_S, PUSH_MAX_S = 1.0, 8.0
"""How long a target may lack a message before it is sent directly."""
BUFFER_MAX = 10_000
AHEAD_BYTES_MAX = 1 << 16

Key = tuple[str, int]
"""A last forwarder and its number of a copy for us."""


class Exchange:
    """The copies under way between one broker and those that it is connected with."""

    def __init__(self, config: BrokerConfig, near: Neighbourhood, reach: Reaches, hub: Hub, durable: Durable) -> None:
        self.name, self.config, self.near, self.reach = config.name, config, near, reach
        self.hub, self.durable, self.core = hub, durable, durable.core
        self.peers: dict[str, LinkedBroker] = {}
        self._survey()
        self.buffer: dict[Key, tuple[str, Copy]] = {}
        self._lacking: dict[int, set[str]] = {}
        self._ask_at, self._ask_s = 0.0, ASK_S
        self._ticking = False
        self.hurried: dict[str, None] = {}
        self.now = 0.0

    # ----------------------------------------------------------------------------------------------------- lifetime

    def start(self, now: float) -> None:
        """Whatever is kept from an earlier life is owed to whoever is concerned."""
        self.now = now
        self._survey()
        for peer in self.peers.values():
            self._expect(peer)
        for entry in list(self.core.store.values()):
            self._owe(entry)

    def _survey(self) -> None:
        """Whom we are connected with, by the tree as it is."""
        self.near, self._surveyed = self.core.near, self.core.local_tree.changes
        linked = self.near.within(self.reach.links)
        self.peers = {
            name: self.peers.get(name) or LinkedBroker(name, self.core.local_tree.dials(name)) for name in linked
        }
        self.active = active(self.near, self.peers)

    def _expect(self, peer: LinkedBroker) -> None:
        self.hub.out.append(SetTimer(SUSPECT_TIMER + peer.name, self.config.suspect_s))
        if peer.dials:
            self.dial(peer.name)

    def dial(self, name: str) -> None:
        """Begin a session with that broker."""
        self.hub.dial(name, self.now, self.core.local_tree.places.get(name, ""))

    def _follow_the_land(self) -> None:
        """The tree around us has changed: somebody is near who was not there before, or is there no more."""
        before = self.peers
        self._survey()
        for name in before.keys() - self.peers.keys():
            self._part_with(before[name])
        for name in self.peers.keys() - before.keys():
            self._expect(self.peers[name])
        for peer in self.peers.values():
            self._strike_off(peer)
            if peer.in_session:
                peer.encoder = Encoder(self.core.local_tree.terms_with(peer.name)[0], self.name)
                self._describe(peer)

    def _part_with(self, peer: LinkedBroker) -> None:
        self.hub.out.append(CancelTimer(SUSPECT_TIMER + peer.name))
        for serial in peer.awaiting:
            self._lacking[serial].discard(peer.name)
            self._forget_if_stable(serial)
        self.hub.end(peer.name, f"{peer.name} has left the tree")

    def _describe(self, peer: LinkedBroker) -> None:
        """Whatever we send from now on refers to the tree as we know it."""
        self.hub.send(peer.name, Surroundings(self.near.edges))

    def on_surroundings(self, name: str, said: Surroundings) -> None:
        """Whatever that broker sends from now on refers to the tree as it knows it."""
        self.peers[name].decoder = Decoder(terms_of(said, name, self.name, self.reach), name, self.name)

    def opened(self, name: str, fresh: bool) -> None:
        """A session with that broker begins, or goes on."""
        peer = self.peers.get(name)
        if peer is None:
            return
        if fresh:
            peer.begin(*self.core.local_tree.terms_with(name), self.name)
            if self._surveyed:
                self._describe(peer)
            self._say(peer)
        self.hub.out.append(CancelTimer(SUSPECT_TIMER + name))
        self._judge(peer, suspected=False)
        self._stir()

    def closed(self, name: str) -> None:
        """The connection is gone; the broker is given a while to come back before it is suspected."""
        if name in self.peers:
            self.hub.out.append(SetTimer(SUSPECT_TIMER + name, self.config.suspect_s))

    def ended(self, name: str) -> None:
        if name in self.peers:
            self.peers[name].end()
            self.closed(name)

    def suspect(self, name: str) -> None:
        """It has not come back. That may be wrong, and is then put right when it does."""
        link = self.hub.links.get(name)
        if name in self.peers and (link is None or not link.is_open):
            self._judge(self.peers[name], suspected=True)

    def _judge(self, peer: LinkedBroker, suspected: bool) -> None:
        if peer.suspected is suspected:
            return
        peer.suspected = suspected
        self.hub.out.append(Report("suspect" if suspected else "trust", peer=peer.name))
        self.active = active(self.near, self.peers)
        self._transmit_all()

    # ------------------------------------------------------------------------------------------------------ incoming

    def on_relay(self, name: str, relay: Relay) -> None:
        decoder = self.peers[name].decoder
        if decoder is None:
            raise PeerViolation(f"{name} relayed something in the session in which it asked to be admitted")
        copy = decoder.decode(relay.header)
        copy.batch, copy.notice = relay.batch, relay.notice
        self._take(name, copy)
        self._stir()

    def _take(self, sender: str, copy: Copy) -> None:
        if self.core.is_known(copy):
            if self._merge(copy):
                self.progress()
        elif any(node in self.core.local_tree.gone for node in copy.path):
            # All that somebody has ever said who has left was processed everywhere before it went: this is a repeat.
            return
        elif not leads_here(copy.path, self.core.near):
            raise PeerViolation(f"{sender} sent a copy by way of {' '.join(copy.path)}, which does not lead here")
        elif copy.batch is None and copy.notice is None:
            # Identifiers of a message that we had processed when this was sent; a crash has taken nothing back.
            raise PeerViolation(f"{sender} sent identifiers of a message that it cannot know we have")
        elif self.core.lacking(copy):
            self._wait(sender, copy)
        else:
            self.durable.put(Took(copy))
            self.progress()

    def _merge(self, copy: Copy) -> bool:
        news = self.core.news_in(copy)
        if news:
            self.durable.put(Learnt(news))
        return bool(news)

    def _wait(self, sender: str, copy: Copy) -> None:
        key = (copy.last, copy.marks.get(copy.last, {}).get(self.name, 0))
        if len(self.buffer) >= BUFFER_MAX and key not in self.buffer:
            self.hub.out.append(Report("overflow", peer=sender, detail=f"{BUFFER_MAX} copies wait already"))
            return
        if not self.buffer:
            self._ask_s = ASK_S
            self._ask_at = self.now + ASK_S
        self.buffer[key] = (sender, copy)

    def progress(self) -> None:
        """Something was processed here: send on what is new, and look what waited for it."""
        self._settle_entries()
        again = bool(self.buffer)
        while again:
            again = False
            for key, (_, copy) in list(self.buffer.items()):
                if self.core.is_known(copy):
                    del self.buffer[key]
                    again = self._merge(copy) or again
                elif not self.core.lacking(copy):
                    again = True
                    del self.buffer[key]
                    # Whoever has left since has said nothing that we lack: a copy of that would be made up.
                    if leads_here(copy.path, self.core.near):
                        self.durable.put(Took(copy))
            self._settle_entries()
        self._complete()
        self._stir()

    def _settle_entries(self) -> None:
        durable = self.durable
        if self.core.local_tree.changes != self._surveyed:
            self._follow_the_land()
        fresh, durable.fresh = durable.fresh, []
        changed, durable.changed = durable.changed, []
        for entry in fresh:
            if entry.void:
                self.hub.out.append(Report("void", entry.batch, peer=entry.last))
        for entry in (*fresh, *changed):
            if entry.serial in self.core.store:
                self._owe(entry)
        if fresh or changed:
            self._transmit_all()
        if changed:
            for name in sorted(self.active):
                self._send_identifiers(self.peers[name])

    def _owe(self, entry: KeptCopy) -> None:
        """Note who may lack the message, or an identifier of it."""
        serial, lacking = entry.serial, self._lacking.setdefault(entry.serial, set())
        for name in self.core.concerned(entry):
            peer = self.peers[name]
            if not self.core.lacks(entry, name, peer.column):
                continue
            lacking.add(name)
            peer.awaiting[serial] = None
            if entry.own.get(name, 0) > peer.cursor:
                peer.queue[serial] = None
            if not peer.patience_s:
                peer.patience_s, peer.push_at = PUSH_S, self.now + PUSH_S
        self._forget_if_stable(serial)

    def _forget_if_stable(self, serial: int) -> None:
        if self._lacking.get(serial) or serial in self.core.pending:
            return
        entry = self.core.store.get(serial)
        if entry is not None and self.core.is_marked(entry):
            self._lacking.pop(serial, None)
            self.core.forget(serial)

    # ------------------------------------------------------------------------------------------------------ outgoing

    def _transmit_all(self) -> None:
        for name in sorted(self.active):
            self._transmit(self.peers[name])

    def _transmit(self, peer: LinkedBroker) -> None:
        """Send, in order, what that peer has not been sent."""
        link = self.hub.links.get(peer.name)
        if not peer.greeted or link is None or not link.is_open:
            return
        while peer.queue and link.unacknowledged_bytes < AHEAD_BYTES_MAX:
            serial = next(iter(peer.queue))
            entry = self.core.store[serial]
            if entry.own[peer.name] > peer.cursor:
                if not self.core.may_send(entry, peer.name):
                    # What comes after it depends on it. Another copy may make the path safe (3.8.4).
                    return
                self._relay(peer, self.core.copy_from_us(entry))
                peer.cursor, peer.relayed = entry.own[peer.name], link.queued
            del peer.queue[serial]

    def _relay(self, peer: LinkedBroker, copy: Copy) -> None:
        header, size = peer.encoder.encode(copy)
        relay = Relay(header, copy.batch, copy.notice)
        self.hub.send(peer.name, relay)
        self.weighed(peer, copy, size)
        if copy.batch is not None:
            detail = f"{size.thesis_bytes} {size.thesis_whole_bytes}"
            overhead = relay_overhead(relay, copy.batch)
            self.hub.out.append(Report("relay", copy.batch, peer=peer.name, detail=detail, overhead=overhead))

    def weighed(self, peer: LinkedBroker, copy: Copy, size: HeaderSize) -> None:
        """What a header weighed that has just been sent: for whoever wants to know."""

    def acknowledged(self, name: str) -> None:
        """There is room on a link."""
        peer = self.peers.get(name)
        if peer is not None and peer.queue and name in self.active:
            self._transmit(peer)

    def _may_repeat(self, peer: LinkedBroker, serial: int, pause_s: float) -> bool:
        """Whether something may go to the peer out of turn: what the link still carries would only make it slower."""
        link, (sent_at, number) = self.hub.links[peer.name], peer.resent.get(serial, (-PUSH_S, 0))
        is_carried = link.acked >= number and link.unacknowledged_bytes < AHEAD_BYTES_MAX
        return is_carried and self.now - sent_at >= pause_s

    def _repeat(self, peer: LinkedBroker, serial: int, copy: Copy) -> None:
        self._relay(peer, copy)
        peer.resent[serial] = self.now, self.hub.links[peer.name].queued

    # ----------------------------------------------------------------------------------------------------- standings

    def on_standing(self, name: str, standing: Standing) -> None:
        peer, first = self.peers[name], not self.peers[name].greeted
        check_identity(self.core, name, standing)
        if standing.birth and name not in self.core.local_tree.births:
            self.durable.put(Born(name, standing.birth))
        advanced = any(number > peer.column.get(node, 0) for node, number in standing.column.items())
        if first:
            peer.column = dict(standing.column)
        else:
            peer.column.update(standing.column)
        peer.greeted, peer.complete = True, max(peer.complete, standing.complete)
        if advanced:
            peer.patience_s, peer.push_at = PUSH_S, self.now + PUSH_S
        self._strike_off(peer)
        for serial in self.core.close(name, standing.closed):
            self._forget_if_stable(serial)
        self._complete()
        if first or standing.asking:
            peer.go_back(self.name, self.core.store, self.hub.links.get(peer.name))
        if standing.asking:
            self._answer(peer)
        elif name in self.active:
            self._transmit(peer)
        if standing.asking or name in self.active:
            self._send_identifiers(peer, at_once=standing.asking)
        self._stir()

    def _strike_off(self, peer: LinkedBroker) -> None:
        """What the peer has, it does not lack any more."""
        peer.cursor = max(peer.cursor, peer.column.get(self.name, 0))
        for serial in list(peer.awaiting):
            entry = self.core.store[serial]
            if not self.core.lacks(entry, peer.name, peer.column):
                del peer.awaiting[serial]
                peer.queue.pop(serial, None)
                peer.resent.pop(serial, None)
                self._lacking[serial].discard(peer.name)
                self._forget_if_stable(serial)
        if not peer.awaiting:
            peer.patience_s = 0.0

    def _answer(self, peer: LinkedBroker) -> None:
        """The peer asks for what it lacks: ours from us, and others' copies that were meant for it (3.8.6)."""
        for serial in sorted(peer.awaiting):
            entry = self.core.store[serial]
            is_lent = peer.name not in entry.own and self.core.may_pass_on(entry, peer.name)
            if is_lent and self._may_repeat(peer, serial, 0.0):
                self._repeat(peer, serial, self.core.copy_as_it_came(entry))
        self._transmit(peer)

    def _send_identifiers(self, peer: LinkedBroker, at_once: bool = False) -> None:
        """The peer has the message, but not every identifier of it that we know: tell it, for others refer to them."""
        link = self.hub.links.get(peer.name)
        if not peer.greeted or link is None or not link.is_open:
            return
        has = peer.column.get(self.name, 0)
        for serial in list(peer.awaiting):
            entry = self.core.store[serial]
            if not 0 < entry.own.get(peer.name, 0) <= has or not self.core.may_send(entry, peer.name):
                continue
            if self._may_repeat(peer, serial, 0.0 if at_once else PUSH_S):
                copy = self.core.copy_from_us(entry)
                copy.batch = copy.notice = None
                self._repeat(peer, serial, copy)

    def _complete(self) -> None:
        """Finish the notices that everybody behind us has."""
        for serial, pending in list(self.core.pending.items()):
            if pending.clients or any(self._lags(one, number) for one, number in pending.down.items()):
                continue
            self.durable.put(Finished(serial))
            if pending.up:
                self.hurried[pending.up] = None
            self._forget_if_stable(serial)

    def _lags(self, name: str, number: int) -> bool:
        peer = self.peers.get(name)
        return peer is not None and peer.complete < number

    def hurry(self) -> None:
        """At the end of a turn, those who wait to hear that something is complete are told."""
        hurried, self.hurried = self.hurried, {}
        for name in hurried:
            if name in self.peers:
                self._say(self.peers[name])

    def _say(self, peer: LinkedBroker, asking: bool = False) -> None:
        link = self.hub.links.get(peer.name)
        if link is None or not link.is_open:
            return
        standing = self._standing(peer, asking)
        if standing != peer.said or asking:
            births, is_first = self.core.local_tree.births, peer.said is None
            peer.said = standing
            if is_first:
                # A neighbour may open the link between our first look at the network and our start: 0 is unsaid.
                standing = replace(standing, birth=births.get(self.name, 0), known=births.get(peer.name, 0))
            self.hub.send(peer.name, standing)

    def _standing(self, peer: LinkedBroker, asking: bool) -> Standing:
        is_next = self.near.distance(self.name, peer.name) == 1
        complete = self.core.complete_towards(peer.name) if is_next else 0
        closed = self.core.closed_for(peer.name, peer.awaiting)
        return Standing(self.core.column(), complete, closed, asking)

    # ---------------------------------------------------------------------------------------------------------- time

    def _stir(self) -> None:
        if not self._ticking:
            self._ticking = True
            self.hub.out.append(SetTimer(TICK_TIMER, TICK_S))

    def tick(self) -> None:
        """Say how far we are where that has changed, ask for what is missing, send what is lacking for long."""
        self._ticking = False
        for peer in self.peers.values():
            self._say(peer)
        if self.buffer and self.now >= self._ask_at:
            self._ask()
        for peer in self.peers.values():
            if peer.awaiting and self.now >= peer.push_at:
                self._push(peer)
        if self.buffer or self.core.store or self.core.unmarked:
            self._stir()

    def _ask(self) -> None:
        self._ask_s = min(2 * self._ask_s, ASK_MAX_S)
        self._ask_at = self.now + self._ask_s
        asked: dict[str, None] = {}
        for sender, copy in self.buffer.values():
            asked[sender] = None
            asked.update((node, None) for node in self.core.lacking(copy) if node in self.peers)
        for name in sorted(asked):
            self._say(self.peers[name], asking=True)

    def _push(self, peer: LinkedBroker) -> None:
        peer.patience_s = min(2 * peer.patience_s, PUSH_MAX_S) or PUSH_S
        peer.push_at = self.now + peer.patience_s
        if peer.greeted:
            peer.go_back(self.name, self.core.store, self.hub.links.get(peer.name))
            self._transmit(peer)
            self._send_identifiers(peer, at_once=True)

    # ---------------------------------------------------------------------------------------------------- inspection

    def owes_now(self) -> bool:
        """Whether something is still to be sent to somebody who is there."""
        there = (name for name, link in self.hub.links.items() if link.is_open and name in self.active)
        return any(self.peers[name].queue for name in there)

    def waiting_for(self) -> list[str]:
        reasons = [
            f"{', '.join(self.core.lacking(copy))} to send what comes before {key[1]} of {key[0]}"
            for key, (_, copy) in self.buffer.items()
        ]
        lacking = Counter(name for names in self._lacking.values() for name in names)
        reasons += [f"{name} to process {count} of what is kept for it" for name, count in sorted(lacking.items())]
        missing = Counter(name for one in self.core.unmarked.values() for name in one.missing)
        reasons += [f"{name}, which was passed over, to mark {count}" for name, count in sorted(missing.items())]
        reasons += [f"everybody to hear of {one.notice}" for one in self.core.pending.values()]
        return reasons

    def check_invariants(self) -> None:
        for serial, names in self._lacking.items():
            assert serial in self.core.store, f"message {serial} is lacking at {names} and not kept"
        for peer in self.peers.values():
            for serial in peer.queue:
                assert serial in peer.awaiting, f"message {serial} is to go to {peer.name}, who does not lack it"
