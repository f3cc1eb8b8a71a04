"""What the brokers of a cluster say of themselves: their health endpoints, asked all at once.

The tree is as the brokers report it now, which after a failure is not the one of the cluster's file.
"""

import asyncio
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from holdfast.cluster.config import Broker, Cluster
from holdfast.model.errors import ConfigError

ANSWER_S = 2.0
HEALING = (
    " to join, ",
    "to open the link",
    "to hear of the change",
    "an earlier repair",
    "a majority: ",
    "out of reach",
)
MOVING = ("its move from ", " to be moved below ")
"""What a broker says when it waits for the tree to be whole again, and not merely for traffic."""
ANSWER_BYTES_MAX = 1 << 24


class BrokerStatus(Struct, frozen=True):
    """One broker: what it answered, or why there is no answer."""

    name: str
    parent: str | None
    """The broker above it, as it says itself; of one that does not answer, as its cluster's file says."""
    address: str
    ready: bool
    reason: str = ""
    clients: tuple[str, ...] = ()
    status: dict[str, Any] = {}

    @property
    def answers(self) -> bool:
        return bool(self.status)

    @property
    def healing(self) -> list[str]:
        """What it waits for before the tree around it is whole again, and whom it misses; empty when it is."""
        reasons = [str(reason) for reason in self.status.get("waiting_for") or ()]
        words = (*HEALING, *MOVING)
        found = [f"waits for {reason}" for reason in reasons if any(one in reason for one in words)]
        degree, most = self.status.get("degree", 0), self.status.get("degree_max", 0)
        if 0 < most < degree:
            found.append(f"has {degree} neighbours, and keeps {most}: children will be moved")
        if suspected := self.status.get("suspected"):
            found.append(f"passes over {', '.join(map(str, suspected))}, and keeps what they lack")
        if absent := self.status.get("absent"):
            found.append(f"keeps what {', '.join(map(str, absent))} may lack")
        return found


class ClusterStatus(Struct, frozen=True):
    """All brokers, in the order of the cluster's file."""

    cluster: str
    protocol: str
    brokers: tuple[BrokerStatus, ...]

    @property
    def ready(self) -> bool:
        return all(broker.ready for broker in self.brokers)

    def children(self, name: str) -> list[BrokerStatus]:
        """Those that answer and say that this broker is their parent."""
        return [broker for broker in self.brokers if broker.answers and broker.parent == name]

    def tops(self) -> list[BrokerStatus]:
        """Those that answer and have nobody above them who does: the root, and whoever is looking for a parent."""
        answering = {broker.name for broker in self.brokers if broker.answers}
        return [broker for broker in self.brokers if broker.answers and broker.parent not in answering]

    def silent(self) -> list[BrokerStatus]:
        """Those that do not answer: crashed, frozen, or never started."""
        return [broker for broker in self.brokers if not broker.answers]


class Asker(Protocol):
    """How the health endpoint of a broker is asked; raises `OSError` or `ValueError` if it gives no answer."""

    async def __call__(self, broker: Broker, path: str, method: str = "GET") -> dict[str, Any]: ...


async def ask_directly(broker: Broker, path: str, method: str = "GET") -> dict[str, Any]:
    """Ask a broker where it listens."""
    return await get_json(broker.host, broker.health_port, path, method)


async def cluster_status(cluster: Cluster, ask: Asker = ask_directly) -> ClusterStatus:
    """Ask every broker at once."""
    answers = await asyncio.gather(*(broker_status(broker, ask) for broker in cluster.brokers))
    return ClusterStatus(cluster.name, cluster.protocol, tuple(answers))


async def broker_status(broker: Broker, ask: Asker = ask_directly) -> BrokerStatus:
    """Ask one broker; silence is an answer too."""
    try:
        async with asyncio.timeout(ANSWER_S):
            said = await ask(broker, "/status")
    except TimeoutError:
        return _silent(broker, f"no answer within {ANSWER_S:g} s")
    except (OSError, ValueError) as error:
        return _silent(broker, reason_of(error))
    if (name := said.get("name")) != broker.name:
        return _silent(broker, f"port {broker.health_port} answers as {name!r}, which is somebody else")
    return status_of(broker.name, said.get("parent", broker.parent), broker.address, said)


def status_of(name: str, parent: str | None, address: str, said: dict[str, Any]) -> BrokerStatus:
    """A broker that has answered."""
    clients = tuple(map(str, said.get("clients", ())))
    return BrokerStatus(name, parent, address, bool(said.get("ready")), _waiting(said), clients, said)


async def health_of(host: str, port: int) -> dict[str, Any]:
    """What whoever answers on that health port says of itself; nothing if nobody does."""
    try:
        async with asyncio.timeout(ANSWER_S):
            return await get_json(host, port, "/status")
    except (TimeoutError, OSError, ValueError):
        return {}


async def tell(broker: Broker, command: str, ask: Asker = ask_directly) -> dict[str, Any]:
    """Give a broker that takes part in experiments a command, such as `/heal`."""
    try:
        async with asyncio.timeout(ANSWER_S):
            return await ask(broker, command, "POST")
    except TimeoutError:
        raise ConfigError(f"broker {broker.name} gave no answer within {ANSWER_S:g} s; is it frozen?") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"broker {broker.name} cannot be told so: {reason_of(error)}.") from None


def _waiting(said: dict[str, Any]) -> str:
    if said.get("ready"):
        return ""
    if said.get("stopping"):
        return "is stopping"
    return "; ".join(map(str, said.get("waiting_for") or ["is not ready yet"]))


def _silent(broker: Broker, reason: str) -> BrokerStatus:
    return BrokerStatus(broker.name, broker.parent, broker.address, ready=False, reason=reason)


def reason_of(error: Exception) -> str:
    """Why a health endpoint gave no answer."""
    if isinstance(error, ConnectionRefusedError):
        return "nobody listens on its health port"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


async def get_json(host: str, port: int, path: str, method: str = "GET") -> dict[str, Any]:
    """What a health endpoint answers; raises `OSError` or `ValueError`, with a reason, if it does not."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        answer = await _read_all(reader)
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    if head.startswith(b"HTTP/1.1 400 "):
        raise ValueError(msgspec.json.decode(body, type=dict[str, Any]).get("error", "it does not say why"))
    if not head.startswith(b"HTTP/1.1 200 "):
        raise ValueError(f"its health endpoint answered {head[:40].decode('latin-1')!r}")
    return msgspec.json.decode(body, type=dict[str, Any])


async def _read_all(reader: asyncio.StreamReader) -> bytes:
    pieces, size = [], 0
    while piece := await reader.read(1 << 16):
        pieces.append(piece)
        size += len(piece)
        if size > ANSWER_BYTES_MAX:
            raise ValueError(f"its answer is longer than {ANSWER_BYTES_MAX} bytes")
    return b"".join(pieces)
