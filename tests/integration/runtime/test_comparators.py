"""The comparators over real sockets: brokers that send to each other directly find each other."""

import asyncio

import pytest

import holdfast
from tests.integration.support_brokers import address_of, chain_here

ROUNDS = 20


async def questions_and_answers(protocol: str) -> list[bytes]:
    """What carol hears while bob answers alice, each at another broker."""
    async with (
        chain_here(3, protocol=protocol) as (first, second, third),
        holdfast.connect(address_of(first), name="alice") as alice,
        holdfast.connect(address_of(second), name="bob") as bob,
        holdfast.connect(address_of(third), name="carol") as carol,
    ):
        asked, heard = await bob.subscribe("questions"), await carol.subscribe("#")
        for number in range(ROUNDS):
            await alice.publish("questions", b"question %d" % number, guarantee="causal")
            await anext(asked)
            await bob.publish("answers", b"answer %d" % number, guarantee="causal")
        return [(await anext(heard)).payload for _ in range(2 * ROUNDS)]


@pytest.mark.parametrize("protocol", ["cbcast", "barriers"])
def test_a_mesh_carries_questions_and_answers_in_causal_order(protocol: str):
    heard = asyncio.run(questions_and_answers(protocol))
    for number in range(ROUNDS):
        assert heard.index(b"question %d" % number) < heard.index(b"answer %d" % number)
