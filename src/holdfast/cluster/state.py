"""The state directory: what is written down of a cluster that runs on after its starter has ended.

`cluster.json` holds the cluster and its processes, `logs/` what they say. While it is changed `lock` is held, so that
two commands at once cannot start two clusters in one place.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from holdfast.cluster.config import Cluster
from holdfast.cluster.machines import HERE, Machines, Running
from holdfast.model.errors import ConfigError

DEFAULT_DIRECTORY = Path(".holdfast")
_FILE, _LOCK = "cluster.json", "lock"


class State(Struct, frozen=True):
    """A cluster that was started, and its processes."""

    cluster: Cluster
    running: list[Running]
    trace: str = ""
    """Where all of them write what they report; empty: nowhere."""

    def alive(self, machines: Machines = HERE) -> list[Running]:
        """The processes that are there; of a machine that gives no answer, none (see `machines.lost`)."""
        return machines.alive(self.running)


def read_state(directory: Path) -> State | None:
    """What is written down there, or `None`."""
    try:
        return msgspec.json.decode((directory / _FILE).read_bytes(), type=State)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(
            f"{directory / _FILE} cannot be read ({error}); if no broker of it is running any more, remove the file."
        ) from None


def running_state(directory: Path, has_address: bool = False) -> State:
    """What runs there, or a sentence that nothing does; `has_address`: for a command that may be given an address."""
    state = read_state(directory)
    if state is None:
        address = "; for a cluster that was started elsewhere, give --address" if has_address else ""
        raise ConfigError(
            f"no cluster was started in {directory}; start one with `holdfast up`, or name its --state{address}."
        )
    return state


def write_state(directory: Path, state: State) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    # A reader sees the old file or the new one, never half of one.
    temporary = directory / f"{_FILE}.new"
    temporary.write_bytes(msgspec.json.format(msgspec.json.encode(state)))
    temporary.replace(directory / _FILE)


def forget_state(directory: Path) -> None:
    (directory / _FILE).unlink(missing_ok=True)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Nobody else starts or stops a cluster there meanwhile."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / _LOCK).open("w")
    except OSError as error:
        raise ConfigError(f"the state directory {directory} cannot be used: {error.strerror or error}.") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                f"another command is starting or stopping a cluster in {directory}; wait, or name another --state."
            ) from None
        yield
