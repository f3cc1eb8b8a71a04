"""Durable publications: a client's publisher to one stream, and the receipts that it gives.

The publisher is the pure machine of `protocols/narada`; here it gets a session and timers.
"""

import asyncio
from asyncio import sleep
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from time import time
from typing import Any, Protocol

from holdfast.client.participants import ParticipantDriver, Session
from holdfast.client.receipts import By, Level, Receipt
from holdfast.client.settings import TURN_BYTES
from holdfast.client.waiting import fail
from holdfast.model.batches import Attributes, Keys
from holdfast.model.errors import HoldfastError, Refused
from holdfast.model.filters import Value
from holdfast.protocols.narada import Publisher, PublisherConfig
from holdfast.protocols.narada import participant as effects
from holdfast.protocols.narada.events import LIFE_MAX
from holdfast.runtime.logs import ProcessLog

RUNS_MAX = 4096
"""How many of the last batches are remembered, to say which number in the session a publication has."""
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

    async def wait_confirmed(self, topic: str, seq: int, attributes: Attributes, taken: bool) -> bool: ...

    def has_crossed(self, seq: int) -> bool: ...


class DurableReceipt(Receipt, gc=False, eq=False, kw_only=True):
    """The receipt of a publication to a reliable topic: the `number`-th, from 1, that this client published there.

    `seq` is 0 until the message leaves for the broker, when a repository has allowed the publication.
    """

    durable: "DurablePublisher"
    number: int

    @property
    def level(self) -> Level:
        if self.is_confirmed:
            return "taken" if self.is_taken else "confirmed"
        if self.number <= self.durable.stored_number:
            return "stored"
        self.seq = self.seq or self.durable.seq_of(self.number)
        return self.client.level_of(self.seq) if self.seq else "sent"

    @property
    def storage(self) -> str:
        """How safely the message is stored, and by how many repositories; empty before it is stored."""
        return self.durable.storage if self.number <= self.durable.stored_number else ""

    async def stored(self) -> "DurableReceipt":
        """Wait until a repository has stored it. Raises `Refused` if the stream's owner has not registered us."""
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

    async def confirmed(self, by: By = "client") -> "DurableReceipt":
        self.seq = await self.durable.wait_emitted(self.number)
        await super().confirmed(by)
        return self


class DurablePublisher:
    """This client's publications to one stream."""

    def __init__(self, client: DurableClient, stream: str, log: ProcessLog) -> None:
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
