"""A client that finds another broker when its own dies, and loses nothing on the way.

Where brokers repair their tree (a tolerance above 0), a client is a leaf of it like any other node: it keeps what it
published and what it received until that is stable, knows whom to turn to, and takes part in the repair: it joins the
first contact with what it keeps, waits until the link is opened, and sends again what was not taken. Requests that were
not answered are asked again. The application notices a pause.

Only brokers give brokers up. A client that cannot reach its broker asks the next contact, and goes on trying to reach
its own; whoever answers first has it. If the contact does not know the broker to be dead, the client goes back and asks
again a little later. Its old session waits until the new one is certain, and so does the new one if its connection
breaks before it is: the contact may have taken us in, and whoever began anew there would be a stranger.

In a delta-fault-tolerant tree a client is another kind of node, and everything goes to that: `protocols.delta.client`.

While it is away nothing changes in what it keeps: what it publishes waits. So it says the same to every contact."""

from random import Random

from msgspec.structs import replace

from holdfast.model.batches import Batch
from holdfast.model.delta_messages import Multicast
from holdfast.model.messages import (
    Confirm,
    Join,
    Levels,
    Open,
    Publish,
    Refusal,
    SessionMessage,
    Subscribe,
    Twig,
    Unstable,
    Unsubscribe,
    Upward,
    View,
)
from holdfast.model.receipt_messages import CLEAN, Finding
from holdfast.model.slow_messages import Skipped
from holdfast.model.terms import Contact
from holdfast.protocols.client_log import HERE, ClientLog, flag_of
from holdfast.protocols.clients import GIVE_UP_TIMER, ClientNode
from holdfast.protocols.config import ClientConfig
from holdfast.protocols.delta.client import REFRESH_TIMER, SUSPECT_TIMER, ClientPassage
from holdfast.protocols.hub import BEAT_TIMER
from holdfast.protocols.last_numbers import in_parts, note_number
from holdfast.protocols.links import Link, LinkState
from holdfast.protocols.node import Accepted, Disconnect, Effects, Missing, Report, Send, SetTimer
from holdfast.protocols.pace import Pace
from holdfast.protocols.records import Record
from holdfast.protocols.stability import SURVEY_S, SURVEY_TIMER, SURVEYS_AT_ONCE
from holdfast.protocols.treeview import contacts_of_client
from holdfast.protocols.wanted_parts import ahead_of_join, at_most

MOVE_TIMER = "move"
TRIES_AHEAD = 4
CONTACTS_MAX = 64
"""So many brokers are remembered that may take us in."""
RETRY_DOUBLINGS_MAX = 3
"""How often the time is doubled after which a contact that has sent us back is asked again."""
DOUBLINGS_MAX = 6
"""How often patience is doubled with those that do not answer: contacts, and our own broker when it is there again."""
SLEEP_BEATS = 3
"""A heartbeat that comes so many times too late shows that this client has not run meanwhile."""


class MovingClient(ClientNode):
    """A client session that may move from broker to broker."""

    def __init__(self, config: ClientConfig, incarnation: int, chance: Random | None = None) -> None:
        super().__init__(config, incarnation, chance)
        self._incarnation = incarnation
        self._log: ClientLog | None = None
        self._processed: dict[str, int] = {}
        self._contacts: tuple[Contact, ...] = ()
        self._part_is_apart = False
        """Whether our broker is in a part of the tree that has lost the others: what it keeps for them dies with it."""
        self._home = ""
        """The name of the broker that has let us in last."""
        self._fenced = False
        self._hold = 0
        """How many messages our new broker will still send to settle the repair."""
        self._joined: list[Unstable] = []
        self._old: Link | None = None
        """The session with our own broker, while we wait for a contact to take us in."""
        self._left: dict[str, Link] = {}
        """Sessions with contacts that know what we keep and could not be reached any more."""
        self._sent_back: dict[str, int] = {}
        """How often each contact has sent us back."""
        self._refusals = 0
        self._rounds = 0
        """How often those that had not answered were given another chance, and more time."""
        self._too_slow = False
        """Whether somebody has not answered in time since."""
        self._beat_at = 0.0
        self._unsent: list[Batch] = []
        self._messages: dict[int, SessionMessage] = {}
        self._unasked: list[int] = []
        self._unreachable: set[str] = set()
        self._awaited_held = 0
        self._levels_came = False
        self._survey_pace = Pace(SURVEY_S, SURVEYS_AT_ONCE)
        self._survey_set = False
        self._node: ClientPassage | None = None
        """The node that this client is, where the tree is a delta-fault-tolerant one."""
        self.held_seq = 0
        """The number up to which everything is held so well that the tolerated losses cannot take it any more.

        That is what a client need not keep: whoever would need it has it, whichever brokers are lost."""

    # --------------------------------------------------------------------------------------------------- sending

    def _never_on(self, link: Link) -> list[Batch]:
        # What is kept for repairs may have left on an earlier link: only what was held back never has.
        return super()._never_on(link) if self._log is None else []

    def never_sent(self) -> list[Batch]:
        return [*self._unsent_at_end, *self._unsent, *self._batches]

    def _held_back(self) -> bool:
        """Nothing goes ahead of `Join`; whether there will be one, the first broker says that welcomes us."""
        if self._node is not None:
            return not self._node.joined
        return self._fenced or self._hub.said is None or (self._log is not None and not self.attached)

    def _send_batch(self, batch: Batch) -> None:
        if self._held_back():
            self._unsent.append(batch)
        elif self._node is not None:
            self._deliver_own(batch)
            self._node.publish(batch)
        elif self._log is None:
            super()._send_batch(batch)
        else:
            self._log.publish(batch)
            super()._send_batch(batch)

    def _send_request(self, token: int, message: SessionMessage) -> None:
        self._messages[token] = message
        if self._held_back():
            self._unasked.append(token)
        else:
            self._ask_broker(token, message)

    def _ask_broker(self, token: int, message: SessionMessage) -> None:
        node = self._node
        if node is not None and isinstance(message, Subscribe | Unsubscribe):
            node.ask(token, message)
        elif node is not None and isinstance(message, Confirm):
            node.question(token, message.seq)
        else:
            super()._send_request(token, message)

    @property
    def backlog_bytes(self) -> int:
        kept = self._node.unconfirmed_bytes if self._node is not None else super().backlog_bytes
        return kept + self.pending_bytes * (self._node is not None) + sum(batch.cost_bytes for batch in self._unsent)

    # ------------------------------------------------------------------------------- as a node of a delta tree

    def _become_node(self, link: Link) -> ClientPassage:
        said = self._hub.said
        assert said is not None, "a link opens behind a welcome"
        own = (self._hub, self.name, self._incarnation)
        answered, wanted = self._on_done, lambda: sorted(self._wanted)
        return ClientPassage(self, answered, wanted, *own, said.node, link.peer, said.tolerance, self.config.move_s)

    def node_joined(self, link: Link) -> None:
        self._attach(link)
        self._send_held_back()

    def node_delivers(self, link: Link, message: Multicast, batch: Batch) -> None:
        self._hand_over(link, message, batch)  # type: ignore[arg-type]  # it counts as consumed when the batch is

    def node_accepted(self, seq: int) -> None:
        self._accepted_up_to(seq)
        self._leave_if_drained()

    # ------------------------------------------------------------------------------------------------- receiving

    def link_message(self, link: Link, message: SessionMessage) -> None:
        if self._node is not None and self._node.receive(link, message):
            return
        if type(message) is Open:
            self._hub.consumed(link, message)
            self._on_open(link, message)
        elif type(message) is View:
            self._hub.consumed(link, message)
            if message.upward is not None:
                self._learn(message.upward)
        else:
            super().link_message(link, message)

    def _on_publish(self, link: Link, message: Publish) -> None:
        if self._log is None:
            super()._on_publish(link, message)
            return
        batch = message.batch
        last = self._processed.get(batch.publisher, 0)
        if batch.last <= last:
            self._came(self._log, self._published(batch))
            self._hub.consumed(link, message)
            return
        note_number(self._processed, batch.publisher, batch.last)
        record = self._published(batch) or self._log.append(batch)
        if batch.first == record.batch.first and batch.count > record.batch.count:
            # What was here before is a part of it; of a batch that somebody wants in part, we keep the whole.
            self._log.change(record, batch)
        self._came(self._log, record)
        self._log.released(record)
        self._log.renumber(record)
        self._hand_over(link, message, batch if last < batch.first else batch.part(last + 1, batch.last))

    def _on_skipped(self, link: Link, message: Skipped) -> None:
        for publisher, last in message.numbers:
            note_number(self._processed, publisher, last)
        if self._log is not None:
            for _ in range(message.places):
                self._came(self._log, None)
        super()._on_skipped(link, message)

    def _came(self, log: ClientLog, record: Record | None) -> None:
        log.came(record, HERE)
        if self._hold:
            self._hold -= 1
            if not self._hold:
                log.begin(HERE)

    def _published(self, batch: Batch) -> Record | None:
        """The record that a batch belongs to; of our own we may want the middle alone, and published the whole."""
        if self._log is None:
            return None
        record = self._log.find((batch.publisher, batch.first))
        if record is None and batch.publisher == self.name:
            own = (one for one in self._log.records() if one.batch.publisher == self.name)
            record = next((one for one in own if one.batch.first <= batch.first <= one.batch.last), None)
        return record

    def _on_done(self, token: int, finding: Finding = CLEAN) -> None:
        self._messages.pop(token, None)
        super()._on_done(token, finding)

    def link_levels(self, link: Link, levels: Levels) -> None:
        if self._log is not None and link.peer == self._broker and not self._fenced:
            self._log.on_levels(HERE, levels)
            self._levels_came = True

    def settle(self, now: float) -> Effects:
        if self._node is not None:
            self._node.now = now
            self._node.settle()
        link = self._hub.links.get(self._broker)
        if self._log is not None and link is not None and link.is_open and not self._fenced:
            if self._is_time_to_tell(self._log, now):
                for levels in self._log.survey().values():
                    self._hub.out.append(Send(self._broker, levels))
                # What is held is what was forgotten.
                if self._levels_came:
                    self._levels_came = False
                    self._note_held(self._log)
            if self._awaited_held:
                self._note_held(self._log)
        return super().settle(now)

    def _is_time_to_tell(self, log: ClientLog, now: float) -> bool:
        """As at brokers, and at once if somebody waits to hear that a publication is held."""
        if not log.has_changed:
            return False
        if self._survey_pace.take(now) or self._awaited_held:
            return True
        if not self._survey_set:
            self._survey_set = True
            self._hub.out.append(SetTimer(SURVEY_TIMER, self._survey_pace.wait_s(now)))
        return False

    def _note_held(self, log: ClientLog) -> None:
        kept = log.first_kept()
        first_kept = min(self.next_seq if kept is None else kept, self._first_unsent())
        self.held_seq = max(self.held_seq, min(self.accepted_seq, first_kept - 1))
        if 0 < self._awaited_held <= self.held_seq:
            self._awaited_held = 0
            self._hub.out.append(Accepted(self.accepted_seq))

    @property
    def keeps(self) -> bool:
        """Whether this client keeps what it published until enough brokers have it."""
        return self._log is not None

    def await_held(self, seq: int) -> None:
        """Somebody waits for publication `seq` to be held: `Accepted` is said once more when it is."""
        self._awaited_held = seq

    def _leave_if_drained(self) -> None:
        # Whoever leaves takes its copies along: what it published must not need them any more.
        if self._node is not None and not (self._node.is_drained() and not self._unsent):
            return
        if self._log is None or (not len(self._log) and not self._fenced):
            super()._leave_if_drained()

    # --------------------------------------------------------------------------------------------------- joining

    def link_opened(self, link: Link, fresh: bool) -> None:
        said = self._hub.said
        if said is not None and said.protocol == "delta":
            if self._node is None:
                self._node = self._become_node(link)
            self._node.now = self._now
            self._node.opened(link, fresh)
            if not fresh and self._node.joined:
                self._attach(link)
        elif said is None or not said.tolerance:
            self._send_held_back()
            super().link_opened(link, fresh)
        elif link.peer != self._broker:
            self._turn_to(link, fresh, said.tolerance)
        elif fresh:
            self._join(link, said.tolerance)
        elif not self._fenced:
            self._come_back(link)

    def _turn_to(self, link: Link, fresh: bool, tolerance: int) -> None:
        """A contact has answered. If our own broker was faster, that is the end of it."""
        own = self._hub.links.get(self._broker)
        if own is not None and own.is_open:
            self._dismiss(link.peer, "our own broker has answered")
            return
        self._old = self._hub.set_aside(self._broker)
        self._broker = link.peer
        self._fenced = True
        if fresh:
            self._join(link, tolerance)

    def _come_back(self, link: Link) -> None:
        """Our session goes on where it was: contacts are not needed, and what waited may go."""
        for peer in [peer for peer in self._hub.links if peer != self._broker]:
            self._dismiss(peer, "our own broker has answered")
        self._settled_down()
        if self._log is not None:
            self._log.say_again(HERE)
        self._attach(link)
        self._send_held_back()

    def _settled_down(self) -> None:
        self._refusals = self._rounds = 0
        self._sent_back.clear()
        self._unreachable.clear()
        self._left.clear()

    def _dismiss(self, peer: str, reason: str) -> None:
        self._hub.set_aside(peer)
        self._hub.out.append(Disconnect(peer, reason))

    def _numbering(self, published: int) -> bool:
        return self._log is not None or self._node is not None or super()._numbering(published)

    def _join(self, link: Link, tolerance: int) -> None:
        """The first words on a new session; from here on the old one waits."""
        if self._log is None:
            self._log = ClientLog(tolerance, self.name)
            self._log.link(HERE)
        self._fenced = True
        self._joined = [
            Unstable(flag_of(record, self.name, self._log.climbed), record.batch, after, record.number)
            for record, after in self._log.history(HERE)
        ]
        for unstable in self._joined:
            self._hub.send(link.peer, unstable)
        twig = Twig(self.name, "client", self._incarnation, "")
        own = [one.batch.first for one in self._joined if one.batch.publisher == self.name]
        published = (min(own) if own else self._first_unsent()) - 1
        wanted, patient = tuple(sorted(self._wanted)), self.config.patient
        inherited, (numbers, processed) = self._log.inherited(HERE), in_parts(self._processed)
        new = at_most(one for one in wanted if one not in self._confirmed)
        interests, wanted = ahead_of_join(wanted)
        parts: list[SessionMessage] = [*numbers, *interests]
        for part in parts:
            self._hub.send(link.peer, part)
        epoch = next((one.epoch for one in self._contacts if one.name == self._home), 0)
        join = Join(
            twig,
            self._home,
            (),
            processed,
            wanted,
            0,
            published,
            patient,
            inherited,
            new,
            old_epoch=epoch,
            whole=not self._part_is_apart,
        )
        self._hub.send(link.peer, join)

    def _learn(self, upward: Upward) -> None:
        """Whom to turn to; those of whom we were told before come last, in case that all the others are dead."""
        now = contacts_of_client(upward)
        names = {one.name for one in now}
        self._contacts = (*now, *(one for one in self._contacts if one.name not in names))[:CONTACTS_MAX]
        self._part_is_apart = bool(upward.lost)

    def _first_unsent(self) -> int:
        waiting = [batch.first for batch in (*self._unsent, *self._batches)]
        if self._run is not None:
            waiting.append(self._run.first)
        return min(waiting, default=self.next_seq)

    def _on_open(self, link: Link, message: Open) -> None:
        if link.peer != self._broker or not self._fenced or self._log is None:
            return
        self._fenced, self._old, self.attached = False, None, True
        self._settled_down()
        if self._home:
            self._doubt_drops()
        self._home = self._hub.said.node if self._hub.said is not None else ""
        self._learn(message.upward)
        joined, self._joined = self._joined, []
        rest = [one.batch for one in joined if one.batch.publisher == self.name and one.batch.first > message.taken]
        again = {batch.first for batch in rest}
        places = {
            (one.batch.publisher, one.batch.first): place
            for place, one in enumerate(joined, 1)
            if one.batch.publisher != self.name or one.batch.first not in again
        }
        self._log.restart(HERE, places, len(joined))
        self._hold = message.hold
        if not self._hold:
            self._log.begin(HERE)
        self._publications.clear()
        self._uneaten.clear()
        self._accepted_up_to(min(message.taken, self.next_seq - 1))
        unsent, self._unsent = self._unsent, []
        for batch in sorted(rest, key=lambda batch: batch.first) + unsent:
            self._send_batch(batch)
        self._unasked.clear()
        self._witness.moved()
        for token, request in list(self._messages.items()):
            super()._send_request(token, self._up_to_date(request))
        for told in self._wishes.all_if_special():
            # The new broker knows what we want, but not what it is to do with what we do not take in time.
            self._hub.send(self._broker, told)
        self._attach(link)

    def _doubt_drops(self) -> None:
        """What our last broker had dropped for us, and not told us yet, is not known to anybody any more."""
        dropping = [interest for interest in self._wishes.that_drop() if interest in self._confirmed]
        if dropping:
            reason = f"broker {self._home} was lost, and may have dropped some for which {self.name} was too slow"
            only = tuple((*interest, 0) for interest in dropping)
            self._hub.out += [Report("gap", peer=self._home, detail=reason), Missing(reason, only)]

    def _accepted_up_to(self, seq: int) -> None:
        if seq > self.accepted_seq:
            self.accepted_seq = seq
            self._hub.out.append(Accepted(seq))

    # --------------------------------------------------------------------------------------------------- moving

    def link_closed(self, link: Link) -> None:
        if self._node is not None and not self._node.closed(link):
            return
        if self._old is None:
            super().link_closed(link)
        if self._log is not None:
            self._hub.out.append(SetTimer(MOVE_TIMER, self.config.move_s))

    def peer_down(self, peer: str, now: float) -> Effects:
        link = self._hub.links.get(peer)
        if self._node is not None:
            if link is not None and link.state is LinkState.CLOSED:
                self._node.dial_failed(peer)
            return super().peer_down(peer, now)
        if link is not None and peer != self._broker:
            self._pass_over(link)
            self._hub.out.append(SetTimer(MOVE_TIMER, self.config.move_s))
            return self._hub.take()
        return super().peer_down(peer, now)

    def timer(self, name: str, now: float) -> Effects:
        if name == SURVEY_TIMER:
            # The settling that follows says it.
            self._survey_set = False
            return []
        if name == BEAT_TIMER:
            self._check_sleep(now)
        if self._node is not None and name.startswith((SUSPECT_TIMER, REFRESH_TIMER)):
            if not self._ended:
                self._node.timer(name, now)
            return self._hub.take()
        if name in (MOVE_TIMER, GIVE_UP_TIMER) and self._log is not None:
            if self.attached or self._ended:
                return []
            if name == MOVE_TIMER:
                self._move(now)
            else:
                self._end(f"no broker has taken {self.name} in for {self.config.give_up_s:g} s")
            return self._hub.take()
        return super().timer(name, now)

    def _check_sleep(self, now: float) -> None:
        """Whoever has not run for a while has heard nothing, whatever was said: that silence was its own."""
        slept_s = now - self._beat_at if self._beat_at else 0.0
        self._beat_at = now
        if slept_s >= SLEEP_BEATS * self._hub.config.heartbeat_s:
            for link in self._hub.links.values():
                link.heard_at = now

    def _move(self, now: float) -> None:
        """Ask the next contact; those that we know stand in the order in which they would repair."""
        self._hub.out.append(SetTimer(MOVE_TIMER, 2 * self.config.move_s * 2.0 ** min(self._rounds, DOUBLINGS_MAX)))
        joined = self._hub.links.get(self._broker)
        if self._fenced and (self._old is None or (joined is not None and joined.is_open)):
            # It has us, and opens the link when everybody has come.
            return
        if joined is not None and joined.state is LinkState.OPENING and now - joined.spoke_at < self._grace_s():
            return
        for link in [link for link in self._hub.links.values() if link.dialler]:
            if link.peer != self._broker or self._fenced:
                self._too_slow = True
                self._pass_over(link)
        contact = self._next_contact()
        if contact is None:
            return
        self._hub.out.append(Report("move", peer=contact.name))
        left = self._left.pop(contact.name, None)
        if left is None:
            self._hub.dial(contact.name, now, contact.address)
        else:
            self._hub.restore(left)

    def _grace_s(self) -> float:
        """How long our own broker may take to answer when it was reached.

        More and more: one that is farther away than a contact would never get the time to answer.
        """
        return self.config.move_s / 2 * 2.0 ** min(self._refusals, DOUBLINGS_MAX)

    def _pass_over(self, link: Link) -> None:
        """The contact cannot be reached: another one, next time."""
        self._unreachable.add(link.peer)
        self._leave(link)

    def _next_contact(self) -> Contact | None:
        """The first alive of them repairs; it may need a while to notice that it has to.

        So each is asked a few times more than the one behind it in line, and none is asked for the last time.
        """
        others = [one for one in self._contacts if one.name not in (self._home, self._broker)]
        alive = [one for one in others if one.name not in self._unreachable]
        if not alive:
            self._try_all_again()
            alive = others
        tries = [self._sent_back.get(one.name, 0) + TRIES_AHEAD * place for place, one in enumerate(alive)]
        return alive[tries.index(min(tries))] if alive else None

    def _try_all_again(self) -> None:
        """Those that did not answer may be far away: they get another chance, and more time."""
        self._unreachable.clear()
        self._rounds += self._too_slow
        self._too_slow = False

    def link_refused(self, link: Link, refusal: Refusal) -> None:
        ours = link.peer == self._broker and self._old is None
        if self._node is not None and refusal.code in ("unknown-session", "full", "name"):
            self._node.refused(link)
        elif refusal.code in ("late", "taken", "misuse") or (refusal.code == "excluded" and ours):
            # What passed meanwhile is gone for us: going on would hide a gap. And whoever throws us out says why.
            self._end(refusal.reason)
        elif self._log is not None and not ours:
            self._go_back(link)
        elif self._log is not None and not self._home and refusal.code == "unknown-session":
            self._begin_again(link)
        elif self._log is not None and self._contacts:
            # Our broker is there and does not know us: it has begun anew. Somebody else repairs its loss.
            link.closed()
            self._hub.out.append(SetTimer(MOVE_TIMER, self.config.move_s))
        else:
            super().link_refused(link, refusal)

    def _end(self, reason: str) -> None:
        """Nobody will take us in any more: the application learns it, and so does whoever reads the trace."""
        asked = self._hub.links[self._broker]
        for peer in list(self._hub.links):
            self._dismiss(peer, reason)
        super().link_ended(asked, reason)

    def _go_back(self, link: Link) -> None:
        """The contact does not take us in: our old session may go on.

        It is asked again soon, for it may only have been asked a little before it noticed, and then less often.
        """
        self._leave(link, forget=True)
        self._sent_back[link.peer] = self._sent_back.get(link.peer, 0) + 1
        self._try_all_again()
        wait_s = self.config.move_s / 2 * 2.0 ** min(self._refusals, RETRY_DOUBLINGS_MAX)
        self._refusals += 1
        self._hub.out.append(SetTimer(MOVE_TIMER, wait_s))

    def _leave(self, link: Link, forget: bool = False) -> None:
        """Try that contact no longer, for now; if it may have taken us in, its session is kept for later."""
        self._hub.set_aside(link.peer)
        self._hub.out.append(Disconnect(link.peer, "no answer in time"))
        if link.resumable and not forget:
            link.closed()
            self._left[link.peer] = link
        if link.peer == self._broker and self._old is not None:
            self._broker = self._old.peer
            self._hub.restore(self._old)
            self._old, self._fenced = None, False

    def _send_held_back(self) -> None:
        unsent, self._unsent = self._unsent, []
        for batch in unsent:
            self._send_batch(batch)
        unasked, self._unasked = self._unasked, []
        for token in unasked:
            self._ask_broker(token, self._up_to_date(self._messages[token]))

    def _up_to_date(self, request: SessionMessage) -> SessionMessage:
        """What a question asks about has become older while it waited."""
        if isinstance(request, Confirm):
            return replace(request, age_s=self._published_at.age_s(request.seq, self._now))
        return request

    def _begin_again(self, link: Link) -> None:
        """Nobody has let us in yet, so nothing can be missing: our broker may begin anew, and so may we."""
        self._hub.set_aside(link.peer)
        self._hub.dial(link.peer, link.heard_at)

    def link_ended(self, link: Link, reason: str) -> None:
        if self._node is not None and link.peer != self._broker and not self._stopping:
            self._node.refused(link)
            return
        if self._node is not None and self._stopping:
            self._node.leave(reason)
        if self._log is not None and not self._home and not self._stopping:
            self._begin_again(link)
            return
        if self._log is not None and self._contacts and (len(self._log) or not self._stopping):
            # The broker leaves, or was given up: whoever repairs that takes us in.
            link.closed()
            if self._old is not None or link.peer != self._broker:
                self._go_back(link)
                return
            self.attached = False
            self._hub.links.setdefault(link.peer, link)
            self._hub.out.append(Report("detach", peer=link.peer, detail=reason))
            self._hub.out.append(SetTimer(GIVE_UP_TIMER, self.config.give_up_s))
            self._hub.out.append(SetTimer(MOVE_TIMER, self.config.move_s))
            return
        super().link_ended(link, reason)
