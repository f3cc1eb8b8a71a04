"""What a receipt stands for, and what a subscriber is told when its session is lost."""

import asyncio
from pathlib import Path

import pytest

import holdfast
from holdfast.model.trace import Event
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
        if tolerance:
            assert "gap" in [row.event for row in rows]
        await subscriber.close()

    holdfast.run(story())
