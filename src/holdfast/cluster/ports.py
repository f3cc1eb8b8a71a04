"""Ports that nobody uses, for clusters that do not care which they get.

Asking the system for port 0 gives a port of the range from which it also takes the near end of every outgoing
connection: between closing it here and opening it in a broker, any connection of the machine may get it. So candidates
are drawn below that range and tried.

Two processes that look for ports at the same time must not find the same ones. So a process first claims a block by
keeping the block's first port bound for as long as it lives, and then hands out the others, each once.
"""

import atexit
import random
import socket
from collections.abc import Iterator, Sequence
from itertools import islice

from holdfast.cluster.config import LOOPBACK
from holdfast.model.errors import ConfigError

LOWEST, HIGHEST = 12_000, 32_000
BLOCK_PORTS = 50


def free_ports(count: int, host: str = LOOPBACK) -> Sequence[int]:
    """That many different ports on which nobody listens now, and which nobody else is given meanwhile."""
    found = list(islice(_ports.get(host, iter(())), count))
    if len(found) < count:
        # The first call, or every block was used up: begin again with what others have left by now.
        _ports[host] = _from_blocks(host)
        found += islice(_ports[host], count - len(found))
    if len(found) < count:
        raise ConfigError(f"only {len(found)} of the {count} ports needed on {host} could be found free.")
    return found


def free_port_pairs(count: int, host: str = LOOPBACK) -> list[tuple[int, int]]:
    """Pairs of a listening and a health port for that many brokers."""
    ports = free_ports(2 * count, host)
    return list(zip(ports[:count], ports[count:], strict=True))


_ports: dict[str, Iterator[int]] = {}
_claims: list[socket.socket] = []


@atexit.register
def _give_up_claims() -> None:
    """At the end of the process; what is left open then is warned of, in whichever order modules go."""
    while _claims:
        _claims.pop().close()


def _from_blocks(host: str) -> Iterator[int]:
    starts = list(range(LOWEST, HIGHEST, BLOCK_PORTS))
    random.SystemRandom().shuffle(starts)
    for start in starts:
        claim = _bound(host, start, shared=False)
        if claim is not None:
            _claims.append(claim)
            yield from (port for port in range(start + 1, start + BLOCK_PORTS) if _is_free(host, port))


def _is_free(host: str, port: int) -> bool:
    probe = _bound(host, port, shared=True)
    if probe is not None:
        probe.close()
    return probe is not None


def _bound(host: str, port: int, *, shared: bool) -> socket.socket | None:
    """A socket with that address, or `None` if somebody has it; `shared` disregards connections that have ended."""
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    if shared:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError:
        made.close()
        return None
    return made
