"""What becomes of messages that an application does not read: each subscription chooses (`subscribe(slow=...)`).

`"block"`         publishers wait for the application. Nothing is dropped.
`"drop-oldest"`   what was not read makes room for what comes: the application reads the latest messages.
`"drop-newest"`   what comes is dropped until half of what waits is read.
`"disconnect"`    the subscription ends when too much waits for `slow_s` seconds, or far too much at once.

Under all but the first the client takes what its broker sends, and what the application does not read waits in the
client's process, up to `slow_bytes` for each subscription; so neither its broker, nor anybody else, nor another
subscription of the same client, waits for the application. What is dropped is told where it is missing, by a `Gap`.
What a process that stands still does not take waits at its broker: see `protocols.slow_readers`.
"""

from math import isfinite

from msgspec import Struct

from holdfast.model.errors import LocalMisuse
from holdfast.model.slow_messages import SLOW, SLOW_S, SLOW_S_MAX, Slow

SLOW_BYTES = 16 << 20
SLOW_BYTES_MAX = 1 << 40
FAR_TOO_MUCH = 4
"""A subscription that asks for `disconnect` ends at once when so many times `slow_bytes` wait."""


class Slowness(Struct, frozen=True):
    """What one subscription asks for."""

    policy: Slow = "disconnect"
    seconds: float = SLOW_S
    bytes_max: int = SLOW_BYTES


BLOCK = Slowness("block")
DEFAULT = Slowness()


def checked_slow(slow: object, slow_s: object, slow_bytes: object, durable: bool) -> Slowness:
    """The arguments of `subscribe`, of which `None` is the default; raises `LocalMisuse` if they make no sense."""
    given = {"slow": slow, "slow_s": slow_s, "slow_bytes": slow_bytes}
    named = ", ".join(f"{name}={value!r}" for name, value in given.items() if value is not None)
    if not named:
        return DEFAULT
    if durable:
        raise LocalMisuse(
            f"subscribe({named}): a durable subscription keeps nobody waiting and drops nothing, since what it does "
            "not read waits in the repositories: leave that out. Nothing was begun."
        )
    if slow is None:
        slow = DEFAULT.policy
    if not isinstance(slow, str) or slow not in SLOW:
        known = ", ".join(map(repr, SLOW))
        raise LocalMisuse(f"subscribe({named}): slow is one of {known}. Nothing was begun.")
    slow = SLOW[SLOW.index(slow)]  # What equals a policy may be of a type that no encoder knows.
    if slow_s is not None and slow != "disconnect":
        raise LocalMisuse(f"subscribe({named}): only slow='disconnect' has a time (slow_s). Nothing was begun.")
    if slow_bytes is not None and slow == "block":
        raise LocalMisuse(f"subscribe({named}): slow='block' keeps a window, and no slow_bytes. Nothing was begun.")
    return Slowness(slow, _checked_seconds(slow_s, named), _checked_bytes(slow_bytes, named))


def _checked_seconds(slow_s: object, named: str) -> float:
    if slow_s is None:
        return DEFAULT.seconds
    number = isinstance(slow_s, int | float) and not isinstance(slow_s, bool)
    if not number or not isfinite(slow_s) or not 0 < slow_s <= SLOW_S_MAX:  # type: ignore[arg-type, operator]
        raise LocalMisuse(f"subscribe({named}): slow_s is more than 0 and at most {SLOW_S_MAX:g} seconds.")
    return float(slow_s)  # type: ignore[arg-type]


def _checked_bytes(slow_bytes: object, named: str) -> int:
    if slow_bytes is None:
        return DEFAULT.bytes_max
    if not isinstance(slow_bytes, int) or isinstance(slow_bytes, bool) or not 1 <= slow_bytes <= SLOW_BYTES_MAX:
        raise LocalMisuse(f"subscribe({named}): slow_bytes is a number of bytes, from 1 to {SLOW_BYTES_MAX}.")
    return slow_bytes


class Allowance:
    """How much waits in a client's process for one subscription, and what that means."""

    __slots__ = ("bytes", "dropping", "slowness")

    def __init__(self, slowness: Slowness) -> None:
        self.slowness = slowness
        self.bytes = 0
        self.dropping = False
        """Whether new messages are dropped, until half of what waits is read."""

    def add(self, size: int) -> bool:
        """So much has come; whether it is not too much. Something may always wait, whatever the bound."""
        self.bytes += size
        return self.bytes == size or (self.bytes <= self.slowness.bytes_max and not self.dropping)

    def remove(self, size: int) -> None:
        self.bytes -= size
        if self.dropping and self.is_half_empty:
            self.dropping = False

    @property
    def is_half_empty(self) -> bool:
        return 2 * self.bytes <= self.slowness.bytes_max

    @property
    def is_far_too_much(self) -> bool:
        return self.bytes > FAR_TOO_MUCH * self.slowness.bytes_max

    @property
    def reason(self) -> str:
        """Why something was dropped, or the subscription ended."""
        return f"its application did not read what had come, and no more than {self.slowness.bytes_max} bytes may wait"
