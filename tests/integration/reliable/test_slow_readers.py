"""Durable subscribers that do not keep up: nobody waits for them, no broker fills up, and they miss nothing."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import holdfast
from holdfast.client.durable import DurableSubscription
from holdfast.cluster.config import LOOPBACK
from holdfast.cluster.processes import Processes
from holdfast.cluster.status import health_of
from holdfast.model.identities import name_of
from holdfast.protocols.config import LinkConfig
from tests.integration.reliable.bundles import (
    PATIENCE_S,
    STREAM,
    TOPIC,
    bundle_of_processes,
    connected,
    payload_of,
    read,
)

READER = Path(__file__).with_name("slow_reader.py")
COUNT, SIZE_BYTES = 2500, 8000
EVERYTHING = [payload_of("alice", number, SIZE_BYTES) for number in range(1, COUNT + 1)]


def started(processes: Processes, name: str) -> "subprocess.Popen[bytes]":
    """A reader at the first broker below the root; it is there when it says so."""
    address = processes.cluster.broker("1").address
    reader = subprocess.Popen(
        [sys.executable, "-u", READER, address, name, str(COUNT)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert reader.stdout is not None
    assert reader.stdout.readline() == b"begun\n"
    return reader


async def publish_the_rest(alice: holdfast.Client) -> None:
    """All messages but the first."""
    for number, payload in enumerate(EVERYTHING[1:], 2):
        receipt = await alice.publish(TOPIC, payload, durable=True)
        if number % 50 == 0 or number == COUNT:
            await receipt.stored()


async def until_it_is_at(processes: Processes, client: str, brokers: tuple[str, ...]) -> None:
    """Return when one of those brokers has that client."""
    ports = [processes.cluster.broker(name).health_port for name in brokers]
    while True:
        said = await asyncio.gather(*(health_of(LOOPBACK, port) for port in ports))
        if any(client in one.get("clients", ()) for one in said):
            return
        await asyncio.sleep(0.05)


async def answer_of(processes: Processes, broker: str) -> dict[str, Any]:
    """What that broker says of itself; a busy one is asked until it answers."""
    while True:
        said = await health_of(LOOPBACK, processes.cluster.broker(broker).health_port)
        if said:
            return said
        await asyncio.sleep(0.05)


async def backlogs(processes: Processes, brokers: tuple[str, ...]) -> list[tuple[dict[str, int], dict[str, int]]]:
    """What each of those brokers holds for whom, and what it has left out."""
    said = [await answer_of(processes, broker) for broker in brokers]
    return [(one["backlog_bytes"], one["left_out"]) for one in said]


def test_a_frozen_reader_and_one_that_reads_nothing_hold_nobody_up_and_miss_nothing(tmp_path: Path):
    stores = {name: f"segments:{tmp_path / name}" for name in ("r1", "r2")}

    async def story() -> None:
        async with bundle_of_processes(tmp_path, stores) as processes:
            alice, busy, idle = [await connected(processes, name) for name in ("alice", "busy", "idle")]
            live = await busy.subscribe(STREAM)
            later = await idle.subscribe(STREAM, durable="later")
            assert isinstance(later, DurableSubscription)
            frozen = started(processes, "frozen")
            try:
                # Whoever is there after a broker is lost knows of it what the lost one knew.
                processes.crash("1")
                await until_it_is_at(processes, "frozen", ("0", "2"))
                # Its subscriptions are there as well when it gets a message.
                await (await alice.publish(TOPIC, EVERYTHING[0], durable=True)).stored()
                assert frozen.stdout is not None
                assert await asyncio.to_thread(frozen.stdout.readline) == b"alice 1\n"
                frozen.send_signal(signal.SIGSTOP)
                async with asyncio.timeout(3 * PATIENCE_S):
                    _, heard = await asyncio.gather(publish_the_rest(alice), read(live, COUNT))
                    assert heard == EVERYTHING
                    held = await backlogs(processes, ("0", "2"))
                    # A broker without a backlog names none.
                    most = max((bytes_held for links, _ in held for bytes_held in links.values()), default=0)
                    assert most < LinkConfig().backlog_bytes_max
                    left_out = [(name_of(peer), count) for _, by_peer in held for peer, count in by_peer.items()]
                    assert sum(count for name, count in left_out if name == "frozen") > COUNT // 4
                    assert later.spilled
                    frozen.send_signal(signal.SIGCONT)
                    assert await read(later, COUNT) == EVERYTHING
                    said, errors = await asyncio.to_thread(frozen.communicate)
                    assert said.decode().splitlines() == [f"alice {number}" for number in range(2, COUNT + 1)], errors
            finally:
                frozen.kill()
                frozen.wait()
            for client in (alice, busy, idle):
                await client.close()

    holdfast.run(story())
    logs = "".join(path.read_text() for path in (tmp_path / "logs").glob("broker-*.log"))
    assert '"congested"' not in logs
