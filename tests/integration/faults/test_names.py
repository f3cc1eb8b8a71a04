"""Two clients with one name, against brokers that are processes: with every protocol, while brokers and clients die."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.client.opening import Opening
from holdfast.cluster.processes import Processes
from tests.integration.faults.support_faults import PATIENCE_S, tree_of_processes

TREE: dict[str, str | None] = {"0": None, "1": "0", "2": "0", "3": "1"}
KINDS = [
    ("ginger", 0),
    ("ginger", 1),
    ("ginger", 2),
    ("cbcast", 1),
    ("barriers", 0),
    ("delta-neighbourhood", 1),
    ("locamu", 1),
]
PUBLISHER = """
import os, sys, holdfast
with holdfast.connect_sync(sys.argv[1], name="alice", cluster="faults") as client:
    for number in range(3):
        client.publish("t", b"x").accepted()
    print(client.next_seq, flush=True)
    os.kill(os.getpid(), 9)
"""


def connected(processes: Processes, broker: str, name: str | None = None) -> Opening[holdfast.Client]:
    return holdfast.connect(processes.cluster.broker(broker).address, name=name, cluster="faults")


async def publish_until_it_ends(client: holdfast.Client) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            await client.publish("t", b"")
            await client.flush()


@pytest.mark.parametrize(("protocol", "tolerance"), KINDS)
def test_both_are_heard_and_the_earlier_is_told(tmp_path: Path, protocol: str, tolerance: int):
    async def story() -> None:
        async with (
            tree_of_processes(tmp_path, TREE, tolerance, protocol=protocol) as processes,
            connected(processes, "0") as reader,
        ):
            inbox = await reader.subscribe("t")
            first = await connected(processes, "2", "alice")
            mail = await first.subscribe("mail")
            receipts = [await first.publish("t", b"1%d" % number, "fifo") for number in range(3)]
            await receipts[-1].confirmed()
            second = await connected(processes, "3", "alice")
            receipts += [await second.publish("t", b"2%d" % number, "fifo") for number in range(3)]
            await receipts[-1].confirmed()
            got = [await inbox.get(PATIENCE_S) for _ in receipts]
            assert [message.payload for message in got] == [b"10", b"11", b"12", b"20", b"21", b"22"]
            assert [(one.publisher, one.seq) for one in got] == [(one.publisher, one.seq) for one in receipts]
            assert len({one.seq for one in got}) == len(got)
            with pytest.raises(holdfast.NameTaken, match="another client connected as alice at 3"):
                await publish_until_it_ends(first)
            with pytest.raises(holdfast.Gap, match="another client connected as alice at 3"):
                await mail.get(PATIENCE_S)
            await second.close()

    holdfast.run(story())


@pytest.mark.parametrize("kill_ms", [0, 2, 10, 60])
def test_nothing_that_was_acknowledged_is_lost_while_the_broker_of_the_earlier_one_is_killed(
    tmp_path: Path, kill_ms: int
):
    """What is held survives the loss of a broker, whoever published it, and whatever became of that client."""

    async def story() -> None:
        async with (
            tree_of_processes(tmp_path, TREE) as processes,
            connected(processes, "0") as reader,
        ):
            inbox = await reader.subscribe("t")
            held: list[int] = []

            async def publish(client: holdfast.Client) -> None:
                while True:
                    held.append((await (await client.publish("t", b"x")).held()).seq)

            first = await connected(processes, "1", "alice")
            publishing = asyncio.ensure_future(publish(first))
            await asyncio.sleep(0.05)
            taking = asyncio.ensure_future(connected(processes, "3", "alice"))
            await asyncio.sleep(kill_ms / 1000)
            processes.crash("1")
            second = await taking
            with pytest.raises(holdfast.SessionLost):
                await publishing
            receipt = await second.publish("t", b"last")
            assert receipt.seq not in held
            got: list[int] = []
            while not got or got[-1] != receipt.seq:
                got.append((await inbox.get(PATIENCE_S)).seq)
            assert set(held) <= set(got)
            assert len(set(got)) == len(got)
            await second.close()

    holdfast.run(story())


@pytest.mark.parametrize("tolerance", [0, 1])
def test_a_process_that_was_killed_and_is_started_again_goes_on_with_the_next_number(tmp_path: Path, tolerance: int):
    async def story() -> None:
        async with tree_of_processes(tmp_path, TREE, tolerance) as processes:
            address = processes.cluster.broker("2").address
            command = [sys.executable, "-c", PUBLISHER, address]
            ended = await asyncio.to_thread(
                subprocess.run, command, capture_output=True, text=True, check=False, env=dict(os.environ)
            )
            assert ended.stdout == "4\n", ended.stderr
            # Its session is still there, and so is what it was told.
            async with connected(processes, "3", "alice") as again:
                assert (again.next_seq, again.numbers_known) == (4, True)

    holdfast.run(story())
