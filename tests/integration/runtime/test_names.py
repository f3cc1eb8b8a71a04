"""A name is one session in the whole tree at a time; nothing that was acknowledged is lost when two clients have it."""

import asyncio
from time import time_ns

import pytest

import holdfast
from holdfast.runtime.broker import BrokerProcess
from tests.integration.support_brokers import address_of, chain_here

TAKEN = r"another client connected as alice at {}"


async def _publish(client: holdfast.Client, *payloads: bytes) -> list[holdfast.Receipt]:
    receipts = [await client.publish("t", payload) for payload in payloads]
    for receipt in receipts:
        await receipt.confirmed()
    return receipts


@pytest.mark.parametrize("tolerance", [0, 1])
def test_what_two_clients_with_one_name_were_confirmed_is_delivered(tolerance: int):
    async def story() -> None:
        async with (
            chain_here(3, tolerance=tolerance) as (root, middle, leaf),
            holdfast.connect(address_of(middle), name="reader") as reader,
        ):
            inbox = await reader.subscribe("t")
            first = await holdfast.connect(address_of(root), name="alice")
            early = await _publish(first, b"1", b"2", b"3")
            second = await holdfast.connect(address_of(leaf), name="alice")
            late = await _publish(second, b"4", b"5", b"6")
            messages = [await inbox.get(5) for _ in range(6)]
            assert [message.payload for message in messages] == [b"1", b"2", b"3", b"4", b"5", b"6"]
            assert {message.publisher for message in messages} == {"alice"}
            assert [message.seq for message in messages] == [receipt.seq for receipt in early + late]
            with pytest.raises(holdfast.NameTaken, match=TAKEN.format(second.broker)):
                await first.publish("t", b"7")
            assert (second.name, second.next_seq, second.numbers_known) == ("alice", 7, True)
            await second.close()

    holdfast.run(story())


def test_of_two_that_connect_in_the_same_instant_one_remains_and_nothing_is_lost():
    async def story() -> None:
        async with chain_here(3, tolerance=1) as brokers, holdfast.connect(address_of(brokers[1])) as reader:
            inbox = await reader.subscribe("t")

            async def play(broker: BrokerProcess, payload: bytes) -> tuple[str, int]:
                """How it ended, and the number of what was acknowledged."""
                number = 0
                try:
                    client = await holdfast.connect(address_of(broker), name="alice")
                    number = (await (await client.publish("t", payload)).confirmed()).seq
                    await client.flush()
                except holdfast.NameTaken as taken:
                    return str(taken), number
                return "", number

            ends = await asyncio.gather(play(brokers[0], b"a"), play(brokers[2], b"b"))
            acknowledged = [number for _, number in ends if number]
            assert acknowledged
            assert len(set(acknowledged)) == len(acknowledged)
            got = {(await inbox.get(5)).seq for _ in acknowledged}
            assert got == set(acknowledged)

    holdfast.run(story())


def test_the_later_connection_counts_and_not_the_clock(monkeypatch: pytest.MonkeyPatch):
    async def story() -> None:
        async with chain_here(2) as (root, leaf):
            first = await holdfast.connect(address_of(root), name="alice")
            await (await first.publish("t", b"1")).confirmed()
            # The machine of the second one is an hour behind.
            monkeypatch.setattr("holdfast.client.names.time_ns", lambda: time_ns() - 3600 * 10**9)
            second = await holdfast.connect(address_of(leaf), name="alice")
            assert (second.identity > first.identity, second.next_seq) == (True, 2)
            with pytest.raises(holdfast.NameTaken, match="another client connected as alice at b1"):
                await _until_it_ends(first)
            await second.close()

    holdfast.run(story())


async def _until_it_ends(client: holdfast.Client) -> None:
    async with asyncio.timeout(5):
        while True:
            await client.publish("t", b"x")
            await client.flush()


def test_a_name_that_nobody_gave_has_no_tag():
    async def story() -> None:
        async with chain_here(1) as (broker,):
            async with holdfast.connect(address_of(broker)) as client:
                assert client.identity == client.name
            async with holdfast.connect(address_of(broker), name="x" * 128) as client:
                assert client.name == "x" * 128
                assert client.identity.startswith(client.name + "~")

    holdfast.run(story())
