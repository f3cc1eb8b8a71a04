"""The lines of a script as plain values. Each knows the line it stands on, for whoever has to say what went wrong."""

from typing import Literal

from msgspec import Struct

from holdfast.model.filters import Value

LoggingLevelName = Literal["light", "full"]
Comparison = Literal["exactly", "at least", "at most"]
NodeState = Literal["ready", "root", "down", "frozen"]
AuditMark = Literal["clean", "broken", "noloss", "noduplicates", "fifo", "causal", "total"]


class Statement(Struct, frozen=True):
    """One line of a script, as it was written."""

    line: int
    text: str


# ----------------------------------------------------------------------------------------- who takes part, and how


class ProtocolName(Statement, frozen=True):
    """Which protocol the brokers speak."""

    name: str


class Tolerance(Statement, frozen=True):
    """How many adjacent brokers may be lost at once."""

    count: int


class RoutingPolicy(Statement, frozen=True):
    """How sites route publications: `flooding` or `filtering`."""

    policy: str


class Ordering(Statement, frozen=True):
    """The guarantee of publications that name none."""

    guarantee: str


class LoggingLevel(Statement, frozen=True):
    """Whether the event log holds what clients do, or what brokers report as well."""

    level: LoggingLevelName


class Seed(Statement, frozen=True):
    """The seed of a simulation."""

    seed: int


class MachineLine(Statement, frozen=True):
    """A machine on which `holdfast agent` listens at that address."""

    name: str
    address: str


class BrokerLine(Statement, frozen=True):
    """A broker; the one without a parent is the root."""

    name: str
    parent: str | None = None
    machine: str = ""
    port: int | None = None
    latency_ms: float | None = None


class SiteLine(Statement, frozen=True):
    """A site: several brokers that stand in for each other, on these machines in turn."""

    name: str
    parent: str | None = None
    machines: tuple[str, ...] = ()
    replicas: int = 3

    def machine_of(self, number: int) -> str:
        """Where the broker of that number, from 1, runs; empty: on the machine of the script."""
        return self.machines[(number - 1) % len(self.machines)] if self.machines else ""


class ClientLine(Statement, frozen=True):
    """A client at a broker or a site: a publisher, a subscriber, or both."""

    name: str
    at: str
    machine: str = ""
    publishes: bool = False
    subscribes: bool = False


Setup = ProtocolName | Tolerance | RoutingPolicy | Ordering | LoggingLevel | Seed | MachineLine | BrokerLine | SiteLine
"""What has to be said before the first action: the cluster starts with it."""


# ---------------------------------------------------------------------------------------------------------- actions


class Subscribe(Statement, frozen=True):
    """The client subscribes; the script goes on when every broker knows, or at once with `NoWait`."""

    client: str
    pattern: str
    where: str = ""
    waits: bool = True


class Unsubscribe(Statement, frozen=True):
    """The client takes a subscription back."""

    client: str
    pattern: str
    where: str = ""


class Publish(Statement, frozen=True):
    """The client begins to publish so many messages; the script goes on at once."""

    client: str
    count: int
    topic: str
    interval_ms: float = 0.0
    guarantee: str = ""
    keys: tuple[str, ...] = ()
    attributes: dict[str, Value] = {}
    size_bytes: int = 0


class Crash(Statement, frozen=True):
    """The broker or client is killed."""

    node: str


class Freeze(Statement, frozen=True):
    """The broker or client stands still, with its connections open."""

    node: str


class Unfreeze(Statement, frozen=True):
    """A frozen broker or client goes on."""

    node: str


class Restart(Statement, frozen=True):
    """A broker that crashed is started again."""

    node: str


class Cut(Statement, frozen=True):
    """Nothing passes between the two brokers."""

    one: str
    other: str


class Part(Statement, frozen=True):
    """Nothing passes between these brokers and all the others."""

    side: tuple[str, ...]


class Heal(Statement, frozen=True):
    """Every cut is over."""


class Wait(Statement, frozen=True):
    """The script pauses."""

    ms: float


class WaitQuiet(Statement, frozen=True):
    """The script pauses until everything published has arrived and nobody waits for anything."""

    limit_ms: float | None = None


class Status(Statement, frozen=True):
    """Show the tree of brokers as it is now."""


# ----------------------------------------------------------------------------------------------------- expectations


class ExpectDelivered(Statement, frozen=True):
    """How many messages were delivered: to one client or to all, of one publisher, on some topics.

    Every expectation has to be fulfilled within `within_ms`; 0: now.
    """

    within_ms: float
    client: str
    comparison: Comparison
    count: int
    pattern: str = ""
    publisher: str = ""


class Run(Struct, frozen=True):
    """Consecutive messages of one publisher, by their numbers."""

    publisher: str
    first: int
    last: int


class ExpectOrder(Statement, frozen=True):
    """Exactly which messages a client got, in this order."""

    within_ms: float
    client: str
    runs: tuple[Run, ...]


class ExpectAudit(Statement, frozen=True):
    """What the audit has to say of the trace so far."""

    within_ms: float
    mark: AuditMark


class ExpectNode(Statement, frozen=True):
    """How a broker has to be."""

    within_ms: float
    node: str
    state: NodeState


Expectation = ExpectDelivered | ExpectOrder | ExpectAudit | ExpectNode
Action = (
    Subscribe
    | Unsubscribe
    | Publish
    | Crash
    | Freeze
    | Unfreeze
    | Restart
    | Cut
    | Part
    | Heal
    | Wait
    | WaitQuiet
    | Status
    | Expectation
)
