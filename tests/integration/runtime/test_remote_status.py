"""The status of a cluster that is known by one address only."""

import asyncio
import logging
import socket

import pytest

import holdfast
from holdfast.cluster.remote_status import ask, remote_status
from holdfast.cluster.status import ClusterStatus
from holdfast.model.errors import ConfigError
from tests.integration.support_brokers import broker_here, chain_here, until

HERE = "127.0.0.1"


def tree(seen: ClusterStatus) -> dict[str, tuple[str | None, bool]]:
    return {broker.name: (broker.parent, broker.ready) for broker in seen.brokers}


WHOLE = {"b0": (None, True), "b1": ("b0", True), "b2": ("b1", True)}


@pytest.mark.parametrize("asked", [0, 1, 2])
def test_the_port_of_any_broker_leads_to_all_where_brokers_know_the_tree_around_them(asked: int):
    async def story() -> None:
        async with chain_here(3, tolerance=1, health_port=0) as brokers:
            seen = await remote_status([(HERE, brokers[asked].port)])
            assert (seen.cluster, seen.protocol, tree(seen)) == ("holdfast", "ginger", WHOLE)
            assert {broker.address for broker in seen.brokers} == {f"holdfast://{HERE}:{one.port}" for one in brokers}

    holdfast.run(story())


def test_a_health_endpoint_leads_to_all_as_well():
    async def story() -> None:
        async with chain_here(3, health_port=0) as brokers:
            assert tree(await remote_status([(HERE, brokers[2].health_port)])) == WHOLE

    holdfast.run(story())


def test_a_child_whose_place_nobody_was_told_is_named_and_counts_as_not_ready():
    async def story() -> None:
        async with chain_here(2, health_port=0) as (root, child):
            seen = await remote_status([(HERE, root.port)])
            assert tree(seen) == {"b0": (None, True), "b1": (None, False)}
            assert seen.silent()[0].reason == "is below b0, which does not know where it listens"
            both = await remote_status([(HERE, root.port), (HERE, child.port)])
            assert tree(both) == {"b0": (None, True), "b1": ("b0", True)}

    holdfast.run(story())


def test_a_broker_that_has_gone_is_shown_where_it_was():
    async def story() -> None:
        with socket.create_server((HERE, 0)) as closed:
            nobody = closed.getsockname()[1]
        async with broker_here("b0", health_port=0, neighbours={"b1": (HERE, nobody)}) as root:
            [_, gone] = (await remote_status([(HERE, root.port)])).brokers
            assert (gone.name, gone.answers, gone.reason) == ("b1", False, "nobody is listening there")

    holdfast.run(story())


def test_a_broker_without_a_health_endpoint_says_who_it_is_and_nothing_more():
    async def story() -> None:
        async with broker_here("b0") as root:
            answer = await ask((HERE, root.port))
            assert (answer.name, answer.reason) == ("b0", "has no health endpoint; start it with --health-port")
            with pytest.raises(holdfast.ConnectionFailed, match="no broker says how its cluster is"):
                await remote_status([(HERE, root.port)])

    holdfast.run(story())


def test_two_clusters_at_once_are_refused():
    async def story() -> None:
        async with broker_here("b0", health_port=0) as one, broker_here("c0", health_port=0, cluster="sea") as other:
            with pytest.raises(ConfigError, match="several clusters"):
                await remote_status([(HERE, one.port), (HERE, other.port)])

    holdfast.run(story())


def test_a_broker_that_is_asked_who_it_is_warns_of_nothing_and_keeps_no_connection(caplog: pytest.LogCaptureFixture):
    async def story() -> None:
        async with broker_here("b0", health_port=0) as root:
            await remote_status([(HERE, root.port)])
            await until(lambda: not root.driver.peers, "nobody is connected")
            assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []

    holdfast.run(story())


def test_bytes_that_are_no_http_are_refused_at_once_by_a_health_endpoint():
    async def story() -> None:
        async with broker_here("b0", health_port=0) as root:
            reader, writer = await asyncio.open_connection(HERE, root.health_port)
            writer.write(b"\x80\x00\x02")
            assert (await reader.readline()).startswith(b"HTTP/1.1 400 ")
            writer.close()

    holdfast.run(story())
