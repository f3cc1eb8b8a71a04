"""Durable subscriptions whose application acknowledges each message, through a real broker."""

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.client.manual import ManualSubscription
from holdfast.model.errors import LocalMisuse, Refused
from tests.integration.cluster.test_examples import output_of
from tests.integration.reliable.bundles import (
    PATIENCE_S,
    bundle_of_processes,
    connected,
    payload_of,
    repository_here,
    until_it_has,
)
from tests.integration.reliable.bundles import publish as publish_from
from tests.integration.reliable.test_durable import publish
from tests.integration.support_brokers import address_of, broker_here
from tests.tidy.sources import ROOT

READER = Path(__file__).with_name("acking_reader.py")


async def manual(client: holdfast.Client, **how: Any) -> ManualSubscription:
    return await client.subscribe("bank/#", durable="billing", ack="manual", **how)


async def take(orders: holdfast.Subscription, count: int) -> list[holdfast.Message]:
    return [await orders.get(PATIENCE_S) for _ in range(count)]


def told(messages: list[holdfast.Message]) -> list[tuple[int, int]]:
    """The number of each message, and how often it was handed out."""
    return [(int(one.payload), one.delivery_count) for one in messages]


def test_what_is_not_acknowledged_comes_to_the_next_reader_and_nothing_else_does():
    async def story() -> None:
        async with broker_here() as broker, repository_here(broker), holdfast.connect(address_of(broker)) as client:
            await publish(client, 1, 10)
            async with await manual(client) as orders:
                messages = await take(orders, 10)
                assert told(messages) == [(number, 1) for number in range(1, 11)]
                assert not any(one.redelivered for one in messages)
                for number in (3, 1, 7):
                    await messages[number - 1].ack()
                assert orders.unacknowledged == 7
                messages[9].ack()  # It counts whether it is waited for or not.
            async with await manual(client) as orders:
                again = await take(orders, 6)
                assert told(again) == [(number, 2) for number in (2, 4, 5, 6, 8, 9)]
                assert all(one.redelivered for one in again)
                await again[-1].ack(cumulative=True)
                assert orders.unacknowledged == 0
            await publish(client, 11, 11)
            assert told(await take(await manual(client), 1)) == [(11, 1)]

    holdfast.run(story())


def test_a_message_that_is_given_back_comes_again_and_its_followers_behind_it():
    async def story() -> None:
        async with broker_here() as broker, repository_here(broker), holdfast.connect(address_of(broker)) as client:
            await publish(client, 1, 5)
            orders = await manual(client)
            messages = await take(orders, 3)
            messages[0].nack(delay_s=0.2)
            await messages[1].ack()
            # 3 was handed out behind 1; 4 and 5 were not, and wait.
            assert told(await take(orders, 4)) == [(1, 2), (3, 2), (4, 1), (5, 1)]
            # Whoever held it before has no say any more.
            messages[0].nack()
            with pytest.raises(TimeoutError):
                await orders.get(0.3)

    holdfast.run(story())


def test_messages_that_are_given_back_hold_up_their_keys_alone_if_asked():
    async def story() -> None:
        async with broker_here() as broker, repository_here(broker), holdfast.connect(address_of(broker)) as client:
            for number, key in enumerate(("a", "b", "a", "b"), 1):
                await (await client.publish("bank/a", b"%d" % number, keys=[key], durable=True)).stored()
            orders = await manual(client, redeliver="key")
            [first] = await take(orders, 1)
            first.nack(delay_s=0.3)
            assert told(await take(orders, 4)) == [(2, 1), (4, 1), (1, 2), (3, 1)]

    holdfast.run(story())


def test_no_more_are_handed_out_than_may_be_unacknowledged():
    async def story() -> None:
        async with broker_here() as broker, repository_here(broker), holdfast.connect(address_of(broker)) as client:
            await publish(client, 1, 5)
            orders = await manual(client, unacked_max=2)
            messages = await take(orders, 2)
            with pytest.raises(TimeoutError):
                await orders.get(0.3)
            await messages[1].ack()
            assert told(await take(orders, 1)) == [(3, 1)]

    holdfast.run(story())


def test_several_tasks_take_and_answer_in_any_order_and_everything_is_done_once():
    async def story() -> None:
        async with broker_here() as broker, repository_here(broker), holdfast.connect(address_of(broker)) as client:
            await publish(client, 1, 300)
            orders, done = await manual(client), list[int]()

            async def work() -> None:
                async for message in orders:
                    await asyncio.sleep(0)
                    done.append(int(message.payload))
                    await message.ack()
                    if len(done) == 300:
                        await orders.unsubscribe()

            async with asyncio.timeout(PATIENCE_S):
                await asyncio.gather(*(work() for _ in range(8)))
            assert sorted(done) == list(range(1, 301))

    holdfast.run(story())


def test_an_acknowledgement_of_a_reader_that_was_replaced_is_refused():
    async def story() -> None:
        async with broker_here() as broker, repository_here(broker), holdfast.connect(address_of(broker)) as client:
            await publish(client, 1, 2)
            before = await manual(client)
            messages = await take(before, 2)
            await messages[0].ack()
            async with holdfast.connect(address_of(broker)) as other:
                after = await manual(other)
                with pytest.raises(Refused, match="somebody else reads bank/# as billing now"):
                    await messages[1].ack()
                assert told(await take(after, 1)) == [(2, 2)]

    holdfast.run(story())


def test_who_answers_what_is_acknowledged_by_itself_is_told_how_to_subscribe():
    async def story() -> None:
        async with broker_here() as broker, repository_here(broker), holdfast.connect(address_of(broker)) as client:
            await publish(client, 1, 1)
            plain, durable = await client.subscribe("bank/#"), await client.subscribe("bank/#", durable="auto")
            await client.publish("bank/a", b"x")
            for automatic in (plain, durable):
                message = await automatic.get(PATIENCE_S)
                with pytest.raises(LocalMisuse, match='by itself; subscribe with durable=NAME, ack="manual" to answer'):
                    await message.ack()
                with pytest.raises(LocalMisuse, match=r"nack\(delay_s=2\) was called on message"):
                    message.nack(delay_s=2)
            with pytest.raises(LocalMisuse, match="only a durable subscription"):
                await client.subscribe("bank/#", ack="manual")  # type: ignore[call-overload]
            with pytest.raises(LocalMisuse, match='ack is "auto" or "manual"'):
                await client.subscribe("bank/#", durable="x", ack="never")  # type: ignore[call-overload]
            with pytest.raises(LocalMisuse, match='go with ack="manual" alone'):
                await client.subscribe("bank/#", durable="x", unacked_max=3)  # type: ignore[call-overload]
            with pytest.raises(LocalMisuse, match="unacked_max is from 1 to 2048, not 0"):
                await client.subscribe("bank/#", durable="x", ack="manual", unacked_max=0)
            with pytest.raises(TypeError, match="unexpected keyword argument 'acks'"):
                await client.subscribe("bank/#", acks="manual")  # type: ignore[call-overload]
            orders = await manual(client)
            [message] = await take(orders, 1)
            with pytest.raises(LocalMisuse, match="entries have no ack"):
                orders.entries()
            with pytest.raises(LocalMisuse, match="delay_s is from 0"):
                message.nack(delay_s=-1)
            await orders.unsubscribe()
            with pytest.raises(LocalMisuse, match=r"has ended: message [0-9]+ of .* was not answered, and comes to"):
                message.ack()

    holdfast.run(story())


def test_messages_are_acknowledged_without_asyncio():
    ready, over = threading.Event(), threading.Event()
    where: list[str] = []

    async def serve() -> None:
        async with broker_here() as broker, repository_here(broker):
            where.append(address_of(broker))
            ready.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: holdfast.run(serve()))
    thread.start()
    try:
        assert ready.wait(PATIENCE_S)
        with holdfast.connect_sync(where[0]) as client:
            receipts = [client.publish("bank/a", b"%d" % number, durable=True) for number in range(1, 6)]
            receipts[-1].stored(PATIENCE_S)
            with client.subscribe("bank/#", durable="billing", ack="manual") as orders:
                messages = [orders.get(PATIENCE_S) for _ in range(5)]
                messages[1].ack()
                messages[3].ack()
                messages[0].nack()
                assert told([orders.get(PATIENCE_S) for _ in range(3)]) == [(1, 2), (3, 2), (5, 2)]
            with client.subscribe("bank/#", durable="billing", ack="manual") as orders:
                assert told([orders.get(PATIENCE_S) for _ in range(3)]) == [(1, 3), (3, 3), (5, 3)]
    finally:
        over.set()
        thread.join()


def killed_after_its_acknowledgements(address: str, count: int) -> None:
    """A reader takes so many messages, acknowledges every other one, and is killed."""
    command = [sys.executable, str(READER), address, str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"acknowledged\n"
        reader.kill()


@pytest.mark.parametrize("crash", ["reader", "reader and its repository"])
def test_a_reader_that_is_killed_leaves_to_the_next_what_it_had_not_acknowledged(tmp_path: Path, crash: str):
    stores = {name: f"segments:{tmp_path / name}" for name in ("r1", "r2")}
    count = 40

    async def story() -> None:
        async with bundle_of_processes(tmp_path, stores) as processes, connected(processes, "alice") as alice:
            await publish_from(alice, 1, count)
            for name in stores:
                await until_it_has(processes, name, count)
            if crash != "reader":
                processes.dismiss("r2")
            await asyncio.to_thread(killed_after_its_acknowledgements, processes.cluster.broker("1").address, count)
            if crash != "reader":
                processes.crash("r1")
                processes.restart("r1")
            orders = await manual(alice)
            again = await take(orders, count // 2)
            assert [one.payload for one in again] == [payload_of("alice", number) for number in range(2, count + 1, 2)]
            assert {one.delivery_count for one in again} == {2}
            await again[-1].ack(cumulative=True)
            await publish_from(alice, count + 1, count + 1)
            assert [one.payload for one in await take(orders, 1)] == [payload_of("alice", count + 1)]

    holdfast.run(story())


def test_the_worker_of_the_examples_does_every_order_and_one_of_them_at_the_second_attempt():
    async def story() -> list[str]:
        async with broker_here() as broker, repository_here(broker):
            return await asyncio.to_thread(output_of, ROOT / "examples" / "worker.py", address_of(broker))

    assert holdfast.run(story()) == [
        "one: done, attempt 1",
        "two: the printer has no paper",
        "two: done, attempt 2",
        "three: done, attempt 1",
    ]
