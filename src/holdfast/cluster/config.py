"""A cluster is one TOML file: which brokers there are, who is whose parent, where they listen, who is attached where.

```toml
name = "chain"
protocol = "ginger"
tolerance = 1            # brokers that may be lost at once, next to each other; 0 repairs nothing
silence_s = 0.6          # a broker that says nothing for so long is given up: several round trips of the slowest link
suspect_s = 0.03         # and one without a connection after this time and a few round trips
join_s = 1.0             # how long those below a lost broker may take to turn to another one
session_s = 30           # how long a client may be away, or busy, and still go on where it was
session_bytes_max = 16777216 # how much is kept for it meanwhile
subscriptions_max = 10000 # how many subscriptions a client may have at a time
state_dir = "state"      # where brokers write down what they have to know after a crash; else beside their logs
degree_max = 8           # neighbours that a broker keeps: children beyond that are moved below others; 0: any number

[brokers.a]
port = 7400

[brokers.b]
parent = "a"
latency_ms = 40          # of the link to the parent; for simulations

[clients.alice]
broker = "b"
topics = ["bank/lisbon"]

[repositories.r1]        # keeps what is published durably; several repositories of a topic stand in for each other
broker = "a"
streams = ["bank/#"]
store = "sqlite:r1.db"   # or segments:DIR, or postgresql://...; relative paths are below stores/ of the state directory
level = "fsynced"        # what its acknowledgement stands for: memory, written or fsynced
inspect_s = 3600         # so often it looks whether everything is as it was stored; 0: only when something is missing

[reliable."bank/#"]      # who may publish and subscribe durably; without an owner, everybody may
owner = "bank"
publishers = ["alice"]
keep_s = 604800          # what is older may go, and
keep_bytes = 10000000000 # the oldest of what is more, here or under [repositories.NAME] for all that it keeps,
keep_unread = true       # but nothing that a durable subscriber has not read, unless this is false
```

A broker without a port gets `base_port` plus its place in the file, and its health endpoint `HEALTH_PORT_OFFSET` more.
Whatever is wrong is a `ConfigError` that names the file, the key and what would have been legal.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from holdfast.cluster.reliable_config import Repository, check_repositories, repositories_of
from holdfast.cluster.sections import converted, listed, meant
from holdfast.model.errors import ConfigError, LocalMisuse
from holdfast.model.topics import check_pattern
from holdfast.protocols.config import degree_problem
from holdfast.protocols.narada import Registration
from holdfast.protocols.neighbourhoods import Edge, children_of, edges_around
from holdfast.protocols.registry import PROTOCOLS
from holdfast.runtime.settings import TOLERANCE_MAX

CLUSTER_NAME = "holdfast"
"""A cluster of another name is only served to clients that say the name: `connect(..., cluster="chain")`."""
BASE_PORT = 7400
HEALTH_PORT_OFFSET = 100
BROKERS_MAX = 1024
FILE_BYTES_MAX = 1 << 20
LOOPBACK = "127.0.0.1"

Port = Annotated[int, Meta(ge=1, le=65535)]
LatencyMs = Annotated[float, Meta(ge=0, le=60_000)]
Seconds = Annotated[float, Meta(gt=0, le=3600)]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


class Broker(Struct, frozen=True):
    """One broker: who it is, who is above it, where it listens."""

    name: str
    parent: str | None
    host: str
    port: int
    health_port: int
    latency_ms: float | None = None

    @property
    def address(self) -> str:
        return f"holdfast://{self.host}:{self.port}"


class Client(Struct, frozen=True):
    """One client of the cluster: the broker it is attached to and the topics it subscribes to."""

    name: str
    broker: str
    topics: tuple[str, ...] = ()


class Cluster(Struct, frozen=True):
    """A checked cluster: one root, every parent there, no port twice."""

    name: str
    protocol: str
    brokers: tuple[Broker, ...]
    clients: tuple[Client, ...] = ()
    tolerance: int = 0
    silence_s: float | None = None
    suspect_s: float | None = None
    join_s: float | None = None
    state_dir: str = ""
    repositories: tuple[Repository, ...] = ()
    reliable: tuple[Registration, ...] = ()
    degree_max: int = 0
    session_s: float | None = None
    session_bytes_max: int | None = None
    subscriptions_max: int | None = None

    @property
    def root(self) -> Broker:
        return next(broker for broker in self.brokers if broker.parent is None)

    @property
    def streams(self) -> tuple[str, ...]:
        """The reliable topics: what repositories keep."""
        return tuple(sorted({stream for one in self.repositories for stream in one.streams}))

    def broker(self, name: str) -> Broker:
        for broker in self.brokers:
            if broker.name == name:
                return broker
        names = [broker.name for broker in self.brokers]
        raise ConfigError(f"cluster {self.name} has no broker {name!r}{meant(name, names)}; it has {listed(names)}.")

    def repository(self, name: str) -> Repository:
        for one in self.repositories:
            if one.name == name:
                return one
        names = [one.name for one in self.repositories]
        raise ConfigError(
            f"cluster {self.name} has no repository {name!r}{meant(name, names)}; it has {listed(names)}."
        )

    def children(self, name: str) -> tuple[Broker, ...]:
        return tuple(broker for broker in self.brokers if broker.parent == name)

    @property
    def is_fixed(self) -> bool:
        """Whether brokers are told the tree around them, keep their places in it, and pass over whoever is absent."""
        return PROTOCOLS[self.protocol].hops is not None

    def edges_around(self, name: str) -> tuple[Edge, ...]:
        """The part of the tree that this broker is told of; nothing where the protocol finds out by itself."""
        hops = PROTOCOLS[self.protocol].hops
        if hops is None:
            return ()
        parents = {broker.name: broker.parent for broker in self.brokers}
        return tuple(edges_around(parents, children_of(parents), name, hops(self.tolerance)))

    def parents_first(self) -> tuple[Broker, ...]:
        """The brokers in an order in which each comes after its parent."""
        ordered = [self.root]
        for broker in ordered:
            ordered.extend(self.children(broker.name))
        return tuple(ordered)

    def at_ports(self, ports: Iterable[tuple[int, int]]) -> "Cluster":
        """The same cluster with these pairs of listening and health ports, in the order of its brokers."""
        pairs = list(ports)
        moved = tuple(
            msgspec.structs.replace(broker, port=port, health_port=health_port)
            for broker, (port, health_port) in zip(self.brokers, pairs, strict=True)
        )
        next_port = max(broker.health_port for broker in moved) + 1
        kept = tuple(
            msgspec.structs.replace(one, health_port=next_port + index) for index, one in enumerate(self.repositories)
        )
        return checked(msgspec.structs.replace(self, brokers=moved, repositories=kept), "the ports")

    def at_base_port(self, base_port: int) -> "Cluster":
        """The same cluster on consecutive ports."""
        return self.at_ports(
            (base_port + index, base_port + HEALTH_PORT_OFFSET + index) for index in range(len(self.brokers))
        )


# ------------------------------------------------------------------------------------------------ what a file says


class _BrokerEntry(Struct, frozen=True):
    parent: str | None = None
    host: str | None = None
    port: Port | None = None
    health_port: Port | None = None
    latency_ms: LatencyMs | None = None


class _ClientEntry(Struct, frozen=True):
    broker: str
    topics: tuple[str, ...] = ()


class _File(Struct, frozen=True):
    brokers: dict[str, dict[str, Any]]
    name: str = CLUSTER_NAME
    protocol: str = "ginger"
    host: str = LOOPBACK
    base_port: Port = BASE_PORT
    clients: dict[str, dict[str, Any]] = {}
    tolerance: int = 0
    silence_s: Seconds | None = None
    suspect_s: Seconds | None = None
    join_s: Seconds | None = None
    state_dir: str = ""
    repositories: dict[str, dict[str, Any]] = {}
    reliable: dict[str, dict[str, Any]] = {}
    degree_max: int = 0
    session_s: Seconds | None = None
    session_bytes_max: Annotated[int, Meta(ge=1)] | None = None
    subscriptions_max: Annotated[int, Meta(ge=1)] | None = None


def load_cluster(path: Path) -> Cluster:
    """The cluster that a file describes."""
    try:
        size_bytes = path.stat().st_size
        data = path.read_bytes() if size_bytes <= FILE_BYTES_MAX else b""
    except FileNotFoundError:
        raise ConfigError(f"There is no cluster file {path}; examples/clusters has some to start from.") from None
    except OSError as error:
        raise ConfigError(f"The cluster file {path} cannot be read: {error.strerror or error}.") from None
    if size_bytes > FILE_BYTES_MAX:
        raise ConfigError(f"The cluster file {path} has {size_bytes} bytes; at most {FILE_BYTES_MAX} are read.")
    try:
        return parse_cluster(data.decode(), str(path))
    except UnicodeDecodeError as error:
        raise ConfigError(f"The cluster file {path} is not UTF-8 text (byte {error.start}).") from None


def parse_cluster(text: str, source: str = "cluster file") -> Cluster:
    """The cluster that a TOML text describes; `source` is what errors call it."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source} is not TOML: {error}.") from None
    file = converted(raw, _File, source, "")
    if not file.brokers:
        raise ConfigError(f"{source}: brokers: expected at least one, such as [brokers.0].")
    if len(file.brokers) > BROKERS_MAX:
        raise ConfigError(f"{source}: brokers: {len(file.brokers)} are too many; at most {BROKERS_MAX} are allowed.")
    if file.base_port + HEALTH_PORT_OFFSET + len(file.brokers) > 65536:
        raise ConfigError(f"{source}: base_port: {file.base_port} leaves no room for the brokers below port 65536.")
    brokers = tuple(
        _broker(name, converted(entry, _BrokerEntry, source, f"brokers.{name}."), index, file)
        for index, (name, entry) in enumerate(file.brokers.items())
    )
    clients = tuple(
        _client(name, converted(entry, _ClientEntry, source, f"clients.{name}."))
        for name, entry in file.clients.items()
    )
    rest = (file.tolerance, file.silence_s, file.suspect_s, file.join_s, file.state_dir)
    cluster = Cluster(
        file.name,
        file.protocol,
        brokers,
        clients,
        *rest,
        degree_max=file.degree_max,
        session_s=file.session_s,
        session_bytes_max=file.session_bytes_max,
        subscriptions_max=file.subscriptions_max,
    )
    next_port = max(broker.health_port for broker in brokers) + 1
    repositories, reliable = repositories_of(file.repositories, file.reliable, next_port, source)
    return checked(msgspec.structs.replace(cluster, repositories=repositories, reliable=reliable), source)


def _broker(name: str, entry: _BrokerEntry, index: int, file: _File) -> Broker:
    port = entry.port or file.base_port + index
    default_health = port + HEALTH_PORT_OFFSET if port + HEALTH_PORT_OFFSET <= 65535 else port - HEALTH_PORT_OFFSET
    return Broker(
        name, entry.parent, entry.host or file.host, port, entry.health_port or default_health, entry.latency_ms
    )


def _client(name: str, entry: _ClientEntry) -> Client:
    return Client(name, entry.broker, entry.topics)


# ------------------------------------------------------------------------------------------------------ what must hold


def checked(cluster: Cluster, source: str) -> Cluster:
    """`cluster` if it can be; a `ConfigError` if not."""
    _check_names(cluster, source)
    if cluster.protocol not in PROTOCOLS:
        known = sorted(PROTOCOLS)
        raise ConfigError(
            f"{source}: protocol: unknown protocol {cluster.protocol!r}{meant(cluster.protocol, known)}; "
            f"expected {listed(known)}."
        )
    if not 0 <= cluster.tolerance <= TOLERANCE_MAX:
        raise ConfigError(
            f"{source}: tolerance: {cluster.tolerance} cannot be; expected 0 (nothing is repaired), 1 (one broker at a "
            f"time may be lost) or {TOLERANCE_MAX} (two adjacent ones at once)."
        )
    if problem := degree_problem(cluster.degree_max, cluster.tolerance):
        raise ConfigError(f"{source}: degree_max: {problem}.")
    if cluster.degree_max and cluster.is_fixed:
        raise ConfigError(
            f"{source}: degree_max: brokers of protocol {cluster.protocol} keep their places in the tree, so nobody is "
            "moved; leave it out."
        )
    _check_tree(cluster, source)
    _check_ports(cluster, source)
    _check_clients(cluster, source)
    check_repositories(cluster.repositories, cluster.reliable, [broker.name for broker in cluster.brokers], source)
    return cluster


def _check_names(cluster: Cluster, source: str) -> None:
    named = [("name", cluster.name)]
    named += [(f"brokers.{broker.name}", broker.name) for broker in cluster.brokers]
    named += [(f"clients.{client.name}", client.name) for client in cluster.clients]
    named += [(f"repositories.{one.name}", one.name) for one in cluster.repositories]
    for key, name in named:
        if not _NAME.match(name):
            raise ConfigError(
                f"{source}: {key}: {name!r} is no name; expected up to 64 letters, digits, '.', '_' and '-', "
                "beginning with a letter or digit."
            )
    brokers = {broker.name for broker in cluster.brokers}
    others = [f"clients.{client.name}" for client in cluster.clients]
    others += [f"repositories.{one.name}" for one in cluster.repositories]
    taken = dict.fromkeys(brokers, "a broker")
    for key in others:
        kind, _, name = key.partition(".")
        if name in taken:
            raise ConfigError(f"{source}: {key}: {taken[name]} has that name; every node needs its own.")
        taken[name] = {"clients": "a client", "repositories": "a repository"}[kind]


def _check_tree(cluster: Cluster, source: str) -> None:
    parents = {broker.name: broker.parent for broker in cluster.brokers}
    for name, parent in parents.items():
        if parent is not None and parent not in parents:
            raise ConfigError(
                f"{source}: brokers.{name}.parent: there is no broker {parent!r}{meant(parent, parents)}; "
                f"expected {listed(parents)}."
            )
    if cycle := _cycle(parents):
        raise ConfigError(
            f"{source}: brokers.{cycle[0]}.parent: {' -> '.join(cycle)} is a cycle of parents; "
            "brokers form a tree, so one of them needs another parent or none."
        )
    roots = [name for name, parent in parents.items() if parent is None]
    if len(roots) != 1:
        raise ConfigError(
            f"{source}: brokers: {listed(roots, 'and')} have no parent; exactly one broker is the root, "
            "so give the others a parent."
        )


def _cycle(parents: Mapping[str, str | None]) -> list[str]:
    """Some cycle of parents, its first broker repeated at the end; empty if there is none."""
    settled: set[str] = set()
    for start in parents:
        path: list[str] = []
        at: str | None = start
        while at is not None and at not in settled:
            if at in path:
                return [*path[path.index(at) :], at]
            path.append(at)
            at = parents[at]
        settled.update(path)
    return []


def _check_ports(cluster: Cluster, source: str) -> None:
    asked = [
        (broker.host, port, f"brokers.{broker.name}.{key}")
        for broker in cluster.brokers
        for key, port in (("port", broker.port), ("health_port", broker.health_port))
    ]
    asked += [
        (cluster.broker(one.broker).host, one.health_port, f"repositories.{one.name}.health_port")
        for one in cluster.repositories
        if any(broker.name == one.broker for broker in cluster.brokers)
    ]
    taken: dict[tuple[str, int], str] = {}
    for host, port, where in asked:
        if not 1 <= port <= 65535:
            raise ConfigError(f"{source}: {where}: {port} is no port; expected 1 to 65535.")
        other = taken.setdefault((host, port), where)
        if other != where:
            raise ConfigError(f"{source}: {where}: {host}:{port} is taken by {other}; give each its own port.")


def _check_clients(cluster: Cluster, source: str) -> None:
    brokers = [broker.name for broker in cluster.brokers]
    for client in cluster.clients:
        if client.broker not in brokers:
            raise ConfigError(
                f"{source}: clients.{client.name}.broker: there is no broker {client.broker!r}"
                f"{meant(client.broker, brokers)}; expected {listed(brokers)}."
            )
        for topic in client.topics:
            try:
                check_pattern(topic)
            except LocalMisuse as error:
                raise ConfigError(f"{source}: clients.{client.name}.topics: {error}") from None
