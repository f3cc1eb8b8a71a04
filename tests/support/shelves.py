"""Shelves: the part of a repository that readers ask, with a store in memory, on a port of its own, and no broker."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from holdfast.model.batches import make_batch
from holdfast.model.reliable import Level
from holdfast.protocols.narada import Repository, RepositoryConfig
from holdfast.protocols.narada.participant import Put
from holdfast.protocols.narada.retention import last_of_each
from holdfast.protocols.narada.stream_state import RepositoryStream
from holdfast.runtime.health import Health
from holdfast.services.lanes import LaneReading
from holdfast.services.repository import RepositoryService
from holdfast.services.repository_settings import RepositorySettings
from holdfast.storage.stores import MemoryStore, Store

STREAM = "bank/#"
LIFE = 7
LIMIT_S = 20.0
T = TypeVar("T")


class Shelf:
    """One repository, as far as readers know it. `address` is where it answers, until it is killed."""

    def __init__(self, name: str, config: RepositoryConfig | None = None) -> None:
        self.settings = RepositorySettings(name=name, streams=(STREAM,))
        self.machine = Repository(config or RepositoryConfig(name), (STREAM,), 1)
        self.store: Store = MemoryStore()
        self.stream_state.phase = "serving"

    @property
    def stream_state(self) -> RepositoryStream:
        return self.machine.streams[STREAM].stream_state

    async def in_store(self, work: Callable[[Store], T]) -> T:
        return work(self.store)

    # ---------------------------------------------------------------------------------------------------------- keeping

    def keep(
        self,
        first: int,
        payloads: Sequence[bytes],
        publisher: str = "alice",
        life: int = LIFE,
        topic: str = "bank/a",
        time_s: float = 1.0,
    ) -> None:
        """Store messages first.. of that life, as if they had come from their publisher."""
        chain = self.stream_state.chain(publisher, life)
        assert chain is not None
        assert self.stream_state.take(chain, first, make_batch(publisher, first, topic, 1, payloads), time_s)
        self.commit()

    def forget(self, before: int) -> None:
        """Retention has come to this sequence number."""
        gone = self.store.read(STREAM, 1, before - 1, 1 << 30)
        self.machine.forgotten(STREAM, before, last_of_each((one.publisher, one.cat_last) for one in gone))
        self.store.forget(STREAM, before)
        self.commit()

    def commit(self) -> None:
        entries, effects = self.stream_state.changes(Level.FSYNCED)
        self.store.append(STREAM, entries)
        for effect in effects:
            assert isinstance(effect, Put)
            self.store.put(effect.key, effect.value)
        self.store.commit(Level.FSYNCED)
        self.stream_state.committed()

    def restart(self) -> None:
        """Know only what was stored."""
        self.machine = Repository(self.machine.config, (STREAM,), 2, dict(self.store.items()))
        self.stream_state.phase = "serving"

    # ------------------------------------------------------------------------------------------------------- answering

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        questions = LaneReading(cast("RepositoryService", self)).table()
        self._health = Health(self.settings.name, lambda: True, dict, questions=questions)
        self.port = self._call(self._health.listen("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.port}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT_S)
        self._loop.close()

    def kill(self) -> None:
        """Answer nobody any more."""

        async def close() -> None:
            self._health.close()

        self._call(close())

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LIMIT_S)
