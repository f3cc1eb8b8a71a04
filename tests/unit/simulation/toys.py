"""Small nodes for testing the simulator itself: they talk and write, and keep a diary of what happened to them."""

from collections.abc import Callable
from typing import Any, ClassVar

from holdfast.model.messages import WIRE_VERSION, Frame, Hello, Ping, Pong
from holdfast.protocols.config import BrokerConfig
from holdfast.protocols.node import Connect, Effects, Send, SetTimer
from holdfast.simulation.latencies import Constant
from holdfast.simulation.network import NetworkConfig
from holdfast.simulation.world import Simulation

TICK = NetworkConfig(latency=Constant(1.0), client_latency=Constant(1.0))
"""One millisecond a frame: times can be computed by hand."""


def hello(name: str) -> Hello:
    return Hello(WIRE_VERSION, name, "broker", "toys", 1, False, 0, 0)


class Toy:
    """A broker that dials its parent, says hello, and does nothing else; `diary` has what its driver told it."""

    protocol: ClassVar[str] = "toy"
    guarantees: ClassVar[tuple[int, ...]] = ()

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        self.name, self.parent, self.incarnation = config.name, config.parent, incarnation
        self.diary: list[tuple[float, str, Any]] = []
        self.began = 0.0
        self.checked = self.settled = 0
        self.waits: list[str] = []

    def note(self, now: float, what: str, about: Any) -> None:
        self.diary.append((round(now - self.began, 9), what, about))

    def start(self, now: float) -> Effects:
        self.began = now
        return [Connect(self.parent)] if self.parent else []

    def peer_up(self, peer: str, now: float) -> Effects:
        self.note(now, "up", peer)
        return [Send(peer, hello(self.name))]

    def peer_down(self, peer: str, now: float) -> Effects:
        self.note(now, "down", peer)
        return []

    def receive(self, peer: str, frame: Frame, now: float) -> Effects:
        self.note(now, f"from {peer}", frame)
        return []

    def timer(self, name: str, now: float) -> Effects:
        self.note(now, "timer", name)
        return []

    def settle(self, _now: float) -> Effects:
        self.settled += 1
        return []

    def stop(self, _now: float) -> Effects:
        return []

    def check_invariants(self) -> None:
        self.checked += 1

    def waiting_for(self) -> list[str]:
        return self.waits

    def ready(self) -> bool:
        return True

    def status(self) -> dict[str, object]:
        return {}

    # ---- reading the diary

    def heard(self) -> list[int]:
        """The numbers of the pings and pongs that came, in order."""
        return [frame.number for _, _, frame in self.diary if isinstance(frame, Ping | Pong)]

    def when(self, what: str) -> list[float]:
        return [time for time, happened, _ in self.diary if happened == what]


class Talker(Toy):
    """Sends its peer numbered frames at even intervals once they know each other: pings up, pongs down."""

    gap_s = 0.0001
    last = 100

    def __init__(self, config: BrokerConfig, incarnation: int) -> None:
        super().__init__(config, incarnation)
        self.number = 0
        self.peer = ""

    def peer_up(self, peer: str, now: float) -> Effects:
        self.peer = peer
        return [*super().peer_up(peer, now), SetTimer("talk", self.gap_s)]

    def receive(self, peer: str, frame: Frame, now: float) -> Effects:
        super().receive(peer, frame, now)
        if isinstance(frame, Hello):
            self.peer = peer
            return [SetTimer("talk", self.gap_s)]
        return []

    def timer(self, name: str, now: float) -> Effects:
        super().timer(name, now)
        self.number += 1
        frame = Ping(self.number) if self.parent else Pong(self.number)
        again = [SetTimer("talk", self.gap_s)] if self.number < self.last else []
        return [Send(self.peer, frame), *again]


def toys(
    tree: str,
    kind: Callable[[BrokerConfig, int], Toy] = Toy,
    seed: int = 1,
    network: NetworkConfig = TICK,
    **options: Any,
) -> Simulation:
    """A world of toys."""
    return Simulation(tree, kind, seed, network=network, **options)


def toy(sim: Simulation, name: str) -> Any:
    """The toy itself: what kind it is the test knows."""
    return sim.node(name)
