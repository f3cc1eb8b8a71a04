"""Every broker protocol on the bench, by name.

A machine is imported when the first broker of its protocol is made: commands that make none start faster by a third.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import Struct

from holdfast.model.errors import LocalMisuse
from holdfast.model.guarantees import CAUSAL, EVENTUAL, FIFO, GUARANTEES, TOTAL, GuaranteeError, check_guarantee
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.node import BrokerNode
from holdfast.protocols.on_demand import member


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
    awaits: bool = False
    """Whether the others wait for a broker that crashed until it is back: nobody takes its place."""


def _made(package: str, maker: str, config: BrokerConfig, incarnation: int, **settings: Any) -> BrokerNode:
    broker: BrokerNode = member(package, maker)(config, incarnation, **settings)
    return broker


def _hops(package: str, machine: str, tolerance: int) -> int:
    hops: int = member(package, machine).hops(tolerance)
    return hops


ONE_PUBLISHER = (EVENTUAL, FIFO)
NO_TOTAL = (EVENTUAL, FIFO, CAUSAL)
ALL = (EVENTUAL, FIFO, CAUSAL, TOTAL)

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
            "a broker tree with a subtree per topic; total order by the top of each subtree, and nobody waits",
            ALL,
            "connection resets; with a tolerance also lost brokers and parted networks",
            partial(_made, "ginger", "make_ginger"),
        ),
        ProtocolInfo(
            "ginger-locks",
            "the thesis' key locks taken literally, to see what they break",
            ALL,
            "connection resets; breaks total order by design",
            partial(_made, "ginger", "LockingBroker"),
        ),
        ProtocolInfo(
            "cbcast",
            "direct multicast to the brokers of a topic, a vector clock a group; every change of members is a flush",
            NO_TOTAL,
            "connection resets; with a tolerance also crashes, any number, if none is suspected wrongly: a broker's "
            "clients die with it",
            partial(_made, "comparators.cbcast", "CbcastBroker"),
            CRASHES,
            ("Cast", "Cast", "Cast", "FlushRequest", "Flushed", "Roster", "Copied", "Stable"),
            meshed=True,
            shares_fate=True,
        ),
        ProtocolInfo(
            "barriers",
            "direct messages to the brokers of a topic, which carry what each of them must have first",
            NO_TOTAL,
            "connection resets; brokers may join, and do not fail",
            partial(_made, "comparators.barriers", "BarriersBroker"),
            ("join",),
            meshed=True,
        ),
        ProtocolInfo(
            "delta-neighbourhood",
            "a broker tree that skips brokers out of reach; one message in transit a publisher, known by its way",
            ONE_PUBLISHER,
            "with a tolerance of f, f of any 2f+1 brokers on a path out of reach; they come back with what they knew",
            partial(_made, "comparators.delta_neighbourhood", "NeighbourhoodBroker"),
            ("away",),
            hops=partial(_hops, "comparators.delta_neighbourhood", "NeighbourhoodBroker"),
        ),
        ProtocolInfo(
            "delta",
            "a broker tree that goes past failed nodes at once and lets them return; operations are confirmed",
            ONE_PUBLISHER,
            "with a tolerance of d, any d failed nodes at a time, clients among them; they come back as they were",
            partial(_made, "delta", "DeltaBroker"),
            DELTA_FAILURES,
            hops=partial(_hops, "delta", "DeltaBroker"),
            grows=True,
            recovers=True,
        ),
        ProtocolInfo(
            "locamu",
            "causal multicast with identifiers that are valid nearby, on a tree with redundant links",
            NO_TOTAL,
            "with a tolerance of f, the absence of f brokers of any path of 2f+1; all of them come back",
            partial(_made, "locamu", "LocamuBroker"),
            ("absent", "join", "leave"),
            hops=partial(_hops, "locamu", "LocamuBroker"),
            grows=True,
            recovers=True,
            awaits=True,
        ),
        ProtocolInfo(
            "sesdad",
            "a tree of sites of several brokers; a publication waits for f answers of its site, and for no agreement",
            ONE_PUBLISHER,
            "with 2f+1 brokers a site, the loss of f brokers of each site at a time; more than that is waited for",
            partial(_made, "sesdad", "SesdadBroker"),
            ("crash", "designated", "chosen", "recover", "freeze", "cut", "majority", "storm"),
            ("Replicate", "Replicate", "Replicated", "Forward", "Forward", "Marks", "Propose", "Establish", "Announce"),
            sited=True,
        ),
        ProtocolInfo(
            "sesdad-agreement",
            "sites as in sesdad, with a majority's agreement on the place of every message: to compare with",
            ONE_PUBLISHER,
            "with 2f+1 brokers a site, the loss of f brokers of each site at a time; more than that is waited for",
            partial(_made, "sesdad", "SesdadBroker", agrees=True),
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
