"""Durable subscriptions whose application acknowledges each message.

```python
orders = await client.subscribe("bank/#", durable="billing", ack="manual")
async for message in orders:
    try:
        await bill(message)
    except Unavailable:
        message.nack(delay_s=5)      # it comes again, message.delivery_count says how often
    else:
        await message.ack()          # returns when a repository has stored that
```

The machine is `protocols/narada/manual_subscriber.py`; here it gets a session, and acknowledgements get futures.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Generator
from time import monotonic
from typing import Any, ClassVar, Literal, NoReturn, Protocol, TypedDict, cast

from msgspec import Struct

from holdfast.client.arguments import is_count, is_time
from holdfast.client.durable import LOOK_S, AckSettings, DurableSubscription
from holdfast.client.durable_publishers import DurableClient, Handlers
from holdfast.client.errors import ClientClosed
from holdfast.client.subscriptions import TURN_BYTES, Subscription
from holdfast.client.waiting import fail
from holdfast.model.batches import Message
from holdfast.model.errors import HoldfastError, LocalMisuse
from holdfast.model.reliable import Entry
from holdfast.protocols.narada import ManualSubscriber, SubscriberConfig
from holdfast.protocols.narada import participant as effects
from holdfast.protocols.narada.handouts import Handout, Identity
from holdfast.runtime.logs import ProcessLog

LIST_MAX = 256
"""Messages in one list of `batches`."""
CLOSE_S = 5.0
"""So long the end of a subscription waits for acknowledgements to be stored."""


DELAY_S_MAX = 7 * 86_400.0
UNACKED_MAX = 2048
UNACKED_USUALLY = 1000
"""So many messages are handed out and not acknowledged at a time, if nothing else is said."""


class Handed(Struct, frozen=True):
    """Which message was handed out, and for which time."""

    identity: Identity
    count: int


class Replies(Protocol):
    """Where a message's answer goes."""

    def ack(self, message: "HandedMessage", cumulative: bool) -> Any: ...

    def nack(self, message: "HandedMessage", delay_s: float) -> None: ...


class HandedMessage(Message, frozen=True, gc=True, eq=False, kw_only=True):
    """A message that its application answers."""

    handed: Handed
    replies: Replies

    @property
    def delivery_count(self) -> int:
        """How often it was handed out, as far as is known, to earlier readers under this name as well."""
        return self.handed.count

    def nack(self, delay_s: float = 0.0) -> None:
        """Give the message back: it comes again, not before that time; later messages of its publisher wait for it.

        Messages that were handed out after it, of its publisher (or of its keys, with `redeliver="key"`), come again
        behind it, unless they are acknowledged before that.
        """
        if not is_time(delay_s, DELAY_S_MAX):
            raise LocalMisuse(f"delay_s is from 0 to {DELAY_S_MAX:g} seconds, not {delay_s!r}. Nothing was given back.")
        self.replies.nack(self, delay_s)


class ManualMessage(HandedMessage, frozen=True, gc=True, eq=False, kw_only=True):
    """A message that its application acknowledges (`ack`), or gives back (`nack`)."""

    def ack(self, *, cumulative: bool = False) -> "Acknowledgement":
        """Acknowledge the message: it does not come again. Awaited, the call returns when a repository has stored that.

        The acknowledgement counts whether it is awaited or not. With `cumulative` it is for every message that was
        handed out before this one and was not given back, too.
        """
        acknowledgement: Acknowledgement = self.replies.ack(self, cumulative)
        return acknowledgement


class SyncManualMessage(HandedMessage, frozen=True, gc=True, eq=False, kw_only=True):
    """The same without asyncio."""

    def ack(self, *, cumulative: bool = False) -> None:
        """Acknowledge the message: it does not come again. Returns when a repository has stored that.

        With `cumulative` it is for every message that was handed out before this one and was not given back, too.
        """
        self.replies.ack(self, cumulative)


class Acknowledgement:
    """The result of `message.ack()`. Awaiting it is optional, and returns when a repository has stored it."""

    def __init__(self, stored: "asyncio.Future[None]") -> None:
        self._stored = stored

    def __await__(self) -> Generator[Any, None, None]:
        # Somebody who stops waiting does not take it back.
        return asyncio.shield(self._stored).__await__()

    @property
    def confirmed(self) -> bool:
        return self._stored.done() and not self._stored.cancelled() and self._stored.exception() is None


class ManualSubscription(DurableSubscription):
    """A durable subscription, read like any other one, whose messages are acknowledged by `message.ack()`.

    At most `unacked_max` messages are handed out and not acknowledged; then reading waits. Messages without an
    acknowledgement at the end of the subscription, or of its process, come to the next reader of its name. Any number
    of tasks may read from it, and acknowledge in any order.
    """

    _internal: ClassVar[tuple[str, ...]] = ("ack", "nack")
    _machine: ManualSubscriber

    def __init__(self, client: DurableClient, config: SubscriberConfig, log: ProcessLog) -> None:
        super().__init__(client, config, log)
        self.replies: Replies = self
        self.message_kind: type[HandedMessage] = ManualMessage
        self._stored: dict[int, asyncio.Future[None]] = {}
        """By ticket, who waits for an acknowledgement to be stored."""
        self._acks: dict[Identity, asyncio.Future[None]] = {}
        self._idle: asyncio.Future[None] | None = None

    def _make(self, config: SubscriberConfig) -> ManualSubscriber:
        return ManualSubscriber(config)

    def _handlers(self) -> Handlers:
        own: Handlers = {effects.Ready: lambda _: self._wake(), effects.Acknowledged: self._on_acknowledged}
        return super()._handlers() | own

    @property
    def unacknowledged(self) -> int:
        """Number of messages that were handed out, or wait to come again, and are not acknowledged."""
        return len(self._machine.handouts)

    # --------------------------------------------------------------------------------------------------------- reading

    async def __anext__(self) -> ManualMessage:
        if self._readers:
            await self._give_way()
        while True:
            if self._taken_bytes >= TURN_BYTES or monotonic() - self._turned_at > 2 * LOOK_S:
                # The application computes: what it has answered leaves now.
                self._taken_bytes, self._turned_at = 0, monotonic()
                await asyncio.sleep(0)
            message = self._next()
            if message is not None:
                # The synchronous client, which has another kind, hands them out itself.
                return cast("ManualMessage", message)
            if self.ended:
                if self._end is not None:
                    raise self._end
                raise StopAsyncIteration
            await self._arrival()
            self._turned_at = monotonic()

    async def get(self, timeout_s: float | None = None) -> ManualMessage:
        """The next message. Raises `TimeoutError` if none comes in time; the subscription goes on."""
        return cast("ManualMessage", await super().get(timeout_s))

    async def batches(self) -> AsyncIterator[list[ManualMessage]]:  # type: ignore[override]  # lists are invariant
        """Iterate by lists of messages, as many as there are."""
        async for message in self:
            messages = [message]
            while len(messages) < LIST_MAX and not self._machine.unconsumed.gap_is_next:
                following = self._next()
                if following is None:
                    break
                messages.append(cast("ManualMessage", following))
            yield messages

    async def take_into(self, messages: deque[Message], bytes_max: int) -> bool:  # noqa: ARG002
        """Wait for a message and append it: what was not handed out may have to wait for one that is given back."""
        try:
            messages.append(await self.__anext__())
        except StopAsyncIteration:
            return False
        return True

    def entries(self) -> NoReturn:
        raise LocalMisuse(
            f"the subscription {self.name} acknowledges each message: read it with `async for`, or by `batches()`; "
            "entries have no ack(). Nothing was read."
        )

    def _next(self) -> HandedMessage | None:
        found: list[Handout | effects.StreamGap | None] = []

        def hand_out() -> effects.Effects:
            handout, following = self._machine.hand_out(monotonic())
            found.append(handout)
            return following

        self._enter(hand_out)
        one = found[0] if found else None
        if isinstance(one, effects.StreamGap):
            raise self._gap_of(one)
        return self._message(one.entry, one.count) if one is not None else None

    def _message(self, entry: Entry, count: int) -> HandedMessage:
        [plain] = entry.batch.messages()
        self.position, self.repository = entry.first, str(self._machine.status()["steering"]) or self.repository
        self._taken_bytes += len(plain.payload) + 64
        handed = Handed((entry.publisher, entry.cat), count)
        values = (plain.topic, plain.payload, plain.publisher, plain.seq, plain.guarantee, plain.keys, plain.attributes)
        return self.message_kind(*values, handed=handed, replies=self.replies)

    # ------------------------------------------------------------------------------------------------------- answering

    def ack(self, message: HandedMessage, cumulative: bool) -> Acknowledgement:
        self._check_reading(message)
        identity = message.handed.identity
        identities = self._machine.handouts.upto(identity) if cumulative else [identity]
        self._enter(lambda: self._acknowledge(identities))
        known = self._acks.get(identity)
        if known is None:
            known = asyncio.get_running_loop().create_future()
            known.set_result(None)  # It was stored before.
        return Acknowledgement(known)

    def _acknowledge(self, identities: list[Identity]) -> effects.Effects:
        ticket, following = self._machine.ack(identities, monotonic())
        if ticket:
            stored = self._stored[ticket] = asyncio.get_running_loop().create_future()
            self._acks.update(dict.fromkeys(identities, stored))
            stored.add_done_callback(lambda _: self._forget(identities))
        return following

    def _forget(self, identities: list[Identity]) -> None:
        for identity in identities:
            self._acks.pop(identity, None)

    def nack(self, message: HandedMessage, delay_s: float) -> None:
        self._check_reading(message)
        handed = message.handed
        self._enter(lambda: self._machine.nack(handed.identity, handed.count, delay_s, monotonic()))

    def _check_reading(self, message: Message) -> None:
        if self.ended:
            raise (
                self._end
                if isinstance(self._end, HoldfastError)
                else ClientClosed(
                    f"the subscription {self.name} to {self.pattern!r} has ended: message {message.seq} of "
                    f"{message.publisher} was not answered, and comes to whoever subscribes under that name"
                )
            )

    def _on_acknowledged(self, effect: effects.Acknowledged) -> None:
        for ticket in effect.tickets:
            stored = self._stored.pop(ticket, None)
            if stored is not None and not stored.done():
                stored.set_result(None)
        if not self._stored and self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    # -------------------------------------------------------------------------------------------------------- the end

    async def end_subscription(self, subscription: Subscription) -> None:
        """What was acknowledged is stored first, if a repository is there in time."""
        if not self.ended and self._stored:
            self._idle = asyncio.get_running_loop().create_future()
            await asyncio.wait({self._idle}, timeout=CLOSE_S)
        await super().end_subscription(subscription)
        self._fail(ClientClosed(f"the subscription {self.name} ended before it was known that this is stored"))

    def finish(self, end: HoldfastError) -> None:
        super().finish(end)
        self._fail(end)

    def _fail(self, end: HoldfastError) -> None:
        waiting, self._stored = self._stored, {}
        for stored in waiting.values():
            fail(stored, end)
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)


class AckOptions(TypedDict, total=False):
    """Arguments of `subscribe` that say how the messages of a durable subscription are acknowledged."""

    ack: Literal["auto", "manual"]
    """Whether the application acknowledges each message. By default (`auto`) taking a message acknowledges it."""
    redeliver: Literal["publisher", "key"]
    """A message that is given back stays in order with others of its publisher (the default), or of its keys."""
    unacked_max: int
    """So many messages are handed out and not acknowledged at a time, at most; `UNACKED_USUALLY` if not said."""


ACK_CHOICES = [(ack, redeliver) for ack in ("auto", "manual") for redeliver in ("publisher", "key")]


def checked_ack(durable: str, options: AckOptions) -> AckSettings:
    """The settings, or the error that says what is wrong with them."""
    ack, redeliver = options.get("ack", "auto"), options.get("redeliver", "publisher")
    unacked_max = options.get("unacked_max", UNACKED_USUALLY)
    unknown = sorted(set(options) - set(AckOptions.__annotations__))
    if unknown:
        raise TypeError(f"subscribe() got an unexpected keyword argument {unknown[0]!r}")
    if (ack, redeliver) not in ACK_CHOICES:
        raise LocalMisuse(
            f'ack is "auto" or "manual", and redeliver "publisher" or "key", not {ack!r} and {redeliver!r}. '
            "Nothing was begun."
        )
    if ack == "manual" and not durable:
        raise LocalMisuse(
            'only a durable subscription is acknowledged by its application: write durable=NAME, ack="manual", '
            "on a topic that a repository keeps. Nothing was begun."
        )
    if ack == "auto" and len(options) > ("ack" in options):
        raise LocalMisuse('redeliver and unacked_max go with ack="manual" alone. Nothing was begun.')
    if not is_count(unacked_max, 1, UNACKED_MAX):
        raise LocalMisuse(f"unacked_max is from 1 to {UNACKED_MAX}, not {unacked_max!r}. Nothing was begun.")
    return AckSettings(ManualSubscription if ack == "manual" else DurableSubscription, redeliver == "key", unacked_max)
