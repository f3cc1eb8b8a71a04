"""Durable publications and subscriptions: the client's side of reliable topics.

```python
receipt = await client.publish("bank/orders", b"...", durable=True)
await receipt.stored()                                   # a repository has it, as safely as it says
orders = await client.subscribe("bank/orders", durable="billing")
async for message in orders: ...                         # all that is stored, then what comes, each once
```

Publisher and subscriber are the pure machines of `protocols/narada`; here they get a session and timers.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from datetime import datetime
from time import monotonic
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from holdfast.client.arguments import plain, shown
from holdfast.client.durable_publishers import DurableClient, DurablePublisher, DurableReceipt, Handlers, Publication
from holdfast.client.errors import ClientClosed, ConnectionFailed, Gap, SessionLost
from holdfast.client.forgetting import forget_subscription
from holdfast.client.listening import Listener
from holdfast.client.participants import ParticipantDriver
from holdfast.client.subscriptions import NOTHING, Delivery, Hole, Subscription
from holdfast.client.waiting import fail
from holdfast.model.batches import Batch, Message
from holdfast.model.errors import HoldfastError, LocalMisuse, Refused
from holdfast.model.guarantees import GUARANTEES, TOTAL
from holdfast.model.plurals import counted
from holdfast.model.reliable import Entry
from holdfast.model.topics import matches
from holdfast.protocols.narada import Subscriber, SubscriberConfig
from holdfast.protocols.narada import participant as effects
from holdfast.protocols.narada.directory import ASKING_TOPIC, answer_topic, covering, question, read_answer
from holdfast.protocols.runs import IMPLICIT_KEYS
from holdfast.runtime.logs import ProcessLog
from holdfast.runtime.process import new_incarnation

Start = str | int | datetime
"""Where a new subscription begins: `start`, `live`, a sequence number, or a time."""

NUMBER_MAX = 1 << 63
ASK_EVERY_S = 0.5
KNOWN_MAX = 1024
"""For how many topics it is remembered who takes what is published there."""
FIND_S = 10.0
LOOK_S = 0.05
"""So often it is looked what the application has taken."""
ACK_S = 0.15
"""So much later it is acknowledged: with the look before it, and the way, within the quarter of a second promised."""


# ------------------------------------------------------------------------------------------------------ subscribing


class _Released(Delivery, gc=False):
    """Messages that were released."""

    entry: Entry


class DurableSubscription(Subscription):
    """A subscription to a reliable topic with a name: the next one under the same name continues where this one stops.

    It is read like any other one, and first hands out the messages that were stored before. `position` is the sequence
    number, at `repository`, of the message that was taken last; each repository has its own numbers. Messages that were
    given up, since their publisher is gone for good, raise `Gap` once, in their place; reading goes on behind them.
    """

    _internal: ClassVar[tuple[str, ...]] = (
        *("begin", "batch_taken", "batch_read", "batch_dropped", "end_slow", "end_subscription", "finish"),
    )

    def __init__(self, client: DurableClient, config: SubscriberConfig, log: ProcessLog) -> None:
        super().__init__(self, config.pattern, config.where)
        self.name, self.stream = config.name, config.stream
        self.repository, self.position = "", 0
        self._cat = self._time_ns = 0
        self._reading: deque[Entry] = deque()
        """What was taken from what has arrived, and of which the application has not had everything."""
        self.unread: Callable[[], int] = self._ready.__len__
        """How many messages of it the application has not had: the last ones."""
        self._loop = asyncio.get_running_loop()
        self._look: asyncio.TimerHandle | None = None
        self._turned_at = monotonic()
        self._machine = self._make(config)
        self._begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._driver = ParticipantDriver(client, self._machine, self._handlers(), log)

    def _make(self, config: SubscriberConfig) -> Subscriber:
        return Subscriber(config)

    def _handlers(self) -> Handlers:
        return {
            effects.Begun: self._on_begun,
            effects.Release: self._on_release,
            effects.StreamGap: self._on_gap,
            effects.Rejected: lambda effect: self.finish(Refused(effect.reason)),
        }

    async def begin(self) -> "DurableSubscription":
        """Return when a repository knows the subscription."""
        self._driver.start()
        try:
            async with asyncio.timeout(FIND_S):
                await self._begun
        except BaseException as error:
            # Nobody reads it: who subscribes again under its name, or ends it, is not kept from that.
            self.end(None)
            await self._driver.close()
            if isinstance(error, TimeoutError):
                raise ConnectionFailed(
                    f"no repository of {self.stream} answered the subscription {self.name} within {FIND_S:g} s; "
                    "`holdfast topics` shows which are there."
                ) from None
            raise
        return self

    def __repr__(self) -> str:
        return f"DurableSubscription({self.name!r} on {self.pattern!r}, at {self.position} of {self.repository})"

    @property
    def spilled(self) -> bool:
        """Whether it reads so slowly that its messages come from the repository later, not as they are published."""
        return self._machine.spilled

    async def entries(self) -> AsyncIterator[Entry]:
        """Iterate by runs of messages that were stored together, with their sequence and catenation numbers.

        `time_ns` is the time of storing. It is 0 for messages that came directly from their publisher and not out of a
        store.
        """
        while (batch := await self._take()) is not None:
            first = self.position - batch.count + 1
            yield Entry(first, self._cat, batch, self._time_ns)

    # ---- what the machine says

    def _on_begun(self, effect: effects.Begun) -> None:
        self.repository = effect.repository
        if not self._begun.done():
            self._begun.set_result(None)

    def _on_release(self, effect: effects.Release) -> None:
        self.repository = effect.repository
        self.arrive(effect.entry.batch, _Released(effect.entry.batch, 1, effect.entry))

    def _on_gap(self, effect: effects.StreamGap) -> None:
        self._arrived.append((NOTHING, Hole(NOTHING, 0, self._gap_of(effect))))
        self._wake()

    def _gap_of(self, effect: effects.StreamGap) -> Gap:
        count = effect.last - effect.first + 1
        were, they = ("was", "it") if count == 1 else ("were", "they")
        what = f"{were} given up"
        if effect.forgotten:
            what = f"{were} forgotten before {they} {were} read"
        elif effect.damaged:
            are = "is" if count == 1 else "are"
            what = f"{are} damaged in the store of {self.repository}, and no other repository has sent a copy"
        whose = f"of {effect.publisher} to {effect.stream}" if effect.publisher else f"to {effect.stream}"
        sentence = f"{counted(count, 'message')} {whose} {what}: {they} will not come"
        return Gap(sentence, self.pattern, self.where, self._received, True)

    # ---- what the reader says

    async def __anext__(self) -> Message:
        if self._ready and monotonic() - self._turned_at > 2 * LOOK_S:
            # The application computes, and the loop had no turn: what was taken is acknowledged now or never.
            self._note_taken()
            self._enter(lambda: self._machine.acknowledge(monotonic()))
            self._turned_at = monotonic()
            await asyncio.sleep(0)
        return await super().__anext__()

    async def _take(self) -> Batch | None:
        self._note_taken()
        return await super()._take()

    def _pop(self) -> Batch:
        self._note_taken()
        _, delivery = self._arrived[0]
        if isinstance(delivery, Hole):
            self._enter(lambda: self._machine.told_gap(monotonic()))
        batch = super()._pop()
        if isinstance(delivery, _Released):
            self._reading.append(delivery.entry)
            self.position = delivery.entry.last
            self._cat, self._time_ns = delivery.entry.cat, delivery.entry.time_ns
            self._look_later()
        return batch

    def _look_later(self) -> None:
        """Nobody says when a message is handed out, so as long as there are any it is looked how many are left."""
        if self._look is None and not self.ended:
            self._look = self._loop.call_later(LOOK_S, self._look_now)

    def _look_now(self) -> None:
        self._look, self._turned_at = None, monotonic()
        self._note_taken()
        if self._reading:
            self._look_later()

    def _note_taken(self) -> None:
        """Of what is being read all but what is left unread is the application's."""
        taken = sum(entry.count for entry in self._reading) - self.unread()
        while self._reading and taken > 0:
            entry = self._reading.popleft()
            part = entry.part(entry.first, min(entry.last, entry.first + taken - 1))
            if part.count < entry.count:
                self._reading.appendleft(entry.part(part.last + 1, entry.last))
            taken -= part.count
            self._enter(lambda part=part: self._machine.consumed(part, monotonic()))  # type: ignore[misc]

    def _enter(self, entry: Callable[[], effects.Effects]) -> None:
        if not self.ended:
            self._driver.enter(entry)

    def batch_dropped(self, subscription: Subscription, batch: Batch, delivery: Delivery, reason: str) -> None:
        """What is not read waits in the repositories, and is not dropped."""

    def end_slow(self, subscription: Subscription, gap: Gap) -> None:
        """However slowly it is read, it does not end."""

    def batch_taken(self, delivery: Delivery) -> None:
        """What has been taken is known when the next batch is asked for."""

    def batch_read(self, delivery: Delivery) -> None:
        """The same."""

    async def end_subscription(self, subscription: Subscription) -> None:  # noqa: ARG002 - it is its own source
        if not self.ended:
            self._note_taken()
            self._driver.enter(lambda: self._machine.stop(monotonic()))
            self.end(None)
            await self._driver.close()

    def finish(self, end: HoldfastError) -> None:
        """The session is lost, or we were refused: whoever reads learns it behind what had arrived."""
        fail(self._begun, end)
        self.end(end if not isinstance(end, ClientClosed) else None)


# ---------------------------------------------------------------------------------------------------------- both


class AckSettings(Struct, frozen=True):
    """How a durable subscription is acknowledged: by itself, or by its application (`client/manual.py`)."""

    kind: type[DurableSubscription] = DurableSubscription
    by_key: bool = False
    unacked_max: int = 1000


class Durables:
    """What a client has of durable publishers and subscriptions; made as they are asked for."""

    def __init__(self, client: DurableClient, declared: tuple[str, ...] = ()) -> None:
        self._client, self._declared = client, declared
        self._log = ProcessLog("holdfast.durable", node=client.name)
        self._publishers: dict[str, DurablePublisher] = {}
        self._subscriptions: list[DurableSubscription] = []
        self._streams: dict[str, str] = {}
        self._known: dict[tuple[str, str, bool | str | None], tuple[DurablePublisher, int]] = {}
        """Who takes what was published like this before: what is plain need not be checked again."""

    def declares(self, topic: str) -> bool:
        """Whether what is published there is durable if nothing else is said."""
        return bool(self._declared) and any(matches(pattern, topic) for pattern in self._declared)

    def publish_nowait(
        self, topic: str, payload: bytes, guarantee: str, durable: bool | str | None
    ) -> DurableReceipt | None:
        """Publish what has neither keys nor attributes, as something was before; `None` if that is not so."""
        if not (type(topic) is str and type(payload) is bytes and (durable is None or type(durable) in (bool, str))):
            return None  # What equals something that was checked may be of a type that is not: the checks say so.
        try:
            known = self._known.get((topic, guarantee, durable))
        except TypeError:
            return None  # The guarantee is no name of anything: the checks say so, too.
        if known is None:
            return None
        publisher, rank = known
        number = publisher.publish_nowait(topic, payload, rank)
        return DurableReceipt(self._client, topic, 0, durable=publisher, number=number) if number else None

    async def publish_checked(self, publication: Publication, durable: bool | str | None) -> DurableReceipt:
        """The same for what `checked` returned."""
        topic, payload, rank, keys, attributes = publication
        if rank == TOTAL and not keys:
            # What is stored is what travels, to the letter.
            keys = IMPLICIT_KEYS
        stream = durable if isinstance(durable, str) else await self.stream_of(topic)
        publisher = self._publishers.get(stream)
        if publisher is None:
            publisher = self._publishers[stream] = DurablePublisher(self._client, stream, self._log)
        number = await publisher.publish(topic, payload, rank, keys, attributes)
        if rank != TOTAL and len(self._known) < KNOWN_MAX:
            self._known[topic, GUARANTEES[rank].value, durable] = (publisher, rank)
        return DurableReceipt(self._client, topic, 0, attributes, durable=publisher, number=number)

    async def publish_many(self, publication: Publication, payloads: Iterable[bytes]) -> DurableReceipt | None:
        """The same for messages that differ in their payload alone; returns the receipt of the last."""
        topic, _, rank, keys, attributes = publication
        receipt = None
        for payload in payloads:
            checked = self._client.checked(topic, payload, GUARANTEES[rank].value, keys, attributes)
            receipt = await self.publish_checked(checked, None)
        return receipt

    async def subscribe(
        self, name: str, pattern: str, where: str, begins: tuple[str, int], acks: AckSettings
    ) -> DurableSubscription:
        kind, value = begins
        stream = await self._find(pattern)
        self._check_unread(name, stream, ", or choose another name. Nothing was begun.")
        config = SubscriberConfig(name, stream, pattern, where, kind, value, reader=new_incarnation(), ack_s=ACK_S)
        config = replace(config, unacked_max=acks.unacked_max, by_key=acks.by_key)
        subscription = acks.kind(self._client, config, self._log)
        self._subscriptions.append(subscription)
        return await subscription.begin()

    async def forget(self, name: str, pattern: str) -> None:
        stream = await self._find(pattern)
        self._check_unread(name, stream, ". It was not forgotten.")
        await forget_subscription(self._client, self._client.name, stream, name, FIND_S)

    def _check_unread(self, name: str, stream: str, rest: str) -> None:
        self._subscriptions = [one for one in self._subscriptions if not one.ended]
        if any((one.name, one.stream) == (name, stream) for one in self._subscriptions):
            raise LocalMisuse(f"the subscription {name} to {stream} is being read here; unsubscribe first{rest}")

    async def stream_of(self, topic: str) -> str:
        """The stream that covers a topic; raises `LocalMisuse` if nobody keeps one."""
        return self._streams.get(topic) or await self._find(topic)

    async def _find(self, topic: str) -> str:
        """The stream that covers a topic or pattern."""
        found: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def hear(batch: Batch) -> None:
            for payload in batch.payload_list():
                answer = read_answer(payload)
                stream = covering(answer.streams, topic) if answer is not None else ""
                if stream and not found.done():
                    found.set_result(stream)

        listener = Listener(self._client, answer_topic(self._client.name), hear)
        await self._client.subscribe_as(listener)
        try:
            stream = await self._ask(found)
        finally:
            await listener.unsubscribe()
        if not stream:
            raise LocalMisuse(
                f"no repository that answers within {FIND_S:g} s keeps a stream which covers {topic!r}; name it in the "
                "`streams` of a repository of the cluster file, or start `holdfast repository --stream`. Nothing was "
                "begun."
            )
        self._streams[topic] = stream
        return stream

    async def _ask(self, found: "asyncio.Future[str]") -> str:
        for _ in range(int(FIND_S / ASK_EVERY_S)):
            self._client.publish_nowait(ASKING_TOPIC, question(self._client.name), 0)
            await asyncio.wait({found}, timeout=ASK_EVERY_S)
            if found.done():
                return found.result()
        return ""

    async def close(self, timeout_s: float) -> HoldfastError | None:
        """Wait until everything is stored, then stop; returns why it is not known that it is, if so."""
        unstored: HoldfastError | None = None
        try:
            async with asyncio.timeout(timeout_s):
                for publisher in self._publishers.values():
                    await publisher.drain()
        except TimeoutError:
            waiting = ", ".join(sorted(self._publishers))
            unstored = SessionLost(f"not all that {self._client.name} published to {waiting} is known to be stored")
        except HoldfastError as error:
            unstored = error
        finally:
            self._known.clear()
            for publisher in self._publishers.values():
                await publisher.driver.close()
            for subscription in self._subscriptions:
                await subscription.unsubscribe()
        return unstored

    def finish(self, end: HoldfastError) -> None:
        self._known.clear()
        for publisher in self._publishers.values():
            publisher.finish(end)
        for subscription in self._subscriptions:
            subscription.finish(end)


def begin_of(start: object) -> tuple[str, int]:
    """Where a subscription begins, as the machine takes it; raises `LocalMisuse` for what is no such place."""
    if isinstance(start, datetime):
        with suppress(OverflowError, ValueError, OSError):
            time_ns = int(start.timestamp() * 1e9)
            if 0 <= time_ns < NUMBER_MAX:
                return "time", time_ns
    elif isinstance(start, int):
        if not isinstance(start, bool) and 1 <= start < NUMBER_MAX:
            return "seq", int(start)
    elif isinstance(start, str) and start in ("start", "live"):
        return plain(start), 0
    raise LocalMisuse(
        f"a subscription begins at 'start', 'live', a sequence number from 1 or a datetime, not "
        f"{shown(start)}. Nothing was begun."
    )
