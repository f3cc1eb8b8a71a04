"""Redis Streams with `appendfsync always`: a peer whose answer means that the disk has it.

The server is a binary of its own (Debian's redis-server), the client redis-py with hiredis. Redis syncs once for
everything that it has read in one turn, so a publisher that has many commands under way gets group commit.

Run as a worker: a publisher or a subscriber.
"""

import asyncio
import shutil
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from holdfast.cluster.bench.samples import PublishedSample, ReceivedSample, clock_ns
from holdfast.cluster.ports import free_port_pairs
from holdfast.cluster.workers import Orders, WorkerError, play, say

STREAM = "orders"
PIPELINE_BYTES = 1 << 20
"""So much is under way at once; about as much as a repository commits at once."""
READ_COUNT = 1000
START_S = 10.0
STOP_S = 5.0


class RedisSettings(Struct, frozen=True):
    role: Literal["publisher", "subscriber"]
    port: int
    size_bytes: int = 1024
    seconds: float = 1.0


def find_server() -> Path | None:
    """The server binary, if there is one and redis-py can be imported."""
    found = shutil.which("redis-server")
    return Path(found) if found and find_spec("redis") is not None else None


class RedisServer:
    """A Redis server on a free port of the loopback interface, for as long as the block lasts."""

    def __init__(self, binary: Path, directory: Path) -> None:
        self._binary, self._directory = binary, directory
        self._process: asyncio.subprocess.Process | None = None
        self.port = 0

    async def __aenter__(self) -> "RedisServer":
        place = self._directory / "redis"
        place.mkdir(parents=True, exist_ok=True)
        ((self.port, _),) = free_port_pairs(1)
        options = {"port": self.port, "bind": "127.0.0.1", "dir": place, "save": "", "daemonize": "no"}
        options |= {"appendonly": "yes", "appendfsync": "always"}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        with (self._directory / "redis.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                self._binary, *words, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        try:
            async with asyncio.timeout(START_S):
                await self._listening()
        except TimeoutError:
            await self.__aexit__()
            raise WorkerError(f"redis-server did not start within {START_S:g} s.") from None
        return self

    async def _listening(self) -> None:
        while True:
            with suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.close()
                return
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


def _connected(settings: RedisSettings) -> Any:
    import redis  # noqa: PLC0415  (an optional dependency: only this worker needs it)

    return redis.Redis("127.0.0.1", settings.port)


async def publisher(settings: RedisSettings, orders: Orders) -> None:
    client = _connected(settings)
    client.ping()
    say("ready")
    await orders.wait_for("go")
    payload, count = bytes(settings.size_bytes), 0
    chunk = max(1, PIPELINE_BYTES // settings.size_bytes)
    started_ns = clock_ns()
    until_ns = started_ns + int(settings.seconds * 1e9)
    while clock_ns() < until_ns:
        pipeline = client.pipeline(transaction=False)
        for _ in range(chunk):
            pipeline.xadd(STREAM, {"payload": payload})
        pipeline.execute()
        count += chunk
    say("done", published=PublishedSample(count, started_ns), ended_ns=clock_ns())
    await orders.wait_for("stop")
    client.close()


async def subscriber(settings: RedisSettings, orders: Orders) -> None:
    client = _connected(settings)
    seen = asyncio.get_running_loop().create_task(asyncio.to_thread(_follow, client))
    say("ready")
    expected = int(await orders.next())
    client_of_count = _connected(settings)
    client_of_count.set("expected", expected)
    say("done", received=await seen)
    client.close()
    client_of_count.close()


def _follow(client: Any) -> ReceivedSample:
    """Read until as many have come as somebody has said that there are."""
    count, last, ended_ns, expected = 0, "0", 0, -1
    while count != expected:
        for _, entries in client.xread({STREAM: last}, count=READ_COUNT, block=100):
            count += len(entries)
            last = entries[-1][0]
            ended_ns = clock_ns()
        if expected < 0:
            said = client.get("expected")
            expected = int(said) if said else -1
    return ReceivedSample(count, ended_ns)


if __name__ == "__main__":
    play(RedisSettings, {"publisher": publisher, "subscriber": subscriber})
