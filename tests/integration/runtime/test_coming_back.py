"""A broker that is alone is killed and started again, as processes: its clients come back if they were told to."""

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

import holdfast
from tests.integration.support_brokers import PATIENCE_S, address_of, serving_child, until


async def killed(broker: Any) -> int:
    """Kill the broker and return the port that it had."""
    broker.send(signal.SIGKILL)
    await broker.exit_code()
    return int(broker.port)


def started_again(directory: Path, port: int) -> Any:
    (directory / "again").mkdir(exist_ok=True)
    return serving_child(directory / "again", port=port)


def test_clients_of_a_broker_that_was_restarted_come_back_subscribe_again_and_hear_of_the_gap(tmp_path: Path):
    told: list[tuple[str, str]] = []

    async def on_gap(gap: holdfast.Gap) -> None:
        told.append(("gap", gap.pattern))

    async def story() -> None:
        async with serving_child(tmp_path) as broker:
            address = address_of(broker)
            bob = await holdfast.connect(
                address,
                name="bob",
                reconnect=True,
                on_connected=lambda broker: told.append(("connected", broker)),
                on_disconnected=lambda reason: told.append(("disconnected", reason[:12])),
                on_gap=on_gap,
            )
            alice = await holdfast.connect(address, name="alice", reconnect=60)
            inbox = await bob.subscribe("a/+", where="n > 0")
            await (await alice.publish("a/b", b"before", attributes={"n": 1})).confirmed()
            port = await killed(broker)
        async with started_again(tmp_path, port):
            assert (await inbox.get(PATIENCE_S)).payload == b"before"
            with pytest.raises(holdfast.Gap, match="reading goes on") as gap:
                await inbox.get(PATIENCE_S)
            assert gap.value.goes_on
            assert gap.value.received == {"alice": 1}
            await until(lambda: told[-1][0] == "connected", "bob is back")
            for seq in (2, 3):
                await (await alice.publish("a/b", b"after", attributes={"n": 1})).confirmed()
                message = await inbox.get(PATIENCE_S)
                assert (message.publisher, message.seq, message.payload) == ("alice", seq, b"after")
            await alice.close()
            await bob.close()
        assert told[0] == ("connected", "b0")
        assert ("gap", "a/+") in told
        assert [what for what, _ in told if what != "gap"][-2:] == ["connected", "disconnected"]

    holdfast.run(story())


def test_what_never_left_is_published_after_the_return_under_its_number_and_what_left_is_in_doubt(tmp_path: Path):
    async def story() -> None:
        async with serving_child(tmp_path) as broker:
            alice = await holdfast.connect(address_of(broker), name="alice", reconnect=True)
            inbox = await alice.subscribe("a")
            await (await (await alice.publish("a", b"1")).accepted()).confirmed()
            broker.send(signal.SIGSTOP)
            doubtful = await alice.publish("a", b"2")
            await asyncio.sleep(0)
            alice._driver.settle_now()
            port = await killed(broker)
            await until(lambda: not alice._machine.attached, "alice has noticed")
            unsent = [await alice.publish("a", b"%d" % number) for number in (3, 4)]
            assert [one.level for one in (doubtful, *unsent)] == ["sent", "sent", "sent"]
        async with started_again(tmp_path, port):
            with pytest.raises(
                holdfast.SessionLost, match="of its publications #2 may or may not have happened"
            ) as lost:
                await doubtful.accepted()
            assert lost.value.outcome == "may have happened"
            with pytest.raises(holdfast.SessionLost):
                await doubtful.confirmed()
            for receipt in unsent:
                await receipt.confirmed()
            assert [(one.seq, one.level) for one in (doubtful, *unsent)] == [
                (2, "sent"),
                (3, "confirmed"),
                (4, "confirmed"),
            ]
            assert (await inbox.get(PATIENCE_S)).seq == 1
            with pytest.raises(holdfast.Gap):
                await inbox.get(PATIENCE_S)
            assert [(await inbox.get(PATIENCE_S)).seq for _ in range(2)] == [3, 4]
            with pytest.raises(holdfast.SessionLost):
                await alice.flush()
            await alice.flush()
            await alice.close()

    holdfast.run(story())


def test_a_client_that_cannot_come_back_in_time_ends_with_both_reasons(tmp_path: Path):
    async def story() -> None:
        async with serving_child(tmp_path) as broker:
            alice = await holdfast.connect(address_of(broker), name="alice", reconnect=0.2, give_up_s=0.2)
            inbox = await alice.subscribe("a")
            await killed(broker)
            with pytest.raises(holdfast.Gap) as first:
                await inbox.get(PATIENCE_S)
            assert first.value.goes_on
            with pytest.raises(
                holdfast.Gap, match=r"could not come back within 0\.2 s: no broker answers alice"
            ) as last:
                await inbox.get(PATIENCE_S)
            assert not last.value.goes_on
            with pytest.raises(holdfast.SessionLost, match="could not come back"):
                await alice.publish("a", b"x")
            await alice.close()

    holdfast.run(story())


def test_whoever_waits_for_a_session_that_is_lost_waits_for_the_next_one(tmp_path: Path):
    async def story() -> None:
        async with serving_child(tmp_path) as broker:
            alice = await holdfast.connect(address_of(broker), name="alice", reconnect=True, give_up_s=0.2)
            port = await killed(broker)
            await until(lambda: alice._lost is not None, "the session is lost")
            assert "coming back" in repr(alice)
            subscribing = asyncio.ensure_future(alice.subscribe("a"))
            publishing = asyncio.ensure_future(alice.publish("b", b"x"))
        async with started_again(tmp_path, port):
            inbox = await asyncio.wait_for(subscribing, PATIENCE_S)
            assert (await (await publishing).accepted()).seq == 1
            await alice.publish("a", b"y")
            assert (await inbox.get(PATIENCE_S)).payload == b"y"
            await alice.close()

    holdfast.run(story())


def test_a_client_that_is_closed_while_it_has_no_session_says_what_did_not_happen(tmp_path: Path):
    async def story() -> None:
        async with serving_child(tmp_path) as broker:
            alice = await holdfast.connect(address_of(broker), name="alice", reconnect=True, give_up_s=0.3)
            await killed(broker)
            await until(lambda: not alice._machine.attached, "alice has noticed")
            await alice.publish("a", b"x")
            await until(lambda: alice._lost is not None, "the session is lost")
            with pytest.raises(holdfast.SessionLost, match="last 1 publications have never left and did not happen"):
                await alice.close()

    holdfast.run(story())


def test_without_asyncio_a_client_comes_back_too_and_its_callbacks_may_block(tmp_path: Path):
    async def story() -> None:
        async with serving_child(tmp_path) as broker:
            told: list[str] = []

            def on_connected(name: str) -> None:
                told.append(name)
                if len(told) == 2:
                    clients[0].publish("a", b"hello again").confirmed(PATIENCE_S)

            clients: list[holdfast.SyncClient] = []

            def connect() -> holdfast.SyncSubscription:
                client = holdfast.connect_sync(
                    address_of(broker), name="alice", reconnect=True, on_connected=on_connected
                )
                clients.append(client)
                return client.subscribe("a")

            inbox = await asyncio.to_thread(connect)
            port = await killed(broker)
        async with started_again(tmp_path, port):
            with pytest.raises(holdfast.Gap):
                await asyncio.to_thread(inbox.get, PATIENCE_S)
            assert (await asyncio.to_thread(inbox.get, PATIENCE_S)).payload == b"hello again"
            await asyncio.to_thread(clients[0].close)
            assert told == ["b0", "b0"]

    holdfast.run(story())


def test_the_command_line_comes_back_and_a_client_that_does_not_says_how_it_would(tmp_path: Path):
    async def story() -> None:
        async with serving_child(tmp_path) as broker:
            address = address_of(broker)
            options = ["--json", "--reconnect", "--count", "1", "--name", "printer", "--address", address]
            command = [sys.executable, "-m", "holdfast", "sub", "a", *options]
            pipe = asyncio.subprocess.PIPE
            printer = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
            assert printer.stdout is not None
            assert printer.stderr is not None
            bob = await holdfast.connect(address, name="bob")
            inbox = await bob.subscribe("a")
            assert b"is subscribed" in await printer.stderr.readline()
            port = await killed(broker)
        async with started_again(tmp_path, port):
            assert "reading goes on" in json.loads(await printer.stdout.readline())["gap"]
            with pytest.raises(holdfast.Gap) as gap:
                await inbox.get(PATIENCE_S)
            said = str(gap.value)
            assert said.startswith(
                "client bob lost its session at b0: b0 does not know this session of bob (any more); "
            )
            assert "; connect again, or use `reconnect`, by which a client comes back by itself; what the" in said
            await bob.close()
            async with holdfast.connect(address) as alice:
                # The gap is told when the session is lost, and the subscription made a moment later.
                line = asyncio.ensure_future(printer.stdout.readline())
                while not line.done():
                    await (await alice.publish("a", b"x")).confirmed()
            assert json.loads(line.result())["payload"] == "x"
            assert await asyncio.wait_for(printer.wait(), PATIENCE_S) == 0
            await printer.communicate()

    holdfast.run(story())
