"""Connections break at random, in the middle of frames, everywhere: nothing is lost, repeated or reordered."""

import asyncio
from contextlib import AsyncExitStack, suppress
from random import Random
from typing import Any

import pytest

import holdfast
from holdfast.model.trace import Event
from holdfast.simulation.checkers import check
from tests.integration.support_brokers import QUICK, address_of, broker_here, until
from tests.integration.support_proxy import BreakingProxy

GUARANTEES: tuple[holdfast.GuaranteeName, ...] = ("eventual", "fifo", "causal", "total")
MESSAGES = 400


async def _chain_behind_proxies(stack: AsyncExitStack, seed: int) -> tuple[list[str], list[BreakingProxy]]:
    """Three brokers, a proxy on each link between them and one before each; the addresses that clients use."""
    proxies: list[BreakingProxy] = []
    addresses: list[str] = []
    above: dict[str, Any] = {}
    for index in range(3):
        broker = await stack.enter_async_context(broker_here(f"b{index}", **above))
        await until(broker.ready, f"b{index} is ready")
        for purpose in range(2):
            proxy = BreakingProxy(broker.port, seed=100 * seed + 10 * index + purpose)
            proxies.append(await stack.enter_async_context(proxy))
        addresses.append(f"holdfast://127.0.0.1:{proxies[-2].port}")
        above = {"parent": f"b{index}", "addresses": {f"b{index}": ("127.0.0.1", proxies[-1].port)}}
    return addresses, proxies


async def _publish(client: holdfast.Client, seed: int) -> None:
    """Messages of every size, guarantee, topic and number of keys, with pauses in which connections may break."""
    random = Random(f"{seed}/{client.name}")
    for number in range(MESSAGES):
        guarantee = random.choices(GUARANTEES, (3, 3, 3, 1))[0]
        keys = random.sample(["k0", "k1", "k2"], random.choice([0, 1, 1, 2]))
        payload = b"%d " % number * random.choice([1, 10, 200])
        await client.publish(f"t/{random.randrange(3)}", payload, guarantee, keys=keys)
        if random.random() < 0.2:
            await asyncio.sleep(0)
        if random.random() < 0.05:
            await client.flush()


async def _read(subscription: holdfast.Subscription, count: int) -> None:
    for _ in range(count):
        await subscription.__anext__()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nothing_is_lost_repeated_or_reordered_while_connections_break(seed: int):
    rows: list[Event] = []

    async def story():
        async with AsyncExitStack() as stack:
            addresses, proxies = await _chain_behind_proxies(stack, seed)
            clients = [
                await stack.enter_async_context(
                    holdfast.connect(addresses[index % 3], name=f"c{index}", trace=rows.append, link=QUICK)
                )
                for index in range(4)
            ]
            subscriptions = [await client.subscribe("t/#") for client in clients]
            async with asyncio.timeout(40), asyncio.TaskGroup() as group:
                for client, subscription in zip(clients, subscriptions, strict=True):
                    group.create_task(_publish(client, seed))
                    group.create_task(_read(subscription, MESSAGES * len(clients)))
            return check(rows), [proxy.breaks for proxy in proxies]

    verdict, breaks = holdfast.run(story())
    assert verdict.ok, verdict.examples
    assert verdict.deliveries == 4 * 4 * MESSAGES
    # The proxy before b2's own children has nobody behind it; every other one has broken connections.
    assert sum(count > 0 for count in breaks) == 5, breaks


def test_requests_survive_a_connection_that_breaks_while_they_wait():
    async def story():
        async with broker_here() as broker, BreakingProxy(broker.port, seed=5, mean_bytes=150) as proxy:
            async with holdfast.connect(f"holdfast://127.0.0.1:{proxy.port}", name="alice", link=QUICK) as alice:
                inbox = await alice.subscribe("a/+")
                for number in range(20):
                    await (await alice.publish(f"a/{number}", b"x" * 50, "total")).confirmed()
                    assert (await inbox.get(10)).seq == number + 1
                await inbox.unsubscribe()
            assert proxy.breaks > 10

    holdfast.run(story())


def test_a_session_that_nobody_answers_any_more_is_lost_with_an_error_that_says_what_is_in_doubt():
    async def story():
        async with broker_here() as broker:
            alice = await holdfast.connect(address_of(broker), name="alice", link=QUICK, give_up_s=0.2)
            inbox = await alice.subscribe("#")
            await (await alice.publish("a", b"1")).accepted()
            await until(lambda: broker.node.status()["clients"] == ["alice"], "alice is there")
            # The broker forgets everything and its successor on the same port knows no session.
            port = broker.port
        async with broker_here(port=port):
            with pytest.raises(holdfast.SessionLost, match="alice lost its session"):
                await _publish_and_flush(alice)
            assert (await inbox.get(1)).payload == b"1"
            with pytest.raises(holdfast.SessionLost):
                await inbox.get(1)
            with pytest.raises(holdfast.SessionLost) as lost:
                await alice.publish("a", b"3")
            assert lost.value.outcome == "may have happened"
            with suppress(holdfast.SessionLost):
                await alice.close()

    async def _publish_and_flush(client: holdfast.Client) -> None:
        await client.publish("a", b"2")
        await client.flush()

    holdfast.run(story())


def test_before_the_first_attachment_every_address_is_tried():
    async def story():
        async with broker_here("b0", cluster="other") as stranger, broker_here("b1") as broker:
            nobody = "holdfast://127.0.0.1:1"
            async with holdfast.connect([nobody, address_of(stranger), address_of(broker)], link=QUICK) as client:
                assert client.broker == "b1"

    holdfast.run(story())
