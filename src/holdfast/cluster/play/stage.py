"""Where a play is played: what a stage can do, and what the lines of a script come down to on it."""

from typing import Protocol

from holdfast.cluster.play.cast import Cast
from holdfast.cluster.play.statements import (
    ClientLine,
    Crash,
    Cut,
    Freeze,
    Heal,
    Publish,
    Restart,
    Subscribe,
    Unfreeze,
    Unsubscribe,
)
from holdfast.cluster.status import ClusterStatus
from holdfast.model.errors import HoldfastError
from holdfast.model.trace import Event

Deed = Subscribe | Unsubscribe | Publish | Crash | Freeze | Unfreeze | Restart | Cut | Heal
"""What a stage carries out; everything else of a script is made of it."""

QUIET_LIMIT_S = 120.0
SESSION_S = 5.0
"""How long brokers of a play keep the session of a client that is away: who waits for a dead one waits that long."""
CONFIRMED_S = 10.0
"""How long a script waits for a subscription to be known everywhere, or to be gone, before it goes on."""


class NotQuietError(HoldfastError):
    """Raised when a stage has not come to rest in time: it says who waits for what."""


class Stage(Protocol):
    """The simulator, or real processes."""

    @property
    def name(self) -> str: ...

    @property
    def seed(self) -> int | None:
        """What a run in virtual time depends on beside the script; processes have none."""

    def now_ns(self) -> int:
        """The time on the clock of the trace."""

    def horizon_ns(self) -> int:
        """Everything that happened before this time is in `rows` already."""

    async def begin(self, cast: Cast) -> None:
        """Start everybody that the cast has so far; returns when they serve."""

    async def enter(self, client: ClientLine) -> None:
        """A client that comes later."""

    async def do(self, deed: Deed) -> str:
        """Carry it out; what is worth saying about it, if anything."""

    async def wait(self, ms: float) -> None: ...

    async def wait_quiet(self, limit_s: float) -> None:
        """Return when all that was published has arrived; raises `NotQuietError` if that takes too long."""

    async def status(self) -> ClusterStatus: ...

    async def frozen(self, node: str) -> bool: ...

    async def rows(self) -> list[Event]:
        """The trace so far, of everybody."""

    def judged(self, rows: list[Event]) -> list[Event]:
        """The trace as it is judged: clients that crashed are owed nothing more."""

    async def end(self) -> None:
        """Stop everybody; nothing is left, whatever happened before."""
