"""The processes that an agent has started, written down: an agent that is started again finds those that live on."""

import shutil
from pathlib import Path

import msgspec
from msgspec import Struct

from holdfast.cluster.machines import LocalMachine, Running
from holdfast.model.errors import ConfigError

FILE = "agent.json"


class Entry(Struct, frozen=True):
    """One process: of which cluster, which one it is, where it answers, and for which session it lives."""

    cluster: str
    running: Running
    host: str = ""
    health_port: int = 0
    session: str = ""


class _Settings(Struct):
    """What the agent itself reads of a process's settings."""

    host: str = ""
    health_port: int | None = None


class Roster:
    """All entries, in a file that is as new as they are."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory.resolve()
        self._file = self._directory / FILE
        self._machines: dict[str, LocalMachine] = {}
        self.entries: list[Entry] = self._read()

    @property
    def directory(self) -> Path:
        return self._directory

    def _read(self) -> list[Entry]:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=list[Entry])
        except FileNotFoundError:
            return []
        except (OSError, msgspec.MsgspecError) as error:
            raise ConfigError(
                f"{self._file} cannot be read ({error}); if no process of it is running any more, remove the file."
            ) from None

    def _write(self) -> None:
        temporary = self._file.with_suffix(".new")
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(self.entries)))
        temporary.replace(self._file)

    def machine(self, cluster: str) -> LocalMachine:
        """Where the processes of that cluster are at home here."""
        if cluster not in self._machines:
            self._machines[cluster] = LocalMachine(self._directory / cluster)
        return self._machines[cluster]

    def find(self, cluster: str, title: str) -> Entry | None:
        """The latest process of that title."""
        return next(
            (one for one in reversed(self.entries) if (one.cluster, one.running.title) == (cluster, title)), None
        )

    def start(self, cluster: str, kind: str, name: str, module: str, settings: str, session: str) -> Running:
        """Start a process and write it down; one that runs under that title already is in the way."""
        earlier = self.find(cluster, f"{kind} {name}")
        if earlier is not None and earlier.running.process.is_alive():
            raise ConfigError(
                f"{earlier.running.title} of cluster {cluster} is running there already; stop that cluster first."
            )
        known = msgspec.json.decode(settings, type=_Settings)
        for folder in ("trace", "state", "stores"):
            (self._directory / cluster / folder).mkdir(parents=True, exist_ok=True)
        running = self.machine(cluster).start(kind, name, module, settings)
        self.entries = [one for one in self.entries if one is not earlier]
        self.entries.append(Entry(cluster, running, known.host, known.health_port or 0, session))
        self._write()
        return running

    def forget(self, cluster: str, *, remove: bool = False) -> None:
        """Drop the entries of processes that have ended, and what they wrote if nobody needs that any more."""
        self.entries = [one for one in self.entries if one.cluster != cluster or one.running.process.is_alive()]
        self._write()
        if remove and not any(one.cluster == cluster for one in self.entries):
            shutil.rmtree(self._directory / cluster, ignore_errors=True)

    def of_session(self, session: str) -> list[Entry]:
        """The processes that live for that session."""
        return [one for one in self.entries if one.session == session and one.running.process.is_alive()]

    def sessions(self) -> set[str]:
        """All sessions for which something lives."""
        return {one.session for one in self.entries if one.session and one.running.process.is_alive()}

    def reap(self) -> None:
        """Take note of children that have ended, so that the system can forget them."""
        for one in self.entries:
            self.machine(one.cluster).exit_code(one.running)

    def let_go(self) -> None:
        """The agent ends, and its processes live on."""
        for machine in self._machines.values():
            machine.let_go()
