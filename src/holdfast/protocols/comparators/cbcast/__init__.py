"""CBCAST: causal multicast with a vector clock a group (Birman, Schiper, Stephenson 1991; thesis 003, 2.4.1)."""

from holdfast.protocols.comparators.cbcast.broker import CbcastBroker

__all__ = ["CbcastBroker"]
