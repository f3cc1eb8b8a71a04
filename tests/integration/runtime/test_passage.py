"""Messages through one broker and through a chain, over real sockets."""

import asyncio
from pathlib import Path

import pytest

import holdfast
from holdfast.model.identities import name_of
from holdfast.model.trace import Event
from holdfast.simulation.checkers import check
from holdfast.storage.traces import read_trace
from tests.integration.support_brokers import address_of, broker_here, chain_here

GUARANTEES: tuple[holdfast.GuaranteeName, ...] = ("eventual", "fifo", "causal", "total")


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("length", [1, 3])
def test_what_is_published_at_one_end_is_delivered_at_the_other(guarantee: holdfast.GuaranteeName, length: int):
    async def story():
        async with (
            chain_here(length) as brokers,
            holdfast.connect(address_of(brokers[0]), name="alice") as alice,
            holdfast.connect(address_of(brokers[-1]), name="bob") as bob,
        ):
            orders = await bob.subscribe("bank/+/orders", where="amount > 100")
            receipts = [
                await alice.publish(
                    "bank/lisbon/orders", b"%d" % amount, guarantee, keys=["k"], attributes={"amount": amount}
                )
                for amount in (50, 150, 250)
            ]
            first, second = await orders.get(5), await orders.get(5)
            receipt = await receipts[-1].confirmed()
            assert (first.payload, second.payload) == (b"150", b"250")
            assert first == holdfast.Message(
                "bank/lisbon/orders", b"150", "alice", 2, holdfast.Guarantee(guarantee), ("k",), {"amount": 150}
            )
            assert (receipt.publisher, receipt.seq, receipt.level) == ("alice", 3, "confirmed")

    holdfast.run(story())


def test_many_messages_of_all_guarantees_arrive_once_and_in_order():
    rows: list[Event] = []

    async def story():
        async with chain_here(3) as brokers:
            clients = [
                await holdfast.connect(address_of(broker), name=f"c{index}", trace=rows.append)
                for index, broker in enumerate(brokers)
            ]
            subscriptions = [await client.subscribe("t/#") for client in clients]
            for round_number in range(200):
                for client in clients:
                    topic, guarantee = f"t/{round_number % 3}", GUARANTEES[round_number % 4]
                    await client.publish(topic, b"%d" % round_number, guarantee, keys=[f"k{round_number % 5}"])
                if round_number % 10 == 0:
                    await asyncio.sleep(0)
            for subscription in subscriptions:
                for _ in range(600):
                    await subscription.get(10)
            verdict = check(rows)
            for client in clients:
                await client.close()
            return verdict

    verdict = holdfast.run(story())
    assert verdict.ok, verdict.examples
    assert verdict.deliveries == 3 * 600


def test_a_large_payload_and_an_empty_one_arrive_whole():
    async def story():
        async with (
            broker_here() as broker,
            holdfast.connect(address_of(broker)) as client,
            client.subscribe("#") as everything,
        ):
            large = bytes(range(256)) * 4096
            for payload in (large, b"", large):
                await client.publish("big", payload)
                assert (await everything.get(5)).payload == payload

    holdfast.run(story())


def test_a_client_and_a_broker_leave_their_histories_in_a_directory(tmp_path: Path):
    async def story():
        async with (
            broker_here("b0", trace=str(tmp_path), run="seven") as broker,
            holdfast.connect(address_of(broker), name="al/ice", trace=tmp_path, run="seven") as alice,
        ):
            inbox = await alice.subscribe("a")
            await alice.publish_many("a", [b"1", b"2"], "fifo")
            assert [(await inbox.get(5)).seq, (await inbox.get(5)).seq] == [1, 2]

    holdfast.run(story())
    events = read_trace(tmp_path)
    assert {event.run for event in events} == {"seven"}
    mine = [(event.event, event.seq) for event in events if name_of(event.node) == "al/ice" and event.topic]
    assert mine == [
        ("subscribe", 0),
        ("publish", 1),
        ("publish", 2),
        ("deliver", 1),
        ("deliver", 2),
        ("unsubscribe", 0),
    ]
    assert any(event.node == "b0" and event.event == "attach" for event in events)
