"""Ports that nobody uses, for clusters that do not care which they get.

Asking the system for port 0 gives a port of the range from which it also takes the near end of every outgoing
connection: between closing it here and opening it in a broker, any connection of the machine may get it. So candidates
are drawn below that range and tried.
"""

import random
import socket
from collections.abc import Sequence

from holdfast.cluster.config import LOOPBACK
from holdfast.model.errors import ConfigError

LOWEST, HIGHEST = 12_000, 32_000
TRIES_MAX = 2_000


def free_ports(count: int, host: str = LOOPBACK) -> Sequence[int]:
    """That many different ports on which nobody listens now."""
    found: list[int] = []
    for port in random.SystemRandom().sample(range(LOWEST, HIGHEST), TRIES_MAX):
        if len(found) == count:
            break
        if _is_free(host, port):
            found.append(port)
    if len(found) < count:
        raise ConfigError(f"only {len(found)} of the {count} ports needed on {host} could be found free.")
    return found


def free_port_pairs(count: int, host: str = LOOPBACK) -> list[tuple[int, int]]:
    """Pairs of a listening and a health port for that many brokers."""
    ports = free_ports(2 * count, host)
    return list(zip(ports[:count], ports[count:], strict=True))


def _is_free(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
