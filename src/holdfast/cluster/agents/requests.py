"""What a master asks of an agent, and what it gets: messages over a connection that both ends have proved."""

from typing import Any

from msgspec import Struct

from holdfast.cluster.pids import ProcessId

PORTS_MAX = 256


class Hello(Struct, frozen=True, tag="hello"):
    """Where does the agent keep what belongs to that cluster?"""

    cluster: str


class Hold(Struct, frozen=True, tag="hold"):
    """Processes that are started for this session live no longer than a connection that holds it."""

    session: str


class Start(Struct, frozen=True, tag="start"):
    """Start a process of a cluster."""

    cluster: str
    kind: str
    name: str
    module: str
    settings: str
    session: str = ""
    """Empty: it lives until somebody stops it."""


class Signal(Struct, frozen=True, tag="signal"):
    """Signal a process that the agent has started."""

    cluster: str
    title: str
    process: ProcessId
    number: int


class Look(Struct, frozen=True, tag="look"):
    """Is that process there, and how?"""

    cluster: str
    title: str
    process: ProcessId


class Seen(Struct, frozen=True):
    """How a process is."""

    alive: bool
    frozen: bool = False
    exit_code: int | None = None


class Ask(Struct, frozen=True, tag="ask"):
    """Ask the health endpoint of a process that the agent has started."""

    cluster: str
    title: str
    path: str
    method: str = "GET"


class Tail(Struct, frozen=True, tag="tail"):
    """The last lines of a log."""

    path: str


class Read(Struct, frozen=True, tag="read"):
    """What a file of the agent's directory has behind that place."""

    path: str
    offset: int


class Ports(Struct, frozen=True, tag="ports"):
    """Ports that nobody uses there."""

    count: int
    host: str


class Forget(Struct, frozen=True, tag="forget"):
    """The processes of that cluster that have ended need not be remembered."""

    cluster: str
    remove: bool = False
    """Nor what they wrote, if none of them lives."""


class List(Struct, frozen=True, tag="list"):
    """All processes that the agent knows, of every cluster."""


Request = Hello | Hold | Start | Signal | Look | Ask | Tail | Read | Ports | Forget | List


class Reply(Struct, frozen=True):
    """What a request came to: a value, or a sentence about why there is none."""

    value: Any = None
    error: str = ""
