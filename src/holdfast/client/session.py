"""The client: an application's calls on one side, the pure client machine and its driver on the other.

Publishing appends to the machine and schedules one settling a turn of the loop: when idle a message leaves at once,
under load a turn's worth leaves as one batch. Whatever has to wait in `publish` waits before the message is taken, so a
publish that is cancelled has surely not happened.
"""

import asyncio
from asyncio import sleep
from collections.abc import Callable, Iterable, Mapping
from random import Random
from ssl import SSLContext
from time import monotonic
from typing import Self, Unpack

from holdfast.client.acceptance import Acceptance
from holdfast.client.addresses import Address, AddressBook, shown
from holdfast.client.arguments import plain, subscription_name
from holdfast.client.backoff import Backoff
from holdfast.client.checks import (
    check_durable,
    checked_extras,
    checked_interest,
    checked_payload,
    checked_payloads,
    checked_rank,
    checked_topic,
    size_bytes,
)
from holdfast.client.deliveries import Deliveries
from holdfast.client.durable import Durables, Start, begin_of
from holdfast.client.endings import Outdated, closed, in_doubt, lost, lost_for_now, refused
from holdfast.client.errors import ConnectionFailed, SessionLost
from holdfast.client.homes import Home
from holdfast.client.manual import AckOptions, checked_ack
from holdfast.client.notices import Notices
from holdfast.client.opening import Closing, Opening
from holdfast.client.receipts import Level, Receipt
from holdfast.client.settings import TURN_BYTES, ClientSettings
from holdfast.client.strangers import SILENCE_S, first_words
from holdfast.client.subscriptions import Subscription
from holdfast.client.waiting import Holders, Requests, fail
from holdfast.model.batches import PAYLOAD_BYTES_MAX, Attributes, Batch, Keys, make_batch
from holdfast.model.errors import HoldfastError, LocalMisuse, Refused
from holdfast.model.filters import Value
from holdfast.model.guarantees import GUARANTEES, RANKS
from holdfast.model.identities import name_of
from holdfast.model.topics import check_pattern
from holdfast.protocols.config import ClientConfig
from holdfast.protocols.moving import MovingClient
from holdfast.protocols.node import (
    Accepted,
    Attached,
    Completed,
    Deliver,
    Effect,
    Ended,
    Failed,
    Missing,
    Report,
    Unconfirmed,
)
from holdfast.runtime.driver import Driver
from holdfast.runtime.logs import Log
from holdfast.runtime.tracing import Trace

Command = Callable[[float], tuple[int, list[Effect]]]
Renewal = Callable[[str], tuple[ClientConfig, int, tuple[Address, ...], Trace | None]]


class Client(Closing):
    """A session with a broker; where brokers repair their tree it moves to another one when its own is lost.

    Made by `holdfast.connect`. `broker` is the name of the broker that has the session now.
    """

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
    ) -> None:
        """`renew` makes the configuration of the next session when one is lost, later than the identity it is given."""
        self.name = name_of(config.name)
        self.broker = ""
        self.protocol = ""
        self._settings, self._ssl = settings, ssl
        self._notices = notices or Notices()
        self._renew = renew
        self._chance = Random()
        self._home = Home(f"client {self.name}")
        self._log = Log("holdfast.client", node=self.name)
        self._requests = Requests()
        # What `publish` consults for every message. Without ranks every publication takes the slow path, which checks.
        self._ranks: dict[str, int] = {}
        self._topics: dict[str, str] = {}
        self._payload_bytes_max = PAYLOAD_BYTES_MAX
        self._make_session(config, incarnation, addresses, trace)
        self._acceptance = Acceptance(
            self.name, lambda: self._machine.accepted_seq, self._unaccepted_bytes, self._hurry
        )
        self._past = self._acceptance.past
        self._holders = Holders()
        self._deliveries = Deliveries(self._consumed, self._read, self._notices.gap, self._log)
        self.batch_taken, self.batch_read = self._deliveries.taken, self._deliveries.read
        self.durables = Durables(self, settings.reliable)
        loop = asyncio.get_running_loop()
        self._goodbye: asyncio.Future[None] = loop.create_future()
        self._lost: SessionLost | None = None
        """Why there is no session now, while the client tries to come back."""
        self._back_again: asyncio.Future[None] = loop.create_future()
        self._coming_back: asyncio.Task[None] | None = None
        self._end: HoldfastError | None = None
        self._closing = False

    def _make_session(
        self, config: ClientConfig, incarnation: int, addresses: tuple[Address, ...], trace: Trace | None
    ) -> None:
        """A machine, its driver and whom to dial, for the first session and for each one after a loss."""
        self._book = AddressBook(addresses)
        self._trace = trace
        self._machine = MovingClient(config, incarnation, self._chance)
        self._attachment: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._driver = Driver(
            self._machine,
            lambda _: self._book.next(),
            handlers={
                Attached: self._on_attached,
                Accepted: self._on_accepted,
                Completed: self._requests.completed,
                Failed: self._on_failed,
                Ended: self._on_ended,
                Deliver: lambda effect: self._deliveries.arrive(effect.batch),
                Missing: lambda effect: self._deliveries.miss(effect.reason),
                Unconfirmed: lambda effect: self._requests.unconfirmed(self.name, effect),
            },
            sinks=(self._note,) if trace is None else (self._note, trace),
            limits=self._settings.limits,
            log=self._log,
            ssl_client=self._ssl,
            on_dial_failed=self._on_dial_failed,
            on_no_broker=self._on_no_broker,
        )
        self._driver.failed.add_done_callback(self._on_driver_failed)

    @property
    def identity(self) -> str:
        """Under which this session is in traces: its name, and a tag if others may have that name, too."""
        return self._machine.name

    def __repr__(self) -> str:
        state = "closed" if self._closing or self._end else f"attached to {self.broker}" if self.broker else "new"
        state = "coming back" if self._lost is not None and not self._closing and self._end is None else state
        return f"Client({self.name}, {state})"

    @property
    def address(self) -> Address:
        """Where the broker is that has, or was last asked for, the session."""
        return self._driver.dialled or self._book.current

    def waiting_for(self) -> list[str]:
        """In words, what this client is waiting for; empty when it waits for nothing."""
        return self._machine.waiting_for()

    # ------------------------------------------------------------------------------------------------ opening

    async def open(self) -> Self:
        """Attach to a broker; raises `ConnectionFailed` or `Refused`."""
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                await self._attach()
        except TimeoutError:
            await self._shut(linger=False)
            raise ConnectionFailed(
                f"no broker let {self.name} in within {self._settings.timeout_s:g} s; tried {self._book.tried()}"
            ) from None
        except BaseException:
            await self._shut(linger=False)
            raise
        self._notices.connected(self.broker)
        return self

    async def _attach(self) -> None:
        """Be let in by a broker, and learn with which number to go on."""
        self._driver.start()
        looking = asyncio.ensure_future(self._look_at_the_silent())
        try:
            await self._attachment
        finally:
            looking.cancel()
        if self._lost is not None:
            await self._recall_after_loss()
        elif self._settings.recall:
            await self._command(self._machine.recall)

    def _on_dial_failed(self, peer: str, reason: str) -> None:  # noqa: ARG002
        if self._book.note_failure(reason):
            self._nobody_is_there()

    def _on_no_broker(self, peer: str, reason: str) -> None:  # noqa: ARG002
        if self._book.note_stranger(reason):
            self._nobody_is_there()

    def _nobody_is_there(self) -> None:
        fail(self._attachment, ConnectionFailed(f"no broker answers {self.name}; tried {self._book.tried()}"))

    async def _look_at_the_silent(self) -> None:
        """Ask those that accept connections and say nothing whether they are something else than a broker."""
        await sleep(SILENCE_S)
        for address in self._book.addresses if self._ssl is None else ():
            words = await first_words(address)
            if words and self._book.note_reason(address, words):
                self._nobody_is_there()

    def _note(self, report: Report) -> None:
        if report.event == "detach":
            self._notices.disconnected(report.detail or f"the connection to {self.broker} broke; it is made again")

    def _on_attached(self, effect: Attached) -> None:
        self._book.pin()
        self.broker, self.protocol = effect.broker, effect.protocol
        self._payload_bytes_max = min(effect.payload_bytes_max, PAYLOAD_BYTES_MAX)
        self._given = {GUARANTEES[rank].value: rank for rank in effect.guarantees}
        if self._lost is None:
            self._ranks = self._given
        if not self._attachment.done():
            self._attachment.set_result(None)
        elif self._lost is None:
            self._notices.connected(self.broker)

    # --------------------------------------------------------------------------------------------- publishing

    @property
    def next_seq(self) -> int:
        """The number that the next publication will have."""
        return self._machine.next_seq if self._lost is None else self._past.next_seq

    @property
    def numbers_known(self) -> bool:
        """Whether `next_seq` of a new session counts what was published under its name before.

        A broker that has crashed knows up to where numbers were reserved: then some of them were never used.
        """
        return self._machine.numbers_known

    async def publish(
        self,
        topic: str,
        payload: bytes,
        guarantee: str = "causal",
        keys: Iterable[str] = (),
        attributes: Mapping[str, Value] | None = None,
        *,
        durable: bool | str | None = None,
    ) -> Receipt:
        """Publish a message; returns at once unless too much is under way, with the receipt to ask about it.

        `guarantee` is `eventual`, `fifo`, `causal` (the default) or `total`. `keys` say what a `total` message is in
        one order with; without any it is in one order with the topic's other `total` messages that have none.
        `attributes` are what subscribers filter on. A publish that is cancelled while it waits did not happen.

        `durable` messages, and no others, are stored by repositories: `await receipt.stored()`. `True` finds the stream
        that covers the topic, a string names it, and `None` is `True` on topics that `connect(reliable=...)` names.
        """
        self._home.check()
        rank, size = None, 0
        try:
            if topic in self._topics and type(payload) is bytes and (size := len(payload)) <= self._payload_bytes_max:
                rank = self._ranks.get(guarantee)
        except TypeError:
            rank = None  # A list, for example, can be looked up nowhere: the checks say what is wrong with it.
        if rank is None or durable or keys or attributes:
            if not (keys or attributes) and (taken := self.durables.publish_nowait(topic, payload, guarantee, durable)):
                return taken
            checked = self.checked(topic, payload, guarantee, keys, attributes)
            check_durable(durable)
            if durable or (durable is None and self.durables.declares(checked[0])):
                return await self.durables.publish_checked(checked, durable)
            return await self.publish_checked(*checked)
        if self._machine.pending_bytes + size > TURN_BYTES or not self._driver.settle_pending:
            await self._begin_turn()
        return Receipt(self, topic, self._machine.publish(topic, payload, rank))

    async def publish_many(
        self,
        topic: str,
        payloads: Iterable[bytes],
        guarantee: str = "causal",
        keys: Iterable[str] = (),
        attributes: Mapping[str, Value] | None = None,
    ) -> Receipt | None:
        """Publish many messages that differ in their payload alone; returns the receipt of the last, if there is one.

        The last one is accepted when all are. If one payload is wrong those before it are published.
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
        return Receipt(self, topic, seq, attributes or {}) if seq else None

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
        """How much the broker has not accepted yet."""
        return self._machine.backlog_bytes + sum(batch.cost_bytes for batch in self._past.waiting)

    def _unaccepted_bytes(self) -> int:
        """What `publish` waits for; while there is no session it waits for that."""
        return self._machine.backlog_bytes if self._lost is None else 0

    async def publish_checked(
        self, topic: str, payload: bytes, rank: int, keys: Keys, attributes: Attributes | None
    ) -> Receipt:
        """Publish what `checked` returned."""
        size = len(payload) + size_bytes(keys, attributes)
        if self._lost or self._machine.pending_bytes + size > TURN_BYTES or not self._driver.settle_pending:
            await self._begin_turn()
        seq = self._machine.publish(topic, payload, rank, keys, attributes)
        return Receipt(self, topic, seq, attributes or {})

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
        backlog_bytes_max = self._settings.backlog_bytes_max
        while True:
            await self._back()
            if self._machine.pending_bytes:
                self._driver.settle_now()
                await sleep(0)
            if self._unaccepted_bytes() > backlog_bytes_max:
                await self._acceptance.wait_for_room(backlog_bytes_max)
            self._check_open()
            if self._lost is None:
                break
        self._driver.settle_soon()

    # ---------------------------------------------------------------------------------------------- receipts

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

    def _on_accepted(self, effect: Accepted) -> None:
        self._acceptance.advanced(effect.seq)
        self._holders.wake()

    async def wait_confirmed(self, topic: str, seq: int, attributes: Attributes, taken: bool) -> bool:
        """Wait until everybody that publication `seq` was promised to has it, or has `taken` it; has it crossed?"""
        self._home.check()
        await self._acceptance.wait_for(self._past.present(seq)) if self._lost else None
        await self._back()
        seq = self._past.present(seq)
        self._check_known(seq)
        crossed = await self._request(lambda now: self._machine.confirm(topic, seq, now, attributes, taken))
        self._acceptance.check_not_refused(seq)
        return crossed

    def _check_known(self, seq: int) -> None:
        """Raise `SessionLost` if publication `seq` was made in a session that was lost since: nobody here knows it."""
        loss = self._past.loss_before(seq)
        if loss is not None:
            raise loss

    def has_crossed(self, seq: int) -> bool:
        """Whether our broker has said that publication `seq` takes no part in the total order of its keys."""
        return seq in self._machine.crossed

    def _hurry(self, seq: int | None) -> None:
        """Nobody acknowledges every message: a broker that is not asked takes its time."""
        self._machine.hurry(self._machine.next_seq - 1 if seq is None else seq)
        self._driver.settle_soon()

    async def flush(self) -> None:
        """Wait until everything published so far is accepted.

        Raises `Refused` if the broker declined some of it and no earlier flush said so.
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

    # ------------------------------------------------------------------------------------------- subscribing

    def subscribe(
        self,
        pattern: str,
        where: str = "",
        *,
        durable: str = "",
        start: Start | None = None,
        **acks: Unpack[AckOptions],
    ) -> Opening[Subscription]:
        """Subscribe to a topic pattern, with a filter on attributes if wanted; await it, or use it with `async with`.

        It returns when the subscription is confirmed by every broker concerned: whatever is published after that, by
        anyone who knows of it, arrives.

        A `durable` subscription has a name, and goes on where the last one of that name was: see `DurableSubscription`.
        A new one begins at the `start` of what is stored, `live`, at a sequence number, or at a time.
        With `ack="manual"` the application acknowledges each one (`redeliver`, `unacked_max`): `ManualSubscription`.
        """
        pattern, where, wanted = checked_interest(pattern, where)
        name = "" if durable == "" else subscription_name("subscribe", "durable", durable)
        settings = checked_ack(name, acks)
        if name:
            begins = begin_of("start" if start is None else start)
            return Opening(lambda: self.durables.subscribe(name, pattern, where, begins, settings))
        if start is not None:
            raise LocalMisuse(
                f"subscribe(start={start!r}): only a durable subscription has a start: write durable=NAME, too. "
                "Nothing was begun."
            )
        return Opening(lambda: self.subscribe_as(Subscription(self, pattern, where, wanted)))

    async def forget_subscription(self, name: str, pattern: str) -> None:
        """End the durable subscription of that name to that pattern for good: nothing is kept for it any more.

        Whoever subscribes under the name later begins anew; a name that is not known is no error.
        """
        name = subscription_name("forget_subscription", "name", name)
        await self.durables.forget(name, plain(check_pattern(pattern)))

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

    def _subscribing(self, subscription: Subscription) -> Command:
        pattern, where, spills = subscription.pattern, subscription.where, subscription.spills
        return lambda now: self._machine.subscribe(pattern, where, now, spills)

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

    def _withdraw(self, subscription: Subscription) -> asyncio.Future[bool] | None:
        if subscription.ended or subscription not in self._deliveries:
            return None
        self._forget(subscription)
        pattern, where = subscription.pattern, subscription.where
        if self._lost is not None and self._end is None:
            return None
        return self._request(lambda now: self._machine.unsubscribe(pattern, where, now))

    def _forget(self, subscription: Subscription) -> None:
        if subscription in self._deliveries:
            self._deliveries.remove(subscription)
            subscription.end(None)

    def _read(self, batch: Batch) -> None:
        if self._machine.taken(batch) and self._end is None:
            self._driver.settle_soon()

    def _consumed(self, batch: Batch) -> None:
        if self._end is None:
            self._machine.consumed(batch)
            self._driver.settle_soon()

    # ---------------------------------------------------------------------------------------------- requests

    def _request(self, command: Command) -> asyncio.Future[bool]:
        """Give the machine a command; the future ends with its answer."""
        self._check_open()
        if self._lost is not None:
            raise self._lost
        return self._command(command)

    def _command(self, command: Command) -> asyncio.Future[bool]:
        token, effects = command(monotonic())
        future = self._requests.add(token)
        self._driver.carry_out(effects)
        self._driver.settle_soon()
        return future

    def _on_failed(self, effect: Failed) -> None:
        self._requests.failed(effect.token, Refused(effect.reason))
        if effect.last:
            self._acceptance.refused(effect.first, effect.last, effect.reason)
            self._log.warning("publications refused", first=effect.first, last=effect.last, reason=effect.reason)

    # ----------------------------------------------------------------------------------------------- the end

    def _on_ended(self, effect: Ended) -> None:
        if effect.clean and not in_doubt(self._machine):
            self._finish(closed(self._machine))
        elif not self._attachment.done() or self._attachment.exception() is not None:
            self._not_let_in(refused(self._machine, shown(self._book.current), effect.reason))
        else:
            how = f"lost its session at {self.broker}: {effect.reason}"
            if self._lost is not None:
                self._not_let_in(lost(self._machine, how))
            elif self._renew is None or self._closing or self._machine.taken_by:
                self._finish(lost(self._machine, how))
            else:
                self._lose(lost_for_now(self._machine, how), self._renew)

    def _not_let_in(self, end: HoldfastError) -> None:
        """The session ended before it was of use: of one that was to follow another, another attempt is made."""
        if self._lost is None:
            self._finish(end)
        else:
            fail(self._attachment, end)
            self._requests.finish(end)

    # ------------------------------------------------------------------------------------------- coming back

    def _lose(self, end: SessionLost, renew: Renewal) -> None:
        """The session is lost, and there will be another one: see `client.past_sessions` for what becomes of what."""
        machine = self._machine
        self._lost, self._ranks = end, {}
        self._past.lose(machine.accepted_seq, machine.next_seq, machine.never_sent(), end)
        self._acceptance.suspend()
        self._requests.finish(end)
        self._holders.wake()
        self._notices.disconnected(str(end))
        self._deliveries.detach()
        self._deliveries.miss(str(end))
        loop = asyncio.get_running_loop()
        self._back_again = loop.create_future()
        self._coming_back = loop.create_task(self._come_back(end, renew))

    async def _come_back(self, end: SessionLost, renew: Renewal) -> None:
        """Try to begin another session, less and less often, until that succeeds or time is up."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + self._settings.reconnect_s
        backoff, later = Backoff(self._chance), ""
        while True:
            await self._shut_session()
            await sleep(backoff.next_s())
            try:
                async with asyncio.timeout(self._settings.timeout_s):
                    self._make_session(*renew(later))
                    await self._attach()
                    await self._subscribe_again()
            except Outdated as outdated:
                later = outdated.later
            except (HoldfastError, TimeoutError) as error:
                if loop.time() >= give_up_at:
                    reason = str(error) or f"no broker let it in within {self._settings.timeout_s:g} s"
                    within = f"{self._settings.reconnect_s:g} s"
                    self._finish(type(end)(f"{end}; it could not come back within {within}: {reason}"))
                    return
                self._log.info("cannot come back yet", reason=str(error))
            except Exception as error:  # noqa: BLE001
                self._finish(type(end)(f"{end}; coming back broke down, a defect of Holdfast: {error!r}"))
                return
            else:
                self._go_on()
                return

    async def _recall_after_loss(self) -> None:
        """Go on with the number of what waits. If that is not free, go on behind all that were given.

        Numbers that were given and not used are not given again: a receipt would not know which publication it means.
        """
        machine, past = self._machine, self._past
        first = past.first_waiting
        await self._command(lambda now: machine.recall(now, first - 1))
        while first < machine.next_seq < past.next_seq:
            last = past.next_seq - 1
            await self._command(lambda now: machine.recall(now, last))  # noqa: B023 - asked at once

    async def _subscribe_again(self) -> None:
        again = [one for one in self._deliveries if not one.awaits_confirmation]
        for request in [self._command(self._subscribing(one)) for one in again]:
            await request
        for one in again:
            if one not in self._deliveries:
                pattern, where = one.pattern, one.where
                self._command(lambda now, p=pattern, w=where: self._machine.unsubscribe(p, w, now))  # type: ignore[misc]

    def _go_on(self) -> None:
        """There is a session again: what has never left goes first, then whatever waited for it."""
        waiting = self._past.begin(self._machine.next_seq)
        self._lost, self._ranks = None, self._given
        for batch in waiting:
            self._machine.publish_batch(batch)
        self._acceptance.resume()
        self._driver.settle_soon()
        self._log.info("back", broker=self.broker, carried_over=sum(batch.count for batch in waiting))
        self._notices.connected(self.broker)
        if not self._back_again.done():
            self._back_again.set_result(None)

    async def _back(self) -> None:
        """Wait while there is no session; raises why there will be none."""
        while self._lost is not None and self._end is None and not self._closing:
            await asyncio.shield(self._back_again)
        self._check_open()

    def _on_driver_failed(self, failed: "asyncio.Future[None]") -> None:
        error = failed.exception()
        if error is not None:
            self._finish(lost(self._machine, f"broke down, which is a defect of Holdfast: {error!r}"))

    def _finish(self, end: HoldfastError) -> None:
        """Nothing more will happen: whoever waits for something learns it."""
        if self._end is not None:
            return
        self._end = end
        self._ranks = {}
        self._notices.disconnected(str(end))
        fail(self._attachment, end)
        self._requests.finish(end)
        self._acceptance.finish(end)
        self._holders.wake()
        self.durables.finish(end)
        self._deliveries.finish(end)
        for over in (self._goodbye, self._back_again):
            if not over.done():
                over.set_result(None)

    def _check_open(self) -> None:
        if self._end is not None:
            raise self._end
        if self._closing:
            raise closed(self._machine)

    async def wait_ended(self) -> None:
        await asyncio.shield(self._goodbye)

    async def close(self) -> None:
        """Flush what was published, unsubscribe, say goodbye. Closing again does nothing.

        Raises `SessionLost` if it is not known that the broker has everything, and that what was published durably is
        stored; `Refused` as `flush` does.
        """
        if self._closing:
            return
        self._home.check()
        unstored: HoldfastError | None = None
        if self._lost is not None:
            await self._stop_coming_back(self._lost)
        if self._end is None:
            unstored = await self.durables.close(self._settings.timeout_s)
            for subscription in self._deliveries:
                self._withdraw(subscription)
            self._driver.enter(self._machine.stop)
            self._closing = True
            await asyncio.wait({self._goodbye}, timeout=self._settings.timeout_s)
            if self._end is None:
                self._finish(
                    lost(self._machine, f"got no answer from {self.broker} within {self._settings.timeout_s:g} s")
                )
        self._closing = True
        await self._shut()
        if in_doubt(self._machine) or (self._past.waiting and self._end is not None):
            raise self._end or closed(self._machine)
        self._acceptance.check_nothing_in_doubt()
        self._acceptance.check_nothing_refused()
        if unstored is not None:
            raise unstored

    async def _stop_coming_back(self, lost: SessionLost) -> None:
        """The application closes a client that has no session."""
        if self._coming_back is not None:
            self._coming_back.cancel()
            await asyncio.wait({self._coming_back})
        if self._lost is not None:
            unsent = sum(batch.count for batch in self._past.waiting)
            never = f"; its last {unsent} publications have never left and did not happen" if unsent else ""
            self._finish(type(lost)(f"{lost}; it was closed before it was back{never}"))

    async def _shut(self, linger: bool = True) -> None:
        self._finish(closed(self._machine))
        await self._shut_session(linger)

    async def _shut_session(self, linger: bool = False) -> None:
        await self._driver.close(linger)
        if self._trace is not None:
            self._trace.close()
