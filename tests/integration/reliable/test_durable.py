"""Reliable topics through a real broker, in one process: durable publications, durable subscriptions, refusals."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

import holdfast
from holdfast.client.durable import DurableSubscription
from holdfast.client.durable_publishers import DurableReceipt
from holdfast.client.errors import ConnectionFailed
from holdfast.cluster.ports import free_port_pairs
from holdfast.model.errors import LocalMisuse, Refused, TopicError
from holdfast.protocols.narada import Registration
from holdfast.protocols.narada.directory import ASKING_TOPIC, answer
from tests.integration.reliable.bundles import repository_here
from tests.integration.support_brokers import address_of, broker_here, until


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last + 1)]


async def publish(client: holdfast.Client, first: int, last: int, topic: str = "bank/a") -> None:
    receipts = [await client.publish(topic, payload, durable=True) for payload in numbers(first, last)]
    await receipts[-1].stored()
    assert {receipt.level for receipt in receipts} == {"stored"}


async def read(subscription: holdfast.Subscription, count: int) -> list[bytes]:
    return [(await subscription.get(10)).payload for _ in range(count)]


def test_what_was_published_before_anybody_came_is_read_in_order_and_then_what_comes():
    async def story() -> None:
        async with broker_here() as broker, repository_here(broker), holdfast.connect(address_of(broker)) as client:
            await publish(client, 1, 100)
            late = await client.subscribe("bank/#", durable="late")
            assert await read(late, 100) == numbers(1, 100)
            await publish(client, 101, 101, "bank/b")
            assert await read(late, 1) == numbers(101, 101)

    holdfast.run(story())


def test_a_receipt_says_how_safely_the_message_is_stored():
    async def story() -> None:
        async with broker_here() as broker, repository_here(broker), holdfast.connect(address_of(broker)) as client:
            receipt = await client.publish("bank/a", b"x", durable=True)
            assert receipt.level == "sent"
            await receipt.stored()
            assert isinstance(receipt, DurableReceipt)
            assert receipt.storage == "fsynced by one repository"
            assert (await receipt.accepted()).seq >= 1
            assert (await receipt.confirmed()).level == "confirmed"
            with pytest.raises(LocalMisuse, match="without durable=True"):
                await (await client.publish("bank/a", b"x")).stored()

    holdfast.run(story())


def test_whoever_comes_later_reads_under_a_name_and_the_one_before_learns_it():
    async def story() -> None:
        async with broker_here() as broker, repository_here(broker), holdfast.connect(address_of(broker)) as client:
            await publish(client, 1, 3)
            first = await client.subscribe("bank/#", durable="billing")
            assert await read(first, 2) == numbers(1, 2)
            async with holdfast.connect(address_of(broker)) as other:
                second = await other.subscribe("bank/#", durable="billing")
                with pytest.raises(Refused, match="somebody else reads bank/# as billing now"):
                    await read(first, 4)
                await publish(client, 4, 5)
                # What the first one has not acknowledged yet comes again.
                got = await read(second, 3)
                while got[-1] != b"5":
                    got += await read(second, 1)
                assert got == numbers(int(got[0]), 5)

    holdfast.run(story())


def test_who_comes_back_under_the_same_name_goes_on_behind_the_last_message_that_it_took():
    async def story() -> None:
        async with broker_here() as broker, repository_here(broker), holdfast.connect(address_of(broker)) as client:
            await publish(client, 1, 50)
            async with client.subscribe("bank/#", durable="billing") as today:
                assert await read(today, 20) == numbers(1, 20)
            await publish(client, 51, 60)
            async with holdfast.connect(address_of(broker)) as other:
                tomorrow = await other.subscribe("bank/#", durable="billing")
                assert await read(tomorrow, 40) == numbers(21, 60)

    holdfast.run(story())


def test_a_subscription_may_begin_at_a_sequence_number_at_a_time_or_now():
    async def story() -> None:
        async with broker_here() as broker, repository_here(broker), holdfast.connect(address_of(broker)) as client:
            await publish(client, 1, 30)
            between = datetime.now(UTC)
            await publish(client, 31, 40)
            from_21 = await client.subscribe("bank/#", durable="one", start=21)
            assert await read(from_21, 20) == numbers(21, 40)
            since = await client.subscribe("bank/#", durable="two", start=between)
            assert await read(since, 10) == numbers(31, 40)
            live = await client.subscribe("bank/#", durable="three", start="live")
            await publish(client, 41, 41)
            assert await read(live, 1) == numbers(41, 41)
            with pytest.raises(LocalMisuse, match="begins at 'start'"):
                await client.subscribe("bank/#", durable="four", start="noon")

    holdfast.run(story())


def test_only_messages_that_the_filter_lets_through_are_read():
    async def story() -> None:
        async with broker_here() as broker, repository_here(broker), holdfast.connect(address_of(broker)) as client:
            for amount in (50, 150, 70, 200):
                receipt = await client.publish("bank/a", b"%d" % amount, attributes={"amount": amount}, durable=True)
                await receipt.stored()
            large = await client.subscribe("bank/#", where="amount > 100", durable="large")
            assert await read(large, 2) == [b"150", b"200"]

    holdfast.run(story())


def test_a_topic_that_nobody_keeps_cannot_be_published_to_durably(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("holdfast.client.durable.FIND_S", 0.6)

    async def story() -> None:
        async with broker_here() as broker, repository_here(broker), holdfast.connect(address_of(broker)) as client:
            with pytest.raises(LocalMisuse, match="keeps a stream which covers 'shop/a'"):
                await client.publish("shop/a", b"x", durable=True)

    holdfast.run(story())


def test_who_is_not_registered_by_the_owner_is_refused_definitely():
    owners = (Registration("bank/#", "bank", 1, ("alice",), ("billing",)),)

    async def story() -> None:
        async with broker_here() as broker, repository_here(broker, owners=owners):
            async with holdfast.connect(address_of(broker), name="alice") as alice:
                await publish(alice, 1, 3)
                billing = await alice.subscribe("bank/#", durable="billing")
                assert await read(billing, 3) == numbers(1, 3)
                with pytest.raises(Refused, match="has not registered curious to subscribe"):
                    await alice.subscribe("bank/#", durable="curious")
            mallory = await holdfast.connect(address_of(broker), name="mallory")
            receipt = await mallory.publish("bank/a", b"x", durable=True)
            with pytest.raises(Refused, match="has not registered mallory to publish"):
                await receipt.stored()
            with pytest.raises(Refused):
                await mallory.close()

    holdfast.run(story())


@pytest.mark.parametrize("kind", ["sqlite", "segments"])
def test_a_repository_that_begins_again_has_everything_that_it_acknowledged(tmp_path: Path, kind: str):
    store = f"{kind}:{tmp_path / 'kept'}"

    async def story() -> None:
        async with broker_here() as broker, holdfast.connect(address_of(broker)) as client:
            async with repository_here(broker, store=store):
                await publish(client, 1, 200)
            async with repository_here(broker, store=store):
                everything = await client.subscribe("bank/#", durable="all")
                assert await read(everything, 200) == numbers(1, 200)
                await publish(client, 201, 210)
                assert await read(everything, 10) == numbers(201, 210)

    holdfast.run(story())


def test_when_the_steering_repository_is_gone_another_one_takes_over_without_gap_or_repeat():
    async def story() -> None:
        async with (
            broker_here() as broker,
            repository_here(broker, "r1") as one,
            repository_here(broker, "r2") as two,
            holdfast.connect(address_of(broker)) as client,
        ):
            reader = await client.subscribe("bank/#", durable="reader")
            assert isinstance(reader, DurableSubscription)
            await publish(client, 1, 100)
            assert await read(reader, 100) == numbers(1, 100)
            await {"r1": one, "r2": two}[reader.repository].close()
            await publish(client, 101, 200)
            assert await read(reader, 100) == numbers(101, 200)

    holdfast.run(story())


def test_a_new_repository_gets_what_was_stored_before_it_came():
    async def story() -> None:
        async with (
            broker_here() as broker,
            holdfast.connect(address_of(broker)) as client,
            repository_here(broker, "r1") as one,
        ):
            await publish(client, 1, 500)
            async with repository_here(broker, "r2") as two:
                await until(two.ready, "r2 has caught up")
                await one.close()
                reader = await client.subscribe("bank/#", durable="reader")
                assert await read(reader, 500) == numbers(1, 500)

    holdfast.run(story())


def test_a_repository_whose_broker_begins_anew_goes_on_with_a_new_session():
    ((port, _),) = free_port_pairs(1)

    async def story() -> None:
        async with broker_here(port=port) as first:
            service = repository_here(first)
            kept = await service.__aenter__()
            async with holdfast.connect(address_of(first)) as client:
                await publish(client, 1, 10)
        async with broker_here(port=port) as second, holdfast.connect(address_of(second)) as client:
            async with asyncio.timeout(20):
                await publish(client, 11, 20)
            everything = await client.subscribe("bank/#", durable="all")
            assert sorted(await read(everything, 20), key=int) == numbers(1, 20)
            assert kept.ready()
            await service.__aexit__(None, None, None)

    holdfast.run(story())


def test_a_subscription_that_is_forgotten_begins_anew_and_holds_nothing_up():
    async def story() -> None:
        async with (
            broker_here() as broker,
            repository_here(broker) as kept,
            holdfast.connect(address_of(broker)) as client,
        ):
            await publish(client, 1, 3)
            billing = await client.subscribe("bank/#", durable="billing")
            assert await read(billing, 3) == numbers(1, 3)
            with pytest.raises(LocalMisuse, match="is being read here; unsubscribe first"):
                await client.forget_subscription("billing", "bank/#")
            await billing.unsubscribe()
            await client.forget_subscription("billing", "bank/#")
            await client.forget_subscription("nobody", "bank/#")
            assert kept.machine.streams["bank/#"].dissemination.subscriptions == {}
            again = await client.subscribe("bank/#", durable="billing")
            assert await read(again, 3) == numbers(1, 3)

    holdfast.run(story())


def test_what_is_published_on_a_topic_that_was_declared_reliable_is_stored_unless_it_says_otherwise():
    async def story() -> None:
        async with (
            broker_here() as broker,
            repository_here(broker),
            holdfast.connect(address_of(broker), reliable="bank/+") as client,
        ):
            assert (await client.publish("shop/a", b"x")).level != "stored"
            first = await client.publish("bank/a", b"1")
            assert isinstance(first, DurableReceipt)
            for payload in (b"2", b"3"):
                await client.publish("bank/a", payload)
            await client.publish("bank/a", b"not stored", durable=False)
            await client.publish("bank/a", b"4", attributes={"amount": 1})
            last = await client.publish_many("bank/a", [b"5", b"6"], "total", keys=["k"])
            assert last is not None
            await last.stored()
            with pytest.raises(LocalMisuse, match="without durable=True"):
                await (await client.publish("bank/a/deeper", b"not stored")).stored()
            everything = await client.subscribe("bank/#", durable="all")
            assert await read(everything, 6) == numbers(1, 6)

    holdfast.run(story())


def test_only_what_can_be_kept_can_be_declared_reliable():
    with pytest.raises(TopicError, match="goes on after '#'"):
        holdfast.connect("127.0.0.1:1", reliable=["bank/#/a"])
    with pytest.raises(TopicError, match="begins with '~'"):
        holdfast.connect("127.0.0.1:1", reliable=["~narada/#"])


def test_a_client_reads_a_subscription_once_at_a_time():
    async def story() -> None:
        async with (
            broker_here() as broker,
            repository_here(broker, streams=("bank/#", "shop/#")),
            holdfast.connect(address_of(broker)) as client,
        ):
            await publish(client, 1, 3)
            async with client.subscribe("bank/#", durable="billing") as billing:
                assert await read(billing, 2) == numbers(1, 2)
                for pattern in ("bank/#", "bank/a"):
                    with pytest.raises(LocalMisuse, match="billing to bank/# is being read here; unsubscribe"):
                        await client.subscribe(pattern, durable="billing")
                await client.subscribe("bank/#", durable="audit")
                await client.subscribe("shop/#", durable="billing")
                assert await read(billing, 1) == numbers(3, 3)
            again = await client.subscribe("bank/#", durable="billing")
            await publish(client, 4, 4)
            assert await read(again, 1) == numbers(4, 4)

    holdfast.run(story())


async def hang(client: holdfast.Client) -> None:
    """Say to whoever asks that bank/# is kept here, and nothing else."""
    async for asked in await client.subscribe(ASKING_TOPIC):
        said = answer(asked.payload, client.name, ["bank/#"])
        assert said is not None
        client.publish_nowait(*said, 0)


def test_a_subscription_that_was_cancelled_or_not_answered_is_not_taken_for_one_that_is_read(
    monkeypatch: pytest.MonkeyPatch,
):
    async def story() -> None:
        async with (
            broker_here() as broker,
            holdfast.connect(address_of(broker)) as other,
            holdfast.connect(address_of(broker)) as client,
        ):
            hanging = asyncio.ensure_future(hang(other))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.subscribe("bank/#", durable="billing"), 1.0)
            monkeypatch.setattr("holdfast.client.durable.FIND_S", 1.0)
            with pytest.raises(ConnectionFailed, match="answered the subscription billing within"):
                await client.subscribe("bank/#", durable="billing")
            monkeypatch.undo()
            hanging.cancel()
            async with repository_here(broker):
                await client.forget_subscription("billing", "bank/#")

    holdfast.run(story())
