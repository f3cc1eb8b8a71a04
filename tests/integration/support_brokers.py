"""Brokers for tests: inside this process, or each a process of its own."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.protocols.config import LinkConfig
from holdfast.runtime.broker import BrokerProcess
from holdfast.runtime.settings import BrokerSettings

QUICK = LinkConfig(redial_s=0.005, redial_max_s=0.05, heartbeat_s=0.5, silence_s=5.0)
PATIENCE_S = 20.0


async def until(condition: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
    """Return when the condition holds; it is asked at every turn of the loop, and there is a limit to it."""
    loop = asyncio.get_running_loop()
    limit = loop.time() + timeout_s
    while not condition():
        if loop.time() > limit:
            raise AssertionError(f"{what}: not within {timeout_s:g} s")
        await asyncio.sleep(0.001)


def fields_logged(caplog: pytest.LogCaptureFixture, event: str) -> list[dict[str, Any]]:
    """The fields of every record of that event."""
    return [getattr(one, "fields", {}) for one in caplog.records if getattr(one, "event", "") == event]


@asynccontextmanager
async def broker_here(name: str = "b0", **settings: Any) -> AsyncIterator[BrokerProcess]:
    """A broker on this event loop, with a port that the system chose."""
    broker = BrokerProcess(BrokerSettings(name=name, **{"port": 0, "link": QUICK, **settings}))
    serving = asyncio.ensure_future(broker.serve())
    try:
        await until(lambda: serving.done() or _listens(broker), f"{name} listens")
        yield broker
    finally:
        broker.stop("the test is over")
        broker.stop("and does not wait")
        await serving


def _listens(broker: BrokerProcess) -> bool:
    """The port for peers comes first, the one for health a moment later."""
    return broker.port != 0 and (broker.health_port != 0 or broker.settings.health_port is None)


@asynccontextmanager
async def chain_here(length: int, **settings: Any) -> AsyncIterator[list[BrokerProcess]]:
    """Brokers b0 <- b1 <- ... on this event loop, all ready."""
    async with AsyncExitStack() as stack:
        brokers: list[BrokerProcess] = []
        for index in range(length):
            above: dict[str, Any] = {}
            if brokers:
                above = {"parent": f"b{index - 1}", "addresses": {f"b{index - 1}": ("127.0.0.1", brokers[-1].port)}}
            brokers.append(await stack.enter_async_context(broker_here(f"b{index}", **above, **settings)))
        await until(lambda: all(broker.ready() for broker in brokers), "every broker is ready")
        yield brokers


def address_of(broker: "BrokerProcess | BrokerChild") -> str:
    return f"holdfast://127.0.0.1:{broker.port}"


class BrokerChild:
    """A broker as a child process; its log is what it said."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process, self._log = process, log
        self.port = self.health_port = 0

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    def lines(self) -> list[dict[str, Any]]:
        if not self._log.exists():
            return []
        whole = self._log.read_bytes().split(b"\n")[:-1]
        return [json.loads(line) for line in whole]

    def said(self, event: str, **fields: object) -> bool:
        wanted = {"event": event, **fields}
        return any(wanted.items() <= line.items() for line in self.lines())

    async def waits_to_say(self, event: str, **fields: object) -> None:
        await until(lambda: self.said(event, **fields) or not self.running, f"the broker says {event}")
        assert self.said(event, **fields), f"the broker ended without saying {event}"

    def send(self, number: signal.Signals) -> None:
        os.kill(self._process.pid, number)

    async def exit_code(self) -> int:
        async with asyncio.timeout(PATIENCE_S):
            return await self._process.wait()

    async def stderr(self) -> str:
        assert self._process.stderr is not None
        return (await self._process.stderr.read()).decode()


@asynccontextmanager
async def broker_child(directory: Path, **settings: Any) -> AsyncIterator[BrokerChild]:
    """A broker in a process of its own; killed at the end if it is still there."""
    chosen = {"name": "b0", "port": 0, "health_port": 0, "link": QUICK, **settings}
    log = directory / f"{chosen['name']}.log"
    text = msgspec.json.encode(BrokerSettings(**{**chosen, "log": str(log)})).decode()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "holdfast.runtime.broker", "--config-json", text, stderr=asyncio.subprocess.PIPE
    )
    child = BrokerChild(process, log)
    try:
        yield child
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        # The transport of the pipe is closed by the loop a turn later.
        await asyncio.sleep(0)


@asynccontextmanager
async def serving_child(directory: Path, **settings: Any) -> AsyncIterator[BrokerChild]:
    """The same, when it serves and has said on which ports."""
    async with broker_child(directory, **settings) as child:
        await child.waits_to_say("serving")
        listening = next(line for line in child.lines() if line["event"] == "listening")
        child.port, child.health_port = listening["port"], listening["health_port"]
        yield child
