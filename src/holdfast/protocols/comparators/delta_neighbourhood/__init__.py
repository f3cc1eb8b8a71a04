"""Delta-neighbourhood: fifo on a tree that skips absent brokers (Kazemzadeh, Jacobsen 2011; thesis 003, 4.3.2)."""

from holdfast.protocols.comparators.delta_neighbourhood.broker import NeighbourhoodBroker

__all__ = ["NeighbourhoodBroker"]
