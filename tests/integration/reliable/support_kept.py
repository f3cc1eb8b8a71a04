"""A broker and two repositories as processes, started from a terminal, for tests that read what they keep."""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Self

import holdfast
from holdfast.cluster.config import LOOPBACK
from holdfast.cluster.ports import free_port_pairs
from holdfast.cluster.state import read_state
from holdfast.cluster.status import health_of
from tests.integration.cluster.terminal import Terminal

STREAM = "bank/#"
NAMES = ("r1", "r2")
PATIENCE_S = 60.0
READ_BYTES = 1 << 16


class Kept:
    """What is published durably on `bank/#` is kept by r1 (SQLite) and r2 (segments)."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.terminal = directory, Terminal(directory)
        (port, health), *others = free_port_pairs(3)
        self.address = f"{LOOPBACK}:{port}"
        self.ports = {name: own for name, (_, own) in zip(NAMES, others, strict=True)}
        lines = ["[brokers.a]", f"port = {port}", f"health_port = {health}"]
        for name, kind in zip(NAMES, ("sqlite", "segments"), strict=True):
            lines += [f"[repositories.{name}]", 'broker = "a"', f'streams = ["{STREAM}"]']
            lines += [f"health_port = {self.ports[name]}", f'store = "{kind}:{directory / name}"']
        (directory / "kept.toml").write_text("\n".join(lines))

    def __enter__(self) -> Self:
        ran = self.terminal.run("up", "kept.toml")
        assert ran.returncode == 0, ran.stderr
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.terminal.run("down")
        self.terminal.close()

    @property
    def repositories(self) -> str:
        return ",".join(f"{LOOPBACK}:{self.ports[name]}" for name in NAMES)

    def publish(self, name: str, first: int, last: int, size: int = 0, topic: str = "bank/orders") -> None:
        """Publish those numbers as payloads, and return when every repository that lives has them."""

        async def story() -> None:
            async with holdfast.connect(self.address, name=name) as client:
                sent = []
                for number in range(first, last + 1):
                    payload = b"%s %d" % (name.encode(), number) + bytes(size)
                    sent.append(await client.publish(topic, payload, durable=True))
                await sent[-1].stored()
            async with asyncio.timeout(PATIENCE_S):
                await self._until_level()

        holdfast.run(story())

    async def _until_level(self) -> None:
        """Return when the repositories that live have equally much, without gaps."""
        while True:
            answers = [await health_of(LOOPBACK, port) for port in self.ports.values()]
            said = [one["streams"][STREAM] for one in answers if "streams" in one]
            if len({one["end"] for one in said}) == 1 and not any(one["places"] for one in said):
                return
            await asyncio.sleep(0.05)

    def kill(self, name: str) -> None:
        """With SIGKILL, at once."""
        state = read_state(self.directory / ".holdfast")
        assert state is not None
        (pid,) = [one.process.pid for one in state.running if one.name == name]
        os.kill(pid, signal.SIGKILL)

    def restart(self, name: str) -> None:
        ran = self.terminal.run("restart", name)
        assert ran.returncode == 0, ran.stderr


class Watched:
    """A way to a repository that counts what comes through it, and does something when so much has come."""

    def __init__(self, port: int, at_bytes: int, act: Callable[[], None]) -> None:
        self._port, self._left, self._act = port, at_bytes, act
        self._server = socket.create_server((LOOPBACK, 0))
        self.port = int(self._server.getsockname()[1])
        self.acted = False
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(PATIENCE_S)

    def _serve(self) -> None:
        while True:
            try:
                asking, _ = self._server.accept()
            except OSError:
                return
            with asking:
                self._pass(asking)

    def _pass(self, asking: socket.socket) -> None:
        """One question and its answer: nobody asks two at once over the same way."""
        limit = monotonic() + PATIENCE_S
        try:
            with socket.create_connection((LOOPBACK, self._port), timeout=PATIENCE_S) as answering:
                answering.sendall(asking.recv(READ_BYTES))
                while monotonic() < limit and (data := answering.recv(READ_BYTES)):
                    self._left -= len(data)
                    if self._left <= 0 and not self.acted:
                        self.acted = True
                        self._act()
                    asking.sendall(data)
        except OSError:
            return
