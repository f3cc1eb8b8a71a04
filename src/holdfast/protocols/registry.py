"""Every broker protocol on the bench, by name."""

from collections.abc import Callable

from msgspec import Struct

from holdfast.model.errors import LocalMisuse
from holdfast.model.guarantees import GUARANTEES, GuaranteeError, check_guarantee
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.ginger import GingerBroker, LockingBroker, make_ginger
from holdfast.protocols.node import BrokerNode


class ProtocolError(LocalMisuse, ValueError):
    """A protocol that is not on the bench."""


class ProtocolInfo(Struct, frozen=True):
    """What a protocol declares of itself."""

    name: str
    summary: str
    guarantees: tuple[int, ...]
    tolerance: str
    make: Callable[[BrokerConfig, int], BrokerNode]


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
