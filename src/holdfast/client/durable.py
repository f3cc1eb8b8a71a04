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
from asyncio import sleep
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from datetime import datetime
from time import monotonic, time
from typing import Any, Protocol

from holdfast.client.errors import ClientClosed, ConnectionFailed, Gap, SessionLost
from holdfast.client.forgetting import forget_subscription
from holdfast.client.listening import Listener
from holdfast.client.participants import ParticipantDriver, Session
from holdfast.client.receipts import Level, Receipt
from holdfast.client.subscriptions import Delivery, Subscription
from holdfast.client.waiting import fail
from holdfast.model.batches import BATCH_BYTES_MAX, Attributes, Batch, Keys, make_batch
from holdfast.model.errors import HoldfastError, LocalMisuse, Refused
from holdfast.model.filters import Value, parse_filter
from holdfast.model.guarantees import GUARANTEES, TOTAL
from holdfast.model.reliable import Entry
from holdfast.protocols.clients import IMPLICIT_KEYS
from holdfast.protocols.narada import Publisher, PublisherConfig, Subscriber, SubscriberConfig
from holdfast.protocols.narada import participant as effects
from holdfast.protocols.narada.directory import ASKING_TOPIC, answer_topic, covering, question, read_answer
from holdfast.protocols.narada.events import LIFE_MAX
from holdfast.runtime.logs import Log

ASK_EVERY_S = 0.5
RUNS_MAX = 4096
"""How many of the last batches are remembered, to say which number in the session a publication has."""
KNOWN_MAX = 1024
"""For how many topics it is remembered who takes what is published there."""
TURN_BYTES = 4 * BATCH_BYTES_MAX
"""A publisher that never pauses hands its messages over, and lets the loop run, every few full batches."""
FIND_S = 10.0
LIVES_BEGAN = 1_577_836_800
"""A publisher's life is the second of its beginning, counted from the year 2020."""

Publication = tuple[str, bytes, int, Keys, Attributes | None]
Handlers = dict[type, Callable[[Any], object]]


class DurableClient(Session, Protocol):
    """What durable publications and subscriptions ask of their client."""

    @property
    def name(self) -> str: ...

    def checked(
        self, topic: str, payload: object, guarantee: str, keys: Iterable[str], attributes: Mapping[str, Value] | None
    ) -> Publication: ...

    def level_of(self, seq: int) -> Level: ...

    async def wait_accepted(self, seq: int) -> None: ...

    async def wait_held(self, seq: int) -> None: ...

    async def wait_confirmed(self, topic: str, seq: int) -> None: ...


# ------------------------------------------------------------------------------------------------------- publishing


class DurableReceipt(Receipt, gc=False, eq=False, kw_only=True):
    """The receipt of a publication to a reliable topic: the `number`-th, from 1, that this client published there.

    `seq` is 0 until the message has left for the broker, which it does when a repository lets us publish.
    """

    durable: "DurablePublisher"
    number: int

    @property
    def level(self) -> Level:
        if self.is_confirmed:
            return "confirmed"
        if self.number <= self.durable.stored_number:
            return "stored"
        self.seq = self.seq or self.durable.seq_of(self.number)
        return self.client.level_of(self.seq) if self.seq else "sent"

    @property
    def storage(self) -> str:
        """How safely it is stored, and by how many repositories; empty before that."""
        return self.durable.storage if self.number <= self.durable.stored_number else ""

    async def stored(self) -> "DurableReceipt":
        """Wait until a repository has stored it. Raises `Refused` if the stream's owner did not register us."""
        await self.durable.wait_stored(self.number)
        self.seq = self.seq or self.durable.seq_of(self.number)
        return self

    async def accepted(self) -> "DurableReceipt":
        self.seq = await self.durable.wait_emitted(self.number)
        await super().accepted()
        return self

    async def held(self) -> "DurableReceipt":
        self.seq = await self.durable.wait_emitted(self.number)
        await super().held()
        return self

    async def confirmed(self) -> "DurableReceipt":
        self.seq = await self.durable.wait_emitted(self.number)
        await super().confirmed()
        return self


class DurablePublisher:
    """This client's publications to one stream."""

    def __init__(self, client: DurableClient, stream: str, log: Log) -> None:
        self._client, self.stream = client, stream
        self._machine = Publisher(PublisherConfig(client.name, stream), int(time() - LIVES_BEGAN) % LIFE_MAX)
        self.storage = ""
        self._emitted = 0
        self._runs: deque[tuple[int, int]] = deque(maxlen=RUNS_MAX)
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._others: list[asyncio.Future[None]] = []
        self._end: HoldfastError | None = None
        handlers: Handlers = {
            effects.Opening: lambda _: None,
            effects.Emit: self._on_emit,
            effects.Stored: self._on_stored,
            effects.Rejected: lambda effect: self.finish(Refused(effect.reason)),
        }
        self.driver = ParticipantDriver(client, self._machine, handlers, log)
        self.driver.start()

    @property
    def stored_number(self) -> int:
        return self._machine.stored_number

    def publish_nowait(self, topic: str, payload: bytes, rank: int) -> int:
        """Take a publication that is known to be right, and return its number; 0 if it has to wait."""
        machine = self._machine
        number = machine.publish_alike(topic, payload, rank)
        if number:
            return number  # What it goes with is going to be settled.
        if machine.unsent_bytes > TURN_BYTES or self._end is not None or not machine.room():
            return 0
        self.driver.settle_soon()
        return machine.publish(topic, payload, rank)

    async def publish(self, topic: str, payload: bytes, rank: int, keys: Keys, attributes: Attributes | None) -> int:
        """Take a publication, when there is room for it, and return its number."""
        if self._machine.unsent_bytes > TURN_BYTES:
            # A publisher that never pauses would fill its buffer and send nothing.
            self.driver.settle_now()
            await sleep(0)
        while not self._machine.room():
            await self._change()
        self._check()
        number = self._machine.publish(topic, payload, rank, keys, attributes)
        self.driver.settle_soon()
        return number

    def seq_of(self, number: int) -> int:
        """The number in the session of what was published here as `number`; 0 if it has not left, or long ago."""
        if number > self._emitted:
            return 0
        return next((seq + number - first for first, seq in reversed(self._runs) if first <= number), 0)

    async def wait_emitted(self, number: int) -> int:
        """Wait until it has left, and return its number in the session."""
        while number > self._emitted:
            await self._change()
        return self.seq_of(number)

    async def wait_stored(self, number: int) -> None:
        if number <= self._machine.stored_number:
            return
        self._check()
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((number, waiter))
        await waiter

    async def drain(self) -> None:
        """Wait until everything is stored."""
        await self.wait_stored(self._machine.next_number - 1)

    def _on_emit(self, effect: effects.Emit) -> None:
        first = self.driver.emit(effect)
        if first:
            self._runs.append((self._emitted + 1, first))
            self._emitted += effect.batch.count
            self._changed()

    def _on_stored(self, effect: effects.Stored) -> None:
        copies = "one repository" if effect.copies == 1 else f"{effect.copies} repositories"
        self.storage = f"{effect.level} by {copies}"
        waiting, self._waiters = self._waiters, []
        for number, waiter in waiting:
            if number > effect.number:
                self._waiters.append((number, waiter))
            elif not waiter.done():
                waiter.set_result(None)
        self._changed()

    async def _change(self) -> None:
        self._check()
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._others.append(waiter)
        await waiter

    def _changed(self) -> None:
        others, self._others = self._others, []
        for waiter in others:
            if not waiter.done():
                waiter.set_result(None)

    def _check(self) -> None:
        if self._end is not None:
            raise self._end

    def finish(self, end: HoldfastError) -> None:
        """Nothing more will be stored: whoever waits learns it."""
        self._end = self._end or end
        for _, waiter in self._waiters:
            fail(waiter, self._end)
        self._waiters.clear()
        self._changed()


# ------------------------------------------------------------------------------------------------------ subscribing


class _Released(Delivery, gc=False):
    """Messages that were released, or a gap among them."""

    entry: Entry | None = None
    gap: Gap | None = None


class DurableSubscription(Subscription):
    """A subscription to a reliable topic, known by its name: whoever subscribes under it again goes on after it.

    It is read like any other one, and first gives what was stored before. `position` is the sequence number of what was
    taken last, at `repository`; each repository has its own. Messages whose publisher is gone for good and which were
    given up raise `Gap` once, in their place; reading goes on behind them.
    """

    def __init__(self, client: DurableClient, config: SubscriberConfig, log: Log) -> None:
        wanted = parse_filter(config.where) if config.where else None
        super().__init__(self, config.pattern, config.where, wanted)
        self.name, self.stream = config.name, config.stream
        self.repository, self.position = "", 0
        self._cat = self._time_ns = 0
        self._reading: Entry | None = None
        self._machine = Subscriber(config)
        self._begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        handlers: Handlers = {
            effects.Begun: self._on_begun,
            effects.Release: self._on_release,
            effects.Gap: self._on_gap,
            effects.Rejected: lambda effect: self.finish(Refused(effect.reason)),
        }
        self._driver = ParticipantDriver(client, self._machine, handlers, log)

    async def begin(self) -> "DurableSubscription":
        """Return when a repository knows the subscription."""
        self._driver.start()
        try:
            async with asyncio.timeout(FIND_S):
                await self._begun
        except TimeoutError:
            await self._driver.close()
            raise ConnectionFailed(
                f"no repository of {self.stream} answered the subscription {self.name} within {FIND_S:g} s; "
                "`holdfast topics` shows which are there."
            ) from None
        except BaseException:
            await self._driver.close()
            raise
        return self

    def __repr__(self) -> str:
        return f"DurableSubscription({self.name!r} on {self.pattern!r}, at {self.position} of {self.repository})"

    @property
    def spilled(self) -> bool:
        """Whether it reads so slowly that it is not sent what is published, and gets it from the repository later."""
        return self._machine.spilled

    async def entries(self) -> AsyncIterator[Entry]:
        """Iterate by what was stored together, with its sequence and catenation numbers."""
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

    def _on_gap(self, effect: effects.Gap) -> None:
        count = effect.last - effect.first + 1
        what = "were forgotten before they were read" if effect.forgotten else "were given up"
        sentence = f"{count} messages of {effect.publisher} to {effect.stream} {what}: they will not come"
        empty = make_batch(effect.publisher, 1, self.stream, 0, [b""])
        self.arrive(empty, _Released(empty, 1, None, Gap(sentence, self.pattern, self.where, self._received)))

    # ---- what the reader says

    async def _take(self) -> Batch | None:
        # Whoever asks for the next batch has handed out every message of the last one.
        self._consume(0)
        return await super()._take()

    def _pop(self) -> Batch:
        self._consume(0)
        _, delivery = self._arrived[0]
        batch = super()._pop()
        if isinstance(delivery, _Released):
            if delivery.gap is not None:
                raise delivery.gap
            self._reading = delivery.entry
            if delivery.entry is not None:
                self.position = delivery.entry.last
                self._cat, self._time_ns = delivery.entry.cat, delivery.entry.time_ns
        return batch

    def _consume(self, left: int) -> None:
        """All but the last `left` messages of what is being read are the application's."""
        entry, self._reading = self._reading, None
        if entry is not None and left < entry.count and not self.ended:
            part = entry.part(entry.first, entry.last - left)
            self._driver.enter(lambda: self._machine.consumed(part, monotonic()))

    def batch_taken(self, delivery: Delivery) -> None:
        """What has been taken is known when the next batch is asked for."""

    async def end_subscription(self, subscription: Subscription) -> None:  # noqa: ARG002 - it is its own source
        if not self.ended:
            self._consume(len(self._ready))
            self._driver.enter(lambda: self._machine.stop(monotonic()))
            self.end(None)
            await self._driver.close()

    def finish(self, end: HoldfastError) -> None:
        """The session is lost, or we were refused: whoever reads learns it behind what had arrived."""
        fail(self._begun, end)
        self.end(end if not isinstance(end, ClientClosed) else None)


# ---------------------------------------------------------------------------------------------------------- both


class Durables:
    """What a client has of durable publishers and subscriptions; made as they are asked for."""

    def __init__(self, client: DurableClient) -> None:
        self._client = client
        self._log = Log("holdfast.durable", node=client.name)
        self._publishers: dict[str, DurablePublisher] = {}
        self._subscriptions: list[DurableSubscription] = []
        self._streams: dict[str, str] = {}
        self._known: dict[tuple[str, str, bool | str], tuple[DurablePublisher, int]] = {}
        """Who takes what was published like this before: what is plain need not be checked again."""

    def publish_nowait(self, topic: str, payload: bytes, guarantee: str, durable: bool | str) -> DurableReceipt | None:
        """Publish what has neither keys nor attributes, as something was before; `None` if that is not so."""
        known = self._known.get((topic, guarantee, durable))
        if known is None or type(payload) is not bytes:
            return None
        publisher, rank = known
        number = publisher.publish_nowait(topic, payload, rank)
        return DurableReceipt(self._client, topic, 0, durable=publisher, number=number) if number else None

    async def publish_checked(self, publication: Publication, durable: bool | str) -> DurableReceipt:
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
        return DurableReceipt(self._client, topic, 0, durable=publisher, number=number)

    async def subscribe(
        self, name: str, pattern: str, where: str, start: str | int | datetime
    ) -> "DurableSubscription":
        stream = await self._find(pattern)
        kind, value = _start_of(start)
        config = SubscriberConfig(name, stream, pattern, where, kind, value)
        subscription = DurableSubscription(self._client, config, self._log)
        self._subscriptions = [one for one in self._subscriptions if not one.ended]
        self._subscriptions.append(subscription)
        return await subscription.begin()

    async def forget(self, name: str, pattern: str) -> None:
        if any(one.name == name and not one.ended for one in self._subscriptions):
            raise LocalMisuse(f"the subscription {name} is being read here; unsubscribe first. It was not forgotten.")
        await forget_subscription(self._client, self._client.name, await self._find(pattern), name, FIND_S)

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
                f"no repository that answers within {FIND_S:g} s keeps a stream which covers {topic!r}; declare one "
                "under [reliable] in the cluster file, or start `holdfast repository --stream`. Nothing was begun."
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


def _start_of(start: str | int | datetime) -> tuple[str, int]:
    if isinstance(start, datetime):
        return "time", int(start.timestamp() * 1e9)
    if isinstance(start, int) and not isinstance(start, bool) and start >= 1:
        return "seq", start
    if start in ("start", "live"):
        return str(start), 0
    raise LocalMisuse(
        f"a subscription begins at 'start', 'live', a sequence number from 1 or a datetime, not {start!r}."
    )
