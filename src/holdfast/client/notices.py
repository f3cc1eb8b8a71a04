"""What an application can be called back for: the client is connected, disconnected, or something may be missing."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.client.arguments import wrong
from holdfast.client.errors import Gap
from holdfast.model.errors import ConfigError
from holdfast.runtime.logs import ProcessLog

OnConnected = Callable[[str], object]
"""Called with the name of the broker."""
OnDisconnected = Callable[[str], object]
"""Called with a sentence that says why."""
OnGap = Callable[[Gap], object]
"""Called with the gap that the subscription raises."""


class Notices:
    """Calls back in the turn in which something happens; what a coroutine function returns runs as a task.

    A callback that raises is logged, and changes nothing else.
    """

    def __init__(
        self,
        on_connected: OnConnected | None = None,
        on_disconnected: OnDisconnected | None = None,
        on_gap: OnGap | None = None,
    ) -> None:
        given = {"on_connected": on_connected, "on_disconnected": on_disconnected, "on_gap": on_gap}
        for name, callback in given.items():
            if callback is not None and not callable(callback):
                raise wrong("connect", name, callback, "a function, or None", ConfigError)
        self._on_connected, self._on_disconnected, self._on_gap = on_connected, on_disconnected, on_gap
        self._is_connected = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._log = ProcessLog("holdfast.client")

    def connected(self, broker: str) -> None:
        if not self._is_connected:
            self._is_connected = True
            self._call(self._on_connected, broker)

    def disconnected(self, reason: str) -> None:
        if self._is_connected:
            self._is_connected = False
            self._call(self._on_disconnected, reason)

    def gap(self, gap: Gap) -> None:
        self._call(self._on_gap, gap)

    def _call(self, callback: Callable[[Any], object] | None, what: object) -> None:
        if callback is None:
            return
        try:
            result = callback(what)
        except Exception as error:  # noqa: BLE001
            self._failed(error)
            return
        if inspect.isawaitable(result):
            task = asyncio.ensure_future(_awaited(result))
            self._tasks.add(task)
            task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and isinstance(task.exception(), Exception):
            self._failed(task.exception())

    def _failed(self, error: BaseException | None) -> None:
        self._log.error("a callback of the application raised", error)


async def _awaited(result: Awaitable[object]) -> None:
    await result
