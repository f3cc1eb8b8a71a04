"""Publications across the sessions of one client that comes back after a loss: `connect(reconnect=...)`.

When a session is lost, the client's publications are of three kinds. Those up to `accepted` are the broker's. Those
that have left and were not accepted *may or may not have happened*: nobody can tell, so whoever waits for them gets
`SessionLost`, which is indefinite. Those that have never left surely did not happen: they are carried over, and leave
in the next session, in order, before anything that is published there.

A publication keeps its number, unless the brokers cannot say which numbers of the name are free. Then the next session
numbers elsewhere, and what was carried over is renumbered; receipts keep the number that they were made with.
"""

from collections import deque
from collections.abc import Iterable

from msgspec import Struct

from holdfast.client.errors import SessionLost
from holdfast.model.batches import Batch

LOSSES_KEPT_MAX = 256
"""Of so many losses it is remembered which publications were in doubt."""


class Doubt(Struct, frozen=True):
    """Publications of which nobody knows whether they happened, and the error that says so."""

    first: int
    last: int
    lost: SessionLost


class PastSessions:
    """Which publications are in doubt, which wait for the next session, and which have another number there."""

    def __init__(self) -> None:
        self.floor = 1
        """The first number of the present session; what was published before it is not known there."""
        self.known = 0
        """The number up to which an answer has shown that the broker has everything, whether it has said so or not."""
        self.waiting: list[Batch] = []
        """What was published and has never left, in order."""
        self.next_seq = 1
        """The next number, while there is no session."""
        self._doubts: deque[Doubt] = deque(maxlen=LOSSES_KEPT_MAX)
        self._moved: deque[tuple[int, int, int]] = deque(maxlen=LOSSES_KEPT_MAX)
        self._lost: SessionLost | None = None
        self.unsaid: SessionLost | None = None
        """The last loss that left something in doubt, until somebody was told."""

    def lose(self, accepted: int, next_seq: int, never_sent: Iterable[Batch], lost: SessionLost) -> None:
        """The present session is over."""
        self.waiting += never_sent
        self.next_seq, self._lost = next_seq, lost
        accepted = max(accepted, self.known)
        first_waiting = self.waiting[0].first if self.waiting else next_seq
        if accepted + 1 < first_waiting:
            self._doubts.append(Doubt(accepted + 1, first_waiting - 1, lost))
            self.unsaid = lost

    def add(self, batch: Batch) -> int:
        """Publish while there is no session; returns the number of its first message."""
        first = self.next_seq
        self.waiting.append(batch)
        self.next_seq = first + batch.count
        return first

    @property
    def first_waiting(self) -> int:
        """The number of the first publication that waits, or of the next one: all before it are used."""
        return self.next_seq - sum(batch.count for batch in self.waiting)

    def begin(self, next_seq: int) -> list[Batch]:
        """A session has begun, which goes on with that number: what leaves first."""
        first, last = self.first_waiting, self.next_seq - 1
        waiting, self.waiting = self.waiting, []
        if waiting and next_seq != first:
            self._moved.append((first, last, next_seq - first))
        self.floor = next_seq
        return waiting

    def doubt_about(self, seq: int) -> SessionLost | None:
        """The loss that left that publication in doubt, if one did."""
        return next((one.lost for one in self._doubts if one.first <= seq <= one.last), None)

    def present(self, seq: int) -> int:
        """The number that a publication has now."""
        for first, last, by in self._moved:
            if first <= seq <= last:
                seq += by
        return seq

    def loss_before(self, seq: int) -> SessionLost | None:
        """The last loss, if that publication was made before it and is not in the present session."""
        return self._lost if seq < self.floor else None
