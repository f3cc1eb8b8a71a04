"""Ginger: a tree of brokers, a subtree per topic, four guarantees (thesis 000, chapter 3; ERRATA, Ginger 12-14)."""

from holdfast.protocols.ginger.broker import GingerBroker, LockingBroker

__all__ = ["GingerBroker", "LockingBroker"]
