"""Every broker protocol on the bench, by name."""

from collections.abc import Callable
from functools import partial

from msgspec import Struct

from holdfast.model.errors import LocalMisuse
from holdfast.model.guarantees import GUARANTEES, GuaranteeError, check_guarantee
from holdfast.protocols.comparators.barriers import BarriersBroker
from holdfast.protocols.comparators.cbcast import CbcastBroker
from holdfast.protocols.comparators.delta_neighbourhood import NeighbourhoodBroker
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.delta import DeltaBroker
from holdfast.protocols.ginger import GingerBroker, LockingBroker, make_ginger
from holdfast.protocols.locamu import LocamuBroker
from holdfast.protocols.node import BrokerNode
from holdfast.protocols.sesdad import SesdadBroker


class ProtocolError(LocalMisuse, ValueError):
    """A protocol that is not on the bench."""


class ProtocolInfo(Struct, frozen=True):
    """What a protocol declares of itself."""

    name: str
    summary: str
    guarantees: tuple[int, ...]
    tolerance: str
    make: Callable[[BrokerConfig, int], BrokerNode]
    survives: tuple[str, ...] | None = None
    """The classes of failures that its fault model includes, of those that a campaign knows; None: all of them."""
    says: tuple[str, ...] = ()
    """Messages in the midst of which a broker of it may die, for whoever makes it die there."""
    meshed: bool = False
    """Whether brokers send to each other directly: then any two of them have a link that may break."""
    shares_fate: bool = False
    """Whether a broker and its clients are one process of the model, and die together."""
    hops: Callable[[int], int] | None = None
    """How far around each broker it must be told the edges of the tree, by tolerance; `None` if not at all."""
    grows: bool = False
    """Whether such trees change all the same: leaves come, and leave for good."""
    sited: bool = False
    """Whether the nodes of its tree are sites of several brokers, and clients have sessions with all of them."""
    recovers: bool = False
    """Whether a broker goes on after a crash with what it wrote down, message by message: it needs a disk."""


CRASHES = ("crash", "root", "two", "adjacent", "recover", "join")
"""Failures without doubt: whoever is gone is gone, and comes back as somebody else."""

DELTA_FAILURES = (
    *("chain", "scatter", "oscillate", "joining", "subscribing", "recovering", "returning", "clients", "stay"),
    *("beyond", "absent", "join", "leave"),
)

PROTOCOLS: dict[str, ProtocolInfo] = {
    info.name: info
    for info in (
        ProtocolInfo(
            "ginger",
            "a broker tree with a subtree per topic; total order by a consistent cut per key",
            GingerBroker.guarantees,
            "connection resets; with a tolerance also lost brokers and parted networks",
            make_ginger,
        ),
        ProtocolInfo(
            "ginger-locks",
            "the thesis' key locks taken literally, to see what they break",
            LockingBroker.guarantees,
            "connection resets; breaks total order by design",
            LockingBroker,
        ),
        ProtocolInfo(
            "cbcast",
            "direct multicast to the brokers of a topic, a vector clock a group; every change of members is a flush",
            CbcastBroker.guarantees,
            "connection resets; with a tolerance also crashes, any number, if none is suspected wrongly: a broker's "
            "clients die with it",
            CbcastBroker,
            CRASHES,
            ("Cast", "Cast", "Cast", "FlushRequest", "Flushed", "Roster", "Copied", "Stable"),
            meshed=True,
            shares_fate=True,
        ),
        ProtocolInfo(
            "barriers",
            "direct messages to the brokers of a topic, which carry what each of them must have first",
            BarriersBroker.guarantees,
            "connection resets; brokers may join, and do not fail",
            BarriersBroker,
            ("join",),
            meshed=True,
        ),
        ProtocolInfo(
            "delta-neighbourhood",
            "a broker tree that skips brokers out of reach; one message in transit a publisher, known by its way",
            NeighbourhoodBroker.guarantees,
            "with a tolerance of f, f of any 2f+1 brokers on a path out of reach; they come back with what they knew",
            NeighbourhoodBroker,
            ("away",),
            hops=NeighbourhoodBroker.hops,
        ),
        ProtocolInfo(
            "delta",
            "a broker tree that goes past failed nodes at once and lets them return; operations are confirmed",
            DeltaBroker.guarantees,
            "with a tolerance of d, any d failed nodes at a time, clients among them; they come back as they were",
            DeltaBroker,
            DELTA_FAILURES,
            hops=DeltaBroker.hops,
            grows=True,
            recovers=True,
        ),
        ProtocolInfo(
            "locamu",
            "causal multicast with identifiers that are valid nearby, on a tree with redundant links",
            LocamuBroker.guarantees,
            "with a tolerance of f, the absence of f brokers of any path of 2f+1; all of them come back",
            LocamuBroker,
            ("absent", "join", "leave"),
            hops=LocamuBroker.hops,
            grows=True,
            recovers=True,
        ),
        ProtocolInfo(
            "sesdad",
            "a tree of sites of several brokers; a publication waits for f answers of its site, and for no agreement",
            SesdadBroker.guarantees,
            "with 2f+1 brokers a site, the loss of f brokers of each site at a time; more than that is waited for",
            SesdadBroker,
            ("crash", "designated", "chosen", "recover", "freeze", "cut", "majority", "storm"),
            ("Replicate", "Replicate", "Replicated", "Forward", "Forward", "Marks", "Propose", "Establish", "Announce"),
            sited=True,
        ),
        ProtocolInfo(
            "sesdad-agreement",
            "sites as in sesdad, with a majority's agreement on the place of every message: to compare with",
            SesdadBroker.guarantees,
            "with 2f+1 brokers a site, the loss of f brokers of each site at a time; more than that is waited for",
            partial(SesdadBroker, agrees=True),
            ("crash", "designated", "chosen", "recover", "freeze", "cut", "majority", "storm"),
            (
                "Replicate",
                "Assignment",
                "Assignment",
                "Agreed",
                "Forward",
                "Forward",
                "Marks",
                "Propose",
                "Establish",
                "Announce",
            ),
            sited=True,
        ),
    )
}


def find_protocol(name: str) -> ProtocolInfo:
    """The protocol of that name, or a sentence that lists the known ones."""
    info = PROTOCOLS.get(name)
    if info is None:
        raise ProtocolError(f"unknown protocol {name!r}: choose one of {', '.join(PROTOCOLS)}")
    return info


def make_broker(protocol: str, config: BrokerConfig, incarnation: int) -> BrokerNode:
    """A broker of that protocol."""
    return find_protocol(protocol).make(config, incarnation)


def check_supported(protocol: str, guarantee: str) -> None:
    """Refuse a guarantee that the protocol does not give."""
    info, rank = find_protocol(protocol), check_guarantee(guarantee).rank
    if rank not in info.guarantees:
        given = ", ".join(GUARANTEES[one] for one in info.guarantees)
        raise GuaranteeError(f"protocol {protocol} does not give {guarantee!r}: it gives {given}")
