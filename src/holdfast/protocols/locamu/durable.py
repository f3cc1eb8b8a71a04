"""Everything of a LoCaMu broker that survives a crash: the core, its clients' sessions, what they published and asked.

`put` writes a record down and applies it; `restore` applies what was written down. Whatever is said to clients because
of a record stands behind it in the effects, and has the same number on the session when the record is applied again.
"""

from holdfast.model.batches import SEQ_MAX, Batch
from holdfast.model.guarantees import TOTAL
from holdfast.model.identities import is_tagged, name_of
from holdfast.model.messages import (
    Confirm,
    ConfirmAck,
    Interest,
    Publish,
    Rejected,
    SessionMessage,
    Subscribe,
    SubscribeAck,
    Unsubscribe,
    UnsubscribeAck,
)
from holdfast.model.name_messages import Recall, Recalled
from holdfast.model.relay_messages import Notice
from holdfast.protocols.allowances import Allowances
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.hub import Hub
from holdfast.protocols.links import Link
from holdfast.protocols.locamu.copies import KeptCopy, Reaches
from holdfast.protocols.locamu.core import Core, CoreImage
from holdfast.protocols.locamu.groups import Waiter
from holdfast.protocols.locamu.journal import (
    Began,
    Bequeathed,
    Born,
    Finished,
    Image,
    Learnt,
    Left,
    LocamuJournal,
    Record,
    Released,
    Retired,
    Said,
    Took,
    Welcomed,
)
from holdfast.protocols.neighbourhoods import Neighbourhood
from holdfast.protocols.publishers import PublicationRefused, PublisherMemory, accept_publication
from holdfast.protocols.slow_readers import SlowReaders


class Durable:
    """Applies records. Entries that come to be are in `fresh`, those that have learnt something in `changed`."""

    def __init__(
        self, config: BrokerConfig, near: Neighbourhood, reach: Reaches, hub: Hub, rules: type[Core] = Core
    ) -> None:
        self._config, self._hub = config, hub
        self.core = rules(near, reach, self._tell)
        self.core.local_tree.places.update(config.places)
        self.core.local_tree.places[config.name] = config.address
        self.publishers = PublisherMemory()
        self.allowances = Allowances(config.subscriptions_max, config.subscription_characters_max)
        self.slow_readers = SlowReaders(hub.links, config.link.backlog_bytes_max)
        """Who is not waited for. Nothing is dropped: what is sent again after a crash must have the same numbers."""
        hub.are_waited_for = self.slow_readers.are_waited_for
        self.journal = LocamuJournal()
        self.fresh: list[KeptCopy] = []
        self.changed: list[KeptCopy] = []
        self.finished: list[Notice] = []
        """Notices that began here and that everybody has."""

    # ------------------------------------------------------------------------------------------------------- records

    def put(self, record: Record) -> None:
        """Write it down, and let it happen."""
        self._hub.out.append(self.journal.write(record))
        self._apply(record)

    def compact(self) -> None:
        """An image in the place of many records."""
        sessions = [link.image() for link in self._hub.links.values() if link.kind == "client"]
        numbers, retiring = self.publishers.numbers(), self.core.local_tree.retiring
        image = Image(self.journal.last, self.core.image(), numbers, sessions, retiring, self.slow_readers.wishes())
        self._hub.out += self.journal.replace(image, len(self.core.store))

    def restore(self, pairs: dict[str, bytes]) -> None:
        """Go on from what was written down; nothing of it is said again."""
        image, records = self.journal.read(pairs)
        if image is not None:
            self.core.restore(image.core)
            self.core.local_tree.retiring = image.retiring
            self.slow_readers.restore(image.wishes)
            for name, last in image.publishers.items():
                self.publishers.resume(name, last)
            for session in image.sessions:
                self._hub.links[session.peer] = Link.revived(session, "client", self._config.link, 0.0)
                self.allowances.reset(session.peer, self.core.groups.interests_of(session.peer))
        for record in records:
            self._repeat(record)
        self._hub.take()
        self.fresh.clear()
        self.changed.clear()
        self.finished.clear()

    def inherit(self, image: CoreImage) -> None:
        """Begin, as a newcomer to the tree, with what its sponsor has processed."""
        self.core.restore(image)
        self.core.local_tree.births[self._config.name] = self._hub.incarnation
        self.compact()

    def be_born(self) -> None:
        """Nobody was told anything before this is written down."""
        if self._config.name not in self.core.local_tree.births:
            self.put(Born(self._config.name, self._hub.incarnation))

    @property
    def is_blank(self) -> bool:
        """Whether nothing was ever written down."""
        return not self.journal.last and not self.core.local_tree.joined

    def _repeat(self, record: Record) -> None:
        links = self._hub.links
        if isinstance(record, Began):
            link = links[record.client] = Link(record.client, "client", record.session, False, self._config.link, 0.0)
            link.resumable = True
        elif isinstance(record, Left):
            links.pop(record.client, None)
        elif isinstance(record, Said):
            links[record.client].replay(record.message)
        self._apply(record)

    def _apply(self, record: Record) -> None:
        match record:
            case Said(client, message):
                self._said(client, message)
            case Took(copy):
                self.fresh.append(self.core.process(copy))
            case Learnt(marks):
                entry = self.core.merge(marks)
                if entry is not None:
                    self.changed.append(entry)
            case Finished(serial):
                self._finish(serial)
            case Left(client):
                self._left(client)
            case Welcomed(child, place):
                self._publish(Notice("j", child, place, self._config.name))
            case Bequeathed(child):
                self.core.local_tree.expected.remove(child)
            case Born(broker, birth):
                self.core.local_tree.births[broker] = birth
            case Retired():
                self._publish(Notice("l", self._config.name))
            case Released(child):
                self._publish(Notice("g", child))

    # ------------------------------------------------------------------------------------------------------- clients

    def _tell(self, client: str, message: SessionMessage) -> None:
        """To a session that is over nothing needs to be said."""
        if client in self._hub.links:
            self._hub.send(client, message)

    def _said(self, client: str, message: SessionMessage) -> None:
        if isinstance(message, Publish):
            batch = self._accepted(client, message.batch)
            if batch is not None:
                self.fresh.append(self.core.publish(batch, None))
        elif isinstance(message, ConfirmAck):
            pending = self.core.pending.get(message.token)
            if pending is not None and client in pending.clients:
                pending.clients.remove(client)
        elif isinstance(message, Recall):
            self._recall(client, message)
        elif isinstance(message, Subscribe | Unsubscribe | Confirm):
            problem = self.allowances.problem_with(client, message)
            if problem:
                self._tell(client, Rejected(message.token, 0, 0, problem))
            else:
                self._asked(client, message)

    def _recall(self, client: str, recall: Recall) -> None:
        """A name is known where it publishes: see docs/protocols/locamu.md.

        Others may draw numbers under it elsewhere. So its numbers begin here at a place that was drawn, and go on.
        """
        last = self.publishers.last(name_of(client))
        if is_tagged(client):
            last = last or min(recall.stride, SEQ_MAX)
        last = min(max(last, recall.used), SEQ_MAX)
        if is_tagged(client) or recall.used:
            self.publishers.note(client, last)
        self._tell(client, Recalled(recall.token, last, not is_tagged(client)))

    def _accepted(self, client: str, batch: Batch) -> Batch | None:
        try:
            new = accept_publication(client, batch, self.publishers)
            if batch.guarantee == TOTAL:
                raise PublicationRefused("protocol locamu does not give 'total': it gives eventual, fifo, causal")
        except PublicationRefused as refused:
            self._tell(client, Rejected(0, batch.first, batch.last, str(refused)))
            return None
        return new

    def _asked(self, client: str, message: Subscribe | Unsubscribe | Confirm) -> None:
        waiter = (client, message.token)
        if isinstance(message, Confirm):
            notice = Notice("c", message.topic, "", message.publisher, message.seq)
            self._publish(notice, waiter)
            return
        self.slow_readers.note(client, message)
        interest = (message.pattern, message.where)
        if isinstance(message, Unsubscribe):
            self._unsubscribe(client, interest)
            self._tell(client, UnsubscribeAck(message.token))
            return
        if self.core.groups.add(client, interest):
            serial = self._publish(Notice("s", *interest), waiter)
            self.core.groups.wants[interest].serial = serial
            return
        want = self.core.groups.wants[interest]
        if want.complete:
            self._tell(client, SubscribeAck(message.token))
        else:
            self.core.pending[want.serial].waiters.append(waiter)

    def _publish(self, notice: Notice, waiter: Waiter | None = None) -> int:
        entry = self.core.publish(None, notice)
        if waiter is not None:
            self.core.pending[entry.serial].waiters.append(waiter)
        self.fresh.append(entry)
        return entry.serial

    def _unsubscribe(self, client: str, interest: Interest) -> None:
        if self.core.groups.drop(client, interest):
            self._publish(Notice("u", *interest))

    def _left(self, client: str) -> None:
        self.publishers.retire(client)
        self.allowances.forget(client)
        self.slow_readers.forget(client)
        for interest in self.core.groups.interests_of(client):
            self._unsubscribe(client, interest)
        for pending in self.core.pending.values():
            if client in pending.clients:
                pending.clients.remove(client)
            pending.waiters = [waiter for waiter in pending.waiters if waiter[0] != client]

    def _finish(self, serial: int) -> None:
        pending = self.core.finish(serial)
        if not pending.up:
            self.finished.append(pending.notice)
        for client, token in pending.waiters:
            self._tell(client, SubscribeAck(token) if pending.notice.what == "s" else ConfirmAck(token))
