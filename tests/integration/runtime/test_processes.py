"""Brokers as processes: they serve, say how they are, and leave in order."""

import asyncio
import json
import signal
from pathlib import Path

import pytest

import holdfast
from holdfast.model.trace import Event
from holdfast.simulation.checkers import check
from tests.integration.support_brokers import QUICK, address_of, broker_child, serving_child, until
from tests.integration.support_proxy import BreakingProxy

MESSAGES = 3000


async def http(port: int, request: str) -> tuple[int, dict[str, object]]:
    """The status and the JSON body that the health endpoint answers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{request} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    answer = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body) if body else {}


def test_a_chain_of_three_processes_survives_broken_links_and_is_judged_faultless(tmp_path: Path):
    rows: list[Event] = []

    async def story():
        async with (
            serving_child(tmp_path, name="b0") as b0,
            BreakingProxy(b0.port, seed=11, mean_bytes=60_000) as link1,
            serving_child(tmp_path, name="b1", parent="b0", addresses={"b0": ("127.0.0.1", link1.port)}) as b1,
            BreakingProxy(b1.port, seed=12, mean_bytes=60_000) as link2,
            serving_child(tmp_path, name="b2", parent="b1", addresses={"b1": ("127.0.0.1", link2.port)}) as b2,
            BreakingProxy(b2.port, seed=13, mean_bytes=60_000) as near_bob,
            holdfast.connect(address_of(b0), name="alice", trace=rows.append, link=QUICK) as alice,
            holdfast.connect(f"127.0.0.1:{near_bob.port}", name="bob", trace=rows.append, link=QUICK) as bob,
        ):
            inbox = await bob.subscribe("a/#")
            own = await alice.subscribe("a/#")
            for number in range(MESSAGES):
                guarantee = tuple(holdfast.Guarantee)[number % 4]
                await alice.publish(f"a/{number % 2}", b"x" * 100, guarantee, keys=[str(number % 3)])
                if number % 50 == 0:
                    await asyncio.sleep(0)
            for subscription in (inbox, own):
                for _ in range(MESSAGES):
                    await subscription.get(20)
            return check(rows), link1.breaks + link2.breaks + near_bob.breaks

    verdict, breaks = holdfast.run(story())
    assert verdict.ok, verdict.examples
    assert verdict.deliveries == 2 * MESSAGES
    assert breaks > 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_broker_that_is_told_to_stop_hands_over_what_it_has_and_leaves(tmp_path: Path, number: signal.Signals):
    async def story():
        async with (
            serving_child(tmp_path, name="b0") as b0,
            serving_child(tmp_path, name="b1", parent="b0", addresses={"b0": ("127.0.0.1", b0.port)}) as b1,
        ):
            alice = await holdfast.connect(address_of(b1), name="alice")
            bob = await holdfast.connect(address_of(b0), name="bob")
            inbox = await bob.subscribe("a")
            receipt = await alice.publish_many("a", [b"x" * 500] * 2000)
            assert receipt is not None
            await receipt.accepted()
            b1.send(number)
            assert await b1.exit_code() == 0
            # Everything that the broker had accepted has gone on before it left.
            assert [(await inbox.get(5)).seq for _ in range(2000)] == list(range(1, 2001))
            with pytest.raises(holdfast.SessionLost, match="b1 is leaving"):
                await (await alice.publish("a", b"late")).accepted()
            assert b1.said("stopping", reason=number.name)
            assert b1.said("stopped")
            assert b1.lines()[-1]["event"] == "stopped"
            await bob.close()

    holdfast.run(story())


def test_a_drain_that_does_not_end_is_bounded(tmp_path: Path):
    async def story():
        async with serving_child(tmp_path, drain_s=0.2) as broker:
            alice = await holdfast.connect(address_of(broker), name="alice", timeout_s=1)
            inbox = await alice.subscribe("a", slow="block")
            # Alice reads nothing: more than a window waits for her at the broker.
            await alice.publish_many("a", [b"x" * 10_000] * 300)
            await alice.flush()
            broker.send(signal.SIGTERM)
            assert await broker.exit_code() == 0
            assert broker.said("left before everything had drained")
            assert (await inbox.get(1)).seq == 1

    holdfast.run(story())


def test_a_port_in_use_is_one_sentence_and_exit_code_two(tmp_path: Path):
    async def story():
        async with serving_child(tmp_path) as first:
            async with broker_child(tmp_path, name="b1", port=first.port) as second:
                assert await second.exit_code() == 2
                sentence = await second.stderr()
                assert sentence == (
                    f"holdfast broker: b1 cannot listen on 127.0.0.1:{first.port}: the port is in use by another "
                    "process; stop it or choose another port\n"
                )
            async with broker_child(tmp_path, name="b2", health_port=first.port) as third:
                assert await third.exit_code() == 2
                assert "the health endpoint of b2 cannot listen" in await third.stderr()

    holdfast.run(story())


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"protocol": "gin"}, "unknown protocol 'gin'"),
        ({"parent": "b9"}, "broker b0 has the parent b9, but is not told where that is"),
        ({"port": 70000}, "port 70000 is no port"),
    ],
)
def test_settings_that_cannot_be_are_one_sentence_and_exit_code_two(
    tmp_path: Path, settings: dict[str, object], sentence: str
):
    async def story():
        async with broker_child(tmp_path, **settings) as broker:
            assert await broker.exit_code() == 2
            said = await broker.stderr()
            assert sentence in said
            assert said.count("\n") == 1

    holdfast.run(story())


def test_the_health_endpoint_says_when_a_broker_serves_and_how_it_is(tmp_path: Path):
    async def story():
        async with serving_child(tmp_path, name="b0") as b0:
            assert await http(b0.health_port, "GET /health") == (200, {"ready": True})
            assert (await http(b0.health_port, "HEAD /health"))[0] == 200
            assert (await http(b0.health_port, "POST /health"))[0] == 405
            assert (await http(b0.health_port, "GET /nothing"))[0] == 404
            assert (await http(b0.health_port, "nonsense"))[0] == 400
            async with holdfast.connect(address_of(b0), name="alice"):
                status, said = await http(b0.health_port, "GET /status")
                assert status == 200
                assert (said["name"], said["protocol"], said["clients"]) == ("b0", "ginger", ["alice"])
                assert said["waiting_for"] == []
        # A broker whose parent is not there does not serve yet, and says what it waits for.
        async with broker_child(tmp_path, name="b1", parent="b0", addresses={"b0": ("127.0.0.1", b0.port)}) as b1:
            await b1.waits_to_say("listening")
            port = next(line for line in b1.lines() if line["event"] == "listening")["health_port"]
            assert await http(port, "GET /health") == (503, {"ready": False})
            assert (await http(port, "GET /status"))[1]["waiting_for"] == ["a connection to its parent b0"]

    holdfast.run(story())


def test_clients_of_a_broker_that_was_killed_learn_what_is_in_doubt(tmp_path: Path):
    async def story():
        async with serving_child(tmp_path) as broker:
            alice = await holdfast.connect(address_of(broker), name="alice", link=QUICK, give_up_s=0.3)
            await (await alice.publish("a", b"1")).accepted()
            broker.send(signal.SIGKILL)
            await broker.exit_code()
            await until(lambda: alice.level_of(1) == "accepted", "the receipt is known")
            with pytest.raises(holdfast.SessionLost, match=r"publications after #1 may or may not have happened"):
                await (await alice.publish("a", b"2")).accepted()
            with pytest.raises(holdfast.SessionLost):
                await alice.close()

    holdfast.run(story())
