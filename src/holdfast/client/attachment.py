"""A client's tie to the brokers: it is let in, makes requests, loses its session, comes back, and ends.

What an application does with it, publishing and subscribing, is in `session.py`.
"""

import asyncio
from asyncio import sleep
from collections.abc import Callable
from random import Random
from ssl import SSLContext
from time import monotonic
from typing import Self

from holdfast.client.acceptance import Acceptance
from holdfast.client.addresses import Address, AddressBook, shown
from holdfast.client.backoff import Backoff
from holdfast.client.deliveries import Deliveries
from holdfast.client.durable import Durables
from holdfast.client.endings import Outdated, closed, in_doubt, lost, lost_for_now, refused
from holdfast.client.errors import ConnectionFailed, SessionLost
from holdfast.client.homes import Home
from holdfast.client.notices import Notices
from holdfast.client.settings import TURN_BYTES, ClientSettings
from holdfast.client.strangers import SILENCE_S, first_words
from holdfast.client.subscriptions import Subscription
from holdfast.client.waiting import Holders, Requests, fail
from holdfast.model.batches import PAYLOAD_BYTES_MAX, Batch
from holdfast.model.errors import HoldfastError, Refused
from holdfast.model.guarantees import GUARANTEES
from holdfast.model.identities import name_of
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
from holdfast.protocols.sesdad import SiteClient
from holdfast.runtime.driver import Driver
from holdfast.runtime.logs import ProcessLog
from holdfast.runtime.places import SAID_NOTHING
from holdfast.runtime.tracing import Trace

Command = Callable[[float], tuple[int, list[Effect]]]
Renewal = Callable[[str], tuple[ClientConfig, int, tuple[Address, ...], Trace | None]]


class Attachment:
    """The machine and the driver of a client's present session, and whoever waits for them."""

    durables: Durables
    _deliveries: Deliveries

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
        """`renew` makes the configuration of the next session when one is lost, later than the identity it is given.

        `sited`: the brokers are those of a site, and the client has sessions with all of them.
        """
        self._sited = sited
        self.name = name_of(config.name)
        self.broker = ""
        self.protocol = ""
        self._settings, self._ssl = settings, ssl
        self._notices = notices or Notices()
        self._renew = renew
        self._chance = Random()
        self._home = Home(f"client {self.name}")
        self._log = ProcessLog("holdfast.client", node=self.name)
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
        kind = SiteClient if self._sited else MovingClient
        self._machine: MovingClient | SiteClient = kind(config, incarnation, self._chance)
        self._machine.turn_bytes = TURN_BYTES
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
                Report: self._note,
                Missing: self._on_missing,
                Unconfirmed: lambda effect: self._requests.unconfirmed(self.name, effect),
            },
            limits=self._settings.limits,
            log=self._log,
            ssl_client=self._ssl,
            on_dial_failed=self._on_dial_failed,
            on_no_broker=self._on_no_broker,
        )
        self._driver.failed.add_done_callback(self._on_driver_failed)

    # ---------------------------------------------------------------------------------------------------------- opening

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
        if self._book.note_stranger(reason, reason != SAID_NOTHING):
            self._nobody_is_there()

    def _nobody_is_there(self) -> None:
        sentence = f"no broker answers {self.name}; tried {self._book.tried()}{self._book.advice()}"
        fail(self._attachment, ConnectionFailed(sentence))

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
        if self._trace is not None:
            self._trace(report)

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

    def _unaccepted_bytes(self) -> int:
        """What `publish` waits for; while there is no session it waits for that."""
        return self._machine.backlog_bytes if self._lost is None else 0

    def _on_accepted(self, effect: Accepted) -> None:
        self._acceptance.advanced(effect.seq)
        self._holders.wake()

    def _hurry(self, seq: int | None) -> None:
        """Nobody acknowledges every message: a broker that is not asked takes its time."""
        self._machine.hurry(self._machine.next_seq - 1 if seq is None else seq)
        self._driver.settle_soon()

    def _on_missing(self, effect: Missing) -> None:
        if effect.only:
            self._deliveries.skip(effect.only, effect.reason)
        else:
            self._deliveries.miss(effect.reason)

    def _subscribing(self, subscription: Subscription) -> Command:
        pattern, where, slowness = subscription.pattern, subscription.where, subscription.slowness
        spills, policy, seconds = subscription.spills, slowness.policy, slowness.seconds
        return lambda now: self._machine.subscribe(pattern, where, now, spills, policy, seconds)

    def _withdraw(self, subscription: Subscription) -> asyncio.Future[bool] | None:
        if subscription.ended or subscription not in self._deliveries:
            return None
        self._forget(subscription)
        return self._unsubscribe(subscription)

    def _unsubscribe(self, subscription: Subscription, too_slow: bool = False) -> asyncio.Future[bool] | None:
        if self._lost is not None and self._end is None:
            return None
        pattern, where = subscription.pattern, subscription.where
        kind = None if subscription.spills else subscription.slowness.policy
        return self._request(lambda now: self._machine.unsubscribe(pattern, where, now, kind, too_slow))

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

    # --------------------------------------------------------------------------------------------------------- requests

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

    def _on_ended(self, effect: Ended) -> None:
        if effect.clean and not in_doubt(self._machine):
            self._finish(closed(self._machine))
        elif not self._attachment.done() or self._attachment.exception() is not None:
            self._not_let_in(refused(self._machine, shown(self._book.current), effect.reason))
        else:
            # Brokers know a client by its name and a tag; applications know the name.
            how = f"lost its session at {self.broker}: {effect.reason.replace(self._machine.name, self.name)}"
            if self._lost is not None:
                self._not_let_in(lost(self._machine, how))
            elif self._renew is None or self._closing or self._machine.taken_by:
                self._finish(lost(self._machine, how, renewable=self._renew is None and not self._closing))
            else:
                self._lose(lost_for_now(self._machine, how, self._past.known), self._renew)

    def _not_let_in(self, end: HoldfastError) -> None:
        """The session ended before it was of use: of one that was to follow another, another attempt is made."""
        if self._lost is None:
            self._finish(end)
        else:
            fail(self._attachment, end)
            self._requests.finish(end)

    # ------------------------------------------------------------------------------------------------------ coming back

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

    # ---------------------------------------------------------------------------------------------------------- the end

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
        """Flush the publications, unsubscribe, say goodbye. Closing again does nothing.

        In a cluster with a tolerance the client takes its copies along, so it waits until its publications are `held`,
        for `timeout_s` (10 s) at most: that long if one of them is `total` and waits for a majority of the brokers, or
        comes behind such a message. Its broker has them then, and no error is raised.

        Raises `SessionLost` if it is not certain that the broker has every publication and that every durable one is
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
