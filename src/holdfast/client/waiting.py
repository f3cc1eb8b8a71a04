"""Who waits for an answer of the client's machine: requests by their token, and publications until they are held."""

import asyncio
from typing import Any

from holdfast.client.errors import NotConfirmed
from holdfast.model.errors import HoldfastError
from holdfast.protocols.node import Completed, Unconfirmed


class Requests:
    """A future for each request that the machine was given; of a question it says whether the message has crossed."""

    def __init__(self) -> None:
        self._futures: dict[int, asyncio.Future[bool]] = {}

    def add(self, token: int) -> asyncio.Future[bool]:
        future = self._futures[token] = asyncio.get_running_loop().create_future()
        return future

    def completed(self, effect: Completed) -> None:
        future = self._futures.pop(effect.token, None)
        if future is not None and not future.done():
            future.set_result(effect.crossed)

    def failed(self, token: int, error: HoldfastError) -> None:
        future = self._futures.pop(token, None)
        if future is not None:
            fail(future, error)

    def unconfirmed(self, publisher: str, effect: Unconfirmed) -> None:
        self.failed(effect.token, NotConfirmed(f"{publisher}#{effect.seq}", effect.finding))

    def finish(self, end: HoldfastError) -> None:
        for future in self._futures.values():
            fail(future, end)
        self._futures.clear()


class Holders:
    """Who waits until a publication is held by as many brokers as it takes; all look again when something changes."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def wait(self, seq: int) -> asyncio.Future[None]:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((seq, waiter))
        return waiter

    @property
    def first(self) -> int:
        """The lowest number that somebody waits for."""
        return min(seq for seq, _ in self._waiting)

    def wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for _, waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)


def fail(future: "asyncio.Future[Any]", error: HoldfastError) -> None:
    """End it with this error; somebody who stopped waiting does not make it one that nobody handled."""
    if not future.done():
        future.set_exception(error)
        future.exception()
