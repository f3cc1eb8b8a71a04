"""An intruder says any well-typed words to real brokers: no process ends, and honest clients get what was promised.

The same intruder as in tests/swarm/test_intruders.py, on real sockets. `INTRUDER_S` says for how many seconds.
"""

import asyncio
import logging
import os
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest

import holdfast
from holdfast.model.messages import Kind
from holdfast.runtime.driver import Driver
from holdfast.runtime.logs import ProcessLog
from tests.integration.support_brokers import BrokerChild, address_of, serving_child
from tests.support.forgeries import Forger
from tests.support.intruders import Intruder, learn_words

INTRUDER_S = float(os.environ.get("INTRUDER_S") or 2.0)
NAMES = ("b0", "b1", "b2")


async def chain_of_children(stack: AsyncExitStack, directory: Path, **settings: Any) -> list[BrokerChild]:
    children: list[BrokerChild] = []
    for name in NAMES:
        above: dict[str, Any] = {}
        if children:
            place = ("127.0.0.1", children[-1].port)
            above = {"parent": f"b{len(children) - 1}", "addresses": {f"b{len(children) - 1}": place}}
        children.append(await stack.enter_async_context(serving_child(directory, name=name, **above, **settings)))
    return children


def intruder_of(kind: Kind, protocol: str, tolerance: int, seed: int) -> Intruder:
    chance = Random(f"processes {protocol} {tolerance} {kind} {seed}")
    forger = Forger(chance, (*NAMES, "alice", "bob"), "mallory")
    intruder = Intruder(chance, forger, kind, list(NAMES), ["mallory"])
    learn_words(intruder, protocol, tolerance)
    return intruder


async def intrude(intruder: Intruder, brokers: list[BrokerChild]) -> None:
    places = {name: ("127.0.0.1", broker.port) for name, broker in zip(NAMES, brokers, strict=True)}
    silent = ProcessLog("holdfast.intruder", node="mallory")
    logging.getLogger("holdfast.intruder").setLevel(logging.CRITICAL)
    driver = Driver(intruder, places.get, log=silent)
    driver.start()
    await asyncio.sleep(INTRUDER_S)
    intruder.quiet = True
    await driver.close(linger=False)


def failures(brokers: list[BrokerChild]) -> list[str]:
    return [str(line) for broker in brokers for line in broker.lines() if line["event"] == "node failed"]


@pytest.mark.parametrize(("protocol", "tolerance"), [("ginger", 0), ("ginger", 1), ("cbcast", 0)])
def test_a_client_that_says_anything_harms_no_process_and_nobody(tmp_path: Path, protocol: str, tolerance: int):
    async def story() -> None:
        async with AsyncExitStack() as stack:
            brokers = await chain_of_children(stack, tmp_path, protocol=protocol, tolerance=tolerance)
            alice = await stack.enter_async_context(holdfast.connect(address_of(brokers[2]), name="alice"))
            bob = await stack.enter_async_context(holdfast.connect(address_of(brokers[0]), name="bob"))
            inbox = await bob.subscribe("honest")
            intruding = asyncio.ensure_future(intrude(intruder_of("client", protocol, tolerance, 1), brokers))
            sent = 0
            while not intruding.done():
                await alice.publish("honest", b"%d" % sent, guarantee="causal")
                sent += 1
                await asyncio.sleep(0.01)
            await intruding
            got = [(await inbox.get(20)) for _ in range(sent)]
            assert [one.payload for one in got if one.publisher == "alice"] == [b"%d" % one for one in range(sent)]
            assert all(broker.running for broker in brokers)
            assert failures(brokers) == []
            said = [line for broker in brokers for line in broker.lines() if line["event"] == "violation"]
            assert said
            assert {line["peer"] for line in said} == {"mallory"}

    holdfast.run(story())


@pytest.mark.parametrize("tolerance", [0, 1])
def test_a_broker_that_says_anything_ends_no_process(tmp_path: Path, tolerance: int):
    async def story() -> None:
        async with AsyncExitStack() as stack:
            brokers = await chain_of_children(stack, tmp_path, tolerance=tolerance)
            await intrude(intruder_of("broker", "ginger", tolerance, 2), brokers)
            assert all(broker.running for broker in brokers)
            assert failures(brokers) == []

    holdfast.run(story())
