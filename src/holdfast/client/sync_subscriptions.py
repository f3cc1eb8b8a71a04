"""Subscriptions of a client without asyncio: threads iterate over them, and share what arrives."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, ClassVar, Protocol, Self, TypeVar, cast

from holdfast.client.arguments import patience
from holdfast.client.durable import DurableSubscription
from holdfast.client.errors import ClientClosed
from holdfast.client.internals import PublicMembers
from holdfast.client.manual import HandedMessage, ManualSubscription, SyncManualMessage
from holdfast.client.subscriptions import Subscription, nothing_came
from holdfast.model.batches import Message
from holdfast.model.errors import HoldfastError

FILL_BYTES = 1 << 18
"""How much an iteration fetches from the loop's thread at a time, if that much has arrived."""

T = TypeVar("T")


class Caller(Protocol):
    """What a subscription asks of the client that made it."""

    @property
    def is_closed(self) -> bool: ...

    def call(self, begin: Callable[[], Coroutine[Any, Any, T]], timeout_s: float | None = None) -> T:
        """Run a coroutine on the loop's thread, and wait for it."""
        ...


class SyncSubscription(metaclass=PublicMembers):
    """The blocking counterpart of `Subscription`: iterate with `for`. Threads that share one share its messages."""

    _internal: ClassVar[tuple[str, ...]] = ("__init__",)

    def __init__(self, client: Caller, subscription: Subscription) -> None:
        self._client, self._subscription = client, subscription
        self._ready: deque[Message] = deque()
        self._filling: asyncio.Future[bool] | None = None
        self._waiting = 0
        """How many threads wait for messages."""
        self._told: HoldfastError | None = None
        """The last error that one of them was told."""

    @property
    def pattern(self) -> str:
        return self._subscription.pattern

    @property
    def where(self) -> str:
        return self._subscription.where

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        while True:
            try:
                return self._ready.popleft()
            except IndexError:
                pass  # What follows is no part of handling this.
            if not self._client.call(self._fill):
                raise StopIteration

    def get(self, timeout_s: float | None = None) -> Message:
        """The next message. Raises `TimeoutError` if none comes in time; the subscription goes on."""
        timeout_s = patience("get", timeout_s)
        while True:
            try:
                return self._ready.popleft()
            except IndexError:
                pass  # What follows is no part of handling this.
            try:
                more = self._client.call(self._fill, timeout_s)
            except TimeoutError:
                raise nothing_came(self.pattern, timeout_s) from None
            if not more:
                raise ClientClosed(f"the subscription to {self.pattern!r} has ended: subscribe again")

    async def _fill(self) -> bool:
        """Wait until messages are ready, or there will be none; threads that wait together are woken together.

        One of them takes for all: else one thread would have a whole batch, and the others would wait for the next.
        """
        if self._ready:
            return True
        if self._filling is None or self._filling.done():
            self._filling = asyncio.ensure_future(self._take())
        filling = self._filling
        self._waiting += 1
        try:
            return await asyncio.shield(filling)
        except HoldfastError as error:
            if error is self._told:
                return True  # One thread was told of that gap, and the others read on.
            self._told = error
            raise
        finally:
            self._waiting -= 1
            if not self._waiting and not filling.done():
                filling.cancel()
                self._filling = None

    async def _take(self) -> bool:
        # What is taken is put where every thread finds it, never into an answer that an interrupted one throws away.
        return await self._subscription.take_into(self._ready, FILL_BYTES)

    def unsubscribe(self) -> None:
        """End the subscription; returns when every broker concerned knows. Doing it again does nothing."""
        if not self._client.is_closed:
            self._client.call(self._unsubscribe)

    async def _unsubscribe(self) -> None:
        await self._subscription.unsubscribe()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.unsubscribe()

    def __repr__(self) -> str:
        return f"Sync{self._subscription!r}"


class SyncDurableSubscription(SyncSubscription):
    """The blocking counterpart of `DurableSubscription`: it continues where the last one under its name stopped."""

    _internal: ClassVar[tuple[str, ...]] = ("give_back",)

    def __init__(self, client: Caller, subscription: DurableSubscription) -> None:
        super().__init__(client, subscription)
        self._durable = subscription
        left = subscription.unread
        subscription.unread = lambda: len(self._ready) + left()

    @property
    def name(self) -> str:
        return self._durable.name

    @property
    def repository(self) -> str:
        return self._durable.repository

    @property
    def position(self) -> int:
        """The sequence number, at `repository`, of the message that was fetched last."""
        return self._durable.position

    async def _take(self) -> bool:
        # One batch at a time: what lies here is not the application's yet.
        return await self._subscription.take_into(self._ready, 0)

    def give_back(self) -> None:
        """On the loop's thread, before the end: what nobody has read is read by whoever comes back."""
        unread = list(self._ready)
        self._ready.clear()
        self._durable.give_back(unread)

    async def _unsubscribe(self) -> None:
        self.give_back()
        await super()._unsubscribe()


class SyncManualSubscription(SyncDurableSubscription):
    """The blocking counterpart of `ManualSubscription`: `message.ack()` returns when a repository has stored that."""

    _internal: ClassVar[tuple[str, ...]] = ("ack", "nack")

    def __init__(self, client: Caller, subscription: ManualSubscription) -> None:
        super().__init__(client, subscription)
        self._manual = subscription
        subscription.replies, subscription.message_kind = self, SyncManualMessage

    @property
    def unacknowledged(self) -> int:
        return self._manual.unacknowledged

    def __iter__(self) -> Iterator[SyncManualMessage]:
        return self

    def __next__(self) -> SyncManualMessage:
        return cast("SyncManualMessage", super().__next__())

    def get(self, timeout_s: float | None = None) -> SyncManualMessage:
        """The next message. Raises `TimeoutError` if none comes in time; the subscription goes on."""
        return cast("SyncManualMessage", super().get(timeout_s))

    def ack(self, message: HandedMessage, cumulative: bool) -> None:
        async def ack() -> None:
            await self._manual.ack(message, cumulative)

        self._client.call(ack)

    def nack(self, message: HandedMessage, delay_s: float) -> None:
        async def nack() -> None:
            self._manual.nack(message, delay_s)

        self._client.call(nack)

    def give_back(self) -> None:
        """What nobody has read was not acknowledged: it comes to whoever reads next."""
        self._ready.clear()
