"""Causal barriers: messages that carry their direct dependencies (Prakash, Raynal, Singhal 1996; thesis 003, 2.4.2)."""

from holdfast.protocols.comparators.barriers.broker import BarriersBroker

__all__ = ["BarriersBroker"]
