"""Light clients against a real broker: what the bench of scale loads it with."""

import asyncio

import pytest

from holdfast.cluster.bench.scale_connections import cpu_s, loaded_broker
from holdfast.cluster.workers import WorkerError


def test_light_clients_connect_subscribe_and_get_what_is_published():
    async def story() -> None:
        async with loaded_broker() as broker:
            before_s = cpu_s(broker.pid)
            await broker.do("open 20 fan/all", "opened")
            await broker.do("open 5 own/{n}", "opened")
            await broker.do("spread 3 fan/all 20", "spread")
            await broker.do("subscribe 50 many", "subscribed")
            await broker.do("stream 250 nobody", "streamed")
            assert cpu_s(broker.pid) > before_s

    asyncio.run(story())


def test_more_connections_than_the_system_allows_are_refused_with_the_limit_to_raise():
    async def story() -> None:
        async with loaded_broker() as broker:
            with pytest.raises(WorkerError, match="Raise the limit of open files"):
                await broker.do("open 100000000", "opened")

    asyncio.run(story())
