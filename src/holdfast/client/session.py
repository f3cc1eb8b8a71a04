"""The client: an application's calls on one side, the pure client machine and its driver on the other.

Publishing appends to the machine and schedules one settling a turn of the loop: when idle a message leaves at once,
under load a turn's worth leaves as one batch. Whatever has to wait in `publish` waits before the message is taken, so a
publish that is cancelled has surely not happened.
"""

import asyncio
from asyncio import sleep
from collections.abc import Iterable, Mapping
from functools import partial
from ssl import SSLContext
from threading import get_ident
from typing import ClassVar, Literal, Unpack, overload

from holdfast.client.addresses import Address
from holdfast.client.arguments import subscription_name
from holdfast.client.attachment import Attachment, Renewal
from holdfast.client.checks import (
    checked_durable,
    checked_extras,
    checked_interest,
    checked_payload,
    checked_payloads,
    checked_rank,
    checked_topic,
    is_plain_key,
    size_bytes,
)
from holdfast.client.deliveries import Deliveries
from holdfast.client.durable import Durables, DurableSubscription, Start, begin_of
from holdfast.client.durable_publishers import DurableReceipt
from holdfast.client.errors import Gap, SessionLost
from holdfast.client.internals import PublicMembers
from holdfast.client.manual import UNACKED_USUALLY, AckOptions, ManualSubscription, checked_ack
from holdfast.client.notices import Notices
from holdfast.client.opening import Closing, Opening
from holdfast.client.receipts import Level, Receipt
from holdfast.client.settings import TURN_BYTES, ClientSettings
from holdfast.client.slow import checked_slow
from holdfast.client.subscriptions import Delivery, Subscription
from holdfast.model.batches import Attributes, Batch, Keys, make_batch
from holdfast.model.errors import HoldfastError, LocalMisuse
from holdfast.model.filters import Value
from holdfast.model.guarantees import RANKS, Guarantee, GuaranteeName
from holdfast.model.slow_messages import Slow
from holdfast.model.topics import check_pattern
from holdfast.protocols.config import ClientConfig
from holdfast.protocols.node import Effect
from holdfast.runtime.tracing import Trace

NO_KEYS: Keys = ()
"""Python has one empty tuple: whatever else is given as keys is looked at, an empty string, too."""


class Client(Attachment, Closing, metaclass=PublicMembers):
    """A session with a broker; where brokers repair their tree it moves to another one when its own is lost.

    Made by `holdfast.connect`. `broker` is the name of the broker that has the session now.
    """

    _internal: ClassVar[tuple[str, ...]] = (
        *("__init__", "open", "checked", "publish_checked", "publish_nowait", "publish_batch"),
        *("level_of", "wait_accepted", "wait_held", "wait_confirmed", "has_crossed"),
        *("opening_of", "subscribe_as", "end_subscription", "wait_ended", "batch_dropped", "end_slow"),
    )

    def __init__(
        self,
        config: ClientConfig,
        incarnation: int,
        addresses: tuple[Address, ...],
        settings: ClientSettings,
        trace: Trace | None = None,
        ssl: SSLContext | None = None,
        notices: Notices | None = None,
        renew: Renewal | None = None,
        sited: bool = False,
    ) -> None:
        super().__init__(config, incarnation, addresses, settings, trace, ssl, notices, renew, sited)
        self._deliveries = Deliveries(self._consumed, self._read, self._notices.gap, self._log)
        self.batch_taken, self.batch_read = self._deliveries.taken, self._deliveries.read
        self.durables = Durables(self, settings.reliable)

    @property
    def identity(self) -> str:
        """The name of this session in traces: that of the client, with a tag if other sessions may have the same."""
        return self._machine.name

    def __repr__(self) -> str:
        state = "closed" if self._closing or self._end else f"attached to {self.broker}" if self.broker else "new"
        state = "coming back" if self._lost is not None and not self._closing and self._end is None else state
        return f"Client({self.name}, {state})"

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the broker that has the session, or that was asked last."""
        return self._driver.dialled or self._book.current

    def waiting_for(self) -> list[str]:
        """Sentences that say for what this client waits; an empty list if it waits for nothing."""
        return self._machine.waiting_for()

    # ------------------------------------------------------------------------------------------------------- publishing

    @property
    def next_seq(self) -> int:
        """The number that the next publication will have."""
        return self._machine.next_seq if self._lost is None else self._past.next_seq

    @property
    def numbers_known(self) -> bool:
        """Whether `next_seq` of a new session counts the earlier publications under its name.

        A broker that has crashed knows up to where numbers were reserved: then some of them were never used.
        """
        return self._machine.numbers_known

    @overload
    async def publish(
        self,
        topic: str,
        payload: bytes,
        guarantee: GuaranteeName | Guarantee = "causal",
        keys: Iterable[str] = (),
        attributes: Mapping[str, Value] | None = None,
        *,
        durable: Literal[True] | str,
    ) -> DurableReceipt: ...

    @overload
    async def publish(
        self,
        topic: str,
        payload: bytes,
        guarantee: GuaranteeName | Guarantee = "causal",
        keys: Iterable[str] = (),
        attributes: Mapping[str, Value] | None = None,
        *,
        durable: bool | str | None = None,
    ) -> Receipt: ...

    async def publish(
        self,
        topic: str,
        payload: bytes,
        guarantee: GuaranteeName | Guarantee = "causal",
        keys: Iterable[str] = (),
        attributes: Mapping[str, Value] | None = None,
        *,
        durable: bool | str | None = None,
    ) -> Receipt:
        """Publish a message. Returns its receipt at once, unless more than `backlog_bytes_max` is under way.

        `guarantee` is `eventual`, `fifo`, `causal` (the default) or `total`. A `total` message is in
        one order with the messages of its topic that share one of its `keys`; without keys, with the other `total`
        messages of the topic that have none. Filters of subscribers (`where`) are conditions on `attributes`. A
        publish that is cancelled while it waits did not happen.

        Repositories store `durable` messages and no others: `await receipt.stored()`. `True` finds the stream that
        covers the topic, a string names it, and `None` is `True` on topics that `connect(reliable=...)` names.
        """
        if self._home.thread != get_ident():
            self._home.check()
        try:
            # `known` is the `str` that was checked: what equals it may be of another type.
            known, rank = self._topics[topic], self._ranks[guarantee]
        except (KeyError, TypeError):
            known, rank = "", -1  # New, or nothing that can be looked up, such as a list: the checks say what is wrong.
        if (
            known
            and not durable
            and (keys is NO_KEYS or is_plain_key(keys))
            and attributes is None
            and type(payload) is bytes
            and len(payload) <= self._payload_bytes_max
        ):
            seq = self._machine.publish_alike(known, payload, rank, keys)
            if not seq:
                if not self._driver.settle_pending or self._machine.pending_bytes + len(payload) > TURN_BYTES:
                    await self._begin_turn()
                seq = self._machine.publish(known, payload, rank, keys)
            return Receipt(self, known, seq)
        if (
            keys is NO_KEYS
            and attributes is None
            and (taken := self.durables.publish_nowait(topic, payload, guarantee, durable))
        ):
            return taken
        checked = self.checked(topic, payload, guarantee, keys, attributes)
        durable = checked_durable(durable)
        if durable or (durable is None and self.durables.declares(checked[0])):
            return await self.durables.publish_checked(checked, durable)
        return await self.publish_checked(*checked)

    async def publish_many(
        self,
        topic: str,
        payloads: Iterable[bytes],
        guarantee: GuaranteeName | Guarantee = "causal",
        keys: Iterable[str] = (),
        attributes: Mapping[str, Value] | None = None,
    ) -> Receipt | None:
        """Publish many messages that differ in their payload alone; returns the receipt of the last, if there is one.

        The last message is accepted when all are. If a payload is wrong, the ones before it are published all the same.
        """
        topic, _, rank, checked_keys, attributes = self.checked(topic, b"", guarantee, keys, attributes)
        if self.durables.declares(topic):
            checked_payloads(payloads)
            return await self.durables.publish_many((topic, b"", rank, checked_keys, attributes), payloads)
        checked_payloads(payloads)
        self._home.check()
        machine, driver, payload_bytes_max = self._machine, self._driver, self._payload_bytes_max
        turn_bytes, seq = TURN_BYTES - size_bytes(checked_keys, attributes), 0
        for payload in payloads:
            if type(payload) is not bytes or len(payload) > payload_bytes_max:
                payload = checked_payload(payload, payload_bytes_max)  # noqa: PLW2901
            if self._lost or machine.pending_bytes + len(payload) > turn_bytes or not driver.settle_pending:
                await self._begin_turn()
                machine, driver = self._machine, self._driver
            seq = machine.publish(topic, payload, rank, checked_keys, attributes)
        return Receipt(self, topic, seq, attributes) if seq else None

    def publish_nowait(
        self, topic: str, payload: bytes, rank: int, keys: Keys = (), attributes: Attributes | None = None
    ) -> int:
        """Publish what is known to be right without waiting for room, and return its number."""
        self._check_open()
        if self._lost is not None:
            columns = (keys,) if keys else (), (attributes,) if attributes else ()
            return self._past.add(make_batch(self.name, self.next_seq, topic, rank, [payload], *columns))
        self._driver.settle_soon()
        return self._machine.publish(topic, payload, rank, keys, attributes)

    def publish_batch(self, batch: Batch) -> int:
        """The same for what is a batch already; returns the number of its first message."""
        if self._lost is not None and self._end is None:
            return self._past.add(batch)
        self._driver.settle_soon()
        return self._machine.publish_batch(batch)

    @property
    def backlog_bytes(self) -> int:
        """Bytes of published messages that the broker has not accepted yet."""
        return self._machine.backlog_bytes + sum(batch.cost_bytes for batch in self._past.waiting)

    async def publish_checked(
        self, topic: str, payload: bytes, rank: int, keys: Keys, attributes: Attributes | None
    ) -> Receipt:
        """Publish what `checked` returned."""
        size = len(payload) + size_bytes(keys, attributes)
        if self._lost or self._machine.pending_bytes + size > TURN_BYTES or not self._driver.settle_pending:
            await self._begin_turn()
        seq = self._machine.publish(topic, payload, rank, keys, attributes)
        return Receipt(self, topic, seq, attributes)

    def checked(
        self, topic: str, payload: object, guarantee: str, keys: Iterable[str], attributes: Mapping[str, Value] | None
    ) -> tuple[str, bytes, int, Keys, Attributes | None]:
        """The publication in the types that travel, or the error that says what is wrong with it."""
        self._check_open()
        rank = checked_rank(guarantee, self._ranks or RANKS, self.protocol)
        found = checked_topic(topic, self._topics)
        if self.durables.declares(found):
            del self._topics[found]  # What is there is published as it is.
        return (found, checked_payload(payload, self._payload_bytes_max), rank, *checked_extras(keys, attributes))

    async def _begin_turn(self) -> None:
        """See to it that what is published next is settled; wait while too much is under way.

        After a turn's worth it is settled at once, and the loop runs: else a publisher that never pauses would fill
        its memory and send nothing.
        """
        self._home.check()
        backlog_bytes_max = self._settings.backlog_bytes_max
        while True:
            if self._lost is not None or self._end is not None or self._closing:
                await self._back()
            if self._machine.pending_bytes:
                self._driver.settle_now()
                await sleep(0)
            if self._unaccepted_bytes() > backlog_bytes_max:
                await self._acceptance.wait_for_room(backlog_bytes_max)
            if self._lost is None and self._end is None and not self._closing:
                break
            self._check_open()
        self._driver.settle_soon()

    # --------------------------------------------------------------------------------------------------------- receipts

    def level_of(self, seq: int) -> Level:
        """How far publication `seq` is known to have come."""
        seq = self._past.present(seq)
        level = self._acceptance.level_of(seq)
        machine = self._machine
        return "held" if level == "accepted" and machine.keeps and seq <= machine.held_seq else level

    async def wait_accepted(self, seq: int) -> None:
        """Wait until the broker has every publication up to `seq`; raises `Refused` if it declined this one."""
        self._home.check()
        self._acceptance.check_not_refused(self._past.present(seq))
        await self._acceptance.wait_for(self._past.present(seq))
        self._acceptance.check_not_refused(self._past.present(seq))

    async def wait_held(self, seq: int) -> None:
        """Wait until publication `seq` survives the loss of as many adjacent brokers as the cluster tolerates."""
        await self.wait_accepted(seq)
        seq = self._past.present(seq)
        while self._machine.keeps and seq > self._machine.held_seq:
            await self._back()
            self._check_known(seq)
            waiter = self._holders.wait(seq)
            self._machine.await_held(self._holders.first)
            self._driver.settle_soon()
            await waiter

    async def wait_confirmed(self, topic: str, seq: int, attributes: Attributes, taken: bool) -> bool:
        """Wait until everybody that publication `seq` was promised to has it, or has `taken` it; has it crossed?"""
        self._home.check()
        while True:
            doubt = self._past.doubt_about(self._past.present(seq))
            if doubt is not None:
                raise doubt
            await self._back()
            number = self._past.present(seq)
            self._check_known(number)
            try:
                crossed = await self._request(partial(self._confirming, topic, number, attributes, taken))
            except SessionLost:
                if self._lost is None:
                    raise
                continue  # What had never left is asked about in the next session; of the rest nobody will know.
            self._past.known = max(self._past.known, number)
            self._acceptance.check_not_refused(number)
            return crossed

    def _confirming(
        self, topic: str, seq: int, attributes: Attributes, taken: bool, now: float
    ) -> tuple[int, list[Effect]]:
        return self._machine.confirm(topic, seq, now, attributes, taken)

    def _check_known(self, seq: int) -> None:
        """Raise `SessionLost` if publication `seq` was made in a session that was lost since: nobody here knows it."""
        loss = self._past.loss_before(seq)
        if loss is not None:
            raise loss

    def has_crossed(self, seq: int) -> bool:
        """Whether our broker has said that publication `seq` takes no part in the total order of its keys."""
        return seq in self._machine.crossed

    async def flush(self) -> None:
        """Wait until everything published so far is accepted.

        Raises `Refused` if the broker declined a message and no earlier `flush` has said so.
        """
        self._home.check()
        last = self.next_seq - 1
        if self._lost is None:
            self._machine.hurry(last)
            self._driver.settle_now()
        try:
            await self._acceptance.wait_for(last)
        except SessionLost:
            self._past.unsaid = None
            raise
        self._acceptance.check_nothing_in_doubt()
        self._acceptance.check_nothing_refused()

    # ------------------------------------------------------------------------------------------------------ subscribing

    @overload
    def subscribe(
        self,
        pattern: str,
        where: str = "",
        *,
        slow: Slow | None = None,
        slow_s: float | None = None,
        slow_bytes: int | None = None,
    ) -> Opening[Subscription]: ...

    @overload
    def subscribe(
        self,
        pattern: str,
        where: str = "",
        *,
        durable: str,
        start: Start | None = None,
        ack: Literal["auto"] = "auto",
    ) -> Opening[DurableSubscription]: ...

    @overload
    def subscribe(
        self,
        pattern: str,
        where: str = "",
        *,
        durable: str,
        start: Start | None = None,
        ack: Literal["manual"],
        redeliver: Literal["publisher", "key"] = "publisher",
        unacked_max: int = UNACKED_USUALLY,
    ) -> Opening[ManualSubscription]: ...

    def subscribe(
        self,
        pattern: str,
        where: str = "",
        *,
        slow: Slow | None = None,
        slow_s: float | None = None,
        slow_bytes: int | None = None,
        durable: str = "",
        start: Start | None = None,
        **acks: Unpack[AckOptions],
    ) -> Opening[Subscription]:
        """Subscribe to a topic pattern, with a filter on attributes if wanted; await it, or use it with `async with`.

        It returns when every broker has confirmed the subscription: matching messages that any client publishes after
        that arrive.

        Messages that the application has not read yet wait in this process, up to `slow_bytes` (16 MiB). When more
        wait, `slow` says what happens: `"drop-oldest"` and `"drop-newest"` drop messages, with a `Gap` in their place
        that counts them; `"disconnect"`, the default, ends the subscription with a `Gap` behind the messages that had
        arrived, if more wait for `slow_s` (30 s), or at once when four times as many bytes wait; `"block"` makes
        publishers wait until the application reads.

        A `durable` subscription has a name, and continues where the last one of that name stopped: see
        `DurableSubscription`. A new one begins at the `start` of the stored messages, `live`, at a sequence number, or
        at a time. With `ack="manual"` the application acknowledges each message (`redeliver`, `unacked_max`): see
        `ManualSubscription`.
        """
        opening = self.opening_of(pattern, where, durable, start, (slow, slow_s, slow_bytes), acks)
        opening.called = "client.subscribe(...)"
        return opening

    def opening_of(
        self,
        pattern: str,
        where: str,
        durable: str,
        start: Start | None,
        slow: tuple[Slow | None, float | None, int | None],
        acks: AckOptions,
    ) -> Opening[Subscription]:
        """What `subscribe` gives, of whichever kind it is; `slow` are its policy, seconds and bytes."""
        pattern, where = checked_interest(pattern, where)
        name = "" if durable == "" else subscription_name("subscribe", "durable", durable)
        settings, slowness = checked_ack(name, acks), checked_slow(*slow, bool(name))
        if name:
            begins = begin_of("start" if start is None else start)
            return Opening(lambda: self.durables.subscribe(name, pattern, where, begins, settings))
        if start is not None:
            raise LocalMisuse(
                f"subscribe(start={start!r}): only a durable subscription has a start: write durable=NAME, too. "
                "Nothing was begun."
            )
        return Opening(lambda: self.subscribe_as(Subscription(self, pattern, where, slowness)))

    async def forget_subscription(self, name: str, pattern: str) -> None:
        """End the durable subscription of that name to that pattern for good: no message is kept for it any more.

        A later subscription under the name begins anew. A name that no repository knows is no error.
        """
        name = subscription_name("forget_subscription", "name", name)
        await self.durables.forget(name, check_pattern(pattern))

    async def subscribe_as(self, subscription: Subscription) -> Subscription:
        """Make this subscription known; it gets what arrives, also before it is confirmed."""
        self._home.check()
        await self._back()
        # Messages may come before the confirmation: they are the subscription's.
        self._deliveries.add(subscription)
        subscription.awaits_confirmation = True
        try:
            while True:
                try:
                    await self._request(self._subscribing(subscription))
                    break
                except SessionLost:
                    # Of a session that is lost nothing was known everywhere: it is asked for in the next one.
                    if self._end is not None:
                        raise
                    await self._back()
        except asyncio.CancelledError:
            self._withdraw(subscription)
            raise
        except HoldfastError:
            self._forget(subscription)
            raise
        subscription.awaits_confirmation = False
        return subscription

    async def end_subscription(self, subscription: Subscription) -> None:
        """Take a subscription back; see `Subscription.unsubscribe`."""
        self._home.check()
        request = self._withdraw(subscription)
        if request is not None:
            try:
                await request
            except SessionLost:
                # The session took the subscription along, and the next one does not have it.
                if self._lost is None:
                    raise

    # ------------------------------------------------------------------------------ applications that do not read

    def batch_dropped(self, subscription: Subscription, batch: Batch, delivery: Delivery, reason: str) -> None:
        """A subscription has dropped this, of what was delivered; the `reason` is given once for each `Gap`."""
        self._machine.dropped(subscription.pattern, subscription.where, batch, reason)
        if reason:
            self._log.warning("dropped", pattern=subscription.pattern, where=subscription.where, reason=reason)
        self._deliveries.read(delivery)
        self._driver.settle_soon()

    def end_slow(self, subscription: Subscription, gap: Gap) -> None:
        """End a subscription that is not read: what has come can be read, and then the gap is raised."""
        if subscription in self._deliveries and not subscription.ended:
            self._log.warning("ended", pattern=subscription.pattern, where=subscription.where, reason=str(gap))
            self._deliveries.remove(subscription)
            subscription.end(gap)
            self._notices.gap(gap)
            if self._end is None and not self._closing:
                self._unsubscribe(subscription, too_slow=True)
