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

routing = "filtering"    # with protocol sesdad: sites get what they want; "flooding" sends everything everywhere
replicas = 3             # brokers of each site: 1, 3 or 5
request_s = 0            # how long something is missing before it is asked for, and
notify_s = 0             # how long after the last message it is asked whether there is more; 0 adapts to round trips

[brokers.a]
port = 7400

[brokers.b]
parent = "a"
latency_ms = 40          # of the link to the parent; for simulations

machine = "m1"           # where `holdfast agent` starts it; without it, this machine

[machines.m1]
address = "10.0.0.1:7300"
secret_file = "agent.secret"

[clients.alice]
broker = "b"
topics = ["bank/lisbon"]
subscriptions = [{ pattern = "bank/#", where = "amount > 100" }]   # with filters; `holdfast route` shows who gets what

[sites.lisbon]           # with protocol sesdad, instead of brokers: lisbon.1, lisbon.2 and lisbon.3
parent = "porto"
replicas = 3
ports = [7400, 7401, 7402]

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

from holdfast.cluster.reliable_config import RepositoryEntry, check_repositories, repositories_of
from holdfast.cluster.sections import converted, listed, meant
from holdfast.cluster.site_config import Routing, Site, cycle_of, sites_of
from holdfast.model.errors import ConfigError, LocalMisuse
from holdfast.model.topics import check_pattern
from holdfast.protocols.config import degree_problem
from holdfast.protocols.narada import Registration
from holdfast.protocols.neighbourhoods import Edge, children_of, edges_around
from holdfast.protocols.publishers import interest_problem
from holdfast.protocols.registry import PROTOCOLS
from holdfast.runtime.places import place_of
from holdfast.runtime.settings import DELTA_MAX, TOLERANCE_MAX, tolerance_max

CLUSTER_NAME = "holdfast"
"""A cluster of another name is only served to clients that say the name: `connect(..., cluster="chain")`."""
BASE_PORT = 7400
HEALTH_PORT_OFFSET = 100
BROKERS_MAX = 1024
FILE_BYTES_MAX = 1 << 20
LOOPBACK = "127.0.0.1"
LOCAL_HOSTS = (LOOPBACK, "localhost", "::1")

Port = Annotated[int, Meta(ge=1, le=65535)]
LatencyMs = Annotated[float, Meta(ge=0, le=60_000)]
Seconds = Annotated[float, Meta(gt=0, le=3600)]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


class MachineEntry(Struct, frozen=True):
    """A machine on which processes of the cluster run: where its agent listens, and where the shared secret is."""

    name: str
    address: str
    secret_file: str = ""
    """Empty: as the environment says, HOLDFAST_AGENT_SECRET_FILE or HOLDFAST_AGENT_SECRET."""

    @property
    def place(self) -> tuple[str, int]:
        """The host and port of its agent."""
        place = place_of(self.address)
        if place is None:
            raise ConfigError(f"machine {self.name}: {self.address!r} is no address; expected HOST:PORT of its agent.")
        return place


class Broker(Struct, frozen=True):
    """One broker: who it is, who is above it, where it listens."""

    name: str
    parent: str | None
    host: str
    port: int
    health_port: int
    latency_ms: float | None = None
    machine: str = ""
    """Empty: the machine on which the cluster is started."""

    @property
    def address(self) -> str:
        return f"holdfast://{self.host}:{self.port}"


class Wanted(Struct, frozen=True, forbid_unknown_fields=True):
    """One subscription of a client: a pattern, and a filter on attributes."""

    pattern: str
    where: str = ""


class Client(Struct, frozen=True):
    """One client of the cluster: the broker, or site, it is attached to and the topics it subscribes to."""

    name: str
    broker: str
    topics: tuple[str, ...] = ()
    machine: str = ""
    subscriptions: tuple[Wanted, ...] = ()
    """What else it subscribes to, with filters: for `holdfast route`."""

    @property
    def wants(self) -> tuple[Wanted, ...]:
        return (*(Wanted(topic) for topic in self.topics), *self.subscriptions)


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
    repositories: tuple[RepositoryEntry, ...] = ()
    reliable: tuple[Registration, ...] = ()
    degree_max: int = 0
    session_s: float | None = None
    session_bytes_max: int | None = None
    subscriptions_max: int | None = None
    machines: tuple[MachineEntry, ...] = ()
    sites: tuple[Site, ...] = ()
    routing: Routing = "filtering"
    request_s: float = 0.0
    notify_s: float = 0.0

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

    def repository(self, name: str) -> RepositoryEntry:
        for one in self.repositories:
            if one.name == name:
                return one
        names = [one.name for one in self.repositories]
        raise ConfigError(
            f"cluster {self.name} has no repository {name!r}{meant(name, names)}; it has {listed(names)}."
        )

    def site_of(self, name: str) -> Site | None:
        """The site of that name, or of the broker of that name."""
        return next((site for site in self.sites if name == site.name or name in site.members), None)

    def sites_around(self, site: Site) -> tuple[Site, ...]:
        """A site and those next to it."""
        near = [one for one in self.sites if one.name == site.parent or one.parent == site.name]
        return (site, *near)

    def addresses_of(self, home: str) -> tuple[str, ...]:
        """Where a client of that broker, or site, connects to."""
        site = self.site_of(home)
        return tuple(self.broker(name).address for name in ((home,) if site is None else site.members))

    def children(self, name: str) -> tuple[Broker, ...]:
        return tuple(broker for broker in self.brokers if broker.parent == name)

    @property
    def is_fixed(self) -> bool:
        """Whether brokers are told the tree around them, keep their places in it, and pass over whoever is absent."""
        return PROTOCOLS[self.protocol].hops is not None or PROTOCOLS[self.protocol].sited

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
    machine: str = ""


class _MachineEntry(Struct, frozen=True):
    address: str
    secret_file: str = ""


class _ClientEntry(Struct, frozen=True):
    broker: str
    topics: tuple[str, ...] = ()
    machine: str = ""
    subscriptions: tuple[Wanted, ...] = ()


class _File(Struct, frozen=True):
    brokers: dict[str, dict[str, Any]] = {}
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
    machines: dict[str, dict[str, Any]] = {}
    sites: dict[str, dict[str, Any]] = {}
    replicas: int = 3
    routing: Routing = "filtering"
    request_s: Annotated[float, Meta(ge=0, le=3600)] = 0.0
    notify_s: Annotated[float, Meta(ge=0, le=3600)] = 0.0


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
    sites, brokers_said = sites_of(file.sites, file.protocol, file.replicas, file.brokers, source)
    file = msgspec.structs.replace(file, brokers=brokers_said)
    if not file.brokers:
        raise ConfigError(f"{source}: brokers: expected at least one, such as [brokers.0].")
    if len(file.brokers) > BROKERS_MAX:
        raise ConfigError(f"{source}: brokers: {len(file.brokers)} are too many; at most {BROKERS_MAX} are allowed.")
    if file.base_port + HEALTH_PORT_OFFSET + len(file.brokers) > 65536:
        raise ConfigError(f"{source}: base_port: {file.base_port} leaves no room for the brokers below port 65536.")
    machines = _machines(file, source)
    brokers = tuple(
        _broker(name, converted(entry, _BrokerEntry, source, f"brokers.{name}."), index, file, machines)
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
        machines=tuple(machines.values()),
        sites=sites,
        routing=file.routing,
        request_s=file.request_s,
        notify_s=file.notify_s,
    )
    next_port = max(broker.health_port for broker in brokers) + 1
    repositories, reliable = repositories_of(file.repositories, file.reliable, next_port, source)
    return checked(msgspec.structs.replace(cluster, repositories=repositories, reliable=reliable), source)


def _machines(file: _File, source: str) -> dict[str, MachineEntry]:
    found = {}
    for name, raw in file.machines.items():
        entry = converted(raw, _MachineEntry, source, f"machines.{name}.")
        if place_of(entry.address) is None:
            raise ConfigError(
                f"{source}: machines.{name}.address: {entry.address!r} is no address; expected HOST:PORT of its agent, "
                'such as "10.0.0.1:7300".'
            )
        found[name] = MachineEntry(name, entry.address, entry.secret_file)
    return found


def _broker(name: str, entry: _BrokerEntry, index: int, file: _File, machines: Mapping[str, MachineEntry]) -> Broker:
    port = entry.port or file.base_port + index
    default_health = port + HEALTH_PORT_OFFSET if port + HEALTH_PORT_OFFSET <= 65535 else port - HEALTH_PORT_OFFSET
    there = machines.get(entry.machine)
    host = entry.host or (file.host if there is None else there.place[0])
    health_port = entry.health_port or default_health
    return Broker(name, entry.parent, host, port, health_port, entry.latency_ms, entry.machine)


def _client(name: str, entry: _ClientEntry) -> Client:
    return Client(name, entry.broker, entry.topics, entry.machine, entry.subscriptions)


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
    if not 0 <= cluster.tolerance <= tolerance_max(cluster.protocol):
        raise ConfigError(
            f"{source}: tolerance: {cluster.tolerance} cannot be; expected 0 (nothing is repaired), 1 (one broker at a "
            f"time may be lost) or {TOLERANCE_MAX} (two adjacent ones at once); with delta up to {DELTA_MAX}."
        )
    if cluster.tolerance and cluster.sites:
        raise ConfigError(
            f"{source}: tolerance: of the 2f+1 brokers of a site f may be lost; expected none, and "
            f"replicas = {2 * cluster.tolerance + 1}."
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
    _check_machines(cluster, source)
    check_repositories(cluster.repositories, cluster.reliable, [broker.name for broker in cluster.brokers], source)
    return cluster


def _check_names(cluster: Cluster, source: str) -> None:
    named = [("name", cluster.name)]
    named += [(f"brokers.{broker.name}", broker.name) for broker in cluster.brokers]
    named += [(f"clients.{client.name}", client.name) for client in cluster.clients]
    named += [(f"repositories.{one.name}", one.name) for one in cluster.repositories]
    named += [(f"machines.{one.name}", one.name) for one in cluster.machines]
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


def _check_machines(cluster: Cluster, source: str) -> None:
    known = [one.name for one in cluster.machines]
    placed = [(f"brokers.{one.name}", one.machine) for one in cluster.brokers]
    placed += [(f"clients.{one.name}", one.machine) for one in cluster.clients]
    placed += [(f"repositories.{one.name}", one.machine) for one in cluster.repositories]
    for key, machine in placed:
        if machine and machine not in known:
            raise ConfigError(
                f"{source}: {key}.machine: there is no machine {machine!r}{meant(machine, known)}; "
                f"expected {listed(known)}, or a table [machines.{machine}] with its address."
            )
    far = [one for one in cluster.brokers if one.machine and one.host not in LOCAL_HOSTS]
    for one in cluster.brokers if far else ():
        if one.host in LOCAL_HOSTS:
            raise ConfigError(
                f"{source}: brokers.{one.name}.host: {one.host} is reached from its own machine alone, and broker "
                f"{far[0].name} is on machine {far[0].machine}; expected an address that the others reach."
            )


def _check_tree(cluster: Cluster, source: str) -> None:
    parents = {broker.name: broker.parent for broker in cluster.brokers}
    for name, parent in parents.items():
        if parent is not None and parent not in parents:
            raise ConfigError(
                f"{source}: brokers.{name}.parent: there is no broker {parent!r}{meant(parent, parents)}; "
                f"expected {listed(parents)}."
            )
    if cycle := cycle_of(parents):
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
    brokers = [*(site.name for site in cluster.sites), *(broker.name for broker in cluster.brokers)]
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
        for at, one in enumerate(client.subscriptions):
            problem = interest_problem(one.pattern, one.where)
            if problem:
                raise ConfigError(f"{source}: clients.{client.name}.subscriptions[{at}]: {problem}")
