"""What the brokers of a cluster say of themselves: their health endpoints, asked all at once."""

import asyncio
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.cluster.config import Broker, Cluster

ANSWER_S = 2.0
ANSWER_BYTES_MAX = 1 << 24


class BrokerStatus(Struct, frozen=True):
    """One broker: what it answered, or why there is no answer."""

    name: str
    parent: str | None
    address: str
    ready: bool
    reason: str = ""
    clients: tuple[str, ...] = ()
    status: dict[str, Any] = {}


class ClusterStatus(Struct, frozen=True):
    """All brokers, in the order of the cluster's file."""

    cluster: str
    protocol: str
    brokers: tuple[BrokerStatus, ...]

    @property
    def ready(self) -> bool:
        return all(broker.ready for broker in self.brokers)

    def children(self, name: str | None) -> list[BrokerStatus]:
        return [broker for broker in self.brokers if broker.parent == name]


async def cluster_status(cluster: Cluster) -> ClusterStatus:
    """Ask every broker at once."""
    answers = await asyncio.gather(*map(broker_status, cluster.brokers))
    return ClusterStatus(cluster.name, cluster.protocol, tuple(answers))


async def broker_status(broker: Broker) -> BrokerStatus:
    """Ask one broker; silence is an answer too."""
    try:
        async with asyncio.timeout(ANSWER_S):
            said = await _get_json(broker.host, broker.health_port, "/status")
    except TimeoutError:
        return _silent(broker, f"no answer within {ANSWER_S:g} s")
    except (OSError, ValueError) as error:
        return _silent(broker, _reason(error))
    if (name := said.get("name")) != broker.name:
        return _silent(broker, f"port {broker.health_port} answers as {name!r}, which is somebody else")
    clients = tuple(map(str, said.get("clients", ())))
    return BrokerStatus(
        broker.name, broker.parent, broker.address, bool(said.get("ready")), _waiting(said), clients, said
    )


def _waiting(said: dict[str, Any]) -> str:
    if said.get("ready"):
        return ""
    if said.get("stopping"):
        return "is stopping"
    return "; ".join(map(str, said.get("waiting_for") or ["is not ready yet"]))


def _silent(broker: Broker, reason: str) -> BrokerStatus:
    return BrokerStatus(broker.name, broker.parent, broker.address, ready=False, reason=reason)


def _reason(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "nobody listens on its health port"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


async def _get_json(host: str, port: int, path: str) -> dict[str, Any]:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        answer = await _read_all(reader)
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
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
