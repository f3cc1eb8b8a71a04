"""A broker and somebody who listens to everything, in a thread: what Spark publishes, as it is heard."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

import holdfast
from holdfast.model.batches import Message
from holdfast.runtime.process import new_event_loop
from tests.integration.support_brokers import address_of, broker_here, until

LAST_WORD = "the/last/word"
LIMIT_S = 60.0
T = TypeVar("T")


def last_of(messages: list[Message]) -> tuple[str, int]:
    return (messages[-1].topic, messages[-1].seq) if messages else ("", 0)


class Hall:
    """`address` is the broker's. `heard` ends with everything that was published before it was asked."""

    def __enter__(self) -> Self:
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._messages: list[Message] = []
        self._waiting: tuple[int, Callable[[], None]] | None = None
        self._over = asyncio.Event()
        self._ready = threading.Event()
        self._story = asyncio.run_coroutine_threadsafe(self._serve(), self._loop)
        assert self._ready.wait(LIMIT_S), self._story
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._story.result(LIMIT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT_S)
        self._loop.close()

    async def _serve(self) -> None:
        async with broker_here() as broker:
            self.address = address_of(broker)
            async with holdfast.connect(self.address, name="listener") as self._client:
                everything = await self._client.subscribe("#")
                self._ready.set()
                listening = asyncio.ensure_future(self._listen(everything))
                await self._over.wait()
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)

    async def _listen(self, everything: holdfast.Subscription) -> None:
        async for messages in everything.batches():
            self._messages += messages
            if self._waiting is not None and len(self._messages) >= self._waiting[0]:
                _, act = self._waiting
                self._waiting = None
                act()

    def call(self, begin: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run something on the broker's loop."""
        return asyncio.run_coroutine_threadsafe(begin(), self._loop).result(LIMIT_S)

    def heard(self) -> list[Message]:
        """Everything that the broker had accepted when this was called, in the order of arrival."""

        async def last_word() -> list[Message]:
            receipt = await self._client.publish(LAST_WORD, b"")
            await until(lambda: (LAST_WORD, receipt.seq) == last_of(self._messages), "the last word")
            return [each for each in self._messages if each.topic != LAST_WORD]

        return self.call(last_word)

    def when_heard(self, count: int, act: Callable[[], None]) -> None:
        """Do something at the very moment when so many messages have arrived."""

        async def wait() -> None:
            self._waiting = (count, act)

        self.call(wait)

    def heard_so_far(self) -> int:
        """How many messages have arrived: a look in passing."""
        return len(self._messages)
