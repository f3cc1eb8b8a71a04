"""Brokers that keep a diary of what comes to them from other brokers, for scenarios told message by message."""

from collections.abc import Callable
from typing import Any

from holdfast.model.messages import SessionMessage
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.links import Link
from holdfast.simulation.latencies import Constant
from holdfast.simulation.network import NetworkConfig
from holdfast.simulation.world import Simulation

STEADY = NetworkConfig(latency=Constant(1.0), client_latency=Constant(0.1))
"""A millisecond between brokers: who is first can be computed by hand."""


class Diary:
    """What every broker got from which other one, in order."""

    def __init__(self) -> None:
        self.pages: dict[str, list[tuple[str, SessionMessage]]] = {}

    def kept_by(self, kind: type) -> Callable[[BrokerConfig, int], Any]:
        """Brokers of that kind that write into this diary."""
        pages = self.pages

        class Diarist(kind):  # type: ignore[misc]  # any kind of broker
            def link_message(self, link: Link, message: SessionMessage) -> None:
                if link.kind == "broker":
                    pages.setdefault(self.name, []).append((link.peer, message))
                super().link_message(link, message)

        return Diarist

    def of(self, broker: str, *kinds: type) -> list[tuple[str, Any]]:
        """What that broker got of these kinds, with its sender."""
        return [(peer, message) for peer, message in self.pages.get(broker, []) if isinstance(message, kinds)]


def told(tree: str, kind: type, **options: Any) -> tuple[Simulation, Diary]:
    """A world of diarists."""
    diary = Diary()
    sim = Simulation(tree, diary.kept_by(kind), seed=1, network=STEADY, check_invariants=True, **options)
    return sim, diary
