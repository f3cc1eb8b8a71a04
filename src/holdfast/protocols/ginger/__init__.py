"""Ginger: a tree of brokers, a subtree per topic, four guarantees (docs/papers/ginger.md)."""

from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.ginger.broker import GingerBroker
from holdfast.protocols.ginger.locks import LockingBroker
from holdfast.protocols.ginger.repairing_broker import RepairingBroker

__all__ = ["GingerBroker", "LockingBroker", "RepairingBroker", "make_ginger"]


def make_ginger(config: BrokerConfig, incarnation: int) -> GingerBroker:
    """A broker that repairs the tree, or, without a tolerance, one that does not."""
    return RepairingBroker(config, incarnation) if config.tolerance else GingerBroker(config, incarnation)
