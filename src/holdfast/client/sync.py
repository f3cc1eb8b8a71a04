"""The client without asyncio: the same calls, blocking, from any thread.

A thread of its own runs the event loop. Publications go to it through an outbox, in the order in which they were made,
many at a time under load; everything else is a call that waits for its answer. Ctrl-C interrupts whatever waits, and
what was interrupted has taken nothing: messages that were on their way to an iteration are there for the next one.
"""

import asyncio
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from ssl import SSLContext
from types import TracebackType
from typing import Any, ClassVar, Literal, Self, TypeVar, Unpack, overload

from holdfast.client import at_exit
from holdfast.client.arguments import patience
from holdfast.client.callback_thread import CallbackThread
from holdfast.client.checks import checked_durable, checked_payloads, size_bytes
from holdfast.client.connecting import connect
from holdfast.client.durable import DurableSubscription, Start
from holdfast.client.errors import ClientClosed
from holdfast.client.homes import Home
from holdfast.client.internals import PublicMembers
from holdfast.client.manual import (
    UNACKED_USUALLY,
    AckOptions,
    ManualSubscription,
)
from holdfast.client.notices import OnConnected, OnDisconnected, OnGap
from holdfast.client.opening import Opening
from holdfast.client.receipts import Level
from holdfast.client.session import Client
from holdfast.client.sync_receipts import SyncDurableReceipt, SyncReceipt
from holdfast.client.sync_subscriptions import SyncDurableSubscription, SyncManualSubscription, SyncSubscription
from holdfast.model.batches import Attributes, Keys
from holdfast.model.errors import HoldfastError
from holdfast.model.filters import Value
from holdfast.model.guarantees import Guarantee, GuaranteeName
from holdfast.model.slow_messages import Slow
from holdfast.protocols.config import LinkConfig
from holdfast.runtime.logs import ProcessLog
from holdfast.runtime.process import new_event_loop
from holdfast.runtime.tracing import RUN, TraceTarget

MESSAGE_BYTES = 32
"""What a message counts for beside its payload."""
OUTBOX_BYTES_MAX = 1 << 20
"""`publish` waits while this much lies in the outbox."""

T = TypeVar("T")
C = TypeVar("C", bound=AbstractAsyncContextManager[Any])
_Publication = tuple[str, bytes, int, Keys, Attributes | None]
_Outgoing = tuple[_Publication, str, SyncReceipt]
"""A publication, its stream if it is durable, and its receipt."""


class SyncClient(metaclass=PublicMembers):
    """A session with a broker, without asyncio. Made by `holdfast.connect_sync`."""

    _internal: ClassVar[tuple[str, ...]] = (
        *("__init__", "call", "after_outbox", "close_at_exit", "is_closed"),
        *("level_of", "wait_accepted", "wait_held", "wait_confirmed", "has_crossed"),
    )

    def __init__(
        self, opening: Opening[Client], comes_back: bool = False, caller: CallbackThread | None = None
    ) -> None:
        self._caller = caller
        opening.called = ""  # From here on it is awaited, unless Ctrl-C comes first.
        self._home = Home("this client")
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name="holdfast", daemon=True)
        self._closed = False
        self._lock = threading.Condition()
        self._outbox: list[_Outgoing] = []
        self._outbox_bytes = 0
        self._pump_awake = False
        self._thread.start()
        try:
            self._client: Client = self.call(lambda: _opened(opening))
        except BaseException:
            self._end_thread()
            raise
        self.name: str = self._client.name
        self._first_seq: int = self._client.next_seq
        self._taken = self._pumped = 0
        """How many publications went into the outbox, and how many have left it."""
        self._shared = comes_back
        """Whether something else than the outbox may take numbers of the session, or the session may be followed by
        another one: then they are not known before."""
        self._durables: list[SyncDurableSubscription] = []
        self._streams: dict[str, str] = {}
        self._pump_waiters: list[tuple[int, asyncio.Future[None]]] = []
        at_exit.remember(self)

    def __repr__(self) -> str:
        return f"Sync{self._client!r}"

    @property
    def broker(self) -> str:
        return self._client.broker

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called, of this client of this process."""
        return self._closed and self._home.is_of_this_process

    @property
    def next_seq(self) -> int:
        """The number that the next publication will have: a new session goes on after what was published before."""
        with self._lock:
            return self._client.next_seq if self._shared else self._first_seq + self._taken

    @property
    def numbers_known(self) -> bool:
        """See `Client.numbers_known`."""
        return self._client.numbers_known

    # ------------------------------------------------------------------------------------------------ calls

    @overload
    def publish(
        self,
        topic: str,
        payload: bytes,
        guarantee: GuaranteeName | Guarantee = "causal",
        keys: Iterable[str] = (),
        attributes: Mapping[str, Value] | None = None,
        *,
        durable: Literal[True] | str,
    ) -> SyncDurableReceipt: ...

    @overload
    def publish(
        self,
        topic: str,
        payload: bytes,
        guarantee: GuaranteeName | Guarantee = "causal",
        keys: Iterable[str] = (),
        attributes: Mapping[str, Value] | None = None,
        *,
        durable: bool | str | None = None,
    ) -> SyncReceipt: ...

    def publish(
        self,
        topic: str,
        payload: bytes,
        guarantee: GuaranteeName | Guarantee = "causal",
        keys: Iterable[str] = (),
        attributes: Mapping[str, Value] | None = None,
        *,
        durable: bool | str | None = None,
    ) -> SyncReceipt:
        """Publish a message; see `Client.publish`. The first durable message of a topic looks for its repositories."""
        self._home.check_process()
        publication = self._client.checked(topic, payload, guarantee, keys, attributes)
        durable = checked_durable(durable)
        if durable is None:
            durable = self._client.durables.declares(publication[0])
        stream = self._stream_of(publication[0], durable) if durable else ""
        cost = len(publication[1]) + MESSAGE_BYTES + size_bytes(publication[3], publication[4])
        with self._lock:
            while self._outbox_bytes >= OUTBOX_BYTES_MAX and not self._closed:
                self._lock.wait()
            self._check_open()
            receipt = self._receipt(publication[0], stream, publication[4] or {})
            self._outbox.append((publication, stream, receipt))
            self._outbox_bytes += cost
            wake, self._pump_awake = not self._pump_awake, True
        if wake:
            self._loop.call_soon_threadsafe(self._start_pump)
        return receipt

    def _receipt(self, topic: str, stream: str, attributes: Attributes) -> SyncReceipt:
        self._taken += 1
        if stream:
            return SyncDurableReceipt(self, topic, 0)
        return SyncReceipt(self, topic, 0 if self._shared else self._first_seq + self._taken - 1, attributes)

    def _stream_of(self, topic: str, durable: bool | str) -> str:
        self._share()
        if isinstance(durable, str):
            return durable
        known = self._streams.get(topic)
        if known is None:
            known = self._streams[topic] = self.after_outbox(lambda: self._client.durables.stream_of(topic))
        return known

    def _share(self) -> None:
        """Numbers are no longer known before; those that were given so are used before anything else takes one."""
        with self._lock:
            self._shared = True

    def publish_many(
        self,
        topic: str,
        payloads: Iterable[bytes],
        guarantee: GuaranteeName | Guarantee = "causal",
        keys: Iterable[str] = (),
        attributes: Mapping[str, Value] | None = None,
    ) -> SyncReceipt | None:
        """Publish many messages that differ in their payload alone; returns the receipt of the last."""
        receipt = None
        checked_payloads(payloads)
        for payload in payloads:
            receipt = self.publish(topic, payload, guarantee, keys, attributes)
        return receipt

    @overload
    def subscribe(
        self,
        pattern: str,
        where: str = "",
        *,
        slow: Slow | None = None,
        slow_s: float | None = None,
        slow_bytes: int | None = None,
    ) -> SyncSubscription: ...

    @overload
    def subscribe(
        self,
        pattern: str,
        where: str = "",
        *,
        durable: str,
        start: Start | None = None,
        ack: Literal["auto"] = "auto",
    ) -> SyncDurableSubscription: ...

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
    ) -> SyncManualSubscription: ...

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
    ) -> SyncSubscription:
        """Subscribe, and return when every broker concerned has confirmed; see `Client.subscribe`."""
        opening = self._client.opening_of(pattern, where, durable, start, (slow, slow_s, slow_bytes), acks)
        if not durable:
            return SyncSubscription(self, self.call(lambda: _opened(opening)))
        self._share()
        opened = self.after_outbox(lambda: _opened(opening))
        subscription: SyncDurableSubscription
        if isinstance(opened, ManualSubscription):
            subscription = SyncManualSubscription(self, opened)
        else:
            assert isinstance(opened, DurableSubscription), "a subscription with a name is durable"
            subscription = SyncDurableSubscription(self, opened)
        self._durables.append(subscription)
        return subscription

    def forget_subscription(self, name: str, pattern: str) -> None:
        """End a durable subscription for good; see `Client.forget_subscription`."""
        self._share()
        self.after_outbox(lambda: self._client.forget_subscription(name, pattern))

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until everything published so far is accepted; see `Client.flush`."""
        limit_s = patience("flush", timeout_s)
        try:
            self.after_outbox(self._client.flush, limit_s)
        except TimeoutError:
            if limit_s is None:
                raise
            raise TimeoutError(
                f"the broker has not accepted everything that was published within {limit_s:g} s; flush again later"
            ) from None

    def level_of(self, seq: int) -> Level:
        return self._client.level_of(seq)

    async def wait_accepted(self, seq: int) -> None:
        await self._client.wait_accepted(seq)

    async def wait_held(self, seq: int) -> None:
        await self._client.wait_held(seq)

    async def wait_confirmed(self, topic: str, seq: int, attributes: Attributes, taken: bool) -> bool:
        return await self._client.wait_confirmed(topic, seq, attributes, taken)

    def has_crossed(self, seq: int) -> bool:
        return self._client.has_crossed(seq)

    def after_outbox(self, begin: Callable[[], Coroutine[Any, Any, T]], timeout_s: float | None = None) -> T:
        """Run a coroutine on the loop's thread when everything that was published before has left, and wait for it."""
        return self.call(lambda: self._after_outbox(begin), timeout_s)

    def call(self, begin: Callable[[], Coroutine[Any, Any, T]], timeout_s: float | None = None) -> T:
        """Run a coroutine on the loop's thread and wait for it; an interruption or a timeout cancels it."""
        self._check_open()
        if threading.current_thread() is self._thread:
            raise ClientClosed("a blocking call was made on the client's own thread, where nobody could answer it")
        answer = asyncio.run_coroutine_threadsafe(begin(), self._loop)
        try:
            return answer.result(timeout_s)
        except BaseException:
            answer.cancel()
            raise

    def _check_open(self) -> None:
        self._home.check_process()
        if self._closed:
            raise ClientClosed("this client is closed: connect again")

    # ------------------------------------------------------------------------------------- on the loop's thread

    def _start_pump(self) -> None:
        self._pump_task = self._loop.create_task(self._pump())

    async def _pump(self) -> None:
        """Publish what is in the outbox, until it is empty."""
        while True:
            with self._lock:
                outbox, self._outbox = self._outbox, []
                self._outbox_bytes = 0
                self._pump_awake = bool(outbox)
                self._lock.notify_all()
            if not outbox:
                return
            for publication, stream, receipt in outbox:
                await self._publish(publication, stream, receipt)
            self._pumped += len(outbox)
            self._tell_pump_waiters()

    async def _publish(self, publication: _Publication, stream: str, receipt: SyncReceipt) -> None:
        try:
            if isinstance(receipt, SyncDurableReceipt):
                receipt.made = await self._client.durables.publish_checked(publication, stream)
            else:
                receipt.seq = (await self._client.publish_checked(*publication)).seq
        except HoldfastError as error:
            receipt.error = error

    def _tell_pump_waiters(self) -> None:
        still_waiting = []
        for count, waiter in self._pump_waiters:
            if count > self._pumped:
                still_waiting.append((count, waiter))
            elif not waiter.done():
                waiter.set_result(None)
        self._pump_waiters = still_waiting

    async def _after_outbox(self, begin: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What was published before this call comes before it."""
        with self._lock:
            target = self._taken
        if target > self._pumped:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._pump_waiters.append((target, waiter))
            await waiter
        return await begin()

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    # ----------------------------------------------------------------------------------------------- the end

    def close(self) -> None:
        """Flush, unsubscribe, say goodbye; see `Client.close`. Closing again does nothing."""
        if self._closed:
            return
        self._home.check_process()
        self._close_within(None)

    def close_at_exit(self) -> None:
        """The program ends, and nobody has closed this client: what it has published leaves first."""
        if not self._home.is_of_this_process:
            return
        warnings.warn(
            f"client {self.name} was never closed, and is closed now that the program ends; use `with`, or close()",
            ResourceWarning,
            stacklevel=2,
        )
        try:
            self._close_within(at_exit.CLOSE_S)
        except (HoldfastError, TimeoutError) as error:
            reason = str(error) or f"it could not be closed within {at_exit.CLOSE_S:g} s"
            ProcessLog("holdfast.client", node=self.name).warning(
                "the program ended with a client that was open", reason=reason
            )

    def _close_within(self, limit_s: float | None) -> None:
        try:
            self.after_outbox(self._close, limit_s)
        finally:
            self._end_thread()

    async def _close(self) -> None:
        for subscription in self._durables:
            subscription.give_back()
        await self._client.close()

    def _end_thread(self) -> None:
        at_exit.forget(self)
        with self._lock:
            self._closed = True
            self._lock.notify_all()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        if self._caller is not None:
            self._caller.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _suppressed_after(error):
            self.close()


@contextmanager
def _suppressed_after(error: BaseException | None) -> Iterator[None]:
    """The error on its way out is the one to see, not what closing says after it."""
    try:
        yield
    except HoldfastError:
        if error is None:
            raise


async def _opened(opening: Opening[C]) -> C:
    return await opening


def connect_sync(
    address: str | Iterable[str],
    *,
    name: str | None = None,
    cluster: str = "holdfast",
    trace: TraceTarget | None = None,
    run: str = RUN,
    timeout_s: float = 10.0,
    give_up_s: float = 30.0,
    backlog_bytes_max: int = 4 << 20,
    link: LinkConfig | None = None,
    patient: bool = True,
    reliable: str | Iterable[str] = (),
    ssl: SSLContext | None = None,
    reconnect: bool | float = False,
    on_connected: OnConnected | None = None,
    on_disconnected: OnDisconnected | None = None,
    on_gap: OnGap | None = None,
) -> SyncClient:
    """Connect without asyncio: `with holdfast.connect_sync("holdfast://127.0.0.1:7400") as client`.

    Takes what `connect` takes. The client may be used from several threads; iterating over a subscription blocks.
    Callbacks (`on_connected`, `on_disconnected`, `on_gap`) are called one after the other in a thread of their own, and
    may use the client.
    """
    told: dict[str, Any] = {"on_connected": on_connected, "on_disconnected": on_disconnected, "on_gap": on_gap}
    wanted = {one: callback for one, callback in told.items() if callable(callback)}
    caller = CallbackThread() if wanted else None
    if caller is not None:
        told |= {one: caller.calling(callback) for one, callback in wanted.items()}
    try:
        opening = connect(
            address,
            name=name,
            cluster=cluster,
            trace=trace,
            run=run,
            timeout_s=timeout_s,
            give_up_s=give_up_s,
            backlog_bytes_max=backlog_bytes_max,
            link=link,
            patient=patient,
            reliable=reliable,
            ssl=ssl,
            reconnect=reconnect,
            **told,
        )
        return SyncClient(opening, bool(reconnect), caller)
    except BaseException:
        if caller is not None:
            caller.close()
        raise
