"""Ginger: a tree of brokers, a subtree per topic, four guarantees (docs/papers/ginger.md)."""

from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.ginger.broker import GingerBroker
from holdfast.protocols.ginger.locks import LockingBroker
from holdfast.protocols.ginger.shaping import ShapingBroker

__all__ = ["GingerBroker", "LockingBroker", "ShapingBroker", "make_ginger"]


def make_ginger(config: BrokerConfig, incarnation: int) -> GingerBroker:
    """A broker that repairs the tree, or, without a tolerance, one that does not."""
    return ShapingBroker(config, incarnation) if config.tolerance else GingerBroker(config, incarnation)
