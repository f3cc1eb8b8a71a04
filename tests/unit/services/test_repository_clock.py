"""A repository stamps messages, and forgets them, by the wall clock as it is, also after it was put right."""

import asyncio
import time
from typing import Any, cast

import pytest

from holdfast.client.participants import ParticipantDriver, Session
from holdfast.model.batches import make_batch
from holdfast.model.reliable import Retention
from holdfast.runtime.logs import ProcessLog
from holdfast.services import housekeeping, repository
from holdfast.services.housekeeping import Housekeeping
from holdfast.services.repository import RepositoryService
from holdfast.services.repository_settings import RepositorySettings
from holdfast.storage.stores import MemoryStore

HOUR_NS = 3600 * 10**9


@pytest.mark.parametrize("step_ns", [HOUR_NS, -HOUR_NS])
def test_a_step_of_the_wall_clock_is_followed(step_ns: int, monkeypatch: pytest.MonkeyPatch):
    async def story() -> None:
        service = RepositoryService(RepositorySettings(name="r1", streams=("orders",)))
        session = cast("Session", None)
        driver = ParticipantDriver(session, service.machine, {}, ProcessLog("holdfast.test"), service._tell_time)
        stream_state = service.machine.streams["orders"].stream_state
        driver.enter(list)
        before_ns = stream_state.time_ns(time.monotonic())
        monkeypatch.setattr(repository, "time_ns", lambda: time.time_ns() + step_ns)

        def hear() -> list[Any]:
            chain = stream_state.chain("alice", 1)
            assert chain is not None
            assert stream_state.take(chain, 1, make_batch("alice", 1, "orders", 1, [b"a"]), time.monotonic())
            return []

        driver.enter(hear)
        [entry] = stream_state.staged
        assert entry.time_ns - before_ns == pytest.approx(step_ns, abs=60 * 10**9)

    asyncio.run(story())


def test_what_is_too_old_is_told_by_the_clock_of_the_stamps(monkeypatch: pytest.MonkeyPatch):
    asked: list[int] = []

    async def here(work: Any) -> Any:
        return work()

    async def story() -> None:
        service = RepositoryService(RepositorySettings(name="r1", streams=("orders",)))
        service.machine.set_clock(HOUR_NS)
        monkeypatch.setattr(housekeeping, "monotonic", lambda: 1.0)
        monkeypatch.setattr(housekeeping, "expired", lambda *told: asked.append(told[-1]))
        rounds = Housekeeping(service.machine, MemoryStore(), {}, here, lambda _: None)
        await rounds._retain("orders", Retention(keep_s=60.0))

    asyncio.run(story())
    assert asked == [HOUR_NS + 10**9]
