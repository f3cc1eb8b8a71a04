"""What a receipt stands for, and what a subscriber is told when its session is lost."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import holdfast
from holdfast.model.batches import Batch
from holdfast.model.trace import Event
from holdfast.protocols.edges import EdgeBroker
from holdfast.protocols.ginger import RepairingBroker
from holdfast.protocols.records import Record
from holdfast.runtime.broker import BrokerProcess
from tests.integration.support_brokers import address_of, broker_here, chain_here, serving_child


def test_a_receipt_says_when_tolerated_losses_cannot_take_the_message_any_more():
    async def story() -> None:
        async with chain_here(3, tolerance=1) as (*_, edge), holdfast.connect(address_of(edge)) as publisher:
            receipt = await publisher.publish("t", b"x")
            assert receipt.level == "sent"
            assert (await receipt.held()).level == "held"
            # Asked again, and of what is held long since, it answers at once.
            assert (await receipt.held()).level == "held"
            assert (await receipt.confirmed()).level == "confirmed"

    holdfast.run(story())


def test_where_nothing_is_tolerated_held_is_accepted():
    async def story() -> None:
        async with broker_here() as broker, holdfast.connect(address_of(broker)) as publisher:
            assert (await (await publisher.publish("t", b"x")).held()).level == "accepted"

    holdfast.run(story())


def test_a_client_whose_total_messages_wait_for_a_majority_closes_after_its_time_and_they_are_accepted():
    async def story() -> None:
        async with broker_here(tolerance=1, brokers=3) as broker:
            publisher = await holdfast.connect(address_of(broker), name="pub", timeout_s=0.5)
            receipt = await publisher.publish("t", b"x", "total")
            await receipt.accepted()
            await publisher.close()
            assert receipt.level == "accepted"

    holdfast.run(story())


def test_many_receipts_are_waited_for_at_once():
    async def story() -> None:
        async with chain_here(2, tolerance=1) as (_, edge), holdfast.connect(address_of(edge)) as publisher:
            receipts = [await publisher.publish("t", b"%d" % number) for number in range(50)]
            await asyncio.gather(*(receipt.held() for receipt in receipts))
            assert {receipt.level for receipt in receipts} == {"held"}

    holdfast.run(story())


def test_held_works_without_asyncio_too(tmp_path: Path):
    async def story() -> None:
        async with serving_child(tmp_path, tolerance=1) as broker:

            def blocking() -> str:
                with holdfast.connect_sync(address_of(broker)) as client:
                    return client.publish("t", b"x").held(5).level

            assert await asyncio.to_thread(blocking) == "held"

    holdfast.run(story())


@pytest.mark.parametrize("tolerance", [0, 1])
def test_a_subscriber_whose_session_is_lost_reads_what_had_come_and_then_gets_a_typed_gap(tolerance: int):
    async def story() -> None:
        rows: list[Event] = []
        async with broker_here(tolerance=tolerance) as broker:
            subscriber = await holdfast.connect(address_of(broker), name="sub", trace=rows.append, give_up_s=0.2)
            inbox = await subscriber.subscribe("t", where="n > 0")
            async with holdfast.connect(address_of(broker), name="pub") as publisher:
                receipts = [await publisher.publish("t", b"%d" % n, attributes={"n": n}) for n in range(3)]
                await receipts[-1].confirmed()
        # The broker is gone, and there is no other.
        assert [(await inbox.get(5)).payload for _ in range(2)] == [b"1", b"2"]
        with pytest.raises(holdfast.Gap, match="the subscription to 't' was owed from here on is missing") as gap:
            await inbox.get(5)
        assert (gap.value.pattern, gap.value.where, gap.value.received) == ("t", "n > 0", {"pub": 3})
        assert isinstance(gap.value, holdfast.SessionLost)
        assert [row.event for row in rows][-2:] == ["gap", "over"]
        await subscriber.close()

    holdfast.run(story())


def let_something_go(broker: BrokerProcess) -> None:
    node = broker.node
    assert isinstance(node, EdgeBroker)
    node.holes.announce("a test let something go")
    broker.driver.carry_out(node.hub.take())


@pytest.mark.parametrize("tolerance", [0, 1])
def test_a_hole_raises_one_gap_in_its_place_in_every_subscription_and_reading_goes_on(tolerance: int):
    async def story() -> None:
        rows: list[Event] = []
        async with (
            chain_here(2, tolerance=tolerance) as (root, edge),
            holdfast.connect(address_of(edge), name="sub", trace=rows.append) as subscriber,
            holdfast.connect(address_of(root), name="pub") as publisher,
        ):
            inbox, other = await subscriber.subscribe("t", where="n > 0"), await subscriber.subscribe("u")
            await (await publisher.publish("t", b"1", attributes={"n": 1})).confirmed()
            let_something_go(root)
            await (await publisher.publish("t", b"2", attributes={"n": 2})).accepted()
            assert (await inbox.get(5)).payload == b"1"
            with pytest.raises(holdfast.Gap, match="may be missing here: a test let something go") as gap:
                await inbox.get(5)
            assert (gap.value.pattern, gap.value.where, gap.value.received) == ("t", "n > 0", {"pub": 1})
            assert gap.value.goes_on
            assert (await inbox.get(5)).payload == b"2"
            with pytest.raises(holdfast.Gap):
                await anext(other)
            await publisher.publish("u", b"3")
            assert [message.payload async for message in first_of(other)] == [b"3"]
        assert [row.event for row in rows if row.event in ("deliver", "gap")] == [
            "deliver",
            "gap",
            "deliver",
            "deliver",
        ]

    holdfast.run(story())


async def first_of(subscription: holdfast.Subscription) -> AsyncIterator[holdfast.Message]:
    async for message in subscription:
        yield message
        return


def test_two_holes_with_nothing_between_them_are_one_gap():
    async def story() -> None:
        async with broker_here() as broker, holdfast.connect(address_of(broker)) as client:
            inbox = await client.subscribe("t")
            let_something_go(broker)
            let_something_go(broker)
            await (await client.publish("t", b"1")).accepted()
            with pytest.raises(holdfast.Gap):
                await inbox.get(5)
            assert (await inbox.get(5)).payload == b"1"

    holdfast.run(story())


def test_a_hole_is_one_gap_without_asyncio_too():
    async def story() -> None:
        async with broker_here() as broker:
            loop = asyncio.get_running_loop()

            def blocking() -> list[bytes]:
                with holdfast.connect_sync(address_of(broker)) as client:
                    inbox = client.subscribe("t")
                    client.publish("t", b"1").confirmed(5)
                    loop.call_soon_threadsafe(let_something_go, broker)
                    seen = [inbox.get(5).payload]
                    with pytest.raises(holdfast.Gap):
                        next(inbox)
                    client.publish("t", b"2")
                    return [*seen, next(inbox).payload]

            assert await asyncio.to_thread(blocking) == [b"1", b"2"]

    holdfast.run(story())


async def line_with(stream: asyncio.StreamReader, text: bytes) -> None:
    async with asyncio.timeout(20):
        while text not in (line := await stream.readline()):
            assert line, f"{text!r} was never said"


def test_the_command_line_says_a_line_where_something_may_be_missing_and_reads_on():
    async def story() -> None:
        async with broker_here() as broker, holdfast.connect(address_of(broker)) as publisher:
            options = ["--raw", "--count", "2", "--address", address_of(broker)]
            command = [sys.executable, "-m", "holdfast", "sub", "t", *options]
            process = await asyncio.create_subprocess_exec(
                *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
            )
            assert process.stdout is not None
            assert process.stderr is not None
            await line_with(process.stderr, b"is subscribed")
            await (await publisher.publish("t", b"1")).confirmed()
            let_something_go(broker)
            await line_with(process.stderr, b"gap: messages to the subscription to 't' may be missing here")
            await publisher.publish("t", b"2")
            out, _ = await process.communicate()
            assert (process.returncode, out) == (0, b"1\n2\n")

    holdfast.run(story())


def test_a_receipt_of_what_a_subscriber_lacks_is_indefinite_and_names_it():
    async def story() -> None:
        async with (
            chain_here(2, tolerance=1) as (root, edge),
            holdfast.connect(address_of(edge), name="sub") as subscriber,
            holdfast.connect(address_of(root), name="pub") as publisher,
        ):
            inbox = await subscriber.subscribe("t", where="n > 0")
            forget(edge, b"lost")
            receipt = await publisher.publish("t", b"lost", attributes={"n": 1})
            with pytest.raises(holdfast.NotConfirmed, match="pub#1 is not confirmed: sub has not got it") as doubt:
                await receipt.confirmed()
            assert (doubt.value.lacking, doubt.value.lack, doubt.value.given_up) == (1, ("sub",), 0)
            assert isinstance(doubt.value, holdfast.Indefinite)
            assert doubt.value.outcome == "may have happened"
            assert receipt.level != "confirmed"
            # What nobody was owed, and what everybody has, is confirmed.
            assert (await (await publisher.publish("t", b"0", attributes={"n": 0})).confirmed()).level == "confirmed"
            assert (await (await publisher.publish("t", b"2", attributes={"n": 2})).confirmed()).level == "confirmed"
            assert (await inbox.get(5)).payload == b"2"

    holdfast.run(story())


def forget(broker: BrokerProcess, payload: bytes) -> None:
    """Let that broker forget to hand this message to its clients."""
    node = broker.node
    assert isinstance(node, RepairingBroker)
    deliver = node.data_path.deliver_record

    def deliver_others(client: str, record: Record, parts: list[Batch]) -> None:
        if record.batch.payloads != payload:
            deliver(client, record, parts)

    node.data_path.deliver_record = deliver_others  # type: ignore[method-assign]


@pytest.mark.parametrize("tolerance", [0, 1])
def test_a_receipt_names_a_subscriber_that_was_given_up(tolerance: int):
    async def story() -> None:
        async with (
            broker_here(tolerance=tolerance, session_s=0.3) as broker,
            holdfast.connect(address_of(broker), name="pub") as publisher,
        ):
            subscriber = await holdfast.connect(address_of(broker), name="sub", give_up_s=0.2)
            await subscriber.subscribe("t")
            await subscriber._driver.close(linger=False)  # As if it had been killed.
            receipt = await publisher.publish("t", b"1")
            with pytest.raises(holdfast.NotConfirmed, match="sub has been given up since") as doubt:
                await receipt.confirmed()
            assert (doubt.value.given_up, doubt.value.gone) == (1, ("sub",))

    holdfast.run(story())


def test_confirmed_by_the_application_waits_until_it_has_taken_every_message_of_the_batch():
    async def story() -> None:
        async with broker_here() as broker, holdfast.connect(address_of(broker), name="pub") as publisher:
            async with holdfast.connect(address_of(broker), name="sub") as subscriber:
                inbox, other = await subscriber.subscribe("t"), await subscriber.subscribe("#")
                receipts = [await publisher.publish("t", b"%d" % number) for number in range(3)]
                assert (await receipts[0].confirmed()).level == "confirmed"
                taken = asyncio.ensure_future(receipts[0].confirmed(by="application"))
                for _ in range(3):
                    assert not taken.done()
                    await inbox.get(5)
                async for messages in other.batches():
                    assert len(messages) == 3
                    break
                assert (await asyncio.wait_for(taken, 5)).level == "taken"
                with pytest.raises(holdfast.LocalMisuse, match="by 'client' or by 'application'"):
                    await receipts[1].confirmed(by="postman")  # type: ignore[arg-type]
            # A subscriber that closes is owed nothing any more.
            assert (await receipts[2].confirmed(by="application")).level == "taken"

    holdfast.run(story())


def test_confirmed_by_the_application_without_asyncio():
    async def story() -> None:
        async with broker_here() as broker:

            def blocking() -> str:
                with (
                    holdfast.connect_sync(address_of(broker)) as reader,
                    holdfast.connect_sync(address_of(broker)) as one,
                ):
                    inbox = reader.subscribe("t")
                    receipt = one.publish("t", b"1")
                    with pytest.raises(TimeoutError):
                        receipt.confirmed(0.1, by="application")
                    assert inbox.get(5).payload == b"1"
                    with pytest.raises(TimeoutError):
                        inbox.get(0.05)  # Who asks for the next has taken the last.
                    return receipt.confirmed(5, by="application").level

            assert await asyncio.to_thread(blocking) == "taken"

    holdfast.run(story())


def test_what_has_crossed_comes_with_that_word_and_its_receipt_and_trace_say_so():
    async def story() -> None:
        rows: list[Event] = []
        # One of three brokers is no majority: elsewhere total messages may be ordered without it.
        async with (
            broker_here(tolerance=1, brokers=3) as broker,
            holdfast.connect(address_of(broker), name="sub", trace=rows.append) as subscriber,
            holdfast.connect(address_of(broker), name="pub", trace=rows.append) as publisher,
        ):
            inbox = await subscriber.subscribe("t")
            receipts = [
                await publisher.publish("t", b"k", "fifo", keys=["k"]),
                await publisher.publish("t", b"", "fifo"),
            ]
            await receipts[1].confirmed()
            await receipts[0].accepted()
            assert [receipt.crossed for receipt in receipts] == [True, False]
            assert [(await inbox.get(5)).crossed for _ in receipts] == [True, False]
            assert (await receipts[0].confirmed()).level == "confirmed"
        assert [row.detail for row in rows if row.event == "deliver"] == ["crossed", ""]
        first = next((row.node, row.publisher, row.seq) for row in rows if row.event == "publish")
        assert {(row.node, row.publisher, row.seq) for row in rows if row.event == "crossed"} == {first}

    holdfast.run(story())


@pytest.mark.parametrize("tolerance", [0, 1])
def test_a_receipt_names_a_subscriber_whose_process_was_killed(tmp_path: Path, tolerance: int):
    async def story() -> None:
        async with (
            serving_child(tmp_path, tolerance=tolerance, session_s=1.0) as broker,
            holdfast.connect(address_of(broker), name="pub") as publisher,
        ):
            options = ["--raw", "--name", "reader", "--address", address_of(broker)]
            reader = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "holdfast", "sub", "t", *options),
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
            assert reader.stderr is not None
            await line_with(reader.stderr, b"is subscribed")
            assert (await (await publisher.publish("t", b"1")).confirmed(by="application")).level == "taken"
            reader.kill()
            await reader.communicate()
            receipt = await publisher.publish("t", b"2")
            with pytest.raises(holdfast.NotConfirmed, match="reader has been given up since") as doubt:
                await receipt.confirmed()
            assert doubt.value.gone == ("reader",)

    holdfast.run(story())
