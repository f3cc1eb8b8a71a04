"""What holds publishers back while too much climbs from a broker, or waits there to.

The problem: what climbs is kept until it has turned. In a minority, and while it is in doubt whether a root is dead, no
`total` message turns, and whatever its publisher publishes later waits behind it: without a bound that grows for ever.

The idea: what goes up beyond the bound is taken, but not counted as consumed, so its publisher is granted nothing more
for it: it may send one window more, and waits. All of it is granted when half of the bound is free.

Clients alone are held back, by their own broker: what a neighbour sends up was taken from a publisher there. And only
those that publish what goes up: messages of others spread from here, and nobody waits for them.
"""

from collections import deque
from collections.abc import Callable

CLIMBING_BYTES_MAX = 16 << 20
"""What may climb from one broker, or wait there to, before it grants its publishers nothing more for what goes up."""


class Brake:
    """The publications at one broker for which nothing is granted yet."""

    def __init__(self) -> None:
        self._held: dict[str, deque[Callable[[], None]]] = {}
        """By client, what counts a publication as consumed, in the order in which they came."""

    def hold(self, client: str, consume: Callable[[], None]) -> None:
        """A publication of that client is granted nothing until the brake is eased."""
        self._held.setdefault(client, deque()).append(consume)

    def ease(self, climbing_bytes: int) -> None:
        """So much climbs still: if that is little enough, count as consumed what was held back."""
        if not self._held or 2 * climbing_bytes > CLIMBING_BYTES_MAX:
            return
        held, self._held = self._held, {}
        for messages in held.values():
            for consume in messages:
                consume()

    def forget(self, client: str) -> None:
        """A session is over: nobody is granted anything for it."""
        self._held.pop(client, None)

    def waiting_for(self) -> list[str]:
        """In words, which publishers wait."""
        room = f"until {CLIMBING_BYTES_MAX // 2:,} bytes or less climb from here, or wait to"
        return [f"room for what {client} publishes, {room}" for client in sorted(self._held)]
