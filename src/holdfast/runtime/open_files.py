"""How many files, and with them connections, a process may have open.

Many systems give a process 1,024 of them and let it ask for more. A server that has not asked refuses the thousandth
client, so every server asks at its start.
"""

import resource

SPARE_FILES = 256
"""File descriptors that a process needs beside its connections: logs, state, the health port, the event loop."""


def allow_connections(count: int) -> int:
    """Ask the system for so many connections; returns how many this process may have now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return count
    wanted = count + SPARE_FILES
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return min(count, soft - SPARE_FILES)
