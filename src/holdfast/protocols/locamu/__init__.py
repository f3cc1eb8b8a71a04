"""LoCaMu: localized causal multicast on a tree with redundant links (thesis: docs/papers/locamu.md)."""

from holdfast.protocols.locamu.broker import LocamuBroker
from holdfast.protocols.locamu.copies import reaches

__all__ = ["LocamuBroker", "reaches"]
