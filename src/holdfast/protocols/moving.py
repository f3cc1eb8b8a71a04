"""A client that finds another broker when its own dies, and loses nothing on the way.

Where brokers repair their tree (a tolerance above 0), a client is a leaf of it like any other node: it keeps what it
published and what it received until that is stable, knows whom to turn to, and takes part in the repair: it joins the
first contact with what it keeps, waits until the link is opened, and sends again what was not taken. Requests that were
not answered are asked again. The application notices a pause.

Only brokers give brokers up. A client that cannot reach its broker asks the next contact; if that one does not know the
broker to be dead, the client goes back to it. Its old session waits until the new one is certain.
"""

from typing import Literal

from holdfast.model.batches import Batch
from holdfast.model.guarantees import TOTAL
from holdfast.model.messages import (
    Contact,
    Join,
    Levels,
    Open,
    Publish,
    Refusal,
    SessionMessage,
    Twig,
    Unstable,
    View,
)
from holdfast.protocols.clients import ClientNode
from holdfast.protocols.config import ClientConfig
from holdfast.protocols.links import Link
from holdfast.protocols.node import Accepted, Disconnect, Effects, Report, Send, SetTimer
from holdfast.protocols.stability import StabilityLog
from holdfast.protocols.treeview import contacts_in

MOVE_TIMER = "move"
TRIES_PER_CONTACT = 4
PATIENCE = 4
HERE = "broker"
"""The one neighbour that a client's log knows, whoever it is."""


class MovingClient(ClientNode):
    """A client session that may move from broker to broker."""

    def __init__(self, config: ClientConfig, incarnation: int) -> None:
        super().__init__(config, incarnation)
        self._incarnation = incarnation
        self._log: StabilityLog | None = None
        self._processed: dict[str, int] = {}
        self._contacts: tuple[Contact, ...] = ()
        self._home = ""
        """The name of the broker that has let us in last."""
        self._fenced = False
        self._joined: list[Unstable] = []
        self._old: Link | None = None
        self._tries = 0
        self._unsent: list[Batch] = []
        self._messages: dict[int, SessionMessage] = {}
        self._unasked: list[int] = []
        self._unreachable: set[str] = set()

    # --------------------------------------------------------------------------------------------------- sending

    def _held_back(self) -> bool:
        """Nothing goes ahead of `Join`; whether there will be one, the first broker says that welcomes us."""
        return self._fenced or self._hub.said is None

    def _send_batch(self, batch: Batch) -> None:
        if self._held_back():
            self._unsent.append(batch)
        elif self._log is None:
            super()._send_batch(batch)
        else:
            self._log.asked(self._log.append(batch), HERE)
            super()._send_batch(batch)

    def _send_request(self, token: int, message: SessionMessage) -> None:
        self._messages[token] = message
        if self._held_back():
            self._unasked.append(token)
        else:
            super()._send_request(token, message)

    @property
    def backlog_bytes(self) -> int:
        return super().backlog_bytes + sum(batch.cost_bytes for batch in self._unsent)

    # ------------------------------------------------------------------------------------------------- receiving

    def link_message(self, link: Link, message: SessionMessage) -> None:
        if isinstance(message, Open):
            self._hub.consumed(link, message)
            self._on_open(link, message)
        elif isinstance(message, View):
            self._hub.consumed(link, message)
            if message.upward is not None:
                self._contacts = contacts_in(message.upward)
        else:
            super().link_message(link, message)

    def _on_publish(self, link: Link, message: Publish) -> None:
        if self._log is None:
            super()._on_publish(link, message)
            return
        batch = message.batch
        last = self._processed.get(batch.publisher, 0)
        if batch.last <= last:
            self._log.came(self._log.find((batch.publisher, batch.first)), HERE)
            self._hub.consumed(link, message)
            return
        self._processed[batch.publisher] = batch.last
        record = self._log.find((batch.publisher, batch.first)) or self._log.append(batch)
        self._log.came(record, HERE)
        self._log.renumber(record)
        self._hand_over(link, message, batch if last < batch.first else batch.part(last + 1, batch.last))

    def _on_done(self, token: int) -> None:
        self._messages.pop(token, None)
        super()._on_done(token)

    def link_levels(self, link: Link, levels: Levels) -> None:  # noqa: ARG002
        if self._log is not None:
            self._log.on_levels(HERE, levels)

    def settle(self, now: float) -> Effects:
        link = self._hub.links.get(self._broker)
        if self._log is not None and link is not None and link.is_open and not self._fenced:
            for levels in self._log.survey().values():
                self._hub.out.append(Send(self._broker, levels))
        return super().settle(now)

    def _leave_if_drained(self) -> None:
        # Whoever leaves takes its copies along: what it published must not need them any more.
        if self._log is None or (not len(self._log) and not self._fenced):
            super()._leave_if_drained()

    # --------------------------------------------------------------------------------------------------- joining

    def link_opened(self, link: Link, fresh: bool) -> None:
        said = self._hub.said
        if said is None or not said.tolerance:
            self._send_held_back()
            super().link_opened(link, fresh)
            return
        if fresh:
            self._join(link, said.tolerance)
        elif link.peer == self._broker and not self._fenced:
            if self._log is not None:
                self._log.say_again(HERE)
            self._attach(link)

    def _numbering(self, published: int) -> bool:
        return True if self._log is not None else super()._numbering(published)

    def _join(self, link: Link, tolerance: int) -> None:
        """The first words on a new session; from here on the old one waits."""
        if self._log is None:
            self._log = StabilityLog(tolerance)
            self._log.link(HERE)
        if link.peer != self._broker:
            self._old = self._hub.set_aside(self._broker)
            self._broker = link.peer
        self._fenced = True
        self._joined = [
            Unstable(_flag(record.batch, self.name, HERE in record.ins), record.batch, after, record.number)
            for record, after in self._log.history(HERE)
        ]
        for unstable in self._joined:
            self._hub.send(link.peer, unstable)
        twig = Twig(self.name, "client", self._incarnation, "")
        own = [one.batch.first for one in self._joined if one.batch.publisher == self.name]
        published = (min(own) if own else self._first_unsent()) - 1
        join = Join(twig, self._home, (), dict(self._processed), tuple(sorted(self._wanted)), (), 0, published)
        self._hub.send(link.peer, join)

    def _first_unsent(self) -> int:
        waiting = [batch.first for batch in (*self._unsent, *self._batches)]
        if self._run is not None:
            waiting.append(self._run.first)
        return min(waiting, default=self.next_seq)

    def _on_open(self, link: Link, message: Open) -> None:
        if link.peer != self._broker or not self._fenced or self._log is None:
            return
        self._fenced, self._old, self._tries = False, None, 0
        self._unreachable.clear()
        self._home = self._hub.said.node if self._hub.said is not None else ""
        self._contacts = contacts_in(message.upward)
        joined, self._joined = self._joined, []
        rest = [one.batch for one in joined if one.batch.publisher == self.name and one.batch.first > message.taken]
        again = {batch.first for batch in rest}
        places = {
            (one.batch.publisher, one.batch.first): place
            for place, one in enumerate(joined, 1)
            if one.batch.publisher != self.name or one.batch.first not in again
        }
        self._log.restart(HERE, places, len(joined))
        self._publications.clear()
        self._uneaten.clear()
        self._accepted_up_to(min(message.taken, self.next_seq - 1))
        unsent, self._unsent = self._unsent, []
        for batch in sorted(rest, key=lambda batch: batch.first) + unsent:
            self._send_batch(batch)
        self._unasked.clear()
        for token, request in list(self._messages.items()):
            super()._send_request(token, request)
        self._attach(link)

    def _accepted_up_to(self, seq: int) -> None:
        if seq > self.accepted_seq:
            self.accepted_seq = seq
            self._hub.out.append(Accepted(seq))

    # --------------------------------------------------------------------------------------------------- moving

    def link_closed(self, link: Link) -> None:
        super().link_closed(link)
        if self._log is not None:
            self._hub.out.append(SetTimer(MOVE_TIMER, self.config.move_s))

    def peer_down(self, peer: str, now: float) -> Effects:
        link = self._hub.links.get(peer)
        if link is not None and peer != self._broker:
            # The contact cannot be reached: another one, next time.
            self._unreachable.add(peer)
            self._hub.set_aside(peer)
            self._hub.out.append(SetTimer(MOVE_TIMER, self.config.move_s))
            return self._hub.take()
        if link is not None and self._fenced and self._old is not None:
            self._go_back(link, now)
            return self._hub.take()
        return super().peer_down(peer, now)

    def timer(self, name: str, now: float) -> Effects:
        if name == MOVE_TIMER:
            if not self.attached and not self._ended:
                self._move(now)
            return self._hub.take()
        return super().timer(name, now)

    def _move(self, now: float) -> None:
        """Ask the next contact; those that we know stand in the order in which they would repair."""
        others = [one for one in self._contacts if one.name not in (self._home, self._broker)]
        self._hub.out.append(SetTimer(MOVE_TIMER, self.config.move_s * 2))
        if not others or self._fenced:
            return
        for peer in [peer for peer in self._hub.links if peer != self._broker]:
            self._hub.set_aside(peer)
            self._hub.out.append(Disconnect(peer, "no answer in time"))
        # The first alive of them repairs; it may need a moment to notice that it has to.
        alive = [one for one in others if one.name not in self._unreachable] or others
        if alive is others:
            self._unreachable.clear()
        contact = alive[self._tries // TRIES_PER_CONTACT % len(alive)]
        self._tries += 1
        self._hub.out.append(Report("move", peer=contact.name))
        self._hub.dial(contact.name, now, contact.address)

    def link_refused(self, link: Link, refusal: Refusal) -> None:
        if refusal.code == "late":
            # What passed meanwhile is gone for us: going on would hide a gap.
            self._hub.set_aside(link.peer)
            super().link_ended(link, refusal.reason)
        elif self._log is not None and refusal.code in ("moved", "not-ready", "full"):
            self._go_back(link, 0.0)
        elif self._log is not None and link.peer == self._broker and self._contacts and self._old is None:
            # Our broker is there and does not know us: it has begun anew. Somebody else repairs its loss.
            link.closed()
            self._hub.out.append(SetTimer(MOVE_TIMER, self.config.move_s))
        else:
            super().link_refused(link, refusal)

    def _go_back(self, link: Link, now: float) -> None:  # noqa: ARG002
        """The contact does not take us in: our old session may go on."""
        self._hub.set_aside(link.peer)
        # Its own broker gets a fair chance to answer before others are asked again.
        self._hub.out.append(SetTimer(MOVE_TIMER, PATIENCE * self.config.move_s))
        if self._old is not None and link.peer == self._broker:
            self._broker = self._old.peer
            self._hub.restore(self._old)
            self._old, self._fenced, self._joined = None, False, []
            self._send_held_back()

    def _send_held_back(self) -> None:
        unsent, self._unsent = self._unsent, []
        for batch in unsent:
            self._send_batch(batch)
        unasked, self._unasked = self._unasked, []
        for token in unasked:
            super()._send_request(token, self._messages[token])

    def link_ended(self, link: Link, reason: str) -> None:
        if self._log is not None and not self._stopping and self._contacts:
            # The broker leaves, or was given up: whoever repairs that takes us in.
            self.attached = False
            self._hub.links.setdefault(link.peer, link)
            self._hub.out.append(Report("detach", peer=link.peer, detail=reason))
            self._hub.out.append(SetTimer(MOVE_TIMER, self.config.move_s))
            return
        super().link_ended(link, reason)


def _flag(batch: Batch, own: str, came_back: bool) -> Literal["s", "r", "t"]:
    """What a client had to do with a record. What it published and got back it has received, like anyone else."""
    if batch.publisher != own or came_back:
        return "r"
    return "t" if batch.guarantee == TOTAL else "s"
