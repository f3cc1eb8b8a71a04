"""Brokers one of whose parts is of another kind: a mutant takes a single rule away."""

from collections.abc import Callable

from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.ginger import RepairingBroker

MakeBroker = Callable[[BrokerConfig, int], RepairingBroker]


def with_parts(**kinds: type) -> MakeBroker:
    """Make brokers whose parts of these names are of these kinds, with the state of the parts that they replace."""

    def make(config: BrokerConfig, incarnation: int) -> RepairingBroker:
        broker = RepairingBroker(config, incarnation)
        for name, kind in kinds.items():
            part = getattr(broker, name)
            assert issubclass(kind, type(part)), f"{kind.__name__} is no {type(part).__name__}"
            part.__class__ = kind
        return broker

    return make
