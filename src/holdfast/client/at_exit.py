"""Clients without asyncio that nobody has closed when the program ends: what they have published leaves first.

The thread of such a client ends with the program, and an outbox would end with the thread: a program that publishes and
ends would lose its messages without a word. What is left behind in a forked child is its parent's, and stays.
"""

import atexit
from typing import Protocol
from weakref import WeakSet

CLOSE_S = 20.0
"""How long the end of a program waits for one client; twice the time in which a client that is closed gives up."""


class Closable(Protocol):
    def close_at_exit(self) -> None: ...


_open: WeakSet[Closable] = WeakSet()


def remember(client: Closable) -> None:
    """The client is open: it is closed when the program ends, unless it is forgotten before."""
    _open.add(client)


def forget(client: Closable) -> None:
    _open.discard(client)


def _close_all() -> None:
    for client in list(_open):
        client.close_at_exit()


atexit.register(_close_all)
