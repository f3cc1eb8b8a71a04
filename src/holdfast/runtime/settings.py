"""What a broker process is told: who it is, whom it knows, how it survives, where it writes."""

from msgspec import Struct
from msgspec.structs import replace

from holdfast.model.errors import ConfigError
from holdfast.protocols.config import SUBSCRIPTIONS_MAX, BrokerConfig, LinkConfig, degree_problem
from holdfast.protocols.registry import find_protocol
from holdfast.runtime.connection import ConnectionLimits
from holdfast.runtime.tracing import RUN

STEADY_LINK = LinkConfig()
WATCHFUL_LINK = LinkConfig(heartbeat_s=0.15, silence_s=0.6, redial_s=0.005, redial_max_s=0.5)
"""Where silence means a repair it must be noticed within a second; a connection that merely broke is there again long
before the other end gives up on it."""
SUSPECT_S, JOIN_S, SESSION_S = 0.03, 1.0, 30.0
SESSION_BYTES_MAX = 16 << 20
TOLERANCE_MAX = 2
DELTA_MAX = 8
"""With `delta` more nodes may be failed: what it costs grows with the number of nodes within so many hops."""


def tolerance_max(protocol: str) -> int:
    """The largest tolerance that brokers of that protocol take."""
    return DELTA_MAX if protocol == "delta" else TOLERANCE_MAX


ANY_HOST = ("0.0.0.0", "::", "")


class BrokerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that a broker process is told."""

    name: str
    parent: str | None = None
    cluster: str = "holdfast"
    protocol: str = "ginger"
    host: str = "127.0.0.1"
    port: int = 7400
    """0, here and below, lets the system choose; the log line `listening` says what."""
    health_port: int | None = None
    """`None`: no health endpoint."""
    addresses: dict[str, tuple[str, int]] = {}
    """Where other brokers are, the parent at least."""
    neighbours: dict[str, tuple[str, int]] = {}
    """Where the brokers below it are meant to be: not for itself, but for those who ask it where the others are."""
    edges: tuple[tuple[str, str], ...] = ()
    """The tree around this broker, as (parent, child), for protocols whose brokers are told."""
    tolerance: int = 0
    """How many adjacent brokers may be lost before a repair of the tree has ended; 0 repairs nothing."""
    advertised: str = ""
    """`host:port` where others reach this broker; empty: where it listens."""
    join: tuple[str, ...] = ()
    """Brokers of `addresses` that may take this one in when it is a newcomer and its parent does not."""
    newcomer: bool | None = False
    """The tree is there already: ask to be taken in, whether there is a parent or not. `None`: it is if this broker has
    written down that it was part of one, and did not leave it."""
    seeds: tuple[tuple[str, int], ...] = ()
    """Where some broker of the tree listens, if nothing else is known: the first that answers takes this one in, and
    says what the protocol and the tolerance are."""
    brokers: int = 0
    """How many brokers the cluster is meant to have; with it `total` is served only where a majority of them is."""
    suspect_s: float = SUSPECT_S
    """How long a neighbour may be without a connection before it is given up."""
    join_s: float = JOIN_S
    """How long those below a lost broker may take to turn to us before they are given up, too."""
    session_s: float = SESSION_S
    """How long a client that lost its connection, or its broker, may take to return to its session."""
    session_bytes_max: int = SESSION_BYTES_MAX
    """How much is kept for such a client."""
    subscriptions_max: int = SUBSCRIPTIONS_MAX
    """How many subscriptions a client may have at a time; more are refused."""
    degree_max: int = 0
    """How many neighbours this broker keeps: it moves children beyond that below others. 0: as many as there are."""
    site: str = ""
    """The site that this broker belongs to, for protocols whose brokers form sites."""
    sites: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """That site and those next to it, each with its brokers."""
    upper_site: str = ""
    routing: str = "filtering"
    request_s: float = 0.0
    notify_s: float = 0.0
    """As in `protocols.config`."""
    experiments: bool = False
    """Obey `POST /cut?peer=NAME` and `POST /heal` on the health port."""
    state_dir: str = ""
    """A directory for what this broker has to know after a crash; empty: it comes back without memory."""
    trace: str = ""
    """A `.jsonl` file or a directory for the trace of this broker; empty for none."""
    run: str = RUN
    log: str = ""
    """A file for the log; empty for stderr."""
    log_level: str = "info"
    drain_s: float = 10.0
    """How long a stop may wait for what is under way to arrive."""
    link: LinkConfig | None = None
    """`None`: what suits the tolerance."""
    limits: ConnectionLimits = ConnectionLimits()

    def check(self) -> None:
        if not 0 <= self.tolerance <= tolerance_max(self.protocol):
            raise ConfigError(
                f"broker {self.name}: tolerance {self.tolerance} cannot be; 0 repairs nothing, 1 survives the loss of "
                f"one broker at a time, {TOLERANCE_MAX} that of two adjacent ones at once"
            )
        if self.subscriptions_max < 1:
            raise ConfigError(f"broker {self.name}: subscriptions_max {self.subscriptions_max} lets nobody subscribe")
        if problem := degree_problem(self.degree_max, self.tolerance):
            raise ConfigError(f"broker {self.name}: degree_max {problem}")
        if self.tolerance and not self.advertised and self.host in ANY_HOST:
            raise ConfigError(f"broker {self.name} listens everywhere: say in `advertised` where others reach it")
        self._check_edges()
        for name in self.join:
            if name not in self.addresses:
                raise ConfigError(f"broker {self.name} may join {name}, but is not told where that is")
        if self.seeds and (self.parent is not None or self.join):
            raise ConfigError(f"broker {self.name} is told both whom to join and merely where: leave out one of them")
        if self.newcomer and not self.is_fixed and not self.candidates() and not self.seeds:
            raise ConfigError(f"broker {self.name} is a newcomer, but is told nobody who could take it in")
        if self.parent is not None and self.parent not in self.addresses:
            raise ConfigError(f"broker {self.name} has the parent {self.parent}, but is not told where that is")
        for what, port in (("port", self.port), ("health_port", self.health_port or 0)):
            if not 0 <= port <= 65535:
                raise ConfigError(f"broker {self.name}: {what} {port} is no port; it is between 0 and 65535")

    def _check_edges(self) -> None:
        protocol = find_protocol(self.protocol)
        if protocol.recovers and not self.state_dir:
            raise ConfigError(
                f"broker {self.name} of protocol {self.protocol} writes down what it processes: say where, in state_dir"
            )
        if self.edges and protocol.hops is None:
            raise ConfigError(f"broker {self.name} is told edges, of which protocol {self.protocol} knows nothing")
        if protocol.sited and self.parent is not None and not self.site:
            raise ConfigError(
                f"broker {self.name} of protocol {self.protocol} has a parent and no site: write [sites.NAME] in a "
                "cluster file, or leave the parent out"
            )
        for name in {name for edge in self.edges for name in edge} - {self.name, *self.addresses}:
            raise ConfigError(f"broker {self.name} is told an edge of {name}, but not where that is")

    @property
    def is_fixed(self) -> bool:
        """Whether brokers keep their places in the tree, and whoever comes back is no newcomer."""
        return find_protocol(self.protocol).hops is not None or find_protocol(self.protocol).sited

    def candidates(self) -> tuple[str, ...]:
        """Who may take this broker in, in the order in which they are asked."""
        parent = () if self.parent is None else (self.parent,)
        return tuple(dict.fromkeys((*parent, *self.join)))

    def config(self, parent: str | None, port: int) -> BrokerConfig:
        """What the node is told; `port` is where it listens."""
        return BrokerConfig(
            self.name,
            parent,
            self.cluster,
            replace(
                self.link or (WATCHFUL_LINK if self.tolerance or self.site else STEADY_LINK),
                away_bytes_max=self.session_bytes_max,
            ),
            session_keep_s=self.session_s,
            tolerance=self.tolerance,
            address=self.advertised or address_text(self.host, port),
            suspect_s=self.suspect_s,
            join_s=self.join_s,
            brokers=self.brokers,
            durable=bool(self.state_dir),
            degree_max=self.degree_max,
            subscriptions_max=self.subscriptions_max,
            edges=self.edges,
            places=tuple((name, address_text(*place)) for name, place in self.addresses.items())
            if self.is_fixed
            else (),
            site=self.site,
            sites=self.sites,
            upper_site=self.upper_site,
            routing=self.routing,
            request_s=self.request_s,
            notify_s=self.notify_s,
        )


def address_text(host: str, port: int) -> str:
    """`host:port`, as brokers tell each other."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
