"""NATS JetStream through nats-py: one server that syncs every message, or three that each have a copy.

Run as a worker: a publisher, who counts what the server has acknowledged, or a subscriber.
"""

import asyncio
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from holdfast.cluster.bench.nats_core import PENDING_BYTES_MAX, START_S, STOP_S
from holdfast.cluster.bench.samples import PublishedSample, SampleTally, clock_ns
from holdfast.cluster.ports import free_port_pairs
from holdfast.cluster.workers import Orders, WorkerError, play, say

STREAM, SUBJECT = "bench", "bench.orders"
PENDING_MAX = 1000
CHUNK = 100
FORM_S = 30.0
"""How long three servers may take to agree on a leader."""


class JetStreamSettings(Struct, frozen=True):
    role: Literal["publisher", "subscriber"]
    urls: tuple[str, ...]
    replicas: int = 1
    size_bytes: int = 1024
    seconds: float = 1.0


class Servers:
    """One or three servers on loopback, for as long as the block lasts; a single one syncs every message."""

    def __init__(self, binary: Path, directory: Path, count: int) -> None:
        self._binary, self._directory, self._count = binary, directory, count
        self._processes: list[asyncio.subprocess.Process] = []
        self.urls: tuple[str, ...] = ()

    async def __aenter__(self) -> "Servers":
        ports = free_port_pairs(self._count)
        self.urls = tuple(f"nats://127.0.0.1:{port}" for port, _ in ports)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._stop)
            for at in range(self._count):
                await self._start(at, ports)
            try:
                async with asyncio.timeout(START_S):
                    for port, _ in ports:
                        await _listening(port)
            except TimeoutError:
                raise WorkerError(f"nats-server did not start within {START_S:g} s.") from None
            stack.pop_all()
        return self

    async def _start(self, at: int, ports: list[tuple[int, int]]) -> None:
        place = self._directory / f"jetstream-{at}"
        place.mkdir(parents=True, exist_ok=True)
        port, cluster_port = ports[at]
        sync = "sync_interval: always" if self._count == 1 else ""
        lines = [
            f"server_name: n{at}\nhost: 127.0.0.1\nport: {port}\nmax_pending: {PENDING_BYTES_MAX}",
            f'jetstream {{ store_dir: "{place}"\n{sync} }}',
        ]
        if self._count > 1:
            routes = ", ".join(f'"nats://127.0.0.1:{other}"' for _, other in ports)
            lines.append(f"cluster {{ name: bench, host: 127.0.0.1, port: {cluster_port}, routes: [{routes}] }}")
        config = place / "nats.conf"
        config.write_text("\n".join(lines) + "\n")
        with (self._directory / "jetstream.log").open("ab") as log:
            self._processes.append(
                await asyncio.create_subprocess_exec(
                    *(self._binary, "-c", config),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def _stop(self) -> None:
        for process in self._processes:
            if process.returncode is None:
                process.terminate()
        for process in self._processes:
            try:
                async with asyncio.timeout(STOP_S):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()


async def _listening(port: int) -> None:
    while True:
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.02)


async def _connected(settings: JetStreamSettings, at: int) -> Any:
    import nats  # noqa: PLC0415  (an optional dependency: only this worker needs it)

    return await nats.connect(settings.urls[at % len(settings.urls)], pending_size=1 << 21)


async def _made(stream_of: Any, replicas: int) -> None:
    """Make the stream; servers that have no leader yet are asked again."""
    try:
        async with asyncio.timeout(FORM_S):
            while True:
                with suppress(Exception):
                    await stream_of.add_stream(name=STREAM, subjects=[SUBJECT], num_replicas=replicas)
                    return
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise WorkerError(f"JetStream made no stream within {FORM_S:g} s.") from None


async def publisher(settings: JetStreamSettings, orders: Orders) -> None:
    client = await _connected(settings, 0)
    stream = client.jetstream(publish_async_max_pending=PENDING_MAX)
    say("ready")
    await orders.wait_for("go")
    payload, count = bytes(settings.size_bytes), 0
    started_ns = clock_ns()
    until_ns = started_ns + int(settings.seconds * 1e9)
    while clock_ns() < until_ns:
        for _ in range(CHUNK):
            await stream.publish_async(SUBJECT, payload, wait_stall=FORM_S)
        count += CHUNK
    await stream.publish_async_completed()
    say("done", published=PublishedSample(count, started_ns), ended_ns=clock_ns())
    await orders.wait_for("stop")
    await client.close()


async def subscriber(settings: JetStreamSettings, orders: Orders) -> None:
    client = await _connected(settings, 1)
    stream = client.jetstream()
    await _made(stream, settings.replicas)
    tally = SampleTally()

    async def on_message(message: Any) -> None:  # noqa: ARG001
        tally.count += 1
        tally.look()

    await stream.subscribe(SUBJECT, cb=on_message, ordered_consumer=True)
    say("ready")
    try:
        say("done", received=await tally.wait_for(int(await orders.next())))
    finally:
        await client.close()


if __name__ == "__main__":
    play(JetStreamSettings, {"publisher": publisher, "subscriber": subscriber})
