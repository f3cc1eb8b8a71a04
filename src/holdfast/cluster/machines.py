"""Where the processes of a cluster run: this machine, and others on which a `holdfast agent` starts them for us.

A machine starts processes, sends them signals, says whether they are there, reads what they write, and asks their
health endpoints. Whoever has to do with processes asks their machine, and need not know which one it is.
"""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from signal import Signals
from typing import Any, Protocol

from msgspec import Struct

from holdfast.cluster.broker_process import ATTACHED
from holdfast.cluster.config import Broker
from holdfast.cluster.pids import ProcessId, process_id
from holdfast.cluster.ports import free_ports
from holdfast.cluster.status import ANSWER_S, ask_directly, get_json, health_of
from holdfast.cluster.workers import log_tail
from holdfast.model.errors import WorkFailed

READ_BYTES_MAX = 1 << 22
"""How much of a file is read at a time."""


class MachineError(WorkFailed):
    """Raised when the agent of a machine gives no answer, or cannot do what it is asked."""


class Running(Struct, frozen=True):
    """A process that was started: what it is, which one it is, where its log is, and on which machine."""

    kind: str
    name: str
    process: ProcessId
    log: str
    machine: str = ""
    """Empty: this one."""

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}"


class Machine(Protocol):
    """What can be asked of any machine. Calls that may take a while block; `ask` does not."""

    def directory(self) -> Path:
        """Where the processes of the cluster keep their logs, traces and state there."""

    def start(self, kind: str, name: str, module: str, settings: str) -> Running: ...

    def signal(self, one: Running, number: Signals) -> bool:
        """Signal the process if it is still there; whether it was."""

    def is_alive(self, one: Running) -> bool: ...

    def is_frozen(self, one: Running) -> bool: ...

    def exit_code(self, one: Running) -> int | None:
        """With which code the process has ended, if it has and somebody knows."""

    def wait(self, one: Running, timeout_s: float) -> int:
        """Wait for the end of the process, and return its exit code."""

    def tail(self, log: str) -> str:
        """The last lines of a log."""

    def read(self, path: str, offset: int) -> bytes:
        """What a file has behind that place, or some of it; nothing if there is no file."""

    def free_ports(self, count: int, host: str) -> Sequence[int]: ...

    async def ask(self, title: str, host: str, port: int, path: str, method: str = "GET") -> dict[str, Any]:
        """What the health endpoint of that process answers; raises `OSError` or `ValueError` if it does not."""


class LocalMachine:
    """This machine: processes are children of ours, or were written down by another process of ours."""

    def __init__(
        self, directory: Path, attached: bool = False, launchers: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self._directory, self._attached, self._launchers = directory, attached, launchers or {}
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def directory(self) -> Path:
        return self._directory

    def start(self, kind: str, name: str, module: str, settings: str) -> Running:
        logs, title = self._directory / "logs", f"{kind} {name}"
        logs.mkdir(parents=True, exist_ok=True)
        self._forget(title)
        log = logs / f"{kind}-{name}.log"
        command = [*self._launchers.get(title, ()), sys.executable, "-m", module, settings]
        # What an earlier process of the same name said is worth keeping: it may have been killed for a test.
        with log.open("ab") as output:
            child = subprocess.Popen(
                [*command, ATTACHED] if self._attached else command,
                stdin=subprocess.PIPE if self._attached else subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._children[title] = child
        return Running(kind, name, process_id(child.pid), str(log))

    def _forget(self, title: str) -> None:
        """An earlier process of that name is gone: close what is left of it."""
        earlier = self._children.pop(title, None)
        if earlier is not None and earlier.stdin is not None:
            earlier.stdin.close()

    def signal(self, one: Running, number: Signals) -> bool:
        sent = one.process.signal(number)
        if sent and number is Signals.SIGKILL and one.title in self._children:
            self._children[one.title].wait()
        return sent

    def is_alive(self, one: Running) -> bool:
        return one.process.is_alive()

    def is_frozen(self, one: Running) -> bool:
        return one.process.is_frozen()

    def exit_code(self, one: Running) -> int | None:
        child = self._children.get(one.title)
        return None if child is None or child.pid != one.process.pid else child.poll()

    def wait(self, one: Running, timeout_s: float) -> int:
        return self._children[one.title].wait(timeout_s)

    def tail(self, log: str) -> str:
        return log_tail(Path(log))

    def read(self, path: str, offset: int) -> bytes:
        return read_from(Path(path), offset)

    def free_ports(self, count: int, host: str) -> Sequence[int]:
        return free_ports(count, host)

    async def ask(self, title: str, host: str, port: int, path: str, method: str = "GET") -> dict[str, Any]:  # noqa: ARG002
        return await get_json(host, port, path, method)

    def close(self) -> None:
        """Everybody has been told to stop: see that they are gone."""
        for child in self._children.values():
            child.wait()
            # Not before: the end of its input tells a broker to stop, and being told twice makes it leave at once.
            if child.stdin is not None:
                child.stdin.close()
        self._children.clear()

    def let_go(self) -> None:
        """Leave the processes running: from now on they are somebody else's to stop."""
        for child in self._children.values():
            # Else the interpreter would complain at its end that a child is still there, which is the intention.
            child.returncode = 0
        self._children.clear()


def read_from(file: Path, offset: int) -> bytes:
    """What a file has from that place on, up to a bound; nothing if there is no file."""
    try:
        with file.open("rb") as opened:
            opened.seek(offset)
            return opened.read(READ_BYTES_MAX)
    except FileNotFoundError:
        return b""


class Machines:
    """The machines of a cluster, by their names; this one has none.

    A machine that gives no answer is in `lost`, with the reason, until it answers again: the others can be dealt with.
    """

    def __init__(self, local: LocalMachine | None = None, others: Mapping[str, Machine] | None = None) -> None:
        self.local = local or LocalMachine(Path())
        self._others = dict(others or {})
        self.lost: dict[str, str] = {}

    @property
    def others(self) -> dict[str, Machine]:
        return dict(self._others)

    def __getitem__(self, name: str) -> Machine:
        if not name:
            return self.local
        if name not in self._others:
            raise MachineError(f"there is no machine {name!r}; there are {', '.join(self._others) or 'none'}.")
        return self._others[name]

    def signal(self, one: Running, number: Signals) -> bool:
        return self[one.machine].signal(one, number)

    def is_alive(self, one: Running) -> bool:
        return self[one.machine].is_alive(one)

    def alive(self, running: Iterable[Running]) -> list[Running]:
        """Those of them that are there; of a machine that gives no answer nobody is."""
        return [one for one in running if self.tried(one, partial(self.is_alive, one))]

    def tried(self, one: Running, do: Callable[[], bool]) -> bool:
        """Do something to a process; `False` if its machine gives no answer, which is noted."""
        try:
            done = do()
        except MachineError as error:
            self.lost[one.machine] = str(error)
            return False
        self.lost.pop(one.machine, None)
        return done

    async def ask_broker(self, broker: Broker, path: str, method: str = "GET") -> dict[str, Any]:
        """Ask a broker through its machine; where the agent is away, questions go to the broker itself."""
        if broker.machine:
            try:
                title = f"broker {broker.name}"
                return await self[broker.machine].ask(title, broker.host, broker.health_port, path, method)
            except MachineError as error:
                if method != "GET":
                    raise ValueError(str(error).rstrip(".")) from None
        return await ask_directly(broker, path, method)

    async def health_of(self, title: str, machine: str, host: str, port: int) -> dict[str, Any]:
        """What a process that is no broker says of itself; nothing if it gives no answer."""
        try:
            async with asyncio.timeout(ANSWER_S):
                return await self[machine].ask(title, host, port, "/status")
        except MachineError:
            return await health_of(host, port)
        except (TimeoutError, OSError, ValueError):
            return {}


HERE = Machines()
"""For clusters that are on this machine alone."""
