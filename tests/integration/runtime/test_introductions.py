"""A broker joins a tree with nothing but an address: whoever listens there says who it is."""

import asyncio
import socket

import pytest

import holdfast
from holdfast.model.errors import ConfigError
from holdfast.runtime.broker import BrokerProcess
from holdfast.runtime.introducing import Introduction, who_is_there
from holdfast.runtime.settings import BrokerSettings
from tests.integration.support_brokers import address_of, broker_here, chain_here, until


@pytest.mark.parametrize("tolerance", [0, 1])
def test_a_broker_joins_a_running_tree_with_one_address(tolerance: int):
    async def story() -> None:
        async with chain_here(2, tolerance=tolerance) as (_, leaf):
            seeds = (("127.0.0.1", leaf.port),)
            async with broker_here("new", seeds=seeds) as new, holdfast.connect(address_of(leaf)) as publisher:
                await until(new.ready, "the newcomer serves")
                assert (new.node.status()["parent"], new.settings.tolerance) == ("b1", tolerance)
                async with holdfast.connect(address_of(new)) as subscriber:
                    inbox = await subscriber.subscribe("t")
                    await publisher.publish("t", b"x", "total")
                    assert (await inbox.get(5)).payload == b"x"
                # And it is a broker like any other: it introduces itself.
                assert await who_is_there("127.0.0.1", new.port) == Introduction("new", "ginger", tolerance)

    holdfast.run(story())


def test_asking_who_is_there_leaves_nothing_behind():
    async def story() -> None:
        async with broker_here("b0", tolerance=1) as broker:
            assert await who_is_there("127.0.0.1", broker.port) == Introduction("b0", "ginger", 1)
            await until(lambda: not broker.driver.peers, "nobody is connected")
            assert broker.node.status()["links"] == {}

    holdfast.run(story())


def test_a_newcomer_asks_the_next_address_when_nobody_answers_at_the_first():
    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            nobody = closed.getsockname()[1]
        async with broker_here("b0", tolerance=1) as root:
            seeds = (("127.0.0.1", nobody), ("127.0.0.1", root.port))
            async with broker_here("new", seeds=seeds) as new:
                await until(new.ready, "the newcomer serves")

    holdfast.run(story())


def test_somebody_who_is_no_broker_is_told_apart():
    async def story() -> None:
        async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
            with pytest.raises(OSError, match="what answers there is no broker"):
                await who_is_there("127.0.0.1", server.sockets[0].getsockname()[1])

    holdfast.run(story())


def test_whom_to_join_and_merely_where_are_not_said_together():
    async def story() -> None:
        settings = BrokerSettings(name="b", parent="a", addresses={"a": ("h", 1)}, seeds=(("h", 1),))
        with pytest.raises(ConfigError, match="both whom to join and merely where"):
            BrokerProcess(settings)

    holdfast.run(story())
