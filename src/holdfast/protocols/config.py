"""Settings that brokers and clients of every protocol share."""

from msgspec import Struct

SUBSCRIPTIONS_MAX = 10_000
SESSIONS_MAX = 10_000
DEGREE_MAX_LEAST = 3
"""A parent and two children: with fewer neighbours a tree is a chain."""


class LinkConfig(Struct, frozen=True):
    """One link session; both ends may have their own."""

    window_bytes: int = 1 << 20
    """Cost that may be under way or unconsumed in one direction: what credit is granted from."""
    backlog_bytes_max: int = 4 << 20
    """Cost that may wait to be sent to a peer before its node stops taking in what would add to it."""
    away_bytes_max: int = 16 << 20
    """Cost that is kept for a client without a connection. No other client waits; beyond this its session ends."""
    unacknowledged_bytes_max: int = 8 << 20
    """Cost that is sent and kept until the peer has acknowledged it, however much credit that gives: more waits."""
    ack_frames: int = 64
    ack_delay_s: float = 0.02
    """Otherwise an acknowledgement leaves after this time."""
    heartbeat_s: float = 2.0
    silence_s: float = 10.0
    """A connection that brings nothing for this long is given up and dialled again."""
    redial_s: float = 0.01
    redial_max_s: float = 2.0


class BrokerConfig(Struct, frozen=True):
    """Who a broker is and where it stands in the tree."""

    name: str
    parent: str | None = None
    cluster: str = "holdfast"
    link: LinkConfig = LinkConfig()
    session_keep_s: float = 30.0
    """How long a client that lost its connection may take to return to its session."""
    stall_s: float = 30.0
    """How long a client may leave a full buffer untouched before its session is ended."""
    sessions_max: int = SESSIONS_MAX
    """How many sessions a broker has at a time; more are refused."""
    subscriptions_max: int = SUBSCRIPTIONS_MAX
    """How many subscriptions a client may have at a time."""
    subscription_characters_max: int = 1 << 20
    """How long the patterns and filters of a client may be together: reading a filter takes a microsecond a character,
    at every broker, and keeping it some thirty bytes."""
    tolerance: int = 0
    """How many adjacent brokers may be lost before a repair has ended; 0 repairs nothing."""
    address: str = ""
    """Where others reach this broker."""
    suspect_s: float = 0.05
    """How long a neighbour may be without a connection before it is given up."""
    doubt_s: float = 1.0
    """How long a broker that finds it has slept accuses nobody: it may itself have been given up."""
    join_s: float = 2.0
    """How long those below a dead broker may take to join before its repair ends without them."""
    edges: tuple[tuple[str, str], ...] = ()
    """The tree around this broker, as (parent, child), for protocols that keep state about brokers nearby."""
    places: tuple[tuple[str, str], ...] = ()
    """Where these are reached, by name, for whoever joins below this broker and has to reach them, too."""
    brokers: int = 0
    """How many brokers the cluster is configured with: `total` needs a majority of them. 0: it needs none."""
    durable: bool = False
    """Whether it writes down what it needs after a crash: see `protocols.durable`."""
    seek_s: float = 0.5
    """How often the root of a part that was cut off looks for the others."""
    absent_s: float = 300.0
    """How long what those who did not come may lack is kept for them."""
    absent_bytes_max: int = 64 << 20
    """How much of it. Beyond either bound they are given up, and told so when they return."""
    degree_max: int = 0
    """How many neighbours a broker keeps: children beyond that are moved below others. 0: as many as there are."""
    move_pause_s: float = 0.5
    """How long a broker with too many neighbours waits before it moves one of them, and between two moves."""
    move_s: float = 0.5
    """How long the link with a child that is moved may stand still, beside round trips; then the move is given up."""
    site: str = ""
    """The site that this broker belongs to, where brokers form sites: see `protocols.sesdad`."""
    sites: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """That site and those next to it, each with its brokers."""
    upper_site: str = ""
    """Which of them is above ours in the tree of sites."""
    routing: str = "filtering"
    """`filtering` tells other sites what is wanted; `flooding` sends everything everywhere."""
    request_s: float = 0.0
    """How long a message is missing before it is asked for; 0 follows the round trips that are measured."""
    notify_s: float = 0.0
    """How long after the last message it is asked whether there is another one; 0 as above."""


def degree_problem(degree_max: int, tolerance: int) -> str:
    """Why that cannot be the number of neighbours that brokers keep; empty if it can."""
    if degree_max and degree_max < DEGREE_MAX_LEAST:
        return f"{degree_max} cannot be: expected 0 (any number of neighbours), or {DEGREE_MAX_LEAST} or more"
    if degree_max and not tolerance:
        return f"{degree_max} takes a tolerance of 1 or more: only brokers that repair the tree move each other"
    return ""


class ClientConfig(Struct, frozen=True):
    """Who a client is, and the name that its driver knows its broker by."""

    name: str
    broker: str = "broker"
    cluster: str = "holdfast"
    link: LinkConfig = LinkConfig()
    steady: LinkConfig | None = None
    """The link with a broker that tolerates no loss, if it is to be another one: nobody else could take the client in,
    so the silence of that broker need not be noticed at once."""
    move_s: float = 0.05
    """How long to try to return to its broker before another one is asked."""
    give_up_s: float = 30.0
    """How long to try to return to a session before it counts as ended."""
    patient: bool = True
    """Whether a total publication waits while no majority of the brokers can be reached; else it is refused."""
    site: tuple[str, ...] = ()
    """The brokers of its site, where it has sessions with several: see `protocols.sesdad`."""
    request_s: float = 0.0
    notify_s: float = 0.0
    """As in `BrokerConfig`."""
    stride: int = 0
    """Drawn for each session of a name: see `model.messages.Recall`."""
