"""Reliable topics in virtual time: participants on a bus that promises nothing, or above simulated clients."""

from holdfast.simulation.reliable.bus import BusConfig
from holdfast.simulation.reliable.checkers import Judgement
from holdfast.simulation.reliable.world import NotDrained, ReliableWorld

__all__ = ["BusConfig", "Judgement", "NotDrained", "ReliableWorld"]
