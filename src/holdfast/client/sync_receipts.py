"""The blocking counterparts of receipts, for publications that go through the outbox of a synchronous client.

As long as nothing but the outbox takes numbers of the session, a publication's number is known when it is made. Durable
publications and subscriptions have a conversation of their own on the session: from the first of them on, numbers are
given on the loop's thread, and a receipt has its number when its publication has left the outbox.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from msgspec import Struct

from holdfast.client.arguments import patience
from holdfast.client.durable_publishers import DurableReceipt
from holdfast.client.receipts import By, Level, is_by_application
from holdfast.model.batches import Attributes
from holdfast.model.errors import HoldfastError, LocalMisuse, Refused


class ReceiptOutbox(Protocol):
    """What a receipt asks of the synchronous client that made it."""

    name: str

    def level_of(self, seq: int) -> Level: ...

    async def wait_accepted(self, seq: int) -> None: ...

    async def wait_held(self, seq: int) -> None: ...

    async def wait_confirmed(self, topic: str, seq: int, attributes: Attributes, taken: bool) -> bool: ...

    def has_crossed(self, seq: int) -> bool: ...

    def after_outbox(self, begin: Callable[[], Coroutine[Any, Any, Any]], timeout_s: float | None = None) -> Any:
        """Run a coroutine on the loop's thread when everything that was published before has left."""
        ...


class SyncReceipt(Struct, gc=False, eq=False):
    """The blocking counterpart of `Receipt`.

    In a client that also publishes or subscribes durably `seq` is 0 until the message has left.
    """

    client: ReceiptOutbox
    topic: str
    seq: int
    attributes: Attributes | None = None
    is_confirmed: bool = False
    is_taken: bool = False
    found_crossed: bool = False
    error: HoldfastError | None = None
    """Why it did not leave, if it did not."""

    @property
    def publisher(self) -> str:
        return self.client.name

    @property
    def level(self) -> Level:
        if isinstance(self.error, Refused):
            return "refused"
        if self.is_confirmed:
            return "taken" if self.is_taken else "confirmed"
        return self.client.level_of(self.seq) if self.seq else "sent"

    @property
    def crossed(self) -> bool:
        """Whether subscribers may have received the message on different sides of a `total` message on one of its keys.

        See `Receipt.crossed`.
        """
        return self.found_crossed or self.client.has_crossed(self.seq)

    def accepted(self, timeout_s: float | None = None) -> "SyncReceipt":
        """Wait until the broker has the message."""
        self._wait("accepted", lambda: self.client.wait_accepted(self.seq), timeout_s)
        return self

    def held(self, timeout_s: float | None = None) -> "SyncReceipt":
        """Wait until the losses that the cluster tolerates cannot lose the message."""
        self._wait("held", lambda: self.client.wait_held(self.seq), timeout_s)
        return self

    def stored(self, timeout_s: float | None = None) -> "SyncReceipt":  # noqa: ARG002 - durable ones wait
        """Wait until a repository has stored the message; for durable publications."""
        raise LocalMisuse(
            f"{self.publisher}#{self.seq} was published without durable=True: nobody was asked to store it."
        )

    def confirmed(self, timeout_s: float | None = None, by: By = "client") -> "SyncReceipt":
        """Wait until every subscriber to which the message is owed has it; see `Receipt.confirmed`."""
        taken, timeout_s = is_by_application(by), patience("confirmed", timeout_s)
        if not (self.is_taken if taken else self.is_confirmed):
            self._wait("taken" if taken else "confirmed", lambda: self._ask_everybody(taken), timeout_s)
            self.is_confirmed, self.is_taken = True, taken
        return self

    async def _ask_everybody(self, taken: bool) -> None:
        self.found_crossed = await self.client.wait_confirmed(self.topic, self.seq, self.attributes or {}, taken)

    def _wait(self, level: Level, begin: Callable[[], Coroutine[Any, Any, Any]], timeout_s: float | None) -> None:
        timeout_s = patience("confirmed" if level == "taken" else level, timeout_s)

        async def wait() -> None:
            if self.error is not None:
                raise self.error
            await begin()

        try:
            self.client.after_outbox(wait, timeout_s)
        except TimeoutError:
            if timeout_s is None:
                raise
            raise TimeoutError(
                f"{self.publisher}#{self.seq} on {self.topic!r} was not {level} within {timeout_s:g} s; it may be "
                "later, and you can ask again"
            ) from None

    def __repr__(self) -> str:
        return f"SyncReceipt({self.publisher}#{self.seq} on {self.topic!r}, {self.level})"


class SyncDurableReceipt(SyncReceipt, gc=False, eq=False):
    """The blocking counterpart of `DurableReceipt`."""

    made: DurableReceipt | None = None
    """The receipt on the loop's thread, when it has left the outbox."""

    @property
    def level(self) -> Level:
        if isinstance(self.error, Refused):
            return "refused"
        return self.made.level if self.made is not None else "sent"

    @property
    def storage(self) -> str:
        """How safely the message is stored, and by how many repositories; empty before it is stored."""
        return self.made.storage if self.made is not None else ""

    def stored(self, timeout_s: float | None = None) -> "SyncDurableReceipt":
        """Wait until a repository has stored it. Raises `Refused` if the stream's owner has not registered us."""
        self._ask("stored", lambda made: made.stored(), timeout_s)
        return self

    def accepted(self, timeout_s: float | None = None) -> "SyncDurableReceipt":
        self._ask("accepted", lambda made: made.accepted(), timeout_s)
        return self

    def held(self, timeout_s: float | None = None) -> "SyncDurableReceipt":
        self._ask("held", lambda made: made.held(), timeout_s)
        return self

    def confirmed(self, timeout_s: float | None = None, by: By = "client") -> "SyncDurableReceipt":
        self._ask("confirmed", lambda made: made.confirmed(by), timeout_s)
        return self

    def _ask(
        self, level: Level, begin: Callable[[DurableReceipt], Coroutine[Any, Any, Any]], timeout_s: float | None
    ) -> None:
        async def ask() -> None:
            assert self.made is not None, "a durable publication left the outbox without a receipt"
            await begin(self.made)
            self.seq = self.made.seq

        self._wait(level, ask, timeout_s)

    def __repr__(self) -> str:
        return f"SyncDurableReceipt({self.publisher}#{self.seq} on {self.topic!r}, {self.level})"
