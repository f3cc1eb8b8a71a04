"""Bits flip between clients and brokers and between brokers: nothing altered is delivered, and everything arrives."""

import asyncio
import logging
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest

import holdfast
from holdfast.model.trace import Event
from holdfast.simulation.checkers import check
from tests.integration.support_brokers import QUICK, BrokerChild, broker_here, fields_logged, serving_child, until
from tests.integration.support_proxy import FlippingProxy

GUARANTEES: tuple[holdfast.GuaranteeName, ...] = ("eventual", "fifo", "causal", "total")
MESSAGES = 300
CLIENTS = 4
Said = tuple[str, bytes, str, tuple[str, ...], dict[str, Any]]
"""All that a message says beside its identity."""


class Papers:
    """What clients say that they published, and what others say that they got."""

    def __init__(self) -> None:
        self.published: dict[tuple[str, int], Said] = {}
        self.deliveries = 0
        self.altered: list[str] = []
        self.rows: list[Event] = []

    async def publish(self, client: holdfast.Client, seed: int) -> None:
        """Messages of every size, guarantee and topic, with keys and attributes, by themselves and in batches."""
        random = Random(f"{seed}/{client.name}")
        for number in range(MESSAGES):
            guarantee = random.choices(GUARANTEES, (3, 3, 3, 1))[0]
            keys = tuple(random.sample(["k0", "k1", "k2"], random.choice([0, 1, 1, 2]))) or ("k3",)
            attributes = {"number": number, "half": number / 2} if random.random() < 0.3 else {}
            topic, payload = f"t/{random.randrange(3)}", b"%d " % number * random.choice([1, 10, 200])
            receipt = await client.publish(topic, payload, guarantee, keys=keys, attributes=attributes)
            self.published[client.name, receipt.seq] = (topic, payload, guarantee, keys, attributes)
            if random.random() < 0.2:
                await asyncio.sleep(0)

    async def read(self, subscription: holdfast.Subscription) -> None:
        for _ in range(MESSAGES * CLIENTS):
            got = await subscription.__anext__()
            self.deliveries += 1
            said = (got.topic, got.payload, got.guarantee, got.keys, got.attributes)
            if self.published.get((got.publisher, got.seq)) != said:
                self.altered.append(f"{got.publisher}#{got.seq}: {got}"[:300])


async def exchange(addresses: list[str], seed: int) -> Papers:
    """Clients publish to each other until everybody has everything."""
    papers = Papers()
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                holdfast.connect(
                    addresses[index % len(addresses)], name=f"c{index}", trace=papers.rows.append, link=QUICK
                )
            )
            for index in range(CLIENTS)
        ]
        subscriptions = [await client.subscribe("t/#") for client in clients]
        async with asyncio.timeout(50), asyncio.TaskGroup() as group:
            for client, subscription in zip(clients, subscriptions, strict=True):
                group.create_task(papers.publish(client, seed))
                group.create_task(papers.read(subscription))
    return papers


def closings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Why connections were closed, as the log says."""
    fields = fields_logged(caplog, "connection closed")
    return [one["reason"] for one in fields]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nothing_altered_is_delivered_and_nothing_is_lost(seed: int, caplog: pytest.LogCaptureFixture):
    async def story():
        async with AsyncExitStack() as stack:
            proxies: list[FlippingProxy] = []
            addresses: list[str] = []
            above: dict[str, Any] = {}
            for index in range(3):
                broker = await stack.enter_async_context(broker_here(f"b{index}", **above))
                await until(broker.ready, f"b{index} is ready")
                for purpose in range(2):
                    proxy = FlippingProxy(broker.port, 100 * seed + 10 * index + purpose)
                    proxies.append(await stack.enter_async_context(proxy))
                addresses.append(f"holdfast://127.0.0.1:{proxies[-2].port}")
                above = {"parent": f"b{index}", "addresses": {f"b{index}": ("127.0.0.1", proxies[-1].port)}}
            return await exchange(addresses, seed), [proxy.flips for proxy in proxies]

    with caplog.at_level(logging.WARNING, "holdfast"):
        papers, flips = holdfast.run(story())
    assert papers.altered == []
    verdict = check(papers.rows)
    assert verdict.ok, verdict.examples
    assert papers.deliveries == verdict.deliveries == CLIENTS * CLIENTS * MESSAGES
    # The proxy before b2's own children has nobody behind it.
    assert sum(count > 0 for count in flips) == 5, flips
    assert any("does not have the checksum that it came with" in reason for reason in closings(caplog))


def test_bits_that_flip_while_names_and_sessions_are_exchanged_cost_an_attempt_and_nothing_else():
    """Thirty flips within a Hello's or a Welcome's length of each other: most connections end before they begin."""

    async def story():
        async with broker_here() as broker, FlippingProxy(broker.port, seed=5, mean_bytes=100, flips_max=30) as proxy:
            async with holdfast.connect(f"holdfast://127.0.0.1:{proxy.port}", name="alice", link=QUICK) as alice:
                inbox = await alice.subscribe("a/+")
                for number in range(20):
                    await (await alice.publish(f"a/{number}", b"%d" % number, "total")).confirmed()
                    assert (await inbox.get(10)).payload == b"%d" % number
                assert broker.node.status()["clients"] == ["alice"]
            assert proxy.flips == 30

    holdfast.run(story())


def test_brokers_that_are_processes_end_connections_with_a_sentence_and_go_on(tmp_path: Path):
    async def story():
        async with AsyncExitStack() as stack:
            brokers: list[BrokerChild] = []
            addresses: list[str] = []
            above: dict[str, Any] = {}
            for index in range(2):
                broker = await stack.enter_async_context(serving_child(tmp_path, name=f"b{index}", **above))
                brokers.append(broker)
                near = await stack.enter_async_context(FlippingProxy(broker.port, seed=10 * index))
                between = await stack.enter_async_context(FlippingProxy(broker.port, seed=10 * index + 1))
                addresses.append(f"holdfast://127.0.0.1:{near.port}")
                above = {"parent": f"b{index}", "addresses": {f"b{index}": ("127.0.0.1", between.port)}}
            papers = await exchange(addresses, seed=7)
            assert all(broker.running for broker in brokers)
            return papers, [line.get("reason", "") for broker in brokers for line in broker.lines()]

    papers, reasons = holdfast.run(story())
    assert papers.altered == []
    verdict = check(papers.rows)
    assert verdict.ok, verdict.examples
    assert papers.deliveries == CLIENTS * CLIENTS * MESSAGES
    assert any("does not have the checksum that it came with" in reason for reason in reasons)
