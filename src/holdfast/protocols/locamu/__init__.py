"""LoCaMu: localized causal multicast on a tree with redundant links (thesis 003; ERRATA, LoCaMu 1-7)."""

from holdfast.protocols.locamu.broker import LocamuBroker
from holdfast.protocols.locamu.copies import reaches

__all__ = ["LocamuBroker", "reaches"]
