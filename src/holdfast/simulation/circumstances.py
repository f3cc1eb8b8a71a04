"""What a random run takes place in: a network, sessions on it, and how soon brokers lose patience with each other.

Runs are `hasty` where brokers pass over whoever is absent: then it does no harm to take somebody for absent.
"""

from holdfast.protocols.config import LinkConfig
from holdfast.simulation.failures import PARTED, RETURNING_CLASSES, SILENCE_S, SILENCE_SHORT_S, SILENT, FailureClass
from holdfast.simulation.kernel import stream
from holdfast.simulation.latencies import Constant, Exponential, Latency, Lognormal, Uniform
from holdfast.simulation.network import NetworkConfig

SPEEDS = (0.3, 1.0, 1.0, 3.0, 8.0)
SUSPECT_SURELY_S = 5.0
"""Longer than it takes to connect again in the slowest of these networks. Those who knew the dead dial whoever comes in
its place, and these calls may end connections that it has begun itself."""


def network_of(seed: int, hasty: bool, failure: FailureClass | None = None) -> NetworkConfig:
    """Every direction of every link has its own speed, mostly; some networks are narrow.

    A frame may take so long that its sender is given up: one more loss. Where the network is parted, that is one too
    many. The broker that keeps messages for the others is the only one that does, and has yet to hand them over when
    the others are back. Where one link is cut, the brokers below it come to the repair over slow links: with a
    tolerance of 1, the loss of one of them before it is taken in ends the sessions of its clients (`cut` 30430: 2.7 s).
    """
    chance = stream(seed, "network")
    latencies: tuple[Latency, ...] = (
        Constant(2.0),
        Uniform(1.0, 5.0),
        Exponential(3.0),
        Exponential(10.0, 1.0),
        Lognormal(4.0, 1.0),
    )
    return NetworkConfig(
        latency=chance.choice(latencies),
        client_latency=chance.choice((Uniform(0.1, 1.0), Exponential(2.0))),
        speeds=SPEEDS if chance.random() < 0.8 else (),
        bytes_per_s=chance.choice((None, None, None, None if hasty else 20_000.0)),
        codec_check=chance.random() < 0.1,
        latency_ms_max=SILENCE_S / 2 * 1000 if failure in PARTED else None,
    )


def suspect_s_of(seed: int, failure: FailureClass | None, hasty: bool, unerring: bool = False) -> float | None:
    """Where suspicions do no harm, they may come early: many will be false. Where none may be, they come late."""
    if unerring and failure == "recover":
        return SUSPECT_SURELY_S
    if failure not in RETURNING_CLASSES and not hasty:
        return None
    return stream(seed, "suspicions").choice((0.002, 0.05, 0.3))


def session_of(seed: int, failure: FailureClass | None, hasty: bool) -> LinkConfig:
    """Small windows make links wait for credit, few frames an acknowledgement; both meet more interleavings."""
    chance = stream(seed, "session")
    heartbeat_s, silence_s = _silence(failure, hasty)
    return LinkConfig(
        window_bytes=chance.choice((1 << 20, 1 << 20, 4096, 400)),
        ack_frames=chance.choice((64, 8, 1)),
        ack_delay_s=chance.choice((0.02, 0.001)),
        redial_s=0.01,
        heartbeat_s=heartbeat_s,
        silence_s=silence_s,
        redial_max_s=0.1,  # A deep tree comes up level by level, each waiting for the next try of the one below.
    )


def _silence(failure: FailureClass | None, hasty: bool) -> tuple[float, float]:
    """How often a link is asked whether it is there, and after which silence it is taken to have ended."""
    if hasty:
        return SILENCE_SHORT_S * 0.8, SILENCE_SHORT_S
    if failure in SILENT:
        return SILENCE_S / 5, SILENCE_S
    return LinkConfig().heartbeat_s, LinkConfig().silence_s
