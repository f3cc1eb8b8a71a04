"""What a repository does now and then: forget what is older, or more, than it is to keep, and count what is there."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any

from holdfast.model.reliable import Retention
from holdfast.protocols.narada import Repository
from holdfast.protocols.narada.participant import Effects
from holdfast.storage.stores import Store, StreamInfo
from holdfast.storage.stores.expiry import STEP_S, Expired, expired

EVERY_S = 1.0

InThread = Callable[[Callable[[], Any]], Awaitable[Any]]
Enter = Callable[[Callable[[], Effects]], None]


class Housekeeping:
    """The rounds of one repository. `infos` is what there was of each stream at the last one."""

    def __init__(
        self, machine: Repository, store: Store, retention: dict[str, Retention], in_thread: InThread, enter: Enter
    ) -> None:
        self._machine, self._store, self._retention = machine, store, retention
        self._in_thread, self._enter = in_thread, enter
        self.infos: dict[str, StreamInfo] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self, fail: Callable[[BaseException], None]) -> None:
        """Begin; `fail` gets what ends the rounds: a store that fails."""
        self._task = asyncio.get_running_loop().create_task(self._run())

        def done(task: "asyncio.Task[None]") -> None:
            error = None if task.cancelled() else task.exception()
            if error is not None:
                fail(error)

        self._task.add_done_callback(done)

    async def _run(self) -> None:
        while True:
            more = False
            for stream in self._machine.streams:
                self.infos[stream] = await self._in_thread(lambda stream=stream: self._store.info(stream))  # type: ignore[misc]
                retention = self._retention.get(stream)
                if retention is not None and retention.bounded:
                    more = await self._retain(stream, retention) or more
            await asyncio.sleep(STEP_S if more else EVERY_S)

    async def _retain(self, stream: str, retention: Retention) -> bool:
        unread = retention.keep_unread
        limit = self._machine.forgettable(stream, unread)
        # By the clock that messages are stamped with.
        now_ns = self._machine.streams[stream].stream_state.time_ns(monotonic())
        found: Expired | None = await self._in_thread(lambda: expired(self._store, stream, retention, limit, now_ns))
        if found is None:
            return False
        self._enter(lambda: self._machine.forgotten(stream, found.before, found.whose, unread))
        return found.more

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
