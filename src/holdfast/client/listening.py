"""A subscription without a reader: what arrives goes to a function, in the turn in which it arrives."""

from collections.abc import Callable

from holdfast.client.errors import SessionLost
from holdfast.client.subscriptions import Delivery, Source, Subscription
from holdfast.model.batches import Batch


class Listener(Subscription):
    """Hands every batch to `hear`. When the session is lost, `hear` is called no more; nobody is told.

    Whoever listens like this, the participants of reliable topics, can do without what it did not hear.
    """

    spills = True

    def __init__(self, source: Source, pattern: str, hear: Callable[[Batch], None]) -> None:
        super().__init__(source, pattern, "")
        self._hear = hear

    def miss(self, reason: str) -> None:
        """Its listener can do without what it did not hear."""

    def lose(self, lost: SessionLost) -> None:
        """The same."""
        self.end(lost)

    def arrive(self, batch: Batch, delivery: Delivery) -> None:
        self._hear(batch)
        self._source.batch_taken(delivery)
        self._source.batch_read(delivery)
